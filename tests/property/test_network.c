/* SPDX-License-Identifier: Apache-2.0 */

/* Metamorphic tests of what-if questions about networks and numbers of ranks, over recordings and
 * clusters of the catalogue: answers that nobody knows, and relations between them that must hold
 * whatever they are. */
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

static const char *const RECORDINGS[] = {
    "examples/traces/mlp_ddp_gloo_w2",
    "examples/traces/gpt_ddp_gloo_w2",
    "examples/traces/moe_gloo_w2",
    "examples/traces/dlrm_gloo_w2",
    "shared/data/traces/dlrm_v100x8",
    "shared/data/traces/kineto/ddp_a100_w8_rank3.json.gz",
    "shared/data/traces/kineto/a100_w16_missing_launches.json.gz",
    "shared/data/traces/kineto/w128_rank0_noflows.json.gz",
    "shared/data/traces/kineto/cpu_only.json.gz",
};
static const char *const CLUSTERS[] = {"h100_24k", "a100_hdr_x4", "gb200_pod", "dgx_h100_pod",
                                       "mtrains_host"};

/* A recording, and a question about it. */
typedef struct question {
    const char *text; /* of the recording */
    const orr_job *job;
    const orr_sim_latencies *constants;
    const orr_cluster *network, *recorded; /* may be NULL */
    uint32_t ranks;                        /* 0: as recorded */
    bool contention;
} question;

typedef struct answer {
    int64_t ns;
    orr_whatif_report report;
} answer;

static void must(orr_status status, const orr_error *err, const char *text)
{
    if (status != ORR_OK)
        fail_msg("%s: %s", text, err->text);
}

/* No transfer that took time as recorded takes none. */
static void check_lengths(const question *q, const orr_ensemble *was, const orr_ensemble *is)
{
    for (uint32_t d = 0; d < was->n_graphs; d++) {
        const orr_graph *g = was->graphs[d];
        for (orr_node_id v = 0; v < g->n_nodes; v++) {
            const bool moves = g->kind[v] == ORR_NODE_COLLECTIVE || g->kind[v] == ORR_NODE_SEND ||
                               g->kind[v] == ORR_NODE_RECV;
            if (moves && g->duration_ns[v] > 0 && is->duration_ns[d][v] <= 0)
                fail_msg("%s: '%s' (node %u) takes no time on %s", q->text,
                         orr_graph_str(g, g->name[v]), v,
                         q->network ? q->network->name : "no network");
        }
    }
}

static answer ask(const question *q)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err = {0};
    orr_rescaled rescaled = {0};
    orr_whatif what;
    orr_sim_options options;
    orr_simulation simulation;
    const orr_ensemble *ensemble, *changed;
    answer a;
    assert_non_null(arena);
    orr_whatif_init(&what);
    orr_sim_options_init(&options);
    if (q->ranks > 0) {
        must(orr_rescale_replicas(q->job, NULL, q->ranks, arena, &rescaled, &err), &err, q->text);
        ensemble = rescaled.ensemble;
        what.recorded = rescaled.recorded_ensemble;
    } else {
        must(orr_ensemble_of_job(q->job, arena, &ensemble, &err), &err, q->text);
    }
    what.network = options.cluster = q->network;
    what.recorded_network = q->recorded;
    must(orr_whatif_apply(ensemble, &what, arena, &changed, &a.report, &err), &err, q->text);
    check_lengths(q, ensemble, changed);
    options.constants = *q->constants;
    options.threads = 1;
    options.network = q->contention ? ORR_NETWORK_FLOWS : ORR_NETWORK_RECORDED;
    must(orr_simulate(changed, &options, arena, &simulation, &err), &err, q->text);
    a.ns = simulation.end_ns - simulation.begin_ns;
    orr_rescaled_free(&rescaled);
    orr_arena_free(arena);
    return a;
}

/* The cluster with `factor` times the bandwidth on every level. */
static orr_cluster wider(const orr_cluster *cluster, double factor, orr_level *levels)
{
    orr_cluster wide = *cluster;
    memcpy(levels, cluster->levels, cluster->n_levels * sizeof *levels);
    for (uint32_t k = 0; k < cluster->n_levels; k++)
        levels[k].bytes_per_s.value *= factor;
    wide.levels = levels;
    wide.name = "wider";
    return wide;
}

static void not_less(const question *q, const char *why, int64_t least_ns, int64_t ns)
{
    if (ns < least_ns)
        fail_msg("%s on %s, %u ranks%s: %lld ns, but %s takes %lld ns", q->text,
                 q->network ? q->network->name : "no network", q->ranks,
                 q->contention ? " with contention" : "", (long long)ns, why, (long long)least_ns);
}

/* The recorded number of ranks is no change; contention takes time and gives none; a wider network
 * takes none; more ranks give none where no transfer became cheaper. */
static void check_relations(question q, const orr_cluster *network, const orr_cluster *recorded)
{
    orr_level levels[ORR_LEVELS_MAX];
    const orr_cluster wide = wider(network, 2, levels);
    question other = q;
    q.network = other.network = network;
    q.recorded = other.recorded = recorded;
    const answer plain = ask(&q);
    other.ranks = q.job->n_ranks;
    if (ask(&other).ns != plain.ns)
        fail_msg("%s: %lld ns, but with its own number of ranks %lld ns on %s", q.text,
                 (long long)plain.ns, (long long)ask(&other).ns, network->name);
    int64_t before_ns = plain.ns;
    for (uint32_t times = 1; times <= 4 && times * q.job->n_ranks <= network->n_devices;
         times *= 2) {
        other = q;
        other.ranks = times * q.job->n_ranks;
        const answer more = ask(&other);
        const bool cheaper =
            more.report.comms_ns[ORR_TRANSFER_ANCHORED] <
                plain.report.comms_ns[ORR_TRANSFER_ANCHORED] ||
            more.report.comms_ns[ORR_TRANSFER_PRICED] < plain.report.comms_ns[ORR_TRANSFER_PRICED];
        if (!cheaper)
            not_less(&other, "half of them", before_ns, more.ns);
        before_ns = more.ns;
        other.contention = true;
        const int64_t shared_ns = ask(&other).ns;
        not_less(&other, "without contention", more.ns, shared_ns);
        question far = other;
        other.network = &wide;
        not_less(&far, "a network twice as wide", ask(&other).ns, shared_ns);
        other.contention = false;
        not_less(&q, "a network twice as wide", ask(&other).ns, more.ns);
    }
}

static void check_recording(const char *path, const orr_catalog *catalog)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err = {0};
    orr_sim_latencies constants;
    const orr_job_file *files;
    size_t n_files;
    orr_read_options tolerant;
    question q = {.text = path, .constants = &constants};
    orr_read_options_init(&tolerant);
    tolerant.tolerant = true;
    must(orr_job_read(&path, 1, &tolerant, arena, &q.job, &files, &n_files, &err), &err, path);
    orr_sim_latencies_init(&constants);
    must(orr_sim_latencies_measure(q.job->graphs, q.job->n_graphs, &constants, NULL, &err), &err,
         path);
    const orr_cluster *v100 = orr_catalog_cluster(catalog, "dgx1_v100");
    for (size_t i = 0; i < sizeof CLUSTERS / sizeof *CLUSTERS; i++) {
        const orr_cluster *network = orr_catalog_cluster(catalog, CLUSTERS[i]);
        assert_non_null(network);
        if (network->n_devices < q.job->n_ranks)
            continue;
        check_relations(q, network, NULL);
        check_relations(q, network, v100);
        /* on the network where it was recorded, it takes what it took */
        q.network = q.recorded = NULL;
        const int64_t recorded_ns = ask(&q).ns;
        q.network = q.recorded = network;
        assert_int_equal(ask(&q).ns, recorded_ns);
    }
    orr_job_free(q.job);
    orr_arena_free(arena);
}

static void test_relations_between_answers(void **state)
{
    (void)state;
    const char *source = getenv("ORRERY_SOURCE"), *shared = getenv("ORRERY_SHARED");
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_catalog *catalog;
    orr_error err = {0};
    must(orr_catalog_open(arena, &catalog, &err), &err, "catalogue");
    for (size_t i = 0; i < sizeof RECORDINGS / sizeof *RECORDINGS; i++) {
        char path[1024];
        if (strncmp(RECORDINGS[i], "shared/", 7) == 0)
            snprintf(path, sizeof path, "%s/%s", shared ? shared : "../shared", RECORDINGS[i] + 7);
        else
            snprintf(path, sizeof path, "%s/%s", source ? source : ".", RECORDINGS[i]);
        if (access(path, R_OK) == 0)
            check_recording(path, catalog);
        else
            print_message("skipped: %s is not here\n", RECORDINGS[i]);
    }
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_relations_between_answers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
