/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include <orrery/table_planner.h>

/* Rates of a cluster's devices and links, as prices of tables need them. */

/* Two sizes between which the rate of a collective is taken: its latency cancels. */
#define SMALL_BYTES (1LL << 24)
#define LARGE_BYTES (1LL << 28)
/* Rows that were touched just before come from the second-level cache; where its rate is unknown,
 * times as fast as memory as on an H100 (5.5 of 3.35 TB/s): assumed. */
#define CACHE_FACTOR 1.65
/* Of the second-level cache, that rows may fill; bytes of memory that are read at once. As for
 * lookups of one table: src/cost/roofline/embedding.c. */
#define L2_SHARE     0.9
#define SECTOR_BYTES 32
/* A radix sort of lookups of 16 bytes, in four passes that read and write them: assumed. */
#define SORT_BYTES (4 * 2 * 16.0)

static double rate_of(const orr_job_rates *rates, const orr_span *span, orr_collective collective,
                      double *ret_latency_ns)
{
    const double small = (double)orr_job_rates_collective(rates, span, collective, SMALL_BYTES).ns;
    const double large = (double)orr_job_rates_collective(rates, span, collective, LARGE_BYTES).ns;
    *ret_latency_ns = (double)orr_job_rates_collective(rates, span, collective, 1).ns;
    return large > small ? 1e9 * (double)(LARGE_BYTES - SMALL_BYTES) / (large - small) : 1e15;
}

static orr_status span_of(const orr_cluster *cluster, uint32_t n, orr_arena *arena, orr_span *ret,
                          orr_error *err)
{
    uint32_t *ranks = orr_arena_array(arena, uint32_t, n);
    if (ranks == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < n; r++)
        ranks[r] = r;
    return orr_cluster_span(cluster, ranks, n, ret, err);
}

orr_status orr_table_costs_of_cluster(const orr_cluster *cluster,
                                      const orr_calibration *calibration, uint32_t ranks,
                                      orr_arena *arena, orr_table_costs *ret,
                                      uint32_t *ret_host_ranks, orr_error *err)
{
    orr_job_rates rates;
    orr_span all, host;
    if (ranks == 0 || ranks > cluster->n_devices)
        return orr_fail(err, ORR_INVALID, "%u ranks of tables on %u devices", ranks,
                        cluster->n_devices);
    const uint32_t host_devices = cluster->levels[0].devices;
    const uint32_t host_ranks = ranks % host_devices == 0 ? host_devices : ranks;
    orr_job_rates_init(cluster, calibration, ORR_ALGORITHM_AUTO, &rates);
    ORR_TRY(span_of(cluster, ranks, arena, &all, err));
    ORR_TRY(span_of(cluster, host_ranks, arena, &host, err));
    orr_table_costs costs = {
        .memory_bytes_per_s = rates.memory_bytes_per_s > 0 ? rates.memory_bytes_per_s : 1e9,
        .cache_bytes = L2_SHARE * fmax(0, orr_fact_or(&cluster->device->l2_bytes, 0)),
        .sector_bytes = SECTOR_BYTES,
        .source =
            orr_arena_printf(arena, "%s, calibration: %s", cluster->name, calibration->source),
    };
    if (costs.source == NULL)
        return orr_fail_memory(err);
    costs.cache_bytes_per_s =
        fmax(costs.memory_bytes_per_s, orr_fact_or(&cluster->device->l2_bytes_per_s,
                                                   CACHE_FACTOR * costs.memory_bytes_per_s));
    costs.sort_ns = 1e9 * SORT_BYTES / costs.memory_bytes_per_s;
    costs.exchange_bytes_per_s = rate_of(&rates, &all, ORR_COLL_ALL_TO_ALL, &costs.exchange_ns);
    costs.gather_bytes_per_s = rate_of(&rates, &all, ORR_COLL_ALL_GATHER, &costs.gather_ns);
    if (host_ranks > 1)
        costs.host_bytes_per_s = rate_of(&rates, &host, ORR_COLL_REDUCE_SCATTER, &costs.host_ns);
    *ret = costs;
    *ret_host_ranks = host_ranks;
    return ORR_OK;
}
