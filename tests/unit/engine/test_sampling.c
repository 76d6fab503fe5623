/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>

#include "engine/generate/sampling.h"

enum { WORDS = 5, DRAWS = 20000 };
static const float logits[WORDS] = {1, 3, 2, -1, 3};

static void shares(const orr_sampling *sampling, double ret[WORDS])
{
    orr_token_candidate room[WORDS];
    orr_random random = orr_random_of(7, 0);
    for (int i = 0; i < WORDS; i++)
        ret[i] = 0;
    for (int i = 0; i < DRAWS; i++)
        ret[orr_sample_token(sampling, &random, logits, WORDS, room)] += 1.0 / DRAWS;
}

static void the_first_of_the_most_likely(void **state)
{
    const orr_sampling greedy = {.temperature = 0};
    double share[WORDS];
    (void)state;
    shares(&greedy, share);
    assert_true(fabs(share[1] - 1) < 1e-9);
}

static void draws_follow_the_probabilities(void **state)
{
    const double temperature = 0.7;
    const orr_sampling sampling = {.temperature = temperature};
    double share[WORDS], sum = 0;
    (void)state;
    shares(&sampling, share);
    for (int i = 0; i < WORDS; i++)
        sum += exp((double)logits[i] / temperature);
    for (int i = 0; i < WORDS; i++)
        assert_true(fabs(share[i] - exp((double)logits[i] / temperature) / sum) < 0.015);
}

static void only_the_best_are_drawn(void **state)
{
    double share[WORDS];
    (void)state;
    shares(&(orr_sampling){.temperature = 1, .top_k = 3}, share);
    assert_true(share[0] == 0 && share[3] == 0 && share[1] > 0 && share[2] > 0 && share[4] > 0);
    shares(&(orr_sampling){.temperature = 1, .top_p = 0.5}, share); /* the two of 0.37 each */
    assert_true(share[1] > 0.4 && share[4] > 0.4 && share[0] + share[2] + share[3] == 0);
    shares(&(orr_sampling){.temperature = 1, .top_p = 1e-9}, share); /* one is always left */
    assert_true(fabs(share[1] - 1) < 1e-9);
}

static void seeds_repeat(void **state)
{
    const orr_sampling sampling = {.temperature = 1};
    orr_token_candidate room[WORDS];
    orr_random a = orr_random_of(3, 1), b = orr_random_of(3, 1);
    (void)state;
    for (int i = 0; i < 100; i++)
        assert_int_equal(orr_sample_token(&sampling, &a, logits, WORDS, room),
                         orr_sample_token(&sampling, &b, logits, WORDS, room));
}

static void log_probabilities_sum_to_one(void **state)
{
    double sum = 0;
    (void)state;
    for (int32_t i = 0; i < WORDS; i++)
        sum += exp(orr_log_probability(logits, WORDS, i));
    assert_true(fabs(sum - 1) < 1e-12);
}

/* Logits that are no numbers are somebody's mistake, not a crash. */
static void nonsense_is_survived(void **state)
{
    const float nan_logits[WORDS] = {NAN, NAN, NAN, NAN, NAN};
    const orr_sampling sampling = {.temperature = 1, .top_p = 0.9};
    orr_token_candidate room[WORDS];
    orr_random random = orr_random_of(1, 1);
    (void)state;
    assert_in_range(orr_sample_token(&sampling, &random, nan_logits, WORDS, room), 0, WORDS - 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_of_the_most_likely),
        cmocka_unit_test(draws_follow_the_probabilities),
        cmocka_unit_test(only_the_best_are_drawn),
        cmocka_unit_test(seeds_repeat),
        cmocka_unit_test(log_probabilities_sum_to_one),
        cmocka_unit_test(nonsense_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
