/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "../../unit/kernel/products.h"
#include "../support/seeds.h"

/* What an operator makes of a row has the same bits alone and among others, however many, by any
 * number of threads, at each level of the processor. */
enum { ROWS = 300 };
static const int64_t BATCHES[] = {2, 3, 5, 8, 17, 64, 300};
enum { N_BATCHES = sizeof BATCHES / sizeof *BATCHES };

/* Rows [first, first + n) of a tensor's first dim. */
static orr_operand rows_from(const tensor *t, int64_t first, int64_t n)
{
    orr_operand part = t->operand;
    const int64_t bytes = (int64_t)orr_dtype_bytes((orr_dtype)part.type.dtype);
    part.type.dim[0] = n;
    part.data = t->bytes + first * part.stride[0] * bytes;
    return part;
}

static size_t bytes_of(const tensor *t)
{
    return (size_t)t->n * (size_t)orr_dtype_bytes((orr_dtype)t->operand.type.dtype);
}

/* A call on `rows` rows whose first `by_row` inputs go along with them. */
typedef struct row_call {
    const char *name;
    orr_op op;
    orr_op_args args;
    const tensor *in[3], *out;
    uint32_t n_in, by_row;
    const int64_t *first; /* of each row, or NULL */
} row_call;

static void run_rows(const row_call *c, int64_t rows, int64_t at_once, int threads)
{
    memset(c->out->bytes, 0, bytes_of(c->out));
    for (int64_t at = 0; at < rows; at += at_once) {
        const int64_t n = rows - at < at_once ? rows - at : at_once;
        orr_operand in[3], out[2] = {rows_from(c->out, at, n)}; /* no log-sum-exp */
        for (uint32_t i = 0; i < c->n_in; i++)
            in[i] = i < c->by_row ? rows_from(c->in[i], at, n) : c->in[i]->operand;
        const orr_kernel_call call = {.op = (uint8_t)c->op,
                                      .args = &c->args,
                                      .n_in = c->n_in,
                                      .n_out = 1,
                                      .in = in,
                                      .out = out,
                                      .first = c->first != NULL ? c->first + at : NULL};
        orr_kernel_call copy = call;
        assert_int_equal(run_call(&copy, threads), ORR_OK);
    }
}

static void hold_rows(const row_call *c, int64_t rows, uint64_t seed)
{
    char *alone = malloc(bytes_of(c->out) + 1);
    assert_non_null(alone);
    run_rows(c, rows, 1, 0);
    memcpy(alone, c->out->bytes, bytes_of(c->out));
    for (int b = 0; b < N_BATCHES; b++) {
        run_rows(c, rows, BATCHES[b], b % 4);
        if (memcmp(alone, c->out->bytes, bytes_of(c->out)) != 0)
            seed_fail(seed, "%s of %s at %s: rows differ in batches of %lld", c->name,
                      orr_dtype_name((orr_dtype)c->in[0]->operand.type.dtype),
                      orr_cpu_level_name(orr_cpu_level()), (long long)BATCHES[b]);
    }
    free(alone);
}

static const orr_dtype DTYPES[] = {ORR_DTYPE_FP32, ORR_DTYPE_BF16, ORR_DTYPE_FP16};

static void products(uint64_t seed, orr_random *r)
{
    for (int format = -1; format < ORR_ROW_FORMATS; format++) {
        const orr_dtype x_dtype = DTYPES[orr_random_below(r, 3)], y_dtype = DTYPES[(seed + 1) % 2];
        const orr_dtype w_dtype = orr_random_below(r, 2) == 0 ? x_dtype : ORR_DTYPE_BF16;
        const bool turned = orr_random_below(r, 2) != 0;
        const int64_t k = 32 * (int64_t)(1 + orr_random_below(r, 80)) - (format < 3 ? 5 : 0),
                      n = 1 + (int64_t)orr_random_below(r, 60);
        tensor x = tensor_of(x_dtype, 2, (int64_t[]){ROWS, k}, false, false, r);
        tensor y = tensor_of(y_dtype, 2, (int64_t[]){ROWS, n}, false, false, r);
        tensor w = format < 0 ? tensor_of(w_dtype, 2, (int64_t[]){turned ? n : k, turned ? k : n},
                                          false, false, r)
                              : rows_of((orr_row_format)format, w_dtype, 1, k, n, turned, r);
        settle(&w);
        char name[40];
        snprintf(name, sizeof name, "product with %s",
                 format < 0 ? "a tensor" : orr_row_format_name((orr_row_format)format));
        const row_call c = {.name = name,
                            .op = ORR_OP_MATMUL,
                            .args = {.transpose_b = turned},
                            .in = {&x, &w},
                            .out = &y,
                            .n_in = 2,
                            .by_row = 1};
        hold_rows(&c, ROWS, seed);
        tensor_done(&x);
        tensor_done(&y);
        tensor_done(&w);
    }
}

/* One expert's rows between those of others: the same as in a product of their own. */
static void grouped_products(uint64_t seed, orr_random *r)
{
    enum { EXPERTS = 5, N = 21 };
    for (int format = -1; format < ORR_ROW_FORMATS; format++) {
        const orr_dtype dtype = DTYPES[orr_random_below(r, 2)];
        const int64_t k = 32 * (int64_t)(1 + orr_random_below(r, 40));
        const int64_t tokens = orr_random_below(r, 2) == 0 ? ROWS : 40;
        tensor x = tensor_of(dtype, 2, (int64_t[]){tokens, k}, false, false, r);
        tensor y = tensor_of(dtype, 2, (int64_t[]){tokens, N}, false, false, r),
               alone = tensor_of(dtype, 2, (int64_t[]){1, N}, false, false, r);
        tensor w = format < 0 ? tensor_of(dtype, 3, (int64_t[]){EXPERTS, k, N}, false, false, r)
                              : rows_of((orr_row_format)format, dtype, EXPERTS, k, N, false, r);
        settle(&w);
        int32_t counts[EXPERTS] = {0}, one[EXPERTS] = {0};
        for (int64_t i = 0; i < tokens; i++) /* the last expert has none */
            counts[orr_random_below(r, EXPERTS - 1)]++;
        const orr_op_args args = {0};
        orr_operand of_counts = {.type = {.dtype = ORR_DTYPE_INT32, .rank = 1, .dim = {EXPERTS}},
                                 .stride = {1},
                                 .data = counts};
        const orr_operand in[3] = {x.operand, w.operand, of_counts};
        orr_kernel_call call = {.op = ORR_OP_GROUPED_MATMUL,
                                .args = &args,
                                .n_in = 3,
                                .n_out = 1,
                                .in = in,
                                .out = &y.operand};
        assert_int_equal(run_call(&call, 3), ORR_OK);
        of_counts.data = one;
        int64_t row = 0;
        for (int e = 0; e < EXPERTS; e++)
            for (int32_t i = 0; i < counts[e]; i++, row++) {
                const orr_operand in_one[3] = {rows_from(&x, row, 1), w.operand, of_counts};
                call.in = in_one;
                call.out = &alone.operand;
                one[e] = 1;
                assert_int_equal(run_call(&call, 0), ORR_OK);
                one[e] = 0;
                const size_t bytes = N * (size_t)orr_dtype_bytes(dtype);
                if (memcmp(alone.bytes, y.bytes + (size_t)row * bytes, bytes) != 0)
                    seed_fail(seed, "%s, format %d: row %lld of expert %d differs alone",
                              orr_cpu_level_name(orr_cpu_level()), format, (long long)row, e);
            }
        tensor_done(&x);
        tensor_done(&y);
        tensor_done(&alone);
        tensor_done(&w);
    }
}

/* One query of each sample, with keys of which there are up to 2,300: samples beside each other. */
static void attention_beside_samples(uint64_t seed, orr_random *r)
{
    enum { SAMPLES = 9, KEYS = 2300, GROUPS = 2, WIDTH = 16 };
    const orr_dtype dtype = DTYPES[seed % 2];
    const int64_t heads = GROUPS * (1 + (int64_t)orr_random_below(r, 3));
    int64_t first[SAMPLES];
    tensor q = tensor_of(dtype, 4, (int64_t[]){SAMPLES, 1, heads, WIDTH}, false, false, r),
           y = tensor_of(dtype, 4, (int64_t[]){SAMPLES, 1, heads, WIDTH}, false, false, r);
    tensor k = tensor_of(dtype, 4, (int64_t[]){SAMPLES, KEYS, GROUPS, WIDTH}, false, false, r),
           v = tensor_of(dtype, 4, (int64_t[]){SAMPLES, KEYS, GROUPS, WIDTH}, false, false, r);
    for (int i = 0; i < SAMPLES; i++)
        first[i] = (int64_t)orr_random_below(r, i % 2 == 0 ? KEYS : 40);
    orr_op_args args = {.mask = ORR_MASK_CAUSAL, .flash = true};
    if (seed % 3 == 0) {
        args.mask = ORR_MASK_CHUNKED;
        args.window = 700;
    }
    const row_call c = {.name = "attention",
                        .op = ORR_OP_ATTENTION,
                        .args = args,
                        .in = {&q, &k, &v},
                        .out = &y,
                        .n_in = 3,
                        .by_row = 3,
                        .first = first};
    hold_rows(&c, SAMPLES, seed);
    tensor_done(&q);
    tensor_done(&y);
    tensor_done(&k);
    tensor_done(&v);
}

/* Queries of one sample, all at once and one after the other. */
static void attention_in_pieces(uint64_t seed, orr_random *r)
{
    enum { KEYS = 1300, GROUPS = 2, WIDTH = 16, HEADS = 4, QUERIES = 200 };
    const orr_dtype dtype = DTYPES[seed % 2];
    const int64_t from = (int64_t)orr_random_below(r, KEYS - QUERIES);
    tensor q = tensor_of(dtype, 4, (int64_t[]){1, QUERIES, HEADS, WIDTH}, false, false, r),
           y = tensor_of(dtype, 4, (int64_t[]){1, QUERIES, HEADS, WIDTH}, false, false, r),
           one = tensor_of(dtype, 4, (int64_t[]){1, 1, HEADS, WIDTH}, false, false, r);
    tensor k = tensor_of(dtype, 4, (int64_t[]){1, KEYS, GROUPS, WIDTH}, false, false, r),
           v = tensor_of(dtype, 4, (int64_t[]){1, KEYS, GROUPS, WIDTH}, false, false, r);
    const orr_op_args args = {.mask = seed % 3 == 0 ? ORR_MASK_CHUNKED : ORR_MASK_CAUSAL,
                              .window = seed % 3 == 0 ? 90 : 0,
                              .flash = true};
    int64_t first = from;
    orr_operand in[3] = {q.operand, k.operand, v.operand}, out[2] = {y.operand};
    orr_kernel_call call = {.op = ORR_OP_ATTENTION,
                            .args = &args,
                            .n_in = 3,
                            .n_out = 1,
                            .in = in,
                            .out = out,
                            .first = &first};
    assert_int_equal(run_call(&call, 2), ORR_OK);
    out[0] = one.operand;
    in[0].type.dim[1] = 1;
    const size_t bytes = HEADS * WIDTH * (size_t)orr_dtype_bytes(dtype);
    for (int64_t i = 0; i < QUERIES; i++) {
        first = from + i;
        in[0].data = q.bytes + (size_t)i * bytes;
        assert_int_equal(run_call(&call, 0), ORR_OK);
        if (memcmp(one.bytes, y.bytes + (size_t)i * bytes, bytes) != 0)
            seed_fail(seed, "attention at %s: query %lld of %d after %lld keys differs alone",
                      orr_cpu_level_name(orr_cpu_level()), (long long)i, QUERIES, (long long)from);
    }
    tensor_done(&q);
    tensor_done(&y);
    tensor_done(&one);
    tensor_done(&k);
    tensor_done(&v);
}

static void rows_of_numbers(uint64_t seed, orr_random *r)
{
    static const struct {
        const char *name;
        orr_op op;
        uint32_t n_in, by_row;
        bool tanh;
    } ops[] = {
        {"rms_norm", ORR_OP_RMS_NORM, 2, 1, false}, {"layer_norm", ORR_OP_LAYER_NORM, 2, 1, false},
        {"softmax", ORR_OP_SOFTMAX, 1, 1, false},   {"swiglu", ORR_OP_SWIGLU, 2, 2, false},
        {"silu", ORR_OP_SILU, 1, 1, false},         {"gelu", ORR_OP_GELU, 1, 1, false},
        {"gelu, tanh", ORR_OP_GELU, 1, 1, true},    {"relu", ORR_OP_RELU, 1, 1, false},
        {"sigmoid", ORR_OP_SIGMOID, 1, 1, false},   {"add", ORR_OP_ADD, 2, 2, false},
        {"mul", ORR_OP_MUL, 2, 2, false},           {"bias", ORR_OP_BIAS, 2, 1, false},
        {"scale", ORR_OP_SCALE, 1, 1, false}};
    static const int64_t widths[] = {1, 7, 24, 100, 1057};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++) {
        const orr_dtype dtype = DTYPES[orr_random_below(r, 3)];
        const int64_t width = widths[orr_random_below(r, 5)];
        tensor a = tensor_of(dtype, 2, (int64_t[]){ROWS, width}, false, false, r),
               b = ops[o].by_row == 2
                       ? tensor_of(dtype, 2, (int64_t[]){ROWS, width}, false, false, r)
                       : tensor_of(dtype, 1, (int64_t[]){width}, false, false, r),
               y = tensor_of(dtype, 2, (int64_t[]){ROWS, width}, false, false, r);
        const row_call c = {.name = ops[o].name,
                            .op = ops[o].op,
                            .args = {.value = 0.375, .tanh = ops[o].tanh, .dim = 1},
                            .in = {&a, &b},
                            .out = &y,
                            .n_in = ops[o].n_in,
                            .by_row = ops[o].by_row};
        hold_rows(&c, ROWS, seed);
        tensor_done(&a);
        tensor_done(&b);
        tensor_done(&y);
    }
}

static void at_level(void **state)
{
    const orr_cpu_level_id level = *(const orr_cpu_level_id *)*state;
    orr_cpu_level_limit(level);
    if (orr_cpu_level() != level) {
        orr_cpu_level_limit(ORR_CPU_LEVELS);
        print_message("this processor has no %s\n", orr_cpu_level_name(level));
        skip();
    }
    const seed_range range = seeds(6);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random r = orr_random_of(seed, 31);
        rows_of_numbers(seed, &r);
        products(seed, &r);
        grouped_products(seed, &r);
        attention_beside_samples(seed, &r);
        attention_in_pieces(seed, &r);
    }
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

int main(void)
{
    static orr_cpu_level_id levels[ORR_CPU_LEVELS];
    struct CMUnitTest tests[ORR_CPU_LEVELS];
    for (int i = 0; i < ORR_CPU_LEVELS; i++) {
        levels[i] = (orr_cpu_level_id)i;
        tests[i] =
            (struct CMUnitTest){orr_cpu_level_name(levels[i]), at_level, NULL, NULL, &levels[i]};
    }
    return cmocka_run_group_tests_name("property/batch_invariance", tests, NULL, NULL);
}
