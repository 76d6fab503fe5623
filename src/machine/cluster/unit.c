/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/machine.h>

/* Index of the uneven unit that holds the device. Linear: sites and regions are few. */
static uint32_t uneven(const uint32_t *ends, uint32_t device)
{
    uint32_t unit = 0;
    while (ends[unit] <= device)
        unit++;
    return unit;
}

/* Units are counted anew in each uneven unit around them, whose last one may be shorter. */
orr_device_range orr_cluster_unit(const orr_cluster *cluster, uint32_t level, uint32_t device)
{
    const uint32_t devices = cluster->levels[level].devices;
    orr_device_range around = {0, cluster->n_devices};
    for (uint32_t l = level; l < cluster->n_levels; l++) {
        const uint32_t *ends = cluster->levels[l].ends;
        if (ends == NULL)
            continue;
        const uint32_t unit = uneven(ends, device);
        around = (orr_device_range){unit > 0 ? ends[unit - 1] : 0, ends[unit]};
        if (l == level)
            return around;
        break;
    }
    const uint32_t first = around.first + (device - around.first) / devices * devices;
    const uint32_t left = around.end - first;
    return (orr_device_range){first, first + (left < devices ? left : devices)};
}

bool orr_cluster_is_scale_up(const orr_cluster *cluster, uint32_t level)
{
    const uint8_t kind = cluster->levels[level].kind;
    return kind == ORR_LEVEL_UNKNOWN ? level == 0 : kind == ORR_LEVEL_SCALE_UP;
}

uint32_t orr_cluster_site(const orr_cluster *cluster, uint32_t device)
{
    if (cluster->n_sites < 2)
        return 0;
    const orr_level *site = &cluster->levels[cluster->site_level];
    return site->ends != NULL ? uneven(site->ends, device) : device / site->devices;
}
