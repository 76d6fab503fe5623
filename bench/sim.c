/* SPDX-License-Identifier: Apache-2.0 */
/* Times the simulation of a training step of a language model.
 *
 *   bench_sim RANKS LAYERS [fold] [overlap]
 *
 * Tensor parallel over 8, pipeline of 4 stages (a graph each), data parallel over the rest. A layer
 * is six kernels and two all-reduces, each launched by a call that is nested in an operator: 24
 * nodes. Without `fold` every rank is simulated; with `overlap` computation and communication slow
 * each other down, so that every work on a device is an event. Prints one JSON line; median of the
 * repetitions, on one thread, from graphs to timelines; rates are by processor time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <orrery/sim.h>

enum { REPETITIONS = 5, TP = 8, PP = 4, LAYER_KERNELS = 8 };

static orr_error err;

static void check(orr_status status)
{
    if (status == ORR_OK)
        return;
    fprintf(stderr, "bench: %s\n", err.text);
    exit(1);
}

static double clock_s(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One graph while it is made; host and device time as a recording would show them. */
typedef struct draft {
    orr_graph_builder *builder;
    orr_lane_id thread, stream;
    int64_t host_ns, device_ns;
    uint32_t n_comms;
    orr_rendezvous_id *rendezvous;
} draft;

static orr_node_id add(draft *d, const char *name, orr_node_kind kind, orr_lane_id lane,
                       int64_t start_ns, int64_t duration_ns, orr_node_id parent)
{
    orr_str str;
    orr_node_id id;
    check(orr_builder_str(d->builder, name, strlen(name), &str, &err));
    const orr_node node = {str, kind, lane, start_ns, duration_ns, parent, 0};
    check(orr_builder_node(d->builder, &node, &id, &err));
    return id;
}

/* An operator, its launch, and the work. */
static orr_node_id launch(draft *d, const char *name, orr_node_kind kind, int64_t duration_ns)
{
    const int64_t start_ns = d->host_ns + 9000;
    const orr_node_id op = add(d, name, ORR_NODE_HOST_OP, d->thread, d->host_ns, 8000, ORR_NONE);
    const orr_node_id call =
        add(d, "cudaLaunchKernel", ORR_NODE_RUNTIME, d->thread, d->host_ns + 2000, 4000, op);
    if (start_ns > d->device_ns)
        d->device_ns = start_ns;
    const orr_node_id work = add(d, name, kind, d->stream, d->device_ns, duration_ns, ORR_NONE);
    check(orr_builder_dep(d->builder, work, call, ORR_DEP_LAUNCH, &err));
    d->device_ns += duration_ns + 1000;
    d->host_ns += 9000;
    return work;
}

static void meet(draft *d, orr_collective collective, uint32_t grouping, int64_t duration_ns)
{
    const orr_node_kind kind = collective == ORR_COLL_SEND   ? ORR_NODE_SEND
                               : collective == ORR_COLL_RECV ? ORR_NODE_RECV
                                                             : ORR_NODE_COLLECTIVE;
    const orr_node_id v = launch(d, orr_collective_name(collective), kind, duration_ns);
    const orr_comm comm = {.collective = (uint8_t)collective,
                           .peer = -1,
                           .root = -1,
                           .tag = -1,
                           .group = ORR_NONE,
                           .group_size = -1,
                           .seq = -1,
                           .in_bytes = 1 << 24,
                           .out_bytes = 1 << 24};
    check(orr_builder_comm(d->builder, v, &comm, &err));
    d->rendezvous[d->n_comms] = (orr_rendezvous_id){grouping, d->n_comms};
    d->n_comms++;
}

/* Stage `stage` of the pipeline; what passes between two stages has the ordinal 1000 + sender. */
static const orr_graph *make_graph(uint32_t stage, uint32_t layers, orr_rendezvous_id *rendezvous)
{
    draft d = {.builder = orr_graph_builder_new(), .rendezvous = rendezvous};
    const orr_graph *graph;
    check(orr_builder_lane(d.builder,
                           &(orr_lane){.kind = ORR_LANE_HOST, .device = -1, .pid = 1, .tid = 1},
                           &d.thread, &err));
    check(orr_builder_lane(d.builder, &(orr_lane){.kind = ORR_LANE_STREAM, .tid = 7}, &d.stream,
                           &err));
    if (stage > 0) {
        meet(&d, ORR_COLL_RECV, 2, 90000);
        rendezvous[d.n_comms - 1].ordinal = 1000 + stage - 1;
    }
    for (uint32_t l = 0; l < layers; l++)
        for (int k = 0; k < LAYER_KERNELS; k++) {
            if (k % 4 == 3)
                meet(&d, ORR_COLL_ALL_REDUCE, 0, 60000);
            else
                launch(&d, "aten::mm", ORR_NODE_COMPUTE, 20000 + 5000 * k);
        }
    if (stage + 1 < PP) {
        meet(&d, ORR_COLL_SEND, 2, 90000);
        rendezvous[d.n_comms - 1].ordinal = 1000 + stage;
    }
    meet(&d, ORR_COLL_ALL_REDUCE, 1, 800000);
    check(orr_graph_build(d.builder, &graph, &err));
    orr_graph_builder_free(d.builder);
    return graph;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void run(const orr_ensemble *ensemble, uint32_t layers, bool fold, bool overlap)
{
    double wall_s[REPETITIONS], cpu_s[REPETITIONS];
    orr_simulation sim = {0};
    orr_sim_options options;
    struct rusage before, after;
    orr_sim_options_init(&options);
    options.fold = fold;
    options.threads = 1;
    options.compute_slowdown = overlap ? 1.1 : 1;
    options.comm_slowdown = overlap ? 1.2 : 1;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < REPETITIONS; i++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const double start_s = clock_s(CLOCK_MONOTONIC);
        const double start_cpu_s = clock_s(CLOCK_PROCESS_CPUTIME_ID);
        check(orr_simulate(ensemble, &options, arena, &sim, &err));
        wall_s[i] = clock_s(CLOCK_MONOTONIC) - start_s;
        cpu_s[i] = clock_s(CLOCK_PROCESS_CPUTIME_ID) - start_cpu_s;
        if (i + 1 < REPETITIONS)
            orr_arena_free(arena);
    }
    getrusage(RUSAGE_SELF, &after);
    qsort(wall_s, REPETITIONS, sizeof *wall_s, by_value);
    qsort(cpu_s, REPETITIONS, sizeof *cpu_s, by_value);
    const double seconds = cpu_s[REPETITIONS / 2];
    uint64_t nodes = 0;
    for (uint32_t r = 0; r < ensemble->n_ranks; r++)
        nodes += ensemble->graphs[ensemble->graph_of_rank[r]]->n_nodes;
    printf("{\"bench\": \"sim\", \"ranks\": %u, \"layers\": %u, \"fold\": %s, \"overlap\": %s, "
           "\"classes\": %u, "
           "\"nodes\": %llu, \"points\": %llu, \"median_s\": %.4f, \"median_cpu_s\": %.4f, "
           "\"m_nodes_per_s\": %.2f, "
           "\"ranks_per_s\": %.0f, \"m_points_per_s\": %.2f, \"peak_mib_more\": %.1f, "
           "\"bytes_per_point\": %.1f}\n",
           ensemble->n_ranks, layers, fold ? "true" : "false", overlap ? "true" : "false",
           sim.n_classes, (unsigned long long)nodes, (unsigned long long)sim.n_events,
           wall_s[REPETITIONS / 2], seconds, 1e-6 * (double)nodes / seconds,
           ensemble->n_ranks / seconds, 1e-6 * (double)sim.n_events / seconds,
           (double)(after.ru_maxrss - before.ru_maxrss) / 1024,
           (double)(after.ru_maxrss - before.ru_maxrss) * 1024 / (double)sim.n_events);
}

static orr_grouping grouping(orr_arena *arena, const char *name, const uint32_t *group_of,
                             uint32_t n_ranks, uint32_t n_groups)
{
    orr_grouping made;
    check(orr_grouping_of(name, group_of, n_ranks, n_groups, arena, &made, &err));
    return made;
}

static bool has(int argc, char **argv, const char *word)
{
    for (int i = 3; i < argc; i++)
        if (strcmp(argv[i], word) == 0)
            return true;
    return false;
}

int main(int argc, char **argv)
{
    const uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) / (TP * PP) * (TP * PP) : 0;
    const uint32_t layers = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 0;
    if (n == 0 || layers == 0) {
        fputs("usage: bench_sim RANKS LAYERS [fold] [overlap]\n", stderr);
        return 2;
    }
    orr_arena *arena = orr_arena_new(0, 0);
    uint32_t *tp = orr_arena_array(arena, uint32_t, n), *dp = orr_arena_array(arena, uint32_t, n);
    uint32_t *pp = orr_arena_array(arena, uint32_t, n);
    uint32_t *graph_of_rank = orr_arena_array(arena, uint32_t, n);
    const orr_graph *graphs[PP];
    orr_rendezvous_id *rendezvous[PP];
    if (!tp || !dp || !pp || !graph_of_rank)
        return 1;
    for (uint32_t r = 0; r < n; r++) { /* rank = (stage * dp + replica) * tp + shard */
        const uint32_t per_stage = n / PP;
        graph_of_rank[r] = r / per_stage;
        tp[r] = r / TP;
        dp[r] = r / per_stage * TP + r % TP;
        pp[r] = r % per_stage;
    }
    for (uint32_t d = 0; d < PP; d++) {
        rendezvous[d] = orr_arena_array(arena, orr_rendezvous_id, layers * 2 + 3);
        graphs[d] = make_graph(d, layers, rendezvous[d]);
    }
    const orr_grouping groupings[] = {grouping(arena, "tp", tp, n, n / TP),
                                      grouping(arena, "dp", dp, n, PP * TP),
                                      grouping(arena, "pp", pp, n, n / PP)};
    const orr_ensemble ensemble = {.n_ranks = n,
                                   .n_graphs = PP,
                                   .n_groupings = 3,
                                   .graphs = graphs,
                                   .graph_of_rank = graph_of_rank,
                                   .groupings = groupings,
                                   .rendezvous = (const orr_rendezvous_id *const *)rendezvous};
    run(&ensemble, layers, has(argc, argv, "fold"), has(argc, argv, "overlap"));
    for (uint32_t d = 0; d < PP; d++)
        orr_graph_free(graphs[d]);
    orr_arena_free(arena);
    return 0;
}
