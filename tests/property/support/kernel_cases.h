/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_KERNEL_CASES_H
#define TESTS_KERNEL_CASES_H

#include "gradient_cases.h"

/* Tapes of tensors as large as vectors, chunks and pieces of work, and not a multiple of them. Most
 * have a backward pass; `way` as in gradient_cases.h. */

/* Columns at and around what a vector, a buffer and a piece of work hold. */
static int64_t wide(bench *b)
{
    static const int64_t SIZES[] = {1, 3, 16, 31, 64, 100, 129, 513, 1023, 1024, 1025, 2050};
    return SIZES[orr_random_below(&b->random, sizeof SIZES / sizeof *SIZES)];
}

static void large_norm(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 90), columns = 1 + wide(b);
    const orr_op_args args = {.value = 1e-2};
    const orr_value x = NUMBER(b, 2, rows, columns), w = WEIGHT(b, columns),
                    bias = WEIGHT(b, columns);
    bench_output(b, way == 0   ? APPLY(b, RMS_NORM, &args, x, w)
                    : way == 1 ? APPLY(b, LAYER_NORM, &args, x, w, bias)
                    : way == 2 ? APPLY(b, RMS_NORM, &args, x)
                               : APPLY(b, LAYER_NORM, &args, x));
}

static void large_rotary(bench *b, uint32_t way)
{
    static const int64_t COLUMNS[] = {4, 32, 64, 128, 140, 1100};
    const orr_op_args ways[] = {
        {.value = 10000, .offset = 1000},
        {.value = 500000, .offset = 9000, .interleaved = true},
        {.value = 500000, .stretch = 8, .low = 1, .high = 4, .context = 8192, .offset = 70000},
        {.value = 10000, .size = 5},
        {.value = 10000, .size = 5, .interleaved = true},
    };
    const int64_t columns = COLUMNS[orr_random_below(&b->random, 6)];
    const orr_value x = NUMBER(b, 2, 1 + bench_size(b, 30), bench_size(b, 5), columns);
    bench_output(b, APPLY(b, ROTARY, &ways[way], x));
}

static void large_swiglu(bench *b, uint32_t way)
{
    const int64_t columns = wide(b), rows = bench_size(b, 40);
    const orr_value gate = NUMBER(b, 2, rows, way == 0 ? 2 * columns : columns);
    const orr_value up = NUMBER(b, 2, rows, columns);
    bench_output(b, way == 0 ? APPLY(b, SWIGLU, NULL, gate) : APPLY(b, SWIGLU, NULL, gate, up));
}

/* Beyond where exponentials end, too. */
static void large_activation(bench *b, uint32_t way)
{
    static const orr_op OPS[] = {ORR_OP_GELU, ORR_OP_RELU, ORR_OP_SILU, ORR_OP_SIGMOID};
    const int64_t rows = bench_size(b, 40), columns = wide(b);
    const orr_value x = NUMBER(b, rows, columns);
    const double far = way < 4 ? 1 : way < 8 ? 8 : 100;
    for (int64_t i = 0; i < rows * columns; i++)
        b->data[x][i] *= far;
    const orr_op_args by_tanh = {.tanh = way >= 4};
    bench_output(b, bench_apply(b, OPS[way % 4], &by_tanh, &x, 1));
}

static void large_embedding(bench *b, uint32_t way)
{
    const int64_t rows = 1 + bench_size(b, 300), columns = wide(b), n = bench_size(b, 60);
    const orr_value table = WEIGHT(b, rows, columns);
    const orr_value ids = way == 0 ? INDEX(b, rows, 2, n) : INDEX(b, 2 * rows, 2, n);
    const orr_op_args slice = {.begin = rows / 2, .count = rows};
    bench_output(b, APPLY(b, EMBEDDING, way == 0 ? NULL : &slice, table, ids));
}

static void large_cross_entropy(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 40), columns = 2 + wide(b);
    const orr_value logits = NUMBER(b, 2, rows, columns);
    const orr_value targets = INDEX(b, way == 1 ? 2 * columns : columns - 1, 2, rows);
    const orr_op_args slice = {.members = 2, .begin = columns / 2}, padded = {.count = columns - 1};
    for (int64_t i = 0; i < 2 * rows * columns; i++)
        b->data[logits][i] *= way == 1 ? 4 : 20;
    APPLY(b, CROSS_ENTROPY, way == 0 ? NULL : way == 1 ? &slice : &padded, logits, targets);
    const orr_value loss = b->out[0], lse = b->out[1];
    bench_output(b, loss);
    if (way != 1)
        return;
    const orr_value other = CONSTANT(b, 2, 2, rows);
    b->tape.values[other].type.dtype = ORR_DTYPE_FP32;
    bench_output(b, lse);
    bench_output(b, APPLY(b, CROSS_ENTROPY, &slice, logits, targets, other));
}

static void large_bce(bench *b, uint32_t way)
{
    (void)way;
    const int64_t rows = bench_size(b, 40), columns = wide(b);
    const orr_value logits = NUMBER(b, rows, columns), targets = CONSTANT(b, rows, columns);
    bench_output(b, APPLY(b, BCE_LOSS, NULL, logits, targets));
}

/* No two logits of a token are alike, in no dtype. */
static void large_top_k(bench *b, uint32_t way)
{
    enum { EXPERTS = 64 };
    const int64_t rows = bench_size(b, 100), k = way & 1 ? 1 : bench_size(b, 8);
    const orr_op_args args = {.top_k = k,
                              .op = way & 2 ? ORR_OP_SIGMOID : 0,
                              .count = way & 4 ? 8 : 0,
                              .begin = way & 4 ? 3 : 0,
                              .value = way & 4 ? 2.5 : 0};
    const orr_value logits = NUMBER(b, 2, rows, EXPERTS);
    for (int64_t t = 0; t < 2 * rows; t++)
        for (int64_t e = 0, from = bench_size(b, EXPERTS); e < EXPERTS; e++)
            b->data[logits][t * EXPERTS + e] =
                (double)((from + e * (2 * (t % 16) + 1)) % EXPERTS - EXPERTS / 2) / 16;
    bench_output(b, APPLY(b, TOP_K, &args, logits));
}

static void large_routing(bench *b, uint32_t way)
{
    const int64_t tokens = bench_size(b, 100), columns = wide(b), experts = 6, k = bench_size(b, 3);
    const orr_value x = NUMBER(b, tokens, columns), indices = INDEX(b, experts, tokens, k),
                    scores = NUMBER(b, tokens, k);
    orr_op_args args = {.experts = way < 4 ? experts : 0,
                        .count = way < 4 ? 0 : bench_size(b, (uint64_t)(2 * tokens * k))};
    if (way & 2)
        args = (orr_op_args){.count = 3 * tokens * k, .members = 3, .experts = experts};
    static const uint32_t position[] = {2, 5, 0, 4, 1, 3};
    args.expert_position = way >= 6 ? position : NULL;
    const orr_value sorted = way & 1 ? APPLY(b, DISPATCH, &args, x, indices, scores)
                                     : APPLY(b, DISPATCH, &args, x, indices);
    bench_output(b, way & 1 ? APPLY(b, COMBINE, &args, sorted, indices)
                            : APPLY(b, COMBINE, &args, sorted, indices, scores));
}

static void large_elementwise(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 30), columns = wide(b);
    const orr_value x = NUMBER(b, rows, 3, columns);
    const orr_value y = way == 1   ? WEIGHT(b, rows, 1, 1)
                        : way == 2 ? WEIGHT(b, 1, 3, columns)
                        : way == 3 ? WEIGHT(b, columns)
                        : way == 4 ? WEIGHT(b, 3, columns)
                                   : WEIGHT(b, rows, 3, columns);
    bench_output(b, way == 0   ? APPLY(b, ADD, NULL, x, y)
                    : way <= 2 ? APPLY(b, MUL, NULL, x, y)
                    : way <= 4 ? APPLY(b, BIAS, NULL, x, y)
                               : APPLY(b, SCALE, ARGS(.value = -1.7), y));
}

static void large_sum(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 100), columns = wide(b);
    const orr_value x = NUMBER(b, 3, rows, columns);
    bench_output(b, APPLY(b, SUM, ARGS(.dim = (int32_t)(way % 3), .count = way / 3), x));
}

static void large_layout(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 60), columns = wide(b);
    const orr_value x = NUMBER(b, rows, 5, columns), other = NUMBER(b, rows, 2, columns);
    const orr_type seen = {.dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {5 * columns, rows}};
    const orr_type parts = {.rank = 3, .dim = {1, 2, 2}};
    switch (way) {
    case 0:
        bench_output(b, APPLY(b, VIEW, ARGS(.shape = &seen), x));
        break;
    case 1:
    case 2:
        bench_output(b, APPLY(b, TRANSPOSE, ARGS(.dim = (int32_t)way - 1, .to_dim = 2), x));
        break;
    case 3:
        bench_output(b, APPLY(b, TRANSPOSE, ARGS(.dim = 0, .to_dim = 1), x));
        break;
    case 4:
        bench_output(b, APPLY(b, CONCAT, ARGS(.dim = 1), x, other));
        break;
    case 5:
        APPLY(b, SPLIT, ARGS(.dim = 1, .shape = &parts), x);
        bench_output(b, b->out[2]);
        break;
    case 6:
        bench_output(b, APPLY(b, PAD, ARGS(.dim = 2, .begin = 2, .count = 1), x));
        break;
    case 7:
        bench_output(b, APPLY(b, EXPAND, ARGS(.dim = 2, .count = 3), x));
        break;
    default:
        bench_output(b, APPLY(b, COPY, NULL, x));
    }
}

static void large_softmax(bench *b, uint32_t way)
{
    const int64_t columns = wide(b), rows = bench_size(b, 6);
    const orr_value x = NUMBER(b, 2, rows, columns);
    const orr_op_args args = {.mask = (uint8_t)way,
                              .window = bench_size(b, (uint64_t)columns),
                              .offset = bench_size(b, (uint64_t)columns) - 1};
    bench_output(b, APPLY(b, SOFTMAX, &args, x));
}

static void large_cast(bench *b, uint32_t way)
{
    const int64_t rows = bench_size(b, 20), columns = wide(b);
    const uint8_t to[] = {ORR_DTYPE_FP32, ORR_DTYPE_BF16, ORR_DTYPE_FP16, ORR_DTYPE_INT64};
    const orr_value x = way < 4 ? NUMBER(b, 3, rows, columns) : INDEX(b, 1000, rows, columns);
    for (int64_t i = 0; way == 3 && i < 3 * rows * columns; i++)
        b->data[x][i] = trunc(500 * b->data[x][i]);
    const orr_value y = APPLY(b, CAST, ARGS(.dtype = to[way % 4]), x);
    if (way < 3)
        bench_output(b, y);
}

static void large_tune(bench *b, uint32_t way)
{
    const orr_value x = NUMBER(b, 2, bench_size(b, 30), bench_size(b, 5), wide(b));
    bench_output(
        b, APPLY(b, ATTENTION_TEMPERATURE, ARGS(.value = 0.1, .window = 8, .offset = way * 50), x));
}

static void large_cache(bench *b, uint32_t way)
{
    const int64_t room = 5 + bench_size(b, 40), columns = wide(b);
    const orr_value cache = CONSTANT(b, 3, room, 2, columns), x = CONSTANT(b, 3, 3, 2, columns);
    APPLY(b, CACHE, ARGS(.offset = way == 0 ? 0 : room - 3), cache, x);
}

static void large_splice(bench *b, uint32_t way)
{
    (void)way;
    const int64_t tokens = bench_size(b, 60), columns = wide(b);
    const orr_value x = CONSTANT(b, 2, tokens, columns), ids = INDEX(b, 3, 2, tokens),
                    pictures = CONSTANT(b, 2 * tokens, columns);
    APPLY(b, MASKED_SCATTER, ARGS(.begin = 1), x, ids, pictures);
}

static void large_fill(bench *b, uint32_t way)
{
    const orr_type shape = {.dtype = way == 0 ? ORR_DTYPE_FP32 : ORR_DTYPE_INT64,
                            .rank = 3,
                            .dim = {3, bench_size(b, 60), wide(b)}};
    (void)bench_apply(b, ORR_OP_FILL, ARGS(.shape = &shape, .value = 7), NULL, 0);
}

/* A mask that is given. */
static void large_dropout(bench *b, uint32_t way)
{
    (void)way;
    const int64_t rows = bench_size(b, 40), columns = wide(b);
    const orr_value x = NUMBER(b, rows, columns), mask = INDEX(b, 2, rows, columns);
    b->tape.values[mask].type.dtype = ORR_DTYPE_INT8;
    bench_output(b, APPLY(b, DROPOUT, ARGS(.value = 0.3), x, mask));
}

static void large_matmul(bench *b, uint32_t way)
{
    const int64_t m = bench_size(b, 70), k = bench_size(b, 130), n = bench_size(b, 90);
    const bool ta = way & 1, tb = way & 2;
    const orr_op_args args = {.transpose_a = ta, .transpose_b = tb};
    const orr_value x = NUMBER(b, ta ? k : m, ta ? m : k), w = WEIGHT(b, tb ? n : k, tb ? k : n);
    bench_output(b, APPLY(b, MATMUL, &args, x, w));
}

static void large_grouped_matmul(bench *b, uint32_t way)
{
    const int64_t k = bench_size(b, 70), n = bench_size(b, 70);
    const orr_value x = NUMBER(b, 60, k), w = WEIGHT(b, 3, way & 1 ? n : k, way & 1 ? k : n),
                    counts = INDEX(b, 1, 3);
    memcpy(b->data[counts], (const double[]){17, 0, 43}, 3 * sizeof(double));
    bench_output(b, APPLY(b, GROUPED_MATMUL, ARGS(.transpose_b = way & 1), x, w, counts));
}

static void large_attention(bench *b, uint32_t way)
{
    const bool flash = way & 1;
    const uint32_t mask = way / 2 % 3;
    const int64_t queries = 1 + bench_size(b, 60), groups = bench_size(b, 3),
                  heads = groups * bench_size(b, 3), width = 8 * bench_size(b, 16);
    const int64_t keys = mask == ORR_MASK_NONE ? bench_size(b, 63) : queries + 1;
    const orr_op_args args = {.flash = flash,
                              .mask = (uint8_t)mask,
                              .window = 7,
                              .offset = mask == ORR_MASK_NONE ? 0 : 1};
    const orr_value q = NUMBER(b, 2, queries, heads, width), k = NUMBER(b, 2, keys, groups, width),
                    v = NUMBER(b, 2, keys, groups, width);
    bench_output(b, APPLY(b, ATTENTION, &args, q, k, v));
}

static void large_merge(bench *b, uint32_t way)
{
    (void)way;
    const int64_t tokens = bench_size(b, 30), heads = bench_size(b, 4),
                  width = 8 * bench_size(b, 9);
    const orr_value y = CONSTANT(b, 2, tokens, heads, width),
                    other = CONSTANT(b, 2, tokens, heads, width);
    b->dtype = ORR_DTYPE_FP64; /* logsumexps are of fp32 */
    const orr_value l = CONSTANT(b, 2, heads, tokens), other_l = CONSTANT(b, 2, heads, tokens);
    APPLY(b, ATTENTION_MERGE, NULL, y, l, other, other_l);
}

static void large_bags(bench *b, uint32_t way)
{
    const int64_t rows = 1 + bench_size(b, 200), columns = wide(b), n = bench_size(b, 40);
    const orr_value table = WEIGHT(b, rows, columns), ids = INDEX(b, rows, n, 5);
    (void)way;
    b->ids_of[b->n_leaves - 1] = ids;
    bench_output(b, APPLY(b, EMBEDDING_BAG, NULL, table, ids));
}

static void large_interaction(bench *b, uint32_t way)
{
    (void)way;
    const orr_value x = NUMBER(b, bench_size(b, 40), 1 + bench_size(b, 26), 4 * bench_size(b, 40));
    bench_output(b, APPLY(b, INTERACTION, NULL, x));
}

static void large_convolution(bench *b, uint32_t way)
{
    const int64_t in = bench_size(b, 9), out = bench_size(b, 20), size = way & 4 ? 1 : 3;
    const orr_value x = NUMBER(b, 2, in, 6 + bench_size(b, 12), 6 + bench_size(b, 12)),
                    w = WEIGHT(b, out, in, size, size);
    const orr_op_args args = {.stride = way & 1 ? 2 : 0, .padding = way & 2 ? 1 : 0};
    bench_output(b, APPLY(b, CONVOLUTION, &args, x, w));
}

static void large_batch_norm(bench *b, uint32_t way)
{
    const int64_t channels = bench_size(b, 30);
    const orr_value x = way == 0 ? NUMBER(b, 3, channels, bench_size(b, 12), bench_size(b, 12))
                                 : NUMBER(b, 2 + bench_size(b, 60), channels);
    const orr_value w = WEIGHT(b, channels), bias = WEIGHT(b, channels);
    bench_output(b, APPLY(b, BATCH_NORM, ARGS(.value = 1e-2), x, w, bias));
}

static const gradient_case LARGE[] = {
    {"norm", large_norm, 4},
    {"rotary", large_rotary, 5},
    {"tune", large_tune, 2},
    {"swiglu", large_swiglu, 2},
    {"activation", large_activation, 12},
    {"embedding", large_embedding, 2},
    {"cross entropy", large_cross_entropy, 3},
    {"binary cross entropy", large_bce, 1},
    {"top k", large_top_k, 8},
    {"routing", large_routing, 8},
    {"elementwise", large_elementwise, 6},
    {"sum", large_sum, 6},
    {"layout", large_layout, 9},
    {"softmax", large_softmax, 3},
    {"cast", large_cast, 8},
    {"cache", large_cache, 2},
    {"splice", large_splice, 1},
    {"fill", large_fill, 2},
    {"dropout", large_dropout, 1},
    {"matmul", large_matmul, 4},
    {"grouped matmul", large_grouped_matmul, 2},
    {"attention", large_attention, 6},
    {"merge", large_merge, 1},
    {"embedding bag", large_bags, 1},
    {"interaction", large_interaction, 1},
    {"convolution", large_convolution, 8},
    {"batch norm", large_batch_norm, 2},
};

#endif /* TESTS_KERNEL_CASES_H */
