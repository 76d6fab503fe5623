/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "../block.h"

static void two_layers(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 8, 16),
                    a = NAMED(&t, PARAMETER, BF16, "a", 16, 32);
    const orr_value ba = NAMED(&t, PARAMETER, BF16, "ba", 32),
                    b = NAMED(&t, PARAMETER, BF16, "b", 32, 4);
    TRY_OP(&t, MATMUL, NULL, x, a);
    TRY_OP(&t, BIAS, NULL, t.out[0], ba);
    TRY_OP(&t, RELU, NULL, t.out[0]);
    TRY_OP(&t, MATMUL, NULL, t.out[0], b);
    try_backward(&t, t.out[0], NULL, 0, NULL);
    /* Nobody asks for the gradient of x: it is not made, and all leads to those of parameters. */
    TAPE_IS(&t, 0,
            "matmul(x, a):4\nbias(4, ba):5\nrelu(5):6\nmatmul(6, b):7\n"
            "matmul(d, b'):9 weight\nmatmul(6', d):10 weight\n"
            "activation_backward(9, 6):11 weight\nsum(11):12 weight\nmatmul(x', 11):13 weight\n");
    assert_int_equal(try_gradient_of(&t, a), 13);
    assert_int_equal(try_gradient_of(&t, ba), 12);
    assert_int_equal(try_gradient_of(&t, b), 10);
    assert_int_equal(t.tape.values[9].of, 6);
    assert_int_equal(t.tape.values[9].role, ORR_VALUE_GRADIENT);
    assert_int_equal(t.tape.pass, ORR_PASS_FORWARD);
    try_end(&t);
}

static void an_attention_block(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    block b;
    orr_value dx;
    assert_int_equal(block_forward(&t.tape, &b, &t.err), ORR_OK);
    const uint32_t forward = t.tape.n_calls, first = t.tape.n_values + 1;
    assert_int_equal(block_backward(&t.tape, &b, &dx, &t.err), ORR_OK);
    for (orr_value v = first; v < t.tape.n_values; v++)
        t.tape.values[v].name = "";
    assert_int_equal(first, 19);
    TAPE_IS(
        &t, forward,
        "matmul(dy, wo'):19 input\nview(flat):20 weight\nview(dy):21 weight\nmatmul(20', 21):22 weight\n"
        "view(19):23 input\n"
        "attention_backward(23, rq, rk, v, a, lse):24,25,26 input\n"
        "rotary(25):27 input\nrotary(24):28 input\n"
        "concat(28, 27, 26):29 input\nview(29):30 input\n"
        "matmul(30, wqkv'):31 input\nview(n):32 weight\nview(30):33 weight\nmatmul(32', 33):34 weight\n"
        "rms_norm_backward(31, x, r, norm):35,36 input\n"
        "add(dy, 35):37 input\n");
    assert_int_equal(dx, 37);
    assert_int_equal(try_gradient_of(&t, b.wo), 22);
    assert_int_equal(try_gradient_of(&t, b.wqkv), 34);
    assert_int_equal(try_gradient_of(&t, b.norm), 36);
    const orr_value kept[] = {b.x, b.normed, b.r, b.qkv, b.rq, b.rk, b.context, b.lse};
    const orr_value gone[] = {b.q, b.k, b.v, b.flat, b.out, b.y};
    for (size_t k = 0; k < sizeof kept / sizeof *kept; k++)
        assert_true(orr_tape_is_saved(&t.tape, kept[k]));
    for (size_t k = 0; k < sizeof gone / sizeof *gone; k++)
        assert_false(orr_tape_is_saved(&t.tape, gone[k]));
    try_end(&t);
}

/* An adapter beside a frozen weight (LoRA): of that no gradient, nor of what comes before the first
 * adapter. */
static void adapters(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 8, 16),
                    w = NAMED(&t, PARAMETER, BF16, "w", 16, 16);
    const orr_value down = NAMED(&t, PARAMETER, BF16, "down", 16, 2),
                    up = NAMED(&t, PARAMETER, BF16, "up", 2, 16);
    t.tape.values[w].frozen = true;
    TRY_OP(&t, MATMUL, NULL, x, w);
    TRY_OP(&t, SILU, NULL, t.out[0]);
    const orr_value h = t.out[0];
    TRY_OP(&t, MATMUL, NULL, h, w);
    const orr_value y = t.out[0];
    TRY_OP(&t, MATMUL, NULL, h, down);
    TRY_OP(&t, MATMUL, NULL, t.out[0], up);
    TRY_OP(&t, ADD, NULL, y, t.out[0]);
    try_backward(&t, t.out[0], NULL, 0, NULL);
    TAPE_IS(&t, 6, "matmul(d, up'):11 weight\nmatmul(7', d):12 weight\nmatmul(5', 11):13 weight\n");
    assert_false(orr_tape_is_saved(&t.tape, x));
    try_end(&t);
}

static void gradients_of_what_is_used_twice_are_added(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value w = NAMED(&t, PARAMETER, FP32, "w", 8, 8),
                    x = NAMED(&t, INPUT, FP32, "x", 8, 8);
    TRY_OP(&t, MATMUL, NULL, x, w);
    TRY_OP(&t, MATMUL, NULL, t.out[0], w);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    TAPE_IS(&t, 2,
            "matmul(d, w'):5 input\nmatmul(2', d):6 weight\n"
            "matmul(5, w'):7 input\nmatmul(x', 5):8 weight\nadd(6, 8):9 weight\n");
    assert_int_equal(try_gradient_of(&t, w), 9);
    assert_int_equal(t.tape.values[6].role, ORR_VALUE_GRADIENT);
    try_end(&t);
}

/* What is given, or another's, is copied; and a gradient has the dtype of its parameter. */
static void parameters_have_gradients_of_their_own(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value a = NAMED(&t, PARAMETER, FP32, "a", 8), b = NAMED(&t, PARAMETER, FP32, "b", 8);
    const orr_value c = NAMED(&t, PARAMETER, BF16, "c", 8);
    TRY_OP(&t, ADD, NULL, a, b);
    TRY_OP(&t, ADD, NULL, t.out[0], c);
    TRY_OP(&t, SCALE, TRY_ARGS(.value = 2), t.out[0]);
    try_backward(&t, t.out[0], NULL, 0, NULL);
    TAPE_IS(&t, 3, "scale(d):7 weight\ncopy(7):8 weight\ncast(7):9 weight\n");
    assert_int_equal(try_gradient_of(&t, a), 7);
    assert_int_equal(try_gradient_of(&t, b), 8);
    assert_int_equal(try_gradient_of(&t, c), 9);
    try_end(&t);
    try_begin(&t);
    const orr_value w = NAMED(&t, PARAMETER, FP32, "w", 8), x = NAMED(&t, INPUT, FP32, "x", 8);
    TRY_OP(&t, ADD, NULL, w, x);
    try_backward(&t, t.out[0], NULL, 0, NULL);
    TAPE_IS(&t, 1, "copy(d):4 weight\n");
    try_end(&t);
}

static void nothing_flows_where_nothing_leads(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, FP32, "x", 8), y = NAMED(&t, INPUT, FP32, "y", 8);
    TRY_OP(&t, SCALE, NULL, x);
    const orr_value out = t.out[0];
    TRY_OP(&t, SCALE, NULL, y);
    orr_value wanted[2] = {x, y}, grads[2];
    try_backward(&t, out, wanted, 2, grads);
    assert_int_not_equal(grads[0], ORR_NONE);
    assert_int_equal(grads[1], ORR_NONE);
    assert_int_equal(t.tape.n_calls, 3);
    try_end(&t);
}

static void two_outputs_with_seeds(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, FP32, "x", 8);
    TRY_OP(&t, SCALE, NULL, x);
    const orr_value outputs[2] = {t.out[0], t.out[0]};
    const orr_value seeds[2] = {NAMED(&t, GRADIENT, FP32, "d1", 8),
                                NAMED(&t, GRADIENT, FP32, "d2", 8)};
    orr_value dx;
    assert_int_equal(orr_tape_gradient(&t.tape, outputs, seeds, 2, &x, 1, &dx, &t.err), ORR_OK);
    TAPE_IS(&t, 1, "add(d1, d2):4 input\nscale(4):5 input\n");
    try_end(&t);
}

static void an_operator_without_gradient_is_told(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value w = NAMED(&t, PARAMETER, FP32, "w", 8), x = NAMED(&t, INPUT, FP32, "x", 8);
    TRY_OP(&t, RELU, NULL, w);
    TRY_OP(&t, ACTIVATION_BACKWARD, TRY_ARGS(.op = ORR_OP_RELU), t.out[0], x);
    const orr_value out = t.out[0];
    TRY_OP(&t, SCALE, NULL, out);
    const orr_value scaled = t.out[0], seed = NAMED(&t, GRADIENT, FP32, "d", 8);
    const uint32_t calls = t.tape.n_calls, values = t.tape.n_values;
    assert_int_equal(orr_tape_gradient(&t.tape, &scaled, &seed, 1, NULL, 0, NULL, &t.err),
                     ORR_INVALID);
    assert_string_equal(t.err.text,
                        "activation_backward has no gradient, and one is asked of what it takes");
    assert_int_equal(t.tape.n_calls, calls); /* the tape is as it was */
    assert_int_equal(t.tape.n_values, values);
    assert_false(orr_tape_is_saved(&t.tape, out));
    assert_int_equal(t.tape.pass, ORR_PASS_FORWARD);
    try_end(&t);
}

static void out_of_memory_is_survived(void **state)
{
    (void)state;
    for (uint64_t i = 1; i > 0; i++) {
        orr_arena *arena = orr_arena_new(512, 0);
        assert_non_null(arena);
        orr_tape tape;
        orr_tape_init(&tape, arena);
        orr_error err;
        block b;
        orr_value dx;
        orr_alloc_fail_from(i);
        orr_status status = block_forward(&tape, &b, &err);
        if (status == ORR_OK)
            status = block_backward(&tape, &b, &dx, &err);
        const bool over = orr_alloc_count() < i;
        orr_alloc_fail_from(0);
        assert_true(over ? status == ORR_OK : status == ORR_NO_MEMORY);
        orr_arena_free(arena);
        if (over)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_layers),
        cmocka_unit_test(an_attention_block),
        cmocka_unit_test(adapters),
        cmocka_unit_test(gradients_of_what_is_used_twice_are_added),
        cmocka_unit_test(parameters_have_gradients_of_their_own),
        cmocka_unit_test(nothing_flows_where_nothing_leads),
        cmocka_unit_test(two_outputs_with_seeds),
        cmocka_unit_test(an_operator_without_gradient_is_told),
        cmocka_unit_test(out_of_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
