/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/gemm/vec_dot.h"

#include "base/workers.h"
#include "kernel/format/row.h"

/* Products of few tokens. First all tokens are brought to the form in which rows of weights meet
 * them; then pieces of some 128 KiB of weights are read once, in order. */

enum {
    FEW_GROUPED = 64, /* tokens of all experts */
    PIECE_BYTES = 128 << 10,
    PIECE_ROWS = 256,
};

typedef struct few {
    const orr_gemm_batch *products;
    const orr_vec_dot *dots;
    orr_row_format format;
    int64_t row_bytes;     /* of numbers of a row */
    int64_t block, blocks; /* rows of a piece; pieces of a product */
    size_t token_bytes, wide_bytes;
    char *tokens, *wide; /* (rows of all a, token_bytes); (threads, wide_bytes) */
} few;

static orr_row_format format_of(const orr_matrix *b)
{
    if (b->rows != NULL)
        return (orr_row_format)b->rows->format;
    return b->dtype == ORR_DTYPE_BF16   ? ORR_ROW_FORMAT_BF16
           : b->dtype == ORR_DTYPE_FP16 ? ORR_ROW_FORMAT_FP16
                                        : ORR_ROW_FORMAT_FP32;
}

bool orr_skinny_gemm_applies(const orr_gemm_batch *products)
{
    const orr_gemm_problem *p = &products->like;
    const bool rows = p->b.rows != NULL || (p->b.stride_k == 1 && p->b.dtype != ORR_DTYPE_FP64);
    return products->column && rows && p->k > 0 &&
           p->m <= (products->count > 1
                        ? FEW_GROUPED
                        : orr_vec_dot_of(format_of(&p->b), (orr_dtype)p->a.dtype)->most);
}

static size_t aligned(size_t bytes)
{
    return (bytes + 63) / 64 * 64;
}

static few few_of(const orr_gemm_batch *products)
{
    const orr_gemm_problem *p = &products->like;
    few f = {.products = products, .format = format_of(&p->b)};
    f.dots = orr_vec_dot_of(f.format, (orr_dtype)p->a.dtype);
    f.row_bytes = orr_row_format_bytes(f.format, p->k);
    const int64_t rows = PIECE_BYTES / (f.row_bytes > 0 ? f.row_bytes : 1) / ORR_VEC_DOT_ROWS;
    f.block = rows < 1 ? ORR_VEC_DOT_ROWS : rows * ORR_VEC_DOT_ROWS;
    f.block = f.block > PIECE_ROWS ? PIECE_ROWS : f.block;
    f.blocks = (p->n + f.block - 1) / f.block;
    f.token_bytes = aligned(f.dots->token_bytes(p->k));
    f.wide_bytes = aligned((size_t)p->k * sizeof(float));
    return f;
}

size_t orr_skinny_gemm_workspace(const orr_gemm_batch *products, const orr_workers *workers)
{
    const few f = few_of(products);
    return (size_t)products->like.m * f.token_bytes +
           (size_t)orr_workers_count(workers) * f.wide_bytes;
}

static void prepare_token(void *ctx, size_t token, int thread)
{
    const few *f = ctx;
    const orr_matrix *a = &f->products->like.a;
    const int64_t k = f->products->like.k, bytes = (int64_t)orr_dtype_bytes((orr_dtype)a->dtype);
    const char *from = (const char *)a->data + (int64_t)token * a->stride_i * bytes;
    float *wide = (float *)(void *)(f->wide + (size_t)thread * f->wide_bytes);
    if (a->stride_k == 1)
        orr_dtype_to_fp32((orr_dtype)a->dtype, from, k, wide);
    else
        for (int64_t i = 0; i < k; i++)
            orr_dtype_to_fp32((orr_dtype)a->dtype, from + i * a->stride_k * bytes, 1, &wide[i]);
    f->dots->prepare(wide, k, f->tokens + token * f->token_bytes);
}

static const void *row_at(const orr_matrix *b, int64_t i)
{
    if (b->rows != NULL)
        return orr_row_at(b->rows, b->first_row + i);
    return (const char *)b->data + i * b->stride_i * (int64_t)orr_dtype_bytes((orr_dtype)b->dtype);
}

static int rows_at(const orr_matrix *b, int64_t i, int64_t end, const void **ret)
{
    int n = 0;
    for (; n < ORR_VEC_DOT_ROWS && i + n < end; n++)
        ret[n] = row_at(b, i + n);
    return n;
}

/* Rows n0 .. n0 + n - 1 by up to 8 tokens. */
static void make_sums(const few *f, const orr_gemm_problem *p, int64_t n0, int64_t n,
                      const char *tokens, int n_tokens, float sums[ORR_VEC_DOT_TOKENS][PIECE_ROWS])
{
    const void *rows[ORR_VEC_DOT_ROWS];
    for (int64_t i = 0; i < n; i += ORR_VEC_DOT_ROWS)
        f->dots->dots(rows, rows_at(&p->b, n0 + i, n0 + n, rows), tokens, f->token_bytes, n_tokens,
                      p->k, &sums[0][i], PIECE_ROWS);
}

static void make_piece(void *ctx, size_t piece, int thread)
{
    (void)thread;
    const few *f = ctx;
    const orr_gemm_batch *products = f->products;
    const int64_t n0 = (int64_t)piece % f->blocks * f->block;
    float sums[ORR_VEC_DOT_TOKENS][PIECE_ROWS];
    orr_gemm_problem p = products->like;
    if (products->at != NULL)
        products->at(products->ctx, (int64_t)piece / f->blocks, &p);
    const int64_t n = p.n - n0 < f->block ? p.n - n0 : f->block;
    for (int64_t m = 0; m < p.m; m += ORR_VEC_DOT_TOKENS) {
        const int n_tokens = p.m - m < ORR_VEC_DOT_TOKENS ? (int)(p.m - m) : ORR_VEC_DOT_TOKENS;
        const char *tokens = f->tokens + (size_t)(p.first_m + m) * f->token_bytes;
        make_sums(f, &p, n0, n, tokens, n_tokens, sums);
        for (int t = 0; t < n_tokens; t++)
            orr_gemm_store_row(&p, m + t, n0, n, sums[t]);
    }
}

void orr_skinny_gemm(const orr_gemm_batch *products, void *workspace, orr_workers *workers)
{
    few f = few_of(products);
    f.tokens = workspace;
    f.wide = f.tokens + (size_t)products->like.m * f.token_bytes;
    orr_workers_run(workers, (size_t)products->like.m, prepare_token, &f);
    orr_workers_run(workers, (size_t)(products->count * f.blocks), make_piece, &f);
}
