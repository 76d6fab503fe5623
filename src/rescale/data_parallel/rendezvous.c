/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/data_parallel/replicate.h"

/* Rendezvous of the replicated job: each communication gets the grouping and group of its set and
 * its ordinal there. */

/* The set of a communication, and its ordinal there. */
static orr_replicated_set *set_of(const orr_replication *s, uint32_t d, uint32_t comm,
                                  uint32_t *ret_ordinal)
{
    const orr_rendezvous_id m = s->base->rendezvous[d][comm];
    if (m.grouping != ORR_NONE) {
        *ret_ordinal = m.ordinal;
        return &s->sets[m.grouping];
    }
    for (uint32_t i = s->own_first; i < s->n_sets; i++)
        if (s->base->graphs[d]->comms[comm].group == s->own_group[i - s->own_first]) {
            *ret_ordinal = s->job->n_matches + comm;
            return &s->sets[i];
        }
    return NULL;
}

static void find_rendezvous(const orr_replication *s, uint32_t d, orr_rendezvous_id *rendezvous)
{
    const orr_graph *g = s->base->graphs[d];
    for (uint32_t c = 0; c < g->n_comms; c++)
        rendezvous[c] = (orr_rendezvous_id){ORR_NONE, 0};
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        uint32_t ordinal;
        if (!orr_is_communication(g, v) || !(g->flags[v] & ORR_FLAG_COMM))
            continue;
        const orr_replicated_set *set = set_of(s, d, g->detail[v], &ordinal);
        if (set == NULL)
            continue;
        /* Sends of one recorded rank alone would wait for a recv that nobody recorded. */
        if (s->base->rendezvous[d][g->detail[v]].grouping != ORR_NONE ||
            g->kind[v] == ORR_NODE_COLLECTIVE)
            rendezvous[g->detail[v]] = (orr_rendezvous_id){set->grouping, ordinal};
    }
}

orr_status orr_replication_rendezvous(orr_replication *s, orr_error *err)
{
    const uint32_t n = s->base->n_graphs;
    const orr_rendezvous_id **rendezvous = orr_arena_array(s->arena, const orr_rendezvous_id *, n);
    if (rendezvous == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < n; d++) {
        orr_rendezvous_id *mine =
            orr_arena_array(s->arena, orr_rendezvous_id, s->base->graphs[d]->n_comms);
        if (mine == NULL)
            return orr_fail_memory(err);
        find_rendezvous(s, d, mine);
        rendezvous[d] = mine;
    }
    s->ensemble->rendezvous = rendezvous;
    s->ensemble->duration_ns = s->base->duration_ns;
    return ORR_OK;
}
