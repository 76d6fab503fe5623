/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/orrery.h>

#include <string.h>

#include "fuzz.h"

/* ASTRA-sim's three inputs. What is taken as a system or as a network is also simulated, with a
 * network or a system that is known to be good, as far as it is small. */
enum { MOST_RANKS = 64, MOST_SPLITS = 16 };

static const char SYSTEM[] = "{\"preferred-dataset-splits\": 2, \"local-mem-bw\": 100, "
                             "\"all-reduce-implementation\": [\"ring\", \"direct\", \"ring\"]}";
static const char NETWORK[] = "topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\n"
                              "bandwidth: [ 50, 25 ]\nlatency: [ 500, 700 ]\n";

static const orr_graph *one_all_reduce(void)
{
    orr_graph_builder *b = orr_graph_builder_new();
    const orr_lane lane = {.kind = ORR_LANE_STREAM};
    const orr_comm comm = {.collective = ORR_COLL_ALL_REDUCE,
                           .peer = -1,
                           .root = -1,
                           .tag = -1,
                           .group = ORR_NONE,
                           .group_size = -1,
                           .seq = -1,
                           .in_bytes = 100000,
                           .out_bytes = 100000};
    orr_node node = {
        .kind = ORR_NODE_COLLECTIVE, .start_ns = ORR_TIME_NONE, .parent = ORR_NONE, .source_id = 1};
    const orr_graph *graph;
    orr_node_id id;
    FUZZ_CHECK(b != NULL && orr_builder_lane(b, &lane, &node.lane, NULL) == ORR_OK &&
               orr_builder_node(b, &node, &id, NULL) == ORR_OK &&
               orr_builder_comm(b, id, &comm, NULL) == ORR_OK &&
               orr_graph_build(b, &graph, NULL) == ORR_OK);
    orr_graph_builder_free(b);
    return graph;
}

/* Every mode ends, and folded as unfolded. */
static void simulate(const orr_astra_system *system, const orr_astra_network *network)
{
    if (network->n_ranks > MOST_RANKS || system->splits > MOST_SPLITS)
        return;
    const orr_graph *graph = one_all_reduce(), *graphs[MOST_RANKS];
    for (uint32_t rank = 0; rank < network->n_ranks; rank++)
        graphs[rank] = graph;
    const orr_astra_job job = {system, network, NULL, graphs, 0};
    for (int mode = 0; mode <= ORR_ASTRA_MODEL; mode++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_astra_result folded, whole;
        FUZZ_CHECK(arena != NULL);
        const orr_status status =
            orr_astra_simulate(&job, (orr_astra_mode)mode, true, arena, &folded, NULL);
        FUZZ_CHECK(status ==
                   orr_astra_simulate(&job, (orr_astra_mode)mode, false, arena, &whole, NULL));
        for (uint32_t rank = 0; status == ORR_OK && rank < network->n_ranks; rank++)
            FUZZ_CHECK(folded.ranks[rank].finish_ns == whole.ranks[rank].finish_ns);
        orr_arena_free(arena);
    }
    orr_graph_free(graph);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_astra_system system, good_system;
    orr_astra_network network, good_network;
    orr_astra_groups groups;
    orr_arena *arena = orr_arena_new(0, 0);
    FUZZ_CHECK(arena != NULL);
    FUZZ_CHECK(orr_astra_system_parse(SYSTEM, strlen(SYSTEM), "system", &good_system, NULL) ==
               ORR_OK);
    FUZZ_CHECK(orr_astra_network_parse(NETWORK, strlen(NETWORK), "network", &good_network, NULL) ==
               ORR_OK);
    good_system.n_ways[ORR_ASTRA_ALL_REDUCE] = 2;
    if (orr_astra_system_parse(bytes, len, "in", &system, NULL) == ORR_OK)
        simulate(&system, &good_network);
    if (orr_astra_network_parse(bytes, len, "in", &network, NULL) == ORR_OK) {
        if (network.n_dims < 2)
            good_system.n_ways[ORR_ASTRA_ALL_REDUCE] = network.n_dims;
        simulate(&good_system, &network);
    }
    if (orr_astra_groups_parse(bytes, len, "in", arena, &groups, NULL) == ORR_OK)
        for (uint32_t i = 0; i < groups.n; i++)
            FUZZ_CHECK(groups.at[i].n > 0 && groups.at[i].id > 0);
    orr_arena_free(arena);
    return 0;
}
