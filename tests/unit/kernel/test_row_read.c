/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/philox.h"
#include "kernel/cpu/simd/cpu_level.h"
#include "kernel/format/row.h"

enum { MOST = 320, BYTES_MOST = 4 * MOST + 16 };

static void random_values(uint64_t seed, float values[MOST])
{
    orr_random r = orr_random_of(seed, 0);
    for (int i = 0; i < MOST; i++)
        values[i] = (float)(2 * orr_random_unit(&r) - 1);
}

static bool in_blocks(int format)
{
    return format == ORR_ROW_FORMAT_Q8_0 || format == ORR_ROW_FORMAT_Q4_0;
}

/* Half a step of the format, for values of up to 1. */
static double step_of(int format)
{
    static const double steps[] = {0, 0x1p-12, 0x1p-9, 0.51 / 127, 1.02 / 8, 0.51 / 127, 1.02 / 15};
    return steps[format];
}

static void what_is_written_is_read_again(void **state)
{
    (void)state;
    float values[MOST], read[MOST];
    char row[BYTES_MOST];
    random_values(1, values);
    for (int format = 0; format < ORR_ROW_FORMATS; format++)
        for (int n = 1; n <= MOST; n++) {
            if (in_blocks(format) && n % 32 != 0)
                continue;
            const int64_t bytes = orr_row_format_bytes((orr_row_format)format, n);
            memset(row, 0x5a, sizeof row);
            orr_row_from_fp32((orr_row_format)format, values, n, row);
            assert_int_equal(row[bytes], 0x5a);
            orr_row_to_fp32((orr_row_format)format, row, n, read);
            for (int i = 0; i < n; i++)
                assert_true(fabs((double)values[i] - (double)read[i]) <= step_of(format));
        }
}

static void all_levels_give_the_same_bits(void **state)
{
    (void)state;
    float values[MOST], want[MOST], got[MOST];
    char plain[BYTES_MOST], row[BYTES_MOST];
    random_values(2, values);
    for (int format = 0; format < ORR_ROW_FORMATS; format++) {
        const size_t bytes = (size_t)orr_row_format_bytes((orr_row_format)format, MOST);
        orr_cpu_level_limit(ORR_CPU_PLAIN);
        orr_row_from_fp32((orr_row_format)format, values, MOST, plain);
        orr_row_to_fp32((orr_row_format)format, plain, MOST, want);
        for (int level = 0; level < ORR_CPU_LEVELS; level++) {
            orr_cpu_level_limit((orr_cpu_level_id)level);
            orr_row_from_fp32((orr_row_format)format, values, MOST, row);
            assert_memory_equal(row, plain, bytes);
            orr_row_to_fp32((orr_row_format)format, row, MOST, got);
            assert_memory_equal(got, want, sizeof want);
            orr_row_range_to_fp32((orr_row_format)format, row, 64, MOST - 64, got);
            assert_memory_equal(got, want + 64, sizeof want - 64 * sizeof *want);
        }
    }
    orr_cpu_level_limit(ORR_CPU_LEVELS);
}

/* Every fp16 is the same number again; against the compiler's own conversion where it has one. */
static void fp16_goes_both_ways(void **state)
{
    (void)state;
    for (uint32_t bits = 0; bits < 65536; bits++) {
        const float value = orr_fp16_to_fp32((uint16_t)bits);
        if (isnan(value))
            assert_true(isnan(orr_fp16_to_fp32(orr_fp32_to_fp16(value))));
        else
            assert_int_equal(orr_fp32_to_fp16(value), bits);
#ifdef __FLT16_MAX__
        _Float16 half;
        memcpy(&half, &(uint16_t){(uint16_t)bits}, sizeof half);
        assert_true(isnan(value) || value == (float)half);
#endif
    }
    assert_int_equal(orr_fp32_to_fp16(65519.0f), 0x7bff);
    assert_int_equal(orr_fp32_to_fp16(65520.0f), 0x7c00);
    assert_int_equal(orr_fp32_to_fp16(0x1p-25f), 0);
    assert_int_equal(orr_fp32_to_fp16(0x1.8p-25f), 1);
    assert_int_equal(orr_fp32_to_fp16(0x1.8p-24f), 2);
    assert_int_equal(orr_fp32_to_fp16(1 + 0x1p-11f), 0x3c00);
    assert_int_equal(orr_fp32_to_fp16(1 + 0x1.8p-10f), 0x3c02);
}

static void bf16_rounds_ties_to_even(void **state)
{
    (void)state;
    assert_int_equal(orr_fp32_to_bf16(1.0f), 0x3f80);
    assert_int_equal(orr_fp32_to_bf16(1 + 0x1p-8f), 0x3f80);
    assert_int_equal(orr_fp32_to_bf16(1 + 0x1.8p-7f), 0x3f82);
    assert_int_equal(orr_fp32_to_bf16(INFINITY), 0x7f80);
    assert_true(isnan(orr_bf16_to_fp32(orr_fp32_to_bf16(NAN))));
}

/* Worked by hand, by the formulas of gguf-py's quants.py. */
static void blocks_are_as_the_format_says(void **state)
{
    (void)state;
    float values[32] = {0};
    uint8_t row[34];
    values[0] = 1.27f;
    values[1] = -0.635f;
    values[31] = 0.014f;
    orr_row_from_fp32(ORR_ROW_FORMAT_Q8_0, values, 32, row);
    assert_int_equal(row[0] | row[1] << 8, orr_fp32_to_fp16(0.01f));
    assert_int_equal((int8_t)row[2], 127);
    assert_int_equal((int8_t)row[3], -64); /* -63.5: away from zero */
    assert_int_equal((int8_t)row[33], 1);
    values[0] = -0.8f;
    orr_row_from_fp32(ORR_ROW_FORMAT_Q4_0, values, 32, row);
    assert_int_equal(row[0] | row[1] << 8, orr_fp32_to_fp16(0.1f));
    assert_int_equal(row[2] & 15, 0);  /* -8 */
    assert_int_equal(row[3] & 15, 2);  /* -6.35 + 8.5 */
    assert_int_equal(row[17] >> 4, 8); /* 0.14 + 8.5 */
}

static void what_is_not_finite_writes_blocks_all_the_same(void **state)
{
    (void)state;
    float values[64] = {0};
    char row[300];
    values[3] = NAN;
    values[40] = INFINITY;
    values[41] = -INFINITY;
    for (int format = 0; format < ORR_ROW_FORMATS; format++)
        orr_row_from_fp32((orr_row_format)format, values, 64, row);
    values[0] = 1e-44f;
    values[3] = values[40] = values[41] = 0;
    for (int format = 0; format < ORR_ROW_FORMATS; format++)
        orr_row_from_fp32((orr_row_format)format, values, 64, row);
}

static void rows_are_found_in_pieces(void **state)
{
    (void)state;
    char a[40], b[40], c[40];
    const orr_row_segment segments[] = {{a, 0, 3}, {b, 3, 1}, {c, 4, 5}};
    const orr_weight_rows rows = {.row_bytes = 8, .segments = segments, .n_segments = 3};
    assert_ptr_equal(orr_row_at(&rows, 0), a);
    assert_ptr_equal(orr_row_at(&rows, 2), a + 16);
    assert_ptr_equal(orr_row_at(&rows, 3), b);
    assert_ptr_equal(orr_row_at(&rows, 8), c + 32);
}

static void bytes_of_a_row(void **state)
{
    (void)state;
    assert_int_equal(orr_row_format_bytes(ORR_ROW_FORMAT_Q8_0, 64), 68);
    assert_int_equal(orr_row_format_bytes(ORR_ROW_FORMAT_Q8_0, 63), -1);
    assert_int_equal(orr_row_format_bytes(ORR_ROW_FORMAT_Q4_0, 64), 36);
    assert_int_equal(orr_row_format_bytes(ORR_ROW_FORMAT_INT4, 5), 11);
    assert_int_equal(orr_row_format_bytes(ORR_ROW_FORMAT_FP32, -1), -1);
    assert_int_equal(orr_row_format_bytes(ORR_ROW_FORMAT_FP32, INT64_MAX), -1);
    assert_string_equal(orr_row_format_name(ORR_ROW_FORMAT_Q4_0), "q4_0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read_again),
        cmocka_unit_test(all_levels_give_the_same_bits),
        cmocka_unit_test(fp16_goes_both_ways),
        cmocka_unit_test(bf16_rounds_ties_to_even),
        cmocka_unit_test(blocks_are_as_the_format_says),
        cmocka_unit_test(what_is_not_finite_writes_blocks_all_the_same),
        cmocka_unit_test(rows_are_found_in_pieces),
        cmocka_unit_test(bytes_of_a_row),
    };
    return cmocka_run_group_tests_name("kernel/row", tests, NULL, NULL);
}
