/* SPDX-License-Identifier: Apache-2.0 */
/* Times all-reduces of fp32 among ranks of this machine, beside copying the same bytes.
 *
 *   bench_collectives [shm|tcp|mpi] [RANKS] [BYTES]     (mpi: under mpirun; up to BYTES)
 *
 * Prints a JSON line for each size: the median time of one all-reduce in microseconds, bytes over
 * that time, and the same of memcpy() by each rank at once, from a buffer to another. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "engine/ranks/communicator.h"
#include "engine/ranks/launch.h"

enum { LARGEST = 128 << 20, ROUNDS_MIN = 11, ROUNDS_MAX = 2001, WARM = 3, RANKS_MAX = 64 };
static const size_t sizes[] = {8,       1 << 10, 8 << 10, 64 << 10, 256 << 10,
                               1 << 20, 2 << 20, 8 << 20, 32 << 20, LARGEST};

typedef struct bench {
    orr_transport *transport;
    orr_communicator *all;
    float *in, *out;
    double *times_us;
    bool copies; /* instead of the all-reduce */
    size_t largest;
} bench;

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int rounds_of(size_t bytes)
{
    const size_t rounds = ((size_t)1 << 30) / (bytes + 64);
    return rounds < ROUNDS_MIN ? ROUNDS_MIN : rounds > ROUNDS_MAX ? ROUNDS_MAX : (int)rounds;
}

static orr_status once(bench *b, size_t bytes, orr_error *err)
{
    if (!b->copies)
        return orr_all_reduce(b->all, b->in, b->out, (int64_t)(bytes / sizeof(float)),
                              ORR_DTYPE_FP32, err);
    memcpy(b->out, b->in, bytes);
    __asm__ volatile("" ::: "memory");
    return ORR_OK;
}

static orr_status time_size(bench *b, size_t bytes, double *ret_us, orr_error *err)
{
    const int rounds = rounds_of(bytes);
    ORR_TRY(orr_barrier(b->all, err));
    for (int i = -WARM; i < rounds; i++) {
        const int64_t begin_ns = orr_clock_now_ns(&orr_clock_monotonic);
        ORR_TRY(once(b, bytes, err));
        if (i >= 0)
            b->times_us[i] = 1e-3 * (double)(orr_clock_now_ns(&orr_clock_monotonic) - begin_ns);
    }
    qsort(b->times_us, (size_t)rounds, sizeof(double), by_value);
    *ret_us = b->times_us[rounds / 2];
    return ORR_OK;
}

static orr_status run_sizes(bench *b, orr_error *err)
{
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes && sizes[i] <= b->largest; i++) {
        double us = 0, copy_us = 0;
        b->copies = true;
        ORR_TRY(time_size(b, sizes[i], &copy_us, err));
        b->copies = false;
        ORR_TRY(time_size(b, sizes[i], &us, err));
        if (b->transport->rank == 0)
            printf(
                "{\"transport\": \"%s\", \"ranks\": %u, \"bytes\": %zu, \"us\": %.2f, \"GB_per_s\": %.3f, "
                "\"memcpy_us\": %.2f, \"memcpy_GB_per_s\": %.3f}\n",
                b->transport->name, b->transport->ranks, sizes[i], us, 1e-3 * (double)sizes[i] / us,
                copy_us, 1e-3 * (double)sizes[i] / copy_us);
        fflush(stdout);
    }
    return ORR_OK;
}

static orr_status body(void *ctx, orr_transport *transport, orr_error *err)
{
    uint32_t members[RANKS_MAX];
    bench b = {.transport = transport,
               .in = orr_malloc_aligned(LARGEST),
               .out = orr_malloc_aligned(LARGEST),
               .times_us = orr_calloc(ROUNDS_MAX, sizeof(double)),
               .largest = *(size_t *)ctx};
    orr_arena *arena = orr_arena_new(0, 0);
    for (uint32_t i = 0; i < transport->ranks; i++)
        members[i] = i;
    orr_status status =
        orr_communicator_make(transport, members, transport->ranks, 0, 4 << 20, arena, &b.all, err);
    if (status == ORR_OK) {
        memset(b.in, 0, LARGEST);
        memset(b.out, 0, LARGEST);
        status = run_sizes(&b, err);
    }
    orr_arena_free(arena);
    orr_free(b.in);
    orr_free(b.out);
    orr_free(b.times_us);
    return status;
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"auto", "shm", "tcp", "mpi"};
    const char *name = argc > 1 ? argv[1] : "shm";
    const uint32_t ranks = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    size_t largest = argc > 3 ? strtoul(argv[3], NULL, 10) : LARGEST;
    orr_ranks_kind kind = ORR_RANKS_AUTO;
    while (kind < ORR_RANKS_MPI && strcmp(names[kind], name) != 0)
        kind++;
    orr_error err = {0};
    if (ranks > RANKS_MAX || strcmp(names[kind], name) != 0) {
        fprintf(stderr, "usage: bench_collectives [shm|tcp|mpi] [RANKS up to %d] [BYTES]\n",
                RANKS_MAX);
        return 2;
    }
    if (orr_ranks_run(kind == ORR_RANKS_MPI ? 0 : ranks, kind, INT64_C(60) * 1000000000, body,
                      &largest, &err) == ORR_OK)
        return 0;
    fprintf(stderr, "bench_collectives: %s\n", err.text);
    return 1;
}
