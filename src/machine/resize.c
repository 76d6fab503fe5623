/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <orrery/machine.h>

static uint32_t devices_below(const orr_cluster *cluster, uint32_t level)
{
    return level == 0 ? 1 : cluster->levels[level - 1].devices;
}

/* A level of which one unit below is enough is not needed: all that is used is inside it. */
orr_status orr_cluster_resize(const orr_cluster *cluster, uint32_t n_devices, orr_arena *arena,
                              const orr_cluster **ret, orr_error *err)
{
    if (n_devices == 0)
        return orr_fail(err, ORR_INVALID, "a cluster without devices");
    if (n_devices > cluster->n_devices)
        return orr_fail(err, ORR_INVALID, "cluster '%s' has %u devices, %u are needed",
                        cluster->name, cluster->n_devices, n_devices);
    orr_cluster *resized = orr_arena_one(arena, orr_cluster);
    orr_level *levels = orr_arena_array(arena, orr_level, cluster->n_levels);
    if (resized == NULL || levels == NULL)
        return orr_fail_memory(err);
    memcpy(levels, cluster->levels, cluster->n_levels * sizeof *levels);
    uint32_t top = cluster->n_levels - 1;
    while (top > 0 && n_devices <= devices_below(cluster, top))
        top--;
    const uint32_t below = devices_below(cluster, top);
    levels[top].size = (n_devices - 1) / below + 1;
    levels[top].devices = levels[top].size * below;
    *resized = *cluster;
    resized->n_levels = top + 1;
    resized->levels = levels;
    resized->n_devices = levels[top].devices;
    *ret = resized;
    return ORR_OK;
}
