/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

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

/* One layer of `experts` over `ranks`, two ranks a host. */
static orr_expert_placement one(const char *line, uint32_t experts, uint32_t ranks)
{
    return placement_of(&line, 1, experts, ranks, 2, arena).placement;
}

/* Moves as text: "2:0>1 3:1- | " is expert 2 copied from rank 0 to 1, 3 given up on 1, end of step.
 */
static const char *plan(const char *from, const char *to, uint32_t experts, uint32_t ranks,
                        const uint32_t *room, double step_bytes)
{
    const orr_expert_placement a = one(from, experts, ranks), b = one(to, experts, ranks);
    orr_expert_moves_options options;
    orr_expert_moves moves;
    orr_error err = {.text = ""};
    orr_expert_moves_options_init(&options);
    options.room = room;
    options.step_bytes = step_bytes;
    if (orr_expert_moves_plan(&a, &b, &options, arena, &moves, &err) != ORR_OK)
        return orr_arena_printf(arena, "%s", err.text);
    char text[1000] = "";
    for (uint32_t i = 0; i < moves.n; i++) {
        const orr_expert_move *m = &moves.moves[i];
        if (i > 0)
            strcat(text, m->step > moves.moves[i - 1].step ? " | " : " ");
        sprintf(text + strlen(text), m->from == m->to ? "%u:%u-" : "%u:%u>%u", m->expert, m->from,
                m->to);
    }
    return orr_arena_strndup(arena, text, strlen(text));
}

static void test_two_ranks_exchange(void **state)
{
    (void)state;
    assert_string_equal(plan("0|1", "1|0", 2, 2, NULL, 0), "1:1>0 0:0>1 0:0- 1:1-");
}

static void test_a_ring_of_full_ranks(void **state)
{
    (void)state;
    /* Rank 0 takes rank 1's, and is full: what it is to give up goes to rank 3, and so on. */
    assert_string_equal(plan("0|1|2|3", "1|2|3|0", 4, 4, NULL, 0),
                        "1:1>0 0:0>3 0:0- 3:3>2 3:3- 2:2>1 2:2- 1:1-");
}

static void test_copies_come_from_the_nearest(void **state)
{
    (void)state;
    /* Hosts {0, 1} and {2, 3}. */
    assert_string_equal(plan("0|1|0|2", "0|1|0|2 0", 3, 4, NULL, 0), "0:2>3");
    assert_string_equal(plan("0 2|1||", "0 2|1|0|2", 3, 4, NULL, 0), "0:0>2 2:0>3");
    /* From either of two as near, the one that has sent less. */
    assert_string_equal(plan("0|0||1||2", "0|0|0|1|0|2", 3, 6, NULL, 0), "0:0>2 0:1>4");
}

static void test_steps_hold_their_budget(void **state)
{
    (void)state;
    assert_string_equal(plan("0 1 2|3", "0 1 2|3 0 1 2", 4, 2, NULL, 2), "0:0>1 1:0>1 | 2:0>1");
    /* Less than an expert is one expert a step. */
    assert_string_equal(plan("0 1 2|3", "0 1 2|3 0 1 2", 4, 2, NULL, 0.5), "0:0>1 | 1:0>1 | 2:0>1");
}

static void test_memory_without_a_spare_slot(void **state)
{
    (void)state;
    const uint32_t tight[] = {1, 1}, spare[] = {1, 2}, less[] = {0, 2};
    assert_string_equal(
        plan("0|1", "1|0", 2, 2, tight, 0),
        "the memory of the ranks leaves no order for the moves: 2 of 2 copies could "
        "not be made");
    assert_string_equal(plan("0|1", "1|0", 2, 2, spare, 0), "0:0>1 0:0- 1:1>0 1:1-");
    assert_string_equal(plan("0|1", "1|0", 2, 2, less, 0), "rank 0 has 1 slots, and room for 0");
}

static void test_other_placements_are_refused(void **state)
{
    (void)state;
    const orr_expert_placement a = one("0|1", 2, 2), b = one("0|1 2", 3, 2);
    orr_expert_placement c = one("1|0", 2, 2), applied;
    orr_expert_moves moves = {.n = 7};
    orr_error err = {.text = ""};
    assert_int_equal(orr_expert_moves_plan(&a, &b, NULL, arena, &moves, &err), ORR_INVALID);
    assert_string_equal(err.text,
                        "from a placement of 1 layers, 2 experts and 2 ranks to one of 1, "
                        "3 and 2");
    c.number = (const uint32_t[]){7};
    assert_int_equal(orr_expert_moves_plan(&a, &c, NULL, arena, &moves, &err), ORR_INVALID);
    assert_string_equal(err.text, "from a placement of layer 1 to one of layer 7");
    assert_int_equal(moves.n, 7);
    assert_string_equal(plan("0|", "0|1", 2, 2, NULL, 0),
                        "layer 1: expert 1 is on no rank that it could be copied from");
    const orr_expert_move wrong = {.layer = 0, .expert = 1};
    moves = (orr_expert_moves){.moves = &wrong, .n = 1};
    assert_int_equal(orr_expert_moves_apply(&a, &moves, 2, arena, &applied, &err), ORR_INVALID);
    assert_int_equal(orr_expert_moves_apply(&a, &moves, 1, arena, &applied, &err), ORR_INVALID);
    assert_string_equal(err.text, "move 0: layer 1, rank 0 has no expert 1 to give up");
}

static void test_second_copies_on_a_rank_and_experts_left_out(void **state)
{
    (void)state;
    assert_string_equal(plan("0 0 1|1", "0 1|1", 2, 2, NULL, 0), "0:0-");
    assert_string_equal(plan("0 1|1", "0 0 1|1", 2, 2, NULL, 0), ""); /* would bring nothing */
    assert_string_equal(plan("0 0|1", "1|0", 2, 2, NULL, 0), "1:1>0 0:0- 0:0>1 0:0- 1:1-");
    assert_string_equal(plan("0|1", "0|", 2, 2, NULL, 0), "1:1-"); /* rank 1 is dead */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_ranks_exchange),
        cmocka_unit_test(test_a_ring_of_full_ranks),
        cmocka_unit_test(test_copies_come_from_the_nearest),
        cmocka_unit_test(test_steps_hold_their_budget),
        cmocka_unit_test(test_memory_without_a_spare_slot),
        cmocka_unit_test(test_other_placements_are_refused),
        cmocka_unit_test(test_second_copies_on_a_rank_and_experts_left_out),
    };
    return cmocka_run_group_tests_name("experts_moves", tests, open_arena, close_arena);
}
