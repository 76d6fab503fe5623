/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "machine/catalog/sites.h"

/* Resizing a cluster to a number of devices. Three cases: sites with names or of unequal size
 * are filled one after another; a tree with equal buildings keeps those that are left as sites;
 * a plain tree has its highest level shortened. */

static uint32_t devices_below(const orr_cluster *cluster, uint32_t level)
{
    return level == 0 ? 1 : cluster->levels[level - 1].devices;
}

/* Are sites named, or of unequal size? */
static bool has_own_sites(const orr_cluster *cluster)
{
    return cluster->n_sites > 0 &&
           (cluster->sites[0].name[0] != '\0' || cluster->levels[cluster->site_level].ends != NULL);
}

/* Fills sites from the first one on, in whole hosts. */
static orr_status fill_sites(const orr_cluster *cluster, uint32_t n_devices, orr_arena *arena,
                             const orr_cluster **ret, orr_error *err)
{
    uint32_t devices[ORR_SITES_MAX];
    const uint32_t host = cluster->levels[0].devices;
    for (uint32_t s = 0; s < cluster->n_sites; s++) {
        const uint32_t most = cluster->sites[s].devices;
        devices[s] = n_devices < most ? n_devices : most;
        n_devices -= devices[s];
        const uint32_t spare = (host - devices[s] % host) % host;
        devices[s] += spare < most - devices[s] ? spare : most - devices[s];
    }
    return orr_cluster_select_sites(cluster, devices, arena, ret, err);
}

/* Keeps the sites that are left in a tree with equal units. */
static orr_status cut_sites(orr_cluster *resized, orr_arena *arena, orr_error *err)
{
    uint32_t devices[ORR_SITES_MAX];
    const uint32_t a_site = resized->sites[0].devices;
    if (resized->n_devices <= a_site) {
        resized->n_sites = resized->n_cuts = resized->site_level = 0;
        resized->sites = NULL;
        resized->cuts = NULL;
        return ORR_OK;
    }
    for (uint32_t s = 0; s < resized->n_sites; s++)
        devices[s] = s < resized->n_devices / a_site ? a_site : 0;
    return orr_sites_select(resized, devices, arena, err);
}

/* A level is left out if one unit below holds all devices. */
orr_status orr_cluster_resize(const orr_cluster *cluster, uint32_t n_devices, orr_arena *arena,
                              const orr_cluster **ret, orr_error *err)
{
    if (n_devices == 0)
        return orr_fail(err, ORR_INVALID, "a cluster without devices");
    if (n_devices > cluster->n_devices)
        return orr_fail(err, ORR_INVALID, "cluster '%s' has %u devices, %u are needed",
                        cluster->name, cluster->n_devices, n_devices);
    if (has_own_sites(cluster))
        return fill_sites(cluster, n_devices, arena, ret, err);
    orr_cluster *resized = orr_arena_one(arena, orr_cluster);
    orr_level *levels = orr_arena_array(arena, orr_level, cluster->n_levels);
    if (resized == NULL || levels == NULL)
        return orr_fail_memory(err);
    memcpy(levels, cluster->levels, cluster->n_levels * sizeof *levels);
    uint32_t top = cluster->n_levels - 1;
    while (top > 0 && n_devices <= devices_below(cluster, top))
        top--;
    const uint32_t below = devices_below(cluster, top), most = levels[top].devices;
    levels[top].size = (n_devices - 1) / below + 1;
    levels[top].devices = most / below >= levels[top].size ? levels[top].size * below : most;
    *resized = *cluster;
    resized->n_levels = top + 1;
    resized->levels = levels;
    resized->n_devices = levels[top].devices;
    if (cluster->n_sites > 0)
        ORR_TRY(cut_sites(resized, arena, err));
    *ret = resized;
    return ORR_OK;
}
