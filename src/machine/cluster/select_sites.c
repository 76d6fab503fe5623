/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "machine/catalog/sites.h"

static orr_status keep_cuts(orr_cluster *cluster, const orr_site_link *from, uint32_t n,
                            const uint32_t *kept, orr_arena *arena, orr_error *err)
{
    orr_site_link *cuts = orr_arena_array(arena, orr_site_link, n);
    if (cuts == NULL)
        return orr_fail_memory(err);
    cluster->n_cuts = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (kept[from[i].a] == UINT32_MAX || kept[from[i].b] == UINT32_MAX)
            continue;
        cuts[cluster->n_cuts] = from[i];
        cuts[cluster->n_cuts].a = kept[from[i].a];
        cuts[cluster->n_cuts++].b = kept[from[i].b];
    }
    cluster->cuts = cuts;
    return ORR_OK;
}

const orr_device *orr_sites_device(const orr_cluster *cluster)
{
    for (uint32_t s = 0; s < cluster->n_sites; s++)
        if (cluster->sites[s].device == cluster->device)
            return cluster->device;
    return cluster->sites[0].device;
}

orr_status orr_sites_select(orr_cluster *cluster, const uint32_t *devices, orr_arena *arena,
                            orr_error *err)
{
    uint32_t kept[ORR_SITES_MAX], n = 0;
    orr_site *sites = orr_arena_array(arena, orr_site, cluster->n_sites);
    if (sites == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < cluster->n_sites; s++) {
        kept[s] = devices[s] > 0 ? n : UINT32_MAX;
        if (devices[s] == 0)
            continue;
        sites[n] = cluster->sites[s];
        sites[n++].devices = devices[s];
    }
    cluster->sites = sites;
    cluster->n_sites = n;
    cluster->device = orr_sites_device(cluster);
    return keep_cuts(cluster, cluster->cuts, cluster->n_cuts, kept, arena, err);
}

static orr_status check(const orr_cluster *cluster, const uint32_t *devices, orr_error *err)
{
    bool any = false;
    if (cluster->n_sites == 0)
        return orr_fail(err, ORR_INVALID, "cluster '%s' has no sites", cluster->name);
    for (uint32_t s = 0; s < cluster->n_sites; s++) {
        const orr_site *site = &cluster->sites[s];
        any |= devices[s] > 0;
        if (devices[s] > site->devices)
            return orr_fail(err, ORR_INVALID,
                            "site %u%s%s of cluster '%s' has %u devices, %u are needed", s + 1,
                            site->name[0] != '\0' ? ", " : "", site->name, cluster->name,
                            site->devices, devices[s]);
    }
    return any ? ORR_OK
               : orr_fail(err, ORR_INVALID, "no devices of any site of cluster '%s'",
                          cluster->name);
}

static bool is_all(const orr_cluster *cluster, const uint32_t *devices)
{
    bool all = true;
    for (uint32_t s = 0; s < cluster->n_sites; s++)
        all &= devices[s] == cluster->sites[s].devices;
    return all;
}

orr_status orr_cluster_select_sites(const orr_cluster *cluster, const uint32_t *devices,
                                    orr_arena *arena, const orr_cluster **ret, orr_error *err)
{
    ORR_TRY(check(cluster, devices, err));
    if (is_all(cluster, devices)) {
        *ret = cluster;
        return ORR_OK;
    }
    orr_cluster *placed = orr_arena_one(arena, orr_cluster);
    if (placed == NULL)
        return orr_fail_memory(err);
    *placed = *cluster;
    /* If there is only one level above sites, it is needed. */
    const uint32_t top = cluster->n_levels - 1, above = cluster->site_level + 1;
    const orr_site_levels levels = {.inner = cluster->levels,
                                    .n_inner = above,
                                    .region = cluster->levels[above < top ? above : top],
                                    .wan = cluster->levels[top]};
    ORR_TRY(orr_sites_select(placed, devices, arena, err));
    ORR_TRY(orr_sites_build_levels(placed, &levels, arena, err));
    *ret = placed;
    return ORR_OK;
}
