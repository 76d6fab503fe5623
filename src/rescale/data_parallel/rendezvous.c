/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "rescale/data_parallel/replicate.h"

/* Rendezvous of the replicated job: each communication gets the grouping and group of its set and
 * its ordinal there. Transfers are priced anew where the set has grown, or lies elsewhere on the
 * cluster than it was recorded. */

static bool priced(const orr_replication *s)
{
    return s->old_wire.cluster != NULL && s->new_wire.cluster != NULL;
}

static bool same_span(const orr_span *a, const orr_span *b)
{
    if (a->n_ranks != b->n_ranks || a->n_levels != b->n_levels || a->even != b->even)
        return false;
    for (uint32_t i = 0; i < a->n_levels; i++)
        if (a->width[i] != b->width[i])
            return false;
    return true;
}

/* Spans of a set as recorded and of its first copy now. More replicas also move the members of a
 * copied set apart, such as neighbouring stages. */
static orr_status find_spans(orr_replication *s, orr_error *err)
{
    for (uint32_t i = 0; i < s->n_sets && priced(s); i++) {
        orr_replicated_set *set = &s->sets[i];
        const orr_grouping *g = &s->ensemble->groupings[set->grouping];
        const uint32_t first = g->first[set->number], end = g->first[set->number + 1];
        if (first == end)
            continue;
        ORR_TRY(orr_cluster_span(s->old_wire.cluster, set->ranks, set->n, &set->old_span, err));
        ORR_TRY(orr_cluster_span(s->new_wire.cluster, g->members + first, end - first,
                                 &set->new_span, err));
        set->changed |= !same_span(&set->old_span, &set->new_span);
    }
    return ORR_OK;
}

static int64_t price(const orr_network_prices *wire, const orr_span *span,
                     orr_collective collective, int64_t bytes)
{
    return orr_collective_price(&wire->network, span, collective, (orr_algorithm)wire->algorithm,
                                bytes)
        .ns;
}

/* Durations of one graph, copied when the first of them changes. */
typedef struct row {
    int64_t *duration_ns;
    uint8_t *basis;
} row;

static orr_status open_row(const orr_replication *s, uint32_t d, row *r, orr_error *err)
{
    const orr_graph *g = s->base->graphs[d];
    const int64_t *from = s->base->duration_ns != NULL && s->base->duration_ns[d] != NULL
                              ? s->base->duration_ns[d]
                              : g->duration_ns;
    if (r->duration_ns != NULL)
        return ORR_OK;
    r->duration_ns = orr_arena_array(s->arena, int64_t, g->n_nodes);
    r->basis = orr_arena_array(s->arena, uint8_t, g->n_nodes);
    if (r->duration_ns == NULL || r->basis == NULL)
        return orr_fail_memory(err);
    memcpy(r->duration_ns, from, g->n_nodes * sizeof *r->duration_ns);
    memset(r->basis, ORR_BASIS_RECORDED, g->n_nodes);
    return ORR_OK;
}

static orr_status reprice(orr_replication *s, uint32_t d, orr_node_id v,
                          const orr_replicated_set *set, row *r, orr_error *err)
{
    const orr_graph *g = s->base->graphs[d];
    const int64_t bytes = orr_priced_bytes(orr_graph_comm(g, v));
    const orr_collective collective = (orr_collective)orr_graph_comm(g, v)->collective;
    if (!s->pricing->network_says && (!priced(s) || bytes < 0)) {
        s->kept++;
        return ORR_OK;
    }
    ORR_TRY(open_row(s, d, r, err));
    s->repriced++;
    r->basis[v] = ORR_BASIS_FITTED;
    if (s->pricing->network_says) {
        r->duration_ns[v] = -1;
        return ORR_OK;
    }
    const orr_price now = orr_collective_price(&s->new_wire.network, &set->new_span, collective,
                                               (orr_algorithm)s->new_wire.algorithm, bytes);
    r->duration_ns[v] = orr_scale_ratio(r->duration_ns[v], now.ns,
                                        price(&s->old_wire, &set->old_span, collective, bytes));
    r->basis[v] = now.basis;
    return ORR_OK;
}

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

static orr_status find_rendezvous(orr_replication *s, uint32_t d, orr_rendezvous_id *rendezvous,
                                  row *r, orr_error *err)
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
        if (set->changed)
            ORR_TRY(reprice(s, d, v, set, r, err));
    }
    return ORR_OK;
}

orr_status orr_replication_rendezvous(orr_replication *s, orr_error *err)
{
    const uint32_t n = s->base->n_graphs;
    const orr_rendezvous_id **rendezvous = orr_arena_array(s->arena, const orr_rendezvous_id *, n);
    const int64_t **duration_ns = orr_arena_array(s->arena, const int64_t *, n);
    const uint8_t **basis = orr_arena_array(s->arena, const uint8_t *, n);
    if (!rendezvous || !duration_ns || !basis)
        return orr_fail_memory(err);
    ORR_TRY(find_spans(s, err));
    for (uint32_t d = 0; d < n; d++) {
        row r = {NULL, NULL};
        orr_rendezvous_id *mine =
            orr_arena_array(s->arena, orr_rendezvous_id, s->base->graphs[d]->n_comms);
        if (mine == NULL)
            return orr_fail_memory(err);
        ORR_TRY(find_rendezvous(s, d, mine, &r, err));
        rendezvous[d] = mine;
        duration_ns[d] = r.duration_ns != NULL || s->base->duration_ns == NULL
                             ? r.duration_ns
                             : s->base->duration_ns[d];
        basis[d] = r.basis;
    }
    s->ensemble->rendezvous = rendezvous;
    s->ensemble->duration_ns = duration_ns;
    s->ensemble->basis = basis;
    return ORR_OK;
}
