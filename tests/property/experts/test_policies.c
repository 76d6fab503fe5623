/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/experts.h>

#include "base/philox.h"
#include "experts/policy/solver.h"
#include "../support/naive_eplb.h"
#include "../support/seeds.h"

/* Placements by loads, over random shapes and loads: valid, not below their bound, against plain
 * loops and against all placements of small cases. */

enum { LAYERS = 3, EXPERTS = 96, RANKS = 16, SLOTS = 256 };

typedef struct world {
    orr_arena *arena;
    orr_random random;
    uint64_t seed;
    uint32_t number[LAYERS];
    double load[LAYERS * EXPERTS];
    orr_expert_windows windows;
    orr_expert_options options;
    bool dead[RANKS];
} world;

static uint32_t from_to(world *w, uint32_t least, uint32_t most)
{
    return least + (uint32_t)orr_random_below(&w->random, most - least + 1);
}

/* Loads: even, skewed, with zeros, one expert with nearly all, few different ones, none. */
static void draw_loads(world *w, bool ties)
{
    const uint32_t n = w->windows.layers * w->windows.experts;
    const uint32_t kind = ties ? from_to(w, 0, 5) : from_to(w, 0, 1);
    const uint32_t hot = from_to(w, 0, w->windows.experts - 1);
    for (uint32_t i = 0; i < n; i++) {
        const double u = orr_random_unit(&w->random);
        const double loads[] = {100 + u,         1000 * pow(u, 6),
                                u < 0.4 ? 0 : u, i % w->windows.experts == hot ? 1e6 : u,
                                floor(4 * u),    0};
        w->load[i] = loads[kind];
    }
}

static void open_case(world *w, uint64_t seed, uint32_t experts, uint32_t ranks)
{
    *w = (world){.arena = orr_arena_new(0, 0), .seed = seed, .random = orr_random_of(seed, 0)};
    assert_non_null(w->arena);
    for (uint32_t l = 0; l < LAYERS; l++)
        w->number[l] = 3 + 2 * l;
    w->windows = (orr_expert_windows){
        1, from_to(w, 1, LAYERS), from_to(w, 1, experts), w->number, w->load, "drawn"};
    orr_expert_options_init(&w->options);
    w->options.windows = &w->windows;
    w->options.ranks = from_to(w, 1, ranks);
    w->options.host_ranks = from_to(w, 1, w->options.ranks);
    w->options.even_layers = orr_random_below(&w->random, 2);
}

static void close_case(world *w)
{
    orr_arena_free(w->arena);
}

static orr_expert_result place(world *w, orr_expert_policy policy)
{
    orr_expert_result result;
    orr_error err = {0};
    w->options.policy = (uint8_t)policy;
    if (orr_experts_place(&w->options, w->arena, &result, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
    return result;
}

/* In each layer where layers are to be even, else over all layers; the dead have none. */
static void ranks_have_no_more_than_their_slots(const world *w, const orr_expert_placement *p)
{
    for (uint32_t r = 0; r < p->ranks; r++) {
        const uint32_t own = w->options.slots / p->ranks + (r < w->options.slots % p->ranks);
        uint32_t all = 0;
        for (uint32_t l = 0; l < p->layers; l++) {
            const uint32_t *first = p->first_slot + l * (p->ranks + 1) + r;
            assert_true(!w->options.even_layers || first[1] - first[0] <= own);
            all += first[1] - first[0];
        }
        assert_true(all <= (w->dead[r] ? 0 : own * p->layers));
    }
}

static void each_is_valid(uint64_t seed)
{
    static const orr_expert_policy policies[] = {ORR_EXPERT_POLICY_LINEAR, ORR_EXPERT_POLICY_EPLB,
                                                 ORR_EXPERT_POLICY_BEST};
    world w;
    open_case(&w, seed, EXPERTS, RANKS);
    draw_loads(&w, true);
    const uint32_t experts = w.windows.experts;
    w.options.slots = from_to(&w, experts, experts + (SLOTS - EXPERTS) / 2);
    uint32_t live = w.options.ranks;
    for (uint32_t r = 0; r + 1 < w.options.ranks && orr_random_below(&w.random, 3) == 0; r++) {
        w.dead[r] = true;
        live--;
    }
    w.options.dead = w.dead;
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        const orr_expert_result result = place(&w, policies[i]);
        const orr_expert_placement *p = &result.placement;
        orr_error err = {0};
        if (orr_expert_placement_check(p, result.missing, result.n_missing, &err) != ORR_OK)
            seed_fail(seed, "%s: %s", p->policy, err.text);
        if (live == w.options.ranks)
            assert_int_equal(result.n_missing, 0);
        if (policies[i] != ORR_EXPERT_POLICY_EPLB)
            assert_int_equal(result.quality.doubled_slots, 0);
        ranks_have_no_more_than_their_slots(&w, p);
        if (policies[i] == ORR_EXPERT_POLICY_BEST)
            assert_true(result.quality.imbalance_worst >= result.bound_imbalance * (1 - 1e-5));
    }
    close_case(&w);
}

static void eplb_equals_plain_loops_on(uint64_t seed)
{
    static const uint32_t shapes[][5] = {/* experts, slots, groups, hosts, ranks */
                                         {64, 80, 8, 4, 16}, {96, 96, 6, 3, 12}, {48, 64, 1, 1, 16},
                                         {60, 120, 4, 2, 4}, {32, 48, 4, 4, 8},  {7, 14, 1, 1, 7}};
    const uint32_t *s = shapes[seed % (sizeof shapes / sizeof *shapes)];
    uint16_t want[SLOTS];
    world w;
    open_case(&w, seed, EXPERTS, RANKS);
    w.windows.experts = s[0];
    w.options.slots = s[1];
    w.options.expert_groups = s[2];
    w.options.ranks = s[4];
    w.options.host_ranks = s[4] / s[3];
    draw_loads(&w, true);
    const orr_expert_result result = place(&w, ORR_EXPERT_POLICY_EPLB);
    for (uint32_t l = 0; l < w.windows.layers; l++) {
        naive_eplb(w.load + (size_t)l * s[0], s[0], s[1], s[2], s[3], s[4], want);
        for (uint32_t i = 0; i < s[1]; i++)
            if (result.placement.expert[l * s[1] + i] != want[i])
                seed_fail(seed, "layer %u, slot %u: expert %u, not %u", l, i,
                          result.placement.expert[l * s[1] + i], want[i]);
    }
    close_case(&w);
}

/* Names of experts mean nothing: other numbers, the same balance. */
static void numbers_of_experts_do_not_matter_to(uint64_t seed)
{
    world w;
    uint32_t to[EXPERTS];
    double before[LAYERS * EXPERTS];
    open_case(&w, seed, EXPERTS, RANKS);
    draw_loads(&w, false);
    const uint32_t n = w.windows.experts;
    w.options.slots = n + w.options.ranks;
    memcpy(before, w.load, sizeof before);
    const orr_expert_quality was = place(&w, ORR_EXPERT_POLICY_BEST).quality;
    for (uint32_t e = 0; e < n; e++) {
        const uint32_t other = from_to(&w, 0, e);
        to[e] = to[other];
        to[other] = e;
    }
    for (uint32_t l = 0; l < w.windows.layers; l++)
        for (uint32_t e = 0; e < n; e++)
            w.load[l * n + to[e]] = before[l * n + e];
    const orr_expert_quality now = place(&w, ORR_EXPERT_POLICY_BEST).quality;
    if (fabs(was.imbalance_worst - now.imbalance_worst) > 0.01)
        seed_fail(seed, "%.6f, with other numbers %.6f", was.imbalance_worst, now.imbalance_worst);
    close_case(&w);
}

/* A free slot on each rank but one is enough for balance, up to loads that are all on one rank. */
static void a_slot_a_rank_is_enough_for(uint64_t seed)
{
    world w;
    open_case(&w, seed, EXPERTS, RANKS);
    draw_loads(&w, true);
    const uint32_t n = w.windows.experts;
    w.options.slots = n + w.options.ranks;
    w.options.even_layers = true;
    const orr_expert_result some = place(&w, ORR_EXPERT_POLICY_BEST);
    const orr_expert_result eplb = place(&w, ORR_EXPERT_POLICY_EPLB);
    if (some.quality.imbalance_worst > eplb.quality.imbalance_worst * (1 + 1e-5))
        seed_fail(seed, "%.6f, eplb %.6f", some.quality.imbalance_worst,
                  eplb.quality.imbalance_worst);
    w.options.slots += w.options.ranks;
    const orr_expert_result more = place(&w, ORR_EXPERT_POLICY_BEST);
    if (more.quality.imbalance_mean > some.quality.imbalance_mean * (1 + 1e-5))
        seed_fail(seed, "%.6f, with more slots %.6f", some.quality.imbalance_mean,
                  more.quality.imbalance_mean);
    if (n >= 4 * w.options.ranks && some.quality.imbalance_worst > 1.005 * some.bound_imbalance)
        seed_fail(seed, "%.6f, bound %.6f", some.quality.imbalance_worst, some.bound_imbalance);
    close_case(&w);
}

static uint32_t harm, helped;

/* Load of the fullest rank, summed over layers. */
static double fullest(const world *w, const orr_expert_placement *p)
{
    double ret = 0;
    for (uint32_t l = 0; l < p->layers; l++) {
        double most = 0;
        for (uint32_t r = 0; r < p->ranks; r++) {
            const uint32_t *first = p->first_slot + l * (p->ranks + 1) + r;
            double sum = 0;
            for (uint32_t s = first[0]; s < first[1]; s++)
                sum += w->load[l * p->experts + p->expert[s]] * (double)p->share[s];
            most = fmax(most, sum);
        }
        ret += most;
    }
    return ret;
}

/* Layers that may have different numbers of slots are not worse off together. */
static void slots_that_move_do_not_harm(uint64_t seed)
{
    world w;
    open_case(&w, seed, EXPERTS, RANKS);
    draw_loads(&w, true);
    w.windows.layers = LAYERS;
    for (uint32_t e = 0; e < w.windows.experts; e++) { /* of equally many tokens in each layer */
        w.load[e] = 1;
        w.load[w.windows.experts + e] = e == 0 ? 9 * w.windows.experts : 0.1;
        w.load[2 * w.windows.experts + e] = 1 + 1 / (1.0 + e);
    }
    w.options.slots = w.windows.experts + from_to(&w, 0, w.options.ranks);
    w.options.even_layers = true;
    const orr_expert_result even = place(&w, ORR_EXPERT_POLICY_BEST);
    w.options.even_layers = false;
    const orr_expert_result moved = place(&w, ORR_EXPERT_POLICY_BEST);
    orr_error err = {0};
    if (orr_expert_placement_check(&moved.placement, NULL, 0, &err) != ORR_OK)
        seed_fail(seed, "%s", err.text);
    ranks_have_no_more_than_their_slots(&w, &moved.placement);
    harm += fullest(&w, &moved.placement) > fullest(&w, &even.placement) * (1 + 1e-5);
    helped += fullest(&w, &moved.placement) < fullest(&w, &even.placement) * (1 - 1e-3);
    close_case(&w);
}

/* --- all placements of small cases ------------------------------------------------------------ */

enum { FEW_EXPERTS = 8, FEW_RANKS = 4 };

/* The lowest load of the fullest rank for experts that stand on the ranks of these sets: by duality
 * the largest average, over sets of ranks, of the load that cannot leave the set. */
static double split_optimum(const double *load, const uint32_t *holders, uint32_t experts,
                            uint32_t ranks)
{
    double best = 0;
    for (uint32_t set = 1; set < 1U << ranks; set++) {
        double sum = 0;
        for (uint32_t e = 0; e < experts; e++)
            sum += (holders[e] & ~set) == 0 ? load[e] : 0;
        best = fmax(best, sum / __builtin_popcount(set));
    }
    return best;
}

/* Of all sets of ranks for the experts from `e` on that fit into the room that is left. */
static double optimum_from(const double *load, uint32_t *holders, uint32_t e, uint32_t experts,
                           uint32_t *room, uint32_t ranks)
{
    double best = INFINITY;
    if (e == experts)
        return split_optimum(load, holders, experts, ranks);
    for (uint32_t set = 1; set < 1U << ranks; set++) {
        bool fits = true;
        for (uint32_t r = 0; r < ranks; r++)
            fits &= room[r] >= (set >> r & 1);
        if (!fits)
            continue;
        for (uint32_t r = 0; r < ranks; r++)
            room[r] -= set >> r & 1;
        holders[e] = set;
        best = fmin(best, optimum_from(load, holders, e + 1, experts, room, ranks));
        for (uint32_t r = 0; r < ranks; r++)
            room[r] += set >> r & 1;
    }
    return best;
}

static double optimum_of(const double *load, uint32_t experts, uint32_t slots, uint32_t ranks)
{
    uint32_t holders[FEW_EXPERTS], room[FEW_RANKS];
    for (uint32_t r = 0; r < ranks; r++)
        room[r] = slots / ranks + (r < slots % ranks);
    return optimum_from(load, holders, 0, experts, room, ranks);
}

/* A small case of one layer with loads, and the imbalance of its best placement. */
static double open_small_case(world *w, uint64_t seed)
{
    double sum = 0;
    open_case(w, seed, FEW_EXPERTS, FEW_RANKS);
    draw_loads(w, true);
    w->windows.layers = 1;
    const uint32_t n = w->windows.experts, ranks = w->options.ranks;
    w->options.slots = from_to(w, n, n * ranks < n + 2 ? n * ranks : n + 2);
    for (uint32_t e = 0; e < n; e++)
        sum += w->load[e];
    return sum == 0 ? 1
                    : optimum_of(w->load, n, w->options.slots, ranks) *
                          (ranks < w->options.slots ? ranks : w->options.slots) / sum;
}

static double worst_gap, sum_gap;
static uint32_t gaps;

static void best_is_near_the_optimum_of(uint64_t seed)
{
    world w;
    const double best = open_small_case(&w, seed);
    const orr_expert_result result = place(&w, ORR_EXPERT_POLICY_BEST);
    const double got = result.quality.imbalance_worst;
    if (result.bound_imbalance > best * (1 + 1e-5) || got < best * (1 - 1e-5))
        seed_fail(seed, "%.6f, bound %.6f, best of all %.6f", got, result.bound_imbalance, best);
    worst_gap = fmax(worst_gap, got / best - 1);
    sum_gap += got / best - 1;
    gaps++;
    close_case(&w);
}

static void ilp_is_the_optimum_of(uint64_t seed)
{
    world w;
    const double best = open_small_case(&w, seed);
    const orr_expert_result result = place(&w, ORR_EXPERT_POLICY_ILP);
    orr_error err = {0};
    if (fabs(result.quality.imbalance_worst - best) > 1e-5 * best ||
        fabs(result.bound_imbalance - best) > 1e-5 * best)
        seed_fail(seed, "%.6f, bound %.6f, best of all %.6f", result.quality.imbalance_worst,
                  result.bound_imbalance, best);
    if (orr_expert_placement_check(&result.placement, NULL, 0, &err) != ORR_OK)
        seed_fail(seed, "%s", err.text);
    close_case(&w);
}

static void for_each_seed(uint64_t count, void (*test)(uint64_t seed))
{
    const seed_range range = seeds(count);
    for (uint64_t seed = range.begin; seed < range.end; seed++)
        test(seed);
}

static void placements_are_valid(void **state)
{
    (void)state;
    for_each_seed(400, each_is_valid);
}

static void eplb_equals_plain_loops(void **state)
{
    (void)state;
    for_each_seed(300, eplb_equals_plain_loops_on);
}

static void numbers_of_experts_do_not_matter(void **state)
{
    (void)state;
    for_each_seed(100, numbers_of_experts_do_not_matter_to);
}

static void a_slot_a_rank_is_enough(void **state)
{
    (void)state;
    for_each_seed(300, a_slot_a_rank_is_enough_for);
}

static void slots_move_to_layers_that_need_them(void **state)
{
    (void)state;
    for_each_seed(200, slots_that_move_do_not_harm);
    print_message("%u cases helped by slots that move\n", helped);
    assert_int_equal(harm, 0);
    assert_true(helped >= 20 || getenv("ORRERY_SEED") != NULL);
}

static void best_is_near_the_optimum(void **state)
{
    (void)state;
    for_each_seed(200, best_is_near_the_optimum_of);
    print_message("%u cases: gap to the best of all placements %.4f at most, %.5f on average\n",
                  gaps, worst_gap, sum_gap / gaps);
    assert_true(worst_gap <= 0.1 && sum_gap / gaps <= 0.005);
}

static void ilp_is_the_optimum(void **state)
{
    (void)state;
    static const char nothing[] = "/dev/null";
    orr_error err = {0};
    if (orr_solver_run(nothing, nothing, 1, NULL, &err) == ORR_UNSUPPORTED) {
        print_message("skipped: %s\n", err.text);
        skip();
    }
    for_each_seed(20, ilp_is_the_optimum_of);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(placements_are_valid),
        cmocka_unit_test(eplb_equals_plain_loops),
        cmocka_unit_test(numbers_of_experts_do_not_matter),
        cmocka_unit_test(a_slot_a_rank_is_enough),
        cmocka_unit_test(slots_move_to_layers_that_need_them),
        cmocka_unit_test(best_is_near_the_optimum),
        cmocka_unit_test(ilp_is_the_optimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
