/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "explore/questions/questions.h"

/* Bisections of functions whose answer is known in closed form: probes that nobody searched. */

typedef struct scene {
    orr_asking asking;
    orr_explore_options options;
    orr_inquiry inquiry;
    orr_error err;
    double (*value)(double at);
    int direction;
    double
        moves_to; /* above 0: where the limit is met, the number is this share of what was asked */
    double first_becomes; /* above 0: the value of probe 0, once a number below 60 is tried */
} scene;

static orr_status probe(void *ctx, double at)
{
    scene *s = ctx;
    const orr_trial trial = {.what = "", .at = at};
    orr_probe p = {.what = "", .at = at, .found = true, .complete = true, .note = ""};
    p.value = p.bound = s->value(at);
    orr_asking_judge(&s->asking, &p);
    if (s->first_becomes > 0 && at < 60)
        s->asking.probes.at[0].value = s->first_becomes;
    if (s->moves_to > 0 && p.verdict == ORR_VERDICT_MEETS)
        p.at = floor(at * s->moves_to);
    return orr_asking_add(&s->asking, &trial, &p);
}

static void open_scene(scene *s, double (*value)(double), double begin, double limit)
{
    memset(s, 0, sizeof *s);
    orr_explore_options_init(&s->options);
    s->inquiry.options = &s->options;
    s->asking = (orr_asking){.inquiry = &s->inquiry, .limit = limit, .err = &s->err};
    s->asking.arena = orr_arena_new(0, 0);
    assert_non_null(s->asking.arena);
    s->value = value;
    assert_int_equal(probe(s, begin), ORR_OK);
}

static orr_answer bisected(scene *s, orr_bisection b)
{
    orr_answer answer = {0};
    b.probe = probe;
    b.ctx = s;
    assert_int_equal(orr_bisect(&s->asking, &b, &answer), ORR_OK);
    return answer;
}

static void close_scene(scene *s)
{
    orr_asking_done(&s->asking);
    orr_arena_free(s->asking.arena);
}

static double inverse(double x)
{
    return 100 / x;
}
static double linear(double x)
{
    return 3 + x / 7;
}
static double constant(double x)
{
    (void)x;
    return 1;
}

static void test_the_bracket_holds_the_closed_form(void **state)
{
    (void)state;
    for (double limit = 1.5; limit < 90; limit *= 1.3) {
        scene s;
        open_scene(&s, inverse, 100, limit);
        const orr_answer a = bisected(
            &s, (orr_bisection){.direction = -1, .end = 1e-3, .stride = 4, .resolution = 0.05});
        const double good = a.probes[a.answer].at, bad = a.probes[a.beyond].at;
        assert_true(bad < 100 / limit && 100 / limit <= good);
        assert_true(good <= bad * 1.05);
        assert_int_equal(a.contradictions, 0);
        assert_true(a.n <= 16);
        close_scene(&s);
    }
}

/* As when a plan that a harder probe found is better on the first machine too. */
static void test_a_better_reference_lowers_the_limit(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, inverse, 100, INFINITY);
    s.asking.factor = 2;
    assert_true(orr_asking_tighten(&s.asking) && s.asking.limit == 2);
    s.first_becomes = 0.8;
    const orr_answer a = bisected(
        &s, (orr_bisection){.direction = -1, .end = 1e-3, .stride = 4, .resolution = 0.05});
    assert_true(a.limit == 1.6 && a.probes[0].value == 0.8);
    assert_true(a.probes[a.answer].at >= 62.5 && a.probes[a.beyond].at < 62.5);
    assert_true(a.probes[a.answer].at <= a.probes[a.beyond].at * 1.05);
    for (uint32_t i = 0; i < a.n; i++)
        assert_int_equal(a.probes[i].verdict == ORR_VERDICT_MEETS, a.probes[i].value <= a.limit);
    close_scene(&s);
}

static void test_larger_can_be_harder(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, linear, 0, 20);
    const orr_answer a = bisected(
        &s, (orr_bisection){
                .direction = 1, .end = 20000, .first = 10, .stride = 4, .resolution = 0.01});
    assert_true(a.probes[a.answer].at <= 119 && 119 < a.probes[a.beyond].at);
    assert_true(a.probes[a.beyond].at <= a.probes[a.answer].at * 1.01);
    close_scene(&s);
}

static void test_whole_numbers_are_found_exactly(void **state)
{
    (void)state;
    for (int least = 1; least < 100; least += 7) {
        scene s;
        open_scene(&s, inverse, 100, 100.0 / least);
        const orr_answer a =
            bisected(&s, (orr_bisection){.direction = -1, .end = 0, .stride = 4, .whole = 1});
        assert_true(a.probes[a.answer].at == least);
        assert_true(a.probes[a.beyond].at == least - 1);
        close_scene(&s);
    }
}

/* A plan may take fewer devices than it was allowed. */
static void test_a_probe_may_meet_with_less(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, inverse, 1000, 1);
    s.moves_to = 1;
    orr_answer a =
        bisected(&s, (orr_bisection){.direction = -1, .end = 1, .stride = 1.25, .whole = 8});
    assert_true(a.probes[a.answer].at - a.probes[a.beyond].at <= 8);
    assert_true(a.probes[a.answer].at >= 100 && a.probes[a.beyond].at < 100);
    close_scene(&s);
}

static void test_where_everything_is_enough_the_end_is_the_answer(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, constant, 64, 1);
    const orr_answer a =
        bisected(&s, (orr_bisection){.direction = -1, .end = 0.5, .stride = 4, .resolution = 0.05});
    assert_true(a.probes[a.answer].at == 0.5);
    assert_int_equal(a.beyond, ORR_NONE);
    close_scene(&s);
}

static void test_where_nothing_is_enough_there_is_no_answer(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, inverse, 1, 50);
    const orr_answer a =
        bisected(&s, (orr_bisection){.direction = -1, .end = 0.5, .stride = 4, .resolution = 0.05});
    assert_int_equal(a.answer, ORR_NONE);
    assert_int_equal(a.n, 1);
    close_scene(&s);
}

/* Enough again below 10: the number beyond the bracket shows it. */
static double with_an_island(double x)
{
    return x < 10 ? 1 : 100 / x;
}

static void test_probes_out_of_order_are_told(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, with_an_island, 100, 6);
    const orr_answer a =
        bisected(&s, (orr_bisection){.direction = -1, .end = 1, .stride = 2, .resolution = 0.05});
    assert_true(a.contradictions > 0);
    assert_true(a.probes[a.answer].at < 10);
    assert_true(a.probes[a.answer].verdict == ORR_VERDICT_MEETS);
    close_scene(&s);
}

static void test_an_interrupt_keeps_what_is_known(void **state)
{
    (void)state;
    volatile bool stop = true;
    scene s;
    open_scene(&s, inverse, 100, 6);
    s.options.stop = &stop;
    const orr_answer a =
        bisected(&s, (orr_bisection){.direction = -1, .end = 1, .stride = 2, .resolution = 0.05});
    assert_true(a.interrupted);
    assert_int_equal(a.answer, 0);
    assert_int_equal(a.n, 1);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_bracket_holds_the_closed_form),
        cmocka_unit_test(test_a_better_reference_lowers_the_limit),
        cmocka_unit_test(test_larger_can_be_harder),
        cmocka_unit_test(test_whole_numbers_are_found_exactly),
        cmocka_unit_test(test_a_probe_may_meet_with_less),
        cmocka_unit_test(test_where_everything_is_enough_the_end_is_the_answer),
        cmocka_unit_test(test_where_nothing_is_enough_there_is_no_answer),
        cmocka_unit_test(test_probes_out_of_order_are_told),
        cmocka_unit_test(test_an_interrupt_keeps_what_is_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
