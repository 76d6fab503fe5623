/* SPDX-License-Identifier: Apache-2.0 */
#include "toy.h"

static orr_source learn(const orr_job *job, orr_arena *arena)
{
    orr_source source;
    orr_error err = {0};
    toy_must(orr_source_learn(job, "ProfilerStep", arena, &source, &err), &err);
    return source;
}

/* On every rank no operator is open, and no communication is issued by a part of its members. */
static void cuts_divide_nothing(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const orr_job *job = toy_job((toy){.ranks = 3, .steps = 3, .operators = 40, .seed = seed});
        const orr_source s = learn(job, arena);
        assert_true(s.n_cuts > 30);
        for (uint32_t k = 0; k < s.n_cuts; k++) {
            for (uint32_t r = 0; r < s.n_roles; r++) {
                const orr_graph *g = job->graphs[r];
                const int64_t cut = orr_source_cut_ns(&s, k, r);
                for (orr_node_id v = 0; v < g->n_nodes; v++)
                    if (g->kind[v] == ORR_NODE_HOST_OP)
                        assert_false(g->start_ns[v] < cut &&
                                     g->start_ns[v] + g->duration_ns[v] > cut);
            }
            for (uint32_t m = 0; m < job->n_matches; m++) {
                uint32_t before = 0;
                for (uint32_t i = 0; i < job->matches[m].count; i++) {
                    const orr_member member = job->members[job->matches[m].first + i];
                    before += s.ranks[member.graph].place_ns[member.node] <
                              orr_source_cut_ns(&s, k, member.graph);
                }
                assert_true(before == 0 || before == job->matches[m].count);
            }
        }
        orr_job_free(job);
        orr_arena_free(arena);
    }
}

static void steps_are_those_of_the_annotations(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_job *job = toy_job((toy){.ranks = 2, .steps = 4, .operators = 12});
    const orr_source s = learn(job, arena);
    assert_int_equal(s.n_steps, 4);
    assert_true(s.annotated);
    uint32_t operators[4] = {0};
    const orr_graph *g = job->graphs[0];
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        for (uint32_t i = 0; i < 4 && g->kind[v] == ORR_NODE_HOST_OP; i++)
            operators[i] += g->start_ns[v] >= orr_source_cut_ns(&s, s.step_cut[i], 0) &&
                            g->start_ns[v] < orr_source_cut_ns(&s, s.step_cut[i + 1], 0);
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(operators[i], 12);
    for (uint32_t k = s.step_cut[0]; k + 1 < s.step_cut[1]; k++)
        assert_true(orr_source_progress(&s, k) <= orr_source_progress(&s, k + 1) &&
                    orr_source_progress(&s, k + 1) < 1);
    orr_source other;
    orr_error err = {0};
    toy_must(orr_source_learn(job, "no such name", arena, &other, &err), &err);
    assert_int_equal(other.n_steps, 1);
    assert_false(other.annotated);
    orr_job_free(job);
    orr_arena_free(arena);
}

static void device_work_counts_where_it_was_launched(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_job *job = toy_job((toy){.ranks = 1, .steps = 1, .operators = 8});
    const orr_source s = learn(job, arena);
    const orr_graph *g = job->graphs[0];
    uint32_t seen = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
            if (g->dep_kind[k] == ORR_DEP_LAUNCH) {
                assert_int_equal(s.ranks[0].place_ns[v], g->start_ns[g->dep[k]]);
                seen++;
            } else if (g->kind[v] == ORR_NODE_COMPUTE) {
                assert_int_equal(g->dep_kind[k], ORR_DEP_STREAM);
            }
    assert_int_equal(seen, 8);
    /* Streams that only communicate are counted apart. */
    uint32_t network = 0;
    for (uint32_t l = 0; l < g->n_lanes; l++)
        network += s.ranks[0].lane_of[l] == ORR_COMM_STREAM;
    assert_int_equal(network, 1);
    orr_job_free(job);
    orr_arena_free(arena);
}

static void self_time_is_without_what_is_nested(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_job *job = toy_job((toy){.ranks = 1, .steps = 1, .operators = 5});
    const orr_source s = learn(job, arena);
    const orr_graph *g = job->graphs[0];
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (g->kind[v] == ORR_NODE_HOST_OP)
            assert_int_equal(s.ranks[0].self_ns[v], g->duration_ns[v] - g->duration_ns[v] / 4);
    orr_job_free(job);
    orr_arena_free(arena);
}

static void a_recording_without_times_is_refused(void **state)
{
    (void)state;
    orr_error err = {0};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_graph_builder *b = orr_graph_builder_new();
    const orr_graph *graph;
    const orr_job *job;
    orr_node_id made;
    orr_lane_id lane;
    const orr_lane thread = {.kind = ORR_LANE_HOST, .device = -1, .tid = 1};
    toy_must(orr_builder_lane(b, &thread, &lane, &err), &err);
    const orr_node node = {
        .kind = ORR_NODE_HOST_OP, .lane = lane, .start_ns = ORR_TIME_NONE, .parent = ORR_NONE};
    toy_must(orr_builder_node(b, &node, &made, &err), &err);
    toy_must(orr_graph_build(b, &graph, &err), &err);
    toy_must(orr_job_build(&graph, 1, &job, &err), &err);
    orr_source source;
    assert_int_equal(orr_source_learn(job, "ProfilerStep", arena, &source, &err), ORR_INVALID);
    orr_graph_builder_free(b);
    orr_job_free(job);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(cuts_divide_nothing),
        cmocka_unit_test(steps_are_those_of_the_annotations),
        cmocka_unit_test(device_work_counts_where_it_was_launched),
        cmocka_unit_test(self_time_is_without_what_is_nested),
        cmocka_unit_test(a_recording_without_times_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
