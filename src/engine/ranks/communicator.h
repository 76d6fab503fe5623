/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RANKS_COMMUNICATOR_H
#define ORR_ENGINE_RANKS_COMMUNICATOR_H

#include <orrery/arena.h>
#include <orrery/dtype.h>

#include "io/transport/transport.h"

/* A communicator (MPI's term): a group of ranks on one channel of a transport. Reductions are
 * computed in member order, so results are bitwise the same always and on every member, whoever is
 * fastest. bf16 and fp16 are summed in fp32 and rounded once. */
typedef struct orr_communicator {
    orr_transport *transport;
    const uint32_t *members; /* shape (n): ranks, ascending */
    uint32_t n, me;          /* me: index of this rank in members */
    uint32_t channel;
    void *scratch; /* receive buffer */
    size_t scratch_bytes;
    const void **parts; /* shape (n): addends of the reduction */
} orr_communicator;
/* In the arena, with `scratch_bytes` of receive buffer, at least 64 KiB. INVALID: this rank is not
 * a member. */
orr_status orr_communicator_make(orr_transport *transport, const uint32_t *members, uint32_t n,
                                 uint32_t channel, size_t scratch_bytes, orr_arena *arena,
                                 orr_communicator **ret, orr_error *err) ORR_MUST_CHECK;

/* Collectives on contiguous numbers. In place (in == out) where stated. Errors: of the transport;
 * UNSUPPORTED: reductions of a dtype that has none (fp8, fp4). */
orr_status orr_all_reduce(orr_communicator *c, const void *in, void *out, int64_t n,
                          orr_dtype dtype, orr_error *err) ORR_MUST_CHECK; /* in place allowed */
/* out has the n numbers of each member in member order; in may be this member's place there. */
orr_status orr_all_gather(orr_communicator *c, const void *in, void *out, int64_t n,
                          orr_dtype dtype, orr_error *err) ORR_MUST_CHECK;
/* in has members x n numbers; out is the sum over members of their part `me`. */
orr_status orr_reduce_scatter(orr_communicator *c, const void *in, void *out, int64_t n,
                              orr_dtype dtype, orr_error *err) ORR_MUST_CHECK;
/* All-to-all: part i of in goes to member i; part i of out is what member i sent here. Bytes of
 * each part. */
orr_status orr_all_to_all(orr_communicator *c, const void *in, const int64_t *in_bytes, void *out,
                          const int64_t *out_bytes, orr_error *err) ORR_MUST_CHECK;
orr_status orr_broadcast(orr_communicator *c, void *data, size_t bytes, uint32_t root,
                         orr_error *err) ORR_MUST_CHECK;
orr_status orr_barrier(orr_communicator *c, orr_error *err) ORR_MUST_CHECK;
/* Sends to one member while receiving from another, as orr_exchange(). ORR_NONE: no such member. */
orr_status orr_send_receive(orr_communicator *c, uint32_t to, const void *out, size_t out_bytes,
                            uint32_t from, void *in, size_t in_bytes,
                            orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_RANKS_COMMUNICATOR_H */
