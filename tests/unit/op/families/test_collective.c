/* SPDX-License-Identifier: Apache-2.0 */
#include "../tape_text.h"

enum { AXIS = 3, MEMBERS = 4 };

/* The gradient's calls, on the same axis among as many, with the type of x. */
static void one(orr_op op, int32_t dim, int32_t to_dim, const int64_t want[2], const char *back)
{
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 8, 12);
    const orr_op_args args = {
        .axis = AXIS, .members = MEMBERS, .dim = dim, .to_dim = to_dim, .overlap = true};
    assert_int_equal(orr_tape_call_op(&t.tape, op, &args, &x, 1, "", t.out, &t.err), ORR_OK);
    TRY_OUT(&t, 0, BF16, want[0], want[1]);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 1, back);
    SAME_TYPE(&t, dx, x);
    if (t.tape.n_calls > 1) {
        const orr_op_args *got = &t.tape.calls[1].args;
        assert_true(got->axis == AXIS && got->members == MEMBERS && got->overlap);
        assert_int_equal(got->dim, op == ORR_OP_ALL_TO_ALL ? to_dim : dim);
        assert_int_equal(got->to_dim, op == ORR_OP_ALL_TO_ALL ? dim : to_dim);
    }
    try_end(&t);
}

static void shapes_and_gradients(void **state)
{
    (void)state;
    const int64_t same[2] = {8, 12}, more[2] = {8, 48}, less[2] = {2, 12}, turned[2] = {2, 48};
    one(ORR_OP_ALL_REDUCE, 0, 0, same, "");
    one(ORR_OP_REPLICATE, 0, 0, same, "all_reduce(d):3 input\n");
    one(ORR_OP_ALL_GATHER, 1, 0, more, "reduce_scatter(d):3 input\n");
    one(ORR_OP_REDUCE_SCATTER, 0, 0, less, "all_gather(d):3 input\n");
    one(ORR_OP_SHARD, 0, 0, less, "all_gather(d):3 input\n");
    one(ORR_OP_ALL_TO_ALL, 0, 1, turned, "all_to_all(d):3 input\n");
    one(ORR_OP_ALL_TO_ALL, 0, 0, same, "all_to_all(d):3 input\n");
    one(ORR_OP_BROADCAST, 0, 0, same, "all_reduce(d):3 input\n");
    one(ORR_OP_SEND, 0, 0, same, "recv(d):3 input\n");
    one(ORR_OP_RECV, 0, 0, same, "send(d):3 input\n");
}

static void bytes(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8, 12);
    TRY_OP(&t, ALL_GATHER, TRY_ARGS(.members = MEMBERS), x);
    try_work(&t, 0, 192, 768);
    TRY_OP(&t, SHARD, TRY_ARGS(.members = MEMBERS), x);
    try_work(&t, 0, 48, 48);
    TRY_OP(&t, REPLICATE, TRY_ARGS(.members = MEMBERS), x);
    try_work(&t, 0, 0, 0);
    assert_int_equal(t.tape.values[t.out[0]].view_of, x);
    const orr_op_args args = {.members = 2};
    assert_int_equal(orr_tape_call_op(&t.tape, ORR_OP_BARRIER, &args, NULL, 0, "", t.out, &t.err),
                     ORR_OK);
    try_work(&t, 0, 0, 0);
    try_end(&t);
}

/* Megatron's pair: replicate into the column-parallel product, all-reduce after the row-parallel
 * one; one all-reduce forward and one backward (arXiv 1909.08053, figure 3). */
static void tensor_parallel_mlp(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_op_args tp = {.axis = 0, .members = 4};
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 8, 16),
                    a = NAMED(&t, PARAMETER, BF16, "a", 16, 16);
    const orr_value b = NAMED(&t, PARAMETER, BF16, "b", 16, 16);
    TRY_OP(&t, REPLICATE, &tp, x);
    TRY_OP(&t, MATMUL, NULL, t.out[0], a);
    TRY_OP(&t, GELU, NULL, t.out[0]);
    TRY_OP(&t, MATMUL, NULL, t.out[0], b);
    TRY_OP(&t, ALL_REDUCE, &tp, t.out[0]);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 0,
            "replicate(x):3\nmatmul(3, a):4\ngelu(4):5\nmatmul(5, b):6\nall_reduce(6):7\n"
            "matmul(d, b'):9 input\nmatmul(5', d):10 weight\n"
            "activation_backward(9, 4):11 input\n"
            "matmul(11, a'):12 input\nmatmul(3', 11):13 weight\n"
            "all_reduce(12):14 input\n");
    assert_true(orr_tape_is_saved(&t.tape, x)); /* of which 3 is a view */
    assert_false(orr_tape_is_saved(&t.tape, 3));
    assert_false(orr_tape_is_saved(&t.tape, 6));
    try_end(&t);
}

/* With the sequence sharded: all-gather and reduce-scatter (arXiv 2205.05198, figure 5). */
static void sequence_parallel_mlp(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_op_args tp = {.axis = 0, .members = 4, .dim = 0};
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 2, 16),
                    a = NAMED(&t, PARAMETER, BF16, "a", 16, 16);
    TRY_OP(&t, ALL_GATHER, &tp, x);
    TRY_OP(&t, MATMUL, NULL, t.out[0], a);
    TRY_OP(&t, REDUCE_SCATTER, &tp, t.out[0]);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 3,
            "all_gather(d):6 input\nmatmul(6, a'):7 input\nmatmul(2', 6):8 weight\n"
            "reduce_scatter(7):9 input\n");
    try_end(&t);
}

static void what_does_not_fit_is_named(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = TRY_VALUE(&t, INPUT, BF16, 8, 12);
    TRY_FAIL(&t, ALL_REDUCE, NULL, "all_reduce: x (8, 12): a group of no members", x);
    TRY_FAIL(&t, REDUCE_SCATTER, TRY_ARGS(.members = 5),
             "reduce_scatter: x (8, 12): 8 does not divide among 5 members", x);
    TRY_FAIL(&t, ALL_GATHER, TRY_ARGS(.members = 5, .dim = 2),
             "all_gather: x (8, 12): there is no dim 2", x);
    TRY_FAIL(&t, ALL_TO_ALL, TRY_ARGS(.members = 5),
             "all_to_all: x (8, 12): 8 does not divide among 5 members", x);
    const orr_value large = TRY_VALUE(&t, INPUT, INT8, INT64_MAX);
    TRY_FAIL(&t, ALL_GATHER, TRY_ARGS(.members = 2),
             "all_gather: x (9223372036854775807): the gathered dim does not fit 63 bits", large);
    try_end(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes_and_gradients),       cmocka_unit_test(bytes),
        cmocka_unit_test(tensor_parallel_mlp),        cmocka_unit_test(sequence_parallel_mlp),
        cmocka_unit_test(what_does_not_fit_is_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
