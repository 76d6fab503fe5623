/* SPDX-License-Identifier: Apache-2.0 */
#include "replay_fixture.h"

/* An operator, `silence_us` in which the thread does what nothing tells, an operator; beside it,
 * where `polled`, a thread that asks three times. */
static const orr_job *silent_job(int64_t silence_us, bool polled)
{
    const orr_lane watchdog = {ORR_LANE_HOST, -1, 10, 77, 0, 0};
    rig r = rig_new();
    orr_lane_id lane;
    rig_node(&r, "aten::mm", ORR_NODE_HOST_OP, r.host, 0, 100);
    rig_node(&r, "aten::add", ORR_NODE_HOST_OP, r.host, 100 + silence_us, 50);
    assert_int_equal(orr_builder_lane(r.builder, &watchdog, &lane, NULL), ORR_OK);
    if (polled) {
        rig_node(&r, "cudaThreadExchangeStreamCaptureMode", ORR_NODE_RUNTIME, lane, 5, 1);
        rig_node(&r, "cudaEventQuery", ORR_NODE_RUNTIME, lane, 10, 4);
        rig_node(&r, "cudaEventQuery", ORR_NODE_RUNTIME, lane, 50, 6);
    }
    return rig_job(&r);
}

static orr_table read_time_of(replay *r, double *ret_read_frac)
{
    orr_table table;
    orr_error err = {0};
    if (orr_read_time_table(r->job, &r->simulation, 1024, r->arena, &table, ret_read_frac, &err) !=
        ORR_OK)
        fail_msg("%s", err.text);
    return table;
}

/* Time between operators is told as read, and as much more of it as the silence is longer. */
static void silence_is_told_as_read(void **state)
{
    (void)state;
    for (int64_t silence_us = 30; silence_us <= 300; silence_us *= 10) {
        replay r = replay_of(silent_job(silence_us, false), 1);
        double read_frac, sum = 0;
        int64_t time_ns = 0, read_ns = 0;
        const orr_table t = read_time_of(&r, &read_frac);
        for (size_t i = 0; i < t.n_rows; i++) {
            time_ns += replay_int(&t, i, "time_ns");
            read_ns += replay_int(&t, i, "read_ns");
            sum += orr_cell_number(replay_cell(&t, i, "frac"));
        }
        assert_int_equal(time_ns, (150 + silence_us) * 1000);
        assert_int_equal(read_ns, silence_us * 1000);
        assert_true(sum > 1 - 1e-9 && sum < 1 + 1e-9);
        assert_true(read_frac > (double)read_ns / (double)time_ns - 1e-9 &&
                    read_frac < (double)read_ns / (double)time_ns + 1e-9);
        replay_done(&r);
    }
}

static void what_does_not_show_has_no_row(void **state)
{
    (void)state;
    double read_frac;
    replay r = replay_of(silent_job(0, false), 1);
    const orr_table t = read_time_of(&r, &read_frac);
    assert_int_equal(t.n_rows, 1);
    assert_string_equal(replay_cell(&t, 0, "rests_on").as.text, "host work");
    assert_true(read_frac == 0);
    replay_done(&r);
}

/* The simulation of another job has other nodes, and is refused. */
static void another_job_is_refused(void **state)
{
    (void)state;
    double read_frac;
    orr_table t;
    replay r = replay_of(silent_job(30, false), 1), other = replay_of(small_job(), 1);
    assert_int_equal(
        orr_read_time_table(other.job, &r.simulation, 1024, r.arena, &t, &read_frac, NULL),
        ORR_INVALID);
    replay_done(&r);
    replay_done(&other);
}

static void pollers_are_named(void **state)
{
    (void)state;
    orr_table t;
    replay r = replay_of(silent_job(30, true), 1);
    assert_int_equal(orr_pollers_table(r.job, r.arena, &t, NULL), ORR_OK);
    assert_int_equal(t.n_rows, 1);
    assert_int_equal(replay_int(&t, 0, "thread"), 77);
    assert_int_equal(replay_int(&t, 0, "calls"), 3);
    assert_int_equal(replay_int(&t, 0, "time_ns"), 11000);
    assert_string_equal(replay_cell(&t, 0, "call").as.text, "cudaEventQuery");
    replay_done(&r);
    r = replay_of(silent_job(30, false), 1);
    assert_int_equal(orr_pollers_table(r.job, r.arena, &t, NULL), ORR_OK);
    assert_int_equal(t.n_rows, 0);
    replay_done(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(silence_is_told_as_read),
        cmocka_unit_test(what_does_not_show_has_no_row),
        cmocka_unit_test(another_job_is_refused),
        cmocka_unit_test(pollers_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
