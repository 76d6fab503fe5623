/* SPDX-License-Identifier: Apache-2.0 */
#include "catalog_jobs.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <orrery/astra.h>
#include <orrery/trace.h>

#include "base/alloc.h"

enum { RANKS = 16 };
static const char plan_text[] = "tp=2,cp=2,pp=2,dp=2,micro_batches=4,seq=512,layers=4,zero=1";

typedef struct scene {
    plan_world w;
    orr_outcome outcome;
    const orr_graph *graphs[RANKS];
} scene;

static void open_job(scene *s, const char *plan, const char *cluster)
{
    orr_job_options options;
    world_open(&s->w);
    orr_job_options_init(&options);
    options.detail = ORR_DETAIL_OPERATOR;
    s->outcome = world_outcome(&s->w, world_model(&s->w, "llama3.2-1b"), plan,
                               world_cluster(&s->w, cluster), &options);
    for (uint32_t r = 0; r < RANKS; r++)
        world_must(&s->w, orr_outcome_rank(&s->outcome, r, &s->graphs[r], &s->w.err), "rank");
}

static void open_scene(scene *s)
{
    open_job(s, plan_text, "dgx_h100_pod");
}

static void close_scene(scene *s)
{
    for (uint32_t r = 0; r < RANKS; r++)
        orr_graph_free(s->graphs[r]);
    orr_outcome_free(&s->outcome);
    world_close(&s->w);
}

/* Node for node the graph of its kind, at the simulated times, but of its own rank. */
static void must_be_their_kinds(const scene *s)
{
    for (uint32_t r = 0; r < RANKS; r++) {
        const orr_timeline *t = orr_outcome_timeline(&s->outcome, r);
        const orr_graph *g = s->graphs[r], *kind = s->outcome.ensemble->graphs[t->graph];
        assert_int_equal(g->rank, r);
        assert_int_equal(g->world_size, RANKS);
        assert_int_equal(g->n_nodes, kind->n_nodes);
        assert_memory_equal(g->kind, kind->kind, g->n_nodes);
        for (orr_node_id v = 0; v < g->n_nodes; v++) {
            assert_int_equal(g->base_ns + g->start_ns[v], t->start_ns[v]);
            assert_int_equal(g->duration_ns[v], t->duration_ns[v]);
        }
    }
}

static void a_rank_is_its_kind(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    must_be_their_kinds(&s);
    close_scene(&s);
}

/* The number of a group of the graph is that of one of the outcome's, counted over all groupings
 * from 1; and both have the same ranks. */
static void groups_are_numbered(void **state)
{
    (void)state;
    scene s;
    const orr_grouping *groupings;
    uint32_t n;
    open_scene(&s);
    world_must(&s.w, orr_outcome_groups(&s.outcome, s.w.arena, &groupings, &n, &s.w.err), "groups");
    for (uint32_t r = 0; r < RANKS; r++)
        for (uint32_t k = 0; k < s.graphs[r]->n_groups; k++) {
            const orr_group *group = &s.graphs[r]->groups[k];
            uint32_t number = (uint32_t)strtoul(orr_graph_str(s.graphs[r], group->name), NULL, 10);
            uint32_t i = 0;
            assert_true(number >= 1);
            for (number--; number >= groupings[i].n_groups; i++)
                number -= groupings[i].n_groups;
            assert_true(i < n);
            const orr_grouping *grouping = &groupings[i];
            assert_int_equal(grouping->first[number + 1] - grouping->first[number], group->size);
            for (uint32_t m = 0; m < group->size; m++)
                assert_int_equal(grouping->members[grouping->first[number] + m],
                                 orr_group_rank(group, m));
        }
    close_scene(&s);
}

/* All that is sent is received, all collectives find their members. */
static void must_make_a_job(scene *s)
{
    const orr_job *job;
    world_must(&s->w, orr_job_build(s->graphs, RANKS, &job, &s->w.err), "job");
    assert_int_equal(job->n_ranks, RANKS);
    assert_int_equal(job->unmatched, 0);
    assert_true(job->n_matches > 100);
    for (uint32_t d = 0; d < RANKS; d++)
        assert_int_equal(job->clock_offset_ns[d], 0);
    memset(s->graphs, 0, sizeof s->graphs); /* adopted */
    orr_job_free(job);
}

static void ranks_make_a_job(void **state)
{
    (void)state;
    scene s;
    open_scene(&s);
    must_make_a_job(&s);
    close_scene(&s);
}

/* Over sites of other devices: replicas or stages cross, in outer parts, with steps alone. */
static void ranks_of_sites_make_a_job(void **state)
{
    (void)state;
    static const char *const plans[] = {
        "tp=2,pp=2,dp=4,sites=3-0-1,micro_batches=4,seq=512,layers=4,zero=1",
        "tp=2,pp=4,dp=2,sites=1-2-1,cross=pp,micro_batches=6,seq=512,layers=6,sections=1x0-3x2",
        "tp=2,pp=2,dp=4,dp_outer=2,sites=1-0-3,cross=pp,micro_batches=4,seq=512,layers=4",
        "tp=2,pp=2,dp=4,sites=2-0-2,local_steps=5,micro_batches=4,seq=512,layers=4,zero=1"};
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        scene s;
        open_job(&s, plans[i], "mixed_buildings");
        must_be_their_kinds(&s);
        assert_string_equal(orr_graph_str(s.graphs[15], s.graphs[15]->device_name),
                            "b200_sxm_180g");
        must_make_a_job(&s);
        close_scene(&s);
    }
}

/* As a trace that is written, and read again. */
static void by_way_of_a_file(scene *s, uint32_t rank)
{
    char path[] = "/tmp/orrery-rank-XXXXXX.et";
    const int fd = mkstemps(path, 3);
    assert_true(fd >= 0);
    assert_int_equal(close(fd), 0);
    world_must(&s->w, orr_trace_write(path, ORR_FORMAT_CHAKRA, s->graphs[rank], &s->w.err),
               "write");
    orr_graph_free(s->graphs[rank]);
    s->graphs[rank] = NULL;
    orr_read_options options;
    orr_read_options_init(&options);
    options.lowered = true;
    world_must(&s->w, orr_trace_read(path, &options, &s->graphs[rank], NULL, &s->w.err), "read");
    assert_int_equal(unlink(path), 0);
}

/* Another simulator's rules run them to the end. */
static void astra_sim_reads_them(void **state)
{
    static const char system[] =
        "{\"scheduling-policy\": \"LIFO\", \"endpoint-delay\": 10, "
        "\"active-chunks-per-dimension\": 1, \"preferred-dataset-splits\": 4, "
        "\"all-reduce-implementation\": [\"ring\"], \"all-gather-implementation\": [\"ring\"], "
        "\"reduce-scatter-implementation\": [\"ring\"], "
        "\"all-to-all-implementation\": [\"ring\"], "
        "\"collective-optimization\": \"localBWAware\", \"local-mem-bw\": 1600}";
    static const char network[] =
        "topology: [ Switch ]\nnpus_count: [ 16 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n";
    (void)state;
    scene s;
    orr_astra_system sys;
    orr_astra_network net;
    orr_astra_result result;
    open_scene(&s);
    for (uint32_t r = 0; r < RANKS; r++)
        by_way_of_a_file(&s, r);
    world_must(&s.w, orr_astra_system_parse(system, sizeof system - 1, "system", &sys, &s.w.err),
               "system");
    world_must(&s.w,
               orr_astra_network_parse(network, sizeof network - 1, "network", &net, &s.w.err),
               "network");
    const orr_grouping *groupings;
    orr_astra_group groups[256];
    uint32_t n = 0, n_groupings;
    world_must(&s.w, orr_outcome_groups(&s.outcome, s.w.arena, &groupings, &n_groupings, &s.w.err),
               "groups");
    for (uint32_t i = 0; i < n_groupings; i++)
        for (uint32_t g = 0; g < groupings[i].n_groups; g++, n++)
            groups[n] = (orr_astra_group){n + 1, groupings[i].first[g + 1] - groupings[i].first[g],
                                          groupings[i].members + groupings[i].first[g]};
    const orr_astra_groups all = {n, groups};
    const orr_astra_job job = {&sys, &net, &all, s.graphs, 0};
    world_must(&s.w,
               orr_astra_simulate(&job, ORR_ASTRA_UNAWARE, true, s.w.arena, &result, &s.w.err),
               "astra");
    assert_int_equal(result.n_ranks, RANKS);
    assert_true(result.n_messages > 0);
    for (uint32_t r = 0; r < RANKS; r++) {
        int64_t compute_ns = 0;
        for (orr_node_id v = 0; v < s.graphs[r]->n_nodes; v++)
            if (s.graphs[r]->kind[v] == ORR_NODE_COMPUTE)
                compute_ns += s.graphs[r]->duration_ns[v];
        assert_true(result.ranks[r].finish_ns > compute_ns);
        for (orr_node_id v = 0; v < s.graphs[r]->n_nodes; v++)
            assert_true(result.ranks[r].end_ns[v] != ORR_TIME_NONE);
    }
    close_scene(&s);
}

static void out_of_memory(void **state)
{
    (void)state;
    scene s;
    const orr_graph *graph = NULL;
    orr_status status = ORR_NO_MEMORY;
    open_scene(&s);
    for (uint64_t n = 1; status == ORR_NO_MEMORY; n += 1 + n / 8) {
        orr_alloc_fail_from(n);
        status = orr_outcome_rank(&s.outcome, 5, &graph, &s.w.err);
        orr_alloc_fail_from(0);
    }
    assert_int_equal(status, ORR_OK);
    orr_graph_free(graph);
    assert_int_equal(orr_outcome_rank(&s.outcome, RANKS, &graph, &s.w.err), ORR_INVALID);
    close_scene(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_rank_is_its_kind),   cmocka_unit_test(groups_are_numbered),
        cmocka_unit_test(ranks_make_a_job),     cmocka_unit_test(ranks_of_sites_make_a_job),
        cmocka_unit_test(astra_sim_reads_them), cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
