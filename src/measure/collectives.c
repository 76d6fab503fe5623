/* SPDX-License-Identifier: Apache-2.0 */
/* Collectives among processes of this machine, as the engine makes them. */
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/ranks/launch.h"
#include "engine/ranks/communicator.h"
#include "measure/machine.h"
#include "measure/timing.h"

enum { SIZES_MAX = 8, KINDS = 5, RUNS = 15, RUNS_QUICK = 5, SCRATCH_BYTES = 16 << 20 };
#define DEADLINE_NS 60000000000

static const uint8_t kinds[KINDS] = {ORR_COLL_ALL_REDUCE, ORR_COLL_ALL_GATHER,
                                     ORR_COLL_REDUCE_SCATTER, ORR_COLL_ALL_TO_ALL, ORR_COLL_SEND};

typedef struct collective_runs {
    uint32_t ranks, n_sizes, runs;
    int64_t bytes[SIZES_MAX];
    int64_t ns[KINDS][SIZES_MAX]; /* of rank 0 */
} collective_runs;

/* `bytes` as in prices: the larger of what a member sends and receives. */
static orr_status transfer(orr_communicator *c, uint8_t kind, char *a, char *b, int64_t bytes,
                           orr_error *err)
{
    const int64_t n = bytes / 4, each = n / c->n;
    int64_t parts[64];
    for (uint32_t i = 0; i < c->n && i < 64; i++)
        parts[i] = each * 4;
    switch (kind) {
    case ORR_COLL_ALL_REDUCE:
        return orr_all_reduce(c, a, b, n, ORR_DTYPE_FP32, err);
    case ORR_COLL_ALL_GATHER:
        return orr_all_gather(c, a, b, each, ORR_DTYPE_FP32, err);
    case ORR_COLL_REDUCE_SCATTER:
        return orr_reduce_scatter(c, a, b, each, ORR_DTYPE_FP32, err);
    case ORR_COLL_ALL_TO_ALL:
        return orr_all_to_all(c, a, parts, b, parts, err);
    default: /* send to the next and receive from the previous, at once */
        return orr_send_receive(c, (c->me + 1) % c->n, a, (size_t)bytes, (c->me + c->n - 1) % c->n,
                                b, (size_t)bytes, err);
    }
}

static orr_status time_runs(orr_communicator *c, uint8_t kind, char *a, char *b, int64_t bytes,
                            uint32_t runs, int64_t *ret_ns, orr_error *err)
{
    int64_t ns[RUNS];
    double spread;
    ORR_TRY(transfer(c, kind, a, b, bytes, err));
    for (uint32_t r = 0; r < runs; r++) {
        ORR_TRY(orr_barrier(c, err));
        const int64_t began = orr_clock_now_ns(&orr_clock_monotonic);
        ORR_TRY(transfer(c, kind, a, b, bytes, err));
        ns[r] = orr_clock_now_ns(&orr_clock_monotonic) - began;
    }
    *ret_ns = orr_median_of(ns, runs, &spread);
    return ORR_OK;
}

orr_status orr_time_transfer(orr_communicator *c, orr_collective kind, int64_t bytes,
                             int64_t *ret_ns, orr_error *err)
{
    char *a = orr_calloc(2, (size_t)bytes + 64);
    if (a == NULL)
        return orr_fail_memory(err);
    const orr_status status =
        time_runs(c, (uint8_t)kind, a, a + bytes + 64, bytes, RUNS, ret_ns, err);
    orr_free(a);
    return status;
}

static orr_status time_all(collective_runs *m, orr_communicator *c, char *a, char *b,
                           orr_error *err)
{
    for (int k = 0; k < KINDS; k++)
        for (uint32_t s = 0; s < m->n_sizes; s++)
            ORR_TRY(time_runs(c, kinds[k], a, b, m->bytes[s], m->runs, &m->ns[k][s], err));
    return ORR_OK;
}

static orr_status run_member(void *ctx, orr_transport *transport, orr_error *err)
{
    collective_runs *m = ctx;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_communicator *c;
    if (arena == NULL)
        return orr_fail_memory(err);
    const size_t bytes = (size_t)m->bytes[m->n_sizes - 1];
    uint32_t *members = orr_arena_array(arena, uint32_t, m->ranks);
    char *a = orr_arena_alloc(arena, bytes, 1, 64), *b = orr_arena_alloc(arena, bytes, 1, 64);
    orr_status status = members == NULL || a == NULL || b == NULL ? orr_fail_memory(err) : ORR_OK;
    for (uint32_t i = 0; status == ORR_OK && i < m->ranks; i++)
        members[i] = i;
    if (status == ORR_OK)
        status =
            orr_communicator_make(transport, members, m->ranks, 0, SCRATCH_BYTES, arena, &c, err);
    if (status == ORR_OK)
        status = time_all(m, c, a, b, err);
    orr_arena_free(arena);
    return status;
}

orr_status orr_measure_collectives(uint32_t ranks, bool quick, orr_arena *arena,
                                   const orr_measured_collective **ret, uint32_t *ret_n,
                                   orr_error *err)
{
    static const int64_t fine[] = {1 << 10, 1 << 13, 1 << 16, 1 << 18,
                                   1 << 20, 1 << 22, 1 << 24, 1 << 26};
    static const int64_t coarse[] = {1 << 10, 1 << 16, 1 << 20, 1 << 24};
    orr_measured_collective *all =
        orr_arena_array(arena, orr_measured_collective, (size_t)ranks * KINDS * SIZES_MAX);
    uint32_t n = 0;
    if (all == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 2; r <= ranks; r *= 2) {
        collective_runs m = {
            .ranks = r, .n_sizes = quick ? 4 : 8, .runs = quick ? RUNS_QUICK : RUNS};
        memcpy(m.bytes, quick ? coarse : fine, m.n_sizes * sizeof *m.bytes);
        ORR_TRY(orr_ranks_run(r, ORR_RANKS_SHM, DEADLINE_NS, run_member, &m, err));
        for (int k = 0; k < KINDS; k++)
            for (uint32_t s = 0; s < m.n_sizes; s++)
                all[n++] = (orr_measured_collective){kinds[k], r, m.bytes[s], m.ns[k][s]};
    }
    *ret = all;
    *ret_n = n;
    return ORR_OK;
}
