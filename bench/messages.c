/* SPDX-License-Identifier: Apache-2.0 */
/* Times the message engine on one all-reduce of 1 MiB in 4 chunks, every message an event, in
 * seconds of one thread, beside its floor.
 *
 *   messages CASE RANKS [aware]    CASE: ring, halving, direct, 3d (RANKS a cube)
 *
 * Prints one JSON line: medians of the repetitions, unfolded and folded, and the largest memory of
 * the process. The floor writes each message's 16 bytes into a row as long as the job has ranks and
 * reads them back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <orrery/orrery.h>

#include "sim/message/bucket_queue.h"

enum { REPETITIONS = 5, FEWEST = 3, ENOUGH_S = 5 };

typedef struct job {
    orr_astra_system system;
    orr_astra_network network;
    const orr_graph *graph, **graphs;
    orr_astra_mode mode;
    orr_astra_result result;
} job;

static double now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* one thread, and others may use the machine */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void check(orr_status status, const orr_error *err)
{
    if (status == ORR_OK)
        return;
    fprintf(stderr, "messages: %s\n", err->text);
    exit(1);
}

static void make_graph(job *j)
{
    const orr_lane lane = {.kind = ORR_LANE_STREAM};
    const orr_comm comm = {.collective = ORR_COLL_ALL_REDUCE,
                           .peer = -1,
                           .root = -1,
                           .tag = -1,
                           .group = ORR_NONE,
                           .group_size = -1,
                           .seq = -1,
                           .in_bytes = 1 << 20,
                           .out_bytes = 1 << 20};
    orr_node node = {
        .kind = ORR_NODE_COLLECTIVE, .start_ns = ORR_TIME_NONE, .parent = ORR_NONE, .source_id = 1};
    orr_graph_builder *b = orr_graph_builder_new();
    orr_error err = {0};
    orr_node_id id;
    check(orr_builder_lane(b, &lane, &node.lane, &err), &err);
    check(orr_builder_node(b, &node, &id, &err), &err);
    check(orr_builder_comm(b, id, &comm, &err), &err);
    check(orr_graph_build(b, &j->graph, &err), &err);
    orr_graph_builder_free(b);
    j->graphs = malloc(j->network.n_ranks * sizeof *j->graphs);
    if (!j->graphs)
        exit(1);
    for (uint32_t rank = 0; rank < j->network.n_ranks; rank++)
        j->graphs[rank] = j->graph;
}

static void make_inputs(job *j, const char *name, unsigned ranks)
{
    static const struct {
        const char *name, *ways, *topology;
    } cases[] = {{"ring", "\"ring\"", "Ring"},
                 {"halving", "\"halvingDoubling\"", "Switch"},
                 {"direct", "\"direct\"", "Switch"}};
    const bool cube = strcmp(name, "3d") == 0;
    const char *ways = "\"ring\", \"halvingDoubling\", \"direct\"", *topology = "Ring";
    char system[500], network[300];
    orr_error err = {0};
    unsigned side = 2;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (strcmp(name, cases[i].name) == 0) {
            ways = cases[i].ways;
            topology = cases[i].topology;
        }
    while (side * side * side < ranks)
        side++;
    snprintf(system, sizeof system,
             "{\"endpoint-delay\": 10, \"active-chunks-per-dimension\": 1, "
             "\"preferred-dataset-splits\": 4, \"all-reduce-implementation\": [%s], "
             "\"local-mem-bw\": 1600}",
             ways);
    if (cube)
        snprintf(network, sizeof network,
                 "topology: [Ring, Switch, FullyConnected]\nnpus_count: [%u, %u, %u]\n"
                 "bandwidth: [50, 50, 50]\nlatency: [500, 500, 500]\n",
                 side, side, side);
    else
        snprintf(network, sizeof network,
                 "topology: [%s]\nnpus_count: [%u]\nbandwidth: [50]\nlatency: [500]\n", topology,
                 ranks);
    check(orr_astra_system_parse(system, strlen(system), "system", &j->system, &err), &err);
    check(orr_astra_network_parse(network, strlen(network), "network", &j->network, &err), &err);
}

static void run(job *j, bool fold)
{
    const orr_astra_job what = {&j->system, &j->network, NULL, j->graphs, 0};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_error err = {0};
    check(orr_astra_simulate(&what, j->mode, fold, arena, &j->result, &err), &err);
    j->result.ranks = NULL; /* of the arena */
    orr_arena_free(arena);
}

static volatile uint64_t sink;
static void run_floor(const job *j)
{
    const uint64_t rounds = j->result.n_messages / j->network.n_ranks;
    orr_message_event *row = malloc(j->network.n_ranks * sizeof *row);
    uint64_t sum = 0;
    if (!row)
        exit(1);
    for (uint64_t round = 0; round < rounds; round++) {
        for (uint32_t i = 0; i < j->network.n_ranks; i++)
            row[i] = (orr_message_event){round + sum, i, (uint32_t)round};
        for (uint32_t i = 0; i < j->network.n_ranks; i++)
            sum += row[i].what ^ row[i].who ^ row[i].index;
    }
    sink = sum;
    free(row);
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

typedef enum what { WHOLE, FOLDED, FLOOR } what;

static double median_s(job *j, what which)
{
    double s[REPETITIONS];
    const double begin_s = now_s();
    int n = 0;
    while (n < FEWEST || (n < REPETITIONS && now_s() - begin_s < ENOUGH_S)) {
        const double start_s = now_s();
        if (which == FLOOR)
            run_floor(j);
        else
            run(j, which == FOLDED);
        s[n++] = now_s() - start_s;
    }
    qsort(s, (size_t)n, sizeof *s, by_value);
    return s[n / 2];
}

int main(int argc, char **argv)
{
    job j = {.mode =
                 argc > 3 && strcmp(argv[3], "aware") == 0 ? ORR_ASTRA_AWARE : ORR_ASTRA_UNAWARE};
    struct rusage usage;
    if (argc < 3) {
        fputs("usage: messages ring|halving|direct|3d RANKS [aware]\n", stderr);
        return 2;
    }
    make_inputs(&j, argv[1], (unsigned)strtoul(argv[2], NULL, 10));
    make_graph(&j);
    const double folded_s = median_s(&j, FOLDED);
    const unsigned simulated = j.result.n_simulated;
    const double whole_s = median_s(&j, WHOLE);
    getrusage(RUSAGE_SELF, &usage);
    const double floor_s = median_s(&j, FLOOR), messages = (double)j.result.n_messages;
    printf("{\"bench\": \"messages\", \"case\": \"%s\", \"network\": \"%s\", \"ranks\": %u, "
           "\"messages\": %.0f, \"events\": %llu, \"cpu_s\": %.6f, \"messages_per_s\": %.3g, "
           "\"times_the_floor\": %.1f, \"folded_cpu_s\": %.6f, \"folded_to\": %u, "
           "\"peak_mib\": %.1f}\n",
           argv[1], j.mode == ORR_ASTRA_AWARE ? "aware" : "unaware", j.network.n_ranks, messages,
           (unsigned long long)j.result.n_events, whole_s, messages / whole_s, whole_s / floor_s,
           folded_s, simulated, (double)usage.ru_maxrss / 1024);
    orr_graph_free(j.graph);
    free(j.graphs);
    return 0;
}
