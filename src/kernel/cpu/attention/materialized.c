/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/attention/attention.h"

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "base/workers.h"
#include "kernel/format/dtype_convert.h"

/* Materialized attention, as three separate kernels would compute it: the probability matrix is
 * written, dropout is applied, the result is written and read again in its own dtype, then
 * multiplied by the values. Scores of a query block are computed twice: for their sums, and for the
 * probabilities. */
typedef struct plain {
    const orr_attention_problem *h;
    orr_head_rows y;
    const orr_operand *probability, *mask, *left; /* NULL without dropout */
} plain;

typedef struct scratch {
    _Alignas(64) float q[ORR_QUERY_BLOCK_FLOATS], o[ORR_QUERY_BLOCK_FLOATS],
        keys[ORR_QUERY_BLOCK_FLOATS];
    float score[ORR_BLOCK_LANES * ORR_BLOCK_LANES], row[ORR_BLOCK_LANES * ORR_BLOCK_LANES];
    float max[ORR_BLOCK_LANES], sum[ORR_BLOCK_LANES], factor[ORR_BLOCK_LANES];
} scratch;

/* Philox gives four words at a time: element i is word i % 4 of block i / 4. */
bool orr_attention_dropout_keeps(uint64_t seed, int64_t i, double dropped)
{
    const uint64_t block = (uint64_t)i / 4;
    uint32_t drawn[4];
    orr_philox4x32((const uint32_t[4]){(uint32_t)block, (uint32_t)(block >> 32)},
                   (const uint32_t[2]){(uint32_t)seed, (uint32_t)(seed >> 32)}, drawn);
    return (double)drawn[i % 4] >= dropped * 4294967296.0;
}

orr_score_row orr_score_row_of(const orr_attention_problem *h, const orr_query_block *b,
                               const orr_operand *pairs, int64_t i, int64_t key)
{
    const orr_dtype dtype = (orr_dtype)pairs->type.dtype;
    const int64_t row = b->row + i, head = b->group * h->share + row % h->share,
                  token = row / h->share, *stride = pairs->stride;
    const int64_t at =
        b->sample * stride[0] + head * stride[1] + token * stride[2] + key * stride[3];
    return (orr_score_row){
        .data =
            pairs->data == NULL ? NULL : (char *)pairs->data + at * orr_dtype_stride_bytes(dtype),
        .dtype = dtype,
        .stride = stride[3] * orr_dtype_stride_bytes(dtype),
        .index = ((b->sample * h->heads + head) * h->queries + token) * h->keys + key};
}

/* Rounds `values` to the output's dtype by writing them and reading them back. */
static void write_rounded(const orr_score_row *to, int64_t n, float *values)
{
    if (to->data == NULL)
        return;
    orr_strided_from_fp32(to->dtype, values, n, to->stride, to->data);
    if (to->dtype != ORR_DTYPE_FP32)
        orr_strided_to_fp32(to->dtype, to->data, to->stride, n, values);
}

/* Applies dropout to n probabilities of a row, from `key` on. */
static void drop_out(const plain *p, const orr_query_block *b, int64_t i, int64_t key, int64_t n,
                     float *row)
{
    const orr_attention_problem *h = p->h;
    const double dropped = h->call->args->value;
    const orr_score_row mask = orr_score_row_of(h, b, p->mask, i, key),
                        left = orr_score_row_of(h, b, p->left, i, key);
    const float grown = (float)(1 / (1 - dropped));
    for (int64_t j = 0; j < n; j++) {
        const bool keeps = orr_attention_dropout_keeps(h->call->seed, mask.index + j, dropped);
        if (mask.data != NULL)
            *(int8_t *)(mask.data + j * mask.stride) = keeps;
        row[j] = keeps ? row[j] * grown : 0;
    }
    write_rounded(&left, n, row);
}

static void add_up(const orr_attention_problem *h, const orr_query_block *b, scratch *r)
{
    for (int64_t i = 0; i < b->lanes; i++) {
        r->max[i] = -1e30f;
        r->sum[i] = 0;
    }
    for (int64_t key = b->begin; key < b->end; key += h->block) {
        const int64_t n = b->end - key < h->block ? b->end - key : h->block;
        orr_attention_scores(h, b, r->q, key, n, r->keys, r->score);
        orr_attention_mask_scores(h, b, key, n, r->score, -INFINITY);
        (void)h->lanes->online_softmax(&(orr_online_softmax_block){.score = r->score,
                                                                   .max = r->max,
                                                                   .sum = r->sum,
                                                                   .factor = r->factor,
                                                                   .scale = h->scale * 1.44269504f,
                                                                   .keys = n,
                                                                   .lanes = b->lanes});
    }
    for (int64_t i = 0; i < b->lanes; i++) /* 2^(score * scale - factor) is the probability */
        r->factor[i] = r->sum[i] == 0 ? 0 : r->max[i] * (h->scale * 1.44269504f) + log2f(r->sum[i]);
}

/* Probabilities of the keys [key, key + n) into rows, (lanes, n); zero for masked keys. */
static void compute_rows(const orr_attention_problem *h, const orr_query_block *b, int64_t key,
                         int64_t n, scratch *r)
{
    if (key + n <= b->begin || key >= b->end) {
        memset(r->row, 0, (size_t)(n * b->lanes) * sizeof(float));
        return;
    }
    orr_attention_scores(h, b, r->q, key, n, r->keys, r->score);
    orr_attention_mask_scores(h, b, key, n, r->score, -INFINITY);
    h->lanes->exp2_scaled(r->score, n, b->lanes, h->scale * 1.44269504f, r->factor);
    h->lanes->transpose(r->score, b->lanes, n, b->lanes, r->row, n);
}

static void use_keys(const plain *p, const orr_query_block *b, int64_t key, int64_t n, scratch *r)
{
    const orr_attention_problem *h = p->h;
    compute_rows(h, b, key, n, r);
    for (int64_t i = 0; i < b->n; i++) {
        const orr_score_row to = orr_score_row_of(h, b, p->probability, i, key);
        write_rounded(&to, n, r->row + i * n);
        if (p->mask != NULL)
            drop_out(p, b, i, key, n, r->row + i * n);
    }
    h->lanes->transpose(r->row, n, b->lanes, n, r->score, b->lanes);
    orr_keys_read(&h->v, b->sample, b->group, key, n, r->keys, h->value_width);
    h->lanes->product(&(orr_block_product){.a = r->keys,
                                           .a_row = 1,
                                           .a_step = h->value_width,
                                           .b = r->score,
                                           .b_row = b->lanes,
                                           .c = r->o,
                                           .c_row = b->lanes,
                                           .rows = h->value_width,
                                           .depth = n,
                                           .lanes = b->lanes,
                                           .add = true});
}

static void run_block(void *ctx, size_t i, int thread)
{
    (void)thread;
    const plain *p = ctx;
    const orr_attention_problem *h = p->h;
    const int64_t both = h->batch * h->groups, place = (int64_t)i % both;
    const orr_query_block b =
        orr_query_block_of(h, place / h->groups, place % h->groups, (int64_t)i / both);
    scratch r;
    orr_attention_read_transposed(h, &h->q, &b, h->pairs, r.keys, r.q);
    add_up(h, &b, &r);
    memset(r.o, 0, (size_t)(h->value_width * b.lanes) * sizeof(float));
    for (int64_t key = 0; key < h->keys; key += h->block)
        use_keys(p, &b, key, h->keys - key < h->block ? h->keys - key : h->block, &r);
    h->lanes->transpose(r.o, b.lanes, h->value_width, b.lanes, r.keys, h->value_width);
    orr_attention_write_rows(h, &p->y, &b, r.keys, h->value_width);
}

orr_status orr_attention_materialized(const orr_attention_problem *h, orr_error *err)
{
    (void)err;
    const orr_kernel_call *call = h->call;
    const bool drops = call->args->value > 0;
    plain p = {.h = h,
               .y = orr_head_rows_of(&call->out[0]),
               .probability = &call->out[1],
               .mask = drops ? &call->out[2] : NULL,
               .left = drops ? &call->out[3] : NULL};
    orr_workers_run(call->workers, (size_t)(h->batch * h->groups * h->blocks), run_block, &p);
    return ORR_OK;
}
