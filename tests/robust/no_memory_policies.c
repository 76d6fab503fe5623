/* SPDX-License-Identifier: Apache-2.0 */
/* Experts placed by their loads while allocations fail. Every piece that an arena gives is an
 * allocation here: its blocks hold no more than one. */
#include <orrery/experts.h>

#include "failing.h"
#include "leaks.h"

enum { SMALLEST_BLOCK = 1, LAYERS = 2, EXPERTS = 12 };

static uint32_t number[LAYERS] = {1, 3};
static double load[LAYERS * EXPERTS] = {90, 132, 40, 61, 104, 165, 39,  4,   73,  56, 183, 86,
                                        20, 107, 2,  64, 19,  900, 187, 157, 172, 86, 16,  27};

static orr_status place(orr_expert_policy policy, uint32_t slots, uint32_t hosts, const bool *dead,
                        orr_error *err)
{
    /* A solver that has little to do: it runs for each allocation after it. */
    const bool small = policy == ORR_EXPERT_POLICY_ILP;
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    const orr_expert_windows windows = {
        1, small ? 1 : LAYERS, small ? 4 : EXPERTS, number, load, "loads"};
    orr_expert_options o;
    orr_expert_result result;
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    orr_expert_options_init(&o);
    o.policy = (uint8_t)policy;
    o.windows = &windows;
    o.ranks = small ? 2 : 4;
    o.host_ranks = o.ranks / hosts;
    o.slots = slots;
    o.expert_groups = 2 * hosts;
    o.dead = dead;
    if (status == ORR_OK)
        status = orr_experts_place(&o, arena, &result, err);
    orr_arena_free(arena);
    return status;
}

static orr_status linear(orr_error *err)
{
    return place(ORR_EXPERT_POLICY_LINEAR, 16, 1, NULL, err);
}

static orr_status eplb_on_hosts(orr_error *err)
{
    return place(ORR_EXPERT_POLICY_EPLB, 16, 2, NULL, err);
}

static orr_status best_on_hosts(orr_error *err)
{
    return place(ORR_EXPERT_POLICY_BEST, 16, 2, NULL, err);
}

static orr_status best_that_has_to_search(orr_error *err)
{
    return place(ORR_EXPERT_POLICY_BEST, 13, 1, NULL, err);
}

static orr_status best_without_room_for_all(orr_error *err)
{
    static const bool dead[4] = {false, true, false, false};
    return place(ORR_EXPERT_POLICY_BEST, 12, 1, dead, err);
}

/* By routes, of groups of requests, with a spare slot on each of four ranks. */
static orr_status place_by_routes(orr_expert_policy policy, orr_error *err)
{
    static const uint32_t group_of[16] = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
    static const orr_expert_costs costs = {.host_bytes_per_s = 1e9,
                                           .network_bytes_per_s = 1e9,
                                           .row_ns = 1,
                                           .dispatch_bytes = 1,
                                           .combine_bytes = 1,
                                           .tokens = 8};
    const orr_routes_drawn drawn = {.layers = 2,
                                    .experts = 8,
                                    .top_k = 2,
                                    .requests = 16,
                                    .prompt = 1,
                                    .kinds = 2,
                                    .affinity = 0.5};
    orr_arena *arena = orr_arena_new(SMALLEST_BLOCK, 0);
    orr_expert_options o;
    orr_expert_result result;
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    orr_expert_options_init(&o);
    o.policy = (uint8_t)policy;
    o.ranks = 4;
    o.slots = 12;
    o.group_of_request = group_of;
    o.request_groups = 2;
    o.costs = &costs;
    if (status == ORR_OK)
        status = orr_routes_draw(&drawn, arena, &o.routes, err);
    if (status == ORR_OK)
        status = orr_experts_place(&o, arena, &result, err);
    orr_arena_free(arena);
    return status;
}

static orr_status best_by_routes(orr_error *err)
{
    return place_by_routes(ORR_EXPERT_POLICY_BEST, err);
}

static orr_status affinity(orr_error *err)
{
    return place_by_routes(ORR_EXPERT_POLICY_AFFINITY, err);
}

static orr_status coactivation(orr_error *err)
{
    return place_by_routes(ORR_EXPERT_POLICY_COACTIVATION, err);
}

/* Without a solver on the PATH it is refused, which is an end as well. */
static orr_status ilp(orr_error *err)
{
    const orr_status status = place(ORR_EXPERT_POLICY_ILP, 5, 1, NULL, err);
    return status == ORR_UNSUPPORTED ? ORR_OK : status;
}

TEST_OF(linear)
TEST_OF(eplb_on_hosts)
TEST_OF(best_on_hosts)
TEST_OF(best_that_has_to_search)
TEST_OF(best_without_room_for_all)
TEST_OF(best_by_routes)
TEST_OF(affinity)
TEST_OF(coactivation)
TEST_OF(ilp)

int main(int argc, char **argv)
{
    (void)argc;
    restart_without_caches(argv);
    const struct CMUnitTest tests[] = {
        TEST(linear),
        TEST(eplb_on_hosts),
        TEST(best_on_hosts),
        TEST(best_that_has_to_search),
        TEST(best_without_room_for_all),
        TEST(best_by_routes),
        TEST(affinity),
        TEST(coactivation),
        TEST(ilp),
    };
    return cmocka_run_group_tests_name("no_memory_policies", tests, make_folder, remove_folder);
}
