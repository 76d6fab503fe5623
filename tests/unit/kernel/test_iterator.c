/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kernel/cpu/tensor/iterator.h"

/* Walks: tensors seen as rows. */

static orr_operand operand(void *data, uint32_t rank, const int64_t *dim)
{
    orr_operand o = {.type = {.dtype = ORR_DTYPE_FP32, .rank = (uint8_t)rank}, .data = data};
    memcpy(o.type.dim, dim, rank * sizeof *dim);
    orr_operand_contiguous(&o.type, o.stride);
    return o;
}

static void test_dims_without_gaps_are_one(void **state)
{
    (void)state;
    float data[24];
    const orr_operand x = operand(data, 4, (const int64_t[]){2, 1, 3, 4});
    orr_tensor_iter walk = orr_tensor_iter_over(&x.type);
    orr_tensor_iter_add(&walk, &x);
    orr_tensor_iter_coalesce(&walk, 0);
    assert_int_equal(walk.rank, 1);
    assert_int_equal(orr_tensor_iter_columns(&walk), 24);
    assert_int_equal(orr_tensor_iter_rows(&walk), 1);
    walk = orr_tensor_iter_over(&x.type);
    orr_tensor_iter_add(&walk, &x);
    orr_tensor_iter_coalesce(&walk, 1);
    assert_int_equal(orr_tensor_iter_rows(&walk), 6);
    assert_int_equal(orr_tensor_iter_columns(&walk), 4);
}

/* A slice of rows, and a bias that is the same for all: rows stay rows. */
static void test_gaps_and_repeats_stay(void **state)
{
    (void)state;
    float data[60], bias[4] = {1, 2, 3, 4};
    orr_operand x = operand(data, 3, (const int64_t[]){2, 3, 4});
    const orr_operand b = operand(bias, 1, (const int64_t[]){4});
    x.stride[1] = 10;
    x.stride[0] = 30;
    for (int i = 0; i < 60; i++)
        data[i] = (float)i;
    orr_tensor_iter walk = orr_tensor_iter_over(&x.type);
    orr_tensor_iter_add(&walk, &x);
    orr_tensor_iter_add(&walk, &b);
    orr_tensor_iter_coalesce(&walk, 0);
    assert_int_equal(walk.rank, 2);
    assert_int_equal(orr_tensor_iter_rows(&walk), 6);
    orr_tensor_cursor step, jump;
    orr_tensor_iter_seek(&walk, 0, &step);
    for (int64_t row = 0; row < 6; row++, orr_tensor_iter_next(&walk, &step)) {
        float buffer[4];
        orr_tensor_iter_seek(&walk, row, &jump);
        assert_int_equal(step.offset[0], jump.offset[0]);
        assert_true(orr_tensor_iter_read(&walk, 0, &step, 0, 4, buffer)[0] == (float)(10 * row));
        assert_true(orr_tensor_iter_read(&walk, 1, &step, 2, 2, buffer)[1] == 4);
    }
}

static void test_transposed_rows_are_gathered(void **state)
{
    (void)state;
    float data[12], buffer[4];
    orr_operand x = operand(data, 2, (const int64_t[]){3, 4});
    x.stride[0] = 1;
    x.stride[1] = 3;
    for (int i = 0; i < 12; i++)
        data[i] = (float)i;
    orr_tensor_iter walk = orr_tensor_iter_over(&x.type);
    orr_tensor_iter_add(&walk, &x);
    orr_tensor_iter_coalesce(&walk, 0);
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&walk, 2, &cursor);
    const float *row = orr_tensor_iter_read(&walk, 0, &cursor, 1, 3, buffer);
    assert_true(row == buffer && row[0] == 5 && row[1] == 8 && row[2] == 11);
}

static void test_a_number_each_row(void **state)
{
    (void)state;
    float data[24], each[6] = {0, 1, 2, 3, 4, 5};
    const orr_operand x = operand(data, 3, (const int64_t[]){2, 3, 4}),
                      r = operand(each, 2, (const int64_t[]){2, 3});
    orr_tensor_iter walk = orr_tensor_iter_over(&x.type);
    orr_tensor_iter_add(&walk, &x);
    const uint32_t part = orr_tensor_iter_add_per_row(&walk, &r);
    orr_tensor_iter_coalesce(&walk, 1);
    orr_tensor_cursor cursor;
    orr_tensor_iter_seek(&walk, 4, &cursor);
    assert_true(orr_tensor_iter_read_scalar(&walk, part, &cursor) == 4);
    orr_tensor_iter_write_scalar(&walk, part, &cursor, 9);
    assert_true(each[4] == 9);
}

typedef struct marks {
    int count[1000];
    int64_t longest;
} marks;
static void mark(void *ctx, int64_t begin, int64_t end)
{
    marks *m = ctx;
    for (int64_t i = begin; i < end; i++)
        m->count[i]++;
    m->longest = end - begin > m->longest ? end - begin : m->longest;
}

static void test_pieces_are_all_and_once(void **state)
{
    (void)state;
    for (int64_t n = 0; n <= 1000; n += 37) {
        marks m = {.longest = 0};
        orr_parallel_ranges(n, 16, mark, &m, NULL);
        for (int64_t i = 0; i < 1000; i++)
            assert_int_equal(m.count[i], i < n);
        assert_int_equal(m.longest, n < 16 ? n : 16);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dims_without_gaps_are_one),
        cmocka_unit_test(test_gaps_and_repeats_stay),
        cmocka_unit_test(test_transposed_rows_are_gathered),
        cmocka_unit_test(test_a_number_each_row),
        cmocka_unit_test(test_pieces_are_all_and_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
