/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/philox.h"
#include "experts/routes/builder.h"
#include "experts/statistics/statistics.h"

/* Routes of L layers, E experts, K choices, whose token t of request r is made by a function. */
enum { LAYERS = 3, EXPERTS = 8, MOST_K = 2 };
typedef struct planted {
    uint32_t requests, prompt, decoded, k, kinds;
    void (*choose)(uint32_t request, uint32_t position, bool decode, uint16_t *choice);
} planted;

static orr_arena *arena;
static orr_error err;

static const orr_routes *routes_of(const planted *p)
{
    static const uint32_t number[LAYERS] = {1, 3, 5};
    static const char *const kind_name[] = {"code", "prose"};
    uint32_t kind[256];
    orr_routes_builder b;
    const orr_routes *routes;
    assert_int_equal(orr_routes_builder_init(&b, number, LAYERS, p->k, false, &err), ORR_OK);
    for (uint32_t r = 0; r < p->requests; r++) {
        kind[r] = r % p->kinds;
        for (uint32_t t = 0; t < p->prompt + p->decoded; t++) {
            uint16_t choice[LAYERS * MOST_K];
            const bool decode = t >= p->prompt;
            p->choose(r, t, decode, choice);
            const orr_routes_row row = {.request = r,
                                        .position = t,
                                        .phase = decode ? ORR_ROUTE_DECODE : ORR_ROUTE_PREFILL,
                                        .rank = UINT16_MAX,
                                        .choice = choice};
            assert_int_equal(orr_routes_builder_push(&b, &row, &err), ORR_OK);
        }
    }
    const orr_routes_names names = {.requests = p->requests,
                                    .kinds = p->kinds,
                                    .experts = EXPERTS,
                                    .kind = kind,
                                    .kind_name = kind_name,
                                    .source = "planted"};
    assert_int_equal(orr_routes_builder_finish(&b, &names, arena, &routes, &err), ORR_OK);
    return routes;
}

static orr_expert_statistics statistics_of(const planted *p)
{
    orr_expert_statistics s;
    assert_int_equal(orr_expert_statistics_of_routes(routes_of(p), 3, 1, arena, &s, &err), ORR_OK);
    return s;
}

static void near(double value, double expected, double tolerance)
{
    if (!(fabs(value - expected) <= tolerance))
        fail_msg("%.9g is not %.9g, within %g", value, expected, tolerance);
}

static uint32_t draw(uint32_t request, uint32_t position, uint32_t which, uint32_t below)
{
    orr_random random = orr_random_of(4, (uint64_t)request << 32 | position << 4 | which);
    return (uint32_t)orr_random_below(&random, below);
}

/* --- loads ------------------------------------------------------------------------------------ */

/* Layer 0: experts in turn; 1: all but one token of 20 choose expert 5; 2: experts 0 and 1. */
static void choose_skewed(uint32_t request, uint32_t position, bool decode, uint16_t *choice)
{
    (void)decode;
    const uint32_t t = request * 20 + position;
    choice[0] = (uint16_t)(t % EXPERTS);
    choice[1] = position == 0 ? (uint16_t)(request % EXPERTS) : 5;
    choice[2] = (uint16_t)(t % 4 == 0);
}

static void loads_of_layers(void **state)
{
    (void)state;
    const orr_expert_statistics s = statistics_of(&(planted){16, 20, 0, 1, 1, choose_skewed});
    const orr_expert_layer_statistics *even = &s.of_layer[0], *one = &s.of_layer[1],
                                      *two = &s.of_layer[2];
    assert_int_equal(s.tokens, 320);
    near(even->top_frac, 1.0 / EXPERTS, 1e-12);
    near(even->effective_experts, EXPERTS, 1e-9);
    assert_int_equal(one->top_expert, 5);
    near(one->top_frac, (304 + 2) / 320.0, 1e-12);
    near(two->top_frac, 0.75, 1e-12);
    assert_int_equal(two->unused, EXPERTS - 2);
    near(two->effective_experts, exp(-0.75 * log(0.75) - 0.25 * log(0.25)), 1e-9);
    assert_true(one->concentrated && !even->concentrated && !two->concentrated);
    assert_int_equal(s.concentrated, 1);
}

/* Of 3 ranks the first two hold 3 experts, the last 2. */
static void imbalance_with_and_without_the_concentrated_layer(void **state)
{
    (void)state;
    const orr_expert_statistics s = statistics_of(&(planted){16, 20, 0, 1, 1, choose_skewed});
    const uint32_t ranks[] = {2, 3, 4, 8};
    assert_int_equal(s.n_imbalance, 4);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(s.imbalance[i].ranks, ranks[i]);
    const orr_expert_linear_imbalance *of_3 = &s.imbalance[1], *of_8 = &s.imbalance[3];
    assert_int_equal(of_8->all.worst_layer, 3);
    near(of_8->all.worst, 8 * 306 / 320.0, 1e-9);
    assert_int_equal(of_8->without.worst_layer, 5);
    near(of_8->without.worst, 8 * 0.75, 1e-9);
    near(of_8->without.mean, (1 + 6) / 2.0, 1e-9);
    near(of_8->without.tail, 6, 1e-9);
    near(of_3->without.mean, (3 * 3 / 8.0 + 3) / 2, 1e-9);
}

/* --- pairs ------------------------------------------------------------------------------------ */

/* Layer 0: partners 2i, 2i + 1; layer 1: two different experts, drawn. Layer 2 tells layer 1's. */
static void choose_pairs(uint32_t request, uint32_t position, bool decode, uint16_t *choice)
{
    (void)decode;
    const uint32_t pair = draw(request, position, 0, EXPERTS / 2);
    choice[0] = (uint16_t)(2 * pair + 1);
    choice[1] = (uint16_t)(2 * pair);
    choice[2] = (uint16_t)draw(request, position, 1, EXPERTS);
    choice[3] = (uint16_t)((choice[2] + 1 + draw(request, position, 2, EXPERTS - 1)) % EXPERTS);
    choice[4] = choice[2];
    choice[5] = choice[3];
}

static void partners_against_independence(void **state)
{
    (void)state;
    const orr_expert_statistics s = statistics_of(&(planted){64, 64, 0, 2, 1, choose_pairs});
    const orr_expert_layer_statistics *partners = &s.of_layer[0], *drawn = &s.of_layer[1];
    /* 4 of 28 pairs, equally often: independent choices would spread over all. */
    assert_int_equal(partners->pair[0] % 2, 0);
    assert_int_equal(partners->pair[1], partners->pair[0] + 1);
    near(partners->pair_lift, 7, 0.3);
    near(partners->pair_frac, 0.25, 0.02);
    near(partners->pair_distance, 1 - 4 / 28.0, 0.01);
    assert_true(drawn->pair_distance < 1.5 * drawn->pair_noise);
    assert_true(drawn->pair_distance > drawn->pair_noise / 1.5);
    assert_true(partners->pair_distance > 20 * partners->pair_noise);
}

static void the_next_layer_predicted(void **state)
{
    (void)state;
    const orr_expert_statistics s = statistics_of(&(planted){64, 64, 0, 2, 1, choose_pairs});
    const orr_expert_layer_statistics *unrelated = &s.of_layer[0], *same = &s.of_layer[1];
    /* An expert of layer 1 is in layer 2 again, beside one of the 7 others. */
    near(same->next_accuracy_frac, 0.5 + 0.5 / 7, 0.02);
    near(same->next_baseline_frac, 2.0 / EXPERTS, 0.02);
    near(same->next_bits, 3, 0.01);
    near(same->mutual_bits, 0.5 * log2(4) + 0.5 * log2(8 * 0.5 / 7), 0.05);
    near(unrelated->next_accuracy_frac, 2.0 / EXPERTS, 0.015);
    near(unrelated->mutual_bits, 0, 0.003);
    assert_true(isnan(s.of_layer[2].next_accuracy_frac));
}

/* --- phases, kinds, requests ------------------------------------------------------------------ */

/* Kinds choose from different halves of the experts, requests two experts each of their half, the
 * first of them in three of four tokens; in layer 2 decode swaps the halves. */
static void choose_by_request(uint32_t request, uint32_t position, bool decode, uint16_t *choice)
{
    const uint32_t half = request % 2 * 4, own = request / 2 % 4;
    for (uint32_t l = 0; l < LAYERS; l++) {
        const uint32_t from = l == 2 && decode ? 4 - half : half;
        choice[l] = (uint16_t)(from + (own + (position % 4 == 0)) % 4);
    }
}

static void phases_kinds_and_requests(void **state)
{
    (void)state;
    const orr_expert_statistics s = statistics_of(&(planted){24, 16, 8, 1, 2, choose_by_request});
    assert_int_equal(s.prefill_tokens, 24 * 16);
    assert_int_equal(s.kinds, 2);
    assert_int_equal(s.kind_tokens[1], 12 * 24);
    assert_int_equal(s.n_shift, 3); /* 0-0, 0-1, 1-1 */
    near(s.shift[1].all.mean, (1 + 1 + 1 / 3.0) / 3, 1e-9);
    assert_int_equal(s.shift[1].all.worst_layer, 1);
    near(s.of_layer[2].kind_distance, 1 / 3.0, 1e-9);
    /* Requests of a half prefer two experts of the kind's four, those of the other half the others.
     */
    near(s.shift[0].all.mean, 0.5, 1e-9);
    near(s.shift[2].all.mean, 0.5, 1e-9);
    assert_int_equal(s.request.requests, 24);
    assert_int_equal(s.request.without_decode + s.request.without_prefill, 0);
    assert_true(s.request.own > s.request.other + 0.5);
    assert_true(s.request.own < 2 / 3.0); /* 1, 1 and a negative one */
}

/* Two requests, the second of prefill alone. */
static void a_request_without_decode(void **state)
{
    (void)state;
    const orr_expert_statistics s = statistics_of(&(planted){5, 16, 0, 1, 1, choose_by_request});
    assert_int_equal(s.request.without_decode, 5);
    assert_true(isnan(s.request.own) && isnan(s.request.other));
    assert_true(isnan(s.of_layer[0].phase_correlation) && isnan(s.of_layer[0].kind_distance));
    assert_int_equal(s.n_shift, 0);
}

static void correlation_falls_when_decode_differs(void **state)
{
    (void)state;
    const orr_expert_statistics s = statistics_of(&(planted){1, 16, 8, 1, 1, choose_by_request});
    near(s.of_layer[0].phase_correlation, 1, 1e-9);
    assert_true(s.of_layer[2].phase_correlation < 0);
}

/* --- threads, windows ------------------------------------------------------------------------- */

static void threads_do_not_change_it(void **state)
{
    (void)state;
    orr_expert_statistics one, four;
    const orr_routes *r = routes_of(&(planted){70, 16, 8, 2, 2, choose_pairs});
    assert_int_equal(orr_expert_statistics_of_routes(r, 0, 1, arena, &one, &err), ORR_OK);
    assert_int_equal(orr_expert_statistics_of_routes(r, 0, 4, arena, &four, &err), ORR_OK);
    assert_memory_equal(one.load, four.load, LAYERS * EXPERTS * sizeof *one.load);
    for (uint32_t l = 0; l < LAYERS; l++)
        assert_memory_equal(&one.of_layer[l].pair_distance, &four.of_layer[l].pair_distance,
                            sizeof(double));
    assert_memory_equal(&one.request.own, &four.request.own, sizeof(double));
    assert_memory_equal(&one.request.other, &four.request.other, sizeof(double));
}

static void windows_have_loads_alone(void **state)
{
    (void)state;
    static const uint32_t number[] = {4};
    static const double load[2][EXPERTS] = {{2, 0, 0, 0, 0, 0, 1, 1}, {2, 0, 0, 0, 0, 0, 1, 1}};
    const orr_expert_windows w = {
        .windows = 2, .layers = 1, .experts = EXPERTS, .number = number, .load = &load[0][0]};
    orr_expert_statistics s;
    assert_int_equal(orr_expert_statistics_of_windows(&w, 0, arena, &s, &err), ORR_OK);
    assert_int_equal(s.of_layer[0].layer, 4);
    near(s.of_layer[0].top_frac, 0.5, 1e-12);
    assert_int_equal(s.of_layer[0].unused, 5);
    near(s.imbalance[1].all.worst, 2, 1e-12);
    assert_true(isnan(s.of_layer[0].next_accuracy_frac) && isnan(s.request.own));
}

static int set_up(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena == NULL;
}

static int tear_down(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loads_of_layers),
        cmocka_unit_test(imbalance_with_and_without_the_concentrated_layer),
        cmocka_unit_test(partners_against_independence),
        cmocka_unit_test(the_next_layer_predicted),
        cmocka_unit_test(phases_kinds_and_requests),
        cmocka_unit_test(a_request_without_decode),
        cmocka_unit_test(correlation_falls_when_decode_differs),
        cmocka_unit_test(threads_do_not_change_it),
        cmocka_unit_test(windows_have_loads_alone),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
