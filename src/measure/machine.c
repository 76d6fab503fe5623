/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/machine.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/parallel_for.h"
#include "engine/train/trainer.h"
#include "measure/timing.h"

enum { CACHE_UNKNOWN = 8 << 20, CACHE_LEVELS = 8, PIECES = 64, ROUNDS = 7 };

/* The last-level cache that the kernel reports for this core; 0: none. */
static int64_t cache_of_kernel(void)
{
    int64_t last = 0;
    for (int level = 0; level < CACHE_LEVELS; level++) {
        char path[64];
        long long kib;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", level);
        FILE *file = fopen(path, "r");
        if (file == NULL)
            break;
        if (fscanf(file, "%lldK", &kib) == 1 && kib > last / 1024)
            last = kib * 1024;
        fclose(file);
    }
    return last;
}

/* A virtual machine may report the whole cache of its host, so the smaller report counts. */
static int64_t cache_bytes(void)
{
    const int64_t told = sysconf(_SC_LEVEL3_CACHE_SIZE), seen = cache_of_kernel();
    if (told > 0 && seen > 0)
        return told < seen ? told : seen;
    return told > 0 ? told : seen > 0 ? seen : CACHE_UNKNOWN;
}

void orr_measure_machine(orr_measured *ret)
{
    ret->cores = (uint32_t)orr_core_count();
    ret->cache_bytes = cache_bytes();
    ret->base_bytes = orr_resident_bytes();
}

typedef struct stream {
    const char *from;
    char *to; /* NULL: read only */
    size_t bytes;
    uint64_t sums[PIECES];
} stream;

/* 64 bytes an iteration into eight sums, so that additions keep up with memory. */
static void read_piece(void *ctx, size_t i, int thread)
{
    stream *s = ctx;
    const size_t each = s->bytes / PIECES;
    const uint64_t *at = (const uint64_t *)(const void *)(s->from + i * each);
    uint64_t sum[8] = {0};
    (void)thread;
    if (s->to != NULL) {
        memcpy(s->to + i * each, at, each);
        return;
    }
    for (size_t k = 0; k + 8 <= each / 8; k += 8)
        for (int j = 0; j < 8; j++)
            sum[j] += at[k + (size_t)j];
    s->sums[i] = sum[0] + sum[1] + sum[2] + sum[3] + sum[4] + sum[5] + sum[6] + sum[7];
}

static double stream_rate(orr_workers *workers, stream *s)
{
    int64_t ns[ROUNDS];
    double spread;
    for (int r = 0; r < ROUNDS; r++) {
        const int64_t began = orr_clock_now_ns(&orr_clock_monotonic);
        orr_workers_run(workers, PIECES, read_piece, s);
        ns[r] = orr_clock_now_ns(&orr_clock_monotonic) - began;
    }
    const int64_t median = orr_median_of(ns, ROUNDS, &spread);
    return median > 0 ? (double)s->bytes * 1e9 / (double)median : 0;
}

orr_status orr_measure_memory(orr_workers *workers, int64_t cache_bytes, double *ret_read,
                              double *ret_copy, orr_error *err)
{
    const size_t least = (size_t)256 << 20, wanted = (size_t)cache_bytes * 4;
    const size_t bytes = wanted > least ? wanted : least;
    char *from = orr_malloc_aligned(bytes), *to = orr_malloc_aligned(bytes);
    orr_status status = from == NULL || to == NULL ? orr_fail_memory(err) : ORR_OK;
    if (status == ORR_OK) {
        memset(from, 1, bytes);
        memset(to, 1, bytes);
        stream s = {.from = from, .bytes = bytes};
        *ret_read = stream_rate(workers, &s);
        s.to = to;
        *ret_copy = stream_rate(workers, &s);
    }
    orr_free(from);
    orr_free(to);
    return status;
}
