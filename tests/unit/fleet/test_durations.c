/* SPDX-License-Identifier: Apache-2.0 */
#include "small_fleet.h"

#include <stdlib.h>

enum { DRAWS = 20001 };

static orr_fleet_time parsed(const char *text)
{
    orr_fleet_time time;
    orr_error err;
    if (orr_fleet_time_parse(text, &time, &err) != ORR_OK)
        fail_msg("%s: %s", text, err.text);
    return time;
}

static void what_is_read_is_written_alike(void **state)
{
    static const char *const texts[][2] = {
        {"90s", "90s"},
        {"0", "0s"},
        {"24h", "1d"},
        {"50ms", "50ms"},
        {"1.5s", "1.5s"},
        {"exp( 5min )", "exp(5min)"},
        {"lognormal(2min,10min)", "lognormal(2min, 10min)"},
        {"uniform(1s, 3s)", "uniform(1s, 3s)"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const orr_fleet_time time = parsed(texts[i][0]);
        char text[96];
        orr_fleet_time_text(&time, text, sizeof text);
        assert_string_equal(text, texts[i][1]);
        const orr_fleet_time again = parsed(text);
        assert_memory_equal(&again, &time, sizeof time);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    static const char *const wrong[] = {"",
                                        "5",
                                        "exp",
                                        "exp()",
                                        "exp(5min",
                                        "exp(1s,2s)",
                                        "normal(1s)",
                                        "uniform(3s,1s)",
                                        "uniform(1s)",
                                        "lognormal(2min, 1min)",
                                        "lognormal(0s, 1s)",
                                        "-5s",
                                        "exp(5min) ",
                                        "1000000000000d"};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        orr_fleet_time time = {.a_ns = 7};
        orr_error err;
        if (orr_fleet_time_parse(wrong[i], &time, &err) == ORR_OK)
            fail_msg("'%s' was taken", wrong[i]);
        assert_int_equal(time.a_ns, 7); /* written only on success */
        assert_true(err.text[0] != '\0');
    }
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void draw_all(const orr_fleet_time *time, int64_t *draws, double *ret_mean)
{
    orr_random random = orr_random_of(3, 0);
    double sum = 0;
    for (int i = 0; i < DRAWS; i++) {
        draws[i] = orr_fleet_draw(time, &random);
        assert_true(draws[i] >= 0);
        sum += (double)draws[i];
    }
    qsort(draws, DRAWS, sizeof *draws, by_value);
    *ret_mean = sum / DRAWS;
}

static void draws_have_the_mean_and_the_percentiles_that_were_said(void **state)
{
    static int64_t draws[DRAWS];
    double mean;
    (void)state;
    const orr_fleet_time constant = parsed("7s"), exponential = parsed("exp(5min)"),
                         lognormal = parsed("lognormal(2min, 10min)"),
                         uniform = parsed("uniform(1s, 3s)");
    draw_all(&constant, draws, &mean);
    assert_int_equal(draws[0], draws[DRAWS - 1]);
    draw_all(&exponential, draws, &mean);
    assert_near(mean, 5e9 * 60, 5e9 * 60 * 0.02);
    assert_near(draws[DRAWS / 2], 5e9 * 60 * log(2), 5e9 * 60 * 0.02);
    draw_all(&lognormal, draws, &mean);
    assert_near(draws[DRAWS / 2], 120e9, 120e9 * 0.03);
    assert_near(draws[DRAWS * 19 / 20], 600e9, 600e9 * 0.05);
    assert_near(mean, (double)orr_fleet_time_mean_ns(&lognormal), mean * 0.03);
    draw_all(&uniform, draws, &mean);
    assert_near(mean, 2e9, 2e7);
    assert_true(draws[0] >= SECOND_NS && draws[DRAWS - 1] <= 3 * (int64_t)SECOND_NS);
}

static void twice_as_long_is_twice_the_mean(void **state)
{
    static const char *const texts[] = {"7s", "exp(5min)", "lognormal(2min, 10min)",
                                        "uniform(1s, 3s)"};
    (void)state;
    for (int i = 0; i < 4; i++) {
        const orr_fleet_time time = parsed(texts[i]), twice = orr_fleet_time_scaled(&time, 2);
        assert_near(orr_fleet_time_mean_ns(&twice), 2.0 * (double)orr_fleet_time_mean_ns(&time), 2);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_read_is_written_alike),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(draws_have_the_mean_and_the_percentiles_that_were_said),
        cmocka_unit_test(twice_as_long_is_twice_the_mean),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
