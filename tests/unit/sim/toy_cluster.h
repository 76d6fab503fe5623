/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_TOY_CLUSTER_H
#define TESTS_TOY_CLUSTER_H

#include "toy.h"

#define TOY_FACT(v)                                                                                \
    {                                                                                              \
        .value = (v), .basis = ORR_FACT_ASSUMED, .source = "test"                                  \
    }

/* Four hosts of two devices in a rack, all on switches. 100 GB/s and 1 us in a host, 10 GB/s and
 * 5 us across; 400 W, 100 W idle. Static storage. */
static inline const orr_cluster *toy_cluster(void)
{
    static orr_device device = {
        .name = "toy", .power_w = TOY_FACT(400), .idle_power_w = TOY_FACT(100)};
    static const orr_level levels[2] = {{.name = "host",
                                         .size = 2,
                                         .devices = 2,
                                         .topology = ORR_TOPOLOGY_SWITCH,
                                         .bytes_per_s = TOY_FACT(100e9),
                                         .latency_ns = TOY_FACT(1000),
                                         .oversubscription = TOY_FACT(1),
                                         .technology = "test"},
                                        {.name = "rack",
                                         .size = 4,
                                         .devices = 8,
                                         .topology = ORR_TOPOLOGY_SWITCH,
                                         .bytes_per_s = TOY_FACT(10e9),
                                         .latency_ns = TOY_FACT(5000),
                                         .oversubscription = TOY_FACT(1),
                                         .technology = "test"}};
    static const orr_cluster cluster = {.name = "toy",
                                        .device = &device,
                                        .n_devices = 8,
                                        .n_levels = 2,
                                        .levels = levels,
                                        .source = "test",
                                        .notes = ""};
    return &cluster;
}

/* What the closed form says of these ranks. */
static inline int64_t toy_price_ns(const uint32_t *ranks, uint32_t n, orr_collective collective,
                                   int64_t bytes)
{
    orr_network network;
    orr_span span = {0};
    orr_network_of_cluster(toy_cluster(), &network);
    assert_int_equal(orr_cluster_span(toy_cluster(), ranks, n, &span, NULL), ORR_OK);
    return orr_collective_price(&network, &span, collective, ORR_ALGORITHM_AUTO, bytes).ns;
}

#endif /* TESTS_TOY_CLUSTER_H */
