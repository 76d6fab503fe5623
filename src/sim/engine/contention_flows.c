/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/engine/contention.h"

#include "sim/flow/collective.h"

/* Members of the transfer in the order of the group; of a send and its receive, the sender
 * first. */
static bool list_members(orr_engine *e, const orr_rendezvous_transfer *moved, uint32_t rendezvous)
{
    const orr_grouping *grouping = &e->ensemble->groupings[moved->grouping];
    orr_contention *d = e->contention;
    const uint32_t first = grouping->first[moved->group];
    const uint32_t end = grouping->first[moved->group + 1];
    d->members.n = 0;
    if (!orr_array_reserve(&d->members, end - first))
        return false;
    for (uint32_t i = first; i < end; i++) {
        const uint32_t a = e->actor_of_rank[grouping->members[i]];
        if (a == ORR_NONE)
            continue;
        const uint32_t call =
            orr_prepared_call(e->actors[a].prepared, moved->grouping, moved->ordinal);
        if (call == ORR_NONE || e->rendezvous.of_call[e->actors[a].first_call + call] != rendezvous)
            continue;
        d->members.at[d->members.n++] = grouping->members[i];
    }
    return true;
}

static bool receives(const orr_engine *e, uint32_t rank, const orr_rendezvous_transfer *moved)
{
    const orr_prepared_program *prepared = e->actors[e->actor_of_rank[rank]].prepared;
    const uint32_t call = orr_prepared_call(prepared, moved->grouping, moved->ordinal);
    const orr_node_id node = prepared->program->works[prepared->calls[call].work].node;
    const orr_comm *comm = orr_graph_comm(prepared->program->graph, node);
    return comm != NULL && comm->collective == ORR_COLL_RECV;
}

/* Fits the flows of a transfer to the length that it has alone, which may not be the closed form:
 * recorded transfers reach less than the links allow. What is longer moves the same bytes, and the
 * rest of its length needs no link; of what is shorter, the bytes are as many times fewer. */
static void fit_to_length(orr_demands *demands, int64_t alone_ns)
{
    const int64_t price_ns = demands->price.ns;
    if (alone_ns >= price_ns) {
        demands->latency_ns += alone_ns - price_ns;
        return;
    }
    const uint64_t part = (uint64_t)alone_ns, whole = (uint64_t)price_ns;
    demands->latency_ns = orr_flow_bytes_of_part(demands->latency_ns, part, whole);
    for (size_t i = 0; i < demands->n; i++)
        demands->at[i].bytes = orr_flow_bytes_of_part(demands->at[i].bytes, part, whole);
}

orr_status orr_contention_demands(orr_engine *e, const orr_rendezvous_transfer *moved,
                                  uint32_t rendezvous)
{
    orr_contention *d = e->contention;
    if (!list_members(e, moved, rendezvous))
        return orr_fail_memory(d->err);
    uint32_t *members = d->members.at;
    const uint32_t n = (uint32_t)d->members.n;
    if (moved->transfer.collective == ORR_COLL_SEND && n == 2 && receives(e, members[0], moved)) {
        const uint32_t receiver = members[0];
        members[0] = members[1];
        members[1] = receiver;
    }
    const int32_t root = moved->transfer.root;
    return orr_flows_of_collective(d->flows, members, n, (orr_collective)moved->transfer.collective,
                                   (orr_algorithm)d->algorithm, moved->transfer.bytes,
                                   root < 0 || (uint32_t)root >= n ? 0 : (uint32_t)root,
                                   &d->demands, d->err);
}

orr_status orr_contention_start_flows(orr_engine *e, uint32_t rendezvous, uint32_t task,
                                      int64_t now_ns)
{
    const orr_rendezvous_transfer *moved = &e->rendezvous.moved[rendezvous];
    orr_contention *d = e->contention;
    ORR_TRY(orr_contention_demands(e, moved, rendezvous));
    const uint32_t pattern =
        d->classes == NULL ? ORR_NONE : orr_flow_classes_pattern(d->classes, moved, &d->demands);
    fit_to_length(&d->demands, e->rendezvous.at[rendezvous].transfer_ns);
    if (d->classes != NULL)
        return orr_flow_classes_begin(d->classes, d->flows, moved, pattern, &d->demands, task,
                                      now_ns, d->err);
    return orr_flows_begin(d->flows, now_ns, d->demands.at, d->demands.n, d->demands.latency_ns,
                           task, d->err);
}

orr_status orr_contention_link_use(const orr_engine *engine, int64_t begin_ns, orr_arena *arena,
                                   orr_simulation *ret, orr_error *err)
{
    if (engine->contention == NULL || engine->contention->flows == NULL)
        return ORR_OK;
    return orr_flows_links(engine->contention->flows, begin_ns, arena, &ret->links, &ret->n_links,
                           err);
}
