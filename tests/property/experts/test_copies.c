/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>

#include <cmocka.h>

#include "../support/random_placements.h"
#include "../support/seeds.h"
#include "model/experts/layer_slots.h"

/* Which copies tokens take where placements have shares: what the shares say, and no row goes
 * farther than they ask for; drawn token by token as in expectation. */

typedef struct world {
    orr_arena *arena;
    orr_placement_draft draft;
    orr_layer_slots slots;
    double *rows, *sent; /* shape (slots), (R) */
    uint64_t seed;
    orr_random random;
} world;

static void open_case(world *w, uint64_t seed)
{
    *w = (world){.arena = orr_arena_new(0, 0), .seed = seed, .random = orr_random_of(seed, 0)};
    orr_expert_placement like = draw_shape(&w->random);
    orr_error err = {0};
    like.nearest = false;
    w->draft = draw_placement(&like, 0.5 * orr_random_unit(&w->random), &w->random, w->arena);
    const orr_expert_placement *p = &w->draft.placement;
    w->rows = orr_arena_array(w->arena, double, orr_expert_placement_slots(p));
    w->sent = orr_arena_array(w->arena, double, p->ranks);
    if (orr_layer_slots_new(p->experts, p->ranks, p, w->arena, &w->slots, &err) != ORR_OK ||
        orr_layer_slots_set(&w->slots, p, 0, &err) != ORR_OK)
        fail_msg("%s", err.text);
}

/* What ranks send to each copy of one expert, and how much of it leaves ranks and hosts. */
static void send_all(world *w, uint32_t expert, double ret_left[2])
{
    const orr_layer_slots *s = &w->slots;
    double share[DRAWN_EXPERTS] = {0};
    share[expert] = 1;
    memset(w->rows, 0, s->n * sizeof *w->rows);
    ret_left[0] = ret_left[1] = 0;
    for (uint32_t r = 0; r < s->ranks; r++) {
        if (s->first[r] == s->first[r + 1])
            continue; /* dead */
        orr_layer_slots_send(s, r, share, 1.0 / s->live, w->rows, w->sent);
        double sum = 0;
        for (uint32_t to = 0; to < s->ranks; to++) {
            sum += w->sent[to];
            ret_left[0] += to != r ? w->sent[to] / s->live : 0;
            ret_left[1] += to / s->host_ranks != r / s->host_ranks ? w->sent[to] / s->live : 0;
        }
        if (fabs(sum - 1) > 1e-9)
            seed_fail(w->seed, "rank %u sends %.12g of its tokens", r, sum);
    }
}

/* The least that must leave ranks, or hosts, for copies to get their shares: what these have beyond
 * the tokens that are there. */
static double must_leave(const world *w, uint32_t expert, uint32_t unit)
{
    const orr_layer_slots *s = &w->slots;
    double ret = 0;
    for (uint32_t first = 0; first < s->ranks; first += unit) {
        double share = 0, tokens = 0;
        for (uint32_t r = first; r < first + unit && r < s->ranks; r++) {
            tokens += s->first[r] < s->first[r + 1] ? 1.0 / s->live : 0;
            for (uint32_t i = s->first[r]; i < s->first[r + 1]; i++)
                share += s->expert[i] == expert ? s->share[i] : 0;
        }
        ret += fmax(share - tokens, 0);
    }
    return ret;
}

static void test_copies_get_their_shares_and_rows_stay_near(void **state)
{
    (void)state;
    const seed_range range = seeds(300);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        open_case(&w, seed);
        for (uint32_t e = 0; e < w.slots.experts; e++) {
            double left[2];
            send_all(&w, e, left);
            for (uint32_t i = 0; i < w.slots.n; i++)
                if (w.slots.expert[i] == e && fabs(w.rows[i] - w.slots.share[i]) > 1e-6)
                    seed_fail(seed, "expert %u, slot %u: %.9g, not %.9g", e, i, w.rows[i],
                              w.slots.share[i]);
            for (int level = 0; level < 2; level++) {
                const double least = must_leave(&w, e, level == 0 ? 1 : w.slots.host_ranks);
                if (fabs(left[level] - least) > 1e-6)
                    seed_fail(seed, "expert %u: %.9g leaves %s, %.9g has to", e, left[level],
                              level == 0 ? "ranks" : "hosts", least);
            }
        }
        orr_arena_free(w.arena);
    }
}

/* Both rules, where the ranks of a draw take any tokens they like. */
static void test_tokens_go_where_the_simulation_sends_them(void **state)
{
    (void)state;
    enum { TOKENS = 4000 };
    const seed_range range = seeds(60);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        open_case(&w, seed);
        orr_expert_placement *p = &w.draft.placement;
        orr_error err;
        p->nearest = seed % 2;
        assert_int_equal(orr_layer_slots_set(&w.slots, p, 0, &err), ORR_OK);
        const uint32_t rank = draw_from(&w.random, 0, p->ranks - 1);
        const uint16_t expert = (uint16_t)draw_from(&w.random, 0, p->experts - 1);
        double share[DRAWN_EXPERTS] = {0};
        uint32_t n[DRAWN_RANKS] = {0};
        share[expert] = 1;
        orr_layer_slots_send(&w.slots, rank, share, 1, w.rows, w.sent);
        for (uint32_t t = 0; t < TOKENS; t++) {
            const orr_expert_token token = {t / 7, t % 7, rank};
            uint32_t slot;
            orr_experts_slots(p, 0, &token, &expert, 1, false, &slot);
            n[orr_placement_rank(p, 0, slot)]++;
        }
        for (uint32_t r = 0; r < p->ranks; r++) {
            const double want = w.sent[r] * TOKENS;
            if (fabs(n[r] - want) > 5 * sqrt(want * (1 - w.sent[r])) + 1e-3 * TOKENS)
                seed_fail(seed, "rank %u gets %u of %d tokens, not %.9g", r, n[r], TOKENS, want);
        }
        orr_arena_free(w.arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_copies_get_their_shares_and_rows_stay_near),
        cmocka_unit_test(test_tokens_go_where_the_simulation_sends_them),
    };
    return cmocka_run_group_tests_name("experts_copies", tests, NULL, NULL);
}
