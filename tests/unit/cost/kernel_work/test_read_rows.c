/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/kernel_work/work.h"

typedef bool reader(const orr_arguments *in, const orr_arguments *out, orr_work *work);

static bool read_with(reader *read, const char *in, const char *types, const char *out,
                      orr_work *ret)
{
    orr_arguments a, b;
    orr_arguments_parse(in, types, &a);
    orr_arguments_parse(out, NULL, &b);
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

static void test_embeddings(void **state)
{
    (void)state;
    orr_work w;
    assert_true(read_with(orr_read_embedding, "[[1000, 64], [16, 20]]", "[\"c10::Half\"]", "", &w));
    CHECK_DIMS(&w, 320, 1000, 1, 64, 1);
    assert_int_equal(w.dtype, ORR_DTYPE_FP16);
    assert_true(read_with(orr_read_embedding_bag, "[[1000, 64], [100], [32]]", NULL, "", &w));
    CHECK_DIMS(&w, 32, 1000, 4, 64, 1);
    assert_true(read_with(orr_read_index_select, "[[755000], [], [1024]]", NULL, "", &w));
    CHECK_DIMS(&w, 1024, 755000, 1, 1, 1);
    assert_false(read_with(orr_read_embedding, "[[1000, 64], []]", NULL, "", &w));
}

/* Without the sum of the columns the shape of what comes out says it; without both, nothing. */
static void test_split_lookup(void **state)
{
    (void)state;
    orr_work w;
    const char *in = "[[1600], [0], [0], [2], [2], [3], [], [], [3], [], [30], [11]]";
    assert_true(read_with(orr_read_split_lookup, in, NULL, "[[5, 16]]", &w));
    CHECK_DIMS(&w, 5, 100, 3, 8, 2);
    assert_false(read_with(orr_read_split_lookup, in, NULL, "", &w));
    assert_false(read_with(orr_read_split_lookup, "[[5, 16]]", NULL, "", &w));
}

static void test_interaction_and_gather(void **state)
{
    (void)state;
    orr_work w;
    assert_true(read_with(orr_read_index, "[[16, 27, 27], []]", NULL, "", &w));
    CHECK_DIMS(&w, 16, 27, 27);
    w.family = ORR_FAMILY_INTERACTION;
    assert_true(read_with(orr_read_index, "[[100, 8], [[5]]]", NULL, "", &w));
    assert_int_equal(w.family, ORR_FAMILY_OTHER);
}

static void test_rows_and_columns(void **state)
{
    (void)state;
    orr_work w;
    assert_true(read_with(orr_read_channels, "[[32, 64, 7, 7], [64]]", NULL, "", &w));
    CHECK_DIMS(&w, 64, 32 * 49);
    assert_true(read_with(orr_read_layer_norm, "[[4, 8, 16], [], [128], [128]]", NULL, "", &w));
    CHECK_DIMS(&w, 4, 128);
    assert_true(read_with(orr_read_layer_norm, "[[4, 8, 16], []]", NULL, "", &w));
    CHECK_DIMS(&w, 32, 16);
    assert_true(read_with(orr_read_layer_norm_backward,
                          "[[1024, 256], [1024, 256], [], [1024, 1], [1024, 1], [256], [256]]",
                          NULL, "", &w));
    CHECK_DIMS(&w, 1024, 256);
    assert_true(read_with(orr_read_rows, "[[32, 1000], [], []]", NULL, "", &w));
    CHECK_DIMS(&w, 32, 1000);
}

static void test_bytes(void **state)
{
    (void)state;
    orr_work w;
    assert_true(read_with(orr_read_copy, "[[8], [8], []]", "[\"c10::Half\",\"float\"]", "", &w));
    assert_true(w.read_bytes == 32 && w.write_bytes == 16);
    assert_int_equal(w.copy, ORR_COPY_DTOD);
    assert_true(read_with(orr_read_fill, "[[8], []]", "[\"double\"]", "", &w));
    assert_true(w.read_bytes == 0 && w.write_bytes == 64);
    assert_true(read_with(orr_read_reduction, "[[100, 10], []]", NULL, "[[10]]", &w));
    assert_true(w.read_bytes == 4000 && w.write_bytes == 40);
    assert_true(read_with(orr_read_elements, "[[100, 10], [10], []]", NULL, "", &w));
    assert_true(w.read_bytes == 4040 && w.write_bytes == 4000);
    CHECK_DIMS(&w, 1000);
    assert_true(read_with(orr_read_concat, "[[[2, 3], [4, 3]], []]", NULL, "", &w));
    CHECK_DIMS(&w, 18);
    assert_false(read_with(orr_read_concat, "[[], []]", NULL, "", &w));
}

/* SGD reads parameters and gradients and writes parameters; Adam two moments more of both. */
static void test_lists(void **state)
{
    (void)state;
    orr_work w;
    assert_true(read_with(orr_read_lists, "[[[10], [20]], [[10], [20]], []]", NULL, "", &w));
    assert_true(w.read_bytes == 240 && w.write_bytes == 120);
    assert_true(read_with(orr_read_lists, "[[[30]], [[30]], [[30]], [[30]], [[1]]]", NULL, "", &w));
    assert_true(w.read_bytes == 480 && w.write_bytes == 360);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_embeddings),
        cmocka_unit_test(test_split_lookup),
        cmocka_unit_test(test_interaction_and_gather),
        cmocka_unit_test(test_rows_and_columns),
        cmocka_unit_test(test_bytes),
        cmocka_unit_test(test_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
