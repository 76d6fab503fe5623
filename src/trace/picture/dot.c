/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/common/writer.h"

/* Beyond this many nodes Graphviz's `dot` takes minutes, and nobody sees anything. */
enum { NODES_MAX = 2000 };

/* Fill by what a node is; "": white. */
static const char *color_of(const orr_graph *g, orr_node_id v)
{
    switch ((orr_node_kind)g->kind[v]) {
    case ORR_NODE_COMPUTE:
        return "palegreen";
    case ORR_NODE_COLLECTIVE:
    case ORR_NODE_SEND:
    case ORR_NODE_RECV:
        return "lightsalmon";
    case ORR_NODE_COPY:
    case ORR_NODE_SET:
    case ORR_NODE_MEM_LOAD:
    case ORR_NODE_MEM_STORE:
        return "khaki";
    case ORR_NODE_RUNTIME:
    case ORR_NODE_SYNC:
        return "lightsteelblue";
    default:
        return "white";
    }
}

/* Text between quotes, where a backslash begins an escape of Graphviz; other control characters
 * become blanks. */
static void put_label(orr_output *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '"' || text[i] == '\\')
            orr_output_text(out, "\\");
        orr_output_write(out, (unsigned char)text[i] < ' ' ? " " : text + i, 1);
    }
}

static void put_node(orr_output *out, const orr_graph *g, orr_node_id v)
{
    orr_output_printf(out, "  %u [label=\"", v);
    put_label(out, orr_graph_str(g, g->name[v]), orr_graph_str_len(g, g->name[v]));
    if (g->duration_ns[v] > 0)
        orr_output_printf(out, "\\n%lld.%03d us", (long long)(g->duration_ns[v] / 1000),
                          (int)(g->duration_ns[v] % 1000));
    orr_output_printf(out, "\", fillcolor=%s];\n", color_of(g, v));
}

static void put_edges(orr_output *out, const orr_graph *g, orr_node_id v)
{
    if (g->parent[v] != ORR_NONE)
        orr_output_printf(out, "  %u -> %u [arrowhead=tee, style=dashed];\n", g->parent[v], v);
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
        orr_output_printf(out, "  %u -> %u [arrowhead=%s];\n", g->dep[d], v,
                          g->dep_kind[d] == ORR_DEP_CONTROL || g->dep_kind[d] == ORR_DEP_LAUNCH
                              ? "tee"
                              : "normal");
}

orr_status orr_dot_write(const orr_graph *graph, orr_output *out, orr_error *err)
{
    if (graph->n_nodes > NODES_MAX)
        return orr_fail(err, ORR_LIMIT,
                        "a picture of %u nodes: Graphviz lays out up to %d in reasonable time; "
                        "write GraphML (.graphml) instead",
                        graph->n_nodes, NODES_MAX);
    orr_output_text(out, "digraph {\n  node [shape=box, style=filled, fontname=sans];\n");
    for (orr_node_id v = 0; v < graph->n_nodes; v++)
        put_node(out, graph, v);
    for (orr_node_id v = 0; v < graph->n_nodes; v++)
        put_edges(out, graph, v);
    orr_output_text(out, "}\n");
    return ORR_OK;
}
