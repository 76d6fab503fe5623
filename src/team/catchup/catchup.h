/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_CATCHUP_CATCHUP_H
#define ORR_TEAM_CATCHUP_CATCHUP_H

#include <orrery/team.h>

#include "io/net/net.h"

/* Peer-to-peer state transfer: a member that comes back fetches the state after a step from those
 * that have it, in parallel, while they go on training.
 *
 * The state is a list of spans of memory, the same on all members in number and length; end to end
 * they are cut into chunks. Provider i of n serves chunks i, i + n, ..., and any other that it is
 * asked for while the state is still what was offered. Frames carry hashes, so what arrives is what
 * was sent. */
enum { ORR_CATCHUP_CHUNK_BYTES = 1 << 20, ORR_CATCHUP_MAX_PROVIDERS = 64 };

/* The provider. Its net may be driven by a thread of its own: offer, keep, withdraw and counts_of
 * may then be called from any other, and take turns; new and free belong to the thread that polls.
 * While keep() copies, requests wait, the polling thread does not. */
typedef struct orr_state_provider orr_state_provider;
orr_status orr_state_provider_new(orr_net *net, const char *where, const orr_team_span *spans,
                                  uint32_t n, orr_state_provider **ret,
                                  orr_error *err) ORR_MUST_CHECK;
void orr_state_provider_free(orr_state_provider *provider); /* NULL is allowed */
const char *orr_state_provider_address(const orr_state_provider *provider);
/* The spans hold the state after `step`, and will until keep(). `receivers`: members that will ask
 * for it, 0: nobody (then keep() costs nothing). This is provider `index` of `n`. An offer replaces
 * the one before, unless it is of the same step: then who asked goes on. Requests for a step that
 * is not offered yet wait until it is, or until a later one is: then they are told that it is gone.
 */
void orr_state_provider_offer(orr_state_provider *provider, uint64_t step, uint32_t receivers,
                              uint32_t index, uint32_t n);
/* The spans are about to change: copies those chunks of this provider's part that some receiver
 * does not have yet, and serves them from the copy from now on. NO_MEMORY: receivers are told that
 * the state is gone. */
orr_status orr_state_provider_snapshot(orr_state_provider *provider, orr_error *err) ORR_MUST_CHECK;
/* Nobody asks any more: the copy is freed. */
void orr_state_provider_withdraw(orr_state_provider *provider);
typedef struct orr_state_provider_counts {
    uint64_t served_bytes, kept_bytes; /* since it was made */
    int64_t keep_ns;                   /* the longest keep() */
} orr_state_provider_counts;
orr_state_provider_counts orr_state_provider_counts_of(const orr_state_provider *provider);

/* The receiver. */
typedef struct orr_state_receiver orr_state_receiver;
typedef struct orr_state_receiver_callbacks {
    void *ctx;
    void (*whole)(void *ctx);                 /* the spans hold the state                      */
    void (*lost)(void *ctx, const char *why); /* no provider has what is missing; begin() again */
} orr_state_receiver_callbacks;
/* Spans are written as chunks arrive. `window`: chunks asked of a provider at a time; 0: 4. */
orr_status orr_state_receiver_new(orr_net *net, const orr_team_span *spans, uint32_t n,
                                  uint32_t window, const orr_state_receiver_callbacks *user,
                                  orr_state_receiver **ret, orr_error *err) ORR_MUST_CHECK;
void orr_state_receiver_free(orr_state_receiver *receiver); /* NULL is allowed */
/* The state after `step` from these providers, in the order of their indices. Chunks that it has of
 * the same step stay; of another, or after whole(), it begins anew. A provider that closes, or owes
 * an answer and is silent for `silence_ns` (as one that has not offered the step yet), is replaced
 * by the others. One that cannot be connected to is lost like any other. whole() and lost() are not
 * called from here; they may call anything of the receiver. Errors: INVALID: no provider; LIMIT:
 * too many; NO_MEMORY; those of orr_net.connect, if it fails for all. */
orr_status orr_state_receiver_begin(orr_state_receiver *receiver, uint64_t step,
                                    const char *const *addresses, uint32_t n, int64_t silence_ns,
                                    orr_error *err) ORR_MUST_CHECK;
void orr_state_receiver_stop(orr_state_receiver *receiver);
void orr_state_receiver_discard(
    orr_state_receiver *receiver); /* and what has come is of no use: the spans were written to */
typedef struct orr_state_receiver_progress {
    uint64_t chunks, had; /* of the state; arrived */
    uint64_t bytes;       /* fetched since it was made */
} orr_state_receiver_progress;
orr_state_receiver_progress orr_state_receiver_progress_of(const orr_state_receiver *receiver);

#endif /* ORR_TEAM_CATCHUP_CATCHUP_H */
