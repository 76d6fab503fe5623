/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_RING_RING_H
#define ORR_TEAM_RING_RING_H

#include <orrery/team.h>

#include "io/net/net.h"

/* All-reduce over a ring of N members, one of each replica: the data path. It moves and adds,
 * allocates nothing once it is formed, and knows nothing of membership: that is told.
 *
 * A buffer of n numbers is cut into partitions of N shards of one chunk each (S bytes; the last
 * partition has smaller shards, whole numbers each). A partition goes N-1 rounds of reduce-scatter
 * and N-1 of all-gather; up to C partitions are under way, over all operations posted, so that at
 * most S x C bytes are in flight between two members. Round r of reduce-scatter: a member sends
 * shard (me - r) mod N to its right and adds shard (me - 1 - r) mod N of its own input to what
 * comes from its left; so every shard is summed in one order and the all-gather copies bytes: all
 * members end with the same ones. A forwarded chunk keeps its hash from the member that made it.
 *
 * Small operations (up to small_bytes) send their all-gather both ways: N-1 + ceil((N-1)/2) rounds.
 *
 * Source: FT-HSDP, arXiv:2602.00277 (partitions, window as congestion control); Patarasu and Yuan
 * 2009 (ring).
 *
 * The memory of an operation is the caller's: `in` is read and never written, so that a broken
 * attempt is made again from it; `out` holds partial sums until done. They must not overlap, and
 * are left alone until the operation is reduced, or step(), leave() or free() was called; after
 * broken() too.
 *
 * Callbacks come from within the net's poll only, never from within these functions, and may call
 * any of them but free(). Threads: the net's. */
typedef struct orr_ring orr_ring;

enum { ORR_RING_MAX_MEMBERS = 64 };

static inline size_t orr_ring_dtype_bytes(orr_team_dtype dtype)
{
    const bool is_narrow = dtype == ORR_TEAM_BF16 || dtype == ORR_TEAM_FP16;
    return dtype == ORR_TEAM_FP64 ? 8 : is_narrow ? 2 : 4;
}

typedef struct orr_ring_options {
    uint32_t chunk_bytes; /* S; 0: 256 KiB, a multiple of 8 up to 1 GiB */
    uint32_t window;      /* C, up to 4096; 0: 8                        */
    uint32_t streams;     /* connections to a neighbour, up to 16, partitions take rounds; 0: 1 */
    uint32_t small_bytes; /* 0: 64 KiB                      */
} orr_ring_options;

/* Adds and copies numbers; memory of devices plugs in here. */
typedef struct orr_ring_reducer {
    void *ctx;
    /* out[i] = a[i] + b[i]; b NULL: out = a; a and b NULL: zeros. Both may be out. */
    void (*add)(void *ctx, orr_team_dtype dtype, void *out, const void *a, const void *b, size_t n);
    /* Of BF16 and FP16: out[i] = a[i] + b[i] in fp32; b NULL: a. `b` has the dtype, `a` and `out`
     * too, or are fp32 where it says so. NULL: such operations are refused. */
    void (*add_wide)(void *ctx, orr_team_dtype dtype, void *out, bool out_fp32, const void *a,
                     bool a_fp32, const void *b, size_t n);
} orr_ring_reducer;
extern const orr_ring_reducer orr_ring_reducer_host;

typedef struct orr_ring_callbacks {
    void *ctx;
    void (*reduced)(void *ctx, uint32_t op); /* in the order of posting: `out` is final here and
                                              * nothing of `in` or `out` is still to be sent  */
    /* The attempt is over: a neighbour is gone, or said what cannot be. The ring is quiet until it
     * is formed again. `member`: index. */
    void (*broken)(void *ctx, uint32_t member, const char *why);
} orr_ring_callbacks;

/* Listens at `where` (as orr_net.listen). `options`, `reducer` NULL: zeros, the host's. Errors:
 * INVALID: options that cannot be; NO_MEMORY; those of listen(). */
orr_status orr_ring_new(orr_net *net, const char *where, const orr_ring_options *options,
                        const orr_ring_reducer *reducer, const orr_ring_callbacks *user,
                        orr_ring **ret, orr_error *err) ORR_MUST_CHECK;
void orr_ring_free(orr_ring *ring); /* NULL is allowed */
const char *orr_ring_address(const orr_ring *ring);

/* A new attempt in a larger epoch: connections of the one before are closed, frames of older epochs
 * dropped, and what is posted is reduced from the start, and told of again; if `step` is another
 * than the one it was posted in, it is forgotten. `addresses`: shape (n), of rings; copied. n 1:
 * operations are copies. Errors: LIMIT: more than ORR_RING_MAX_MEMBERS; INVALID: no such member, an
 * epoch that is not larger: nothing has changed. NO_MEMORY, those of connect(), LIMIT: 2^32
 * partitions: the ring is out of every team. */
orr_status orr_ring_form(orr_ring *ring, uint64_t epoch, uint64_t step,
                         const char *const *addresses, uint32_t n, uint32_t me,
                         orr_error *err) ORR_MUST_CHECK;
/* Out of every team until it is formed again; what is posted stays so. */
void orr_ring_leave(orr_ring *ring);
/* The next operation of the step: they are numbered from 0 in the order of posting, which is the
 * same on all members. `in` NULL: zeros. May be posted out of a team too. Errors, and nothing is
 * posted: NO_MEMORY; INVALID: no such dtype, no `out`; LIMIT: 2^32 partitions. */
orr_status orr_ring_post(orr_ring *ring, orr_team_dtype dtype, const void *in, void *out, size_t n,
                         uint32_t *ret_op, orr_error *err) ORR_MUST_CHECK;
/* Another step: its operations are numbered anew. The connections stay; frames of other steps are
 * dropped, but those of the next step that come early wait for it. With operations that are not
 * reduced it is leave() too. */
void orr_ring_step(orr_ring *ring, uint64_t step);

typedef struct orr_ring_progress {
    uint32_t posted, reduced; /* operations of the step                      */
    uint64_t sent, received;  /* data frames of the attempt                  */
} orr_ring_progress;
orr_ring_progress orr_ring_progress_of(const orr_ring *ring);
/* Of all bytes of all operations of this step: the same on all members whose `out`s are the same; 0
 * of none. Made of the hashes of the gathered chunks; meaningful once all that was posted is
 * reduced. */
uint64_t orr_ring_digest(const orr_ring *ring);

#endif /* ORR_TEAM_RING_RING_H */
