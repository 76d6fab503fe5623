/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MACHINE_CLUSTER_PRICE_H
#define ORR_MACHINE_CLUSTER_PRICE_H

#include <orrery/machine.h>

/* USD of a device and hour: what the site says, else `said` (0: nothing), else what the catalogue
 * knows of the device. NAN: nobody says. `site` counts where the cluster has sites. */
static inline double orr_price_per_hour(const orr_cluster *cluster, uint32_t site, double said)
{
    const bool at_site = cluster->n_sites > 0;
    const orr_device *device = at_site ? cluster->sites[site].device : cluster->device;
    const double usual = said > 0 ? said : device->price_per_hour.value;
    return at_site ? orr_fact_or(&cluster->sites[site].price_per_hour, usual) : usual;
}

#endif /* ORR_MACHINE_CLUSTER_PRICE_H */
