/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "base/alloc.h"
#include "report/timeline/timeline.h"

/* What must hold of any timeline. */
static void check(const orr_job *job, const orr_timeline_view *t)
{
    uint32_t next = 0;
    for (uint32_t r = 0; r < t->n_rows; r++) {
        const orr_timeline_row *row = &t->rows[r];
        const orr_graph *graph = job->graphs[row->graph];
        int64_t end = INT64_MIN;
        assert_int_equal(row->first, next);
        next += row->count;
        for (uint32_t i = row->first; i < next; i++) {
            const orr_node_id node = t->events[i].node;
            assert_int_equal(t->events[i].graph, row->graph);
            assert_int_equal(graph->lane[node], row->lane);
            assert_true(graph->start_ns[node] >= end); /* one after the other */
            end = graph->start_ns[node] + graph->duration_ns[node];
            assert_int_equal(t->event_of[row->graph][node], i);
        }
    }
    assert_int_equal(next, t->n_events);
}

static orr_timeline_view build(const orr_job *job, uint32_t max_events, orr_arena *arena)
{
    orr_timeline_view t;
    assert_int_equal(orr_timeline_build(job, max_events, arena, &t, NULL), ORR_OK);
    check(job, &t);
    return t;
}

static void nesting_becomes_rows_and_streams_come_first(void **state)
{
    rig r = rig_new();
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_node_id outer = rig_node(&r, "outer", ORR_NODE_HOST_OP, r.host, 0, 100);
    const orr_node_id inner = rig_node(&r, "inner", ORR_NODE_HOST_OP, r.host, 0, 50);
    const orr_node_id deep = rig_node(&r, "deep", ORR_NODE_RUNTIME, r.host, 10, 5);
    const orr_node_id second = rig_node(&r, "second", ORR_NODE_HOST_OP, r.host, 50, 50);
    const orr_node_id after = rig_node(&r, "after", ORR_NODE_HOST_OP, r.host, 100, 0);
    const orr_node_id kernel = rig_node(&r, "kernel", ORR_NODE_COMPUTE, r.stream, 20, 10);
    const orr_node_id beside =
        rig_node(&r, "beside", ORR_NODE_COMPUTE, r.stream, 25, 10); /* overlaps */
    rig_node(&r, "[memory]", ORR_NODE_MEMORY, r.host, 5, 0);
    const orr_job *job = rig_job(&r);
    const orr_timeline_view t = build(job, 1000, arena);
    (void)state;
    assert_int_equal(t.n_events, 7);
    assert_int_equal(t.n_rows, 5);
    assert_int_equal(t.rows[0].lane, r.stream);
    assert_int_equal(t.event_of[0][kernel], 0);
    assert_int_equal(t.event_of[0][beside], 1);
    assert_int_equal(t.rows[1].depth, 1);
    assert_int_equal(t.rows[2].lane, r.host);
    assert_int_equal(t.event_of[0][outer], 2);
    assert_int_equal(t.event_of[0][after], 3);
    assert_int_equal(t.event_of[0][inner], 4);
    assert_int_equal(t.event_of[0][second], 5);
    assert_int_equal(t.event_of[0][deep], 6);
    assert_int_equal(t.thinned, 0);
    orr_job_free(job);
    orr_arena_free(arena);
    (void)state;
}

/* By device, then by number, whichever was met first; threads come last, the busiest first. */
static void lanes_stand_in_their_order(void **state)
{
    enum { LANES = 6 };
    static const orr_lane lanes[LANES] = {
        {ORR_LANE_HOST, -1, 10, 1, 0, 0},  {ORR_LANE_STREAM, 1, 0, 7, 0, 0},
        {ORR_LANE_STREAM, 0, 0, 20, 0, 0}, {ORR_LANE_HOST, -1, 10, 2, 0, 0},
        {ORR_LANE_STREAM, 0, 0, 9, 0, 0},  {ORR_LANE_STREAM, 1, 0, 3, 0, 0}};
    static const int order[LANES] = {4, 2, 5, 1, 3, 0};
    rig r = rig_new();
    orr_arena *arena = orr_arena_new(0, 0);
    orr_lane_id id[LANES];
    (void)state;
    for (int l = 0; l < LANES; l++) {
        assert_int_equal(orr_builder_lane(r.builder, &lanes[l], &id[l], NULL), ORR_OK);
        for (int i = 0; i < (l == 3 ? 2 : 1); i++)
            rig_node(&r, "op", l % 3 == 0 ? ORR_NODE_HOST_OP : ORR_NODE_COMPUTE, id[l], 10 * i, 5);
    }
    const orr_job *job = rig_job(&r);
    const orr_timeline_view t = build(job, 1000, arena);
    assert_int_equal(t.n_rows, LANES);
    for (int l = 0; l < LANES; l++)
        assert_int_equal(t.rows[l].lane, id[order[l]]);
    orr_job_free(job);
    orr_arena_free(arena);
}

static void too_many_events_leave_the_longest(void **state)
{
    enum { N = 10000, KEPT = 1000 };
    rig r = rig_new();
    orr_arena *arena = orr_arena_new(0, 0);
    (void)state;
    for (int i = 0; i < N; i++) /* every tenth is long */
        rig_node(&r, "k", ORR_NODE_COMPUTE, r.stream, i * 100, i % 10 == 5 ? 90 : 2);
    const orr_job *job = rig_job(&r);
    const orr_timeline_view t = build(job, KEPT, arena);
    assert_true(t.n_events <= KEPT && t.n_events >= KEPT - 64);
    assert_int_equal(t.n_events + t.thinned, N);
    uint32_t is_long = 0;
    for (uint32_t i = 0; i < t.n_events; i++)
        is_long += job->graphs[0]->duration_ns[t.events[i].node] == 90000;
    assert_true(is_long >= t.n_events * 9 / 10);
    orr_job_free(job);
    orr_arena_free(arena);
}

static void what_is_nested_too_deep_is_counted(void **state)
{
    enum { DEPTH = 300 };
    rig r = rig_new();
    orr_arena *arena = orr_arena_new(0, 0);
    (void)state;
    for (int i = 0; i < DEPTH; i++)
        rig_node(&r, "frame", ORR_NODE_PYTHON, r.host, i, 2 * (DEPTH - i));
    const orr_job *job = rig_job(&r);
    const orr_timeline_view t = build(job, 1000, arena);
    assert_int_equal(t.n_events, ORR_TIMELINE_DEPTH_MAX);
    assert_int_equal(t.thinned, DEPTH - ORR_TIMELINE_DEPTH_MAX);
    orr_job_free(job);
    orr_arena_free(arena);
}

static void nodes_without_a_time_have_no_place(void **state)
{
    rig r = rig_new();
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_node n = {rig_str(&r, "op"), ORR_NODE_HOST_OP, r.host, ORR_TIME_NONE, 0, ORR_NONE, 0};
    orr_node_id id;
    (void)state;
    assert_int_equal(orr_builder_node(r.builder, &n, &id, NULL), ORR_OK);
    const orr_job *job = rig_job(&r);
    const orr_timeline_view t = build(job, 1000, arena);
    assert_int_equal(t.n_events, 0);
    assert_int_equal(t.untimed, 1);
    orr_job_free(job);
    orr_arena_free(arena);
}

static void every_failed_allocation_is_survived(void **state)
{
    const orr_job *job = small_job();
    (void)state;
    for (uint64_t nth = 1;; nth++) {
        orr_timeline_view t;
        orr_alloc_fail_from(nth);
        orr_arena *arena = orr_arena_new(256, 0);
        const orr_status status =
            arena ? orr_timeline_build(job, 100, arena, &t, NULL) : ORR_NO_MEMORY;
        orr_alloc_fail_from(0);
        orr_arena_free(arena);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_NO_MEMORY);
    }
    orr_job_free(job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nesting_becomes_rows_and_streams_come_first),
        cmocka_unit_test(lanes_stand_in_their_order),
        cmocka_unit_test(too_many_events_leave_the_longest),
        cmocka_unit_test(what_is_nested_too_deep_is_counted),
        cmocka_unit_test(nodes_without_a_time_have_no_place),
        cmocka_unit_test(every_failed_allocation_is_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
