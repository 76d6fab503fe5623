/* SPDX-License-Identifier: Apache-2.0 */
#include "../measured.h"

#include "cost/fit/boost.h"

#define MODEL(trees)                                                                                 \
    "{\"version\":[1,7,4],\"learner\":{\"attributes\":{},\"gradient_booster\":{\"name\":\"gbtree\"," \
    "\"model\":{\"tree_info\":[0],\"trees\":[" trees "]}}}}"
#define TREE(left, right, feature, value, missing)                                                 \
    "{\"id\":0,\"left_children\":[" left "],\"right_children\":[" right                            \
    "],\"split_indices\":[" feature "],\"split_conditions\":[" value                               \
    "],\"default_left\":[" missing "],\"categories\":[]}"

static orr_status read(const char *json, orr_arena *arena, orr_trees *ret, orr_error *err)
{
    return orr_boost_trees_read(json, strlen(json), arena, ret, err);
}

/* Written depth first there, level by level here: siblings are neighbours. */
static void nodes_are_numbered_anew(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_trees trees;
    orr_error err;

    assert_int_equal(
        read(MODEL(TREE("1,2,-1,-1,-1", "4,3,-1,-1,-1", "9,8,0,0,0", "2.1E1,4.5E0,1E0,2E0,3E0",
                        "1,0,0,0,0") "," TREE("-1", "-1", "0", "7.5E-1", "false")),
             arena, &trees, &err),
        ORR_OK);
    assert_int_equal(trees.n, 2);
    assert_int_equal(trees.n_nodes, 6);
    assert_int_equal(trees.roots[1], 5);
    assert_int_equal(trees.nodes[0].feature, 9);
    assert_true(trees.nodes[0].value == 21 && trees.nodes[0].missing_left);
    assert_int_equal(trees.nodes[0].child, 1);
    assert_int_equal(trees.nodes[1].feature, 8);
    assert_int_equal(trees.nodes[1].child, 3);
    assert_false(trees.nodes[1].missing_left);
    float x[ORR_FEATURES] = {0};
    static const struct {
        float x9, x8, want;
    } WALKS[] = {{20, 4, 1}, {20, 5, 2}, {21, 0, 3}, {NAN, 4, 1}, {NAN, NAN, 2}};
    for (size_t i = 0; i < sizeof WALKS / sizeof *WALKS; i++) {
        x[9] = WALKS[i].x9;
        x[8] = WALKS[i].x8;
        assert_true(orr_trees_sum(&trees, x) == WALKS[i].want + 0.75f);
    }
    orr_arena_free(arena);
}

static void what_is_not_a_forest_is_refused(void **state)
{
    (void)state;
    static const char *const CASES[] = {
        "",
        "[]",
        "{}",
        "{\"learner\":{}}",
        "{\"learner\":{\"gradient_booster\":{\"model\":{}}}}",
        MODEL("{}"),
        MODEL("{\"left_children\":[]}"),
        MODEL("7"),
        MODEL(TREE("1,-1", "2,-1", "0,0", "1,1", "0,0")), /* a child that is not there */
        MODEL(TREE("0,-1,-1", "1,-1,-1", "0,0,0", "1,1,1", "0,0,0")), /* a cycle */
        MODEL(TREE("1,0,-1", "2,0,-1", "0,0,0", "1,1,1", "0,0,0")),
        MODEL(TREE("1,-1,-1", "1,-1,-1", "99,0,0", "1,1,1", "0,0,0")), /* no such feature */
        MODEL(TREE("1,-1,-1", "2,-1,-1", "-1,0,0", "1,1,1", "0,0,0")),
        MODEL(TREE("1,-1,-1", "2,-1,-1", "0,0", "1,1,1", "0,0,0")), /* unequal lengths */
        MODEL(TREE("1,-1,-1", "2,-1,-1", "0,0,0", "1,1e99,1", "0,0,0")),
        MODEL(TREE("1,-1,-1", "2,-1,-1", "0,0,0", "1,null,1", "0,0,0")),
        MODEL(TREE("1,-1,-1", "2,-1,-1", "0,0,0", "1,\"1\",1", "0,0,0")),
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_trees trees = {.n = 77};
        orr_error err = {0};
        const orr_status status = read(CASES[i], arena, &trees, &err);
        if (status != ORR_INVALID && status != ORR_PARSE)
            fail_msg("case %zu: %s", i, orr_status_name(status));
        assert_int_equal(trees.n, 77);
        orr_arena_free(arena);
    }
}

static void no_memory_is_survived(void **state)
{
    (void)state;
    orr_status status = ORR_NO_MEMORY;
    for (uint64_t nth = 1; status != ORR_OK; nth++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_trees trees;
        orr_alloc_fail_from(nth);
        status =
            read(MODEL(TREE("1,-1,-1", "2,-1,-1", "0,0,0", "1,2,3", "0,0,0")), arena, &trees, NULL);
        orr_alloc_fail_from(0);
        assert_true(status == ORR_OK || status == ORR_NO_MEMORY);
        orr_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nodes_are_numbered_anew),
        cmocka_unit_test(what_is_not_a_forest_is_refused),
        cmocka_unit_test(no_memory_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
