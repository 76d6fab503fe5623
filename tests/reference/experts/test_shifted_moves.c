/* SPDX-License-Identifier: Apache-2.0 */
#include "maverick.h"

/* Moves after a shift, on recorded routes of Llama 4 Maverick: a placement of one subject's loads
 * on 16 ranks, then another subject comes. Every layer is to be within 1 % of the fresh placement,
 * in at most a fifth of the bytes of all experts, where the fresh one moves nearly all of them. */

enum { EXPERTS = 128, RANKS = 16, KINDS = 3 };

typedef struct world {
    orr_arena *arena;
    const orr_routes *routes;
    orr_expert_windows of_kind[KINDS];
} world;

static void load_world(world *w)
{
    orr_error err = {.text = ""};
    const orr_routes *part;
    w->routes = maverick_routes(w->arena);
    assert_int_equal(w->routes->kinds, KINDS);
    bool *keep = orr_arena_array(w->arena, bool, w->routes->requests);
    for (uint32_t kind = 0; kind < KINDS; kind++) {
        for (uint32_t i = 0; i < w->routes->requests; i++)
            keep[i] = w->routes->kind[i] == kind;
        if (orr_routes_select(w->routes, keep, -1, w->arena, &part, &err) != ORR_OK ||
            orr_expert_windows_of_routes(part, 1, w->arena, &w->of_kind[kind], &err) != ORR_OK)
            fail_msg("%s", err.text);
    }
}

static void check_shift(const world *w, uint32_t from, uint32_t to, uint32_t slots)
{
    orr_error err = {.text = ""};
    orr_expert_options options;
    orr_expert_result running, fresh;
    orr_expert_approach a;
    orr_expert_drift drift;
    orr_expert_options_init(&options);
    options.ranks = RANKS;
    options.slots = slots;
    options.windows = &w->of_kind[from];
    assert_int_equal(orr_experts_place(&options, w->arena, &running, &err), ORR_OK);
    options.windows = &w->of_kind[to];
    assert_int_equal(orr_experts_place(&options, w->arena, &fresh, &err), ORR_OK);
    assert_int_equal(orr_experts_drift(&running.placement, &w->of_kind[from], &w->of_kind[to],
                                       w->arena, &drift, &err),
                     ORR_OK);
    if (orr_experts_approach(&running.placement, &fresh.placement, &options, 0.01, w->arena, &a,
                             &err) != ORR_OK)
        fail_msg("%s", err.text);
    const double all = orr_expert_placement_slots(&fresh.placement);
    print_message(
        "# %u slots, %s to %s: %.1f %% of the bytes instead of %.1f %%; worst layer %.4f, "
        "fresh %.4f, before %.2f\n",
        slots, w->routes->kind_name[from], w->routes->kind_name[to], 100 * a.bytes / all,
        100 * a.fresh_bytes / all, a.reached.imbalance_worst, a.fresh.imbalance_worst,
        a.running.imbalance_worst);
    assert_true(drift.drifted);
    assert_true(a.bytes <= 0.2 * all && a.fresh_bytes > 0.5 * all);
    assert_true(a.reached.imbalance_mean <= 1.01 * a.fresh.imbalance_mean);
    assert_true(a.reached.imbalance_worst <= 1.01 * a.fresh.imbalance_worst * (1 + 1e-6));
    assert_true(a.running.imbalance_worst > 2); /* there was something to do */
}

static void test_a_fifth_of_the_bytes_is_enough(void **state)
{
    static const uint32_t slots[] = {144, 160, 256};
    world w;
    (void)state;
    for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
        w.arena = orr_arena_new(0, 0);
        load_world(&w);
        for (uint32_t from = 0; from < KINDS; from++)
            for (uint32_t to = 0; to < KINDS; to++)
                if (from != to)
                    check_shift(&w, from, to, slots[i]);
        orr_arena_free(w.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_fifth_of_the_bytes_is_enough),
    };
    return cmocka_run_group_tests_name("experts_shifted_moves", tests, NULL, NULL);
}
