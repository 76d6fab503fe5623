/* SPDX-License-Identifier: Apache-2.0 */
#include "../small_tape.h"

#include "base/alloc.h"
#include "op/tape/live_ranges.h"

/* x -w-> y -relu-> z; backward: dz -> dy -> dx and dw. */
typedef struct products {
    small_tape s;
    orr_value x, w, y, z, dz, dy, dx, dw;
} products;

static void make(products *p)
{
    small_init(&p->s);
    p->x = small_value(&p->s, ORR_VALUE_INPUT, 1);
    p->w = small_value(&p->s, ORR_VALUE_PARAMETER, 2);
    p->y = small_value(&p->s, ORR_VALUE_ACTIVATION, 4);
    p->z = small_value(&p->s, ORR_VALUE_ACTIVATION, 8);
    p->dz = small_value(&p->s, ORR_VALUE_GRADIENT, 16);
    p->dy = small_value(&p->s, ORR_VALUE_GRADIENT, 32);
    p->dw = small_value(&p->s, ORR_VALUE_PARAMETER_GRADIENT, 64);
    p->dx = small_value(&p->s, ORR_VALUE_GRADIENT, 128);
    small_call(&p->s, ORR_OP_MATMUL, ORR_PASS_FORWARD, p->x, p->w, ORR_NONE, p->y);
    small_call(&p->s, ORR_OP_RELU, ORR_PASS_FORWARD, p->y, ORR_NONE, ORR_NONE, p->z);
    small_call(&p->s, ORR_OP_ACTIVATION_BACKWARD, ORR_PASS_INPUT, p->y, p->dz, ORR_NONE, p->dy);
    small_call(&p->s, ORR_OP_MATMUL, ORR_PASS_WEIGHT, p->x, p->dy, ORR_NONE, p->dw);
    small_call(&p->s, ORR_OP_MATMUL, ORR_PASS_INPUT, p->dy, p->w, ORR_NONE, p->dx);
}

static void assert_life(const orr_tape_liveness *lives, orr_value v, uint32_t first, uint32_t last)
{
    assert_int_not_equal(lives->row_of[v], ORR_NONE);
    const orr_tape_live_range *l = &lives->lives[lives->row_of[v]];
    assert_int_equal(l->life.first, first);
    assert_int_equal(l->life.last, last);
}

static void lives_go_from_maker_to_last_reader(void **state)
{
    (void)state;
    products p;
    orr_tape_liveness lives;
    orr_arena *arena = orr_arena_new(0, 0);
    make(&p);
    assert_int_equal(orr_tape_liveness_of(&p.s.tape, false, arena, &lives, NULL), ORR_OK);
    assert_int_equal(lives.n_steps, 5);
    assert_int_equal(lives.forward_end, 2);
    assert_int_equal(lives.input_end, 5);
    assert_life(&lives, p.x, 0, 3);
    assert_life(&lives, p.y, 0, 2);
    assert_life(&lives, p.z, 1, 1);  /* no one reads it here */
    assert_life(&lives, p.dz, 2, 2); /* given to the backward pass */
    assert_life(&lives, p.dy, 2, 4);
    assert_life(&lives, p.dx, 4, 4);
    assert_true(lives.lives[lives.row_of[p.x]].given);
    assert_false(lives.lives[lives.row_of[p.y]].given);
    assert_int_equal(lives.lives[lives.row_of[p.dw]].life.bytes, 64);
    orr_arena_free(arena);
}

static void weight_gradients_apart_run_last(void **state)
{
    (void)state;
    products p;
    orr_tape_liveness lives;
    orr_arena *arena = orr_arena_new(0, 0);
    make(&p);
    assert_int_equal(orr_tape_liveness_of(&p.s.tape, true, arena, &lives, NULL), ORR_OK);
    assert_int_equal(lives.forward_end, 2);
    assert_int_equal(lives.input_end, 4);
    assert_life(&lives, p.x, 0, 4);
    assert_life(&lives, p.dx, 3, 3);
    assert_life(&lives, p.dy, 2, 4);
    assert_life(&lives, p.dw, 4, 4);
    orr_arena_free(arena);
}

static void views_live_in_what_they_view(void **state)
{
    (void)state;
    small_tape s;
    orr_tape_liveness lives;
    orr_arena *arena = orr_arena_new(0, 0);
    small_init(&s);
    const orr_value x = small_value(&s, ORR_VALUE_INPUT, 8),
                    y = small_value(&s, ORR_VALUE_ACTIVATION, 8),
                    view = small_value(&s, ORR_VALUE_ACTIVATION, 8),
                    z = small_value(&s, ORR_VALUE_ACTIVATION, 8),
                    unread = small_value(&s, ORR_VALUE_ACTIVATION, 8);
    s.values[view].view_of = y;
    small_call(&s, ORR_OP_RELU, ORR_PASS_FORWARD, x, ORR_NONE, ORR_NONE, y);
    small_call(&s, ORR_OP_VIEW, ORR_PASS_FORWARD, y, ORR_NONE, ORR_NONE, view);
    small_call(&s, ORR_OP_RELU, ORR_PASS_FORWARD, view, ORR_NONE, ORR_NONE, z);
    assert_int_equal(orr_tape_liveness_of(&s.tape, false, arena, &lives, NULL), ORR_OK);
    assert_int_equal(lives.n, 3);
    assert_int_equal(lives.row_of[view], lives.row_of[y]);
    assert_life(&lives, view, 0, 2);
    assert_int_equal(lives.row_of[unread], ORR_NONE);
    orr_arena_free(arena);
}

/* qkv is split into views; only v goes on as it is, and the backward pass reads no more of qkv. */
static void a_slice_that_is_wanted_alone_is_copied(void **state)
{
    (void)state;
    small_tape s;
    orr_tape_liveness lives;
    orr_arena *arena = orr_arena_new(0, 0);
    small_init(&s);
    const orr_value x = small_value(&s, ORR_VALUE_INPUT, 8),
                    qkv = small_value(&s, ORR_VALUE_ACTIVATION, 12),
                    q = small_value(&s, ORR_VALUE_ACTIVATION, 8),
                    v = small_value(&s, ORR_VALUE_ACTIVATION, 4),
                    heads = small_value(&s, ORR_VALUE_ACTIVATION, 4),
                    turned = small_value(&s, ORR_VALUE_ACTIVATION, 8),
                    y = small_value(&s, ORR_VALUE_ACTIVATION, 8),
                    dx = small_value(&s, ORR_VALUE_GRADIENT, 8);
    s.values[q].view_of = s.values[v].view_of = s.values[heads].view_of = qkv;
    small_call(&s, ORR_OP_MATMUL, ORR_PASS_FORWARD, x, ORR_NONE, ORR_NONE, qkv);
    small_call(&s, ORR_OP_SLICE, ORR_PASS_FORWARD, qkv, ORR_NONE, ORR_NONE, q);
    small_call(&s, ORR_OP_SLICE, ORR_PASS_FORWARD, qkv, ORR_NONE, ORR_NONE, v);
    small_call(&s, ORR_OP_VIEW, ORR_PASS_FORWARD, v, ORR_NONE, ORR_NONE, heads);
    small_call(&s, ORR_OP_ROTARY, ORR_PASS_FORWARD, q, ORR_NONE, ORR_NONE, turned);
    small_call(&s, ORR_OP_ATTENTION, ORR_PASS_FORWARD, turned, heads, ORR_NONE, y);
    small_call(&s, ORR_OP_ATTENTION_BACKWARD, ORR_PASS_INPUT, turned, heads, y, dx);
    assert_int_equal(orr_tape_liveness_of(&s.tape, false, arena, &lives, NULL), ORR_OK);
    assert_life(&lives, qkv, 0, 2);
    assert_life(&lives, q, 1, 4);
    assert_life(&lives, v, 2, 6);
    assert_int_equal(lives.row_of[heads], lives.row_of[v]);
    assert_int_equal(lives.lives[lives.row_of[v]].life.bytes, 4);
    /* Where the whole is read too, they stay views of it. */
    s.calls[6].in[2] = qkv;
    assert_int_equal(orr_tape_liveness_of(&s.tape, false, arena, &lives, NULL), ORR_OK);
    assert_life(&lives, qkv, 0, 6);
    assert_int_equal(lives.row_of[heads], lives.row_of[qkv]);
    assert_int_equal(lives.row_of[q], lives.row_of[qkv]);
    orr_arena_free(arena);
}

static void what_weights_alone_make_is_derived(void **state)
{
    (void)state;
    small_tape s;
    orr_tape_liveness lives;
    orr_arena *arena = orr_arena_new(0, 0);
    small_init(&s);
    const orr_value x = small_value(&s, ORR_VALUE_INPUT, 8),
                    w = small_value(&s, ORR_VALUE_PARAMETER, 8),
                    w8 = small_value(&s, ORR_VALUE_ACTIVATION, 4),
                    y = small_value(&s, ORR_VALUE_ACTIVATION, 8);
    small_call(&s, ORR_OP_QUANTIZE, ORR_PASS_FORWARD, w, ORR_NONE, ORR_NONE, w8);
    small_call(&s, ORR_OP_MATMUL, ORR_PASS_FORWARD, x, w8, ORR_NONE, y);
    assert_int_equal(orr_tape_liveness_of(&s.tape, false, arena, &lives, NULL), ORR_OK);
    assert_true(lives.lives[lives.row_of[w8]].derived);
    assert_false(lives.lives[lives.row_of[y]].derived);
    assert_false(lives.lives[lives.row_of[w]].derived);
    orr_arena_free(arena);
}

static void tensors_too_large_and_failing_allocations_are_told(void **state)
{
    (void)state;
    products p;
    orr_tape_liveness lives;
    orr_error err;
    orr_arena *arena = orr_arena_new(0, 0), *small = orr_arena_new(0, 1);
    make(&p);
    assert_int_equal(orr_tape_liveness_of(&p.s.tape, false, small, &lives, NULL), ORR_NO_MEMORY);
    orr_alloc_fail_from(1);
    const orr_status status = orr_tape_liveness_of(&p.s.tape, false, small, &lives, NULL);
    orr_alloc_fail_from(0);
    assert_int_equal(status, ORR_NO_MEMORY);
    p.s.values[p.y].type =
        (orr_type){.dtype = ORR_DTYPE_FP32, .rank = 2, .dim = {1L << 40, 1L << 40}};
    assert_int_equal(orr_tape_liveness_of(&p.s.tape, false, arena, &lives, &err), ORR_INVALID);
    orr_arena_free(small);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives_go_from_maker_to_last_reader),
        cmocka_unit_test(weight_gradients_apart_run_last),
        cmocka_unit_test(views_live_in_what_they_view),
        cmocka_unit_test(a_slice_that_is_wanted_alone_is_copied),
        cmocka_unit_test(what_weights_alone_make_is_derived),
        cmocka_unit_test(tensors_too_large_and_failing_allocations_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
