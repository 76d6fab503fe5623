/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "explore/explore.h"

/* Transport presets worth searching: those that no other preset matches in every quantity that a
 * transfer depends on (src/cost/network/rdma_transport.h), at every level. Also the relaxed
 * clusters of which the search takes its bounds: without transport penalties, and flat. */

static double or_unbounded(double bytes_per_s)
{
    return bytes_per_s > 0 ? bytes_per_s : INFINITY;
}

static bool is_as_good(const orr_network *a, const orr_network *b)
{
    for (uint32_t l = 0; l < a->n_levels; l++) {
        if (or_unbounded(a->window_bytes_per_s[l]) < or_unbounded(b->window_bytes_per_s[l]) ||
            a->queue_ns[l] > b->queue_ns[l])
            return false;
        for (int p = 0; p < ORR_PROTOCOLS; p++)
            if (a->levels[l].bytes_per_s[p] < b->levels[l].bytes_per_s[p] ||
                a->reduction[l].bytes_per_s[p] < b->reduction[l].bytes_per_s[p] ||
                a->levels[l].alpha_ns[p] > b->levels[l].alpha_ns[p] ||
                a->levels[l].base_ns[p] > b->levels[l].base_ns[p])
                return false;
    }
    return true;
}

/* Of equal presets the first is kept; that of the cluster comes before all. */
void orr_space_keep_undominated_transports(const orr_space *s, orr_space_list *list)
{
    orr_network networks[ORR_RDMA_PRESETS];
    uint32_t n = 0, kept[ORR_RDMA_PRESETS];
    for (uint32_t i = 0; i < list->n; i++) {
        orr_network_of_cluster(s->cluster, &networks[list->at[i]]);
        orr_network_apply_transport(&networks[list->at[i]], s->cluster, (uint8_t)list->at[i]);
    }
    for (uint32_t i = 0; i < list->n; i++) {
        bool good = true;
        for (uint32_t j = 0; j < list->n && good; j++) {
            const orr_network *mine = &networks[list->at[i]], *other = &networks[list->at[j]];
            good = i == j || !is_as_good(other, mine) || (is_as_good(mine, other) && i < j);
        }
        if (good)
            kept[n++] = list->at[i];
    }
    memcpy(list->at, kept, n * sizeof *kept);
    list->n = n;
}

/* One site with as many whole units of each level as the plan may use: neighbours in the plan are
 * neighbours on the machine, so that no layout is better than any on this cluster. */
static orr_status make_flat(orr_space *s, orr_arena *arena, orr_error *err)
{
    const orr_cluster *ideal_network = &s->ideal_network;
    s->flat = *ideal_network;
    if (ideal_network->n_sites < 2)
        return ORR_OK;
    const uint32_t n = ideal_network->site_level + 1;
    orr_level *levels = orr_arena_array(arena, orr_level, n);
    if (levels == NULL)
        return orr_fail_memory(err);
    for (uint32_t l = 0; l < n; l++) {
        const uint32_t below = l > 0 ? levels[l - 1].devices : 1;
        levels[l] = ideal_network->levels[l];
        levels[l].ends = NULL;
        if (l + 1 == n)
            levels[l].size = (ideal_network->n_devices + below - 1) / below;
        levels[l].devices = levels[l].size * below;
    }
    s->flat.levels = levels;
    s->flat.n_levels = n;
    s->flat.n_devices = levels[n - 1].devices;
    s->flat.n_sites = s->flat.n_cuts = 0;
    s->flat.sites = NULL;
    s->flat.cuts = NULL;
    return ORR_OK;
}

/* Transports are chosen last where the cluster has any. */
orr_status orr_space_make_ideal_network(orr_space *s, orr_arena *arena, orr_error *err)
{
    const orr_cluster *c = s->cluster;
    for (uint32_t field = ORR_AT_wire_dp; field <= ORR_AT_wire_ep; field++)
        s->chooses_transport |= s->list[field].n > 1 || s->list[field].at[0] != 0;
    s->chooses_transport |= s->list[ORR_AT_dp_algorithm].n > 1 || s->list[ORR_AT_dp_chunks].n > 1 ||
                            s->list[ORR_AT_prefetch].n > 1 || s->list[ORR_AT_bucket_bytes].n > 1;
    orr_level *levels = orr_arena_array(arena, orr_level, c->n_levels);
    orr_site_link *cuts = orr_arena_array(arena, orr_site_link, c->n_cuts);
    if (levels == NULL || cuts == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < c->n_levels; i++) {
        levels[i] = c->levels[i];
        levels[i].transport = NULL;
    }
    for (uint32_t i = 0; i < c->n_cuts; i++) {
        cuts[i] = c->cuts[i];
        cuts[i].transport = NULL;
    }
    s->ideal_network = *c;
    s->ideal_network.levels = levels;
    s->ideal_network.cuts = cuts;
    return make_flat(s, arena, err);
}
