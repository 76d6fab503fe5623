/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/compose/compose.h"

#include <string.h>

/* Durations of a composed stage: as recorded where nothing changed; recorded x price(new) /
 * price(old) where shapes, sizes or groups did; priced alone where there was nothing. */

static orr_status price_kernel(orr_composer *c, const orr_graph *made, orr_node_id v,
                               const orr_origin *from, int64_t *ns, uint8_t *basis,
                               orr_rescaled *count)
{
    const orr_graph *g = c->s->job->graphs[from->graph];
    orr_price now, before;
    if (!from->changed) {
        count->recorded++;
        return ORR_OK;
    }
    if (!orr_kernel_prices(c->pricing, (orr_kernel_at){g, from->node}, (orr_kernel_at){made, v},
                           &before, &now))
        return orr_fail(c->err, ORR_INVALID,
                        "'%s' changes its shapes, and nobody can price it: name the device",
                        orr_graph_str(made, made->name[v]));
    count->repriced++;
    *ns = orr_scale_ratio(*ns, now.ns, before.ns);
    *basis = now.basis;
    return ORR_OK;
}

static bool same_members(const orr_members *a, const orr_members *b)
{
    if (a->n != b->n)
        return false;
    for (uint32_t i = 0; i < a->n; i++) {
        const uint32_t x = a->ranks != NULL ? a->ranks[i] : a->first + i * a->stride;
        const uint32_t y = b->ranks != NULL ? b->ranks[i] : b->first + i * b->stride;
        if (x != y)
            return false;
    }
    return true;
}

/* The transfer of a node, and who takes part. */
static orr_status place(const orr_graph *g, orr_node_id v, const orr_members *members,
                        orr_arena *arena, orr_placed_transfer *ret, orr_error *err)
{
    *ret = (orr_placed_transfer){orr_transfer_of(orr_graph_comm(g, v)),
                                 orr_members_ranks(members, arena), members->n};
    return ret->ranks == NULL && ret->n > 0 ? orr_fail_memory(err) : ORR_OK;
}

/* A transfer that the recording has, maybe among other ranks or of another size. */
static orr_status scale_transfer(orr_composer *c, const orr_graph *made, orr_node_id v,
                                 const orr_origin *from, const orr_members *members,
                                 const orr_members *recorded, int64_t *ns, uint8_t *basis,
                                 orr_rescaled *count)
{
    const orr_graph *g = c->s->job->graphs[from->graph];
    const orr_arena_mark mark = orr_arena_get_mark(c->arena);
    orr_placed_transfer was, is;
    orr_transfer_basis rests_on;
    orr_price price;
    ORR_TRY(place(g, from->node, recorded, c->arena, &was, c->err));
    ORR_TRY(place(made, v, members, c->arena, &is, c->err));
    const bool same = was.transfer.bytes == is.transfer.bytes && same_members(members, recorded);
    if (c->pricing->network_says && !same) {
        count->repriced++;
        *ns = -1;
        *basis = ORR_BASIS_FITTED;
        return ORR_OK;
    }
    ORR_TRY(orr_transfer_reprice(&c->pricers[0], &c->pricers[1], *ns, &was, &is, &price, &rests_on,
                                 c->err));
    orr_arena_rewind(c->arena, mark);
    if (rests_on != ORR_TRANSFER_ANCHORED && rests_on != ORR_TRANSFER_PRICED && !same)
        return orr_fail(c->err, ORR_INVALID,
                        "transfers between other ranks, or of other sizes, "
                        "have to be priced: name a cluster");
    *(price.basis == ORR_BASIS_RECORDED ? &count->recorded : &count->repriced) += 1;
    *ns = price.ns;
    *basis = price.basis;
    return ORR_OK;
}

static orr_status price_transfer(orr_composer *c, const orr_graph *made, orr_node_id v,
                                 const orr_origin *from, int64_t *ns, uint8_t *basis,
                                 orr_rescaled *count)
{
    uint32_t pair[2], old_pair[2];
    const uint32_t rank = orr_recorded_rank_at(&c->to, (orr_recorded_position){.stage = c->stage});
    const uint32_t grouping = c->rendezvous.at[made->detail[v]].grouping;
    const orr_members members = orr_plan_members(&c->to, grouping, rank, made, v, pair);
    if (from->graph != ORR_NONE) {
        /* Recorded groups agree with the recorded plan, or there would be no composing. */
        const orr_members recorded =
            orr_plan_members(&c->from, grouping, c->s->job->rank_of_graph[from->graph],
                             c->s->job->graphs[from->graph], from->node, old_pair);
        return scale_transfer(c, made, v, from, &members, &recorded, ns, basis, count);
    }
    orr_price price;
    orr_placed_transfer is;
    count->priced++;
    *basis = ORR_BASIS_FITTED;
    *ns = -1;
    if (c->pricing->network_says)
        return ORR_OK;
    const orr_arena_mark mark = orr_arena_get_mark(c->arena);
    ORR_TRY(place(made, v, &members, c->arena, &is, c->err));
    if (c->pricing->cluster == NULL || !orr_transfer_is_known(&is.transfer))
        return orr_fail(c->err, ORR_INVALID,
                        "'%s' was not recorded and has to be priced: name a cluster",
                        orr_graph_str(made, made->name[v]));
    ORR_TRY(
        orr_transfer_price(&c->pricers[1], &is.transfer, is.ranks, is.n, made, v, &price, c->err));
    orr_arena_rewind(c->arena, mark);
    *ns = price.ns;
    *basis = price.basis;
    return ORR_OK;
}

/* The time that the recording gives the node: of a transfer, without the waiting. */
static int64_t recorded_ns(const orr_composer *c, const orr_origin *from)
{
    const orr_ensemble *base = c->base;
    if (base->duration_ns != NULL && base->duration_ns[from->graph] != NULL)
        return base->duration_ns[from->graph][from->node];
    return base->graphs[from->graph]->duration_ns[from->node];
}

orr_status orr_compose_price(orr_composer *c, const orr_graph *made, int64_t *duration_ns,
                             uint8_t *basis, orr_rescaled *count)
{
    static const orr_origin inserted = {.graph = ORR_NONE, .node = ORR_NONE};
    for (orr_node_id v = 0; v < made->n_nodes; v++) {
        const orr_origin *from = v < c->origins.n ? &c->origins.at[v] : &inserted;
        const bool on_stream = made->lanes[made->lane[v]].kind == ORR_LANE_STREAM;
        const bool calls = made->kind[v] == ORR_NODE_HOST_OP || made->kind[v] == ORR_NODE_RUNTIME;
        duration_ns[v] = made->duration_ns[v];
        basis[v] = calls && from->graph == ORR_NONE ? ORR_BASIS_ASSUMED : ORR_BASIS_RECORDED;
        if (on_stream && from->graph != ORR_NONE && made->kind[v] != ORR_NODE_SYNC)
            duration_ns[v] = recorded_ns(c, from);
        if (orr_is_communication(made, v))
            ORR_TRY(price_transfer(c, made, v, from, &duration_ns[v], &basis[v], count));
        else if (orr_is_kernel(made, v) && from->graph != ORR_NONE)
            ORR_TRY(price_kernel(c, made, v, from, &duration_ns[v], &basis[v], count));
    }
    return ORR_OK;
}
