/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RANKS_COMMUNICATOR_H
#define ORR_ENGINE_RANKS_COMMUNICATOR_H

#include <orrery/arena.h>
#include <orrery/dtype.h>

#include "io/transport/transport.h"

/* Some of the ranks, who speak with one another on one channel of a transport. Sums are made in
 * the order of the members, so that they do not depend on who is fastest: the same bits always, and
 * on every member. bf16 and fp16 are added in fp32 and rounded once. */
typedef struct orr_communicator {
    orr_transport *transport;
    const uint32_t *members; /* shape (n): ranks, in order */
    uint32_t n, me;          /* me: index in members       */
    uint32_t channel;
    void *scratch; /* room for what comes in      */
    size_t scratch_bytes;
    const void **parts; /* shape (n): what is summed   */
} orr_communicator;
/* In the arena; `scratch_bytes` of room, at least 64 KiB. INVALID: this rank is no member. */
orr_status orr_communicator_make(orr_transport *transport, const uint32_t *members, uint32_t n,
                                 uint32_t channel, size_t scratch_bytes, orr_arena *arena,
                                 orr_communicator **ret, orr_error *err) ORR_MUST_CHECK;

/* Numbers that lie one behind another. In place (in == out) where said. Errors: of the transport;
 * UNSUPPORTED: sums of a dtype that has none (fp8, fp4). */
orr_status orr_all_reduce(orr_communicator *c, const void *in, void *out, int64_t n,
                          orr_dtype dtype, orr_error *err) ORR_MUST_CHECK; /* in place allowed */
/* out has the n numbers of each member, one member behind the other; in may be this one's place
 * there. */
orr_status orr_all_gather(orr_communicator *c, const void *in, void *out, int64_t n,
                          orr_dtype dtype, orr_error *err) ORR_MUST_CHECK;
/* in has members x n numbers; out the sum of the members' part `me`. */
orr_status orr_reduce_scatter(orr_communicator *c, const void *in, void *out, int64_t n,
                              orr_dtype dtype, orr_error *err) ORR_MUST_CHECK;
/* Part i of in goes to member i, whose part for this rank becomes part i of out. Bytes of each. */
orr_status orr_all_to_all(orr_communicator *c, const void *in, const int64_t *in_bytes, void *out,
                          const int64_t *out_bytes, orr_error *err) ORR_MUST_CHECK;
orr_status orr_broadcast(orr_communicator *c, void *data, size_t bytes, uint32_t root,
                         orr_error *err) ORR_MUST_CHECK;
orr_status orr_barrier(orr_communicator *c, orr_error *err) ORR_MUST_CHECK;
/* To one member, from another: as orr_exchange(). Members; ORR_NONE: none. */
orr_status orr_send_receive(orr_communicator *c, uint32_t to, const void *out, size_t out_bytes,
                            uint32_t from, void *in, size_t in_bytes,
                            orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_RANKS_COMMUNICATOR_H */
