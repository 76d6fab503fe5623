/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/moves/layer_state.h"

#include <math.h>
#include <string.h>

#include "experts/placement/loads.h"

static uint32_t host_of(const orr_layer_state *s, uint32_t rank)
{
    return rank / s->layer.host_ranks;
}

/* What the first copy on a host saves: its rows need not leave the host. */
static double host_saves(const orr_layer_state *s, uint32_t expert, uint32_t host)
{
    return s->links->from_host[(size_t)expert * s->hosts + host] *
           (s->links->network_ns - s->links->host_ns);
}

static double rank_saves(const orr_layer_state *s, uint32_t expert, uint32_t rank)
{
    return s->links->from_rank[(size_t)expert * s->layer.ranks + rank] * s->links->host_ns;
}

double orr_layer_copy_saves(const orr_layer_state *s, uint32_t expert, uint32_t rank)
{
    const uint32_t host = host_of(s, rank);
    if (s->links == NULL)
        return 0;
    return rank_saves(s, expert, rank) + (s->host_copies[(size_t)expert * s->hosts + host] == 0
                                              ? host_saves(s, expert, host)
                                              : 0);
}

double orr_layer_copy_saved(const orr_layer_state *s, uint32_t slot)
{
    const uint32_t expert = s->expert[slot], rank = s->rank[slot], host = host_of(s, rank);
    if (s->links == NULL)
        return 0;
    return rank_saves(s, expert, rank) + (s->host_copies[(size_t)expert * s->hosts + host] == 1
                                              ? host_saves(s, expert, host)
                                              : 0);
}

static void count_copies(orr_layer_state *s)
{
    memset(s->copies, 0, s->layer.experts * sizeof *s->copies);
    memset(s->host_copies, 0, (size_t)s->layer.experts * s->hosts * sizeof *s->host_copies);
    for (uint32_t i = 0; i < s->slots; i++) {
        s->copies[s->expert[i]]++;
        s->host_copies[(size_t)s->expert[i] * s->hosts + host_of(s, s->rank[i])]++;
    }
}

double orr_layer_measure(orr_layer_state *s)
{
    const uint32_t experts = s->layer.experts;
    count_copies(s);
    (void)orr_experts_split(&s->layer, 0, s->load, s->room, s->share);
    (void)orr_layer_rank_loads(&s->layer, 0, s->load, s->rank_load);
    s->fullest = 0;
    for (uint32_t r = 0; r < s->layer.ranks; r++)
        s->fullest = fmax(s->fullest, s->rank_load[r]);
    if (s->links == NULL)
        return s->fullest * s->row_ns;
    double ret = s->fullest * s->row_ns;
    for (uint32_t e = 0; e < experts; e++)
        for (uint32_t h = 0; h < s->hosts; h++)
            ret += s->links->from_host[(size_t)e * s->hosts + h] *
                   (s->host_copies[(size_t)e * s->hosts + h] > 0 ? s->links->host_ns
                                                                 : s->links->network_ns);
    for (uint32_t i = 0; i < s->slots; i++)
        ret -= rank_saves(s, s->expert[i], s->rank[i]);
    return ret;
}

bool orr_layer_has(const orr_layer_state *s, uint32_t rank, uint32_t expert)
{
    for (uint32_t i = orr_placement_first(&s->layer, 0, rank);
         i < orr_placement_first(&s->layer, 0, rank + 1); i++)
        if (s->expert[i] == expert)
            return true;
    return false;
}

uint32_t orr_layer_moved(const orr_layer_state *s)
{
    uint32_t ret = 0;
    for (uint32_t i = 0; i < s->slots; i++) {
        const uint32_t r = s->rank[i];
        bool is_new = true;
        for (uint32_t k = orr_placement_first(&s->layer, 0, r);
             k < orr_placement_first(&s->layer, 0, r + 1) && is_new; k++)
            is_new = s->began[k] != s->expert[i];
        ret += is_new;
    }
    return ret;
}
