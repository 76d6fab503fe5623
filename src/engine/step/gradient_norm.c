/* SPDX-License-Identifier: Apache-2.0 */
#include "base/workers.h"
#include "engine/step/step_state.h"

/* The global gradient norm, over all parameters of all ranks. A number that several ranks hold must
 * be counted once: ranks that hold the same bucket shard each count a part of it. Where gradients
 * are summed as a tree, every rank counts all (metrics.c). Which rank counts a number makes no
 * difference, since sums are exact (square_sum.h): the norm, and with it how far gradients are
 * clipped, has the same bits wherever an expert stands and however shards are cut. */

typedef struct squares {
    const float *gradient;
    int64_t n;
    orr_square_sum *sums; /* shape (pieces) */
} squares;

static void square_piece(void *ctx, size_t piece, int thread)
{
    const squares *s = ctx;
    const int64_t first = (int64_t)piece * ORR_SQUARE_PIECE, left = s->n - first;
    (void)thread;
    s->sums[piece] = (orr_square_sum){.limb = {0}};
    orr_square_sum_add(&s->sums[piece], s->gradient + first,
                       left < ORR_SQUARE_PIECE ? left : ORR_SQUARE_PIECE);
}

enum { PIECES_AT_ONCE = 64 };

static void add_squares(orr_workers *workers, const float *gradient, int64_t n, orr_square_sum *ret)
{
    orr_square_sum sums[PIECES_AT_ONCE];
    for (int64_t at = 0; at < n; at += (int64_t)PIECES_AT_ONCE * ORR_SQUARE_PIECE) {
        const int64_t most = (int64_t)PIECES_AT_ONCE * ORR_SQUARE_PIECE, left = n - at;
        squares s = {gradient + at, left < most ? left : most, sums};
        const size_t pieces = (size_t)((s.n + ORR_SQUARE_PIECE - 1) / ORR_SQUARE_PIECE);
        orr_workers_run(workers, pieces, square_piece, &s);
        for (size_t i = 0; i < pieces; i++)
            orr_square_sum_join(ret, &sums[i]);
    }
}

/* The part of a bucket that this rank counts: of its shard, its share among the `holders` of that
 * shard. */
static orr_step_range64 counted(const orr_bucket *b, uint32_t holders, uint32_t index)
{
    const int64_t begin = b->shard_begin, n = b->shard_n;
    return (orr_step_range64){begin + n * index / holders, begin + n * (index + 1) / holders};
}

orr_square_sum orr_step_gradient_squares(const orr_engine_step *step)
{
    orr_square_sum sum = {.limb = {0}};
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
            add_squares(step->source.workers, first + from, to - from, &sum);
    }
    return sum;
}
