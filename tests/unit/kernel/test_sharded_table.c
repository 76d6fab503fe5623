/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "kernel/cpu/embedding/row_kernels.h"
#include "kernel/cpu/embedding/sharded_table.h"
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/format/row.h"

/* Parts of sharded tables one by one; tests/property/test_sharded_tables.c has the whole. */

static void a_shard_is_the_fewest_subtrees(void **state)
{
    (void)state;
    static const struct {
        uint32_t begin, end, n;
        orr_range_subtree first, last;
    } CASES[] = {{0, 256, 1, {0, 256}, {0, 256}},     {0, 80, 2, {0, 64}, {64, 16}},
                 {80, 176, 4, {80, 16}, {160, 16}},   {1, 255, 14, {1, 1}, {254, 1}},
                 {128, 192, 1, {128, 64}, {128, 64}}, {7, 7, 0, {0, 0}, {0, 0}}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        orr_range_subtree got[ORR_SHARD_SUBTREES_MAX];
        const orr_embedding_shard shard = {.range_begin = CASES[i].begin,
                                           .range_end = CASES[i].end};
        const uint32_t n = orr_shard_subtrees(&shard, got);
        assert_int_equal(n, CASES[i].n);
        if (n == 0)
            continue;
        assert_memory_equal(&got[0], &CASES[i].first, sizeof *got);
        assert_memory_equal(&got[n - 1], &CASES[i].last, sizeof *got);
        for (uint32_t k = 0; k + 1 < n; k++)
            assert_int_equal(got[k].begin + got[k].count, got[k + 1].begin);
    }
}

static void blocks_are_summed_as_a_tree(void **state)
{
    (void)state;
    const float s[] = {1, 0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f, 0x1p-24f, 3};
    assert_true(orr_sum_blocks(s, 0) == 0);
    assert_true(orr_sum_blocks(s, 1) == 1);
    assert_true(orr_sum_blocks(s, 4) == 1 + 0x1p-23f);
    assert_true(orr_sum_blocks(s, 7) == (1 + 0x1p-23f) + (0x1p-23f + 3.0f));
}

static void no_lookup_is_plus_zero(void **state)
{
    (void)state;
    const float zeros[] = {-0.0f, -0.0f}, *parts[] = {zeros, zeros};
    const orr_range_subtree halves[] = {{0, 128}, {128, 128}};
    float ret[2];
    orr_join_subtrees(halves, parts, 2, 2, ret);
    assert_true(!signbit(ret[0]) && !signbit(ret[1]));
}

/* The error that the header allows a number of a vector whose largest magnitude is `most`. */
static double error_of(orr_embedding_codec codec, double value, double most)
{
    switch (codec) {
    case ORR_EMBEDDING_CODEC_FP16:
        return fmax(0x1p-11 * fabs(value), 0x1p-25);
    case ORR_EMBEDDING_CODEC_BF16:
        return 0x1p-8 * fabs(value);
    case ORR_EMBEDDING_CODEC_INT8:
        return most / 254 + 0x1p-20 * most;
    case ORR_EMBEDDING_CODEC_FP32:
    case ORR_EMBEDDING_CODECS:
        break;
    }
    return 0;
}

static void codecs_keep_to_their_error(void **state)
{
    (void)state;
    enum { N = 40, COLUMNS = 70, STRIDE = 77 };
    float from[N * STRIDE], to[N * STRIDE];
    char wire[N * (COLUMNS * 4 + 4) + 1];
    orr_random random = orr_random_of(1, 2);
    for (int i = 0; i < N * STRIDE; i++)
        from[i] = (float)((2 * orr_random_unit(&random) - 1) * pow(2, i / STRIDE - 30));
    for (int codec = 0; codec < ORR_EMBEDDING_CODECS; codec++) {
        const int64_t bytes = orr_embedding_codec_bytes((orr_embedding_codec)codec, COLUMNS);
        memset(wire, 0x5a, sizeof wire);
        memset(to, 0, sizeof to);
        orr_codec_encode((orr_embedding_codec)codec, from, N, COLUMNS, STRIDE, wire);
        assert_int_equal(wire[N * bytes], 0x5a);
        orr_codec_decode((orr_embedding_codec)codec, wire, N, COLUMNS, to, STRIDE);
        double worst = 0;
        for (int i = 0; i < N; i++) {
            double most = 0;
            for (int j = 0; j < COLUMNS; j++)
                most = fmax(most, fabs((double)from[i * STRIDE + j]));
            for (int j = 0; j < COLUMNS; j++) {
                const double value = (double)from[i * STRIDE + j],
                             error = fabs((double)to[i * STRIDE + j] - value),
                             bound = error_of((orr_embedding_codec)codec, value, most);
                assert_true(error <= bound);
                worst = fmax(worst, bound > 0 ? error / bound : 0);
            }
            assert_true(to[i * STRIDE + COLUMNS] == 0);
        }
        assert_true(codec == ORR_EMBEDDING_CODEC_FP32 || worst > 0.9); /* the bound is tight */
    }
}

/* One number rounded under many keys: its neighbours alone, and its mean. */
static void hold_rounding(orr_row_format format, float value)
{
    enum { KEYS = 4000, N = 16 };
    const orr_row_kernels *kernels = orr_row_kernels_of_cpu();
    float from[N], to[N], low = INFINITY, high = -INFINITY;
    uint16_t rounded[N];
    double sum = 0;
    for (int j = 0; j < N; j++)
        from[j] = value;
    for (uint64_t key = 0; key < KEYS; key++) {
        kernels->round[format](from, orr_row_noise(key), 32, N, rounded);
        orr_row_to_fp32(format, rounded, N, to);
        for (int j = 0; j < N; j++) {
            low = fminf(low, to[j]);
            high = fmaxf(high, to[j]);
            sum += (double)to[j];
        }
    }
    assert_true(isfinite(sum));
    assert_true((value == low && value == high) || (low < value && value < high));
    const double step = (double)high - (double)low;
    assert_true(step <= fmax(0x1.01p-7 * fabs((double)value), 0x1p-24)); /* neighbours */
    assert_true(fabs(sum / (KEYS * N) - (double)value) <= 5 * step / sqrt(KEYS * N));
}

static void rounding_is_right_on_average(void **state)
{
    (void)state;
    static const float VALUES[] = {0,      1,     1.0001f,    -1.003f,   3.14159f, 1e-3f,
                                   -2e-5f, 3e-6f, 0x1.8p-25f, -0x1p-14f, 1234.56f, 0x1p-24f};
    for (int level = 0; level <= ORR_CPU_AVX512; level++) {
        orr_cpu_level_limit((orr_cpu_level_id)level);
        for (size_t i = 0; i < sizeof VALUES / sizeof *VALUES; i++) {
            hold_rounding(ORR_ROW_FORMAT_BF16, VALUES[i]);
            hold_rounding(ORR_ROW_FORMAT_FP16, VALUES[i]);
        }
    }
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

static void finite_numbers_stay_finite(void **state)
{
    (void)state;
    const float from[16] = {65504, 65520, 1e38f, -3.4e38f, -INFINITY, INFINITY, NAN, 65519};
    uint16_t half[16], brain[16];
    for (uint64_t key = 0; key < 100; key++) {
        orr_row_kernels_of_cpu()->round[ORR_ROW_FORMAT_FP16](from, key, 0, 16, half);
        orr_row_kernels_of_cpu()->round[ORR_ROW_FORMAT_BF16](from, key, 0, 16, brain);
        for (int i = 0; i < 4; i++) {
            assert_true(orr_fp16_to_fp32(half[i]) == copysignf(65504, from[i]));
            assert_true(isfinite(orr_bf16_to_fp32(brain[i])));
        }
        for (int i = 4; i < 6; i++) {
            assert_true(orr_fp16_to_fp32(half[i]) == from[i]);
            assert_true(orr_bf16_to_fp32(brain[i]) == from[i]);
        }
        assert_true(isnan(orr_fp16_to_fp32(half[6])) && isnan(orr_bf16_to_fp32(brain[6])));
    }
}

/* Rows on both sides of each bound of subtrees; all are one row of a 1 in memory. */
static void rows_of_huge_tables_are_in_their_ranges(void **state)
{
    (void)state;
    enum { SUBTREES = 8, SAMPLES = 2 * SUBTREES - 2 };
    static const int64_t ROWS[] = {1000003, 205891132094649, (INT64_C(1) << 40) - 1,
                                   (INT64_C(1) << 54) - 33};
    float one = 1, bags[SAMPLES][SUBTREES];
    for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
        const orr_embedding_shard shard = {.range_end = 255, .column_end = 1};
        orr_range_subtree subtrees[ORR_SHARD_SUBTREES_MAX];
        assert_int_equal(orr_shard_subtrees(&shard, subtrees), SUBTREES);
        int64_t ids[SAMPLES];
        int32_t lengths[SAMPLES];
        for (int s = 0; s < SAMPLES; s++) {
            ids[s] = orr_embedding_range_begin(ROWS[r], subtrees[(s + 2) / 2].begin) - (s + 1) % 2;
            lengths[s] = 1;
        }
        orr_row_store store = {.rows = ROWS[r], .columns = 1, .base = (char *)&one};
        const orr_shard_lookups lookups = {.store = &store,
                                           .shard = &shard,
                                           .table_rows = ROWS[r],
                                           .samples = SAMPLES,
                                           .n = SAMPLES,
                                           .lengths = lengths,
                                           .ids = ids};
        void *workspace = orr_malloc_aligned(orr_shard_bag_bytes(&lookups, NULL));
        assert_int_equal(orr_shard_bag_sums(&lookups, bags[0], SUBTREES, workspace, NULL, NULL),
                         ORR_OK);
        orr_free(workspace);
        for (int s = 0; s < SAMPLES; s++)
            for (int t = 0; t < SUBTREES; t++)
                assert_true(bags[s][t] == (t == (s + 1) / 2));
    }
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    char rows[4 * 1056] = {0};
    const int64_t id = 0;
    const int32_t length = 1;
    const orr_embedding_shard shard = {.range_end = ORR_EMBEDDING_RANGES, .column_end = 1040};
    orr_row_store store = {.rows = 1, .columns = 1040, .record_bytes = 4160, .base = rows};
    const orr_shard_lookups lookups = {.store = &store,
                                       .shard = &shard,
                                       .table_rows = 1,
                                       .samples = 1,
                                       .n = 1,
                                       .lengths = &length,
                                       .ids = &id};
    const orr_update by = {.rate = 1, .gradient_scale = 1, .step = 1};
    const orr_shard_update update = {.lookups = &lookups, .by = &by};
    orr_error err;
    assert_int_equal(orr_shard_update_run(&update, NULL, NULL, &err), ORR_UNSUPPORTED);
    assert_string_equal(err.text, "update of a table's shard: rows of 1040 numbers in fp32, not of "
                                  "up to 1024 in fp32, fp16 or bf16");
    store.columns = 1024;
    store.format = ORR_ROW_FORMAT_INT8;
    assert_int_equal(orr_shard_update_run(&update, NULL, NULL, &err), ORR_UNSUPPORTED);
    store.format = ORR_ROW_FORMAT_Q8_0;
    assert_int_equal(orr_shard_bag_sums(&lookups, NULL, 0, NULL, NULL, &err), ORR_UNSUPPORTED);
    assert_string_equal(err.text, "1 lookups of q8_0 rows in a sharded table");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_shard_is_the_fewest_subtrees),
        cmocka_unit_test(blocks_are_summed_as_a_tree),
        cmocka_unit_test(no_lookup_is_plus_zero),
        cmocka_unit_test(codecs_keep_to_their_error),
        cmocka_unit_test(rounding_is_right_on_average),
        cmocka_unit_test(finite_numbers_stay_finite),
        cmocka_unit_test(rows_of_huge_tables_are_in_their_ranges),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
