/* SPDX-License-Identifier: Apache-2.0 */
/* Template of the optimizer steps of a row, after row_vectors_level.h. Columns are a multiple of
 * ORR_EMBEDDING_BLOCK. */

/* Gradients of a row's lookups, added in order: `vectors` of columns from `column` on, a
 * compile-time constant of up to 4. */
HERE void AT(add_bags)(const orr_bag_gradients *from, const orr_lookup *lookup, int64_t lookups,
                       int64_t column, float *ret, const int vectors)
{
    V s[4];
    for (int64_t i = 0; i < lookups; i++) {
        const float *g =
            (const float *)(const void *)(from->at + lookup[i].sample * from->row_bytes);
        for (int k = 0; k < vectors; k++) {
            const V v = AT(get)(g + column + k * NUMBERS);
            s[k] = i == 0 ? v : s[k] + v;
        }
    }
    for (int k = 0; k < vectors; k++)
        AT(put)(ret + k * NUMBERS, s[k]);
}

HERE void AT(sum_bags_of)(const orr_row_step *by, const orr_bag_gradients *from,
                          const orr_lookup *lookup, int64_t lookups, int64_t n, float *ret)
{
    float part[4 * NUMBERS];
    for (int64_t column = 0, vectors; column < n; column += vectors * NUMBERS) {
        vectors = n - column >= 4 * NUMBERS ? 4 : n - column >= 2 * NUMBERS ? 2 : 1;
        float *sum = ret + column;
        for (int64_t i = 0; i < lookups; i += ORR_ROW_PART) {
            const int64_t some = lookups - i < ORR_ROW_PART ? lookups - i : ORR_ROW_PART;
            if (vectors == 4)
                AT(add_bags)(from, lookup + i, some, column, i == 0 ? sum : part, 4);
            else if (vectors == 2)
                AT(add_bags)(from, lookup + i, some, column, i == 0 ? sum : part, 2);
            else
                AT(add_bags)(from, lookup + i, some, column, i == 0 ? sum : part, 1);
            for (int64_t j = 0; i > 0 && j < vectors * NUMBERS; j++)
                sum[j] += part[j];
        }
        for (int64_t j = 0; j < vectors * NUMBERS; j += NUMBERS)
            AT(put)(sum + j, AT(get)(sum + j) * by->scale);
    }
}

LEVEL static void AT(sum_bags)(const orr_row_step *by, const orr_bag_gradients *from,
                               const orr_lookup *lookup, int64_t lookups, int64_t n, float *ret)
{
    AT(sum_bags_of)(by, from, lookup, lookups, n, ret);
}

HERE void AT(squares_of)(const float *g, int64_t n, float *ret)
{
    int64_t j = 0;
    for (; j + 64 <= n; j += 64)
        put_quad(ret + j / 16,
                 sum_of_quads(squares_of_block(g + j), squares_of_block(g + j + 16),
                              squares_of_block(g + j + 32), squares_of_block(g + j + 48)));
    for (; j < n; j += 16) {
        const quad s = squares_of_block(g + j);
        ret[j / 16] = (s[0] + s[2]) + (s[1] + s[3]);
    }
}

LEVEL static void AT(squares)(const float *g, int64_t n, float *ret)
{
    AT(squares_of)(g, n, ret);
}

HERE int64_t AT(end_of_row)(const orr_lookup *lookup, int64_t i, int64_t lookups)
{
    int64_t end = i + 1;
    while (end < lookups && lookup[end].row == lookup[i].row)
        end++;
    return end;
}

/* The gradient of a row: where its one lookup has it, or summed in `room`. */
HERE const float *AT(gradient_of)(const orr_row_step *by, const orr_bag_gradients *from,
                                  const orr_lookup *lookup, int64_t lookups, int64_t n, float *room)
{
    if (lookups == 1 && by->scale == 1)
        return (const float *)(const void *)(from->at + lookup->sample * from->row_bytes);
    AT(sum_bags_of)(by, from, lookup, lookups, n, room);
    return room;
}

HERE void AT(squares_of_gradients)(const orr_row_step *by, const orr_bag_gradients *from,
                                   const orr_lookup *lookup, int64_t lookups, const int64_t n,
                                   float *ret)
{
    float sum[ORR_SHARD_UPDATE_COLUMNS];
    for (int64_t i = 0, end; i < lookups; i = end, ret += n / ORR_EMBEDDING_BLOCK) {
        end = AT(end_of_row)(lookup, i, lookups);
        AT(squares_of)(AT(gradient_of)(by, from, lookup + i, end - i, n, sum), n, ret);
    }
}

LEVEL static void AT(squares_of_rows)(const orr_row_step *by, const orr_bag_gradients *from,
                                      const orr_lookup *lookup, int64_t lookups, int64_t n,
                                      float *ret)
{
    if (n == 32)
        AT(squares_of_gradients)(by, from, lookup, lookups, 32, ret);
    else
        AT(squares_of_gradients)(by, from, lookup, lookups, n, ret);
}

/* row += factor g */
HERE void AT(add_scaled)(float factor, const float *g, int64_t n, float *row)
{
    for (int64_t j = 0; j < n; j += NUMBERS)
        AT(put)(row + j, AT(get)(row + j) + AT(get)(g + j) * factor);
}

/* The step of a row; `optimizer` is a compile-time constant. */
HERE void AT(step_of)(const orr_row_step *by, const float *g, float square, int64_t n, float *row,
                      float *state, const orr_row_optimizer optimizer)
{
    if (optimizer == ORR_ROW_OPTIMIZER_SGD)
        AT(add_scaled)(-by->rate, g, n, row);
    if (optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD) {
        *state += square * by->mean;
        AT(add_scaled)(-by->rate / (__builtin_sqrtf(*state) + by->epsilon), g, n, row);
    }
    if (optimizer == ORR_ROW_OPTIMIZER_ADAGRAD)
        for (int64_t j = 0; j < n; j += NUMBERS) {
            const V x = AT(get)(g + j), sum = AT(get)(state + j) + x * x;
            AT(put)(state + j, sum);
            AT(put)(row + j, AT(get)(row + j) - x * by->rate / (ROOT(sum) + by->epsilon));
        }
    if (optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM) {
        float *second = state + n;
        *second = *second * by->beta2 + square * by->mean * (1 - by->beta2);
        const float factor = -by->rate / (__builtin_sqrtf(*second * by->second_bias) + by->epsilon);
        for (int64_t j = 0; j < n; j += NUMBERS) {
            const V m = AT(get)(state + j) * by->beta1 + AT(get)(g + j) * (1 - by->beta1);
            AT(put)(state + j, m);
            AT(put)(row + j, AT(get)(row + j) + m * factor);
        }
    }
}

/* A hash of the key and the column number: the mixing steps of lowbias32 (C. Wellons, "Prospecting
 * for hash functions", 2018), the key's upper half added between its multiplications. */
HERE AT(uints) AT(noise)(uint64_t key, uint32_t column)
{
    AT(uints) h;
    for (uint32_t i = 0; i < NUMBERS; i++)
        h[i] = i;
    h = (h + column) * 0x9e3779b9u + (uint32_t)key;
    h = (h ^ h >> 16) * 0x7feb352du + (uint32_t)(key >> 32);
    h = (h ^ h >> 15) * 0x846ca68bu;
    return h ^ h >> 16;
}

HERE AT(uints) AT(either)(AT(ints) which, AT(uints) yes, AT(uints) no)
{
    return (yes & (AT(uints))which) | (no & ~(AT(uints))which);
}

/* The magnitude's upper 16 bits after noise below them. */
HERE AT(uints) AT(bf16_of)(AT(uints) bits, AT(uints) noise)
{
    const AT(uints) size = bits & 0x7fffffffu, up = size + (noise >> 16);
    const AT(uints) finite = AT(either)(up > 0x7f7fffffu, (AT(uints)){0} + 0x7f7fu, up >> 16);
    const AT(uints) wrong = size >> 16 | (AT(uints))((size > 0x7f800000u) & 0x40);
    return AT(either)(size > 0x7f7fffffu, wrong, finite) | (bits >> 16 & 0x8000u);
}

/* 13 bits of noise below the last of a normal number, or below 2^-24 of a subnormal one. */
HERE AT(uints) AT(fp16_of)(AT(uints) bits, AT(uints) noise)
{
    const AT(uints) size = bits & 0x7fffffffu, low = noise >> 19, none = {0};
    const AT(ints) normal = size >= 0x38800000u;
    const V small = (V)AT(either)(normal, none, size) * 0x1p37f;
    const AT(uints) steps = (AT(uints)) __builtin_convertvector(small, AT(ints));
    const AT(uints) half =
        AT(either)(normal, (size - 0x38000000u + low) >> 13, (steps + low) >> 13);
    const AT(uints) finite =
        AT(either)((half > 0x7bffu) | (size > 0x477fe000u), none + 0x7bffu, half);
    const AT(uints) wrong = none + 0x7c00u + (AT(uints))((size > 0x7f800000u) & 0x200);
    return AT(either)(size > 0x7f7fffffu, wrong, finite) | (bits >> 16 & 0x8000u);
}

/* Rounds n numbers to fp16 or bf16. */
HERE void AT(round)(const float *row, uint64_t key, uint32_t column, int64_t n, uint16_t *ret,
                    const orr_row_format format)
{
    for (int64_t j = 0; j < n; j += NUMBERS) {
        const AT(uints) bits = (AT(uints))AT(get)(row + j),
                        noise = AT(noise)(key, column + (uint32_t)j);
        const AT(shorts) narrow = __builtin_convertvector(
            format == ORR_ROW_FORMAT_FP16 ? AT(fp16_of)(bits, noise) : AT(bf16_of)(bits, noise),
            AT(shorts));
        __builtin_memcpy(ret + j, &narrow, sizeof narrow);
    }
}

#define ROUND_(name)                                                                               \
    LEVEL static void AT(round_##name)(const float *row, uint64_t key, uint32_t column, int64_t n, \
                                       uint16_t *ret)                                              \
    {                                                                                              \
        AT(round)(row, key, column, n, ret, ORR_ROW_FORMAT_##name);                                \
    }
ROUND_(FP16)
ROUND_(BF16)
#undef ROUND_

/* Prefetch distance of rows of sorted lookups. */
enum { AT(rows_ahead) = 24 };

/* Prefetches the row of a coming lookup, and its state where that is a number for each column. */
HERE void AT(fetch_lookup)(const orr_row_range *range, const orr_lookup *lookup, int64_t n,
                           const orr_row_optimizer optimizer, const orr_row_format format)
{
    AT(fetch_to_write)
    (range->rows + lookup->row * range->row_bytes, n * (format == ORR_ROW_FORMAT_FP32 ? 4 : 2));
    if (optimizer == ORR_ROW_OPTIMIZER_ADAGRAD || optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM)
        AT(fetch_to_write)(range->states + lookup->row * range->state_bytes, range->state_bytes);
    if (format != ORR_ROW_FORMAT_FP32 && range->owner != NULL)
        __builtin_prefetch(range->owner + lookup->row);
}

/* Sorted lookups of a range; `n`, the columns, is a compile-time constant where they are 64 in
 * fp32. */
HERE void AT(update_of)(const orr_row_step *by, const orr_bag_gradients *from,
                        const orr_row_range *range, const orr_lookup *lookup, int64_t lookups,
                        const int64_t n, const orr_row_optimizer optimizer,
                        const orr_row_format format)
{
    float sum[ORR_SHARD_UPDATE_COLUMNS], squares[ORR_SHARD_UPDATE_COLUMNS / ORR_EMBEDDING_BLOCK],
        read[ORR_SHARD_UPDATE_COLUMNS];
    const float *given = range->square;
    for (int64_t i = 0, end; i < lookups; i = end) {
        const int64_t number = lookup[i].row;
        end = AT(end_of_row)(lookup, i, lookups);
        for (int64_t k = i + AT(rows_ahead); k < end + AT(rows_ahead) && k < lookups; k++) {
            AT(fetch_lookup)(range, &lookup[k], n, optimizer, format);
            if (from->far)
                AT(fetch)(from->at + lookup[k].sample * from->row_bytes, n * 4);
        }
        const float *g = AT(gradient_of)(by, from, lookup + i, end - i, n, sum);
        float square = 0;
        if (given != NULL)
            square = *given++;
        else if (optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD ||
                 optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM) {
            AT(squares_of)(g, n, squares);
            square = sum_blocks(squares, (uint32_t)(n / ORR_EMBEDDING_BLOCK));
        }
        char *row = range->rows + number * range->row_bytes;
        float *state = (float *)(void *)(range->states + number * range->state_bytes);
        if (format == ORR_ROW_FORMAT_FP32) {
            AT(step_of)(by, g, square, n, (float *)(void *)row, state, optimizer);
            continue;
        }
        for (int64_t j = 0; j < n; j += NUMBERS)
            AT(put)(read + j, AT(of_row)(row, j, (int)format));
        AT(step_of)(by, g, square, n, read, state, optimizer);
        AT(round)
        (read, orr_row_noise(range->noise + orr_row_of_slot(range->owner, number)), range->column,
         n, (uint16_t *)(void *)row, format);
    }
}

#define STEP_(name, text)                                                                          \
    LEVEL static void AT(step_##name)(const orr_row_step *by, const float *g, float square,        \
                                      int64_t n, float *row, float *state)                         \
    {                                                                                              \
        AT(step_of)(by, g, square, n, row, state, ORR_ROW_OPTIMIZER_##name);                       \
    }                                                                                              \
    LEVEL static void AT(update_##name)(const orr_row_step *by, const orr_bag_gradients *from,     \
                                        const orr_row_range *range, const orr_lookup *lookup,      \
                                        int64_t lookups)                                           \
    {                                                                                              \
        const int64_t n = range->columns;                                                          \
        if (range->format == ORR_ROW_FORMAT_FP16)                                                  \
            AT(update_of)                                                                          \
        (by, from, range, lookup, lookups, n, ORR_ROW_OPTIMIZER_##name, ORR_ROW_FORMAT_FP16);      \
        else if (range->format == ORR_ROW_FORMAT_BF16) AT(update_of)(                              \
            by, from, range, lookup, lookups, n, ORR_ROW_OPTIMIZER_##name, ORR_ROW_FORMAT_BF16);   \
        else if (n == 64) AT(update_of)(by, from, range, lookup, lookups, 64,                      \
                                        ORR_ROW_OPTIMIZER_##name, ORR_ROW_FORMAT_FP32);            \
        else if (n == 32) AT(update_of)(by, from, range, lookup, lookups, 32,                      \
                                        ORR_ROW_OPTIMIZER_##name, ORR_ROW_FORMAT_FP32);            \
        else AT(update_of)(by, from, range, lookup, lookups, n, ORR_ROW_OPTIMIZER_##name,          \
                           ORR_ROW_FORMAT_FP32);                                                   \
    }
ORR_ROW_OPTIMIZER_MAP(STEP_)
#undef STEP_

static const orr_row_kernels AT(row_kernels) = {
#define SUM_(name)                                                                                 \
    .sum[ORR_ROW_FORMAT_##name] = AT(sum_##name), .tree[ORR_ROW_FORMAT_##name] = AT(tree_##name),
    SUM_(FP32) SUM_(FP16) SUM_(BF16) SUM_(INT8) SUM_(INT4)
#undef SUM_
        .sum_bags = AT(sum_bags),
    .squares = AT(squares),
    .squares_of_rows = AT(squares_of_rows),
#define STEP_(name, text)                                                                          \
    .step[ORR_ROW_OPTIMIZER_##name] = AT(step_##name),                                             \
    .update[ORR_ROW_OPTIMIZER_##name] = AT(update_##name),
    ORR_ROW_OPTIMIZER_MAP(STEP_)
#undef STEP_
        .round[ORR_ROW_FORMAT_FP16] = AT(round_FP16),
    .round[ORR_ROW_FORMAT_BF16] = AT(round_BF16),
};

#undef V
#undef HERE
#undef LEVEL
#undef AT
#undef NUMBERS
#undef ROOT
#undef HALVES_AT
#undef BYTES
#undef NIBBLES_AT
