/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/link/comm.h"

#include "graph/builder.h"

enum { MOST_LEVELS_ABOVE = 64 };

#define FILL(field, unknown)                                                                       \
    if (to->field == (unknown))                                                                    \
    to->field = from->field

void orr_link_fill_comm(orr_comm *to, const orr_comm *from)
{
    FILL(group, ORR_NONE);
    FILL(group_size, -1);
    FILL(seq, -1);
    FILL(collective, ORR_COLL_UNKNOWN);
    if (to->collective != from->collective)
        return; /* the barrier is an all-reduce underneath, whose sizes are not the operator's */
    to->vector |= from->vector;
    if (to->in_bytes < 0 || to->out_bytes < 0) {
        to->in_bytes = from->in_bytes;
        to->out_bytes = from->out_bytes;
    }
    FILL(peer, -1);
    FILL(root, -1);
    FILL(tag, -1);
    FILL(dtype, 0);
    FILL(in_splits, 0);
    FILL(out_splits, 0);
}

static bool communicates(const orr_graph_builder *b, orr_node_id v)
{
    const uint8_t kind = b->kind[v];
    return b->lanes.at[b->lane[v]].kind == ORR_LANE_STREAM &&
           (kind == ORR_NODE_COLLECTIVE || kind == ORR_NODE_SEND || kind == ORR_NODE_RECV);
}

static void set_kind(orr_graph_builder *b, orr_node_id v)
{
    const uint8_t collective = b->comms.at[b->detail[v]].collective;
    if (b->kind[v] == ORR_NODE_COLLECTIVE && collective == ORR_COLL_SEND)
        b->kind[v] = ORR_NODE_SEND;
    else if (b->kind[v] == ORR_NODE_COLLECTIVE && collective == ORR_COLL_RECV)
        b->kind[v] = ORR_NODE_RECV;
}

/* The nearest operator around `call` that knows more than the name. */
static const orr_comm *ask_above(const orr_graph_builder *b, orr_node_id call)
{
    for (int level = 0; call != ORR_NONE && level < MOST_LEVELS_ABOVE; level++) {
        if ((b->flags[call] & ORR_FLAG_COMM) != 0) {
            const orr_comm *comm = &b->comms.at[b->detail[call]];
            if (comm->collective != ORR_COLL_UNKNOWN &&
                (comm->in_bytes >= 0 || comm->seq >= 0 || comm->group != ORR_NONE))
                return comm;
        }
        call = b->parent[call];
    }
    return NULL;
}

orr_status orr_link_propagate_comms(orr_graph_builder *b, orr_error *err)
{
    for (uint32_t d = 0; d < b->n_deps; d++) {
        const orr_node_id v = b->dep_node[d];
        if (b->dep_kind[d] != ORR_DEP_LAUNCH || !communicates(b, v))
            continue;
        const orr_comm *above = ask_above(b, b->dep_on[d]);
        if (above == NULL)
            continue;
        const orr_comm from = *above;
        if ((b->flags[v] & ORR_FLAG_COMM) != 0)
            orr_link_fill_comm(&b->comms.at[b->detail[v]], &from);
        else if ((b->flags[v] & (ORR_FLAG_COPY | ORR_FLAG_MEMORY)) == 0)
            ORR_TRY(orr_builder_comm(b, v, &from, err));
        if ((b->flags[v] & ORR_FLAG_COMM) != 0)
            set_kind(b, v);
    }
    return ORR_OK;
}
