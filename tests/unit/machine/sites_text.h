/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_SITES_TEXT_H
#define ORR_TESTS_SITES_TEXT_H

#include "machine_text.h"

/* Clusters with sites: hosts of 4 devices, racks of 3 hosts, halls of at most 5 racks. */
#define SITE_PARTS                                                                                 \
    "basis: published\nsource: a paper\n"                                                          \
    "devices:\n"                                                                                   \
    "  card: {vendor: V, kind: gpu, memory_bandwidth: 1TB/s}\n"                                    \
    "  tile: {vendor: V, kind: gpu, memory_bandwidth: 2TB/s}\n"                                    \
    "links:\n"                                                                                     \
    "  cable: {kind: x, bandwidth: 80Gbps, latency_by_distance: 4us/km}\n"                         \
    "clusters:\n  c:\n    device: card\n"                                                          \
    "    levels:\n"                                                                                \
    "      - {name: host, size: 4, bandwidth: 100GB/s, latency: 1us}\n"                            \
    "      - {name: rack, size: 3, bandwidth: 50GB/s, latency: 2us}\n"                             \
    "      - {name: hall, size: 5, bandwidth: 50GB/s, latency: 10us, oversubscription: 1:2}\n"

#define THREE_SITES                                                                                \
    "    sites:\n"                                                                                 \
    "      - {name: north, region: east, devices: 60}\n"                                           \
    "      - {name: south, region: east, devices: 28, device: tile, price: 2.5}\n"                 \
    "      - {name: far, region: west, devices: 12}\n"
#define THREE_CUTS                                                                                 \
    "    cuts:\n"                                                                                  \
    "      - {between: sites, distance: 2km, oversubscription: 1:3}\n"                             \
    "      - {between: regions, bandwidth: 25GB/s, distance: 1000km, oversubscription: 1:9,\n"     \
    "         price: 0.02, transport: {paths: 8, balance: ecmp}}\n"

static inline const orr_cluster *cluster_of(const char *text)
{
    return orr_catalog_cluster(catalog_of(text), "c");
}

static inline const orr_cluster *placed_on(const orr_cluster *cluster, const uint32_t *devices)
{
    const orr_cluster *placed = NULL;
    orr_error err = {0};
    if (orr_cluster_select_sites(cluster, devices, arena, &placed, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return placed;
}
#define PLACED(cluster, ...) placed_on((cluster), (const uint32_t[]){__VA_ARGS__})

#endif /* ORR_TESTS_SITES_TEXT_H */
