/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "model/experts/skew.h"

/* Models of few layers with 8 experts, loads and placements by hand. */
enum { EXPERTS = 8, LAYERS_MOST = 20 };

typedef struct scene {
    orr_arena *arena;
    orr_error err;
    orr_model model;
    orr_plan plan;
    orr_workload workload;
    orr_expert_load load;
    orr_expert_placement placement;
    orr_layer_skews skews;
} scene;

static scene open_scene(uint32_t layers, uint32_t ep)
{
    scene s = {.arena = orr_arena_new(0, 0),
               .model = {.name = "small",
                         .layers = layers,
                         .moe = {.experts = EXPERTS, .top_k = 2, .every = 1}},
               .plan = {.ep = ep, .dp = ep}};
    assert_non_null(s.arena);
    return s;
}

static void load(scene *s, uint32_t layers, const double *share)
{
    s->load = (orr_expert_load){
        .layers = layers, .experts = EXPERTS, .share = share, .source = "load.csv"};
    s->workload.load = &s->load;
}

static const orr_layer_skew *skew_of(scene *s, uint32_t layer)
{
    if (orr_layer_skews_of(&s->model, &s->plan, &s->workload, s->arena, &s->skews, &s->err) !=
        ORR_OK)
        fail_msg("%s", s->err.text);
    if (s->skews.n == 0 || s->skews.of_layer[layer] == 0)
        return NULL;
    return &s->skews.skew[s->skews.of_layer[layer] - 1];
}

static void must_refuse(scene *s, const char *word)
{
    assert_int_equal(
        orr_layer_skews_of(&s->model, &s->plan, &s->workload, s->arena, &s->skews, &s->err),
        ORR_INVALID);
    assert_non_null(strstr(s->err.text, word));
}

#define assert_near(a, b) assert_true(fabs((double)(a) - (b)) < 1e-6)

static const double EVEN[EXPERTS] = {.125, .125, .125, .125, .125, .125, .125, .125};
static const double HOT[EXPERTS] = {.5, .1, .1, .1, .05, .05, .05, .05};

static void even_loads_and_one_rank_are_no_skew(void **state)
{
    (void)state;
    scene s = open_scene(3, 4);
    assert_null(skew_of(&s, 0));
    load(&s, 1, EVEN);
    assert_null(skew_of(&s, 0));
    load(&s, 1, HOT);
    assert_non_null(skew_of(&s, 0));
    s.plan.ep = 1;
    assert_null(skew_of(&s, 0));
    assert_near(s.skews.rows, 1);
    orr_arena_free(s.arena);
}

static void the_fullest_rank_and_its_slots(void **state)
{
    (void)state;
    scene s = open_scene(1, 4);
    load(&s, 1, HOT);
    const orr_layer_skew *skew = skew_of(&s, 0);
    assert_near(skew->rows, 2.4);
    assert_int_equal(skew->slots, 2);
    assert_int_equal(skew->senders, 1);
    assert_int_equal(skew->n_priced, 1);
    assert_near(skew->priced[0].bucket[0].rows, 0.5 / 0.3);
    assert_near(skew->priced[0].bucket[1].rows, 0.1 / 0.3);
    assert_near(skew->to[0], 0.6);
    assert_near(skew->to[3], 0.1);
    orr_arena_free(s.arena);
}

/* Capacity in percent of an even share, which is 1/8; padded to the fullest expert. */
static void capacity_and_padding(void **state)
{
    (void)state;
    scene s = open_scene(1, 4);
    load(&s, 1, HOT);
    s.plan.capacity = 200;
    assert_near(skew_of(&s, 0)->rows, 4 * (0.25 + 0.1));
    s.plan.pad_experts = ORR_SWITCH_ON;
    assert_null(skew_of(&s, 0));
    assert_near(orr_expert_even_rows(&s.plan), 2);
    s.plan.capacity = 0;
    assert_near(skew_of(&s, 0)->rows, 4 * 2 * 0.5);
    orr_arena_free(s.arena);
}

static void recorded_layers_are_found_by_number_or_by_depth(void **state)
{
    (void)state;
    double share[2 * EXPERTS];
    const uint32_t other[] = {5, 7}, reversed[] = {3, 1};
    memcpy(share, EVEN, sizeof EVEN);
    memcpy(share + EXPERTS, HOT, sizeof HOT);
    scene s = open_scene(4, 4);
    load(&s, 2, share);
    for (uint32_t layer = 0; layer < 4; layer++)
        assert_int_equal(skew_of(&s, layer) != NULL, layer >= 2);
    /* Layers 1 and 3 have experts. */
    s.model.moe.every = 2;
    s.load.number = other;
    assert_null(skew_of(&s, 0));
    assert_non_null(skew_of(&s, 1));
    s.load.number = reversed;
    assert_non_null(skew_of(&s, 0));
    assert_null(skew_of(&s, 1));
    orr_arena_free(s.arena);
}

/* 20 layers of 20 loads: the 16 skews keep the mean of the fullest ranks nearly. */
static void layers_that_are_nearly_alike_share_a_skew(void **state)
{
    (void)state;
    double share[LAYERS_MOST * EXPERTS], mean = 0;
    scene s = open_scene(LAYERS_MOST, 8);
    for (uint32_t l = 0; l < LAYERS_MOST; l++)
        for (uint32_t e = 0; e < EXPERTS; e++)
            share[l * EXPERTS + e] = e == 0 ? 0.2 + 0.02 * l : (0.8 - 0.02 * l) / 7;
    load(&s, LAYERS_MOST, share);
    for (uint32_t l = 0; l < LAYERS_MOST; l++)
        mean += skew_of(&s, l)->rows / LAYERS_MOST;
    assert_int_equal(s.skews.n, ORR_LAYER_SKEWS_MAX);
    assert_true(fabs(mean - s.skews.rows) < 0.02 * s.skews.rows);
    assert_near(s.skews.rows, 8 * (0.2 + 0.02 * 9.5));
    orr_arena_free(s.arena);
}

/* --- placements ------------------------------------------------------------------------------- */

static void place(scene *s, uint32_t ranks, const uint32_t *first, const uint16_t *expert,
                  const float *part)
{
    s->placement = (orr_expert_placement){.layers = 1,
                                          .experts = EXPERTS,
                                          .ranks = ranks,
                                          .first_slot = first,
                                          .expert = expert,
                                          .share = part,
                                          .source = "placement.yaml"};
    s->workload.placement = &s->placement;
}

static const uint32_t FIRST[] = {0, 3, 5, 7, 9};
static const float PARTS[] = {1, 1, 1, 1, 1, 1, 1, 1, 1};

/* The hottest expert on ranks 0 and 3: each keeps its own tokens, the others' are shared. */
static void copies_take_their_own_ranks_tokens(void **state)
{
    (void)state;
    static const uint32_t first[] = {0, 2, 4, 6, 9};
    static const uint16_t expert[] = {0, 1, 2, 3, 4, 5, 6, 7, 0};
    static const float part[] = {.75F, 1, 1, 1, 1, 1, 1, 1, .25F};
    scene s = open_scene(1, 4);
    load(&s, 1, HOT);
    place(&s, 4, first, expert, part);
    /* By shares: rank 3 has its own quarter, and rank 0 all else. */
    const orr_layer_skew *skew = skew_of(&s, 0);
    assert_near(skew->to[0], 0.6);     /* rank 0 to itself */
    assert_near(skew->to[3 * 4], 0.1); /* rank 3 to rank 0 */
    assert_near(skew->to[1 * 4], 0.6); /* rank 1 to rank 0 */
    assert_near(skew->rows, 4 * (.75 * .5 + .1));
    s.placement.nearest = true;
    skew = skew_of(&s, 0);
    assert_int_equal(skew->senders, 4);
    assert_int_equal(skew->slots, 3);
    assert_near(skew->to[0], 0.6);          /* rank 0 to itself */
    assert_near(skew->to[3], 0.1);          /* rank 0 to rank 3 */
    assert_near(skew->to[3 * 4], 0.1);      /* rank 3 to rank 0 */
    assert_near(skew->to[1 * 4], .475);     /* rank 1 to rank 0: 3/4 of .5, and .1 */
    assert_near(skew->to[1 * 4 + 3], .225); /* to rank 3 */
    assert_near(skew->rows, .6 + .475 * 2 + .1);
    /* On a host with rank 0, rank 1 sends there alone. */
    s.placement.host_ranks = 2;
    skew = skew_of(&s, 0);
    assert_near(skew->to[1 * 4], .6);
    assert_near(skew->to[2 * 4], .1);
    orr_arena_free(s.arena);
}

static void experts_and_places_permuted_together_change_nothing(void **state)
{
    (void)state;
    static const uint16_t expert[] = {0, 1, 4, 2, 3, 5, 6, 7, 0};
    static const uint16_t map[EXPERTS] = {3, 7, 0, 5, 1, 6, 2, 4};
    double share[EXPERTS];
    uint16_t permuted[9];
    scene a = open_scene(1, 4), b = open_scene(1, 4);
    for (int e = 0; e < EXPERTS; e++)
        share[map[e]] = HOT[e];
    for (int i = 0; i < 9; i++)
        permuted[i] = map[expert[i]];
    load(&a, 1, HOT);
    load(&b, 1, share);
    place(&a, 4, FIRST, expert, PARTS);
    place(&b, 4, FIRST, permuted, PARTS);
    const orr_layer_skew *x = skew_of(&a, 0), *y = skew_of(&b, 0);
    assert_near(x->rows, y->rows);
    for (int i = 0; i < 16; i++)
        assert_near(x->to[i], y->to[i]);
    orr_arena_free(a.arena);
    orr_arena_free(b.arena);
}

static void neighbours_of_a_placement_come_to_one_rank(void **state)
{
    (void)state;
    static const uint16_t expert[] = {0, 1, 4, 0, 3, 5, 6, 7, 2};
    scene s = open_scene(1, 2);
    load(&s, 1, HOT);
    place(&s, 4, FIRST, expert, PARTS);
    /* Both copies of expert 0 are now one. */
    const orr_layer_skew *skew = skew_of(&s, 0);
    assert_int_equal(skew->slots, 4);
    assert_int_equal(skew->senders, 1);
    assert_near(skew->rows, 2 * (.5 + .1 + .05 + .1));
    s.plan.ep = 3;
    must_refuse(&s, "does not divide");
    orr_arena_free(s.arena);
}

/* Its second slot takes memory and no rows. */
static void an_expert_twice_on_a_rank(void **state)
{
    (void)state;
    static const uint16_t expert[] = {0, 0, 4, 1, 3, 5, 6, 7, 2};
    static const float part[] = {.5F, .5F, 1, 1, 1, 1, 1, 1, 1};
    scene s = open_scene(1, 4);
    load(&s, 1, HOT);
    place(&s, 4, FIRST, expert, part);
    const orr_layer_skew *skew = skew_of(&s, 0);
    assert_int_equal(skew->slots, 3);
    assert_near(skew->rows, 4 * (.5 + .05));
    assert_near(skew->priced[0].bucket[0].rows, .5 / (.55 / 3));
    assert_near(skew->priced[0].bucket[2].rows, 0);
    orr_arena_free(s.arena);
}

static void what_is_of_another_model_is_refused(void **state)
{
    (void)state;
    static const uint16_t expert[] = {0, 1, 4, 0, 3, 5, 6, 7, 7};
    scene s = open_scene(1, 4);
    load(&s, 1, HOT);
    s.load.experts = EXPERTS + 1;
    must_refuse(&s, "9");
    load(&s, 1, HOT);
    place(&s, 4, FIRST, expert, PARTS);
    must_refuse(&s, "expert 2");
    s.placement.experts = 4;
    must_refuse(&s, "places 4");
    orr_arena_free(s.arena);
}

/* --- groups and windows ----------------------------------------------------------------------- */

static void groups_of_requests_stay_where_their_experts_are(void **state)
{
    (void)state;
    static const double counts[] = {10, 10, 10, 10, 0, 0, 0, 0, 0, 0, 0, 0, 30, 30, 30, 30};
    const orr_expert_windows windows = {
        .windows = 2, .layers = 1, .experts = EXPERTS, .load = counts, .source = "windows.json"};
    scene s = open_scene(1, 2);
    s.workload.windows = &windows;
    s.workload.request_groups = 2;
    const orr_layer_skew *skew = skew_of(&s, 0);
    orr_port_skew ports;
    assert_near(skew->rows, 1);
    assert_near(skew->to[0], 1);
    assert_near(skew->to[3], 1);
    orr_layer_skew_ports(skew, (const uint32_t[]){2}, 1, 0, &ports);
    assert_near(ports.sent, 0);
    assert_near(ports.fullest[0], 0);
    /* One after the other on all ranks, each window has one rank at work. */
    s.workload.request_groups = 0;
    assert_near(skew_of(&s, 0)->rows, 2);
    s.workload.request_groups = 2;
    s.plan.ep = 1;
    assert_null(skew_of(&s, 0));
    s.plan.ep = 3;
    must_refuse(&s, "groups");
    orr_arena_free(s.arena);
}

/* --- ports ------------------------------------------------------------------------------------ */

static void ports_by_level(void **state)
{
    (void)state;
    static const double share[EXPERTS] = {.3, .1, .1, .1, .1, .1, .1, .1};
    scene s = open_scene(1, 8);
    orr_port_skew p;
    load(&s, 1, share);
    const orr_layer_skew *skew = skew_of(&s, 0);
    const uint32_t width[] = {2, 4};
    orr_layer_skew_ports(skew, width, 2, 0, &p);
    /* Rank 0 receives 0.3 from its neighbour where 1/8 is even, and from six ranks beyond. */
    assert_near(p.fullest[0], .3 / .125);
    assert_near(p.fullest[1], .3 / .125);
    assert_near(p.sent, (1 - (.3 + 7 * .1) / 8) / .875);
    /* Sent once to each host of 2: with 2 choices, to host 0 with 1 - (1 - .4)^2. */
    orr_layer_skew_ports(skew, width, 2, 2, &p);
    assert_near(p.fullest[1], (1 - .6 * .6) / (1 - .75 * .75));
    assert_near(p.fullest[0], (1 - .7 * .7) / (1 - .875 * .875));
    /* One host: once to each rank. */
    orr_layer_skew_ports(skew, (const uint32_t[]){8}, 1, 8, &p);
    assert_near(p.fullest[0], (1 - .7 * .7) / (1 - .875 * .875));
    orr_arena_free(s.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(even_loads_and_one_rank_are_no_skew),
        cmocka_unit_test(the_fullest_rank_and_its_slots),
        cmocka_unit_test(capacity_and_padding),
        cmocka_unit_test(recorded_layers_are_found_by_number_or_by_depth),
        cmocka_unit_test(layers_that_are_nearly_alike_share_a_skew),
        cmocka_unit_test(copies_take_their_own_ranks_tokens),
        cmocka_unit_test(experts_and_places_permuted_together_change_nothing),
        cmocka_unit_test(neighbours_of_a_placement_come_to_one_rank),
        cmocka_unit_test(an_expert_twice_on_a_rank),
        cmocka_unit_test(what_is_of_another_model_is_refused),
        cmocka_unit_test(groups_of_requests_stay_where_their_experts_are),
        cmocka_unit_test(ports_by_level),
    };
    return cmocka_run_group_tests_name("layer_skew", tests, NULL, NULL);
}
