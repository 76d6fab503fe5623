/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>

#include <cmocka.h>

#include "../support/random_placements.h"
#include "../support/seeds.h"

/* From a placement that suited other loads towards a fresh one: as good as that by the tolerance,
 * in no more bytes, with as many slots of each rank; and nothing moves that does not pay. */

enum { TOKENS = 3000, REQUESTS = 12 };

typedef struct world {
    orr_arena *arena;
    orr_placement_draft running, fresh;
    const orr_routes *routes;
    orr_expert_windows windows;
    uint32_t group_of[REQUESTS];
    orr_expert_costs costs;
    orr_expert_options options;
    orr_expert_approach result;
    uint64_t seed;
} world;

/* Two placements of the same slots and a load that is balanced by neither; of one seed in two with
 * routes and costs of links. */
static void open_case(world *w, uint64_t seed)
{
    orr_random random = orr_random_of(seed, 0);
    orr_error err = {0};
    orr_expert_placement like = draw_shape(&random);
    *w = (world){.arena = orr_arena_new(0, 0), .seed = seed};
    like.experts = draw_from(&random, 2, DRAWN_EXPERTS);
    w->running = draw_placement(&like, 0.2 * orr_random_unit(&random), &random, w->arena);
    w->fresh = w->running;
    w->fresh.expert =
        orr_arena_array(w->arena, uint16_t, orr_expert_placement_slots(&w->running.placement));
    w->fresh.placement.expert = w->fresh.expert;
    /* Experts take each other's names: the same slots for all of them. */
    uint16_t name[DRAWN_EXPERTS];
    for (uint32_t e = 0; e < like.experts; e++) {
        const uint32_t at = draw_from(&random, 0, e);
        name[e] = name[at];
        name[at] = (uint16_t)e;
    }
    for (uint32_t s = 0; s < orr_expert_placement_slots(&w->running.placement); s++)
        w->fresh.expert[s] = name[w->running.expert[s]];
    w->routes = draw_routes(&w->running.placement, TOKENS,
                            draw_from(&random, 1, like.experts < 4 ? like.experts : 4), REQUESTS,
                            &random, w->arena);
    for (uint32_t i = 0; i < REQUESTS; i++)
        w->group_of[i] = draw_from(&random, 0, like.ranks - 1);
    w->costs = (orr_expert_costs){.host_bytes_per_s = 400e9,
                                  .network_bytes_per_s = 50e9,
                                  .row_ns = 100,
                                  .dispatch_bytes = 7168,
                                  .combine_bytes = 14336,
                                  .expert_bytes = 1e6,
                                  .tokens = 4096};
    if (orr_expert_windows_of_routes(w->routes, 1, w->arena, &w->windows, &err) != ORR_OK)
        seed_fail(seed, "%s", err.text);
    orr_expert_options_init(&w->options);
    w->options.windows = &w->windows;
    if (seed % 2 == 0) {
        w->options.routes = w->routes;
        w->options.group_of_request = w->group_of;
        w->options.costs = &w->costs;
    }
}

static void approach(world *w, double tolerance)
{
    orr_error err = {0};
    if (orr_experts_approach(&w->running.placement, &w->fresh.placement, &w->options, tolerance,
                             w->arena, &w->result, &err) != ORR_OK ||
        orr_expert_placement_check(&w->result.placement, NULL, 0, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
}

static double sum_of_imbalance(const world *w, const orr_expert_placement *p)
{
    double sum = 0;
    float share[DRAWN_EXPERTS * DRAWN_RANKS];
    double load[DRAWN_EXPERTS];
    void *room = orr_arena_alloc(w->arena, orr_experts_split_room(p), 1, 8);
    for (uint32_t l = 0; l < p->layers; l++) {
        memset(load, 0, sizeof load);
        memcpy(load, w->windows.load + (size_t)l * w->windows.experts,
               w->windows.experts * sizeof *load);
        sum += orr_experts_split(p, l, load, room, share);
    }
    return sum;
}

static void test_as_good_as_fresh_in_no_more_bytes(void **state)
{
    (void)state;
    const seed_range range = seeds(200);
    double bytes = 0, fresh_bytes = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        open_case(&w, seed);
        approach(&w, 0.01);
        const orr_expert_placement *p = &w.running.placement;
        if (memcmp(w.result.placement.first_slot, p->first_slot,
                   (size_t)p->layers * (p->ranks + 1) * sizeof(uint32_t)) != 0)
            seed_fail(seed, "ranks have other slots");
        if (w.result.bytes > w.result.fresh_bytes)
            seed_fail(seed, "%g bytes are moved, %g to the fresh one", w.result.bytes,
                      w.result.fresh_bytes);
        if (seed % 2 == 1) {
            const double is = sum_of_imbalance(&w, &w.result.placement),
                         fresh = sum_of_imbalance(&w, &w.fresh.placement);
            if (is > fresh * 1.01 * (1 + 1e-6))
                seed_fail(seed, "imbalance %g, of the fresh one %g", is, fresh);
        }
        bytes += w.result.bytes / w.costs.expert_bytes * (seed % 2 == 0);
        fresh_bytes += w.result.fresh_bytes / w.costs.expert_bytes * (seed % 2 == 0);
        orr_arena_free(w.arena);
    }
    if (range.end - range.begin > 1)
        assert_true(bytes < 0.5 * fresh_bytes);
}

static void test_nothing_moves_that_does_not_pay(void **state)
{
    (void)state;
    const seed_range range = seeds(100);
    uint32_t some = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        open_case(&w, seed);
        w.options.costs = &w.costs;
        w.options.horizon_steps = 1e-6;
        approach(&w, 0.01);
        if (w.result.bytes != 0)
            seed_fail(seed, "%g bytes are moved for a millionth of a step", w.result.bytes);
        w.options.horizon_steps = 1e12;
        approach(&w, 0.01);
        const double all = w.result.bytes;
        w.options.horizon_steps = 0;
        approach(&w, 0.01);
        if (all != w.result.bytes)
            seed_fail(seed, "%g bytes within 10^12 steps, %g without end", all, w.result.bytes);
        some += all > 0;
        orr_arena_free(w.arena);
    }
    if (range.end - range.begin > 1)
        assert_true(some > 50);
}

static void test_other_memory_is_the_fresh_placement(void **state)
{
    (void)state;
    world w;
    const bool dead[DRAWN_RANKS] = {true};
    open_case(&w, 5);
    w.options.dead = dead;
    approach(&w, 0.01);
    assert_memory_equal(w.result.placement.expert, w.fresh.expert,
                        orr_expert_placement_slots(&w.fresh.placement) * sizeof *w.fresh.expert);
    orr_arena_free(w.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_as_good_as_fresh_in_no_more_bytes),
        cmocka_unit_test(test_nothing_moves_that_does_not_pay),
        cmocka_unit_test(test_other_memory_is_the_fresh_placement),
    };
    return cmocka_run_group_tests_name("experts_approach", tests, NULL, NULL);
}
