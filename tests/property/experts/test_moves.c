/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../support/random_placements.h"
#include "../support/seeds.h"

/* Moves between placements drawn at random: after every prefix each expert has a slot and no rank
 * more than its room; copies come from ranks that have them; the last one is the placement that was
 * asked for; no rank sends or receives more than its budget in a step. */

typedef struct world {
    orr_arena *arena;
    orr_placement_draft from, to;
    orr_expert_moves_options options;
    orr_expert_costs costs;
    uint32_t room[DRAWN_RANKS];
    orr_expert_moves moves;
    uint64_t seed;
} world;

static uint32_t slots_of_rank(const orr_expert_placement *p, uint32_t rank)
{
    uint32_t n = 0;
    for (uint32_t l = 0; l < p->layers; l++)
        n += orr_placement_first(p, l, rank + 1) - orr_placement_first(p, l, rank);
    return n;
}

static void open_case(world *w, uint64_t seed)
{
    orr_random random = orr_random_of(seed, 0);
    const orr_expert_placement like = draw_shape(&random);
    *w = (world){.arena = orr_arena_new(0, 0), .seed = seed, .costs = {.expert_bytes = 10}};
    w->from = draw_placement(&like, 0.4 * orr_random_unit(&random), &random, w->arena);
    w->to = draw_placement(&like, 0.4 * orr_random_unit(&random), &random, w->arena);
    orr_expert_moves_options_init(&w->options);
    w->options.costs = &w->costs;
    w->options.step_bytes = (double)draw_from(&random, 0, 60);
    for (uint32_t r = 0; r < like.ranks; r++) {
        const uint32_t a = slots_of_rank(&w->from.placement, r),
                       b = slots_of_rank(&w->to.placement, r);
        w->room[r] = (a > b ? a : b) + 1;
        if (seed % 3 == 0)
            w->room[r] += draw_from(&random, 0, 3);
    }
    w->options.room = seed % 3 == 0 ? w->room : NULL;
}

static bool has(const orr_expert_placement *p, uint32_t layer, uint32_t rank, uint32_t expert)
{
    for (uint32_t s = orr_placement_first(p, layer, rank);
         s < orr_placement_first(p, layer, rank + 1); s++)
        if (p->expert[s] == expert)
            return true;
    return false;
}

static void check_prefix(const world *w, uint32_t n, const orr_expert_placement *before,
                         orr_expert_placement *ret)
{
    orr_error err = {0};
    const orr_expert_move *m = n > 0 ? &w->moves.moves[n - 1] : NULL;
    if (orr_expert_moves_apply(&w->from.placement, &w->moves, n, w->arena, ret, &err) != ORR_OK ||
        orr_expert_placement_check(ret, NULL, 0, &err) != ORR_OK)
        seed_fail(w->seed, "after %u of %u moves: %s", n, w->moves.n, err.text);
    for (uint32_t r = 0; r < ret->ranks; r++)
        if (slots_of_rank(ret, r) > w->room[r])
            seed_fail(w->seed, "after %u moves rank %u has no room", n, r);
    if (m != NULL && m->from != m->to && !has(before, m->layer, m->from, m->expert))
        seed_fail(w->seed, "move %u: from a rank that has no copy", n - 1);
    if (m != NULL && m->from != m->to && m->from / ret->host_ranks != m->to / ret->host_ranks)
        for (uint32_t r = 0; r < ret->ranks; r++)
            if (r / ret->host_ranks == m->to / ret->host_ranks &&
                has(before, m->layer, r, m->expert))
                seed_fail(w->seed, "move %u: rank %u is nearer", n - 1, r);
}

static void check_same(const world *w, const orr_expert_placement *is)
{
    const orr_expert_placement *p = &w->to.placement;
    for (uint32_t l = 0; l < p->layers; l++)
        for (uint32_t r = 0; r < p->ranks; r++)
            for (uint32_t e = 0; e < p->experts; e++)
                if (has(p, l, r, e) != has(is, l, r, e))
                    seed_fail(w->seed, "layer %u, rank %u, expert %u differs in the end", l, r, e);
    if (orr_expert_placement_slots(p) != orr_expert_placement_slots(is))
        seed_fail(w->seed, "another number of slots in the end");
}

static void check_steps(const world *w)
{
    double sent[DRAWN_RANKS] = {0}, received[DRAWN_RANKS] = {0}, all = 0, beyond = 0;
    const double most = w->options.step_bytes > 10 ? w->options.step_bytes : 10;
    uint32_t step = 0;
    for (uint32_t i = 0; i < w->moves.n; i++) {
        const orr_expert_move *m = &w->moves.moves[i];
        if (m->step < step || m->step >= w->moves.steps)
            seed_fail(w->seed, "move %u is in step %u after %u", i, m->step, step);
        if (m->step > step) {
            memset(sent, 0, sizeof sent);
            memset(received, 0, sizeof received);
        }
        step = m->step;
        if (m->from == m->to)
            continue;
        sent[m->from] += 10;
        received[m->to] += 10;
        all += 10;
        beyond +=
            m->from / w->from.placement.host_ranks != m->to / w->from.placement.host_ranks ? 10 : 0;
        if (w->options.step_bytes > 0 && (sent[m->from] > most || received[m->to] > most))
            seed_fail(w->seed, "step %u: more than the budget", step);
    }
    if (all != w->moves.bytes || beyond != w->moves.network_bytes ||
        (w->options.step_bytes <= 0 && w->moves.steps > 1))
        seed_fail(w->seed, "bytes or steps are told wrong");
}

/* No more copies are made than the placements differ by. */
static void check_least(const world *w)
{
    const orr_expert_placement *p = &w->to.placement;
    double least = 0;
    for (uint32_t l = 0; l < p->layers; l++)
        for (uint32_t r = 0; r < p->ranks; r++)
            for (uint32_t e = 0; e < p->experts; e++)
                least += has(p, l, r, e) && !has(&w->from.placement, l, r, e) ? 10 : 0;
    if (least != w->moves.bytes)
        seed_fail(w->seed, "%g bytes are moved where %g are enough", w->moves.bytes, least);
}

static void test_every_prefix_is_valid(void **state)
{
    (void)state;
    const seed_range range = seeds(400);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        orr_error err = {0};
        orr_expert_placement last, before;
        open_case(&w, seed);
        if (orr_expert_moves_plan(&w.from.placement, &w.to.placement, &w.options, w.arena, &w.moves,
                                  &err) != ORR_OK)
            seed_fail(seed, "%s", err.text);
        before = w.from.placement;
        for (uint32_t n = 0; n <= w.moves.n; n++) {
            check_prefix(&w, n, &before, &last);
            before = last;
        }
        check_same(&w, &last);
        check_steps(&w);
        check_least(&w);
        orr_arena_free(w.arena);
    }
}

static void test_nothing_to_move(void **state)
{
    (void)state;
    world w;
    orr_error err = {0};
    open_case(&w, 1);
    assert_int_equal(
        orr_expert_moves_plan(&w.from.placement, &w.from.placement, NULL, w.arena, &w.moves, &err),
        ORR_OK);
    assert_true(w.moves.n == 0 && w.moves.steps == 0 && w.moves.bytes == 0);
    orr_arena_free(w.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_prefix_is_valid),
        cmocka_unit_test(test_nothing_to_move),
    };
    return cmocka_run_group_tests_name("experts_moves", tests, NULL, NULL);
}
