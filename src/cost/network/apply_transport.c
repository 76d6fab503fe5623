/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cost/network/rdma_transport.h"

/* Applies an RDMA transport to a network's constants. The constants without any transport are
 * kept as `bare`, so that applying is idempotent: the last call counts. A level without a
 * transport of its own is taken to be measured with 16 queue pairs, as production networks run,
 * and a setting takes only what it loses against those. */

orr_rdma_path orr_rdma_path_of(const orr_cluster *cluster, const orr_network *network, uint32_t k)
{
    const orr_level *level = &cluster->levels[k];
    const double alpha_ns = network->bare[k].alpha_ns[ORR_PROTOCOL_BANDWIDTH];
    return (orr_rdma_path){
        .bytes_per_s = orr_fact_or(&level->bytes_per_s, 1e9),
        .oversubscription = orr_fact_or(&level->oversubscription, 1),
        .round_trip_ns = 2 * orr_fact_or(&level->latency_ns, alpha_ns),
        .devices = k > 0 ? cluster->levels[k - 1].devices : 1,
    };
}

/* Effect of a setting on a level. Where the level does not give its load balancing, the setting
 * is compared with 16 queue pairs. */
static orr_rdma_effect effect_on(const orr_rdma_transport *transport, uint8_t setting,
                                 orr_rdma_path place)
{
    static const double LEAST_DEVICES = 128;
    const bool said = transport != NULL && transport->balance != ORR_BALANCE_UNKNOWN;
    if (transport == NULL || transport->paths == 0)
        place.devices = fmax(place.devices, LEAST_DEVICES);
    const orr_rdma_transport set = orr_rdma_transport_with(transport, setting, &place);
    orr_rdma_effect effect = orr_rdma_effect_of(&set, &place);
    if (!said && set.balance != ORR_BALANCE_UNKNOWN) {
        const orr_rdma_transport usual = orr_rdma_transport_with(transport, ORR_RDMA_QP16, &place);
        const double usually = orr_rdma_effect_of(&usual, &place).balance_frac;
        effect.balance_frac = fmin(1, effect.balance_frac / usually);
        orr_rdma_effect_update(&effect);
    }
    return effect;
}

static orr_alpha_beta under(const orr_alpha_beta *bare, const orr_rdma_effect *effect)
{
    orr_alpha_beta c = *bare;
    if (!(effect->frac < 1))
        return c; /* unchanged, fitted or not */
    for (int p = 0; p < ORR_PROTOCOLS; p++)
        c.bytes_per_s[p] *= effect->frac;
    c.basis = ORR_BASIS_ASSUMED;
    c.error_frac = NAN;
    return c;
}

void orr_network_apply_transport(orr_network *network, const orr_cluster *cluster, uint8_t setting)
{
    for (uint32_t k = 0; k < cluster->n_levels && k < ORR_LEVELS_MAX; k++) {
        const orr_rdma_transport *transport = cluster->levels[k].transport;
        network->uneven[k] = k > 0 && cluster->levels[k - 1].ends != NULL;
        /* Queue pairs are settings of RDMA networks: devices' own links have none. */
        const bool touched = transport != NULL ||
                             (setting != ORR_RDMA_UNKNOWN && !orr_cluster_is_scale_up(cluster, k));
        if (!network->wired[k] && !touched)
            continue;
        if (!network->wired[k]) {
            network->bare[k] = network->levels[k];
            network->bare_reduction[k] = network->reduction[k];
            network->wired[k] = true;
        }
        const orr_rdma_path place = orr_rdma_path_of(cluster, network, k);
        const orr_rdma_effect effect = effect_on(transport, setting, place);
        network->levels[k] = under(&network->bare[k], &effect);
        network->reduction[k] = under(&network->bare_reduction[k], &effect);
        network->window_bytes_per_s[k] = effect.window_bytes_per_s;
        network->queue_ns[k] = effect.queue_ns;
    }
}
