/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cost/kernel_work/work.h"

/* Finds the operator whose arguments describe a kernel: the innermost one around the launch
 * call; for backward operators without shapes, their forward operator; and for nested operators
 * of one rule, the outermost. */

static bool is_operator(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] == ORR_NODE_HOST_OP ||
           (g->kind[v] == ORR_NODE_ANNOTATION &&
            strncmp(orr_graph_str(g, g->name[v]), "Optimizer.", 10) == 0);
}

/* The node that `v` depends on by a dependency of the given kind, or ORR_NONE. */
static orr_node_id dependency(const orr_graph *g, orr_node_id v, orr_dep_kind kind)
{
    for (uint32_t i = g->dep_first[v]; i < g->dep_first[v + 1]; i++)
        if (g->dep_kind[i] == kind)
            return g->dep[i];
    return ORR_NONE;
}

/* The launch call of device work, or, where a recording has no calls (Chakra), the operator that
 * it depends on. */
static orr_node_id launcher_of(const orr_graph *g, orr_node_id node)
{
    const orr_node_id call = dependency(g, node, ORR_DEP_LAUNCH);
    return call != ORR_NONE ? call : dependency(g, node, ORR_DEP_CONTROL);
}

const orr_op_rule *orr_work_rule(const orr_graph *g, orr_node_id op)
{
    return op == ORR_NONE ? NULL : orr_op_rule_of(orr_graph_str(g, g->name[op]));
}

/* The innermost operator around the launch of `node`; a host operator is its own. If that one
 * has no rule (aten::empty) but one around it fits the kernel's name, the latter. */
orr_node_id orr_work_operator(const orr_graph *g, orr_node_id node, unsigned kernel_family)
{
    orr_node_id v = orr_graph_on_device(g, node) ? launcher_of(g, node) : node;
    while (v != ORR_NONE && !is_operator(g, v))
        v = g->parent[v];
    for (orr_node_id up = v; up != ORR_NONE && is_operator(g, up); up = g->parent[up]) {
        const orr_op_rule *rule = orr_work_rule(g, up);
        if (rule != NULL && (up == v || rule->family == kernel_family))
            return up;
    }
    return v;
}

static bool read_alike(const orr_graph *g, orr_node_id op, const orr_op_rule *rule)
{
    const orr_op_rule *other = g->kind[op] == ORR_NODE_HOST_OP ? orr_work_rule(g, op) : NULL;
    return other != NULL && other->read == rule->read;
}

/* Index of the node in its lane. */
static uint32_t place_in_lane(const orr_graph *g, orr_node_id node)
{
    uint32_t low = g->lane_first[g->lane[node]], high = g->lane_first[g->lane[node] + 1];
    while (low < high) { /* the first node that does not start before it */
        const uint32_t middle = low + (high - low) / 2;
        if (g->start_ns[g->lane_node[middle]] < g->start_ns[node])
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* The forward operator of a backward one: the one that autograd linked to it or to an operator
 * around it, one around that, or one soon after: a lookup of FBGEMM has no sequence number of
 * its own, so autograd links the operator just before it. */
orr_node_id orr_work_forward(const orr_graph *g, orr_node_id op, const orr_op_rule *rule)
{
    enum { SOON = 16 };
    orr_node_id handed = ORR_NONE;
    for (; op != ORR_NONE && handed == ORR_NONE; op = g->parent[op])
        handed = dependency(g, op, ORR_DEP_HANDOFF);
    for (orr_node_id up = handed; up != ORR_NONE; up = g->parent[up])
        if (read_alike(g, up, rule))
            return up;
    if (handed == ORR_NONE)
        return ORR_NONE;
    const uint32_t end = g->lane_first[g->lane[handed] + 1];
    uint32_t at = place_in_lane(g, handed);
    for (const uint32_t until = end - at > SOON ? at + SOON : end; at < until; at++)
        if (read_alike(g, g->lane_node[at], rule))
            return g->lane_node[at];
    return ORR_NONE;
}

/* The outermost operator around `op` that the same rule covers, whose arguments say the most
 * (cudnn_convolution_backward around ..._backward_weight). */
orr_node_id orr_work_outermost_operator(const orr_graph *g, orr_node_id op, const orr_op_rule *rule)
{
    for (orr_node_id up = g->parent[op]; up != ORR_NONE && g->kind[up] == ORR_NODE_HOST_OP;
         up = g->parent[up]) {
        if (orr_work_rule(g, up) != rule)
            break;
        op = up;
    }
    return op;
}
