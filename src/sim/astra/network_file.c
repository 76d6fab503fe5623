/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/astra.h>

#include <string.h>

#include "io/yaml/yaml.h"

enum { MOST_RANKS = 1 << 24 };

/* Reads the list of a key, with as many elements as the network has dimensions (0: the first
 * list, which determines them). */
static orr_status find_list(const orr_yaml *top, const char *key, uint32_t n_dims,
                            const orr_yaml **ret, orr_error *err)
{
    const orr_yaml *list = orr_yaml_find(top, key);
    if (list == NULL)
        return orr_yaml_fail(top, ORR_INVALID, err, "no key '%s'", key);
    if (list->kind != ORR_YAML_LIST || list->n == 0 || list->n > ORR_ASTRA_DIMS)
        return orr_yaml_fail(list, ORR_INVALID, err, "%s: a list, [ ... ], of 1 to %d dimensions",
                             key, ORR_ASTRA_DIMS);
    if (n_dims != 0 && list->n != n_dims)
        return orr_yaml_fail(list, ORR_INVALID, err, "%s: %u values for %u dimensions", key,
                             list->n, n_dims);
    *ret = list;
    return ORR_OK;
}

static orr_status read_topology(const orr_yaml *value, uint8_t *ret, orr_error *err)
{
    static const struct {
        const char *name;
        orr_topology topology;
    } names[] = {{"Ring", ORR_TOPOLOGY_RING},
                 {"Switch", ORR_TOPOLOGY_SWITCH},
                 {"FullyConnected", ORR_TOPOLOGY_FULLY_CONNECTED}};
    for (size_t i = 0; value->kind == ORR_YAML_SCALAR && i < sizeof names / sizeof *names; i++)
        if (strcmp(value->text, names[i].name) == 0) {
            *ret = (uint8_t)names[i].topology;
            return ORR_OK;
        }
    return orr_yaml_fail(value, ORR_INVALID, err, "topology: Ring, Switch or FullyConnected");
}

static orr_status read_number(const orr_yaml *value, const char *key, double least, double most,
                              double *ret, orr_error *err)
{
    ORR_TRY(orr_yaml_number(value, ret, err));
    if (!(*ret >= least) || !(*ret <= most))
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: a number from %g to %g", key, least,
                             most);
    return ORR_OK;
}

static orr_status read_sizes(const orr_yaml *list, orr_astra_network *network, orr_error *err)
{
    network->n_ranks = 1;
    for (uint32_t d = 0; d < network->n_dims; d++) {
        int64_t n;
        ORR_TRY(orr_yaml_int(list->values[d], &n, err));
        if (n < 2 || n > MOST_RANKS / network->n_ranks)
            return orr_yaml_fail(list->values[d], ORR_INVALID, err,
                                 "npus_count: at least 2, and at most 2^24 in all");
        network->stride[d] = network->n_ranks;
        network->size[d] = (uint32_t)n;
        network->n_ranks *= (uint32_t)n;
    }
    return ORR_OK;
}

static orr_status read_network(const orr_yaml *top, orr_astra_network *ret, orr_error *err)
{
    const orr_yaml *topology, *sizes, *bandwidth, *latency;
    orr_astra_network network = {0};
    if (top->kind != ORR_YAML_MAP)
        return orr_yaml_fail(top, ORR_INVALID, err,
                             "a network has the keys topology, npus_count, bandwidth and latency");
    ORR_TRY(find_list(top, "topology", 0, &topology, err));
    network.n_dims = topology->n;
    ORR_TRY(find_list(top, "npus_count", network.n_dims, &sizes, err));
    ORR_TRY(find_list(top, "bandwidth", network.n_dims, &bandwidth, err));
    ORR_TRY(find_list(top, "latency", network.n_dims, &latency, err));
    ORR_TRY(read_sizes(sizes, &network, err));
    for (uint32_t d = 0; d < network.n_dims; d++) {
        double gb_per_s;
        ORR_TRY(read_topology(topology->values[d], &network.topology[d], err));
        ORR_TRY(read_number(bandwidth->values[d], "bandwidth", 1e-3, 1e9, &gb_per_s, err));
        ORR_TRY(read_number(latency->values[d], "latency", 0, 1e12, &network.latency_ns[d], err));
        network.bytes_per_ns[d] = gb_per_s * (1 << 30) / 1e9; /* ASTRA-sim's GB/s are 2^30 B/s */
    }
    *ret = network;
    return ORR_OK;
}

static orr_status read_all(const char *path, const void *bytes, size_t len, const char *file,
                           orr_astra_network *ret, orr_error *err)
{
    const orr_yaml *top;
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    orr_status status = path != NULL ? orr_yaml_load(path, arena, &top, err)
                                     : orr_yaml_parse(bytes, len, file, arena, &top, err);
    if (status == ORR_OK)
        status = read_network(top, ret, err);
    orr_arena_free(arena);
    return status;
}

orr_status orr_astra_network_load(const char *path, orr_astra_network *ret, orr_error *err)
{
    return read_all(path, NULL, 0, path, ret, err);
}

orr_status orr_astra_network_parse(const void *bytes, size_t len, const char *file,
                                   orr_astra_network *ret, orr_error *err)
{
    return read_all(NULL, bytes, len, file, ret, err);
}

void orr_astra_network_model(const orr_astra_network *network, orr_network *ret)
{
    *ret = (orr_network){.n_levels = network->n_dims};
    for (uint32_t d = 0; d < network->n_dims; d++) {
        orr_alpha_beta *level = &ret->levels[d];
        level->basis = ORR_BASIS_ASSUMED;
        for (int p = 0; p < ORR_PROTOCOLS; p++) {
            /* A switch is two hops away. */
            level->alpha_ns[p] =
                network->latency_ns[d] * (network->topology[d] == ORR_TOPOLOGY_SWITCH ? 2 : 1);
            level->bytes_per_s[p] = network->bytes_per_ns[d] * 1e9;
        }
        ret->topology[d] = network->topology[d];
        ret->oversubscription[d] = 1;
    }
}
