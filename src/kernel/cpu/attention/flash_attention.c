/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/attention/attention.h"

#include <math.h>
#include <string.h>

#include "base/workers.h"
#include "kernel/cpu/entries.h"

/* Flash attention (Dao et al., arXiv 2205.14135; Dao, arXiv 2307.08691), forward. A query block
 * visits the keys it attends to, block by block, with an online softmax (Milakov and Gimelshein,
 * arXiv 1805.02867): it keeps the unnormalized output o, the running maximum score m and the sum l
 * of the exponentials. For a block of keys with scores s = q k' / sqrt(D),
 *
 *   m' = max(m, max s),  l = l exp(m - m') + sum exp(s - m'),  o = o exp(m - m') + exp(s - m') v
 *
 * and at the end y = o / l and the log-sum-exp is m + log l. No (S, Skv) matrix is ever in memory.
 *
 * Keys are taken in parts of 1024, counted from the first key of the sequence, each with its own o,
 * m and l, which are merged in order. So the bits of a query's output depend neither on the queries
 * and samples beside it nor on threads: keys that it does not attend to add zeros.
 *
 * A work item is one query block. Where those are few and keys are many, as in decoding, it is one
 * part of one (flash decoding): the parts are left in the workspace, and a second pass merges them.
 */
enum {
    FEW_BLOCKS = 32,  /* fewer query blocks than these: keys are divided */
    PART_KEYS = 1024, /* a multiple of a block's keys */
};
/* The maximum of no scores: below every real score, yet finite, so that differences are finite. */
static const float LOWEST = -1e30f;

typedef struct flash {
    const orr_attention_problem *h;
    orr_head_rows y;
    const orr_operand *logsumexp;
    int64_t parts;   /* of the keys of the longest sample */
    float *partials; /* with divided keys, (max, sum, o) of every part */
} flash;

/* Scratch of a work item: queries and their running output, transposed to lanes. */
typedef struct scratch {
    _Alignas(64) float q[ORR_QUERY_BLOCK_FLOATS], o[ORR_QUERY_BLOCK_FLOATS],
        keys[ORR_QUERY_BLOCK_FLOATS];
    float score[ORR_BLOCK_LANES * ORR_BLOCK_LANES], pairs[ORR_BLOCK_LANES * ORR_BLOCK_LANES / 2];
    float max[ORR_BLOCK_LANES], sum[ORR_BLOCK_LANES], factor[ORR_BLOCK_LANES];
} scratch;

void orr_attention_scores(const orr_attention_problem *h, const orr_query_block *b, const float *q,
                          int64_t key, int64_t n, float *packed, float *ret)
{
    const int64_t columns = h->pairs ? (h->width + 1) / 2 : h->width;
    if (h->pairs)
        orr_keys_pairs_along(&h->k, b->sample, b->group, key, n, packed);
    else
        orr_keys_read(&h->k, b->sample, b->group, key, n, packed, columns);
    const orr_block_product p = {.a = packed,
                                 .a_row = columns,
                                 .a_step = 1,
                                 .b = q,
                                 .b_row = b->lanes,
                                 .c = ret,
                                 .c_row = b->lanes,
                                 .rows = n,
                                 .depth = columns,
                                 .lanes = b->lanes};
    (h->pairs ? h->lanes->pair_product : h->lanes->product)(&p);
}

/* o += v' p */
static void add_values(const orr_attention_problem *h, const orr_query_block *b, int64_t key,
                       int64_t n, scratch *r)
{
    orr_block_product p = {.a = r->keys,
                           .a_row = 1,
                           .a_step = h->value_width,
                           .b_row = b->lanes,
                           .c = r->o,
                           .c_row = b->lanes,
                           .rows = h->value_width,
                           .lanes = b->lanes,
                           .add = true};
    if (h->pairs) {
        orr_keys_pairs_across(h->lanes, &h->v, b->sample, b->group, key, n, r->keys);
        h->lanes->pairs_across(r->score, n, b->lanes, r->pairs);
        p.b = r->pairs;
        p.depth = (n + 1) / 2;
        h->lanes->pair_product(&p);
    } else {
        orr_keys_read(&h->v, b->sample, b->group, key, n, r->keys, h->value_width);
        p.b = r->score;
        p.depth = n;
        h->lanes->product(&p);
    }
}

static void attend_to_keys(const orr_attention_problem *h, const orr_query_block *b, int64_t begin,
                           int64_t end, scratch *r)
{
    for (int64_t i = 0; i < b->lanes; i++) {
        r->max[i] = LOWEST;
        r->sum[i] = 0;
    }
    memset(r->o, 0, (size_t)(h->value_width * b->lanes) * sizeof(float));
    if (begin < end)
        orr_attention_read_transposed(h, &h->q, b, h->pairs, r->keys, r->q);
    for (int64_t key = begin; key < end; key += h->block) {
        const int64_t n = end - key < h->block ? end - key : h->block;
        orr_attention_scores(h, b, r->q, key, n, r->keys, r->score);
        orr_attention_mask_scores(h, b, key, n, r->score, -INFINITY);
        const orr_online_softmax_block soft = {.score = r->score,
                                               .max = r->max,
                                               .sum = r->sum,
                                               .factor = r->factor,
                                               .scale = h->scale * 1.44269504f,
                                               .keys = n,
                                               .lanes = b->lanes};
        if (h->lanes->online_softmax(&soft))
            h->lanes->scale(r->o, h->value_width, b->lanes, r->factor);
        add_values(h, b, key, n, r);
    }
}

static void write_logsumexp(const flash *f, const orr_query_block *b, const scratch *r)
{
    const orr_attention_problem *h = f->h;
    const int64_t *stride = f->logsumexp->stride;
    float *to = f->logsumexp->data;
    for (int64_t i = 0; to != NULL && i < b->n; i++) {
        const int64_t row = b->row + i, head = b->group * h->share + row % h->share;
        to[b->sample * stride[0] + head * stride[1] + row / h->share * stride[2]] =
            r->sum[i] == 0 ? -INFINITY : r->max[i] * h->scale + logf(r->sum[i]);
    }
}

/* y = o / sum; zero for queries that attend to no key. */
static void write_output(const flash *f, const orr_query_block *b, scratch *r)
{
    const orr_attention_problem *h = f->h;
    write_logsumexp(f, b, r);
    for (int64_t i = 0; i < b->lanes; i++)
        r->factor[i] = r->sum[i] == 0 ? 0 : 1 / r->sum[i];
    h->lanes->scale(r->o, h->value_width, b->lanes, r->factor);
    h->lanes->transpose(r->o, b->lanes, h->value_width, b->lanes, r->keys, h->value_width);
    orr_attention_write_rows(h, &f->y, b, r->keys, h->value_width);
}

/* Under a causal mask the last query blocks have the most keys, so they are started first. */
static orr_query_block block_of(const orr_attention_problem *h, int64_t i)
{
    const int64_t both = h->batch * h->groups, place = i % both;
    return orr_query_block_of(h, place / h->groups, place % h->groups, h->blocks - 1 - i / both);
}

static int64_t part_of_key(int64_t key)
{
    return key / PART_KEYS;
}

/* The keys of the block that are in a part; blocks of keys are counted from the first one too. */
static void attend_to_part(const orr_attention_problem *h, const orr_query_block *b, int64_t part,
                           scratch *r)
{
    const int64_t first = b->begin / h->block * h->block, from = part * PART_KEYS;
    const int64_t begin = first > from ? first : from, end = from + PART_KEYS;
    attend_to_keys(h, b, begin, b->end < end ? b->end : end, r);
}

/* Adds a part, of keys after those of `r`. */
static void merge_part(const orr_attention_problem *h, const orr_query_block *b,
                       const float *part_max, const float *part_sum, const float *o, scratch *r)
{
    float other[ORR_BLOCK_LANES];
    for (int64_t i = 0; i < b->lanes; i++) {
        const float max = part_max[i] > r->max[i] ? part_max[i] : r->max[i];
        r->factor[i] = expf((r->max[i] - max) * h->scale);
        other[i] = expf((part_max[i] - max) * h->scale);
        r->sum[i] = r->sum[i] * r->factor[i] + part_sum[i] * other[i];
        r->max[i] = max;
    }
    for (int64_t j = 0; j < h->value_width; j++)
        for (int64_t i = 0; i < b->lanes; i++)
            r->o[j * b->lanes + i] =
                r->o[j * b->lanes + i] * r->factor[i] + o[j * b->lanes + i] * other[i];
}

static int64_t last_part(const orr_query_block *b)
{
    return b->end > 0 ? part_of_key(b->end - 1) : 0;
}

static void run_block(void *ctx, size_t i, int thread)
{
    (void)thread;
    const flash *f = ctx;
    const orr_query_block b = block_of(f->h, (int64_t)i);
    scratch r, next;
    attend_to_part(f->h, &b, part_of_key(b.begin), &r);
    for (int64_t part = part_of_key(b.begin) + 1; part <= last_part(&b); part++) {
        attend_to_part(f->h, &b, part, &next);
        merge_part(f->h, &b, next.max, next.sum, next.o, &r);
    }
    write_output(f, &b, &r);
}

/* A part in the workspace: maxima, sums, outputs. */
static int64_t partial_floats(const orr_attention_problem *h)
{
    const int64_t lanes = (h->rows + 15) / 16 * 16;
    return (h->value_width + 2) * (lanes < h->block ? lanes : h->block);
}

static float *partial_of(const flash *f, int64_t block, int64_t part)
{
    return f->partials + (block * f->parts + part) * partial_floats(f->h);
}

static void run_part(void *ctx, size_t i, int thread)
{
    (void)thread;
    const flash *f = ctx;
    const int64_t block = (int64_t)i / f->parts, part = (int64_t)i % f->parts;
    const orr_query_block b = block_of(f->h, block);
    if (part < part_of_key(b.begin) || part > last_part(&b))
        return;
    scratch r;
    attend_to_part(f->h, &b, part, &r);
    float *to = partial_of(f, block, part);
    memcpy(to, r.max, sizeof(float) * (size_t)b.lanes);
    memcpy(to + b.lanes, r.sum, sizeof(float) * (size_t)b.lanes);
    memcpy(to + 2 * b.lanes, r.o, sizeof(float) * (size_t)(b.lanes * f->h->value_width));
}

static void run_merge(void *ctx, size_t i, int thread)
{
    (void)thread;
    const flash *f = ctx;
    const orr_query_block b = block_of(f->h, (int64_t)i);
    const float *first = partial_of(f, (int64_t)i, part_of_key(b.begin));
    scratch r;
    memcpy(r.max, first, sizeof(float) * (size_t)b.lanes);
    memcpy(r.sum, first + b.lanes, sizeof(float) * (size_t)b.lanes);
    memcpy(r.o, first + 2 * b.lanes, sizeof(float) * (size_t)(b.lanes * f->h->value_width));
    for (int64_t part = part_of_key(b.begin) + 1; part <= last_part(&b); part++) {
        const float *from = partial_of(f, (int64_t)i, part);
        merge_part(f->h, &b, from, from + b.lanes, from + 2 * b.lanes, &r);
    }
    write_output(f, &b, &r);
}

/* The number of parts that work on so many keys is divided into; 1: it is not. */
static int64_t parts_of(const orr_attention_problem *h, int64_t keys)
{
    const int64_t blocks = h->batch * h->groups * h->blocks;
    return blocks > 0 && blocks < FEW_BLOCKS && keys > 0 ? part_of_key(keys - 1) + 1 : 1;
}

static size_t attention_workspace(const orr_kernel_call *call)
{
    orr_attention_problem h;
    orr_kernel_call shapes = *call;
    shapes.first = NULL;
    if (!call->args->flash || orr_attention_problem_of(&shapes, 0, &h, NULL) != ORR_OK ||
        parts_of(&h, h.keys) == 1)
        return 0;
    return (size_t)(h.batch * h.groups * h.blocks * parts_of(&h, h.keys) * partial_floats(&h)) *
           sizeof(float);
}

static orr_status attention_run(const orr_kernel_call *call, orr_error *err)
{
    orr_attention_problem h;
    ORR_TRY(orr_attention_problem_of(call, 0, &h, err));
    if (!call->args->flash)
        return orr_attention_materialized(&h, err);
    int64_t keys = 0;
    for (int64_t b = 0; b < h.batch; b++)
        keys = orr_attention_key_count(&h, b) > keys ? orr_attention_key_count(&h, b) : keys;
    flash f = {.h = &h,
               .y = orr_head_rows_of(&call->out[0]),
               .logsumexp = &call->out[1],
               .parts = parts_of(&h, keys),
               .partials = call->workspace};
    const size_t blocks = (size_t)(h.batch * h.groups * h.blocks);
    if (f.parts == 1) {
        orr_workers_run(call->workers, blocks, run_block, &f);
        return ORR_OK;
    }
    orr_workers_run(call->workers, blocks * (size_t)f.parts, run_part, &f);
    orr_workers_run(call->workers, blocks, run_merge, &f);
    return ORR_OK;
}

const orr_kernel_entry orr_cpu_ATTENTION = {.run = attention_run, .workspace = attention_workspace};
