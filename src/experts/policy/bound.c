/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/policy/bound.h"

#include <math.h>

/* What an expert keeps on the ranks that it takes at these prices: the best one, and with copies
 * all others that pay. Adds to `taken` what it takes. */
static double kept_at(const orr_layer *layer, uint32_t expert, bool copies, const double *price,
                      double *taken)
{
    const float *flow = layer->flow + (size_t)expert * layer->ranks;
    double best = -INFINITY, ret = 0;
    uint32_t at = 0;
    for (uint32_t r = 0; r < layer->ranks; r++) {
        const double net = (double)flow[r] - price[r];
        if (net > best) {
            best = net;
            at = r;
        }
        if (copies && net > 0) {
            ret += net;
            taken[r]++;
        }
    }
    if (copies && best > 0)
        return ret;
    taken[at]++;
    return best;
}

/* Most rows of all layers that can stay on their rank. */
static double most_kept(const orr_layer *layer, uint32_t layers, const uint32_t *room, bool copies,
                        double *price, double *taken)
{
    static const double STEPS = 1 << 25;
    const double per_round = (double)layer->experts * layer->ranks * layers;
    const uint32_t rounds = (uint32_t)fmin(200, fmax(4, STEPS / per_round));
    double rows = 0, ret = INFINITY;
    for (uint32_t l = 0; l < layers; l++)
        rows += layer[l].mean_rows * layer->live;
    for (uint32_t r = 0; r < layer->ranks; r++)
        price[r] = 0;
    for (uint32_t round = 0; round < rounds; round++) {
        double sum = 0;
        for (uint32_t r = 0; r < layer->ranks; r++) {
            taken[r] = 0;
            sum += price[r] * room[r] * layers;
        }
        for (uint32_t l = 0; l < layers; l++)
            for (uint32_t e = 0; e < layer->experts; e++)
                if (layer[l].copies[e] > 0)
                    sum += kept_at(&layer[l], e, copies, price, taken);
        ret = fmin(ret, sum);
        const double step = rows / layers / layer->experts / layer->live / sqrt(1.0 + round);
        for (uint32_t r = 0; r < layer->ranks; r++) {
            const double slots = (double)room[r] * layers;
            price[r] = fmax(price[r] + step * (taken[r] - slots) / fmax(slots, 1), 0);
        }
    }
    return ret;
}

/* Rows of the fullest rank of a layer: the mean, or the hottest expert in as many copies as it can
 * have. Adds the rows of all experts to *sum. */
static double fullest_rank(const orr_layer *layer, uint32_t most_copies, double *sum)
{
    double rows = 0, hottest = 0;
    for (uint32_t e = 0; e < layer->experts; e++)
        if (layer->copies[e] > 0) {
            rows += (double)layer->total[e];
            hottest = fmax(hottest, (double)layer->total[e]);
        }
    *sum += rows;
    return fmax(rows / layer->live, hottest / most_copies);
}

/* The least ns of a row that leaves its rank, where those of both levels flow side by side. */
static double remote_ns(const orr_layer *layer, double dispatches)
{
    double ns[ORR_LEVELS];
    for (int level = 0; level < ORR_LEVELS; level++)
        ns[level] = layer->costs->combine_ns[level] + layer->costs->dispatch_ns[level] * dispatches;
    if (layer->hosts == 1)
        return ns[ORR_HOST];
    return layer->host_ranks == 1 ? ns[ORR_NETWORK] : 1 / (1 / ns[ORR_HOST] + 1 / ns[ORR_NETWORK]);
}

double orr_layers_bound(const orr_layer *layer, uint32_t layers, uint32_t top_k,
                        const uint32_t *room, bool copies, double *price, double *taken)
{
    double rows = 0, sum = 0;
    uint32_t most = 1;
    for (uint32_t r = 0; r < layer->ranks; r++)
        most = room[r] > most ? room[r] : most;
    for (uint32_t l = 0; l < layers; l++)
        rows += fullest_rank(&layer[l], copies ? layer->live : 1, &sum);
    /* Where layers share slots, one of them may have many on a rank. By shares alone no copy is
     * preferred, and links are not bounded. */
    const double dispatches = 1 / fmin(top_k, layers > 1 ? layer->experts : most);
    const double kept =
        layer->by_share ? sum : most_kept(layer, layers, room, copies, price, taken);
    return rows * layer->costs->row_ns +
           fmax(sum - kept, 0) * remote_ns(layer, dispatches) / layer->live;
}
