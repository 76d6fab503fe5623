/* SPDX-License-Identifier: Apache-2.0 */
#include "op/rules.h"
#include "tape_text.h"

static void streams_are_read_and_written_once(void **state)
{
    (void)state;
    const orr_type in[2] = {orr_type_of(ORR_DTYPE_BF16, 1, (const int64_t[]){8}),
                            orr_type_of(ORR_DTYPE_FP32, 1, (const int64_t[]){4})};
    const orr_type out = orr_type_of(ORR_DTYPE_FP4, 1, (const int64_t[]){7});
    const orr_op_args args = {0};
    orr_op_work work = {0};
    const orr_op_signature site = {
        .op = ORR_OP_ADD, .args = &args, .n_in = 2, .n_out = 1, .in = in, .out = &out};
    orr_op_work_stream(&site, 42, &work);
    assert_true(work.flops == 42 && work.read_bytes == 32 && work.write_bytes == 4);
    assert_int_equal(work.dtype, ORR_DTYPE_FP32);
    const orr_op_signature source = {.op = ORR_OP_FILL, .args = &args, .n_out = 1, .out = &out};
    work = (orr_op_work){0};
    orr_op_work_stream(&source, 0, &work);
    assert_true(work.read_bytes == 0 && work.write_bytes == 4);
    assert_int_equal(work.dtype, ORR_DTYPE_FP4);
}

/* What is as it should be needs no call. */
static void views_and_sums_only_where_needed(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value dy = NAMED(&t, GRADIENT, FP32, "dy", 2, 3, 4);
    orr_gradient g = {.tape = &t.tape, .name = "up"};
    const orr_type flat = orr_type_of(ORR_DTYPE_BF16, 2, (const int64_t[]){6, 4});
    orr_value made;
    assert_int_equal(orr_gradient_view(&g, dy, orr_gradient_type(&g, dy), &made, &t.err), ORR_OK);
    assert_int_equal(made, dy);
    assert_int_equal(orr_gradient_sum(&g, dy, 3, &made, &t.err), ORR_OK);
    assert_int_equal(made, dy);
    assert_int_equal(t.tape.n_calls, 0);
    assert_int_equal(orr_gradient_view(&g, dy, &flat, &made, &t.err), ORR_OK);
    assert_int_equal(t.tape.values[made].type.rank, 2);
    assert_int_equal(t.tape.values[made].type.dtype, ORR_DTYPE_FP32); /* dims alone */
    assert_int_equal(orr_gradient_sum(&g, dy, 2, &made, &t.err), ORR_OK);
    TRY_OP(&t, COPY, NULL, made);
    TRY_OUT(&t, 0, FP32, 3, 4);
    TAPE_IS(&t, 0, "view(dy):1\nsum(dy):2\ncopy(2):3\n");
    assert_string_equal(t.tape.calls[1].name, "up");
    try_end(&t);
}

static void gradients_are_passed_on(void **state)
{
    (void)state;
    const orr_value grad = 7;
    orr_value ret = ORR_NONE;
    orr_gradient g = {.grad_out = &grad, .ret_in = &ret};
    assert_int_equal(orr_gradient_identity(&g, NULL), ORR_OK);
    assert_int_equal(ret, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(streams_are_read_and_written_once),
        cmocka_unit_test(views_and_sums_only_where_needed),
        cmocka_unit_test(gradients_are_passed_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
