/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_NAIVE_GROUP_H
#define TESTS_NAIVE_GROUP_H

#include "model/plan/groups.h"
#include "run.h"

/* Tapes of all ranks of a plan, which meet in the groups of its axes. */
enum { NAIVE_GROUP_MAX = 8 };

static naive_rank naive_rank_new(const orr_tape *tape, orr_arena *arena)
{
    naive_rank rank = {.tape = tape, .at = orr_arena_array(arena, double *, tape->n_values)};
    assert_non_null(rank.at);
    for (orr_value v = 0; v < tape->n_values; v++) {
        rank.at[v] = orr_arena_array(arena, double, (size_t)naive_size(&tape->values[v].type) + 1);
        assert_non_null(rank.at[v]);
    }
    return rank;
}

/* To the next collective of the pass, or the end; false: there is none. */
static bool naive_go(naive_rank *rank, bool forward)
{
    for (; rank->next < rank->tape->n_calls; rank->next++) {
        const orr_tape_call *call = &rank->tape->calls[rank->next];
        if (forward != (call->pass == ORR_PASS_FORWARD))
            continue;
        if (NAIVE[call->op] == NULL)
            return true;
        orr_op_signature_types room;
        const naive_call c = naive_now(rank, &room);
        NAIVE[call->op](&c);
    }
    return false;
}

/* A turn of a ring: what each sends comes from whom it says. */
static void naive_turn(const naive_call *c, uint32_t n)
{
    for (uint32_t r = 0; r < n; r++) {
        const uint32_t from = (uint32_t)c[r].args->count - 1;
        assert_true(from < n && c[from].args->begin == r);
        memcpy(c[r].out[0], c[from].in[0], (size_t)naive_size(&c[r].out_type[0]) * sizeof(double));
    }
}

/* The group of rank `first` stands before one collective: it is made. */
static void naive_gather_group(naive_rank *ranks, const orr_plan *plan, uint32_t first)
{
    orr_op_signature_types room[NAIVE_GROUP_MAX];
    naive_call c[NAIVE_GROUP_MAX];
    uint32_t members[NAIVE_GROUP_MAX];
    const orr_tape_call *call = &ranks[first].tape->calls[ranks[first].next];
    const uint32_t n = orr_plan_group_size(plan, (orr_axis)call->args.axis);
    assert_true(n <= NAIVE_GROUP_MAX && n == call->args.members);
    orr_plan_members_of(plan, (orr_axis)call->args.axis, first, members);
    for (uint32_t i = 0; i < n; i++) {
        assert_int_equal(ranks[members[i]].next, ranks[first].next);
        c[i] = naive_now(&ranks[members[i]], &room[i]);
    }
    if (call->op == ORR_OP_SEND)
        naive_turn(c, n);
    else
        for (uint32_t r = 0; r < n; r++)
            for (uint32_t q = 0; q < n; q++)
                naive_pass(call->op, c, q, r);
    for (uint32_t i = 0; i < n; i++)
        ranks[members[i]].next++;
}

/* All ranks have the same calls, so that they come to each collective together. */
static void naive_group_run(naive_rank *ranks, uint32_t n, const orr_plan *plan, bool forward)
{
    for (uint32_t r = 0; r < n; r++)
        ranks[r].next = 0;
    for (;;) {
        uint32_t waiting = 0;
        for (uint32_t r = 0; r < n; r++)
            waiting += naive_go(&ranks[r], forward);
        if (waiting == 0)
            return;
        assert_int_equal(waiting, n);
        const uint32_t at = ranks[0].next;
        for (uint32_t r = 0; r < n; r++)
            if (ranks[r].next == at)
                naive_gather_group(ranks, plan, r);
    }
}

#endif /* TESTS_NAIVE_GROUP_H */
