/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <orrery/embedding.h>
#include <orrery/kernel.h>

/* Sizes of rows, ranges of rows, bounds of shards. */

static void ranges_cover_a_table_evenly(void **state)
{
    (void)state;
    static const int64_t ROWS[] = {1, 2, 255, 256, 257, 1000, 65536, 1000003};
    for (size_t r = 0; r < sizeof ROWS / sizeof *ROWS; r++) {
        const int64_t rows = ROWS[r], least = rows / ORR_EMBEDDING_RANGES;
        assert_int_equal(orr_embedding_range_begin(rows, 0), 0);
        assert_int_equal(orr_embedding_range_begin(rows, ORR_EMBEDDING_RANGES), rows);
        for (uint32_t k = 0; k < ORR_EMBEDDING_RANGES; k++) {
            const int64_t begin = orr_embedding_range_begin(rows, k),
                          end = orr_embedding_range_begin(rows, k + 1);
            assert_in_range(end - begin, least, least + 1);
            for (int64_t row = begin; row < end; row++)
                assert_int_equal(orr_embedding_range_of(rows, row), k);
        }
    }
    const int64_t most = INT64_MAX;
    assert_int_equal(orr_embedding_range_of(most, most - 1), ORR_EMBEDDING_RANGES - 1);
    assert_int_equal(orr_embedding_range_begin(most, 128), most / 2);
}

static void parts_of_ranges_are_even_and_cover_them(void **state)
{
    (void)state;
    for (uint32_t n = 1; n <= ORR_EMBEDDING_RANGES; n++) {
        const double mean = (double)ORR_EMBEDDING_RANGES / n;
        assert_int_equal(orr_embedding_range_split(n, 0), 0);
        assert_int_equal(orr_embedding_range_split(n, n), ORR_EMBEDDING_RANGES);
        for (uint32_t i = 0; i < n; i++) {
            const double part = (double)orr_embedding_range_split(n, i + 1) -
                                (double)orr_embedding_range_split(n, i);
            assert_true(part >= 1 && part > 0.6 * mean - 1 && part < 1.4 * mean + 1);
            if ((n & (n - 1)) == 0)
                assert_true(part == mean);
        }
    }
    assert_int_equal(orr_embedding_range_split(3, 1), 80);
    assert_int_equal(orr_embedding_range_split(3, 2), 176);
}

static void parts_of_columns_are_whole_blocks(void **state)
{
    (void)state;
    static const uint32_t COLUMNS[] = {1, 16, 17, 64, 100, 128};
    for (size_t c = 0; c < sizeof COLUMNS / sizeof *COLUMNS; c++)
        for (uint32_t n = 1; n <= 9; n++) {
            assert_int_equal(orr_embedding_column_split(COLUMNS[c], n, 0), 0);
            assert_int_equal(orr_embedding_column_split(COLUMNS[c], n, n), COLUMNS[c]);
            for (uint32_t i = 0; i < n; i++) {
                const uint32_t begin = orr_embedding_column_split(COLUMNS[c], n, i);
                assert_true(begin % ORR_EMBEDDING_BLOCK == 0 || begin == COLUMNS[c]);
                assert_true(begin <= orr_embedding_column_split(COLUMNS[c], n, i + 1));
            }
        }
    assert_int_equal(orr_embedding_column_split(100, 2, 1), 48);
}

static void bytes_are_of_rows_and_state(void **state)
{
    (void)state;
    orr_embedding table = {.rows = 10,
                           .columns = 64,
                           .format = ORR_ROW_FORMAT_FP16,
                           .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD};
    assert_int_equal(orr_embedding_row_bytes(&table), 132);
    assert_int_equal(orr_embedding_bytes(&table), 1320);
    table.optimizer = ORR_ROW_OPTIMIZER_ADAGRAD;
    assert_int_equal(orr_embedding_row_bytes(&table), 128 + 256);
    table.optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAM;
    assert_int_equal(orr_embedding_row_bytes(&table), 128 + 260);
    table.optimizer = ORR_ROW_OPTIMIZER_SGD;
    assert_int_equal(orr_embedding_row_bytes(&table), 128);
    table.rows = INT64_MAX / 2;
    assert_int_equal(orr_embedding_bytes(&table), INT64_MAX);
    assert_int_equal(orr_embedding_codec_bytes(ORR_EMBEDDING_CODEC_FP32, 64), 256);
    assert_int_equal(orr_embedding_codec_bytes(ORR_EMBEDDING_CODEC_BF16, 64), 128);
    assert_int_equal(orr_embedding_codec_bytes(ORR_EMBEDDING_CODEC_INT8, 64), 68);
}

static void each_choice_has_its_name(void **state)
{
    (void)state;
    assert_string_equal(orr_row_optimizer_name(ORR_ROW_OPTIMIZER_ROWWISE_ADAM), "rowwise_adam");
    assert_string_equal(orr_bag_length_name(ORR_BAG_LENGTH_GEOMETRIC), "geometric");
    assert_string_equal(orr_embedding_sharding_name(ORR_SHARDING_TABLE_ROW), "table_row");
    assert_string_equal(orr_embedding_codec_name(ORR_EMBEDDING_CODEC_INT8), "int8");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ranges_cover_a_table_evenly),
        cmocka_unit_test(parts_of_ranges_are_even_and_cover_them),
        cmocka_unit_test(parts_of_columns_are_whole_blocks),
        cmocka_unit_test(bytes_are_of_rows_and_state),
        cmocka_unit_test(each_choice_has_its_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
