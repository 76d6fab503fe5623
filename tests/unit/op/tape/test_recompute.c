/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "../block.h"

static bool drops_all(void *ctx, const orr_tape *tape, orr_value value)
{
    (void)ctx;
    assert_int_equal(tape->values[value].role, ORR_VALUE_ACTIVATION);
    assert_int_equal(tape->values[value].view_of, ORR_NONE);
    return true;
}

static bool drops_named(void *ctx, const orr_tape *tape, orr_value value)
{
    const char *const *names = ctx;
    for (; *names != NULL; names++)
        if (strcmp(tape->values[value].name, *names) == 0)
            return true;
    return false;
}

/* No call after the forward pass reads what was dropped, every value stands after its maker, and
 * made_by is right. */
static void check(const orr_tape *tape, const orr_recompute_policy *keep)
{
    for (uint32_t c = 0; c < tape->n_calls; c++) {
        const orr_tape_call *call = &tape->calls[c];
        assert_int_equal(call->again, call->pass == ORR_PASS_RECOMPUTE);
        for (uint32_t k = 0; k < call->n_in; k++) {
            orr_value v = call->in[k];
            const uint32_t maker = tape->values[v].made_by;
            assert_true(maker == ORR_NONE || maker < c);
            if (tape->values[v].view_of != ORR_NONE)
                v = tape->values[v].view_of;
            const uint32_t root_maker = tape->values[v].made_by;
            if (call->pass != ORR_PASS_FORWARD && root_maker != ORR_NONE &&
                tape->calls[root_maker].pass == ORR_PASS_FORWARD)
                assert_false(keep->drops(keep->ctx, tape, v));
        }
        for (uint32_t k = 0; k < call->n_out; k++)
            assert_int_equal(tape->values[call->out[k]].made_by, c);
    }
}

static void open_block(try_op *t, block *b, orr_value *dx)
{
    try_begin(t);
    if (block_forward(&t->tape, b, &t->err) != ORR_OK ||
        block_backward(&t->tape, b, dx, &t->err) != ORR_OK)
        fail_msg("%s", t->err.text);
}

static void from_the_input_of_the_layer(void **state)
{
    (void)state;
    try_op t;
    block b;
    orr_value dx;
    open_block(&t, &b, &dx);
    const uint32_t forward = 10, before = t.tape.n_calls;
    const orr_recompute_policy keep = {.drops = drops_all};
    assert_int_equal(orr_tape_recompute(&t.tape, &keep, &t.err), ORR_OK);
    check(&t.tape, &keep);
    /* All of the forward pass again but the output product and the residual, which no one reads. */
    assert_int_equal(t.tape.n_calls, before + forward - 2);
    uint32_t kept = 0;
    for (orr_value v = 0; v < t.tape.n_values; v++) {
        kept += orr_tape_is_saved(&t.tape, v);
        if (t.tape.values[v].kept)
            assert_true(t.tape.values[v].made_by == ORR_NONE);
    }
    assert_int_equal(kept, 4); /* x and three parameters */
    assert_true(orr_tape_is_saved(&t.tape, b.x));
    assert_int_equal(t.tape.calls[t.tape.n_calls - 1].in[0], b.seed);
    assert_int_equal(t.tape.calls[t.tape.n_calls - 1].out[0], dx);
    /* The first backward call reads the weight and the gradient: it goes first. */
    assert_int_equal(t.tape.calls[forward].pass, ORR_PASS_INPUT);
    assert_int_equal(t.tape.calls[forward + 1].pass, ORR_PASS_RECOMPUTE);
    try_end(&t);
}

static void the_core_of_attention(void **state)
{
    (void)state;
    try_op t;
    block b;
    orr_value dx;
    open_block(&t, &b, &dx);
    const char *const names[] = {"a", "lse", NULL};
    const orr_recompute_policy keep = {.drops = drops_named, .ctx = (void *)names};
    for (orr_value v = b.seed + 1; v < t.tape.n_values; v++)
        t.tape.values[v].name = "";
    assert_int_equal(orr_tape_recompute(&t.tape, &keep, &t.err), ORR_OK);
    check(&t.tape, &keep);
    const orr_value a = t.tape.n_values - 3, lse = a + 1, flat = a + 2;
    assert_int_equal(t.tape.values[a].of, b.context);
    assert_int_equal(t.tape.values[lse].of, b.lse);
    assert_int_equal(t.tape.values[flat].of, b.flat);
    assert_int_equal(t.tape.values[flat].view_of, a); /* a view of what is there again */
    t.tape.values[a].name = "a2", t.tape.values[lse].name = "lse2",
    t.tape.values[flat].name = "flat2";
    TAPE_IS(
        &t, 10,
        "matmul(dy, wo'):19 input\n"
        "attention(rq, rk, v):a2,lse2 again\nview(a2):flat2 again\n"
        "view(flat2):20 weight\nview(dy):21 weight\nmatmul(20', 21):22 weight\n"
        "view(19):23 input\n"
        "attention_backward(23, rq, rk, v, a2, lse2):24,25,26 input\n"
        "rotary(25):27 input\nrotary(24):28 input\n"
        "concat(28, 27, 26):29 input\nview(29):30 input\n"
        "matmul(30, wqkv'):31 input\nview(n):32 weight\nview(30):33 weight\nmatmul(32', 33):34 weight\n"
        "rms_norm_backward(31, x, r, norm):35,36 input\n"
        "add(dy, 35):37 input\n");
    assert_false(orr_tape_is_saved(&t.tape, b.context));
    assert_false(orr_tape_is_saved(&t.tape, b.lse));
    assert_false(orr_tape_is_saved(&t.tape, a));
    assert_true(orr_tape_is_saved(&t.tape, b.rq));
    assert_true(orr_tape_is_saved(&t.tape, b.qkv)); /* v is a part of it */
    assert_true(t.tape.values[20].view_of == a || t.tape.values[20].view_of == b.context);
    try_end(&t);
}

static void what_is_dropped_together_is_computed_once(void **state)
{
    (void)state;
    try_op t;
    block b;
    orr_value dx;
    open_block(&t, &b, &dx);
    const char *const names[] = {"n", "qkv", "rq", "rk", NULL};
    const orr_recompute_policy keep = {.drops = drops_named, .ctx = (void *)names};
    assert_int_equal(orr_tape_recompute(&t.tape, &keep, &t.err), ORR_OK);
    check(&t.tape, &keep);
    uint32_t again[ORR_OPS] = {0};
    for (uint32_t c = 0; c < t.tape.n_calls; c++)
        again[t.tape.calls[c].op] += t.tape.calls[c].again;
    assert_int_equal(again[ORR_OP_RMS_NORM], 1);
    assert_int_equal(again[ORR_OP_MATMUL], 1);
    assert_int_equal(again[ORR_OP_SPLIT], 1);
    assert_int_equal(again[ORR_OP_ROTARY], 2);
    assert_int_equal(again[ORR_OP_ATTENTION], 0);
    assert_true(orr_tape_is_saved(&t.tape, b.r)); /* the copy's r is not read: the kept one is */
    try_end(&t);
}

static void nothing_is_dropped(void **state)
{
    (void)state;
    try_op t;
    block b;
    orr_value dx;
    open_block(&t, &b, &dx);
    const uint32_t calls = t.tape.n_calls, values = t.tape.n_values;
    const char *const names[] = {NULL};
    const orr_recompute_policy keep = {.drops = drops_named, .ctx = (void *)names};
    assert_int_equal(orr_tape_recompute(&t.tape, &keep, &t.err), ORR_OK);
    check(&t.tape, &keep);
    assert_int_equal(t.tape.n_calls, calls);
    assert_int_equal(t.tape.n_values, values);
    assert_true(orr_tape_is_saved(&t.tape, b.normed));
    try_end(&t);
}

/* Weight gradients read views, made in the backward pass, of what is there again. */
static void views_of_what_is_there_again(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    enum { LAYERS = 40 };
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 2, 3, 8);
    t.out[0] = x;
    for (int i = 0; i < LAYERS; i++) {
        const orr_value w = TRY_VALUE(&t, PARAMETER, BF16, 8, 8);
        TRY_OP(&t, MATMUL, NULL, t.out[0], w);
        TRY_OP(&t, SILU, NULL, t.out[0]);
    }
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    const uint32_t before = t.tape.n_calls;
    const orr_recompute_policy keep = {.drops = drops_all};
    assert_int_equal(orr_tape_recompute(&t.tape, &keep, &t.err), ORR_OK);
    check(&t.tape, &keep);
    assert_int_equal(t.tape.n_calls, before + 2 * LAYERS - 1);
    for (uint32_t c = 0; c < t.tape.n_calls; c++) {
        const orr_tape_call *call = &t.tape.calls[c];
        if (call->op == ORR_OP_VIEW)
            assert_int_equal(t.tape.values[call->out[0]].view_of, call->in[0]);
    }
    try_end(&t);
}

/* Communication is repeated like computation. */
static void collectives_too(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_op_args tp = {.members = 2};
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 4, 8),
                    w = NAMED(&t, PARAMETER, BF16, "w", 8, 8);
    TRY_OP(&t, ALL_GATHER, &tp, x);
    name_value(&t, t.out[0], "all");
    TRY_OP(&t, MATMUL, NULL, t.out[0], w);
    TRY_OP(&t, REDUCE_SCATTER, &tp, t.out[0]);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    const char *const names[] = {"all", NULL};
    const orr_recompute_policy keep = {.drops = drops_named, .ctx = (void *)names};
    assert_int_equal(orr_tape_recompute(&t.tape, &keep, &t.err), ORR_OK);
    check(&t.tape, &keep);
    TAPE_IS(&t, 3,
            "all_gather(d):6 input\nmatmul(6, w'):7 input\nall_gather(x):all again\n"
            "matmul(all', 6):8 weight\nreduce_scatter(7):9 input\n");
    try_end(&t);
}

/* Chains as long as tapes need no deep stack. */
static void long_chains(void **state)
{
    (void)state;
    try_op t;
    try_begin(&t);
    const orr_value x = NAMED(&t, INPUT, BF16, "x", 8);
    t.out[0] = x;
    enum { LENGTH = 100000 };
    for (int i = 0; i < LENGTH; i++)
        TRY_OP(&t, SILU, NULL, t.out[0]);
    orr_value dx;
    try_backward(&t, t.out[0], &x, 1, &dx);
    const orr_recompute_policy keep = {.drops = drops_all};
    assert_int_equal(orr_tape_recompute(&t.tape, &keep, &t.err), ORR_OK);
    assert_int_equal(t.tape.n_calls, 3 * LENGTH - 1);
    check(&t.tape, &keep);
    try_end(&t);
}

static void out_of_memory_is_survived(void **state)
{
    (void)state;
    const orr_recompute_policy keep = {.drops = drops_all};
    for (uint64_t i = 1; i > 0; i++) {
        orr_arena *arena = orr_arena_new(512, 0);
        assert_non_null(arena);
        orr_tape tape;
        orr_tape_init(&tape, arena);
        orr_error err;
        block b;
        orr_value dx;
        assert_int_equal(block_forward(&tape, &b, &err), ORR_OK);
        assert_int_equal(block_backward(&tape, &b, &dx, &err), ORR_OK);
        const uint32_t calls = tape.n_calls, values = tape.n_values;
        orr_alloc_fail_from(i);
        const orr_status status = orr_tape_recompute(&tape, &keep, &err);
        const bool over = orr_alloc_count() < i;
        orr_alloc_fail_from(0);
        assert_true(over ? status == ORR_OK : status == ORR_NO_MEMORY);
        if (!over) { /* the tape is as it was */
            assert_int_equal(tape.n_calls, calls);
            assert_int_equal(tape.n_values, values);
            for (uint32_t c = 0; c < calls; c++)
                for (uint32_t k = 0; k < tape.calls[c].n_out; k++)
                    assert_int_equal(tape.values[tape.calls[c].out[k]].made_by, c);
            assert_true(orr_tape_is_saved(&tape, b.normed));
        }
        orr_arena_free(arena);
        if (over)
            break;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(from_the_input_of_the_layer),
        cmocka_unit_test(the_core_of_attention),
        cmocka_unit_test(what_is_dropped_together_is_computed_once),
        cmocka_unit_test(nothing_is_dropped),
        cmocka_unit_test(views_of_what_is_there_again),
        cmocka_unit_test(collectives_too),
        cmocka_unit_test(long_chains),
        cmocka_unit_test(out_of_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
