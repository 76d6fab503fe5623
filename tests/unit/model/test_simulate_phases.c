/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
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
    assert_int_equal(p.waited_ns[ORR_AXIS_TP], 400);
}

/* A transfer that takes a sixth of the multiprocessors slows the other sequence by 1.2. */
static void forwarding_takes_multiprocessors(void **state)
{
    (void)state;
    orr_call_cost sends[] = {COMPUTE(10), INLINE(ORR_AXIS_EP, 60), COMPUTE(10)};
    const orr_call_cost computes[] = {COMPUTE(100)};
    const orr_phase_cost a = {.tasks = sends, .n = 3}, b = {.tasks = computes, .n = 1};
    const orr_phase_cost *const first[] = {&a}, *const second[] = {&b};
    const orr_phase_sequence both[] = {{first, 1}, {second, 1}};
    orr_phase_simulation played;
    sends[1].busy_sms_frac = 1.0 / 6;
    static const struct {
        double slowdown;
        int64_t span_ns;
    } CASES[] = {{1, 130}, {1.1, 130}, {1.5, 140}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        orr_simulate_phases(both, 2, CASES[i].slowdown, NULL, NULL, &played);
        assert_int_equal(played.span_ns, CASES[i].span_ns);
    }
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

/* A transfer that a sequence overlaps with little of its own ends its turn as well. */
static void a_turn_ends_where_a_sequence_waits(void **state)
{
    (void)state;
    const orr_call_cost tasks[] = {COMPUTE(50), BESIDE(ORR_AXIS_EP, 50, 3), COMPUTE(10),
                                   COMPUTE(50), BESIDE(ORR_AXIS_EP, 50, 5), COMPUTE(50)};
    const orr_phase_cost phase = {.tasks = tasks, .n = 6};
    const orr_phase_cost *const phases[] = {&phase};
    const orr_phase_sequence both[] = {{phases, 1}, {phases, 1}};
    orr_phase_simulation played;
    assert_int_equal(play(tasks, 6, 1).span_ns, 250);
    orr_simulate_phases(both, 2, 1, NULL, NULL, &played);
    assert_int_equal(played.span_ns, 320); /* all computation of both */
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
    assert_string_equal(l.text, "abABcC");
}

enum { RANDOM_TASKS = 8 };

static uint32_t random_tasks(orr_random *random, orr_call_cost *ret)
{
    const uint32_t n = 2 + (uint32_t)orr_random_below(random, RANDOM_TASKS - 1);
    for (uint32_t i = 0; i < n; i++) {
        const bool moves = orr_random_below(random, 2) == 0;
        ret[i] = (orr_call_cost){.axis = moves ? (uint8_t)orr_random_below(random, 3)
                                               : (uint8_t)ORR_AXIS_NONE,
                                 .ns = (int64_t)orr_random_below(random, 100),
                                 .flops = moves ? 0 : (double)orr_random_below(random, 100),
                                 .beside = moves && orr_random_below(random, 3) == 0,
                                 .joins = i + 1 + (uint32_t)orr_random_below(random, 4)};
    }
    return n;
}

static int64_t pair_ns(const orr_call_cost tasks[2][RANDOM_TASKS], const uint32_t n[2])
{
    orr_phase_cost phase[2];
    const orr_phase_cost *phases[2];
    orr_phase_sequence both[2];
    orr_phase_simulation played;
    for (int i = 0; i < 2; i++) {
        phase[i] = (orr_phase_cost){.tasks = tasks[i], .n = n[i]};
        phases[i] = &phase[i];
        both[i] = (orr_phase_sequence){&phases[i], 1};
    }
    orr_simulate_phases(both, 2, 1.25, NULL, NULL, &played);
    return played.span_ns;
}

/* A task that takes less time never prolongs a pair. */
static void what_is_faster_delays_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 20000; seed++) {
        orr_random random = orr_random_of(seed, 3);
        orr_call_cost tasks[2][RANDOM_TASKS];
        const uint32_t n[2] = {random_tasks(&random, tasks[0]), random_tasks(&random, tasks[1])};
        const int64_t before_ns = pair_ns(tasks, n);
        const int of = (int)orr_random_below(&random, 2);
        tasks[of][orr_random_below(&random, n[of])].ns /= 1 + (int64_t)orr_random_below(&random, 3);
        if (pair_ns(tasks, n) > before_ns)
            fail_msg("seed %llu: %lld ns, then %lld", (unsigned long long)seed,
                     (long long)before_ns, (long long)pair_ns(tasks, n));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_in_line_adds_up),
        cmocka_unit_test(what_is_beside_hides),
        cmocka_unit_test(a_stream_is_in_order),
        cmocka_unit_test(sharing_slows),
        cmocka_unit_test(forwarding_takes_multiprocessors),
        cmocka_unit_test(a_turn_ends_where_a_sequence_waits),
        cmocka_unit_test(two_sequences_hide_each_other),
        cmocka_unit_test(what_is_faster_delays_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
