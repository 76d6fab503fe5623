/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdio.h>

#include <cmocka.h>

#include "../support/seeds.h"
#include "support/held_out.h"

/* Placements by drawn routes with planted kinds of requests: valid whatever is asked, and of use
 * for requests that were held out as far as there is structure to learn, and no further. */

typedef struct world {
    orr_arena *arena;
    orr_random random;
    uint64_t seed;
    const orr_routes *routes;
} world;

static uint32_t from_to(world *w, uint32_t least, uint32_t most)
{
    return least + (uint32_t)orr_random_below(&w->random, most - least + 1);
}

static void open_world(world *w, uint64_t seed)
{
    *w = (world){.arena = orr_arena_new(0, 0), .seed = seed, .random = orr_random_of(seed, 9)};
    assert_non_null(w->arena);
}

static void draw_routes(world *w, const orr_routes_drawn *how)
{
    orr_error err = {0};
    if (orr_routes_draw(how, w->arena, &w->routes, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
}

/* --- valid ------------------------------------------------------------------------------------ */

enum { RANKS = 12 };

static const orr_expert_costs COSTS = {.host_bytes_per_s = 400e9,
                                       .network_bytes_per_s = 50e9,
                                       .row_ns = 30,
                                       .dispatch_bytes = 8192,
                                       .combine_bytes = 8192,
                                       .expert_bytes = 1e6,
                                       .tokens = 512};

/* Options of any shape that can be placed: ranks that slots do not divide, dead ranks, groups of
 * requests, loads by windows as well as routes. */
static void draw_options(world *w, bool *dead, uint32_t *group_of, orr_expert_options *ret)
{
    const orr_routes *r = w->routes;
    orr_expert_options_init(ret);
    ret->routes = r;
    ret->ranks = from_to(w, 1, RANKS);
    ret->host_ranks = from_to(w, 1, ret->ranks);
    ret->slots = from_to(w, r->experts, r->experts + 3 * ret->ranks);
    ret->even_layers = orr_random_below(&w->random, 2);
    ret->costs = orr_random_below(&w->random, 2) ? &COSTS : NULL;
    uint32_t groups = 1;
    if (orr_random_below(&w->random, 2) == 0)
        while (ret->ranks % (groups = from_to(w, 1, ret->ranks)) != 0)
            continue;
    for (uint32_t i = 0; i < r->requests; i++)
        group_of[i] = from_to(w, 0, groups - 1);
    if (groups > 1) {
        ret->group_of_request = group_of;
        ret->request_groups = groups;
    }
    const uint32_t size = ret->ranks / groups; /* one rank of each group lives */
    for (uint32_t rank = 0; rank < ret->ranks; rank++)
        dead[rank] = rank % size != 0 && orr_random_below(&w->random, 3) == 0;
    ret->dead = dead;
}

static void each_is_valid(uint64_t seed)
{
    world w;
    bool dead[RANKS];
    uint32_t group_of[64];
    orr_expert_options o;
    open_world(&w, seed);
    const uint32_t experts = from_to(&w, 1, 40), idle = from_to(&w, 0, experts - 1) / 2;
    const uint32_t live = experts - idle;
    draw_routes(&w, &(orr_routes_drawn){.layers = from_to(&w, 1, 3),
                                        .experts = experts,
                                        .top_k = from_to(&w, 1, live < 8 ? live : 8),
                                        .requests = from_to(&w, 1, 30),
                                        .prompt = from_to(&w, 0, 4),
                                        .decoded = from_to(&w, 1, 4),
                                        .kinds = from_to(&w, 1, live < 4 ? live : 4),
                                        .affinity = 0.7,
                                        .skew = 1,
                                        .dead = idle,
                                        .seed = seed});
    draw_options(&w, dead, group_of, &o);
    for (int policy = 0; policy < ORR_EXPERT_POLICIES; policy++) {
        orr_expert_result result;
        orr_error err = {0};
        o.policy = (uint8_t)policy;
        if (policy == ORR_EXPERT_POLICY_ILP)
            continue;
        if (orr_experts_place(&o, w.arena, &result, &err) != ORR_OK ||
            orr_expert_placement_check(&result.placement, result.missing, result.n_missing, &err) !=
                ORR_OK)
            seed_fail(seed, "%s: %s", orr_expert_policy_name((orr_expert_policy)policy), err.text);
        if (policy != ORR_EXPERT_POLICY_EPLB)
            assert_int_equal(result.quality.doubled_slots, 0);
        for (uint32_t r = 0; r < o.ranks; r++) {
            const uint32_t *first = result.placement.first_slot + r;
            assert_true(!dead[r] || first[0] == first[1]);
        }
        const uint32_t slots = orr_expert_placement_slots(&result.placement);
        assert_true(slots <= o.slots * w.routes->layers);
        assert_true(result.quality.remote_frac >= 0 && result.quality.remote_frac <= 1);
    }
    orr_arena_free(w.arena);
}

/* --- requests held out ------------------------------------------------------------------------ */

enum { GROUPS = 4 };

/* Routes with planted kinds, as many as groups, and a fifth of the requests held out. `shuffled`:
 * tokens are given to requests at random. */
static held_out open_held_out(world *w, uint64_t seed, double affinity, bool shuffled)
{
    open_world(w, seed);
    draw_routes(w, &(orr_routes_drawn){.layers = 3,
                                       .experts = 32,
                                       .top_k = 1U << seed % 4,
                                       .requests = 120,
                                       .prompt = 24,
                                       .decoded = 16,
                                       .kinds = GROUPS,
                                       .affinity = affinity,
                                       .skew = 0.5,
                                       .seed = seed});
    if (shuffled) {
        orr_routes *r = orr_arena_one(w->arena, orr_routes);
        uint32_t *request = orr_arena_array(w->arena, uint32_t, w->routes->tokens);
        assert_true(r != NULL && request != NULL);
        for (uint64_t t = 0; t < w->routes->tokens; t++) {
            const uint64_t other = orr_random_below(&w->random, t + 1);
            request[t] = request[other];
            request[other] = w->routes->request[t];
        }
        *r = *w->routes;
        r->request = request;
        w->routes = r;
    }
    bool keep[120];
    draw_history(w->routes, seed, keep);
    return hold_out(w->routes, keep, GROUPS, seed, w->arena);
}

static double remote_by(const held_out *h, orr_expert_policy policy, uint32_t spare)
{
    const orr_expert_placement p = place_history(h, policy, spare, NULL);
    return told_quality(h, &p, NULL).remote_frac;
}

/* Rows to other ranks fall where kinds are planted (by less the more experts a token has: it goes
 * to most ranks anyway), and not where tokens are shuffled between requests: one part in G of the
 * ranks of a token is its own. */
static void only_kinds_bring_less(uint64_t seed)
{
    static const orr_expert_policy policies[] = {ORR_EXPERT_POLICY_BEST,
                                                 ORR_EXPERT_POLICY_AFFINITY};
    world w;
    for (size_t i = 0; i < 2; i++) {
        held_out h = open_held_out(&w, seed, 0.8, false);
        const double linear = remote_by(&h, ORR_EXPERT_POLICY_LINEAR, 0);
        const double planted = remote_by(&h, policies[i], 0);
        orr_arena_free(w.arena);
        h = open_held_out(&w, seed, 0.8, true);
        const double shuffled = remote_by(&h, policies[i], 0);
        orr_arena_free(w.arena);
        if (planted > linear - 0.1)
            seed_fail(seed, "remote %.3f, linear %.3f", planted, linear);
        if (fabs(shuffled - (1 - 1.0 / GROUPS)) > 0.04)
            seed_fail(seed, "remote %.3f of shuffled requests", shuffled);
    }
}

static void spare_slots_bring_less(uint64_t seed)
{
    world w;
    const held_out h = open_held_out(&w, seed, 0.6, false);
    double before = 1;
    for (uint32_t spare = 0; spare <= 24; spare += 4) {
        const double now = remote_by(&h, ORR_EXPERT_POLICY_BEST, spare);
        if (now > before + 1e-9)
            seed_fail(seed, "remote %.4f with %u spare slots, %.4f with fewer", now, spare, before);
        before = now;
    }
    assert_true(before == 0); /* every rank has every expert */
    orr_arena_free(w.arena);
}

static double sum_best, sum_other[3];

/* By costs: the step of requests that nobody recorded. */
static void measure_steps(uint64_t seed)
{
    static const orr_expert_policy others[] = {ORR_EXPERT_POLICY_EPLB, ORR_EXPERT_POLICY_LINEAR,
                                               ORR_EXPERT_POLICY_AFFINITY};
    world w;
    orr_expert_costs costs = COSTS;
    costs.row_ns = seed % 3 == 0 ? 300 : 10;
    const held_out h = open_held_out(&w, seed, seed % 2 == 0 ? 0.6 : 0.3, false);
    const uint32_t spare = (uint32_t)seed % 5;
    const orr_expert_placement best = place_history(&h, ORR_EXPERT_POLICY_BEST, spare, &costs);
    const double ns = told_quality(&h, &best, &costs).step_ns;
    sum_best += 1;
    for (size_t i = 0; i < 3; i++) {
        const orr_expert_placement p = place_history(&h, others[i], spare, &costs);
        sum_other[i] += told_quality(&h, &p, &costs).step_ns / ns;
    }
    orr_arena_free(w.arena);
}

/* --- refusals --------------------------------------------------------------------------------- */

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const orr_expert_policy policies[] = {ORR_EXPERT_POLICY_AFFINITY,
                                                 ORR_EXPERT_POLICY_COACTIVATION};
    world w;
    orr_expert_options o;
    orr_expert_windows windows;
    orr_expert_result result;
    orr_error err = {0};
    static const bool dead[4] = {false, false, true, true};
    const held_out h = open_held_out(&w, 1, 0.5, false);
    assert_int_equal(orr_expert_windows_of_routes(w.routes, 1, w.arena, &windows, &err), ORR_OK);
    orr_expert_options_init(&o);
    o.ranks = 4;
    for (size_t i = 0; i < 2; i++) {
        o.policy = (uint8_t)policies[i];
        o.windows = &windows;
        o.routes = NULL;
        assert_int_equal(orr_experts_place(&o, w.arena, &result, &err), ORR_UNSUPPORTED);
    }
    o.routes = h.history;
    o.group_of_request = h.group_of;
    o.policy = ORR_EXPERT_POLICY_AFFINITY;
    o.request_groups = 3;
    assert_int_equal(orr_experts_place(&o, w.arena, &result, &err), ORR_INVALID);
    o.request_groups = 2; /* and requests are in group 3 */
    assert_int_equal(orr_experts_place(&o, w.arena, &result, &err), ORR_INVALID);
    o.request_groups = 4;
    assert_int_equal(orr_experts_place(&o, w.arena, &result, &err), ORR_OK);
    o.dead = dead;
    assert_int_equal(orr_experts_place(&o, w.arena, &result, &err), ORR_INVALID);
    orr_arena_free(w.arena);
}

static void for_each_seed(uint64_t count, void (*test)(uint64_t seed))
{
    const seed_range range = seeds(count);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        test(seed);
}

static void placements_by_routes_are_valid(void **state)
{
    (void)state;
    for_each_seed(300, each_is_valid);
}

static void kinds_of_requests_bring_less(void **state)
{
    (void)state;
    for_each_seed(12, only_kinds_bring_less);
}

static void more_slots_bring_less(void **state)
{
    (void)state;
    for_each_seed(12, spare_slots_bring_less);
}

static void best_is_not_slower_than_others(void **state)
{
    (void)state;
    for_each_seed(30, measure_steps);
    print_message("steps of eplb, linear and affinity over best's: %.3f, %.3f, %.3f\n",
                  sum_other[0] / sum_best, sum_other[1] / sum_best, sum_other[2] / sum_best);
    for (size_t i = 0; i < 3; i++)
        assert_true(sum_other[i] >= 0.99 * sum_best || getenv("ORRERY_SEED") != NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placements_by_routes_are_valid),
        cmocka_unit_test(kinds_of_requests_bring_less),
        cmocka_unit_test(more_slots_bring_less),
        cmocka_unit_test(best_is_not_slower_than_others),
        cmocka_unit_test(what_cannot_be_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
