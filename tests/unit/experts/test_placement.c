/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "experts/placement/index.h"
#include "placements.h"

static orr_arena *arena;

static int open_arena(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena != NULL ? 0 : -1;
}

static int close_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

static void assert_refused(const orr_expert_placement *p, const char *why)
{
    orr_error err = {.text = ""};
    assert_int_equal(orr_expert_placement_check(p, NULL, 0, &err), ORR_INVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, why);
}

static void test_valid_placements_pass(void **state)
{
    (void)state;
    const char *const lines[] = {"0 1|2 3|1|", "3|2 0 2|1 0|"};
    orr_placement_draft d = placement_of(lines, 2, 4, 4, 2, arena);
    orr_error err = {.text = ""};
    assert_int_equal(orr_expert_placement_check(&d.placement, NULL, 0, &err), ORR_OK);
    assert_int_equal(orr_expert_placement_slots(&d.placement), 11);
    assert_int_equal(orr_placement_first(&d.placement, 1, 2), 9);
    for (uint32_t s = 0; s < 5; s++)
        assert_int_equal(orr_placement_rank(&d.placement, 0, s), (s >= 2) + (s >= 4));
    assert_true(d.share[1] == 0.5F && d.share[0] == 1);
}

static void test_what_is_wrong_is_named(void **state)
{
    (void)state;
    const char *const missing[] = {"0 1|2 3", "0 1|2 0"}, *const good[] = {"0 1|2 3", "0 1|2 3"};
    orr_placement_draft d = placement_of(missing, 2, 4, 2, 2, arena);
    assert_refused(&d.placement, "layer 3: expert 3 is on no rank");
    d = placement_of(good, 2, 4, 2, 2, arena);
    d.share[1] = 0.9F;
    assert_refused(&d.placement, "layer 1, expert 1: shares of its copies sum to 0.9");
    d.share[1] = -1;
    assert_refused(&d.placement, "layer 1, rank 0, expert 1: a share of -1");
    d.share[1] = 1;
    d.expert[7] = 4;
    assert_refused(&d.placement, "layer 3, rank 1: expert 4 is none of the 4");
    d.expert[7] = 3;
    ((uint32_t *)(uintptr_t)d.placement.number)[1] = 1;
    assert_refused(&d.placement, "layer 1 after layer 1");
    d.placement.host_ranks = 0;
    assert_refused(&d.placement, "at least 1 of each");
}

static void test_experts_named_as_missing_pass(void **state)
{
    (void)state;
    const char *const lines[] = {"0 1|2", "0 1|2 3"};
    const uint32_t named[][2] = {{1, 3}, {0, 3}};
    orr_placement_draft d = placement_of(lines, 2, 4, 2, 2, arena);
    orr_error err = {.text = ""};
    assert_int_equal(orr_expert_placement_check(&d.placement, named, 2, &err), ORR_OK);
    assert_int_equal(orr_expert_placement_check(&d.placement, named, 1, &err), ORR_INVALID);
}

static void test_slots_of_ranks_that_do_not_divide(void **state)
{
    (void)state;
    const bool dead[] = {false, true, false, false};
    uint32_t n[4];
    orr_placement_rank_slots(10, 4, NULL, n);
    assert_true(n[0] == 3 && n[1] == 3 && n[2] == 2 && n[3] == 2);
    orr_placement_rank_slots(10, 4, dead, n);
    assert_true(n[0] == 3 && n[1] == 0 && n[2] == 2 && n[3] == 2);
}

/* --- the copy that a token goes to ------------------------------------------------------------ */

static void test_own_rank_then_own_host_then_all(void **state)
{
    (void)state;
    /* Hosts {0, 1} and {2, 3}; expert 0 is on ranks 0, 2, 3, expert 1 on 1, expert 2 nowhere. */
    const char *const lines[] = {"0|1|0|0"};
    orr_placement_draft d = placement_of(lines, 1, 3, 4, 2, arena);
    const uint16_t choice[] = {0, 1, 2};
    d.placement.nearest = true;
    for (uint32_t t = 0; t < 100; t++) {
        uint32_t slot[3];
        for (uint32_t rank = 0; rank < 4; rank++) {
            const orr_expert_token token = {.request = t, .position = 7, .rank = rank};
            orr_experts_slots(&d.placement, 0, &token, choice, 3, false, slot);
            assert_int_equal(slot[0], rank == 1 ? 0 : rank); /* rank 1 has rank 0 on its host */
            assert_int_equal(slot[1], 1);
            assert_int_equal(slot[2], UINT32_MAX);
        }
    }
}

static void test_tokens_fall_by_shares_and_by_nothing_else(void **state)
{
    (void)state;
    enum { TOKENS = 20000 };
    const char *const lines[] = {"0|0|0|1"};
    orr_placement_draft d = placement_of(lines, 1, 2, 4, 4, arena);
    const float share[] = {0.7F, 0.0F, 0.3F, 1};
    memcpy(d.share, share, sizeof share);
    uint32_t n[4] = {0};
    for (uint32_t t = 0; t < TOKENS; t++) {
        const orr_expert_token near = {.request = t / 50, .position = t % 50, .rank = 3};
        const orr_expert_token own = {.request = t / 50, .position = t % 50, .rank = 1};
        uint32_t slot, again;
        orr_experts_slots(&d.placement, 0, &near, &(uint16_t){0}, 1, true, &slot);
        orr_experts_slots(&d.placement, 0, &own, &(uint16_t){0}, 1, true, &again);
        assert_int_equal(slot, again); /* by share: whichever rank asks */
        d.placement.nearest = true;
        orr_experts_slots(&d.placement, 0, &own, &(uint16_t){0}, 1, false, &again);
        assert_int_equal(again, 1); /* its own, whatever the share */
        d.placement.nearest = false;
        orr_experts_slots(&d.placement, 0, &own, &(uint16_t){0}, 1, false, &again);
        assert_int_not_equal(again, 1); /* its own has no share */
        n[slot]++;
    }
    assert_int_equal(n[1] + n[3], 0);
    /* Five standard deviations of a binomial. */
    assert_in_range(n[0], 0.7 * TOKENS - 325, 0.7 * TOKENS + 325);
    memset(d.share, 0, sizeof share); /* no shares: evenly */
    memset(n, 0, sizeof n);
    for (uint32_t t = 0; t < TOKENS; t++) {
        uint32_t slot;
        orr_experts_slots(&d.placement, 0, &(orr_expert_token){.request = t}, &(uint16_t){0}, 1,
                          true, &slot);
        n[slot]++;
    }
    assert_in_range(n[1], TOKENS / 3 - 335, TOKENS / 3 + 335);
}

static void test_the_index_says_the_same(void **state)
{
    (void)state;
    const char *const lines[] = {"0 2|1 0 4|0 3|3 4", "4 0|1|2 1 0|3 1"};
    const orr_placement_draft d = placement_of(lines, 2, 6, 4, 2, arena);
    orr_copy_index index;
    orr_error err = {0};
    assert_int_equal(orr_copy_index_new(&d.placement, arena, &index, &err), ORR_OK);
    for (uint32_t l = 0; l < 2; l++) {
        orr_copy_index_set(&index, &d.placement, l);
        for (uint32_t i = 0; i < 4000; i++) {
            const orr_expert_token token = {.request = i, .position = 3 * i, .rank = i % 4};
            const uint16_t expert = (uint16_t)(i / 4 % 6);
            uint32_t slot;
            orr_experts_slots(&d.placement, l, &token, &expert, 1, i & 64, &slot);
            const uint32_t at = orr_copy_index_choose(&index, &d.placement, &token, expert, i & 64);
            assert_int_equal(at == UINT32_MAX ? UINT32_MAX : index.slot[at], slot);
            if (slot != UINT32_MAX)
                assert_int_equal(index.rank[at], orr_placement_rank(&d.placement, l, slot));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_valid_placements_pass),
        cmocka_unit_test(test_what_is_wrong_is_named),
        cmocka_unit_test(test_experts_named_as_missing_pass),
        cmocka_unit_test(test_slots_of_ranks_that_do_not_divide),
        cmocka_unit_test(test_own_rank_then_own_host_then_all),
        cmocka_unit_test(test_tokens_fall_by_shares_and_by_nothing_else),
        cmocka_unit_test(test_the_index_says_the_same),
    };
    return cmocka_run_group_tests_name("experts_placement", tests, open_arena, close_arena);
}
