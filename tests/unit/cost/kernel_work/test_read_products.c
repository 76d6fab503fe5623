/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/kernel_work/work.h"

typedef bool reader(const orr_arguments *in, const orr_arguments *out, orr_work *work);

static bool read_with(reader *read, const char *in, const char *values, const char *out,
                      orr_work *ret)
{
    orr_arguments a, b;
    orr_arguments_parse(in, NULL, &a);
    orr_arguments_parse(out, NULL, &b);
    a.values = values;
    *ret = (orr_work){.op = "", .kernel = ""};
    return read(&a, &b, ret);
}

static void check_dims(const orr_work *work, uint8_t n, const int64_t *dims)
{
    assert_int_equal(work->n_dims, n);
    assert_memory_equal(work->dims, dims, n * sizeof *dims);
}
#define CHECK_DIMS(work, ...)                                                                      \
    check_dims((work), sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t),                   \
               (const int64_t[]){__VA_ARGS__})

static void test_matrix_products(void **state)
{
    (void)state;
    orr_work w;
    assert_true(read_with(orr_read_mm, "[[2, 3], [3, 4]]", "", "", &w));
    CHECK_DIMS(&w, 1, 2, 4, 3);
    assert_true(read_with(orr_read_mm, "[[7, 2, 3], [7, 3, 4]]", "", "", &w));
    CHECK_DIMS(&w, 7, 2, 4, 3);
    assert_true(read_with(orr_read_mm, "[[2, 3], [3]]", "", "", &w)); /* mv */
    CHECK_DIMS(&w, 1, 2, 1, 3);
    assert_true(read_with(orr_read_addmm, "[[4], [2, 3], [3, 4], [], []]", "", "", &w));
    CHECK_DIMS(&w, 1, 2, 4, 3);
    assert_true(read_with(orr_read_linear, "[[5, 2, 3], [4, 3], [4]]", "", "", &w));
    CHECK_DIMS(&w, 1, 10, 4, 3);
    assert_false(read_with(orr_read_mm, "[[2, 3], []]", "", "", &w));
    assert_false(read_with(orr_read_addmm, "[[2, 3], [3, 4]]", "", "", &w));
    assert_false(read_with(orr_read_mm, "[[0, 0], [0, 4]]", "", "", &w));
}

static void test_convolutions(void **state)
{
    (void)state;
    orr_work w;
    const char *in = "[[32, 3, 224, 224], [64, 3, 7, 7], []]";
    assert_true(read_with(orr_read_convolution, in, "", "[[32, 64, 112, 112]]", &w));
    CHECK_DIMS(&w, 32, 3, 224, 224, 64, 7, 7, 2);
    assert_true(read_with(orr_read_convolution, in, "[\"\",\"\",\"\",\"[2, 2]\"]", "", &w));
    CHECK_DIMS(&w, 32, 3, 224, 224, 64, 7, 7, 2);
    assert_true(read_with(orr_read_convolution, in, "", "", &w)); /* the stride is not known */
    CHECK_DIMS(&w, 32, 3, 224, 224, 64, 7, 7, 1);
    /* groups: the weight has the channels of one; one dimension: no height */
    assert_true(read_with(orr_read_convolution, "[[8, 64, 100], [64, 1, 5]]", "", "", &w));
    CHECK_DIMS(&w, 8, 1, 1, 100, 64, 1, 5, 1);
    assert_true(read_with(orr_read_convolution_backward,
                          "[[32, 128, 28, 28], [32, 64, 56, 56], [128, 64, 3, 3]]", "", "", &w));
    CHECK_DIMS(&w, 32, 64, 56, 56, 128, 3, 3, 2);
    assert_false(read_with(orr_read_cudnn_backward, "[[], [32, 128, 28, 28], [32, 64, 56, 56]]", "",
                           "", &w));
    assert_true(
        read_with(orr_read_cudnn_backward, "[[], [32, 128, 28, 28], [128, 64, 3, 3]]", "", "", &w));
    orr_work_complete(&w); /* stride unknown, but the FLOPs are right */
    assert_int_equal(w.family, ORR_FAMILY_OTHER);
    CHECK_DIMS(&w, 32, 64, 28, 28, 128, 3, 3, 1);
}

static void test_attention(void **state)
{
    (void)state;
    orr_work w;
    const char *heads_first = "[[2, 16, 559, 64], [2, 4, 559, 64], [2, 4, 559, 64]]";
    assert_true(read_with(orr_read_attention, heads_first, "", "", &w));
    CHECK_DIMS(&w, 2, 16, 559, 559, 64);
    assert_true(read_with(orr_read_flash, "[[2, 100, 16, 64], [2, 300, 16, 64], []]", "", "", &w));
    CHECK_DIMS(&w, 2, 16, 100, 300, 64);
    assert_true(read_with(orr_read_flash_backward,
                          "[[2, 100, 16, 64], [2, 100, 16, 64], [2, 300, 16, 64], []]", "", "",
                          &w));
    CHECK_DIMS(&w, 2, 16, 100, 300, 64);
    assert_false(read_with(orr_read_attention, "[[2, 16], [2, 16]]", "", "", &w));
}

/* A causal mask halves the products. */
static void test_causal(void **state)
{
    (void)state;
    orr_arguments in, none;
    orr_arguments_parse("[[2, 100, 16, 64], [2, 100, 16, 64], [2, 100, 16, 64]]", NULL, &in);
    orr_arguments_parse("", NULL, &none);
    orr_work full = {.family = ORR_FAMILY_ATTENTION}, causal = full;
    assert_true(orr_read_flash(&in, &none, &full));
    orr_work_complete(&full);
    in.values = "[\"\",\"\",\"\",\"\",\"\",\"100\",\"100\",\"0.\",\"True\"]";
    assert_true(orr_read_flash(&in, &none, &causal));
    orr_work_complete(&causal);
    assert_true(full.flops == 4.0 * 2 * 16 * 100 * 100 * 64);
    assert_true(causal.flops == full.flops / 2);
    assert_true(causal.read_bytes == full.read_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_matrix_products),
        cmocka_unit_test(test_convolutions),
        cmocka_unit_test(test_attention),
        cmocka_unit_test(test_causal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
