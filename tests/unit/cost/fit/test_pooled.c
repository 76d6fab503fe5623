/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/philox.h"
#include "cost/fit/pooled.h"

/* Rows of four devices in three years: seconds = work / speed + calls x overhead. Parameters: speed
 * (common, device, year), overhead (common, device), and one that no row depends on. Device 3 has
 * no row. */
enum { SPEED, OVERHEAD, UNUSED, PARAMETERS };
enum { DEVICES = 4, YEARS = 3, CONTEXTS = DEVICES * YEARS, ROWS = 180 };
enum { COMMON_SPEED, COMMON_OVERHEAD, COMMON_UNUSED, YEARLY, OF_DEVICE, UNKNOWNS = OF_DEVICE + 8 };

typedef struct jobs {
    double work[ROWS], calls[ROWS];
    orr_pooled_sample samples[ROWS];
    orr_pooled_parameter parameters[CONTEXTS * PARAMETERS];
    orr_pooled_unknown unknowns[UNKNOWNS];
    orr_pooled_problem problem;
    orr_arena *arena;
} jobs;

static double seconds(void *ctx, size_t i, const double *p)
{
    const jobs *j = ctx;
    return log(j->work[i] / exp(p[SPEED]) + j->calls[i] * exp(p[OVERHEAD]));
}

static double truth_of(uint32_t device, int year, int parameter, double yearly)
{
    static const double SPEEDS[DEVICES] = {0.8, 0.6, 0.62, 0.7}, OVERHEADS[DEVICES] = {5, 5, 11, 5};
    return parameter == SPEED      ? log(SPEEDS[device]) + yearly * (year - 2)
           : parameter == OVERHEAD ? log(1e-2 * OVERHEADS[device])
                                   : 0;
}

static orr_pooled_parameter parameter_of(uint32_t device, int year, int which)
{
    static const double PRIORS[PARAMETERS] = {0.7, 0.05, 0.5};
    orr_pooled_parameter p = {.prior = log(PRIORS[which]), .low = log(1e-3), .high = log(1)};
    size_t n = 0;
    p.terms[n++] = (orr_pooled_term){COMMON_SPEED + (uint32_t)which, 1};
    if (which != UNUSED)
        p.terms[n++] = (orr_pooled_term){OF_DEVICE + 2 * device + (uint32_t)which, 1};
    if (which == SPEED)
        p.terms[n++] = (orr_pooled_term){YEARLY, year - 2};
    p.terms[n] = (orr_pooled_term){ORR_POOLED_NONE, 0};
    return p;
}

static void open_jobs(jobs *j, double yearly, double noise)
{
    orr_random random = orr_random_of(7, 0);
    memset(j, 0, sizeof *j);
    for (uint32_t c = 0; c < CONTEXTS; c++)
        for (int k = 0; k < PARAMETERS; k++)
            j->parameters[c * PARAMETERS + (uint32_t)k] = parameter_of(c / YEARS, c % YEARS, k);
    for (int k = 0; k < UNKNOWNS; k++)
        j->unknowns[k] = (orr_pooled_unknown){k < OF_DEVICE ? 0.3 : 0.4, -3, 3, false};
    j->unknowns[YEARLY] = (orr_pooled_unknown){0.2, 0, 1, false};
    for (size_t i = 0; i < ROWS; i++) {
        const uint32_t device = (uint32_t)(i % 3), year = (uint32_t)(i / 3 % YEARS);
        const double truth[PARAMETERS] = {truth_of(device, (int)year, SPEED, yearly),
                                          truth_of(device, (int)year, OVERHEAD, yearly), 0};
        j->work[i] = 0.1 + 3 * orr_random_unit(&random);
        j->calls[i] = 1 + 30 * orr_random_unit(&random);
        j->samples[i] = (orr_pooled_sample){.context = device * YEARS + year, .weight = 1};
        j->samples[i].measured =
            seconds(j, i, truth) + noise * 2 * (orr_random_unit(&random) - 0.5);
    }
    j->problem = (orr_pooled_problem){.n_parameters = PARAMETERS,
                                      .n_unknowns = UNKNOWNS,
                                      .n_contexts = CONTEXTS,
                                      .n_samples = ROWS,
                                      .unknowns = j->unknowns,
                                      .parameters = j->parameters,
                                      .samples = j->samples,
                                      .noise = {0.03},
                                      .predict = seconds,
                                      .ctx = j,
                                      .threads = 2,
                                      .rounds = 20};
    j->arena = orr_arena_new(0, 0);
    assert_non_null(j->arena);
}

static orr_pooled_result fit(jobs *j)
{
    orr_pooled_result result;
    orr_error err;
    if (orr_pooled_fit(&j->problem, NULL, j->arena, &result, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return result;
}

static orr_pooled_value value_of(const jobs *j, const orr_pooled_result *r, uint32_t device,
                                 int year, int which)
{
    return orr_pooled_value_of(
        &j->problem,
        &j->parameters[(device * YEARS + (uint32_t)year) * PARAMETERS + (uint32_t)which], r);
}

static void known_parameters_are_found_again(void **state)
{
    (void)state;
    static jobs j;
    open_jobs(&j, 0.1, 0.03);
    const orr_pooled_result r = fit(&j);
    for (uint32_t d = 0; d < 3; d++)
        for (int year = 0; year < YEARS; year++)
            for (int which = SPEED; which <= OVERHEAD; which++) {
                const orr_pooled_value v = value_of(&j, &r, d, year, which);
                const double truth = truth_of(d, year, which, 0.1);
                if (fabs(v.value - truth) > 2.6 * v.deviation + 0.005)
                    fail_msg("device %u, year %d, parameter %d: %g +- %g, made with %g", d, year,
                             which, v.value, v.deviation, truth);
                assert_true(v.deviation < 0.1 && !v.at_bound);
            }
    /* A device of which there is no row: what the others have, less certain. */
    const orr_pooled_value known = value_of(&j, &r, 0, 2, OVERHEAD),
                           unknown = value_of(&j, &r, 3, 2, OVERHEAD);
    assert_true(unknown.deviation > 5 * known.deviation);
    orr_arena_free(j.arena);
}

static void what_no_row_depends_on_is_its_prior(void **state)
{
    (void)state;
    static jobs j;
    open_jobs(&j, 0.1, 0.03);
    orr_pooled_result r = fit(&j);
    const orr_pooled_value before = value_of(&j, NULL, 0, 0, UNUSED),
                           after = value_of(&j, &r, 0, 0, UNUSED);
    assert_true(fabs(after.value - log(0.5)) < 1e-9);
    assert_true(fabs(after.deviation - before.deviation) < 1e-9);
    assert_true(orr_pooled_drop(&j.problem, 1.645, &r) > 0);
    assert_true(j.unknowns[COMMON_UNUSED].fixed);
    /* Device 2 launches slowly, and that stays. */
    assert_false(j.unknowns[OF_DEVICE + 2 * 2 + OVERHEAD].fixed);
    assert_true(value_of(&j, &r, 0, 0, UNUSED).deviation == 0);
    /* Nothing that was dropped was needed. */
    const double before_drop = r.loss;
    const orr_pooled_result again = fit(&j);
    assert_true(again.loss < before_drop + 30);
    for (int k = 0; k < UNKNOWNS; k++)
        assert_true(!j.unknowns[k].fixed || again.unknowns[k] == 0);
    orr_arena_free(j.arena);
}

/* Rows of one device that are 20 % slower move that device, and hardly the others. */
static void an_answer_follows_its_data(void **state)
{
    (void)state;
    static jobs j;
    open_jobs(&j, 0.1, 0.03);
    const orr_pooled_result before = fit(&j);
    for (size_t i = 1; i < ROWS; i += 3)
        j.samples[i].measured += log(1.2);
    const orr_pooled_result after = fit(&j);
    const double moved = value_of(&j, &after, 1, 2, SPEED).value -
                         value_of(&j, &before, 1, 2, SPEED).value,
                 other = value_of(&j, &after, 0, 2, SPEED).value -
                         value_of(&j, &before, 0, 2, SPEED).value;
    assert_true(moved < -0.12 && moved > -0.2);
    assert_true(fabs(other) < 0.02);
    orr_arena_free(j.arena);
}

/* Software does not get worse: a change that may only be positive stays at 0. */
static void years_do_not_go_backward(void **state)
{
    (void)state;
    static jobs j;
    open_jobs(&j, -0.1, 0.01);
    const orr_pooled_result r = fit(&j);
    assert_true(r.unknowns[YEARLY] == 0);
    orr_arena_free(j.arena);
    open_jobs(&j, 0.2, 0.01);
    assert_true(fabs(fit(&j).unknowns[YEARLY] - 0.2) < 0.02);
    orr_arena_free(j.arena);
}

static void few_wild_rows_do_not_matter(void **state)
{
    (void)state;
    static jobs j;
    open_jobs(&j, 0.1, 0.03);
    const orr_pooled_result before = fit(&j);
    for (size_t i = 0; i < ROWS; i += 36)
        j.samples[i].measured += 2;
    const orr_pooled_result after = fit(&j);
    for (uint32_t d = 0; d < 3; d++)
        assert_true(fabs(value_of(&j, &after, d, 2, SPEED).value -
                         value_of(&j, &before, d, 2, SPEED).value) < 0.05);
    assert_int_equal(orr_pooled_noise(&j.problem, &after, 0.001, 1, NULL), ORR_OK);
    assert_true(j.problem.noise[0] > 0.01 && j.problem.noise[0] < 0.04);
    orr_arena_free(j.arena);
}

static void threads_change_nothing(void **state)
{
    (void)state;
    static jobs j, k;
    open_jobs(&j, 0.1, 0.03);
    open_jobs(&k, 0.1, 0.03);
    k.problem.threads = 1;
    const orr_pooled_result a = fit(&j), b = fit(&k);
    assert_memory_equal(a.unknowns, b.unknowns, UNKNOWNS * sizeof *a.unknowns);
    orr_arena_free(j.arena);
    orr_arena_free(k.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_parameters_are_found_again),
        cmocka_unit_test(what_no_row_depends_on_is_its_prior),
        cmocka_unit_test(an_answer_follows_its_data),
        cmocka_unit_test(years_do_not_go_backward),
        cmocka_unit_test(few_wild_rows_do_not_matter),
        cmocka_unit_test(threads_change_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
