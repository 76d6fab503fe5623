/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include <orrery/machine.h>

/* Scales a fact. The result is hypothetical, so conflicting sources are dropped. */
static void scale(orr_fact *fact, double factor)
{
    if (factor == 1 || fact->basis == ORR_FACT_UNKNOWN)
        return;
    fact->value *= factor;
    fact->conflict = NULL;
}

static void scale_many(orr_fact *facts, int n, double factor)
{
    for (int i = 0; i < n; i++)
        scale(&facts[i], factor);
}

static void scale_network(orr_fact *bytes_per_s, orr_fact *latency_ns, orr_fact *oversubscription,
                          const orr_cluster_factors *factors)
{
    scale(bytes_per_s, factors->bandwidth);
    scale(latency_ns, factors->latency);
    scale(oversubscription, factors->oversubscription);
    if (oversubscription->value < 1)
        oversubscription->value = 1;
}

static const orr_device *scaled_device(const orr_device *device, double factor, orr_arena *arena)
{
    orr_device *scaled = orr_arena_one(arena, orr_device);
    if (scaled == NULL)
        return NULL;
    *scaled = *device;
    scale_many(scaled->peak_flops, ORR_DTYPES, factor);
    scale_many(scaled->matmul_flops, ORR_DTYPES, factor);
    scale(&scaled->memory_bytes_per_s, factor);
    scale(&scaled->achievable_memory_bytes_per_s, factor);
    scale(&scaled->l2_bytes_per_s, factor);
    scale(&scaled->shared_memory_bytes_per_s, factor);
    scale(&scaled->clock_hz, factor);
    return scaled;
}

/* A device that sites share stays shared. */
static orr_status scale_devices(const orr_cluster *from, double factor, orr_cluster *scaled,
                                orr_site *sites, orr_arena *arena, orr_error *err)
{
    if (factor == 1)
        return ORR_OK;
    scaled->device = scaled_device(from->device, factor, arena);
    if (scaled->device == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < from->n_sites; s++) {
        uint32_t same = 0;
        while (same < s && from->sites[same].device != from->sites[s].device)
            same++;
        sites[s].device = from->sites[s].device == from->device ? scaled->device
                          : same < s                            ? sites[same].device
                                     : scaled_device(from->sites[s].device, factor, arena);
        if (sites[s].device == NULL)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static bool is_factor(double value)
{
    return isfinite(value) && value > 0;
}

orr_status orr_cluster_scaled(const orr_cluster *cluster, const orr_cluster_factors *factors,
                              orr_arena *arena, const orr_cluster **ret, orr_error *err)
{
    if (!is_factor(factors->latency) || !is_factor(factors->bandwidth) ||
        !is_factor(factors->oversubscription) || !is_factor(factors->compute))
        return orr_fail(err, ORR_INVALID, "factors of a cluster are above 0");
    orr_cluster *scaled = orr_arena_one(arena, orr_cluster);
    orr_level *levels = orr_arena_array(arena, orr_level, cluster->n_levels);
    orr_site *sites = orr_arena_array(arena, orr_site, cluster->n_sites);
    orr_site_link *cuts = orr_arena_array(arena, orr_site_link, cluster->n_cuts);
    if (scaled == NULL || levels == NULL || sites == NULL || cuts == NULL)
        return orr_fail_memory(err);
    memcpy(levels, cluster->levels, cluster->n_levels * sizeof *levels);
    const bool joined = cluster->n_sites > 1;
    for (uint32_t l = joined ? cluster->site_level + 1 : cluster->n_levels - 1;
         l < cluster->n_levels; l++)
        scale_network(&levels[l].bytes_per_s, &levels[l].latency_ns, &levels[l].oversubscription,
                      factors);
    for (uint32_t i = 0; i < cluster->n_cuts; i++) {
        cuts[i] = cluster->cuts[i];
        scale_network(&cuts[i].bytes_per_s, &cuts[i].latency_ns, &cuts[i].oversubscription,
                      factors);
    }
    for (uint32_t s = 0; s < cluster->n_sites; s++)
        sites[s] = cluster->sites[s];
    *scaled = *cluster;
    ORR_TRY(scale_devices(cluster, factors->compute, scaled, sites, arena, err));
    scaled->levels = levels;
    scaled->sites = cluster->n_sites > 0 ? sites : NULL;
    scaled->cuts = cluster->n_cuts > 0 ? cuts : NULL;
    *ret = scaled;
    return ORR_OK;
}
