/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/tensor/parallel_scratch.h"

#include "base/workers.h"

enum { PIECES = 64 };

typedef struct pieces {
    int64_t n, room, count;
    orr_parallel_scratch_body *body;
    const void *ctx;
    float *rooms;
} pieces;

static int64_t count_of(int64_t n)
{
    return n < PIECES ? n : PIECES;
}

size_t orr_parallel_scratch_bytes(int64_t n, int64_t room)
{
    return (size_t)(count_of(n) * orr_round_up_to_vectors(room)) * sizeof(float);
}

static void run_piece(void *ctx, size_t i, int thread)
{
    (void)thread;
    const pieces *p = ctx;
    const int64_t piece = (int64_t)i;
    p->body(p->ctx, p->n * piece / p->count, p->n * (piece + 1) / p->count,
            p->room > 0 ? p->rooms + piece * p->room : NULL);
}

void orr_parallel_scratch_run(int64_t n, int64_t room, orr_parallel_scratch_body *body,
                              const void *ctx, void *workspace, orr_workers *workers)
{
    pieces p = {.n = n,
                .room = orr_round_up_to_vectors(room),
                .count = count_of(n),
                .body = body,
                .ctx = ctx,
                .rooms = workspace};
    orr_workers_run(workers, (size_t)p.count, run_piece, &p);
}
