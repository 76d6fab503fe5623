/* SPDX-License-Identifier: Apache-2.0 */
#include "../model_text.h"

static void trees_are_read_one_behind_the_other(void **state)
{
    (void)state;
    static const char TEXT[] = BODY(LEARNED(FAMILY(GOOD_TREE "," TREE("-1", "0.25", "0", "0"))));
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_cost_file *file;
    orr_error err;
    float x[ORR_FEATURES] = {0};

    assert_int_equal(model_from(TEXT, sizeof TEXT - 1, arena, &file, &err), ORR_OK);
    const orr_learned_family *family = &file->learned->families[ORR_FAMILY_GEMM];
    assert_true(family->present);
    assert_int_equal(family->trees.n, 2);
    assert_int_equal(family->trees.n_nodes, 4);
    assert_true(family->base == -0.5 && family->error_frac == 0.1);
    assert_int_equal(family->samples, 9);
    assert_int_equal(family->groups, 3);
    assert_true(isnan(family->low[0]) && isnan(family->high[ORR_FEATURES - 1]));
    x[ORR_FEATURE_FLOPS] = 25;
    assert_true(orr_trees_sum(&family->trees, x) == -0.25f);
    x[ORR_FEATURE_FLOPS] = NAN;
    assert_true(orr_trees_sum(&family->trees, x) == 0.75f);
    orr_arena_free(arena);
}

#define FOREST(trees) BODY(LEARNED(FAMILY(trees)))

static void hostile_trees_are_refused(void **state)
{
    (void)state;
    refuse(FOREST("{}"), "missing or of unequal length");
    refuse(FOREST(TREE("", "", "", "")), "missing or of unequal length");
    refuse(FOREST(TREE("-1", "1,2", "0", "0")), "of unequal length");
    refuse(FOREST(TREE("8,-1,-1", "1,2,3", "0,0,0", "0,0,0")),
           "node 0: children 0 and 1 are not behind it");
    refuse(FOREST(TREE("8,8,-1", "1,2,3", "1,1,0", "0,0,0")), "node 1: children 1 and 2");
    refuse(FOREST(TREE("8,-1,-1", "1,2,3", "2,0,0", "0,0,0")), "node 0: children 2 and 3");
    refuse(FOREST(TREE("8,-1,-1", "1,2,3", "4294967294,0,0", "0,0,0")), "node 0: children");
    refuse(FOREST(TREE("8,-1,-1", "1,2,3", "4294967295,0,0", "0,0,0")),
           "child of a node: a whole number");
    refuse(FOREST(TREE("8,-1,-1", "1,2,3", "-1,0,0", "0,0,0")), "child of a node");
    refuse(FOREST(TREE("19,-1,-1", "1,2,3", "1,0,0", "0,0,0")),
           "feature of a node: a whole number from -1 to 18");
    refuse(FOREST(TREE("-2", "1", "0", "0")), "feature of a node");
    refuse(FOREST(TREE("1e2", "1", "0", "0")), "feature of a node");
    refuse(FOREST(TREE("-1", "1e39", "0", "0")), "value of a node");
    refuse(FOREST(TREE("-1", "null", "0", "0")), "value of a node");
    refuse(FOREST(TREE("-1", "NaN", "0", "0")), "byte ");
    refuse(FOREST(TREE("-1", "1", "0", "2")), "missing_left of a node");
    refuse(FOREST("{\"right\":[]}"), "no tree has");
    refuse(FOREST("[]"), "byte ");
}

static void hostile_families_are_refused(void **state)
{
    (void)state;
    refuse(BODY(LEARNED("{}")), "a family without its name");
    refuse(BODY(LEARNED("{\"family\":\"gemm\"}")), "without base, low, high or trees");
    refuse(BODY(LEARNED(FAMILY("") "," FAMILY(""))), "or twice");
    refuse(BODY(LEARNED("{\"base\":1e9}")), "base: a number");
    refuse(BODY(LEARNED("{\"base\":null}")), "base: a number");
    refuse(BODY(LEARNED("{\"error_frac\":-0.1}")), "error_frac");
    refuse(BODY(LEARNED("{\"groups\":4294967296}")), "groups");
    refuse(BODY(LEARNED("{\"low\":[0]}")), "low: 1 numbers, 19 are due");
    refuse(BODY(LEARNED("{\"high\":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]}")),
           "more numbers than features");
    refuse(BODY(LEARNED("{\"trees\":[],\"trees\":[]}")), "or twice");
    refuse(BODY(LEARNED("{\"magic\":1}")), "no learned family has");
    refuse(BODY("\"learned\":{}"), "without features");
    refuse(BODY("\"learned\":{\"families\":[]}"), "features, then families are due");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trees_are_read_one_behind_the_other),
        cmocka_unit_test(hostile_trees_are_refused),
        cmocka_unit_test(hostile_families_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
