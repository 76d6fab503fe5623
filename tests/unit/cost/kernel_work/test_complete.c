/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

static orr_work complete(orr_work w)
{
    orr_work_complete(&w);
    return w;
}

static void test_products(void **state)
{
    (void)state;
    orr_work w = complete(SMALL_WORK(GEMM, 2, 3, 5, 7));
    assert_true(w.flops == 2.0 * 2 * 3 * 5 * 7);
    assert_true(w.read_bytes == 4.0 * 2 * (3 * 7 + 7 * 5) && w.write_bytes == 4.0 * 2 * 3 * 5);
    /* ResNet-50's first layer: 118 million multiply-adds an image */
    w = complete(SMALL_WORK(CONVOLUTION, 1, 3, 224, 224, 64, 7, 7, 2));
    assert_true(w.flops == 2.0 * 64 * 112 * 112 * 3 * 49);
    w = complete(SMALL_WORK(ATTENTION, 1, 2, 10, 20, 4));
    assert_true(w.flops == 4.0 * 2 * 10 * 20 * 4);
    orr_work backward = SMALL_WORK(ATTENTION, 1, 2, 10, 20, 4);
    backward.backward = true;
    assert_true(complete(backward).flops == 2.5 * w.flops);
}

static void test_rows(void **state)
{
    (void)state;
    orr_work w = complete(SMALL_WORK(CONCAT, 100));
    assert_true(w.flops == 0 && w.read_bytes == 400 && w.write_bytes == 400);
    w = complete(SMALL_WORK(COPY, 100));
    assert_true(w.read_bytes == 100 && w.write_bytes == 100);
    w = complete(SMALL_WORK(TRANSPOSE, 2, 3, 4));
    assert_true(w.read_bytes == 96 && w.write_bytes == 96);
    w = complete(SMALL_WORK(INTERACTION, 16, 27, 27));
    assert_true(w.write_bytes == 16.0 * 351 * 4);
    w = complete(SMALL_WORK(SOFTMAX, 10, 10));
    assert_true(w.flops == 17400);
    w = complete(SMALL_WORK(NORM, 10, 10));
    assert_true(w.read_bytes == 800 && w.write_bytes == 400);
    w = complete(SMALL_WORK(OPTIMIZER, 10));
    assert_true(w.read_bytes == 80 && w.write_bytes == 40);
}

static void test_elements_by_operator(void **state)
{
    (void)state;
    orr_work w = SMALL_WORK(ELEMENTWISE, 100);
    assert_true(complete(w).flops == 100);
    w.op = "aten::gelu";
    assert_true(complete(w).flops == 17500);
}

static void test_what_is_known_stays(void **state)
{
    (void)state;
    orr_work w = SMALL_WORK(GEMM, 1, 2, 2, 2);
    w.flops = 5;
    w.write_bytes = 6;
    w = complete(w);
    assert_true(w.flops == 5 && w.read_bytes == 0 && w.write_bytes == 6);
}

static void test_too_few_dims(void **state)
{
    (void)state;
    orr_work w = complete(SMALL_WORK(GEMM, 1, 2, 2));
    assert_true(w.flops == 0 && w.read_bytes == 0);
    w = complete(SMALL_WORK(OTHER, 1));
    assert_true(w.flops == 0 && w.read_bytes == 0);
    w = SMALL_WORK(GEMM, 1, 2, 2, 2);
    w.family = 200;
    assert_true(complete(w).flops == 0);
    w = SMALL_WORK(GEMM, 1, 2, 2, 2);
    w.dtype = 200;
    assert_true(complete(w).flops == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_products),
        cmocka_unit_test(test_rows),
        cmocka_unit_test(test_elements_by_operator),
        cmocka_unit_test(test_what_is_known_stays),
        cmocka_unit_test(test_too_few_dims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
