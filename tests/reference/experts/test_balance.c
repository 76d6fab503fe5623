/* SPDX-License-Identifier: Apache-2.0 */
#include "maverick.h"

#include <math.h>

/* Loads of Llama 4 Maverick on MMLU, 24 layers of 128 experts (one layer has 99.9 % in one expert),
 * over 16 ranks: DeepSeek's balancer as its own code does, and ours against what is possible. */

enum { MOST_HOSTS = 4 };

static orr_arena *arena;
static orr_expert_windows windows;

static int new_arena(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena == NULL;
}

static int free_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static void need_loads(void)
{
    orr_expert_load load;
    orr_error err = {0};
    if (windows.load != NULL)
        return;
    if (orr_expert_load_read(maverick_path(), NULL, arena, &load, &err) != ORR_OK)
        fail_msg("%s", err.text);
    double *counts = orr_arena_array(arena, double, (size_t)load.layers *load.experts);
    assert_non_null(counts);
    for (uint32_t i = 0; i < load.layers * load.experts; i++)
        counts[i] = round(load.share[i] * (double)load.tokens);
    windows = (orr_expert_windows){1, load.layers, load.experts, load.number, counts, "maverick"};
}

static orr_expert_result place_layers(orr_expert_policy policy, uint32_t slots, uint32_t groups,
                                      uint32_t hosts, bool even_layers)
{
    orr_expert_options options;
    orr_expert_result result;
    orr_error err = {0};
    need_loads();
    orr_expert_options_init(&options);
    options.policy = (uint8_t)policy;
    options.windows = &windows;
    options.ranks = 16;
    options.host_ranks = 16 / hosts;
    options.slots = slots;
    options.expert_groups = groups;
    options.even_layers = even_layers;
    if (orr_experts_place(&options, arena, &result, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return result;
}

static orr_expert_result place(orr_expert_policy policy, uint32_t slots, uint32_t groups,
                               uint32_t hosts)
{
    return place_layers(policy, slots, groups, hosts, true);
}

static void eplb_is_as_measured_by_its_own_code(void **state)
{
    (void)state;
    static const struct {
        uint32_t slots;
        double mean, worst;
    } rows[] = {{144, 1.038, 1.880}, {160, 1.020, 1.453}, {256, 1.006, 1.115}};
    for (int i = 0; i < 3; i++) {
        const orr_expert_quality q = place(ORR_EXPERT_POLICY_EPLB, rows[i].slots, 1, 1).quality;
        assert_true(fabs(q.imbalance_mean - rows[i].mean) < 0.001);
        assert_true(fabs(q.imbalance_worst - rows[i].worst) < 0.001);
        assert_true(i > 0 || q.doubled_slots > 0);
    }
}

static void loads_are_balanced(void **state)
{
    (void)state;
    static const uint32_t slots[] = {144, 160, 256};
    for (int i = 0; i < 3; i++) {
        const orr_expert_result result = place(ORR_EXPERT_POLICY_BEST, slots[i], 1, 1);
        const orr_expert_quality *q = &result.quality;
        print_message("%u slots: mean %.5f, worst %.5f (layer %u)\n", slots[i], q->imbalance_mean,
                      q->imbalance_worst, windows.number[q->worst_layer]);
        assert_true(q->imbalance_mean <= 1.001 && q->imbalance_worst <= 1.002);
        assert_int_equal(q->doubled_slots, 0);
        assert_int_equal(orr_expert_placement_slots(&result.placement), slots[i] * windows.layers);
    }
}

/* Half the copies are enough where they may move to the layers that need them. */
static void half_the_copies_are_enough(void **state)
{
    (void)state;
    const orr_expert_result even = place(ORR_EXPERT_POLICY_BEST, 136, 1, 1),
                            moved = place_layers(ORR_EXPERT_POLICY_BEST, 136, 1, 1, false);
    print_message("136 slots: mean %.5f, worst %.5f; moved: %.5f, %.5f\n",
                  even.quality.imbalance_mean, even.quality.imbalance_worst,
                  moved.quality.imbalance_mean, moved.quality.imbalance_worst);
    assert_true(even.quality.imbalance_worst > 1.7);
    assert_true(moved.quality.imbalance_mean <= 1.001 && moved.quality.imbalance_worst <= 1.002);
    assert_true(orr_expert_placement_slots(&moved.placement) <= 136 * windows.layers);
}

/* Without copies the expert with nearly all tokens fills its rank: nothing can be better. */
static void without_copies_the_hot_expert_is_the_bound(void **state)
{
    (void)state;
    const orr_expert_result result = place(ORR_EXPERT_POLICY_BEST, 128, 1, 1);
    assert_true(result.quality.imbalance_worst > 15.9);
    assert_true(fabs(result.quality.imbalance_worst / result.bound_imbalance - 1) < 1e-5);
}

/* The least load that the fullest host can have, over all ways to lay groups on hosts. */
static double best_of_packings(const double *group, uint32_t n, uint32_t hosts, double *sum,
                               uint32_t *count, uint32_t groups)
{
    double best = INFINITY;
    if (n == 0) {
        best = 0;
        for (uint32_t h = 0; h < hosts; h++)
            best = fmax(best, sum[h]);
        return best;
    }
    for (uint32_t h = 0; h < hosts; h++) {
        if (count[h] == groups / hosts)
            continue;
        count[h]++;
        sum[h] += group[n - 1];
        best = fmin(best, best_of_packings(group, n - 1, hosts, sum, count, groups));
        sum[h] -= group[n - 1];
        count[h]--;
    }
    return best;
}

static double rank_load_of(const orr_expert_placement *p, uint32_t layer)
{
    double most = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        const uint32_t *first = p->first_slot + layer * (p->ranks + 1) + r;
        double sum = 0;
        for (uint32_t s = first[0]; s < first[1]; s++)
            sum += windows.load[layer * p->experts + p->expert[s]] * (double)p->share[s];
        most = fmax(most, sum);
    }
    return most;
}

static void groups_stay_on_hosts(const orr_expert_placement *p, uint32_t groups)
{
    for (uint32_t l = 0; l < p->layers; l++) {
        uint32_t host[16];
        memset(host, 255, sizeof host);
        for (uint32_t r = 0; r < p->ranks; r++) {
            const uint32_t *first = p->first_slot + l * (p->ranks + 1) + r;
            for (uint32_t s = first[0]; s < first[1]; s++) {
                uint32_t *at = &host[p->expert[s] / (p->experts / groups)];
                assert_true(*at == UINT32_MAX || *at == r / p->host_ranks);
                *at = r / p->host_ranks;
            }
        }
    }
}

static void groups_are_packed_as_well_as_can_be(void **state)
{
    (void)state;
    static const uint32_t shapes[][3] = {/* slots, groups, hosts */
                                         {144, 8, 4},
                                         {160, 8, 4},
                                         {256, 8, 2},
                                         {160, 16, 2}};
    for (int i = 0; i < 4; i++) {
        const uint32_t groups = shapes[i][1], hosts = shapes[i][2];
        const orr_expert_result result = place(ORR_EXPERT_POLICY_BEST, shapes[i][0], groups, hosts);
        groups_stay_on_hosts(&result.placement, groups);
        for (uint32_t l = 0; l < windows.layers; l++) {
            double group[16] = {0}, sum[MOST_HOSTS] = {0};
            uint32_t count[MOST_HOSTS] = {0};
            for (uint32_t e = 0; e < windows.experts; e++)
                group[e / (windows.experts / groups)] += windows.load[l * windows.experts + e];
            const double best = best_of_packings(group, groups, hosts, sum, count, groups) /
                                (16.0 / hosts),
                         got = rank_load_of(&result.placement, l);
            if (got > 1.002 * best)
                fail_msg("%u slots, %u groups on %u hosts, layer %u: %.1f, best packing %.1f",
                         shapes[i][0], groups, hosts, windows.number[l], got, best);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(eplb_is_as_measured_by_its_own_code),
        cmocka_unit_test(loads_are_balanced),
        cmocka_unit_test(half_the_copies_are_enough),
        cmocka_unit_test(without_copies_the_hot_expert_is_the_bound),
        cmocka_unit_test(groups_are_packed_as_well_as_can_be),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
