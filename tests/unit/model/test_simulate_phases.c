/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "model/step/module_cost.h"

#define COMPUTE(length)                                                                            \
    {                                                                                              \
        .axis = ORR_AXIS_NONE, .ns = (length)                                                      \
    }
#define INLINE(along, length)                                                                      \
    {                                                                                              \
        .axis = (along), .ns = (length)                                                            \
    }
#define BESIDE(along, length, by)                                                                  \
    {                                                                                              \
        .axis = (along), .ns = (length), .beside = true, .joins = (by)                             \
    }

static orr_phase_simulation play(const orr_call_cost *tasks, uint32_t n, double slowdown)
{
    const orr_phase_cost phase = {.tasks = tasks, .n = n};
    const orr_phase_cost *const phases[] = {&phase};
    const orr_phase_sequence sequence = {phases, 1};
    orr_phase_simulation played;
    orr_simulate_phases(&sequence, 1, slowdown, NULL, NULL, &played);
    return played;
}

static void what_is_in_line_adds_up(void **state)
{
    (void)state;
    const orr_call_cost tasks[] = {COMPUTE(100), INLINE(ORR_AXIS_TP, 30), COMPUTE(50),
                                   INLINE(ORR_AXIS_CP, 7)};
    const orr_phase_simulation p = play(tasks, 4, 1);
    assert_int_equal(p.span_ns, 187);
    assert_int_equal(p.waited_ns[ORR_AXIS_TP], 30);
    assert_int_equal(p.waited_ns[ORR_AXIS_CP], 7);
}

/* A transfer that is joined in time costs nothing; one that is not, what is left of it. */
static void what_is_beside_hides(void **state)
{
    (void)state;
    const orr_call_cost hidden[] = {BESIDE(ORR_AXIS_TP, 80, 2), COMPUTE(100), COMPUTE(10)};
    assert_int_equal(play(hidden, 3, 1).span_ns, 110);
    const orr_call_cost shown[] = {BESIDE(ORR_AXIS_TP, 130, 2), COMPUTE(100), COMPUTE(10)};
    const orr_phase_simulation p = play(shown, 3, 1);
    assert_int_equal(p.span_ns, 140);
    assert_int_equal(p.waited_ns[ORR_AXIS_TP], 30);
    const orr_call_cost at_end[] = {COMPUTE(10), BESIDE(ORR_AXIS_EP, 50, 3), COMPUTE(20)};
    assert_int_equal(play(at_end, 3, 1).span_ns, 60);
}

/* Transfers along one axis follow one another, those along two do not. */
static void a_stream_is_in_order(void **state)
{
    (void)state;
    const orr_call_cost one[] = {BESIDE(ORR_AXIS_TP, 40, 3), BESIDE(ORR_AXIS_TP, 40, 3),
                                 COMPUTE(10)};
    assert_int_equal(play(one, 3, 1).span_ns, 80);
    const orr_call_cost two[] = {BESIDE(ORR_AXIS_TP, 40, 3), BESIDE(ORR_AXIS_CP, 40, 3),
                                 COMPUTE(10)};
    assert_int_equal(play(two, 3, 1).span_ns, 40);
}

/* Computation is slower while something travels: 100 ns take 50 beside, and 60 of the other 50. */
static void sharing_slows(void **state)
{
    (void)state;
    const orr_call_cost tasks[] = {BESIDE(ORR_AXIS_TP, 60, 2), COMPUTE(100)};
    assert_int_equal(play(tasks, 2, 1.2).span_ns, 110);
    const orr_call_cost all[] = {BESIDE(ORR_AXIS_TP, 600, 2), COMPUTE(100), COMPUTE(1)};
    const orr_phase_simulation p = play(all, 3, 1.2);
    assert_int_equal(p.span_ns, 601);
    assert_int_equal(p.waited_ns[ORR_AXIS_TP], 480);
}

typedef struct log {
    char text[64];
} log;

static void note(void *ctx, uint32_t sequence, uint32_t phase, uint32_t task, int64_t ns)
{
    log *l = ctx;
    const size_t n = strlen(l->text);
    (void)phase;
    (void)ns;
    l->text[n] = (char)((sequence == 0 ? 'a' : 'A') + task);
    l->text[n + 1] = '\0';
}

/* Of two sequences the transfers of one go beside the computation of the other. */
static void two_sequences_hide_each_other(void **state)
{
    (void)state;
    const orr_call_cost tasks[] = {COMPUTE(100), INLINE(ORR_AXIS_EP, 100), COMPUTE(100)};
    const orr_phase_cost phase = {.tasks = tasks, .n = 3};
    const orr_phase_cost *const phases[] = {&phase};
    const orr_phase_sequence both[] = {{phases, 1}, {phases, 1}};
    orr_phase_simulation played;
    log l = {""};
    orr_simulate_phases(both, 2, 1, note, &l, &played);
    assert_int_equal(played.span_ns, 400);
    assert_int_equal(played.waited_ns[ORR_AXIS_EP], 0);
    assert_string_equal(l.text, "abAcBC");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_line_adds_up),       cmocka_unit_test(what_is_beside_hides),
        cmocka_unit_test(a_stream_is_in_order),          cmocka_unit_test(sharing_slows),
        cmocka_unit_test(two_sequences_hide_each_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
