/* SPDX-License-Identifier: Apache-2.0 */
#include "measure/kernels.h"

typedef struct listing {
    bool quick;
    orr_timed_visit *visit;
    void *ctx;
    orr_error *err;
} listing;

static orr_type type2(orr_dtype dtype, int64_t rows, int64_t columns)
{
    return (orr_type){.dtype = (uint8_t)dtype, .rank = 2, .dim = {rows, columns}};
}
static orr_type type1(orr_dtype dtype, int64_t n)
{
    return (orr_type){.dtype = (uint8_t)dtype, .rank = 1, .dim = {n}};
}

/* x w, x w', and x' w into fp32: forward, gradient of the input, gradient of the weight. */
static orr_status products(const listing *l, orr_dtype dtype, int64_t m, int64_t n, int64_t k)
{
    const orr_type forms[3][2] = {{type2(dtype, m, k), type2(dtype, k, n)},
                                  {type2(dtype, m, k), type2(dtype, n, k)},
                                  {type2(dtype, k, m), type2(dtype, k, n)}};
    for (uint8_t form = 0; form < 3; form++) {
        const orr_timed_call call = {.op = ORR_OP_MATMUL,
                                     .args = {.transpose_a = form == 2, .transpose_b = form == 1},
                                     .n_in = 2,
                                     .in = {forms[form][0], forms[form][1]},
                                     .dim = {m, n, k},
                                     .form = form,
                                     .accumulate = form == 2};
        ORR_TRY(l->visit(l->ctx, &call, false, l->err));
    }
    return ORR_OK;
}

static orr_status list_products(const listing *l, orr_dtype dtype)
{
    static const int64_t fine[] = {16, 64, 256, 1024, 4096}, coarse[] = {64, 512, 2048};
    const int64_t *size = l->quick ? coarse : fine;
    const size_t n = l->quick ? 3 : 5;
    const double most = l->quick ? 6e8 : 9e9;
    for (size_t a = 0; a < n; a++)
        for (size_t b = 0; b < n; b++)
            for (size_t c = 0; c < n; c++)
                if ((double)size[a] * (double)size[b] * (double)size[c] < most)
                    ORR_TRY(products(l, dtype, size[a], size[b], size[c]));
    return ORR_OK;
}

static orr_status attention(const listing *l, orr_dtype dtype, int64_t heads, int64_t tokens,
                            int64_t width)
{
    const orr_type q = {.dtype = (uint8_t)dtype, .rank = 4, .dim = {1, tokens, heads, width}};
    const orr_type lse = {.dtype = ORR_DTYPE_FP32, .rank = 3, .dim = {1, heads, tokens}};
    const orr_op_args args = {.flash = true, .mask = ORR_MASK_CAUSAL};
    const orr_timed_call forward = {.op = ORR_OP_ATTENTION,
                                    .args = args,
                                    .n_in = 3,
                                    .in = {q, q, q},
                                    .dim = {heads, tokens, width}};
    const orr_timed_call backward = {.op = ORR_OP_ATTENTION_BACKWARD,
                                     .args = args,
                                     .n_in = 6,
                                     .in = {q, q, q, q, q, lse},
                                     .dim = {heads, tokens, width}};
    ORR_TRY(l->visit(l->ctx, &forward, false, l->err));
    return l->visit(l->ctx, &backward, false, l->err);
}

static orr_status list_attention(const listing *l, orr_dtype dtype)
{
    static const int64_t tokens[] = {64, 256, 1024}, widths[] = {32, 64, 128};
    for (int t = 0; t < 3; t++)
        for (int w = 0; w < 3; w++)
            ORR_TRY(attention(l, dtype, 8, tokens[t], widths[w]));
    return ORR_OK;
}

enum { COLUMNS = 512 };

/* A call over rows of COLUMNS. */
static orr_status rows_call(const listing *l, orr_op op, orr_op_args args, uint32_t n_in,
                            const orr_type *in, int64_t rows, int64_t limit)
{
    orr_timed_call call = {
        .op = op, .args = args, .n_in = n_in, .dim = {rows, COLUMNS, 0}, .limit = limit};
    for (uint32_t i = 0; i < n_in; i++)
        call.in[i] = in[i];
    ORR_TRY(l->visit(l->ctx, &call, false, l->err));
    return l->visit(l->ctx, &call, true, l->err);
}
#define ROWS(op, n, ...)                                                                           \
    ORR_TRY(rows_call(l, ORR_OP_##op, (orr_op_args){.value = 1e-5}, (n),                           \
                      (const orr_type[]){__VA_ARGS__}, rows, 0))

static orr_status norms(const listing *l, orr_dtype dtype, int64_t rows)
{
    const orr_type x = type2(dtype, rows, COLUMNS), w = type1(dtype, COLUMNS),
                   r = type1(ORR_DTYPE_FP32, rows);
    ROWS(RMS_NORM, 2, x, w);
    ROWS(RMS_NORM_BACKWARD, 4, x, x, r, w);
    ROWS(LAYER_NORM, 3, x, w, w);
    ROWS(LAYER_NORM_BACKWARD, 5, x, x, r, r, w);
    return ORR_OK;
}

static orr_status elements(const listing *l, orr_dtype dtype, int64_t rows)
{
    const orr_type x = type2(dtype, rows, COLUMNS), half = type2(dtype, rows, COLUMNS / 2);
    const orr_type bias = type1(dtype, COLUMNS);
    ROWS(ADD, 2, x, x);
    ROWS(MUL, 2, x, x);
    ROWS(SCALE, 1, x);
    ROWS(BIAS, 2, x, bias);
    ROWS(COPY, 1, x);
    ROWS(GELU, 1, x);
    ROWS(RELU, 1, x);
    ROWS(SILU, 1, x);
    ROWS(SIGMOID, 1, x);
    ROWS(SWIGLU, 1, x);
    ROWS(SWIGLU_BACKWARD, 2, half, x);
    ROWS(SOFTMAX, 1, x);
    ROWS(CONCAT, 2, x, x);
    ROWS(SUM, 1, x);
    const orr_op activations[] = {ORR_OP_GELU, ORR_OP_RELU};
    for (int i = 0; i < 2; i++)
        ORR_TRY(rows_call(l, ORR_OP_ACTIVATION_BACKWARD,
                          (orr_op_args){.op = (uint8_t)activations[i]}, 2, (const orr_type[]){x, x},
                          rows, 0));
    const orr_dtype other = dtype == ORR_DTYPE_FP32 ? ORR_DTYPE_BF16 : ORR_DTYPE_FP32;
    return rows_call(l, ORR_OP_CAST, (orr_op_args){.dtype = (uint8_t)other}, 1, &x, rows, 0);
}

/* Heads of 64 columns. */
static orr_status positions(const listing *l, orr_dtype dtype, int64_t rows)
{
    const orr_type x = {.dtype = (uint8_t)dtype, .rank = 4, .dim = {1, rows, COLUMNS / 64, 64}};
    return rows_call(l, ORR_OP_ROTARY, (orr_op_args){.value = 1e4}, 1, &x, rows, 0);
}

static orr_status lookups(const listing *l, orr_dtype dtype, int64_t rows)
{
    enum { WORDS = 8192 };
    const orr_type table = type2(dtype, WORDS, COLUMNS), ids = type1(ORR_DTYPE_INT64, rows);
    const orr_type dy = type2(dtype, rows, COLUMNS), logits = type2(ORR_DTYPE_FP32, rows, COLUMNS);
    const orr_type each = type1(ORR_DTYPE_FP32, rows);
    ORR_TRY(rows_call(l, ORR_OP_EMBEDDING, (orr_op_args){0}, 2, (const orr_type[]){table, ids},
                      rows, WORDS));
    ORR_TRY(rows_call(l, ORR_OP_EMBEDDING_BACKWARD, (orr_op_args){.count = WORDS}, 2,
                      (const orr_type[]){dy, ids}, rows, WORDS));
    ORR_TRY(rows_call(l, ORR_OP_CROSS_ENTROPY, (orr_op_args){0}, 2, (const orr_type[]){logits, ids},
                      rows, COLUMNS));
    return rows_call(l, ORR_OP_CROSS_ENTROPY_BACKWARD, (orr_op_args){0}, 5,
                     (const orr_type[]){logits, ids, each, each, each}, rows, COLUMNS);
}

/* Tokens to two of eight experts and back; products of equally many rows each. */
static orr_status routing(const listing *l, orr_dtype dtype, int64_t rows)
{
    enum { EXPERTS = 8, CHOSEN = 2 };
    const orr_type logits = type2(ORR_DTYPE_FP32, rows, EXPERTS),
                   ids = type2(ORR_DTYPE_INT32, rows, CHOSEN);
    const orr_type x = type2(dtype, rows, COLUMNS), scores = type2(ORR_DTYPE_FP32, rows, CHOSEN);
    const orr_type sorted = type2(dtype, rows * CHOSEN, COLUMNS);
    ORR_TRY(rows_call(l, ORR_OP_TOP_K, (orr_op_args){.top_k = CHOSEN}, 1, &logits, rows, 0));
    ORR_TRY(rows_call(l, ORR_OP_DISPATCH, (orr_op_args){0}, 2, (const orr_type[]){x, ids}, rows,
                      EXPERTS));
    return rows_call(l, ORR_OP_COMBINE, (orr_op_args){0}, 3,
                     (const orr_type[]){sorted, ids, scores}, rows, EXPERTS);
}

static orr_status optimizers(const listing *l, int64_t rows)
{
    const orr_type p = type1(ORR_DTYPE_FP32, rows * COLUMNS),
                   copy = type1(ORR_DTYPE_BF16, rows * COLUMNS);
    ORR_TRY(
        rows_call(l, ORR_OP_ADAMW, (orr_op_args){0}, 4, (const orr_type[]){p, p, p, p}, rows, 0));
    ORR_TRY(rows_call(l, ORR_OP_ADAMW, (orr_op_args){0}, 5, (const orr_type[]){p, p, p, p, copy},
                      rows, 0));
    return rows_call(l, ORR_OP_SGD, (orr_op_args){0}, 2, (const orr_type[]){p, p}, rows, 0);
}

/* Bags of 32 lookups. */
static orr_status bags(const listing *l, int64_t rows)
{
    enum { TABLE = 100000, WIDTH = 64, BAG = 32 };
    const orr_type table = type2(ORR_DTYPE_FP32, TABLE, WIDTH),
                   ids = type2(ORR_DTYPE_INT64, rows, BAG);
    const orr_type dy = type2(ORR_DTYPE_FP32, rows, WIDTH),
                   drows = type2(ORR_DTYPE_FP32, rows * BAG, WIDTH);
    const orr_type state = type1(ORR_DTYPE_FP32, TABLE);
    const orr_type x = {.dtype = ORR_DTYPE_FP32, .rank = 3, .dim = {rows, 9, WIDTH}};
    ORR_TRY(rows_call(l, ORR_OP_EMBEDDING_BAG, (orr_op_args){0}, 2, (const orr_type[]){table, ids},
                      rows, TABLE));
    ORR_TRY(rows_call(l, ORR_OP_EMBEDDING_BAG_BACKWARD, (orr_op_args){0}, 2,
                      (const orr_type[]){dy, ids}, rows, TABLE));
    ORR_TRY(rows_call(l, ORR_OP_ROWWISE_ADAGRAD, (orr_op_args){0}, 4,
                      (const orr_type[]){table, drows, state, ids}, rows, TABLE));
    return rows_call(l, ORR_OP_INTERACTION, (orr_op_args){0}, 1, &x, rows, 0);
}

orr_status orr_list_timed_calls(bool quick, orr_timed_visit *visit, void *ctx, orr_error *err)
{
    static const int64_t fine[] = {16, 128, 1024, 8192}, coarse[] = {64, 4096};
    static const orr_dtype dtypes[] = {ORR_DTYPE_BF16, ORR_DTYPE_FP32};
    const listing all = {quick, visit, ctx, err}, *l = &all;
    const int64_t *rows = quick ? coarse : fine;
    for (int t = 0; t < 2; t++) {
        ORR_TRY(list_products(l, dtypes[t]));
        ORR_TRY(list_attention(l, dtypes[t]));
        for (int i = 0; i < (quick ? 2 : 4); i++) {
            ORR_TRY(norms(l, dtypes[t], rows[i]));
            ORR_TRY(elements(l, dtypes[t], rows[i]));
            ORR_TRY(positions(l, dtypes[t], rows[i]));
            ORR_TRY(lookups(l, dtypes[t], rows[i]));
            ORR_TRY(routing(l, dtypes[t], rows[i]));
        }
    }
    for (int i = 0; i < (quick ? 2 : 4); i++) {
        ORR_TRY(optimizers(l, rows[i] * 4));
        ORR_TRY(bags(l, rows[i] / 4 + 4));
    }
    return ORR_OK;
}
