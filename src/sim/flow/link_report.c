/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "sim/flow/state.h"

/* Whole bytes that flows of the link have sent so far and that are still counted with the flow. */
static double bytes_under_way(const orr_flows *flows, uint32_t l)
{
    int64_t bytes = 0;
    const orr_rate_hop *hops = flows->rates.hops.at;
    for (int32_t h = flows->rates.links[l].first_hop; h >= 0; h = hops[h].next) {
        const orr_flow_row *row = &flows->rows.at[hops[h].flow];
        const int64_t left = row->left - row->rate * (flows->now_ns - row->since_ns);
        bytes += row->bytes -
                 (((left > 0 ? left : 0) + (1 << ORR_FLOW_UNIT_SHIFT) - 1) >> ORR_FLOW_UNIT_SHIFT);
    }
    return (double)bytes;
}

static bool has_carried(const orr_flows *flows, uint32_t l)
{
    return flows->uses[l].bytes > 0 || flows->rates.links[l].n_flows > 0;
}

static bool fill_link(const orr_flows *flows, uint32_t l, int64_t begin_ns, orr_arena *arena,
                      orr_link_use *ret)
{
    const orr_link_load *use = &flows->uses[l];
    const orr_fabric_link *link = &flows->fabric.links[l];
    const uint32_t n = (uint32_t)use->samples.n;
    int64_t *at_ns = orr_arena_array(arena, int64_t, n);
    double *load_frac = orr_arena_array(arena, double, n);
    if (at_ns == NULL || load_frac == NULL)
        return false;
    for (uint32_t i = 0; i < n; i++) {
        at_ns[i] = use->samples.at[i].at_ns;
        load_frac[i] = (double)use->samples.at[i].load / (double)link->capacity;
    }
    *ret = (orr_link_use){.level = link->level,
                          .unit = link->unit,
                          .up = link->up,
                          .bytes = (double)use->bytes + bytes_under_way(flows, l),
                          .busy_ns = (double)use->busy_ns,
                          .n_samples = n,
                          .at_ns = at_ns,
                          .load_frac = load_frac};
    if (use->load > 0)
        ret->busy_ns += (double)(flows->now_ns - use->since_ns);
    const double span_ns = (double)(flows->now_ns - begin_ns);
    const double most_bytes = ldexp((double)link->capacity * span_ns, -ORR_FLOW_UNIT_SHIFT);
    ret->utilisation_frac = most_bytes > 0 ? ret->bytes / most_bytes : 0;
    return true;
}

orr_status orr_flows_links(orr_flows *flows, int64_t begin_ns, orr_arena *arena,
                           const orr_link_use **ret, uint32_t *ret_n, orr_error *err)
{
    int64_t next_ns;
    uint32_t n = 0;
    (void)orr_flows_next(flows, &next_ns); /* so that the current rates are in the loads */
    for (uint32_t l = 0; l < flows->fabric.n_links; l++)
        n += has_carried(flows, l);
    orr_link_use *links = orr_arena_array(arena, orr_link_use, n);
    if (links == NULL)
        return orr_fail_memory(err);
    n = 0;
    for (uint32_t l = 0; l < flows->fabric.n_links; l++)
        if (has_carried(flows, l) && !fill_link(flows, l, begin_ns, arena, &links[n++]))
            return orr_fail_memory(err);
    *ret = links;
    *ret_n = n;
    return ORR_OK;
}
