/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "model/module/module.h"

/* A row of an embedding, so many layers, and a head. */
enum { MOST = 200 };
typedef struct row {
    orr_module modules[3];
    uint8_t places[MOST + 2];
    orr_module_sequence of;
} row;

static void make_row(row *r, uint32_t layers)
{
    *r = (row){.modules = {{.kind = ORR_MODULE_EMBEDDING},
                           {.kind = ORR_MODULE_LAYER},
                           {.kind = ORR_MODULE_HEAD}}};
    for (uint32_t i = 1; i <= layers; i++)
        r->places[i] = 1;
    r->places[layers + 1] = 2;
    r->of = (orr_module_sequence){.modules = r->modules,
                                  .n_modules = 3,
                                  .n = layers + 2,
                                  .module_of = r->places,
                                  .recomputed_of = r->places};
}

/* Layers of each virtual stage. */
static void must_deal(uint32_t layers, const orr_plan *plan, const uint32_t *want)
{
    row r;
    make_row(&r, layers);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_stage_map map;
    orr_error err = {0};
    if (orr_stage_map_make(&r.of, plan, arena, &map, &err) != ORR_OK)
        fail_msg("%s", err.text);
    const uint32_t n = map.stages * map.chunks;
    assert_int_equal(map.first[0], 0);
    assert_int_equal(map.first[n], layers + 2);
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t ends = (k == 0) + (k == n - 1);
        assert_int_equal(map.first[k + 1] - map.first[k] - ends, want[k]);
    }
    orr_arena_free(arena);
}

static void must_fail(uint32_t layers, const orr_plan *plan, const char *why)
{
    row r;
    make_row(&r, layers);
    orr_arena *arena = orr_arena_new(0, 0);
    orr_stage_map map;
    orr_error err = {0};
    assert_int_equal(orr_stage_map_make(&r.of, plan, arena, &map, &err), ORR_INVALID);
    if (strstr(err.text, why) == NULL)
        fail_msg("'%s' does not say '%s'", err.text, why);
    orr_arena_free(arena);
}

static void layers_are_dealt_evenly(void **state)
{
    (void)state;
    must_deal(5, &(orr_plan){0}, (uint32_t[]){5});
    must_deal(8, &(orr_plan){.pp = 4}, (uint32_t[]){2, 2, 2, 2});
    must_deal(8, &(orr_plan){.pp = 2, .vp = 4}, (uint32_t[]){1, 1, 1, 1, 1, 1, 1, 1});
}

/* 126 layers on 16 stages: 7, 14 x 8, 7 (Llama 3, arXiv 2407.21783, section 3.3.2). */
static void a_remainder_goes_to_the_middle(void **state)
{
    (void)state;
    must_deal(126, &(orr_plan){.pp = 16},
              (uint32_t[]){7, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 7});
    must_deal(6, &(orr_plan){.pp = 4}, (uint32_t[]){1, 2, 2, 1});
    must_deal(5, &(orr_plan){.pp = 4}, (uint32_t[]){1, 1, 2, 1});
    must_deal(2, &(orr_plan){.pp = 4}, (uint32_t[]){0, 1, 1, 0});
}

static void the_ends_are_as_told(void **state)
{
    (void)state;
    must_deal(10, &(orr_plan){.pp = 4, .first_layers = 1, .last_layers = 3},
              (uint32_t[]){1, 3, 3, 3});
    must_deal(61, &(orr_plan){.pp = 4, .last_layers = 13}, (uint32_t[]){16, 16, 16, 13});
    /* What does not divide leaves the chunk short that has the embedding, or the head. */
    must_deal(7, &(orr_plan){.pp = 2, .vp = 2, .first_layers = 3, .last_layers = 4},
              (uint32_t[]){1, 2, 2, 2});
    must_deal(7, &(orr_plan){.pp = 2, .vp = 2, .first_layers = 4, .last_layers = 3},
              (uint32_t[]){2, 2, 2, 1});
    must_deal(10, &(orr_plan){.pp = 2, .vp = 2, .first_layers = 4}, (uint32_t[]){2, 3, 2, 3});
    /* Zero bubble: the second chunk of the first stage stands last. */
    must_deal(10, &(orr_plan){.pp = 2, .vp = 2, .first_layers = 4, .schedule = ORR_SCHEDULE_ZB_V},
              (uint32_t[]){2, 3, 3, 2});
    must_deal(8, &(orr_plan){.pp = 4, .vp = 2, .schedule = ORR_SCHEDULE_DUALPIPE},
              (uint32_t[]){2, 2, 2, 2});
}

/* Layers of stages, however many chunks these have; zero bubble's second chunks come back. */
static void sections_are_as_told(void **state)
{
    (void)state;
    must_deal(10, &(orr_plan){.pp = 4, .section_stages = {1, 2, 1}, .section_layers = {0, 3, 4}},
              (uint32_t[]){0, 3, 3, 4});
    must_deal(5, &(orr_plan){.section_stages = {1}, .section_layers = {5}}, (uint32_t[]){5});
    must_deal(
        14, &(orr_plan){.pp = 3, .vp = 2, .section_stages = {1, 1, 1}, .section_layers = {3, 5, 6}},
        (uint32_t[]){1, 2, 3, 2, 3, 3});
    must_deal(8, &(orr_plan){.pp = 2, .vp = 2, .section_stages = {1, 1}, .section_layers = {3, 5}},
              (uint32_t[]){1, 3, 2, 2});
    must_deal(8,
              &(orr_plan){.pp = 2,
                          .vp = 2,
                          .schedule = ORR_SCHEDULE_ZB_V,
                          .section_stages = {1, 1},
                          .section_layers = {3, 5}},
              (uint32_t[]){1, 3, 2, 2});
}

static void what_does_not_fit_is_told(void **state)
{
    (void)state;
    must_fail(8, &(orr_plan){.pp = 2, .section_stages = {2}, .section_layers = {3}},
              "sections of 6 layers: the model has 8");
    must_fail(5, &(orr_plan){.pp = 8}, "5 layers cannot fill 8 stages");
    must_fail(4, &(orr_plan){.pp = 2, .first_layers = 3, .last_layers = 3}, "more than the 4");
    must_fail(8, &(orr_plan){.pp = 2, .first_layers = 3, .last_layers = 3}, "leave 2 layers");
    must_fail(8, &(orr_plan){.pp = 4, .first_layers = 7}, "leave 1 layers for 3 stages");
}

/* A row whose head takes as long as `head` layers, whose optimizer takes `update` of a layer. */
static orr_plan balanced(uint32_t layers, int64_t head, int64_t update, const orr_plan *asked)
{
    row r;
    make_row(&r, layers);
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_module_time time[] = {{0, 0}, {1000, 1000 * update}, {1000 * head, 0}};
    orr_plan plan = *asked;
    orr_error err = {0};
    if (orr_stages_balance(&r.of, time, arena, &plan, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_arena_free(arena);
    return plan;
}

static void ends_are_balanced_by_time(void **state)
{
    (void)state;
    orr_plan p = balanced(16, 4, 0, &(orr_plan){.pp = 4, .micro_batches = 32});
    assert_int_equal(p.first_layers, 5);
    assert_int_equal(p.last_layers, 1);
    p = balanced(8, 2, 0, &(orr_plan){.pp = 2, .micro_batches = 32});
    assert_int_equal(p.first_layers, 5);
    assert_int_equal(p.last_layers, 3);
    const orr_plan even[] = {
        {.pp = 1, .micro_batches = 32},
        {.pp = 4, .micro_batches = 32, .first_layers = 4},
        {.pp = 4, .micro_batches = 32, .zero = 3},
        {.pp = 4, .micro_batches = 32, .vp = 2, .schedule = ORR_SCHEDULE_ZB_V},
        {.pp = 4, .micro_batches = 4, .schedule = ORR_SCHEDULE_ZB_H1},
        {.pp = 4, .micro_batches = 32, .section_stages = {4}, .section_layers = {4}},
    };
    for (size_t i = 0; i < sizeof even / sizeof *even; i++) {
        p = balanced(16, 4, 0, &even[i]);
        assert_int_equal(p.first_layers, even[i].first_layers);
        assert_int_equal(p.last_layers, 0);
    }
    /* A head of a layer is no reason to give another stage a layer more. */
    assert_int_equal(balanced(80, 1, 0, &(orr_plan){.pp = 8, .micro_batches = 64}).last_layers, 0);
    /* Few micro-batches do not pay for the larger update of other stages. */
    assert_int_equal(balanced(16, 4, 20, &(orr_plan){.pp = 4, .micro_batches = 2}).last_layers, 0);
    /* 126 layers on 16 x 8 chunks (Llama 3): one less on either end, as the even split has it. */
    p = balanced(
        126, 1, 0,
        &(orr_plan){.pp = 16, .vp = 8, .micro_batches = 16, .schedule = ORR_SCHEDULE_INTERLEAVED});
    assert_true(p.first_layers == 0 && p.last_layers == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_dealt_evenly),
        cmocka_unit_test(a_remainder_goes_to_the_middle),
        cmocka_unit_test(the_ends_are_as_told),
        cmocka_unit_test(sections_are_as_told),
        cmocka_unit_test(what_does_not_fit_is_told),
        cmocka_unit_test(ends_are_balanced_by_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
