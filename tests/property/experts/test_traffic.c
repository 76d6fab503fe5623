/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <math.h>

#include <cmocka.h>

#include "../support/random_placements.h"
#include "../support/seeds.h"

/* Rows between ranks, counted token by token with nothing but orr_experts_slots(): the same as
 * orr_experts_count_traffic() and orr_experts_evaluate() say. */

typedef struct world {
    orr_arena *arena;
    orr_placement_draft draft;
    const orr_routes *routes;
    uint32_t rank_of_request[16];
    bool by_share, by_token; /* copies by shares; ranks from the routes */
    uint64_t seed;
} world;

static void open_case(world *w, uint64_t seed)
{
    orr_random random = orr_random_of(seed, 0);
    const orr_expert_placement like = draw_shape(&random);
    *w = (world){.arena = orr_arena_new(0, 0), .seed = seed};
    w->draft = draw_placement(&like, 0.3 * orr_random_unit(&random), &random, w->arena);
    const uint32_t requests = draw_from(&random, 1, 16);
    w->routes = draw_routes(&w->draft.placement, draw_from(&random, requests, 700),
                            draw_from(&random, 1, like.experts < 9 ? like.experts : 9), requests,
                            &random, w->arena);
    for (uint32_t i = 0; i < requests; i++)
        w->rank_of_request[i] = draw_from(&random, 0, like.ranks - 1);
    w->by_share = orr_random_below(&random, 2);
    w->by_token = orr_random_below(&random, 2);
}

typedef struct counts {
    uint64_t sent[DRAWN_RANKS][DRAWN_RANKS], returned[DRAWN_RANKS][DRAWN_RANKS], rows[DRAWN_RANKS];
} counts;

static void count_naively(const world *w, uint32_t layer, counts *ret)
{
    const orr_expert_placement *p = &w->draft.placement;
    const uint32_t k = w->routes->top_k;
    memset(ret, 0, sizeof *ret);
    for (uint64_t t = 0; t < w->routes->tokens; t++) {
        uint16_t choice[ORR_ROUTE_CHOICES_MAX];
        uint32_t slot[ORR_ROUTE_CHOICES_MAX];
        bool to[DRAWN_RANKS] = {false};
        const uint32_t request = w->routes->request[t];
        const uint32_t from = w->by_token ? w->routes->rank[t] : w->rank_of_request[request];
        const orr_expert_token token = {request, w->routes->position[t], from};
        orr_routes_choices(w->routes, layer, t, 1, choice);
        orr_experts_slots(p, layer, &token, choice, k, w->by_share, slot);
        for (uint32_t i = 0; i < k; i++) {
            const uint32_t rank = orr_placement_rank(p, layer, slot[i]);
            to[rank] = true;
            ret->rows[rank]++;
            ret->returned[rank][from] += rank != from;
        }
        for (uint32_t r = 0; r < p->ranks; r++)
            ret->sent[from][r] += to[r] && r != from;
    }
}

static void check_layer(const world *w, uint32_t layer)
{
    const uint32_t ranks = w->draft.placement.ranks;
    uint64_t sent[DRAWN_RANKS * DRAWN_RANKS], returned[DRAWN_RANKS * DRAWN_RANKS],
        rows[DRAWN_RANKS];
    counts naive;
    orr_error err = {0};
    count_naively(w, layer, &naive);
    if (orr_experts_count_traffic(&w->draft.placement, w->routes, layer,
                                  w->by_token ? NULL : w->rank_of_request, w->by_share,
                                  &(orr_expert_traffic){sent, returned, rows}, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
    for (uint32_t a = 0; a < ranks; a++) {
        if (rows[a] != naive.rows[a])
            seed_fail(w->seed, "layer %u: rows of rank %u", layer, a);
        for (uint32_t b = 0; b < ranks; b++)
            if (sent[a * ranks + b] != naive.sent[a][b] ||
                returned[a * ranks + b] != naive.returned[a][b])
                seed_fail(w->seed, "layer %u: rows between ranks %u and %u", layer, a, b);
    }
}

static void test_traffic_is_what_each_token_sends(void **state)
{
    (void)state;
    const seed_range range = seeds(300);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        open_case(&w, seed);
        for (uint32_t l = 0; l < w.routes->layers; l++)
            check_layer(&w, l);
        orr_arena_free(w.arena);
    }
}

/* The most of what leaves or enters a rank at a level, over all ranks. */
static double fullest(const uint64_t rows[DRAWN_RANKS][DRAWN_RANKS], uint32_t ranks,
                      uint32_t host_ranks, bool beyond)
{
    uint64_t most = 0;
    for (uint32_t a = 0; a < ranks; a++) {
        uint64_t out = 0, in = 0;
        for (uint32_t b = 0; b < ranks; b++)
            if ((a / host_ranks != b / host_ranks) == beyond) {
                out += rows[a][b];
                in += rows[b][a];
            }
        most = out > most ? out : most;
        most = in > most ? in : most;
    }
    return (double)most;
}

static void check_near(const world *w, double said, double want, const char *what)
{
    if (!(fabs(said - want) <= 1e-9 * fmax(1, fabs(want))))
        seed_fail(w->seed, "%s: %.17g, not %.17g", what, said, want);
}

static void check_quality(world *w)
{
    static const orr_expert_costs costs = {.host_bytes_per_s = 400e9,
                                           .network_bytes_per_s = 50e9,
                                           .row_ns = 30,
                                           .dispatch_bytes = 7168,
                                           .combine_bytes = 14336,
                                           .tokens = 4096};
    const orr_expert_placement *p = &w->draft.placement;
    orr_expert_options options;
    orr_expert_quality q;
    orr_error err = {0};
    orr_expert_options_init(&options);
    options.routes = w->routes;
    options.costs = &costs;
    options.by_share = w->by_share;
    options.group_of_request = w->rank_of_request; /* groups of one rank: told exactly */
    if (orr_experts_evaluate(p, &options, w->arena, &q, &err) != ORR_OK)
        seed_fail(w->seed, "%s", err.text);
    double ns = 0, sent[2] = {0}, returned[2] = {0};
    w->by_token = false;
    for (uint32_t l = 0; l < p->layers; l++) {
        static const double rate[] = {400e9, 50e9};
        double sending = 0, returning = 0, rows = 0;
        counts n;
        count_naively(w, l, &n);
        for (int level = 0; level < 2; level++) {
            sending = fmax(sending,
                           fullest(n.sent, p->ranks, p->host_ranks, level) * 7168e9 / rate[level]);
            returning = fmax(returning, fullest(n.returned, p->ranks, p->host_ranks, level) *
                                            14336e9 / rate[level]);
        }
        for (uint32_t a = 0; a < p->ranks; a++) {
            rows = fmax(rows, (double)n.rows[a]);
            for (uint32_t b = 0; b < p->ranks; b++) {
                sent[a / p->host_ranks != b / p->host_ranks] += (double)n.sent[a][b];
                returned[a / p->host_ranks != b / p->host_ranks] += (double)n.returned[a][b];
            }
        }
        ns += (sending + returning + rows * 30) * 4096 / (double)w->routes->tokens;
    }
    check_near(w, q.step_ns, ns, "step_ns");
    for (int level = 0; level < 2; level++) {
        check_near(w, q.dispatch_bytes[level], sent[level] * 7168, "bytes of dispatch");
        check_near(w, q.combine_bytes[level], returned[level] * 14336, "bytes of combine");
    }
    check_near(w, q.dispatches, (sent[0] + sent[1]) / (double)w->routes->tokens / p->layers,
               "dispatches");
    check_near(w, q.network_frac,
               returned[1] / (double)w->routes->tokens / w->routes->top_k / p->layers,
               "network_frac");
}

static void test_quality_adds_the_traffic_up(void **state)
{
    (void)state;
    const seed_range range = seeds(200);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        world w;
        open_case(&w, seed);
        check_quality(&w);
        orr_arena_free(w.arena);
    }
}

/* Figures of a part of the tokens: near to those of all, rows in units of all, and others where
 * other blocks are counted. */
static void test_a_part_of_the_tokens_tells_nearly_the_same(void **state)
{
    (void)state;
    const orr_routes_drawn how = {.layers = 4,
                                  .experts = 32,
                                  .top_k = 4,
                                  .requests = 400,
                                  .prompt = 64,
                                  .decoded = 64,
                                  .kinds = 3,
                                  .affinity = 0.5,
                                  .skew = 0.5};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_expert_options options;
    orr_expert_quality all, part;
    orr_expert_result result;
    orr_error err = {0};
    orr_expert_options_init(&options);
    assert_int_equal(orr_routes_draw(&how, arena, &options.routes, &err), ORR_OK);
    options.policy = ORR_EXPERT_POLICY_EPLB;
    options.ranks = 8;
    options.host_ranks = 4;
    options.slots = 40;
    assert_int_equal(orr_experts_place(&options, arena, &result, &err), ORR_OK);
    all = result.quality;
    options.most_choices = 100000; /* of 819,200 */
    assert_int_equal(orr_experts_evaluate(&result.placement, &options, arena, &part, &err), ORR_OK);
    assert_true(part.remote_frac != all.remote_frac);
    assert_true(fabs(part.remote_frac - all.remote_frac) < 0.01);
    assert_true(fabs(part.dispatches / all.dispatches - 1) < 0.02);
    assert_true(fabs(part.served_mean / all.served_mean - 1) < 0.05);
    assert_true(part.imbalance_worst == all.imbalance_worst); /* loads are of all tokens */
    for (int level = 0; level < 2; level++)
        assert_true(fabs(part.combine_bytes[level] / all.combine_bytes[level] - 1) < 0.03);
    options.most_choices = 819200; /* enough for all */
    assert_int_equal(orr_experts_evaluate(&result.placement, &options, arena, &part, &err), ORR_OK);
    assert_true(part.remote_frac == all.remote_frac && part.dispatches == all.dispatches);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_traffic_is_what_each_token_sends),
        cmocka_unit_test(test_quality_adds_the_traffic_up),
        cmocka_unit_test(test_a_part_of_the_tokens_tells_nearly_the_same),
    };
    return cmocka_run_group_tests_name("experts_traffic", tests, NULL, NULL);
}
