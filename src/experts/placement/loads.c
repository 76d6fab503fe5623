/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/placement/loads.h"

#include <math.h>
#include <string.h>

#include "experts/placement/build.h"

orr_status orr_loads_check(const orr_expert_windows *windows, const orr_expert_placement *p,
                           orr_error *err)
{
    if (windows->windows == 0)
        return orr_fail(err, ORR_INVALID, "loads of no window");
    if (windows->layers != p->layers || windows->experts > p->experts)
        return orr_fail(err, ORR_INVALID,
                        "loads of %u layers with %u experts, and a placement of %u with %u",
                        windows->layers, windows->experts, p->layers, p->experts);
    for (uint32_t l = 0; l < p->layers; l++)
        if (windows->number[l] != p->number[l])
            return orr_fail(err, ORR_INVALID, "loads of layer %u where the placement has layer %u",
                            windows->number[l], p->number[l]);
    const size_t n = (size_t)windows->layers * windows->experts;
    for (size_t i = 0; i < n * windows->windows; i++)
        if (!(windows->load[i] >= 0) || !isfinite(windows->load[i]))
            return orr_fail(err, ORR_INVALID, "layer %u: the load of expert %zu is %g",
                            windows->number[i % n / windows->experts], i % windows->experts,
                            windows->load[i]);
    return ORR_OK;
}

static void count_choices(const orr_routes *routes, uint32_t layer, double *ret)
{
    enum { BLOCK = 4096 };
    uint16_t choice[BLOCK];
    const uint32_t n = BLOCK / routes->top_k;
    for (uint64_t first = 0; first < routes->tokens; first += n) {
        const uint64_t left = routes->tokens - first, here = left < n ? left : n;
        orr_routes_choices(routes, layer, first, here, choice);
        for (uint64_t i = 0; i < here * routes->top_k; i++)
            ret[choice[i]]++;
    }
}

void orr_layer_load(const orr_expert_windows *windows, const orr_routes *routes, uint32_t layer,
                    uint32_t experts, double *ret)
{
    memset(ret, 0, experts * sizeof *ret);
    if (windows == NULL)
        count_choices(routes, layer, ret);
    else
        for (uint32_t w = 0; w < windows->windows; w++)
            for (uint32_t e = 0; e < windows->experts; e++)
                ret[e] +=
                    windows->load[((size_t)w * windows->layers + layer) * windows->experts + e];
}

double orr_layer_rank_loads(const orr_expert_placement *p, uint32_t layer, const double *load,
                            double *ret)
{
    double sum = 0;
    for (uint32_t r = 0; r < p->ranks; r++) {
        ret[r] = 0;
        for (uint32_t s = orr_placement_first(p, layer, r);
             s < orr_placement_first(p, layer, r + 1); s++)
            ret[r] += load[p->expert[s]] * (double)p->share[s];
        sum += ret[r];
    }
    return sum;
}

uint32_t orr_placement_live_ranks(const orr_expert_placement *p)
{
    uint32_t ret = 0;
    for (uint32_t r = 0; r < p->ranks; r++)
        for (uint32_t l = 0; l < p->layers; l++)
            if (orr_placement_first(p, l, r) < orr_placement_first(p, l, r + 1)) {
                ret++;
                break;
            }
    return ret;
}

double orr_loads_imbalance(const double *load, uint32_t n, uint32_t live)
{
    double most = 0, sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += load[i];
        most = load[i] > most ? load[i] : most;
    }
    return sum > 0 ? most * live / sum : 1;
}
