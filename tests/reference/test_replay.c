/* SPDX-License-Identifier: Apache-2.0 */

/* Replays of real recordings against what was recorded. The bars: a job of eight ranks within 1.5 %
 * on average and 3 % at worst, every other recording with kernels within 3 %, both with constants
 * from recordings that it is no part of (replay_cases.h). Where the peers stand: Chakra's own
 * simulator is off by 19 to 29 % on the eight ranks; Lumos reports 3.3 % on its own data (its
 * paper). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "replay_cases.h"

#include "sim/program/streams.h"

static replay_jobs jobs;
static orr_arena *arena; /* of the jobs */

static int read_all(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return 1;
    for (size_t i = 0; i < REPLAY_CASES_N; i++) {
        orr_error err;
        char path[1024];
        jobs[i] = NULL;
        if (replay_path(&REPLAY_CASES[i], path, sizeof path) &&
            replay_read(&REPLAY_CASES[i], arena, &jobs[i], &err) != ORR_OK) {
            print_error("%s: %s\n", path, err.text);
            return 1;
        }
    }
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < REPLAY_CASES_N; i++)
        orr_job_free(jobs[i]);
    orr_arena_free(arena);
    return 0;
}

static void need_traces(void)
{
    if (jobs[0] != NULL)
        return;
    print_message("ORRERY_SHARED is not set: no replay is compared\n");
    skip();
}

static replay_score judge(size_t i, bool held_out)
{
    replay_score score;
    orr_error err;
    orr_arena *own = orr_arena_new(0, 0);
    assert_non_null(own);
    if (replay_judge(jobs, i, held_out, own, &score, &err) != ORR_OK)
        fail_msg("%s: %s", REPLAY_CASES[i].path, err.text);
    orr_arena_free(own);
    return score;
}

static void test_eight_ranks(void **state)
{
    (void)state;
    need_traces();
    for (int held_out = 0; held_out < 2; held_out++) {
        const replay_score score = judge(0, held_out);
        assert_int_equal(score.n_ranks, 8);
        assert_int_equal(score.n_steps, 8);
        assert_true(score.mean <= 0.015 && score.worst <= 0.03);
        assert_true(score.mean_step <= 0.015 && score.worst_step <= 0.03);
        assert_true(score.mean_start_us < 100);
    }
}

static bool has_kernels(const orr_job *job)
{
    for (uint32_t d = 0; d < job->n_graphs; d++)
        for (orr_node_id v = 0; v < job->graphs[d]->n_nodes; v++)
            if (orr_occupies(job->graphs[d], v))
                return true;
    return false;
}

static void test_every_recording_with_kernels(void **state)
{
    (void)state;
    unsigned compared = 0;
    need_traces();
    for (size_t i = 1; i < REPLAY_CASES_N; i++) {
        if (jobs[i] == NULL || !has_kernels(jobs[i]))
            continue;
        const replay_score score = judge(i, true);
        if (score.worst > 0.03 || score.worst_step > 0.03)
            fail_msg("%s: spans %.2f %%, steps %.2f %%", REPLAY_CASES[i].path, 100 * score.worst,
                     100 * score.worst_step);
        compared++;
    }
    assert_int_equal(compared, 15);
}

/* Jobs without a device, whose threads wait for gloo. */
static void test_host_only_jobs(void **state)
{
    (void)state;
    unsigned compared = 0;
    for (size_t i = 0; i < REPLAY_CASES_N; i++) {
        if (jobs[i] == NULL || strcmp(REPLAY_CASES[i].generation, "CPU") != 0)
            continue;
        const replay_score score = judge(i, true);
        if (score.worst > 0.03)
            fail_msg("%s: spans %.2f %%", REPLAY_CASES[i].path, 100 * score.worst);
        compared++;
    }
    assert_int_equal(compared, 5);
}

/* Whatever is in a recording, it can be replayed: all there are, one by one. */
static void test_every_file(void **state)
{
    (void)state;
    static const char *const folders[] = {"kineto", "dlrm_v100x8", "pytorch_et",
                                          "chakra/astra_all_reduce", "chakra/generator"};
    need_traces();
    unsigned replayed = 0;
    for (size_t f = 0; f < sizeof folders / sizeof *folders; f++) {
        char path[1024];
        const char *paths[] = {path};
        const char *const *files;
        size_t n;
        orr_error err;
        orr_read_options options;
        orr_read_options_init(&options);
        options.tolerant = true;
        snprintf(path, sizeof path, "%s/data/traces/%s", getenv("ORRERY_SHARED"), folders[f]);
        assert_int_equal(orr_trace_find(paths, 1, arena, &files, &n, &err), ORR_OK);
        for (size_t i = 0; i < n; i++) {
            const orr_graph *graph;
            const orr_job *job;
            orr_simulation simulation;
            orr_validation error;
            orr_deviations why;
            orr_arena *own = orr_arena_new(0, 0);
            if (orr_trace_read(files[i], &options, &graph, NULL, &err) != ORR_OK ||
                orr_job_build(&graph, 1, &job, &err) != ORR_OK ||
                replay_run(job, NULL, own, &simulation, &error, &err) != ORR_OK ||
                orr_simulation_explain(job, &simulation, 1024, 10, own, &why, &err) != ORR_OK)
                fail_msg("%s: %s", files[i], err.text);
            orr_job_free(job);
            orr_arena_free(own);
            replayed++;
        }
    }
    assert_true(replayed > 60);
}

/* A recording in which every wait of a host for its devices lasted longer, and all that came later
 * was that much later: `longer(t)` is where a moment went. */
typedef struct pause {
    int64_t at_ns, ns;
} pause;

static int64_t longer(const pause *pauses, size_t n, int64_t at_ns)
{
    int64_t to_ns = at_ns;
    for (size_t i = 0; i < n; i++)
        if (pauses[i].at_ns < at_ns)
            to_ns += pauses[i].ns;
    return to_ns;
}

/* Is no thread but the one that waits at work of its own then? */
static bool is_quiet(const orr_graph *g, orr_node_id wait, int64_t at_ns)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const int64_t start = g->start_ns[v], end = orr_recorded_end(g, v);
        if (start == ORR_TIME_NONE || v == wait || start > at_ns || end < at_ns)
            continue;
        if (orr_on_thread(g, v) && g->lane[v] != g->lane[wait] &&
            (g->kind[v] == ORR_NODE_HOST_OP || g->kind[v] == ORR_NODE_RUNTIME))
            return false;
    }
    return true;
}

static size_t find_pauses(const orr_graph *g, pause *pauses, size_t most)
{
    size_t n = 0;
    for (orr_node_id v = 0; v < g->n_nodes && n < most; v++) {
        int64_t until = INT64_MIN;
        for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
            if (g->dep_kind[k] == ORR_DEP_SYNC && orr_recorded_end(g, g->dep[k]) > until)
                until = orr_recorded_end(g, g->dep[k]);
        /* Just after the work that it waits for ended, before it returned. */
        if (g->kind[v] == ORR_NODE_RUNTIME && until > g->start_ns[v] &&
            until < orr_recorded_end(g, v) && is_quiet(g, v, until))
            pauses[n] = (pause){until, 1000000 + 10000 * (int64_t)n};
        else
            continue;
        n++;
    }
    return n;
}

static const orr_graph *with_pauses(const orr_graph *g, const pause *pauses, size_t n,
                                    orr_arena *own)
{
    int64_t *start = orr_arena_array(own, int64_t, g->n_nodes);
    int64_t *duration = orr_arena_array(own, int64_t, g->n_nodes);
    const orr_retiming times = {start, duration, g->base_ns, ORR_NONE};
    const orr_graph *ret;
    orr_error err;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        start[v] = g->start_ns[v];
        duration[v] = g->duration_ns[v];
        if (start[v] == ORR_TIME_NONE)
            continue;
        start[v] = longer(pauses, n, g->start_ns[v]);
        if (orr_on_thread(g, v)) /* the device took no longer */
            duration[v] = longer(pauses, n, orr_recorded_end(g, v)) - start[v];
    }
    assert_int_equal(orr_graph_retime(g, &times, &ret, &err), ORR_OK);
    return ret;
}

/* Starts of a graph's replay; the graph is freed. */
static const int64_t *replayed_starts(const orr_graph *g, const orr_sim_latencies *constants,
                                      orr_arena *own)
{
    const orr_job *job;
    const orr_ensemble *ensemble;
    orr_simulation simulation;
    orr_sim_options options;
    orr_error err;
    orr_sim_options_init(&options);
    options.constants = *constants;
    assert_int_equal(orr_job_build(&g, 1, &job, &err), ORR_OK);
    assert_int_equal(orr_ensemble_of_job(job, own, &ensemble, &err), ORR_OK);
    if (orr_simulate(ensemble, &options, own, &simulation, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_job_free(job);
    return simulation.timelines[0].start_ns;
}

static bool executes(const orr_graph *g, orr_node_id v)
{
    return orr_occupies(g, v) || g->kind[v] == ORR_NODE_HOST_OP || g->kind[v] == ORR_NODE_RUNTIME;
}

/* Nodes that a replay puts elsewhere when the recorded waits were longer. */
static uint32_t count_moved(const orr_graph *g, size_t *paused)
{
    enum { MOST_PAUSES = 64 };
    pause pauses[MOST_PAUSES];
    uint32_t moved = 0;
    orr_error err;
    orr_sim_latencies constants;
    orr_arena *own = orr_arena_new(0, 0);
    assert_non_null(own);
    orr_sim_latencies_init(&constants);
    assert_int_equal(orr_sim_latencies_measure(&g, 1, &constants, NULL, &err), ORR_OK);
    const size_t n = find_pauses(g, pauses, MOST_PAUSES);
    const int64_t *as_was = replayed_starts(with_pauses(g, pauses, 0, own), &constants, own);
    const int64_t *longer_waits = replayed_starts(with_pauses(g, pauses, n, own), &constants, own);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        moved += executes(g, v) && as_was[v] != longer_waits[v];
    orr_arena_free(own);
    *paused += n;
    return moved;
}

/* No recorded end of a wait is in a replay: on each of the eight ranks ten waits that were a
 * millisecond longer, of 13 to 20 ms in all, move nothing by a nanosecond; nor do those of the
 * others. Two are left out: in one the graphs' kernels were not recorded, and what was is kept as
 * far apart as it was; in the other the recorded times say which work found the device full. */
static void test_recorded_waits_are_not_read(void **state)
{
    (void)state;
    size_t paused = 0;
    need_traces();
    for (size_t i = 0; i < REPLAY_CASES_N; i++) {
        if (jobs[i] == NULL || strstr(REPLAY_CASES[i].path, "missing_launches") != NULL ||
            strstr(REPLAY_CASES[i].path, "ddp_a100") != NULL)
            continue;
        for (uint32_t d = 0; d < jobs[i]->n_graphs; d++) {
            const uint32_t moved = count_moved(jobs[i]->graphs[d], &paused);
            if (moved > 0)
                fail_msg("%s, rank %u: %u nodes moved", REPLAY_CASES[i].path,
                         jobs[i]->rank_of_graph[d], moved);
        }
        assert_true(i > 0 || paused == 80);
    }
    assert_true(paused > 130);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_eight_ranks),
        cmocka_unit_test(test_every_recording_with_kernels),
        cmocka_unit_test(test_host_only_jobs),
        cmocka_unit_test(test_every_file),
        cmocka_unit_test(test_recorded_waits_are_not_read),
    };
    return cmocka_run_group_tests(tests, read_all, free_all);
}
