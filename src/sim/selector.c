/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/selector.h"

#include <string.h>

orr_selector orr_selector_of(const char *text)
{
    static const char comm[] = "comm:", host[] = "host:";
    if (strncmp(text, host, sizeof host - 1) == 0)
        return (orr_selector){ORR_SELECT_HOST, text + sizeof host - 1, NULL, 0};
    if (strncmp(text, comm, sizeof comm - 1) != 0)
        return (orr_selector){ORR_SELECT_NAME, text, NULL, 0};
    const char *kind = text + sizeof comm - 1, *at = strchr(kind, '@');
    return (orr_selector){ORR_SELECT_COMM, kind, at != NULL ? at + 1 : NULL,
                          at != NULL ? (size_t)(at - kind) : strlen(kind)};
}

static bool communicates(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] == ORR_NODE_COLLECTIVE || g->kind[v] == ORR_NODE_SEND ||
           g->kind[v] == ORR_NODE_RECV;
}

static bool in_group(const orr_graph *g, const orr_comm *comm, const char *group)
{
    if (comm == NULL || comm->group == ORR_NONE)
        return *group == '\0';
    const orr_group *of = &g->groups[comm->group];
    return strcmp(orr_graph_str(g, of->desc), group) == 0 ||
           strcmp(orr_graph_str(g, of->name), group) == 0;
}

static bool is_comm(const orr_selector *s, const orr_graph *g, orr_node_id v)
{
    const orr_comm *comm = orr_graph_comm(g, v);
    const char *kind = orr_collective_name(comm != NULL ? (orr_collective)comm->collective
                                           : g->kind[v] == ORR_NODE_SEND ? ORR_COLL_SEND
                                           : g->kind[v] == ORR_NODE_RECV ? ORR_COLL_RECV
                                                                         : ORR_COLL_UNKNOWN);
    return strlen(kind) == s->name_len && memcmp(kind, s->name, s->name_len) == 0 &&
           (s->group == NULL || in_group(g, comm, s->group));
}

bool orr_selector_holds(const orr_selector *s, const orr_graph *g, orr_node_id v)
{
    const bool on_thread = g->lanes[g->lane[v]].kind == ORR_LANE_HOST, comm = communicates(g, v);
    const bool on_device =
        !on_thread && g->kind[v] >= ORR_NODE_COMPUTE && g->kind[v] < ORR_NODE_SYNC;
    if (s->what == ORR_SELECT_COMM)
        return comm && is_comm(s, g, v);
    if (s->what == ORR_SELECT_HOST ? !on_thread || comm : !comm && !on_device)
        return false;
    return strstr(orr_graph_str(g, g->name[v]), s->name) != NULL;
}

/* Spreads marks from nodes to what is nested in them: walks up until the answer is known, then
 * writes it to all on the way. */
static uint32_t mark_nested(const orr_graph *g, uint8_t *marks)
{
    enum { UNKNOWN, MARKED, CLEAR };
    uint32_t n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        orr_node_id up = v;
        while (up != ORR_NONE && marks[up] == UNKNOWN)
            up = g->parent[up];
        const uint8_t answer = up == ORR_NONE ? CLEAR : marks[up];
        for (orr_node_id u = v; u != up; u = g->parent[u])
            marks[u] = answer;
    }
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        marks[v] =
            marks[v] == MARKED && g->lanes[g->lane[v]].kind == ORR_LANE_HOST && !communicates(g, v);
        n += marks[v];
    }
    return n;
}

uint32_t orr_selector_mark(const orr_selector *s, const orr_graph *g, uint8_t *marks)
{
    uint32_t n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        n += marks[v] = orr_selector_holds(s, g, v);
    return s->what == ORR_SELECT_HOST && n > 0 ? mark_nested(g, marks) : n;
}
