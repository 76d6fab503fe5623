/* SPDX-License-Identifier: Apache-2.0 */
#include "op/shape.h"
#include "try_op.h"

static void types_as_text(void **state)
{
    (void)state;
    char text[ORR_TYPE_TEXT];
    const orr_type matrix = orr_type_of(ORR_DTYPE_BF16, 2, (const int64_t[]){8, 512});
    assert_string_equal(orr_type_text(&matrix, text), "(8, 512)");
    const orr_type scalar = {0};
    assert_string_equal(orr_type_text(&scalar, text), "()");
    orr_type large = {.rank = ORR_TYPE_DIMS};
    for (int d = 0; d < ORR_TYPE_DIMS; d++)
        large.dim[d] = INT64_MIN;
    assert_int_equal(strlen(orr_type_text(&large, text)), 6 * 20 + 5 * 2 + 2); /* nothing is cut */
}

static void parts_of_types(void **state)
{
    (void)state;
    const orr_type a = orr_type_of(ORR_DTYPE_BF16, 3, (const int64_t[]){2, 3, 5});
    assert_int_equal(orr_type_span(&a, 0, 2), 6);
    assert_int_equal(orr_type_span(&a, 1, 3), 15);
    assert_int_equal(orr_type_span(&a, 2, 2), 1);
    const orr_type b = orr_type_with(&a, ORR_DTYPE_FP32);
    assert_true(orr_type_same_dims(&a, &b));
    assert_int_equal(b.dtype, ORR_DTYPE_FP32);
    const orr_type shorter = orr_type_of(ORR_DTYPE_BF16, 2, (const int64_t[]){2, 3});
    assert_false(orr_type_same_dims(&a, &shorter));
    assert_int_equal(orr_dtype_wider(ORR_DTYPE_BF16, ORR_DTYPE_FP32), ORR_DTYPE_FP32);
    assert_int_equal(orr_dtype_wider(ORR_DTYPE_FP16, ORR_DTYPE_BF16), ORR_DTYPE_FP16);
    assert_int_equal(orr_type_absent().dtype, ORR_DTYPES);
}

/* Names of inputs come from the row: optional ones, alternatives, and more inputs than names. */
static void errors_name_the_inputs(void **state)
{
    (void)state;
    const orr_type types[5] = {{.rank = 1, .dim = {1}},
                               {.rank = 1, .dim = {2}},
                               {.rank = 1, .dim = {3}},
                               {.rank = 1, .dim = {4}},
                               {.rank = 1, .dim = {5}}};
    const orr_op_args args = {0};
    orr_error err;
    orr_op_signature site = {.op = ORR_OP_LAYER_NORM, .args = &args, .n_in = 3, .in = types};
    assert_int_equal(orr_op_shape_error(&site, &err, "no %d", 7), ORR_INVALID);
    assert_string_equal(err.text, "layer_norm: x (1), weight (2) and bias (3): no 7");
    site = (orr_op_signature){.op = ORR_OP_CONCAT, .args = &args, .n_in = 4, .in = types};
    assert_int_equal(orr_op_shape_error(&site, &err, "no"), ORR_INVALID);
    assert_string_equal(err.text, "concat: a (1), b (2), (3) and (4): no");
    site = (orr_op_signature){.op = ORR_OP_BARRIER, .args = &args};
    assert_int_equal(orr_op_shape_error(&site, &err, "no"), ORR_INVALID);
    assert_string_equal(err.text, "barrier: no");
    assert_int_equal(orr_op_shape_error(&site, NULL, "no"), ORR_INVALID);
}

static void checks(void **state)
{
    (void)state;
    const orr_type types[2] = {{.rank = 1, .dim = {1}}, {.rank = 1, .dim = {2}}};
    const orr_op_args args = {0};
    const orr_op_signature site = {.op = ORR_OP_ADD, .args = &args, .n_in = 2, .in = types};
    assert_int_equal(orr_op_check_dim(&site, 0, NULL), ORR_OK);
    assert_int_equal(orr_op_check_dim(&site, 1, NULL), ORR_INVALID);
    assert_int_equal(orr_op_check_dim(&site, -1, NULL), ORR_INVALID);
    assert_int_equal(orr_op_check_rank(&site, 1, 1, NULL), ORR_OK);
    assert_int_equal(orr_op_check_rank(&site, 1, 2, NULL), ORR_INVALID);
    assert_int_equal(orr_op_check_same(&site, 1, NULL), ORR_INVALID);
    assert_int_equal(orr_op_check_same(&site, 2, NULL), ORR_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(types_as_text),
        cmocka_unit_test(parts_of_types),
        cmocka_unit_test(errors_name_the_inputs),
        cmocka_unit_test(checks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
