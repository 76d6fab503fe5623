/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>

#include <cmocka.h>

#include "../support/random_placements.h"
#include "../support/seeds.h"

/* Loads drawn from distributions that are known: the same one passes, however skewed and however
 * few the choices are; one of which a share has moved is found. */

enum { LAYERS = 5, EXPERTS = 40, MOST_WINDOWS = 8 };

typedef struct world {
    orr_arena *arena;
    orr_placement_draft draft;
    orr_random random;
    double odds[LAYERS][EXPERTS]; /* cumulative */
    uint64_t seed;
} world;

static void open_case(world *w, uint64_t seed)
{
    *w = (world){.arena = orr_arena_new(0, 0), .seed = seed, .random = orr_random_of(seed, 0)};
    const orr_expert_placement like = {
        .layers = LAYERS, .experts = EXPERTS, .ranks = 4, .host_ranks = 4};
    w->draft = draw_placement(&like, 0.1, &w->random, w->arena);
    for (uint32_t l = 0; l < LAYERS; l++) {
        const double skew = 2 * orr_random_unit(&w->random);
        double sum = 0;
        for (uint32_t e = 0; e < EXPERTS; e++)
            w->odds[l][e] = sum += pow(1 + (double)orr_random_below(&w->random, EXPERTS), -skew);
        for (uint32_t e = 0; e < EXPERTS; e++)
            w->odds[l][e] /= sum;
    }
}

/* Windows of `choices` each. `moved`: share of choices that go to the expert after theirs;
 * `clumps`: choices are drawn once for as many. */
static orr_expert_windows draw(world *w, uint32_t windows, uint32_t choices, double moved,
                               uint32_t clumps)
{
    double *load = orr_arena_array(w->arena, double, MOST_WINDOWS *LAYERS *EXPERTS);
    for (uint32_t i = 0; i < windows * LAYERS; i++)
        for (uint32_t c = 0; c < choices; c += clumps) {
            const double u = orr_random_unit(&w->random);
            uint32_t e = 0;
            while (e + 1 < EXPERTS && w->odds[i % LAYERS][e] < u)
                e++;
            if (orr_random_unit(&w->random) < moved)
                e = (e + 1) % EXPERTS;
            load[(size_t)i * EXPERTS + e] += clumps;
        }
    return (orr_expert_windows){.windows = windows,
                                .layers = LAYERS,
                                .experts = EXPERTS,
                                .number = w->draft.placement.number,
                                .load = load};
}

static orr_expert_drift drift_of(world *w, orr_expert_windows a, orr_expert_windows b)
{
    orr_expert_drift ret;
    orr_error err = {0};
    if (orr_experts_drift(&w->draft.placement, &a, &b, w->arena, &ret, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
    return ret;
}

static void test_noise_passes_and_drift_does_not(void **state)
{
    (void)state;
    const seed_range range = seeds(60);
    double largest = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        open_case(&w, seed);
        const uint32_t choices = draw_from(&w.random, 20, 6000);
        const orr_expert_drift none =
            drift_of(&w, draw(&w, 1, choices, 0, 1), draw(&w, 1, 6000, 0, 1));
        const orr_expert_drift some =
            drift_of(&w, draw(&w, 1, 6000, 0, 1), draw(&w, 1, 6000, 0.3, 1));
        if (none.drifted)
            seed_fail(seed, "noise of %u choices is drift: %g over %g", choices, none.statistic,
                      none.threshold);
        if (!some.drifted || some.overdispersion != 1)
            seed_fail(seed, "3 of 10 choices have moved: %g of %g", some.statistic, some.threshold);
        largest = fmax(largest, none.statistic / none.threshold);
        orr_arena_free(w.arena);
    }
    if (range.end - range.begin > 1)
        assert_true(largest > 0.5); /* the threshold is not far beyond all noise */
}

static void test_requests_that_choose_alike_pass_by_their_windows(void **state)
{
    (void)state;
    const seed_range range = seeds(30);
    uint32_t fooled = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        open_case(&w, seed);
        /* Choices come ten at a time: one window a side cannot know, eight can. */
        fooled += drift_of(&w, draw(&w, 1, 8000, 0, 10), draw(&w, 1, 8000, 0, 10)).drifted;
        const orr_expert_drift none =
            drift_of(&w, draw(&w, 8, 1000, 0, 10), draw(&w, 8, 1000, 0, 10));
        if (none.drifted || none.overdispersion < 7 || none.overdispersion > 13)
            seed_fail(seed, "overdispersion %g, statistic %g of %g", none.overdispersion,
                      none.statistic, none.threshold);
        if (!drift_of(&w, draw(&w, 8, 1000, 0, 10), draw(&w, 8, 1000, 0.9, 10)).drifted)
            seed_fail(seed, "9 of 10 choices have moved");
        orr_arena_free(w.arena);
    }
    if (range.end - range.begin > 1)
        assert_true(fooled > 15);
}

static void test_loads_that_are_none_are_refused(void **state)
{
    (void)state;
    world w;
    orr_expert_drift ret;
    orr_error err = {.text = ""};
    open_case(&w, 3);
    orr_expert_windows good = draw(&w, 1, 100, 0, 1), bad = draw(&w, 1, 100, 0, 1);
    ((double *)(uintptr_t)bad.load)[41] = NAN;
    assert_int_equal(orr_experts_drift(&w.draft.placement, &good, &bad, w.arena, &ret, &err),
                     ORR_INVALID);
    assert_string_equal(err.text, "layer 1: the load of expert 1 is nan");
    bad.layers = 4;
    assert_int_equal(orr_experts_drift(&w.draft.placement, &bad, &good, w.arena, &ret, &err),
                     ORR_INVALID);
    assert_string_equal(err.text,
                        "loads of 4 layers with 40 experts, and a placement of 5 with 40");
    orr_arena_free(w.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_noise_passes_and_drift_does_not),
        cmocka_unit_test(test_requests_that_choose_alike_pass_by_their_windows),
        cmocka_unit_test(test_loads_that_are_none_are_refused),
    };
    return cmocka_run_group_tests_name("experts_drift", tests, NULL, NULL);
}
