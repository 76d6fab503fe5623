/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_FLOW_CLUSTER_H
#define TESTS_FLOW_CLUSTER_H

/* Small clusters for tests of flows, and the time that flows take. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "sim/flow/state.h"

typedef struct small_cluster {
    orr_cluster cluster;
    orr_level levels[ORR_LEVELS_MAX];
    orr_network network;
    orr_error err;
    orr_flows *flows;
    uint64_t done[64]; /* ended at at_ns, not told yet */
    size_t n_done, told;
    int64_t at_ns;
} small_cluster;

static inline orr_fact small_fact(double value)
{
    return (orr_fact){.value = value, .basis = ORR_FACT_ASSUMED, .source = "test"};
}

/* Levels from the inside out; call small_flows() after the last. */
static inline void small_level(small_cluster *s, uint32_t size, orr_topology topology,
                               double bytes_per_s, double latency_ns, double oversubscription)
{
    const uint32_t k = s->cluster.n_levels++;
    const uint32_t below = k > 0 ? s->levels[k - 1].devices : 1;
    s->levels[k] = (orr_level){.name = "level",
                               .size = size,
                               .devices = size * below,
                               .topology = (uint8_t)topology,
                               .bytes_per_s = small_fact(bytes_per_s),
                               .latency_ns = small_fact(latency_ns),
                               .oversubscription = small_fact(oversubscription)};
    s->cluster.name = "small";
    s->cluster.levels = s->levels;
    s->cluster.n_devices = size * below;
}

static inline void small_flows(small_cluster *s)
{
    s->cluster.levels = s->levels; /* it may have been copied */
    orr_network_of_cluster(&s->cluster, &s->network);
    assert_int_equal(orr_flows_new(&s->cluster, &s->network, &s->flows, &s->err), ORR_OK);
}

/* Two hosts of four: NVLink, and NICs a ninth as fast, at 1:2 when `over` is 2. */
static inline small_cluster small_hosts(double over)
{
    small_cluster s = {0};
    small_level(&s, 4, ORR_TOPOLOGY_SWITCH, 450e9, 1000, 1);
    small_level(&s, 2, ORR_TOPOLOGY_SWITCH, 50e9, 5000, over);
    return s;
}

static inline void small_begin(small_cluster *s, int64_t now_ns, uint32_t src, uint32_t dst,
                               int64_t bytes, uint64_t tag)
{
    const orr_flow_demand demand = {src, dst, bytes};
    assert_int_equal(orr_flows_begin(s->flows, now_ns, &demand, 1, 0, tag, &s->err), ORR_OK);
}

/* The next transfer that ends: its tag, and when. */
static inline int64_t small_next(small_cluster *s, uint64_t *ret_tag)
{
    const uint64_t *done;
    while (s->told == s->n_done) {
        assert_true(orr_flows_next(s->flows, &s->at_ns));
        orr_flows_advance(s->flows, s->at_ns, &done, &s->n_done);
        assert_true(s->n_done <= 64);
        for (size_t i = 0; i < s->n_done; i++)
            s->done[i] = done[i];
        s->told = 0;
    }
    *ret_tag = s->done[s->told++];
    return s->at_ns;
}

#endif /* TESTS_FLOW_CLUSTER_H */
