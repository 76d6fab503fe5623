/* SPDX-License-Identifier: Apache-2.0 */
#include "routes_text.h"

#include <math.h>

#include <orrery/graph.h>

#include "../../io/files.h"

static orr_status read_load(void **state, const char *text, const char *phase, orr_expert_load *ret,
                            orr_error *err)
{
    const char *path = in_folder(state, "load.csv");
    write_file(path, text, strlen(text));
    return orr_expert_load_read(path, phase, arena, ret, err);
}

static orr_expert_load load_of(void **state, const char *text, const char *phase)
{
    orr_expert_load load = {0};
    orr_error err = {0};
    if (read_load(state, text, phase, &load, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return load;
}

#define TWO_LAYERS                                                                                 \
    "subject,phase,L1,token,3\r\n"                                                                 \
    "\"a, \"\"quoted\"\" one\",p,0,7,2\r\n"                                                        \
    "b,d,1,8,2\r\n"                                                                                \
    "c,d,1,9,0\n"                                                                                  \
    "\n"                                                                                           \
    "d,p,3,9,2"

static void shares_by_layer(void **state)
{
    const orr_expert_load load = load_of(state, TWO_LAYERS, NULL);
    assert_int_equal(load.layers, 2);
    assert_int_equal(load.experts, 4);
    assert_int_equal(load.tokens, 4);
    assert_int_equal(load.number[0], 1);
    assert_int_equal(load.number[1], 3);
    const double want[8] = {0.25, 0.5, 0, 0.25, 0.25, 0, 0.75, 0};
    for (int i = 0; i < 8; i++)
        assert_true(load.share[i] == want[i]);
    assert_non_null(strstr(load.source, "load.csv"));
}

static void rows_of_a_phase(void **state)
{
    const orr_expert_load load = load_of(state, TWO_LAYERS, "d");
    assert_int_equal(load.tokens, 2);
    assert_int_equal(load.experts, 3);
    assert_true(load.share[1] == 1 && load.share[3] == 0.5 && load.share[5] == 0.5);
}

static void several_experts_of_a_token(void **state)
{
    const orr_expert_load load = load_of(state, "layer_0,1\n0;1,2;1\n1;2,0-1\n", NULL);
    assert_true(load.share[0] == 0.25 && load.share[1] == 0.5 && load.share[2] == 0.25);
    assert_true(load.share[3] == 0.25 && load.share[4] == 0.5 && load.share[5] == 0.25);
    assert_int_equal(load.tokens, 2);
}

static void imbalance(void **state)
{
    const orr_expert_load load = load_of(state, TWO_LAYERS, NULL);
    assert_true(orr_expert_imbalance(&load, 0, 1) == 1);
    assert_true(orr_expert_imbalance(&load, 0, 4) == 2);
    assert_true(orr_expert_imbalance(&load, 0, 2) == 1.5);
    assert_true(orr_expert_imbalance(&load, 1, 2) == 1.5);
    assert_true(orr_expert_imbalance(&load, 1, 4) == 3);
    assert_true(orr_expert_imbalance(&load, ORR_NONE, 4) == 2.5);
    /* Four experts on three ranks: 0 and 1, 2, 3. */
    assert_true(fabs(orr_expert_imbalance(&load, 0, 3) - 0.75 * 3) < 1e-12);
    /* Ranks without an expert: the mean counts them. */
    assert_true(orr_expert_imbalance(&load, 0, 8) == 4);
}

static void assert_refused_load(void **state, const char *text, const char *phase,
                                orr_status status, const char *message)
{
    orr_expert_load load = {0};
    orr_error err = {0};
    char want[5000];
    (void)snprintf(want, sizeof want, "%s%s", in_folder(state, "load.csv"), message);
    assert_int_equal(read_load(state, text, phase, &load, &err), status);
    assert_string_equal(err.text, want);
    assert_int_equal(load.layers, 0);
}

static void what_is_wrong_is_named(void **state)
{
    orr_expert_load load = {0};
    assert_refused_load(state, "", NULL, ORR_PARSE, ": no rows");
    assert_refused_load(state, "L1\n3\n", "p", ORR_PARSE,
                        ":1:1: phase 'p' is asked for, and there is no column of that name");
    assert_refused_load(state, "phase,L1\nd,3\n", "p", ORR_PARSE, ": no rows of phase p");
    assert_refused_load(state, "L1,L2\n1,\n", NULL, ORR_PARSE,
                        ":2:3: '' is no expert: a whole number is needed");
    assert_refused_load(state, "phase,L1\nd,3\n", "x", ORR_INVALID, ": phase 'x': p or d");
    assert_int_equal(orr_expert_load_read("/none/of/it", NULL, arena, &load, NULL), ORR_IO);
}

#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_FOLDER(shares_by_layer),
        IN_FOLDER(rows_of_a_phase),
        IN_FOLDER(several_experts_of_a_token),
        IN_FOLDER(imbalance),
        IN_FOLDER(what_is_wrong_is_named),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
