/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_GRADIENT_CASES_H
#define TESTS_GRADIENT_CASES_H

#include "gradient_bench.h"

/* A tape for each operator, and for each way in which it can be asked; sizes are drawn. */

static void case_matmul(bench *b, uint32_t way)
{
    const int64_t batch = bench_size(b, 2), m = bench_size(b, 3), k = bench_size(b, 4),
                  n = bench_size(b, 3);
    const bool ta = way & 1, tb = way & 2;
    const orr_op_args args = {.transpose_a = ta, .transpose_b = tb};
    orr_value x, w;
    if (way & 4) { /* leading dims of both */
        x = NUMBER(b, 2, batch, ta ? k : m, ta ? m : k);
        w = WEIGHT(b, 2, batch, tb ? n : k, tb ? k : n);
    } else if (ta) {
        x = NUMBER(b, k, m);
        w = WEIGHT(b, tb ? n : k, tb ? k : n);
    } else {
        x = NUMBER(b, batch, 2, m, k);
        w = WEIGHT(b, tb ? n : k, tb ? k : n);
    }
    bench_output(b, APPLY(b, MATMUL, &args, x, w));
}

/* Operands that were quantised: gradients are those without rounding. */
static void case_matmul_fp8(bench *b, uint32_t way)
{
    const int64_t m = bench_size(b, 3), n = bench_size(b, 3);
    const orr_value x = NUMBER(b, m, 4), w = WEIGHT(b, 4, n);
    const orr_op_args args = {.dtype = ORR_DTYPE_FP8, .size = way == 0 ? 0 : 2};
    const orr_value qx = APPLY(b, QUANTIZE, &args, x), sx = b->out[1];
    const orr_value qw = APPLY(b, QUANTIZE, &args, w), sw = b->out[1];
    const orr_value y = APPLY(b, MATMUL, ARGS(.size = args.size), qx, qw, sx, sw);
    bench_output(b, APPLY(b, CAST, ARGS(.dtype = ORR_DTYPE_FP32), y));
}

static void case_grouped_matmul(bench *b, uint32_t way)
{
    const int64_t k = bench_size(b, 3), n = bench_size(b, 3);
    const bool tb = way & 1, counted = way & 2;
    const orr_value x = NUMBER(b, 6, k), w = WEIGHT(b, 3, tb ? n : k, tb ? k : n);
    const orr_op_args args = {.transpose_b = tb};
    if (!counted) {
        bench_output(b, APPLY(b, GROUPED_MATMUL, &args, x, w));
        return;
    }
    const bool parts = way & 4;
    const orr_value counts = parts ? INDEX(b, 1, 2, 3) : INDEX(b, 1, 3);
    if (parts) /* one of three rows, and two */
        memcpy(b->data[counts], (const double[]){0, 1, 0, 1, 0, 1}, 6 * sizeof(double));
    else
        memcpy(b->data[counts], (const double[]){1, 0, 5}, 3 * sizeof(double));
    bench_output(b, APPLY(b, GROUPED_MATMUL, &args, x, w, counts));
}

static void case_grouped_weights(bench *b, uint32_t way)
{
    (void)way;
    const int64_t k = bench_size(b, 3), n = bench_size(b, 3);
    const orr_value x = NUMBER(b, 6, k), w = NUMBER(b, 6, n);
    bench_output(b, APPLY(b, GROUPED_MATMUL, ARGS(.transpose_a = true, .experts = 2), x, w));
}

static void case_attention(bench *b, uint32_t way)
{
    const bool flash = way & 1;
    const uint32_t mask = way / 2 % 3;
    const int64_t queries = 1 + bench_size(b, 3), groups = bench_size(b, 2),
                  heads = groups * bench_size(b, 2), batch = bench_size(b, 2);
    const int64_t keys = mask == ORR_MASK_NONE ? bench_size(b, 5) : queries + 1;
    const orr_op_args args = {.flash = flash,
                              .mask = (uint8_t)mask,
                              .window = 2,
                              .offset = mask == ORR_MASK_NONE ? 0 : 1,
                              .value = !flash && way >= 6 ? 0.4 : 0};
    const orr_value q = NUMBER(b, batch, queries, heads, 4);
    const orr_value k = NUMBER(b, batch, keys, groups, 4);
    const orr_value v = NUMBER(b, batch, keys, groups, 3);
    bench_output(b, APPLY(b, ATTENTION, &args, q, k, v));
}

static void case_softmax(bench *b, uint32_t way)
{
    const int64_t n = 1 + bench_size(b, 3);
    const orr_value x = NUMBER(b, 2, n, n);
    bench_output(b, APPLY(b, SOFTMAX, ARGS(.mask = (uint8_t)way, .window = 2), x));
}

static void case_norm(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 3), columns = 1 + bench_size(b, 4);
    const orr_value x = NUMBER(b, 2, rows, columns);
    const orr_op_args args = {.value = 1e-2};
    const bool layer = way >= 2;
    if (way % 2 == 0 && way < 4) {
        bench_output(b, layer ? APPLY(b, LAYER_NORM, &args, x) : APPLY(b, RMS_NORM, &args, x));
        return;
    }
    const orr_value w = WEIGHT(b, columns);
    if (!layer) {
        bench_output(b, APPLY(b, RMS_NORM, &args, x, w));
    } else if (way == 3) {
        bench_output(b, APPLY(b, LAYER_NORM, &args, x, w));
    } else {
        const orr_value bias = WEIGHT(b, columns);
        bench_output(b, APPLY(b, LAYER_NORM, &args, x, w, bias));
    }
}

static void case_batch_norm(bench *b, uint32_t way)
{
    const int64_t channels = bench_size(b, 3);
    const orr_value x = way == 0 ? NUMBER(b, 3, channels, 2, 3) : NUMBER(b, 5, channels);
    const orr_value w = WEIGHT(b, channels);
    const orr_value bias = WEIGHT(b, channels);
    bench_output(b, APPLY(b, BATCH_NORM, ARGS(.value = 1e-2), x, w, bias));
}

static void case_rotary(bench *b, uint32_t way)
{
    const int64_t tokens = bench_size(b, 4), heads = bench_size(b, 2);
    const orr_op_args ways[] = {
        {.value = 100},
        {.value = 100, .offset = 7, .interleaved = true},
        {.value = 100, .stretch = 8, .low = 1, .high = 4, .context = 40},
        {.value = 100, .stretch = 16, .low = 1, .high = 1, .context = 40},
        {.value = 100,
         .size = 2,
         .interleaved = true}, /* tokens behind the fourth are not turned */
    };
    const orr_value x = NUMBER(b, 2, way == 4 ? 5 : tokens, heads, way == 4 ? 8 : 6);
    bench_output(b, APPLY(b, ROTARY, &ways[way], x));
}

static void case_tune(bench *b, uint32_t way)
{
    const int64_t tokens = bench_size(b, 6), heads = bench_size(b, 2);
    const orr_value x = NUMBER(b, 2, tokens, heads, 3);
    bench_output(
        b, APPLY(b, ATTENTION_TEMPERATURE, ARGS(.value = 0.1, .window = 2, .offset = way * 5), x));
}

static void case_swiglu(bench *b, uint32_t way)
{
    const int64_t columns = bench_size(b, 4);
    if (way == 0) {
        const orr_value x = NUMBER(b, 3, 2 * columns);
        bench_output(b, APPLY(b, SWIGLU, NULL, x));
        return;
    }
    const orr_value gate = NUMBER(b, 3, columns);
    const orr_value up = NUMBER(b, 3, columns);
    bench_output(b, APPLY(b, SWIGLU, NULL, gate, up));
}

static void case_activation(bench *b, uint32_t way)
{
    static const orr_op OPS[] = {ORR_OP_GELU, ORR_OP_RELU, ORR_OP_SILU, ORR_OP_SIGMOID,
                                 ORR_OP_GELU};
    const int64_t n = bench_size(b, 8);
    const orr_value x = bench_spread(b, NUMBER(b, n, 2));
    bench_output(b, bench_apply(b, OPS[way], ARGS(.tanh = way == 4), &x, 1));
}

static void case_embedding(bench *b, uint32_t way)
{
    const int64_t rows = 1 + bench_size(b, 5), columns = bench_size(b, 3), n = bench_size(b, 6);
    const orr_value table = WEIGHT(b, rows, columns);
    const orr_value ids = way == 0 ? INDEX(b, rows, n) : INDEX(b, 2 * rows, 2, n);
    const orr_op_args slice = {.begin = rows / 2, .count = rows};
    bench_output(b, APPLY(b, EMBEDDING, way == 0 ? NULL : &slice, table, ids));
}

static void case_embedding_bag(bench *b, uint32_t way)
{
    const int64_t rows = 1 + bench_size(b, 5), columns = bench_size(b, 3), n = bench_size(b, 3);
    const orr_value table = WEIGHT(b, rows, columns);
    const orr_value ids = way == 0 ? INDEX(b, rows, n, 3) : INDEX(b, rows, 2 + n);
    b->ids_of[b->n_leaves - 1] = ids;
    if (way == 0) {
        bench_output(b, APPLY(b, EMBEDDING_BAG, NULL, table, ids));
        return;
    }
    const orr_value offsets = INDEX(b, 1, 3, 1);
    memcpy(b->data[offsets], (const double[]){0, 1, 1}, 3 * sizeof(double));
    bench_output(b, APPLY(b, EMBEDDING_BAG, NULL, table, ids, offsets));
}

/* The loss, and what is kept of it, as z-loss uses it; a slice of the vocabulary in its first
 * pass. */
static void case_cross_entropy(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 3), columns = 1 + bench_size(b, 5);
    const orr_value logits = NUMBER(b, 2, rows, columns);
    const orr_value targets = INDEX(b, way & 4 ? 2 * columns : columns, 2, rows);
    const orr_op_args slice = {.members = 2, .begin = columns / 2};
    const orr_op_args padded = {.count = columns - 1};
    if (way == 7)
        memset(b->data[targets], 0, (size_t)(2 * rows) * sizeof(double));
    APPLY(b, CROSS_ENTROPY, way == 7 ? &padded : way & 4 ? &slice : NULL, logits, targets);
    if ((way & 3) != 1)
        bench_output(b, b->out[0]);
    if ((way & 3) != 0)
        bench_output(b, b->out[1]);
}

static void case_bce(bench *b, uint32_t way)
{
    (void)way;
    const int64_t n = bench_size(b, 8);
    const orr_value logits = NUMBER(b, n, 1);
    const orr_value targets = CONSTANT(b, n, 1);
    bench_output(b, APPLY(b, BCE_LOSS, NULL, logits, targets));
}

static void case_top_k(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 4), k = way & 1 ? 1 : 1 + bench_size(b, 2);
    const orr_op_args args = {.top_k = k,
                              .op = way & 2 ? ORR_OP_SIGMOID : 0,
                              .count = way & 4 ? 4 : 0,
                              .begin = way & 4 ? 2 : 0,
                              .value = way & 4 ? 2.5 : 0};
    const orr_value logits = bench_spread(b, NUMBER(b, rows, 8));
    const orr_value bias = CONSTANT(b, 8);
    bench_output(b,
                 way & 4 ? APPLY(b, TOP_K, &args, logits, bias) : APPLY(b, TOP_K, &args, logits));
}

/* A mixture of experts: there, through an expert, and back. */
static void case_routing(bench *b, uint32_t way)
{
    const int64_t tokens = bench_size(b, 4), columns = bench_size(b, 3);
    const orr_value x = NUMBER(b, tokens, columns);
    const orr_value indices = INDEX(b, 3, tokens, 2);
    const orr_value scores = NUMBER(b, tokens, 2);
    orr_op_args args = {.count = way & 2 ? 2 * tokens - 1 : 0};
    if (way & 4) /* a part for each expert, and room for all in each */
        args = (orr_op_args){.count = 3 * 2 * tokens, .members = 3, .experts = 3};
    static const uint32_t position[] = {1, 2, 0};
    if (way >= 6)
        args.expert_position = position;
    const orr_value sorted = way & 1 ? APPLY(b, DISPATCH, &args, x, indices, scores)
                                     : APPLY(b, DISPATCH, &args, x, indices);
    const orr_value through = APPLY(b, SILU, NULL, sorted);
    bench_output(b, way & 1 ? APPLY(b, COMBINE, &args, through, indices)
                            : APPLY(b, COMBINE, &args, through, indices, scores));
}

static void case_moe(bench *b, uint32_t way)
{
    const orr_value x = NUMBER(b, 5, 4), router = WEIGHT(b, 4, 3), w = WEIGHT(b, 3, 4, 2);
    const orr_value logits = APPLY(b, MATMUL, NULL, x, router);
    const orr_value scores = APPLY(b, TOP_K, ARGS(.top_k = 2, .experts = 3), logits);
    const orr_value indices = b->out[1];
    const orr_op_args laid = {.experts = 3, .members = way, .count = way * 12};
    const orr_value sorted = APPLY(b, DISPATCH, &laid, x, indices);
    const orr_value y = APPLY(b, GROUPED_MATMUL, NULL, sorted, w, b->out[1]);
    bench_output(b, APPLY(b, COMBINE, &laid, y, indices, scores));
}

static void case_interaction(bench *b, uint32_t way)
{
    (void)way;
    const int64_t features = 1 + bench_size(b, 3), columns = bench_size(b, 3);
    const orr_value x = NUMBER(b, 2, features, columns);
    bench_output(b, APPLY(b, INTERACTION, NULL, x));
}

static void case_convolution(bench *b, uint32_t way)
{
    const int64_t high = 3 + bench_size(b, 3), wide = 3 + bench_size(b, 3);
    const orr_value x = NUMBER(b, 2, 2, high, wide), w = WEIGHT(b, 3, 2, 3, 2);
    const orr_op_args args = {.stride = way & 1 ? 2 : 0, .padding = way & 2 ? 1 : 0};
    bench_output(b, APPLY(b, CONVOLUTION, &args, x, w));
}

static void case_pool(bench *b, uint32_t way)
{
    const int64_t high = 3 + bench_size(b, 3), wide = 3 + bench_size(b, 3);
    const orr_value x = bench_spread(b, NUMBER(b, 2, 2, high, wide));
    const orr_op_args args = {.op = way & 1 ? ORR_OP_SUM : 0,
                              .size = way & 2 ? 3 : 0,
                              .stride = way & 2 ? 2 : 0,
                              .padding = way & 2 ? 1 : 0};
    bench_output(b, APPLY(b, POOL, &args, x));
}

static void case_elementwise(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 3), columns = 1 + bench_size(b, 3);
    const orr_value x = NUMBER(b, rows, 2, columns);
    orr_value y = way == 2   ? WEIGHT(b, 1, 2, 1)
                  : way == 4 ? WEIGHT(b, 2, columns)
                             : WEIGHT(b, rows, 2, columns);
    switch (way) {
    case 0:
        bench_output(b, APPLY(b, ADD, NULL, x, y));
        break;
    case 1:
    case 2:
        bench_output(b, APPLY(b, MUL, NULL, x, y));
        break;
    case 3:
        y = APPLY(b, SCALE, ARGS(.value = -1.7), y);
        bench_output(b, APPLY(b, MUL, NULL, x, y));
        break;
    case 4:
        bench_output(b, APPLY(b, BIAS, NULL, x, y));
        break;
    case 5: /* the same value twice: its gradients are added */
        bench_output(b, APPLY(b, MUL, NULL, x, x));
        break;
    default:
        bench_output(b, APPLY(b, DROPOUT, ARGS(.value = 0.3), x));
    }
}

static void case_sum(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 3), columns = bench_size(b, 3);
    const orr_value x = NUMBER(b, rows, 2, columns);
    bench_output(b, APPLY(b, SUM, ARGS(.dim = (int32_t)(way % 3), .count = way / 3), x));
}

static void case_layout(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 3), columns = bench_size(b, 3);
    const orr_value x = NUMBER(b, rows, 5, columns), other = NUMBER(b, rows, 2, columns);
    const orr_type seen = {.dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {5 * columns, rows}};
    const orr_type parts = {.rank = 3, .dim = {1, 2, 2}};
    switch (way) {
    case 0:
        bench_output(b, APPLY(b, VIEW, ARGS(.shape = &seen), x));
        break;
    case 1:
        bench_output(b, APPLY(b, TRANSPOSE, ARGS(.dim = 0, .to_dim = 2), x));
        break;
    case 2:
        bench_output(b, APPLY(b, CONCAT, ARGS(.dim = 1), x, other));
        break;
    case 3:
        APPLY(b, SPLIT, ARGS(.dim = 1, .shape = &parts), x);
        bench_output(b, b->out[0]);
        bench_output(b, b->out[2]); /* nothing flows into the second */
        break;
    case 4:
        bench_output(b, APPLY(b, SLICE, ARGS(.dim = 1, .begin = 1, .count = 3), x));
        break;
    case 5:
        bench_output(b, APPLY(b, PAD, ARGS(.dim = 1, .begin = 2, .count = 1), x));
        break;
    case 6:
        bench_output(b, APPLY(b, EXPAND, ARGS(.dim = 1, .count = 3), x));
        break;
    default:
        bench_output(b, APPLY(b, COPY, NULL, x));
    }
}

static void case_cast(bench *b, uint32_t way)
{
    const int64_t columns = 2 * bench_size(b, 3);
    const orr_value x = NUMBER(b, 3, columns);
    if (way == 0) {
        const orr_value half = APPLY(b, CAST, ARGS(.dtype = ORR_DTYPE_BF16), x);
        bench_output(b, APPLY(b, SILU, NULL, half));
        return;
    }
    const orr_value q = APPLY(b, QUANTIZE, ARGS(.dtype = ORR_DTYPE_FP8, .size = 2), x);
    const orr_value scale = b->out[1];
    bench_output(b, APPLY(b, DEQUANTIZE, ARGS(.dtype = ORR_DTYPE_BF16, .size = 2), q, scale));
}

typedef struct gradient_case {
    const char *name;
    void (*make)(bench *b, uint32_t way);
    uint32_t ways;
} gradient_case;
static const gradient_case CASES[] = {
    {"matmul", case_matmul, 8},
    {"matmul in fp8", case_matmul_fp8, 2},
    {"grouped matmul", case_grouped_matmul, 8},
    {"grouped matmul of weights", case_grouped_weights, 1},
    {"attention", case_attention, 12},
    {"softmax", case_softmax, 3},
    {"norm", case_norm, 5},
    {"batch norm", case_batch_norm, 2},
    {"rotary", case_rotary, 5},
    {"tune", case_tune, 2},
    {"swiglu", case_swiglu, 2},
    {"activation", case_activation, 5},
    {"embedding", case_embedding, 2},
    {"embedding bag", case_embedding_bag, 2},
    {"cross entropy", case_cross_entropy, 8},
    {"binary cross entropy", case_bce, 1},
    {"top k", case_top_k, 8},
    {"routing", case_routing, 8},
    {"mixture of experts", case_moe, 2},
    {"interaction", case_interaction, 1},
    {"convolution", case_convolution, 4},
    {"pool", case_pool, 4},
    {"elementwise", case_elementwise, 7},
    {"sum", case_sum, 6},
    {"layout", case_layout, 8},
    {"cast", case_cast, 2},
};

#endif /* TESTS_GRADIENT_CASES_H */
