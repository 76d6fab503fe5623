/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "measure/simulate_ranks.h"

/* Two ranks: x -> add -> all-reduce beside -> add of something else -> add of the sum. */
typedef struct rank {
    orr_tape tape;
    orr_program_call calls[4];
    int64_t ns[4], end_ns[4];
} rank;

static orr_value add(rank *r, orr_value a, orr_value b)
{
    orr_value out[ORR_CALL_OUT];
    assert_int_equal(
        orr_tape_call_op(&r->tape, ORR_OP_ADD, NULL, (orr_value[]){a, b}, 2, "", out, NULL),
        ORR_OK);
    return out[0];
}

static void write_rank(rank *r, orr_arena *arena, const int64_t ns[4], bool overlap)
{
    const orr_type type = {.dtype = ORR_DTYPE_FP32, .rank = 1, .dim = {8}};
    const orr_op_args args = {.axis = ORR_AXIS_DP, .members = 2, .overlap = overlap};
    orr_value x, sum[ORR_CALL_OUT];
    *r = (rank){.calls = {{.lane = 0}, {.lane = overlap}, {.lane = 0}, {.lane = 0}}};
    orr_tape_init(&r->tape, arena);
    assert_int_equal(orr_tape_value_new(&r->tape, ORR_VALUE_INPUT, &type, "", &x, NULL), ORR_OK);
    const orr_value y = add(r, x, x);
    assert_int_equal(orr_tape_call_op(&r->tape, ORR_OP_ALL_REDUCE, &args, &y, 1, "", sum, NULL),
                     ORR_OK);
    add(r, add(r, x, x), sum[0]);
    for (int i = 0; i < 4; i++)
        r->ns[i] = ns[i];
}

static int64_t play(const int64_t first[4], const int64_t second[4], bool overlap, bool shared)
{
    static const orr_plan asked = {.dp = 2};
    const orr_plan plan = orr_plan_with_defaults(&asked);
    orr_arena *arena = orr_arena_new(0, 0);
    rank ranks[2];
    orr_simulated_rank played[2];
    orr_error err;
    write_rank(&ranks[0], arena, first, overlap);
    write_rank(&ranks[1], arena, second, overlap);
    for (int i = 0; i < 2; i++)
        played[i] =
            (orr_simulated_rank){.source = {.tape = &ranks[i].tape, .calls = ranks[i].calls},
                                 .ns = ranks[i].ns,
                                 .end_ns = ranks[i].end_ns};
    if (orr_simulate_ranks(&plan, played, 2, shared, arena, &err) != ORR_OK)
        fail_msg("%s", err.text);
    const int64_t span =
        played[0].span_ns > played[1].span_ns ? played[0].span_ns : played[1].span_ns;
    orr_arena_free(arena);
    return span;
}

static void calls_follow_one_another(void **state)
{
    (void)state;
    const int64_t ns[] = {100, 50, 30, 7};
    assert_int_equal(play(ns, ns, false, false), 187);
}

static void transfers_go_beside(void **state)
{
    (void)state;
    const int64_t ns[] = {100, 50, 30, 7};
    assert_int_equal(play(ns, ns, true, false), 157);
    assert_int_equal(play(ns, ns, true, true), 187); /* where a core is shared they do not */
}

/* All wait for the last. */
static void a_meeting_begins_when_all_are_there(void **state)
{
    (void)state;
    const int64_t fast[] = {100, 50, 30, 7}, slow[] = {300, 50, 30, 7};
    assert_int_equal(play(fast, slow, false, false), 387);
    assert_int_equal(play(slow, fast, true, false), 357);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_follow_one_another),
        cmocka_unit_test(transfers_go_beside),
        cmocka_unit_test(a_meeting_begins_when_all_are_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
