/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_fixture.h"

#include <math.h>

enum { ERRORS, CAUSES, DIFFERENCES };

/* Kernels that start 10 us after their launch, but for one that takes 14. */
static const orr_job *launching_job(void)
{
    enum { KERNELS = 9, LATE = 5 };
    rig r = rig_new();
    for (int i = 0; i < KERNELS; i++) {
        const orr_node_id call =
            rig_node(&r, "cudaLaunchKernel", ORR_NODE_RUNTIME, r.host, 200 * i, 5);
        const orr_node_id kernel = rig_node(&r, i == LATE ? "late" : "kernel", ORR_NODE_COMPUTE,
                                            r.stream, 200 * i + (i == LATE ? 14 : 10), 50);
        rig_dep(&r, kernel, call, ORR_DEP_LAUNCH);
    }
    return rig_job(&r);
}

static void tables_of(replay *r, size_t most, orr_table ret[ORR_REPLAY_ERROR_TABLES])
{
    orr_error err = {0};
    if (orr_replay_error_tables(r->job, &r->simulation, 1024, most, r->arena, ret, &err) != ORR_OK)
        fail_msg("%s", err.text);
}

static void what_differs_is_named(void **state)
{
    (void)state;
    replay r = replay_of(launching_job(), 1);
    orr_table tables[ORR_REPLAY_ERROR_TABLES];
    tables_of(&r, 10, tables);

    assert_string_equal(replay_cell(&tables[ERRORS], 0, "lane").as.text, "all");
    assert_int_equal(replay_int(&tables[ERRORS], 0, "worst_start_error_ns"), 4000);
    assert_string_equal(replay_cell(&tables[ERRORS], 0, "worst_event").as.text, "late");

    assert_int_equal(tables[DIFFERENCES].n_rows, 1);
    assert_string_equal(replay_cell(&tables[DIFFERENCES], 0, "name").as.text, "late");
    assert_string_equal(replay_cell(&tables[DIFFERENCES], 0, "lane").as.text, "stream 7");
    assert_string_equal(replay_cell(&tables[DIFFERENCES], 0, "cause").as.text, "launch");
    assert_int_equal(replay_int(&tables[DIFFERENCES], 0, "difference_ns"), -4000);

    assert_int_equal(tables[CAUSES].n_rows, 1);
    assert_int_equal(replay_int(&tables[CAUSES], 0, "events"), 1);
    replay_done(&r);
}

static void no_more_rows_than_asked_for(void **state)
{
    (void)state;
    replay r = replay_of(launching_job(), 1);
    orr_table tables[ORR_REPLAY_ERROR_TABLES];
    tables_of(&r, 0, tables);
    assert_int_equal(tables[DIFFERENCES].n_rows, 0);
    assert_int_equal(tables[CAUSES].n_rows, 1);
    replay_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_differs_is_named),
        cmocka_unit_test(no_more_rows_than_asked_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
