/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_work.h"

#include "cost/kernel_work/arguments.h"

static void test_tensors_and_scalars(void **state)
{
    (void)state;
    orr_arguments a;
    orr_arguments_parse("[[16, 13], [], [4]]", "[\"c10::Half\", \"Scalar\", \"long int\"]", &a);
    assert_int_equal(a.n, 3);
    assert_true(a.shaped);
    assert_int_equal(a.at[0].n_dims, 2);
    assert_int_equal(a.at[0].dims[1], 13);
    assert_int_equal(a.at[0].elements, 208);
    assert_int_equal(a.at[0].dtype, ORR_DTYPE_FP16);
    assert_null(orr_tensor_argument(&a, 1));
    assert_false(a.at[1].typed);
    assert_int_equal(a.at[2].dtype, ORR_DTYPE_INT64);
    assert_null(orr_tensor_argument(&a, 3));
}

static void test_list_of_tensors(void **state)
{
    (void)state;
    orr_arguments a;
    orr_arguments_parse("[[[2, 3], [4, 3]], []]",
                        "[\"GenericList[Tensor(float),Tensor(float)]\",\"\"]", &a);
    assert_int_equal(a.n, 2);
    assert_int_equal(a.at[0].n_tensors, 2);
    assert_int_equal(a.at[0].elements, 18);
    assert_int_equal(a.at[0].dims[0], 2);
    assert_int_equal(a.at[0].dtype, ORR_DTYPE_FP32);
}

/* Chakra keeps the text as Python prints it. */
static void test_python_notation(void **state)
{
    (void)state;
    orr_arguments a;
    orr_arguments_parse("[(3, 4), ()]", "['Tensor(c10::BFloat16)', 'Int']", &a);
    assert_int_equal(a.n, 2);
    assert_int_equal(a.at[0].elements, 12);
    assert_int_equal(a.at[0].dtype, ORR_DTYPE_BF16);
}

static void test_nonsense_is_bounded(void **state)
{
    (void)state;
    static const char *const TEXTS[] = {"",
                                        "[",
                                        "[[",
                                        "[[1,",
                                        "]]]",
                                        "null",
                                        "[[[[]]]]",
                                        "[[99999999999999999999999, 99999999999999999999999]]",
                                        "[[1,2,3,4,5,6,7,8,9]]"};
    for (size_t i = 0; i < sizeof TEXTS / sizeof *TEXTS; i++) {
        orr_arguments a;
        orr_arguments_parse(TEXTS[i], "[\"", &a);
        for (uint32_t j = 0; j < a.n; j++) {
            assert_true(a.at[j].n_dims <= ORR_ARGUMENT_DIMS);
            assert_true(a.at[j].elements >= 0);
        }
    }
    orr_arguments a;
    orr_arguments_parse("[[1,2,3,4,5,6,7,8,9]]", NULL, &a);
    assert_int_equal(a.at[0].dims[ORR_ARGUMENT_DIMS - 1], 9);
    assert_int_equal(a.at[0].elements, 362880);
}

static void test_values(void **state)
{
    (void)state;
    const char *values = "[\"\", \"[2, -3]\", \"True\", 7, [1, 0], \"0.5\"]";
    int64_t ints[4];
    assert_int_equal(orr_values_ints(values, 0, ints, 4), 0);
    assert_int_equal(orr_values_ints(values, 1, ints, 4), 2);
    assert_int_equal(ints[0], 2);
    assert_int_equal(ints[1], -3);
    assert_true(orr_values_true(values, 2));
    assert_false(orr_values_true(values, 1));
    assert_true(orr_values_true("[\n  \"\",\n  \"True\"\n]", 1)); /* as indented files have it */
    assert_int_equal(orr_values_ints(values, 3, ints, 4), 1);
    assert_int_equal(ints[0], 7);
    assert_int_equal(orr_values_ints(values, 4, ints, 1), 1); /* no more than there is room for */
    assert_int_equal(orr_values_ints(values, 9, ints, 4), 0);
    assert_int_equal(orr_values_ints("", 0, ints, 4), 0);
}

static void test_attributes(void **state)
{
    (void)state;
    small s = small_begin();
    const uint32_t cpu = small_thread(&s, 1);
    const uint32_t with = small_node(&s, ORR_NODE_HOST_OP, "aten::mm", cpu, 0, 10, ORR_NONE);
    const uint32_t without = small_node(&s, ORR_NODE_HOST_OP, "aten::mm", cpu, 20, 10, ORR_NONE);
    small_shapes(&s, with, "[[2, 3], [3, 4]]", "[\"double\", \"double\"]", NULL);
    const orr_graph *g = small_rank(&s);
    orr_arguments a;
    assert_true(orr_arguments_in(g, with, &a));
    assert_int_equal(a.at[1].elements, 12);
    assert_int_equal(a.at[1].dtype, ORR_DTYPE_FP64);
    assert_string_equal(a.values, "");
    assert_false(orr_arguments_in(g, without, &a));
    assert_false(orr_arguments_out(g, with, &a));
    small_job(&s);
    small_end(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tensors_and_scalars),
        cmocka_unit_test(test_list_of_tensors),
        cmocka_unit_test(test_python_notation),
        cmocka_unit_test(test_nonsense_is_bounded),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_attributes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
