/* SPDX-License-Identifier: Apache-2.0 */
#include "base/workers.h"
#include "engine/step/step_state.h"

/* The global gradient norm, over all parameters of all ranks. A number that several ranks hold must
 * be counted once: ranks that hold the same bucket shard each count a part of it. Where gradients
 * are summed as a tree, every rank counts all (metrics.c). */

enum { PIECE = 1 << 16 };

typedef struct squares {
    const float *gradient;
    int64_t n;
    double *sums; /* shape (pieces) */
} squares;

static void square_piece(void *ctx, size_t piece, int thread)
{
    const squares *s = ctx;
    const int64_t first = (int64_t)piece * PIECE, end = first + PIECE < s->n ? first + PIECE : s->n;
    double sums[8] = {0};
    (void)thread;
    int64_t i = first;
    for (; i + 8 <= end; i += 8)
        for (int k = 0; k < 8; k++)
            sums[k] += (double)s->gradient[i + k] * s->gradient[i + k];
    for (; i < end; i++)
        sums[0] += (double)s->gradient[i] * s->gradient[i];
    s->sums[piece] =
        ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

enum { PIECES_AT_ONCE = 512 };

static double squares_of(orr_workers *workers, const float *gradient, int64_t n)
{
    double sums[PIECES_AT_ONCE], sum = 0;
    for (int64_t at = 0; at < n; at += (int64_t)PIECES_AT_ONCE * PIECE) {
        const int64_t most = (int64_t)PIECES_AT_ONCE * PIECE, left = n - at;
        squares s = {gradient + at, left < most ? left : most, sums};
        const size_t pieces = (size_t)((s.n + PIECE - 1) / PIECE);
        orr_workers_run(workers, pieces, square_piece, &s);
        for (size_t i = 0; i < pieces; i++)
            sum += sums[i];
    }
    return sum;
}

/* The part of a bucket that this rank counts: of its shard, its share among the `holders` of that
 * shard. */
static orr_step_range64 counted(const orr_bucket *b, uint32_t holders, uint32_t index)
{
    const int64_t begin = b->shard_begin, n = b->shard_n;
    return (orr_step_range64){begin + n * index / holders, begin + n * (index + 1) / holders};
}

double orr_step_gradient_squares(const orr_engine_step *step)
{
    double sum = 0;
    for (uint32_t i = 0; i < step->n_parameters; i++) {
        const orr_step_parameter *p = &step->parameters[i];
        const orr_bucket *b = &step->buckets[p->bucket];
        if (p->tied || !p->counted || b->frozen)
            continue;
        const orr_step_range64 c =
            b->tree != NULL ? counted(b, 1, 0) : counted(b, b->holders, b->holder_index);
        const int64_t end = p->at + step->exported[p->exported].n;
        const int64_t from = c.from > p->at ? c.from : p->at, to = c.to < end ? c.to : end;
        const float *first = orr_step_reduced_gradient(step, b) - b->shard_begin;
        if (to > from)
            sum += squares_of(step->source.workers, first + from, to - from);
    }
    return sum;
}
