/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/experts.h>

/* What orr_experts_place() refuses and says, and what the linear policy does. */

enum { EXPERTS = 6 };

static double load[2 * EXPERTS];
static const uint32_t number[2] = {4, 7};
static orr_expert_windows windows;
static orr_expert_options options;
static orr_arena *arena;

static int even_loads(void **state)
{
    (void)state;
    for (int i = 0; i < 2 * EXPERTS; i++)
        load[i] = 1;
    windows = (orr_expert_windows){1, 2, EXPERTS, number, load, "loads"};
    orr_expert_options_init(&options);
    options.policy = ORR_EXPERT_POLICY_LINEAR;
    options.windows = &windows;
    options.ranks = 4;
    options.host_ranks = 2;
    arena = orr_arena_new(0, 0);
    return arena == NULL;
}

static int free_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static void refused(orr_status want, const char *text)
{
    orr_expert_result result;
    orr_error err = {0};
    assert_int_equal(orr_experts_place(&options, arena, &result, &err), want);
    if (strstr(err.text, text) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, text);
}

static orr_expert_result place(void)
{
    orr_expert_result result;
    orr_error err = {0};
    if (orr_experts_place(&options, arena, &result, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return result;
}

static void loads_that_are_none_are_refused(void **state)
{
    (void)state;
    const double wrong[] = {NAN, -1, INFINITY};
    for (int i = 0; i < 3; i++) {
        load[EXPERTS + 2] = wrong[i];
        refused(ORR_INVALID, "layer 7: the load of expert 2");
    }
    options.windows = NULL;
    refused(ORR_INVALID, "neither routes nor loads");
}

static void shapes_that_cannot_be_are_refused(void **state)
{
    (void)state;
    static const bool dead[4] = {true, true, true, true};
    options.slots = EXPERTS - 1;
    refused(ORR_INVALID, "5 slots for 6 experts");
    options.slots = 0;
    options.expert_groups = 3;
    refused(ORR_INVALID, "2 hosts do not divide 3 groups");
    options.expert_groups = 4;
    refused(ORR_INVALID, "4 groups do not divide 6 experts");
    options.expert_groups = 0;
    options.dead = dead;
    refused(ORR_INVALID, "all 4 ranks are dead");
    options.dead = NULL;
    options.ranks = 0;
    refused(ORR_INVALID, "0 ranks");
    options.ranks = 4;
    options.policy = ORR_EXPERT_POLICIES;
    refused(ORR_INVALID, "policy");
}

static void neighbours_stand_together(void **state)
{
    (void)state;
    static const uint16_t want[] = {0, 1, 2, 2, 3, 4, 4, 5, 5, 0};
    options.slots = 10;
    const orr_expert_placement p = place().placement;
    for (int i = 0; i < 10; i++)
        assert_int_equal(p.expert[i], want[i]);
    assert_true(p.share[0] == 0.5F && p.share[1] == 1);
}

static void the_least_loaded_experts_are_missing(void **state)
{
    (void)state;
    static const bool dead[4] = {false, true, false, false};
    load[1] = 0.5;
    load[EXPERTS + 4] = load[EXPERTS + 5] = 0;
    options.dead = dead;
    options.slots = 8;
    assert_int_equal(place().n_missing, 0);
    options.slots = EXPERTS;
    options.ranks = 3;
    for (int policy = 0; policy < 3; policy++) {
        static const orr_expert_policy policies[] = {
            ORR_EXPERT_POLICY_LINEAR, ORR_EXPERT_POLICY_EPLB, ORR_EXPERT_POLICY_BEST};
        options.policy = (uint8_t)policies[policy];
        const orr_expert_result result = place();
        const uint32_t missing[4][2] = {{0, 1}, {0, 5}, {1, 4}, {1, 5}};
        assert_int_equal(result.n_missing, 4);
        assert_memory_equal(result.missing, missing, sizeof missing);
        assert_int_equal(orr_expert_placement_check(&result.placement, result.missing, 4, NULL),
                         ORR_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(loads_that_are_none_are_refused, even_loads, free_arena),
        cmocka_unit_test_setup_teardown(shapes_that_cannot_be_are_refused, even_loads, free_arena),
        cmocka_unit_test_setup_teardown(neighbours_stand_together, even_loads, free_arena),
        cmocka_unit_test_setup_teardown(the_least_loaded_experts_are_missing, even_loads,
                                        free_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
