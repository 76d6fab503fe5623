/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/attention/attention.h"

#include <math.h>
#include <string.h>

#include "base/workers.h"
#include "kernel/format/dtype_convert.h"
#include "kernel/cpu/entries.h"

/* Backward pass of attention. With p the probabilities (recomputed from the log-sum-exp by flash
 * attention, else read), a block of queries visits the keys it attends to and computes
 *
 *   dp = dy v',  ds = p (dp - delta) / sqrt(D),  dq += ds k,  dk += ds' q,  dv += p' dy
 *
 * where delta of a query is the sum of p dp, for flash attention equal to that of dy y (Dao et al.,
 * arXiv 2205.14135, appendix B.4). dq stays in scratch; dk and dv are summed in fp32 in the
 * workspace.
 *
 * A work item is one key head of one sample. Where these are few, several work items divide its
 * query blocks; each has its own sums of dk and dv, which are then added in a fixed order, so that
 * results do not depend on threads. */
enum { PIECES = 16 };

typedef struct backward {
    const orr_attention_problem *h;
    orr_head_rows dy, y, dq, dk, dv;
    const orr_operand *logsumexp;                 /* with flash attention */
    const orr_operand *probability, *mask, *left; /* with materialized attention */
    float *sums;                   /* shape (B, G, parts, Skv, wide_k + wide_v)     */
    int64_t parts, wide_k, wide_v; /* columns rounded up to whole vectors */
} backward;

/* Scratch of one block of queries: q, dy, dq transposed, (W, lanes); weight and slope (keys,
 * lanes); the same as rows. bf16 heads are kept as bf16 pairs. */
typedef struct room {
    _Alignas(64) float q[ORR_QUERY_BLOCK_FLOATS], dy[ORR_QUERY_BLOCK_FLOATS],
        dq[ORR_QUERY_BLOCK_FLOATS];
    float q_rows[ORR_QUERY_BLOCK_FLOATS], dy_rows[ORR_QUERY_BLOCK_FLOATS],
        keys[ORR_QUERY_BLOCK_FLOATS];
    float weight[ORR_BLOCK_LANES * ORR_BLOCK_LANES], slope[ORR_BLOCK_LANES * ORR_BLOCK_LANES],
        pairs[ORR_BLOCK_LANES * ORR_BLOCK_LANES];
    float minus[ORR_BLOCK_LANES], delta[ORR_BLOCK_LANES];
} room;

static void multiply(const orr_attention_problem *h, const orr_block_product *p)
{
    (h->pairs ? h->lanes->pair_product : h->lanes->product)(p);
}

/* Reads rows padded with zeros to whole vectors; for bf16 pairs, two rows are interleaved. */
static void read_rows(const orr_attention_problem *h, const orr_head_rows *of,
                      const orr_query_block *b, int64_t wide, float *keys, float *to)
{
    float *rows = h->pairs ? keys : to;
    memset(rows, 0, (size_t)(b->n * wide) * sizeof(float));
    orr_attention_read_rows(h, of, b, rows, wide);
    if (h->pairs)
        h->lanes->pairs_across(rows, b->n, wide, to);
}

/* delta = sum of dy y of each lane, and the log-sum-exp that probabilities are recomputed from. */
static void read_kept(const backward *w, const orr_query_block *b, room *r)
{
    const orr_attention_problem *h = w->h;
    orr_attention_read_transposed(h, &w->dy, b, false, r->keys, r->dq);
    orr_attention_read_transposed(h, &w->y, b, false, r->keys, r->dy);
    memset(r->delta, 0, sizeof r->delta);
    for (int64_t d = 0; d < h->value_width; d++)
        for (int64_t i = 0; i < b->lanes; i++)
            r->delta[i] += r->dq[d * b->lanes + i] * r->dy[d * b->lanes + i];
    const int64_t *stride = w->logsumexp->stride;
    const float *kept = w->logsumexp->data;
    memset(r->minus, 0, sizeof r->minus);
    for (int64_t i = 0; i < b->n; i++) {
        const int64_t row = b->row + i, head = b->group * h->share + row % h->share;
        const float lse =
            kept[b->sample * stride[0] + head * stride[1] + row / h->share * stride[2]];
        r->minus[i] = lse == -INFINITY ? 0 : lse * 1.44269504f;
    }
}

/* Gradients of the probabilities, dp = dy v', (n, lanes). */
static void make_slopes(const backward *w, const orr_query_block *b, int64_t key, int64_t n,
                        room *r)
{
    const orr_attention_problem *h = w->h;
    const int64_t columns = h->pairs ? (h->value_width + 1) / 2 : h->value_width;
    if (h->pairs)
        orr_keys_pairs_along(&h->v, b->sample, b->group, key, n, r->keys);
    else
        orr_keys_read(&h->v, b->sample, b->group, key, n, r->keys, columns);
    multiply(h, &(orr_block_product){.a = r->keys,
                                     .a_row = columns,
                                     .a_step = 1,
                                     .b = r->dy,
                                     .b_row = b->lanes,
                                     .c = r->slope,
                                     .c_row = b->lanes,
                                     .rows = n,
                                     .depth = columns,
                                     .lanes = b->lanes});
}

/* Elements of all rows of the block from `key` on, transposed to lanes. */
static void read_pairs(const orr_attention_problem *h, const orr_query_block *b,
                       const orr_operand *of, int64_t key, int64_t n, float *rows, float *to)
{
    memset(rows, 0, (size_t)(n * b->lanes) * sizeof(float));
    for (int64_t i = 0; i < b->n; i++) {
        const orr_score_row from = orr_score_row_of(h, b, of, i, key);
        orr_strided_to_fp32(from.dtype, from.data, from.stride, n, rows + i * n);
    }
    h->lanes->transpose(rows, n, b->lanes, n, to, b->lanes);
}

/* Materialized attention: reads the probabilities, and applies the dropout mask to their
 * gradients. */
static void read_weights(const backward *w, const orr_query_block *b, int64_t key, int64_t n,
                         room *r)
{
    const orr_attention_problem *h = w->h;
    make_slopes(w, b, key, n, r);
    if (w->mask != NULL) {
        const float grown = (float)(1 / (1 - h->call->args->value));
        read_pairs(h, b, w->mask, key, n, r->pairs, r->weight);
        for (int64_t i = 0; i < n * b->lanes; i++)
            r->slope[i] *= r->weight[i] * grown;
    }
    read_pairs(h, b, w->probability, key, n, r->pairs, r->weight);
}

static void add_deltas(const backward *w, const orr_query_block *b, room *r)
{
    const orr_attention_problem *h = w->h;
    memset(r->delta, 0, sizeof r->delta);
    for (int64_t key = b->begin; key < b->end; key += h->block) {
        const int64_t n = b->end - key < h->block ? b->end - key : h->block;
        read_weights(w, b, key, n, r);
        for (int64_t j = 0; j < n; j++)
            for (int64_t i = 0; i < b->lanes; i++)
                r->delta[i] += r->weight[j * b->lanes + i] * r->slope[j * b->lanes + i];
    }
}

static void make_weights(const backward *w, const orr_query_block *b, int64_t key, int64_t n,
                         room *r)
{
    const orr_attention_problem *h = w->h;
    if (w->probability != NULL) {
        read_weights(w, b, key, n, r);
        return;
    }
    make_slopes(w, b, key, n, r);
    orr_attention_scores(h, b, r->q, key, n, r->keys, r->weight);
    orr_attention_mask_scores(h, b, key, n, r->weight, -INFINITY);
    h->lanes->exp2_scaled(r->weight, n, b->lanes, h->scale * 1.44269504f, r->minus);
}

/* sums (n, wide) += x' rows, with x (n, lanes): the updates of dk and dv. */
static void add_to_keys(const orr_attention_problem *h, const orr_query_block *b, const float *x,
                        int64_t n, const float *rows, float *sums, int64_t row, int64_t wide,
                        float *pairs)
{
    orr_block_product p = {.a = x,
                           .a_row = b->lanes,
                           .a_step = 1,
                           .b = rows,
                           .b_row = wide,
                           .c = sums,
                           .c_row = row,
                           .rows = n,
                           .depth = b->n,
                           .lanes = wide,
                           .add = true};
    if (h->pairs) {
        h->lanes->pairs_along(x, n * b->lanes, pairs);
        p.a = pairs;
        p.a_row = b->lanes / 2;
        p.depth = (b->n + 1) / 2;
    }
    multiply(h, &p);
}

/* dq += k' ds */
static void add_to_queries(const orr_attention_problem *h, const orr_query_block *b, int64_t key,
                           int64_t n, room *r)
{
    orr_block_product p = {.a = r->keys,
                           .a_row = 1,
                           .a_step = h->width,
                           .b = r->slope,
                           .b_row = b->lanes,
                           .c = r->dq,
                           .c_row = b->lanes,
                           .rows = h->width,
                           .depth = n,
                           .lanes = b->lanes,
                           .add = true};
    if (h->pairs) {
        orr_keys_pairs_across(h->lanes, &h->k, b->sample, b->group, key, n, r->keys);
        h->lanes->pairs_across(r->slope, n, b->lanes, r->pairs);
        p.b = r->pairs;
        p.depth = (n + 1) / 2;
    } else {
        orr_keys_read(&h->k, b->sample, b->group, key, n, r->keys, h->width);
    }
    multiply(h, &p);
}

static void use_keys(const backward *w, const orr_query_block *b, int64_t key, int64_t n,
                     float *sums, room *r)
{
    const orr_attention_problem *h = w->h;
    const int64_t wide = w->wide_k + w->wide_v;
    make_weights(w, b, key, n, r);
    h->lanes->slope(r->slope, r->weight, n, b->lanes, h->scale, r->delta);
    if (w->left != NULL)
        read_pairs(h, b, w->left, key, n, r->pairs, r->weight);
    float *at = sums + key * wide;
    add_to_keys(h, b, r->slope, n, r->q_rows, at, wide, w->wide_k, r->pairs);
    add_to_keys(h, b, r->weight, n, r->dy_rows, at + w->wide_k, wide, w->wide_v, r->pairs);
    add_to_queries(h, b, key, n, r);
}

static void use_block(const backward *w, const orr_query_block *b, float *sums, room *r)
{
    const orr_attention_problem *h = w->h;
    if (w->probability == NULL)
        read_kept(w, b, r);
    orr_attention_read_transposed(h, &h->q, b, h->pairs, r->keys, r->q);
    orr_attention_read_transposed(h, &w->dy, b, h->pairs, r->keys, r->dy);
    if (w->probability != NULL)
        add_deltas(w, b, r);
    read_rows(h, &h->q, b, w->wide_k, r->keys, r->q_rows);
    read_rows(h, &w->dy, b, w->wide_v, r->keys, r->dy_rows);
    memset(r->dq, 0, (size_t)(h->width * b->lanes) * sizeof(float));
    for (int64_t key = b->begin; key < b->end; key += h->block)
        use_keys(w, b, key, b->end - key < h->block ? b->end - key : h->block, sums, r);
    h->lanes->transpose(r->dq, b->lanes, h->width, b->lanes, r->keys, h->width);
    orr_attention_write_rows(h, &w->dq, b, r->keys, h->width);
}

static void run_piece(void *ctx, size_t i, int thread)
{
    (void)thread;
    const backward *w = ctx;
    const orr_attention_problem *h = w->h;
    const int64_t place = (int64_t)i / w->parts, part = (int64_t)i % w->parts;
    const int64_t numbers = h->keys * (w->wide_k + w->wide_v);
    float *sums = w->sums + (int64_t)i * numbers;
    memset(sums, 0, (size_t)numbers * sizeof(float));
    room r;
    for (int64_t number = part; number < h->blocks; number += w->parts) {
        const orr_query_block b =
            orr_query_block_of(h, place / h->groups, place % h->groups, number);
        use_block(w, &b, sums, &r);
    }
}

/* Adds the parts of one block of keys to the first part, in order, and writes dk and dv. */
static void run_merge(void *ctx, size_t i, int thread)
{
    (void)thread;
    const backward *w = ctx;
    const orr_attention_problem *h = w->h;
    const int64_t blocks = (h->keys + ORR_BLOCK_LANES - 1) / ORR_BLOCK_LANES,
                  wide = w->wide_k + w->wide_v;
    const int64_t place = (int64_t)i / blocks, key = (int64_t)i % blocks * ORR_BLOCK_LANES;
    const int64_t n = h->keys - key < ORR_BLOCK_LANES ? h->keys - key : ORR_BLOCK_LANES;
    float *sums = w->sums + (place * w->parts * h->keys + key) * wide;
    for (int64_t part = 1; part < w->parts; part++) {
        const float *other = sums + part * h->keys * wide;
        for (int64_t j = 0; j < n * wide; j++)
            sums[j] += other[j];
    }
    const int64_t sample = place / h->groups, group = place % h->groups;
    orr_keys_write(&w->dk, sample, group, key, n, sums, wide);
    orr_keys_write(&w->dv, sample, group, key, n, sums + w->wide_k, wide);
}

static int64_t parts_of(const orr_attention_problem *h)
{
    const int64_t places = h->batch * h->groups;
    const int64_t wanted = places > 0 ? (PIECES + places - 1) / places : 1;
    return wanted < h->blocks ? wanted : h->blocks > 0 ? h->blocks : 1;
}

static int64_t whole_vectors(int64_t width)
{
    return (width + 15) / 16 * 16;
}

static size_t backward_workspace(const orr_kernel_call *call)
{
    orr_attention_problem h;
    orr_kernel_call shapes = *call;
    shapes.first = NULL;
    if (orr_attention_problem_of(&shapes, 1, &h, NULL) != ORR_OK)
        return 0;
    const int64_t wide = whole_vectors(h.width) + whole_vectors(h.value_width);
    return (size_t)(h.batch * h.groups * parts_of(&h) * h.keys * wide) * sizeof(float);
}

static orr_status backward_run(const orr_kernel_call *call, orr_error *err)
{
    orr_attention_problem h;
    ORR_TRY(orr_attention_problem_of(call, 1, &h, err));
    const bool flash = call->args->flash, drops = !flash && call->args->value > 0;
    backward w = {.h = &h,
                  .dy = orr_head_rows_of(&call->in[0]),
                  .dq = orr_head_rows_of(&call->out[0]),
                  .dk = orr_head_rows_of(&call->out[1]),
                  .dv = orr_head_rows_of(&call->out[2]),
                  .sums = call->workspace,
                  .parts = parts_of(&h),
                  .wide_k = whole_vectors(h.width),
                  .wide_v = whole_vectors(h.value_width)};
    h.pairs = h.pairs && w.dy.dtype == ORR_DTYPE_BF16 && w.dy.column == 2;
    if (flash) {
        w.y = orr_head_rows_of(&call->in[4]);
        w.logsumexp = &call->in[5];
    } else {
        w.probability = &call->in[4];
        w.mask = drops ? &call->in[5] : NULL;
        w.left = drops ? &call->in[6] : NULL;
    }
    const int64_t places = h.batch * h.groups;
    orr_workers_run(call->workers, (size_t)(places * w.parts), run_piece, &w);
    orr_workers_run(call->workers,
                    (size_t)(places * ((h.keys + ORR_BLOCK_LANES - 1) / ORR_BLOCK_LANES)),
                    run_merge, &w);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_ATTENTION_BACKWARD = {.run = backward_run,
                                                     .workspace = backward_workspace};
