/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/vec_dot.h"

#include "base/workers.h"
#include "kernel/format/row.h"

/* Skinny GEMM: products with skinny rows of a, as in decoding, where the time is that of reading
 * the weights. Tokens (rows of a) are first converted to the form of the format's dot product
 * (vec_dot.h); then every weight row is read once, in memory order, in work items of about 128 KiB.
 */

enum {
    ITEM_BYTES = 128 << 10,
    ITEM_ROWS = 256,
};

typedef struct skinny {
    const orr_gemm_batch *products;
    const orr_vec_dot *dots;
    orr_row_format format;
    int64_t row_bytes;     /* of the numbers of a row */
    int64_t block, blocks; /* rows of a work item; work items of a product */
    size_t token_bytes, wide_bytes;
    char *tokens, *wide; /* (rows of all a, token_bytes); (threads, wide_bytes) */
} skinny;

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static skinny skinny_of(const orr_gemm_batch *products)
{
    const orr_gemm_problem *p = &products->like;
    skinny s = {.products = products,
                .format = (orr_row_format)p->b.rows->format,
                .dots = orr_gemm_dots(products)};
    s.row_bytes = orr_row_format_bytes(s.format, p->k);
    const int64_t rows = ITEM_BYTES / (s.row_bytes > 0 ? s.row_bytes : 1) / ORR_VEC_DOT_ROWS;
    s.block = rows < 1 ? ORR_VEC_DOT_ROWS : rows * ORR_VEC_DOT_ROWS;
    s.block = s.block > ITEM_ROWS ? ITEM_ROWS : s.block;
    s.blocks = (p->n + s.block - 1) / s.block;
    s.token_bytes = aligned(s.dots->token_bytes(p->k));
    s.wide_bytes = aligned((size_t)p->k * sizeof(float));
    return s;
}

size_t orr_skinny_gemm_workspace(const orr_gemm_batch *products, const orr_workers *workers)
{
    const skinny s = skinny_of(products);
    return (size_t)products->like.m * s.token_bytes +
           (size_t)orr_workers_count(workers) * s.wide_bytes;
}

static void prepare_token(void *ctx, size_t token, int thread)
{
    const skinny *s = ctx;
    const orr_matrix *a = &s->products->like.a;
    const int64_t k = s->products->like.k, bytes = (int64_t)orr_dtype_bytes((orr_dtype)a->dtype);
    const char *from = (const char *)a->data + (int64_t)token * a->stride_i * bytes;
    float *wide = (float *)(void *)(s->wide + (size_t)thread * s->wide_bytes);
    if (a->stride_k == 1)
        orr_dtype_to_fp32((orr_dtype)a->dtype, from, k, wide);
    else
        for (int64_t i = 0; i < k; i++)
            orr_dtype_to_fp32((orr_dtype)a->dtype, from + i * a->stride_k * bytes, 1, &wide[i]);
    s->dots->prepare(wide, k, s->tokens + token * s->token_bytes);
}

static int rows_at(const orr_matrix *b, int64_t i, int64_t end, const void **ret)
{
    int n = 0;
    for (; n < ORR_VEC_DOT_ROWS && i + n < end; n++)
        ret[n] = orr_row_at(b->rows, b->first_row + i + n);
    return n;
}

/* Dot products of weight rows n0 .. n0 + n - 1 with up to 8 tokens. */
static void compute_sums(const skinny *s, const orr_gemm_problem *p, int64_t n0, int64_t n,
                         const char *tokens, int n_tokens,
                         float sums[ORR_VEC_DOT_TOKENS][ITEM_ROWS])
{
    const void *rows[ORR_VEC_DOT_ROWS];
    for (int64_t i = 0; i < n; i += ORR_VEC_DOT_ROWS)
        s->dots->dots(rows, rows_at(&p->b, n0 + i, n0 + n, rows), tokens, s->token_bytes, n_tokens,
                      p->k, &sums[0][i], ITEM_ROWS);
}

static void compute_item(void *ctx, size_t piece, int thread)
{
    (void)thread;
    const skinny *s = ctx;
    const orr_gemm_batch *products = s->products;
    const int64_t n0 = (int64_t)piece % s->blocks * s->block;
    float sums[ORR_VEC_DOT_TOKENS][ITEM_ROWS];
    orr_gemm_problem p = products->like;
    if (products->at != NULL)
        products->at(products->ctx, (int64_t)piece / s->blocks, &p);
    const int64_t n = p.n - n0 < s->block ? p.n - n0 : s->block;
    for (int64_t m = 0; m < p.m; m += ORR_VEC_DOT_TOKENS) {
        const int n_tokens = p.m - m < ORR_VEC_DOT_TOKENS ? (int)(p.m - m) : ORR_VEC_DOT_TOKENS;
        const char *tokens = s->tokens + (size_t)(p.first_m + m) * s->token_bytes;
        compute_sums(s, &p, n0, n, tokens, n_tokens, sums);
        for (int t = 0; t < n_tokens; t++)
            orr_gemm_store_row(&p, m + t, n0, n, sums[t]);
    }
}

void orr_skinny_gemm(const orr_gemm_batch *products, void *workspace, orr_workers *workers)
{
    skinny s = skinny_of(products);
    s.tokens = workspace;
    s.wide = s.tokens + (size_t)products->like.m * s.token_bytes;
    orr_workers_run(workers, (size_t)products->like.m, prepare_token, &s);
    orr_workers_run(workers, (size_t)(products->count * s.blocks), compute_item, &s);
}
