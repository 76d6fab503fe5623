/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/attention/blocks.h"

#include <math.h>
#include <string.h>

#include "kernel/format/dtype_convert.h"

/* Query blocks of attention: which keys a block sees, and its rows read, transposed and written. */

orr_head_rows orr_head_rows_of(const orr_operand *operand)
{
    const orr_dtype dtype = (orr_dtype)operand->type.dtype;
    const int64_t bytes = orr_dtype_stride_bytes(dtype), *stride = operand->stride;
    return (orr_head_rows){.data = operand->data,
                           .dtype = dtype,
                           .sample = stride[0] * bytes,
                           .token = stride[1] * bytes,
                           .head = stride[2] * bytes,
                           .column = stride[3] * bytes,
                           .width = operand->type.dim[3]};
}

static int64_t within(int64_t x, int64_t end)
{
    return x < 0 ? 0 : x < end ? x : end;
}

static bool is_bf16_row(const orr_head_rows *rows)
{
    return rows->dtype == ORR_DTYPE_BF16 && rows->column == 2;
}

static int64_t attention_first_position(const orr_attention_problem *h, int64_t sample)
{
    return h->call->first != NULL ? h->call->first[sample] : h->call->args->offset;
}

int64_t orr_attention_key_count(const orr_attention_problem *h, int64_t sample)
{
    if (h->call->first == NULL)
        return h->keys;
    const int64_t begin = h->call->args->begin;
    const int64_t keys = h->call->first[sample] + h->queries - begin;
    return begin > 0 ? within(keys, h->keys) : keys;
}

static orr_status check(const orr_attention_problem *h, orr_error *err)
{
    if (h->width > ORR_HEAD_WIDTH_MAX || h->value_width > ORR_HEAD_WIDTH_MAX)
        return orr_fail(err, ORR_UNSUPPORTED, "attention: heads of %lld columns, more than %d",
                        (long long)(h->width > h->value_width ? h->width : h->value_width),
                        ORR_HEAD_WIDTH_MAX);
    for (int64_t b = 0; h->call->first != NULL && b < h->batch; b++)
        if (h->call->first[b] < 0 || orr_attention_key_count(h, b) > h->keys)
            return orr_fail(
                err, ORR_INVALID,
                "attention: sample %lld has %lld tokens behind %lld, and there is room for "
                "%lld keys",
                (long long)b, (long long)h->queries, (long long)h->call->first[b],
                (long long)h->keys);
    return ORR_OK;
}

orr_status orr_attention_problem_of(const orr_kernel_call *call, uint32_t first,
                                    orr_attention_problem *ret, orr_error *err)
{
    const orr_operand *q = &call->in[first], *k = q + 1, *v = q + 2;
    orr_attention_problem h = {
        .call = call,
        .lanes = orr_block_math_of_cpu(),
        .q = orr_head_rows_of(q),
        .k = orr_head_rows_of(k),
        .v = orr_head_rows_of(v),
        .batch = q->type.dim[0],
        .queries = q->type.dim[1],
        .keys = k->type.dim[1],
        .heads = q->type.dim[2],
        .groups = k->type.dim[2],
        .width = q->type.dim[3],
        .value_width = v->type.dim[3],
    };
    const int64_t wide = h.width > h.value_width ? h.width : h.value_width;
    h.share = h.heads / h.groups;
    h.rows = h.queries * h.share;
    h.block = wide * ORR_BLOCK_LANES <= ORR_QUERY_BLOCK_FLOATS ? ORR_BLOCK_LANES : 16;
    h.blocks = (h.rows + h.block - 1) / h.block;
    h.scale = (float)(1 / sqrt((double)h.width));
    h.pairs = h.lanes->pair_product != NULL && is_bf16_row(&h.q) && is_bf16_row(&h.k) &&
              is_bf16_row(&h.v);
    ORR_TRY(check(&h, err));
    *ret = h;
    return ORR_OK;
}

/* The keys [least, last) that a token of the sample attends to. */
static void visible_keys(const orr_attention_problem *h, int64_t sample, int64_t token,
                         int64_t *first_key, int64_t *end_key)
{
    const orr_op_args *args = h->call->args;
    const int64_t keys = orr_attention_key_count(h, sample);
    const int64_t position = attention_first_position(h, sample) + token;
    *first_key = 0;
    *end_key = args->mask == ORR_MASK_NONE ? keys : within(position + 1 - args->begin, keys);
    if (args->mask == ORR_MASK_CHUNKED && position >= 0)
        *first_key = within(position / args->window * args->window - args->begin, *end_key);
}

orr_query_block orr_query_block_of(const orr_attention_problem *h, int64_t sample, int64_t group,
                                   int64_t number)
{
    const int64_t row = number * h->block, left = h->rows - row;
    orr_query_block b = {.sample = sample, .group = group, .row = row, .begin = INT64_MAX};
    b.n = left < h->block ? left : h->block;
    b.lanes = (b.n + 15) / 16 * 16;
    for (int64_t i = 0; i < b.lanes; i++) {
        visible_keys(h, sample, (row + (i < b.n ? i : 0)) / h->share, &b.first_key[i],
                     &b.end_key[i]);
        if (b.end_key[i] > b.first_key[i]) {
            b.begin = b.first_key[i] < b.begin ? b.first_key[i] : b.begin;
            b.end = b.end_key[i] > b.end ? b.end_key[i] : b.end;
        }
    }
    b.begin = b.begin < b.end ? b.begin : b.end;
    return b;
}

void orr_attention_mask_scores(const orr_attention_problem *h, const orr_query_block *b,
                               int64_t key, int64_t n, float *score, float hidden)
{
    int32_t first_key[ORR_BLOCK_LANES], end_key[ORR_BLOCK_LANES];
    bool whole = true;
    for (int64_t i = 0; i < b->lanes; i++) {
        first_key[i] = (int32_t)within(b->first_key[i] - key, n);
        end_key[i] = (int32_t)within(b->end_key[i] - key, n);
        whole = whole && first_key[i] == 0 && end_key[i] == n;
    }
    if (!whole)
        h->lanes->mask_scores(score, n, b->lanes, first_key, end_key, hidden);
}

static char *row_of(const orr_attention_problem *h, const orr_head_rows *of,
                    const orr_query_block *b, int64_t i)
{
    const int64_t r = b->row + i;
    return of->data + b->sample * of->sample + r / h->share * of->token +
           (b->group * h->share + r % h->share) * of->head;
}

void orr_attention_read_rows(const orr_attention_problem *h, const orr_head_rows *of,
                             const orr_query_block *b, float *to, int64_t to_row)
{
    for (int64_t i = 0; i < b->n; i++)
        orr_strided_to_fp32(of->dtype, row_of(h, of, b, i), of->column, of->width, to + i * to_row);
}

void orr_attention_write_rows(const orr_attention_problem *h, const orr_head_rows *of,
                              const orr_query_block *b, const float *from, int64_t from_row)
{
    for (int64_t i = 0; of->data != NULL && i < b->n; i++)
        orr_strided_from_fp32(of->dtype, from + i * from_row, of->width, of->column,
                              row_of(h, of, b, i));
}

/* Copies a bf16 row as pairs; an odd last number is paired with zero. */
static void copy_pairs(const char *from, int64_t width, float *to)
{
    if (width % 2 != 0)
        to[width / 2] = 0;
    memcpy(to, from, (size_t)width * 2);
}

void orr_attention_read_transposed(const orr_attention_problem *h, const orr_head_rows *of,
                                   const orr_query_block *b, bool pairs, float *room, float *to)
{
    const int64_t columns = pairs ? (of->width + 1) / 2 : of->width;
    if (pairs)
        for (int64_t i = 0; i < b->n; i++)
            copy_pairs(row_of(h, of, b, i), of->width, room + i * columns);
    else
        orr_attention_read_rows(h, of, b, room, columns);
    memset(room + b->n * columns, 0, (size_t)((b->lanes - b->n) * columns) * sizeof(float));
    h->lanes->transpose(room, columns, b->lanes, columns, to, b->lanes);
}

static char *key_of(const orr_head_rows *of, int64_t sample, int64_t group, int64_t token)
{
    return of->data + sample * of->sample + group * of->head + token * of->token;
}

void orr_keys_read(const orr_head_rows *of, int64_t sample, int64_t group, int64_t token, int64_t n,
                   float *to, int64_t to_row)
{
    for (int64_t i = 0; i < n; i++)
        orr_strided_to_fp32(of->dtype, key_of(of, sample, group, token + i), of->column, of->width,
                            to + i * to_row);
}

void orr_keys_write(const orr_head_rows *of, int64_t sample, int64_t group, int64_t token,
                    int64_t n, const float *from, int64_t from_row)
{
    for (int64_t i = 0; of->data != NULL && i < n; i++)
        orr_strided_from_fp32(of->dtype, from + i * from_row, of->width, of->column,
                              key_of(of, sample, group, token + i));
}

void orr_keys_pairs_along(const orr_head_rows *of, int64_t sample, int64_t group, int64_t token,
                          int64_t n, float *to)
{
    for (int64_t i = 0; i < n; i++)
        copy_pairs(key_of(of, sample, group, token + i), of->width, to + i * ((of->width + 1) / 2));
}

void orr_keys_pairs_across(const orr_block_math *lanes, const orr_head_rows *of, int64_t sample,
                           int64_t group, int64_t token, int64_t n, float *to)
{
    static const uint16_t none[ORR_HEAD_WIDTH_MAX];
    for (int64_t i = 0; i < n; i += 2) {
        const void *above = key_of(of, sample, group, token + i),
                   *below =
                       i + 1 < n ? key_of(of, sample, group, token + i + 1) : (const void *)none;
        lanes->interleave(above, below, of->width, to + i / 2 * of->width);
    }
}
