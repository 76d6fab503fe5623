/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/common.h"

static bool kind_in(const orr_graph *g, orr_node_id v, uint32_t kinds)
{
    return (kinds >> g->kind[v]) & 1;
}

orr_status orr_nearest_ancestor(const orr_graph *g, uint32_t kinds, orr_arena *arena,
                                const orr_node_id **ret, orr_error *err)
{
    /* A node that is not known yet; no node has this id. Each chain of parents is walked to the
     * first node that is known or of the kind, and then once more to write down the answer. */
    const orr_node_id unknown = ORR_NONE - 1;
    orr_node_id *nearest = orr_arena_array(arena, orr_node_id, g->n_nodes);
    if (nearest == NULL)
        return orr_fail_memory(err);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        nearest[v] = unknown;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        orr_node_id at = v;
        while (nearest[at] == unknown) {
            const orr_node_id parent = g->parent[at];
            if (parent == ORR_NONE || kind_in(g, parent, kinds))
                nearest[at] = parent;
            else
                at = parent;
        }
        for (orr_node_id w = v; w != at; w = g->parent[w])
            nearest[w] = nearest[at];
    }
    *ret = nearest;
    return ORR_OK;
}
