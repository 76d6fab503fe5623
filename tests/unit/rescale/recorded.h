/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_RECORDED_H
#define TESTS_RECORDED_H

/* Synthetic jobs as recordings: simulated, written as one trace a rank, read again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <orrery/orrery.h>

#include "../../property/support/seeds.h"

typedef struct world {
    orr_arena *arena;
    const orr_catalog *catalog;
    orr_pricing pricing;
    orr_sim_options options;
    char folder[64];
} world;

static inline void must(orr_status status, const orr_error *err, uint64_t seed, const char *what)
{
    if (status != ORR_OK)
        seed_fail(seed, "%s: %s", what, err->text);
}

static inline void open_world(world *w, const char *name, uint64_t seed)
{
    orr_error err = {0};
    memset(w, 0, sizeof *w);
    w->arena = orr_arena_new(0, 0);
    assert_non_null(w->arena);
    must(orr_catalog_open(w->arena, &w->catalog, &err), &err, seed, "catalogue");
    const orr_cluster *cluster = NULL;
    must(orr_cluster_load(w->catalog, name, w->arena, &cluster, &err), &err, seed, "cluster");
    must(orr_cluster_resize(cluster, 64, w->arena, &cluster, &err), &err, seed, "resize");
    w->pricing = (orr_pricing){.chain = orr_cost_default_chain(),
                               .device = cluster->device,
                               .recorded = cluster,
                               .cluster = cluster};
    orr_sim_options_init(&w->options);
    w->options.constants = (orr_sim_latencies){5000, 1000, 2000, 1500, 1200, 2000, 5000, 1000};
    w->options.cluster = cluster;
    w->options.threads = 1;
    snprintf(w->folder, sizeof w->folder, "/tmp/orrery-rescale-XXXXXX");
    assert_non_null(mkdtemp(w->folder));
}

static inline void close_world(world *w)
{
    assert_int_equal(rmdir(w->folder), 0);
    orr_arena_free(w->arena);
}

/* Records of synchronisation have the times of the host's calls, as CUDA has them. */
static inline const orr_graph *retimed(const orr_graph *g, const orr_timeline *t, uint64_t seed)
{
    orr_error err = {0};
    const orr_graph *made = NULL;
    int64_t *start = malloc(g->n_nodes * sizeof *start);
    int64_t *duration = malloc(g->n_nodes * sizeof *duration);
    assert_true(start != NULL && duration != NULL);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        start[v] = t->start_ns[v];
        duration[v] = t->duration_ns[v];
        if (g->kind[v] == ORR_NODE_SYNC) {
            assert_true(g->dep_first[v + 1] > g->dep_first[v]);
            start[v] = t->start_ns[g->dep[g->dep_first[v]]];
            duration[v] = 0;
        }
    }
    const orr_retiming times = {start, duration, 0, ORR_NONE};
    must(orr_graph_retime(g, &times, &made, &err), &err, seed, "retime");
    free(start);
    free(duration);
    return made;
}

/* The synthetic job as a recording: simulated, one file a rank, read again. */
static inline const orr_job *record(world *w, const orr_synthetic *spec, uint64_t seed)
{
    orr_error err = {0};
    orr_rescaled made = {0};
    orr_simulation sim;
    const orr_job *job = NULL;
    char path[128];
    const char *paths[] = {w->folder};
    const orr_job_file *files;
    size_t n_files;
    must(orr_synthetic_build(spec, &w->pricing, w->arena, &made, &err), &err, seed, "build");
    must(orr_simulate(made.ensemble, &w->options, w->arena, &sim, &err), &err, seed, "simulate");
    for (uint32_t r = 0; r < made.ensemble->n_ranks; r++) {
        const orr_graph *own = NULL;
        must(orr_synthetic_rank(spec, r, &own, &err), &err, seed, "rank");
        const orr_timeline *t = &sim.timelines[sim.class_of_rank[r]];
        assert_int_equal(own->n_nodes, made.ensemble->graphs[t->graph]->n_nodes);
        const orr_graph *timed = retimed(own, t, seed);
        snprintf(path, sizeof path, "%s/rank%u.json", w->folder, r);
        must(orr_trace_write(path, ORR_FORMAT_CHROME, timed, &err), &err, seed, "write");
        orr_graph_free(timed);
        orr_graph_free(own);
    }
    must(orr_job_read(paths, 1, NULL, w->arena, &job, &files, &n_files, &err), &err, seed, "read");
    for (uint32_t r = 0; r < made.ensemble->n_ranks; r++) {
        snprintf(path, sizeof path, "%s/rank%u.json", w->folder, r);
        assert_int_equal(unlink(path), 0);
    }
    orr_rescaled_free(&made);
    return job;
}

#endif /* TESTS_RECORDED_H */
