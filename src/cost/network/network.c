/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cost/network/fitted_constants.h"

static orr_alpha_beta assumed(double bytes_per_s, double latency_ns)
{
    orr_alpha_beta c = {.basis = ORR_BASIS_ASSUMED, .error_frac = NAN};
    for (int p = 0; p < ORR_PROTOCOLS; p++) {
        c.alpha_ns[p] = latency_ns;
        c.bytes_per_s[p] = bytes_per_s;
    }
    return c;
}

static orr_alpha_beta scaled(const orr_alpha_beta *fitted, double factor)
{
    orr_alpha_beta c = *fitted;
    for (int p = 0; p < ORR_PROTOCOLS; p++)
        c.bytes_per_s[p] *= factor;
    return c;
}

static double memory_bytes_per_s(const orr_device *device)
{
    return device == NULL ? 0
                          : orr_fact_or(&device->achievable_memory_bytes_per_s,
                                        orr_fact_or(&device->memory_bytes_per_s, 0));
}

void orr_network_of_cluster(const orr_cluster *cluster, orr_network *ret)
{
    orr_network network = {.n_levels = cluster->n_levels,
                           .memory_bytes_per_s = memory_bytes_per_s(cluster->device)};
    for (uint32_t k = 0; k < cluster->n_levels && k < ORR_LEVELS_MAX; k++) {
        const orr_level *level = &cluster->levels[k];
        const double bytes_per_s = orr_fact_or(&level->bytes_per_s, 1e9);
        const orr_fitted_constants *fit = orr_fitted_constants_of(level->technology);
        network.levels[k] = assumed(bytes_per_s, orr_fact_or(&level->latency_ns, 0));
        network.size[k] = level->size;
        network.topology[k] = level->topology;
        network.oversubscription[k] = orr_fact_or(&level->oversubscription, 1);
        network.in_network[k] = level->in_network_reduction;
        network.scale_up[k] = orr_cluster_is_scale_up(cluster, k);
        if (fit != NULL) {
            const double factor = bytes_per_s / fit->bytes_per_s;
            network.levels[k] = scaled(&fit->messages, factor);
            network.reduction[k] = scaled(&fit->reduction, factor);
        }
    }
    orr_network_apply_transport(&network, cluster, ORR_RDMA_UNKNOWN);
    *ret = network;
}
