/* SPDX-License-Identifier: Apache-2.0 */
#include "io/json/utf8.h"
#include "trace/common/writer.h"

/* GraphML (graphml.graphdrawing.org). A node's id is its number in the graph. */
static void put_text(orr_output *out, const char *text, size_t len)
{
    for (size_t i = 0; i < len;) {
        const size_t n = orr_utf8_len((const uint8_t *)text + i, len - i);
        const char c = text[i];
        if (n == 0 || ((unsigned char)c < ' ' && c != '\t' && c != '\n'))
            orr_output_text(out, ORR_UTF8_REPLACEMENT);
        else if (c == '<')
            orr_output_text(out, "&lt;");
        else if (c == '&')
            orr_output_text(out, "&amp;");
        else if (c == '>')
            orr_output_text(out, "&gt;");
        else
            orr_output_write(out, text + i, n);
        i += n > 0 ? n : 1;
    }
}

static void put_head(orr_output *out)
{
    static const struct {
        const char *id, *of, *type;
    } keys[] = {
        {"label", "node", "string"},      {"kind", "node", "string"}, {"start_ns", "node", "long"},
        {"duration_ns", "node", "long"},  {"id", "node", "string"},   {"lane", "node", "int"},
        {"dependency", "edge", "string"},
    };
    orr_output_text(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                         "<graphml xmlns=\"http://graphml.graphdrawing.org/xmlns\">\n");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        orr_output_printf(out, "<key id=\"%s\" for=\"%s\" attr.name=\"%s\" attr.type=\"%s\"/>\n",
                          keys[i].id, keys[i].of, keys[i].id, keys[i].type);
    orr_output_text(out, "<graph edgedefault=\"directed\">\n");
}

static void put_node(orr_output *out, const orr_graph *g, orr_node_id v)
{
    orr_output_printf(out, "<node id=\"%u\"><data key=\"label\">", v);
    put_text(out, orr_graph_str(g, g->name[v]), orr_graph_str_len(g, g->name[v]));
    orr_output_printf(out, "</data><data key=\"kind\">%s</data>",
                      orr_node_kind_name((orr_node_kind)g->kind[v]));
    if (g->start_ns[v] != ORR_TIME_NONE)
        orr_output_printf(out, "<data key=\"start_ns\">%lld</data>", (long long)g->start_ns[v]);
    orr_output_printf(out,
                      "<data key=\"duration_ns\">%lld</data><data key=\"id\">%llu</data>"
                      "<data key=\"lane\">%u</data></node>\n",
                      (long long)g->duration_ns[v], (unsigned long long)g->source_id[v],
                      g->lane[v]);
}

static void put_edge(orr_output *out, orr_node_id from, orr_node_id to, const char *what)
{
    orr_output_printf(
        out, "<edge source=\"%u\" target=\"%u\"><data key=\"dependency\">%s</data></edge>\n", from,
        to, what);
}

orr_status orr_graphml_write(const orr_graph *graph, orr_output *out, orr_error *err)
{
    (void)err;
    put_head(out);
    for (orr_node_id v = 0; v < graph->n_nodes; v++)
        put_node(out, graph, v);
    for (orr_node_id v = 0; v < graph->n_nodes; v++) {
        if (graph->parent[v] != ORR_NONE)
            put_edge(out, graph->parent[v], v, "nested");
        for (uint32_t d = graph->dep_first[v]; d < graph->dep_first[v + 1]; d++)
            put_edge(out, graph->dep[d], v, orr_dep_kind_name((orr_dep_kind)graph->dep_kind[d]));
    }
    orr_output_text(out, "</graph>\n</graphml>\n");
    return ORR_OK;
}
