/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/trace.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/array.h"
#include "graph/part.h"
#include "trace/common/attr_names.h"

/* A Chakra file is written again with the attributes that it had, and these are all that it says.
 */
static bool is_chakra(const orr_graph *g)
{
    return strncmp(orr_graph_str(g, g->source), "chakra", 6) == 0;
}

/* Attributes of the recording that do not hold of a part: numbers of nodes, and what this part says
 * anew. */
static bool is_dropped(const char *name, const orr_graph *g, const orr_part *part)
{
    const bool sampled = part->ranks != NULL;
    return strcmp(name, ORR_NAME_CHAKRA_DANGLING) == 0 ||
           (sampled && strcmp(name, ORR_NAME_SAMPLED_RANKS) == 0) ||
           (part->about != NULL && strcmp(name, ORR_NAME_PART) == 0) ||
           (sampled && is_chakra(g) &&
            (strcmp(name, "rank") == 0 || strcmp(name, "world_size") == 0));
}

typedef orr_array(orr_attr) attr_list;

static orr_status add_attr(orr_graph_builder *b, attr_list *attrs, const char *name, orr_attr attr,
                           orr_error *err)
{
    ORR_TRY(orr_builder_str(b, name, strlen(name), &attr.name, err));
    return orr_array_push(attrs, attr) ? ORR_OK : orr_fail_memory(err);
}

static orr_status say_sample(const orr_graph *graph, const orr_part *part, orr_graph_builder *b,
                             attr_list *attrs, int64_t numbers[2], orr_error *err)
{
    orr_recording *recording = &b->recording;
    const orr_attr ranks = {
        .kind = ORR_ATTR_UINT32, .list = true, .count = part->n_ranks, .values = part->ranks};
    if (recording->rank == ORR_NONE)
        recording->rank = part->rank;
    if (recording->world_size < part->world_size)
        recording->world_size = part->world_size;
    ORR_TRY(add_attr(b, attrs, ORR_NAME_SAMPLED_RANKS, ranks, err));
    if (!is_chakra(graph))
        return ORR_OK;
    numbers[0] = recording->rank;
    numbers[1] = recording->world_size;
    orr_attr number = {.kind = ORR_ATTR_INT64, .count = 1, .values = &numbers[0]};
    ORR_TRY(add_attr(b, attrs, "rank", number, err));
    number.values = &numbers[1];
    return add_attr(b, attrs, "world_size", number, err);
}

/* Attributes of the recording, then those of the part. */
static orr_status describe(const orr_graph *graph, const orr_part *part, orr_graph_builder *b,
                           orr_error *err)
{
    attr_list attrs = {0};
    orr_status status = ORR_OK;
    orr_str text;
    int64_t numbers[2];
    bool done = true;
    orr_attr_iter it = orr_graph_attrs(graph, ORR_NONE);
    for (orr_attr attr; done && orr_attr_next(&it, &attr);)
        if (!is_dropped(orr_graph_str(graph, attr.name), graph, part))
            done = orr_array_push(&attrs, attr);
    ORR_TRY_OUT(status, done ? ORR_OK : orr_fail_memory(err));
    if (part->about != NULL) {
        const orr_attr about = {.kind = ORR_ATTR_STRING, .count = 1, .values = &text};
        ORR_TRY_OUT(status, orr_builder_str(b, part->about, strlen(part->about), &text, err));
        ORR_TRY_OUT(status, add_attr(b, &attrs, ORR_NAME_PART, about, err));
    }
    if (part->ranks != NULL)
        ORR_TRY_OUT(status, say_sample(graph, part, b, &attrs, numbers, err));
    status = orr_builder_attrs(b, ORR_NONE, attrs.at, (uint32_t)attrs.n, err);
out:
    orr_array_done(&attrs);
    return status;
}

orr_status orr_trace_part(const orr_graph *graph, const orr_part *part, const orr_graph **ret_graph,
                          orr_error *err)
{
    const size_t n = graph->n_nodes > 0 ? graph->n_nodes : 1;
    uint8_t *all = part->keep == NULL ? orr_malloc(n) : NULL;
    orr_graph_builder *b = orr_graph_builder_new();
    orr_status status = ORR_OK;
    if (b == NULL || (part->keep == NULL && all == NULL)) {
        status = orr_fail_memory(err);
        goto out;
    }
    if (all != NULL)
        memset(all, 1, n);
    ORR_TRY_OUT(status, orr_graph_part(graph, all != NULL ? all : part->keep, b, err));
    ORR_TRY_OUT(status, describe(graph, part, b, err));
    status = orr_graph_build(b, ret_graph, err);
out:
    orr_graph_builder_free(b);
    orr_free(all);
    return status;
}

/* Who calls or holds whom, the other way round. */
typedef struct subtree {
    const orr_graph *g;
    orr_edges dependants;
    orr_node_id *child, *sister; /* shape (N) */
    uint8_t *keep;
    orr_array(orr_node_id) open;
} subtree;

static bool enter(subtree *s, orr_node_id v)
{
    if (s->keep[v])
        return true;
    s->keep[v] = 1;
    return orr_array_push(&s->open, v);
}

static bool follow(subtree *s)
{
    while (s->open.n > 0) {
        const orr_node_id v = s->open.at[--s->open.n];
        for (orr_node_id c = s->child[v]; c != ORR_NONE; c = s->sister[c])
            if (!enter(s, c))
                return false;
        for (uint32_t i = s->dependants.first[v]; i < s->dependants.first[v + 1]; i++) {
            const uint8_t kind = s->dependants.kind[i];
            const bool called = kind == ORR_DEP_LAUNCH || kind == ORR_DEP_CONTROL;
            if (called && !enter(s, s->dependants.node[i]))
                return false;
        }
    }
    return true;
}

/* A host annotation holds what began while it was open, on any thread. */
static bool enter_annotated(subtree *s, orr_node_id root)
{
    const orr_graph *g = s->g;
    const int64_t from = g->start_ns[root];
    bool done = true;
    for (orr_node_id v = 0; v < g->n_nodes && done; v++)
        if (g->lanes[g->lane[v]].kind == ORR_LANE_HOST && g->start_ns[v] >= from &&
            g->start_ns[v] - from < g->duration_ns[root])
            done = enter(s, v);
    return done;
}

static orr_node_id find_named(const orr_graph *g, const char *name, const uint8_t *within)
{
    const bool by_id = is_chakra(g);
    char *end = NULL;
    const unsigned long long id = name[0] == '#' ? strtoull(name + 1, &end, 10) : 0;
    if (end != NULL && end != name + 1 && *end == '\0')
        for (orr_node_id v = 0; v < g->n_nodes; v++)
            if (id == (by_id ? g->source_id[v] : v))
                return v;
    const orr_str text = orr_graph_find_str(g, name);
    for (orr_node_id v = 0; v < g->n_nodes && text != ORR_NONE; v++)
        if (g->name[v] == text && (within == NULL || within[v]))
            return v;
    return ORR_NONE;
}

static void link_children(subtree *s)
{
    const orr_graph *g = s->g;
    memset(s->child, 0xff, g->n_nodes * sizeof *s->child);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const orr_node_id up = g->parent[v];
        if (up == ORR_NONE)
            continue;
        s->sister[v] = s->child[up];
        s->child[up] = v;
    }
}

orr_status orr_trace_subtree(const orr_graph *graph, const char *name, const uint8_t *within,
                             uint8_t *keep, orr_error *err)
{
    const orr_node_id root = find_named(graph, name, within);
    if (root == ORR_NONE)
        return orr_fail(err, ORR_NOT_FOUND, "the recording has no operator or annotation '%s'",
                        name);
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    subtree s = {.g = graph,
                 .keep = keep,
                 .child = orr_arena_array(arena, orr_node_id, graph->n_nodes),
                 .sister = orr_arena_array(arena, orr_node_id, graph->n_nodes)};
    orr_status status = s.child && s.sister ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_graph_dependants(graph, arena, &s.dependants, err));
    memset(s.sister, 0xff, graph->n_nodes * sizeof *s.sister);
    link_children(&s);
    const bool timed =
        graph->kind[root] == ORR_NODE_ANNOTATION && graph->start_ns[root] != ORR_TIME_NONE;
    if (!enter(&s, root) || (timed && !enter_annotated(&s, root)) || !follow(&s))
        status = orr_fail_memory(err);
out:
    orr_array_done(&s.open);
    orr_arena_free(arena);
    return status;
}
