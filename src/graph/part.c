/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/part.h"

#include <string.h>

#include "graph/bridge.h"

typedef struct copier {
    const orr_graph *g;
    orr_graph_builder *b;
    orr_bridges bridges;
    orr_node_id *to;       /* shape (N): the kept node's number in the part */
    orr_node_id *point_to; /* shape (2N): that of a point that became a node */
    uint32_t *listed;      /* shape (2N): 1 + the target that waits for the point already */
    uint32_t *lane_to, *group_to, *tensor_to; /* 1 + the number in the part; 0: not yet */
    orr_tensor_id *io;                        /* of the node at hand */
    uint64_t next_source_id;                  /* for points that became nodes; 0: none */
    orr_arena *arena;
    orr_error *err;
} copier;

static bool is_stream(const orr_graph *g, orr_node_id v)
{
    return g->lanes[g->lane[v]].kind == ORR_LANE_STREAM;
}

static orr_status open_copier(copier *c)
{
    const orr_graph *g = c->g;
    c->to = orr_arena_array(c->arena, orr_node_id, g->n_nodes);
    c->point_to = orr_arena_array(c->arena, orr_node_id, 2 * (size_t)g->n_nodes);
    c->listed = orr_arena_array(c->arena, uint32_t, 2 * (size_t)g->n_nodes);
    c->lane_to = orr_arena_array(c->arena, uint32_t, g->n_lanes);
    c->group_to = orr_arena_array(c->arena, uint32_t, g->n_groups);
    c->tensor_to = orr_arena_array(c->arena, uint32_t, g->n_tensors);
    uint32_t most = 0;
    for (orr_node_id v = 0; v < g->n_nodes && g->n_tensors > 0; v++)
        if (g->io_first[v + 1] - g->io_first[v] > most)
            most = g->io_first[v + 1] - g->io_first[v];
    c->io = orr_arena_array(c->arena, orr_tensor_id, most);
    return c->to && c->point_to && c->listed && c->lane_to && c->group_to && c->tensor_to && c->io
               ? ORR_OK
               : orr_fail_memory(c->err);
}

/* Numbers are those of the graph, because texts are distinct there. */
static orr_status copy_strings(const copier *c)
{
    orr_str same;
    for (orr_str s = 1; s < c->g->n_strings; s++)
        ORR_TRY(orr_builder_str(c->b, orr_graph_str(c->g, s), orr_graph_str_len(c->g, s), &same,
                                c->err));
    return ORR_OK;
}

static orr_status copy_groups(const copier *c)
{
    for (orr_group_id i = 0; i < c->g->n_groups; i++)
        ORR_TRY(orr_builder_group(c->b, &c->g->groups[i], &c->group_to[i], c->err));
    return ORR_OK;
}

static orr_status copy_lane(const copier *c, orr_node_id v, orr_lane_id *ret)
{
    const uint32_t l = c->g->lane[v];
    if (c->lane_to[l] == 0) {
        ORR_TRY(orr_builder_lane(c->b, &c->g->lanes[l], ret, c->err));
        c->lane_to[l] = *ret + 1;
    }
    *ret = c->lane_to[l] - 1;
    return ORR_OK;
}

static orr_status copy_detail(const copier *c, orr_node_id v, orr_node_id to)
{
    const orr_graph *g = c->g;
    if ((g->flags[v] & ORR_FLAG_COMM) != 0) {
        orr_comm comm = *orr_graph_comm(g, v);
        if (comm.group != ORR_NONE)
            comm.group = c->group_to[comm.group];
        return orr_builder_comm(c->b, to, &comm, c->err);
    }
    if ((g->flags[v] & ORR_FLAG_COPY) != 0)
        return orr_builder_copy(c->b, to, orr_graph_copy(g, v), c->err);
    return (g->flags[v] & ORR_FLAG_MEMORY) != 0
               ? orr_builder_memory(c->b, to, orr_graph_memory(g, v), c->err)
               : ORR_OK;
}

static orr_status copy_attrs(const copier *c, orr_node_id v, orr_node_id to)
{
    uint32_t n = 0;
    orr_attr_iter it = orr_graph_attrs(c->g, v);
    for (orr_attr attr; orr_attr_next(&it, &attr);)
        n++;
    if (n == 0)
        return ORR_OK;
    const orr_arena_mark mark = orr_arena_get_mark(c->arena);
    orr_attr *attrs = orr_arena_array(c->arena, orr_attr, n);
    if (attrs == NULL)
        return orr_fail_memory(c->err);
    it = orr_graph_attrs(c->g, v);
    for (uint32_t i = 0; i < n && orr_attr_next(&it, &attrs[i]); i++)
        ;
    const orr_status status = orr_builder_attrs(c->b, to, attrs, n, c->err);
    orr_arena_rewind(c->arena, mark);
    return status;
}

static orr_status copy_io(const copier *c, orr_node_id v, orr_node_id to)
{
    const orr_graph *g = c->g;
    if (g->n_tensors == 0)
        return ORR_OK;
    const uint32_t first = g->io_first[v], out = g->io_out[v], end = g->io_first[v + 1];
    for (uint32_t i = first; i < end; i++) {
        orr_tensor_id *io = &c->io[i - first];
        if (c->tensor_to[g->io[i]] == 0) {
            ORR_TRY(orr_builder_tensor(c->b, &g->tensors[g->io[i]], io, c->err));
            c->tensor_to[g->io[i]] = *io + 1;
        }
        *io = c->tensor_to[g->io[i]] - 1;
    }
    return orr_builder_io(c->b, to, c->io, out - first, c->io + (out - first), end - out, c->err);
}

static orr_status copy_node(const copier *c, orr_node_id v)
{
    const orr_graph *g = c->g;
    orr_node node = {.name = g->name[v],
                     .kind = (orr_node_kind)g->kind[v],
                     .start_ns = g->start_ns[v],
                     .duration_ns = g->duration_ns[v],
                     .parent = ORR_NONE,
                     .source_id = g->source_id[v]};
    ORR_TRY(copy_lane(c, v, &node.lane));
    ORR_TRY(orr_builder_node(c->b, &node, &c->to[v], c->err));
    c->b->flags[c->to[v]] |= g->flags[v] & ORR_FLAG_CRITICAL;
    ORR_TRY(copy_detail(c, v, c->to[v]));
    ORR_TRY(copy_attrs(c, v, c->to[v]));
    return copy_io(c, v, c->to[v]);
}

/* A dropped point as a node. */
static orr_status add_point(copier *c, uint32_t p)
{
    const orr_graph *g = c->g;
    const orr_node_id v = p / 2;
    orr_node node = {.name = g->name[v],
                     .kind = is_stream(g, v) ? ORR_NODE_SYNC : ORR_NODE_META,
                     .start_ns = g->start_ns[v],
                     .parent = ORR_NONE,
                     .source_id = c->next_source_id};
    if (p % 2 && node.start_ns != ORR_TIME_NONE)
        node.start_ns += g->duration_ns[v];
    if (c->next_source_id != 0 && ++c->next_source_id == 0)
        return orr_fail(c->err, ORR_LIMIT, "the ids of nodes leave no number for another node");
    ORR_TRY(copy_lane(c, v, &node.lane));
    return orr_builder_node(c->b, &node, &c->point_to[p], c->err);
}

static orr_status copy_nodes(copier *c)
{
    for (orr_node_id v = 0; v < c->g->n_nodes; v++) {
        if (c->bridges.keep[v])
            ORR_TRY(copy_node(c, v));
        for (uint32_t p = 2 * v; p < 2 * v + 2; p++)
            if (c->bridges.is_node[p])
                ORR_TRY(add_point(c, p));
    }
    return ORR_OK;
}

/* Who waits: the start or the end of a node of the part. */
typedef struct waiter {
    orr_node_id of;     /* in the whole */
    orr_node_id id;     /* in the part */
    orr_node_id parent; /* of the part's node, in the whole */
    bool is_end;
    uint32_t mark; /* in `listed` */
} waiter;

/* The kind of a dependency that takes the place of one of kind `led`. */
static orr_dep_kind bridged_kind(const orr_graph *g, uint32_t from, const waiter *w, uint8_t led)
{
    if (w->is_end)
        return ORR_DEP_SYNC;
    if (from % 2 == 0)
        return ORR_DEP_CONTROL;
    const bool same_lane = g->lane[from / 2] == g->lane[w->of];
    if (same_lane && (led == ORR_DEP_THREAD || led == ORR_DEP_STREAM))
        return (orr_dep_kind)led;
    const bool devices = is_stream(g, from / 2) && is_stream(g, w->of);
    if (devices && (led == ORR_DEP_STREAM || led == ORR_DEP_EVENT))
        return ORR_DEP_EVENT;
    return ORR_DEP_DATA;
}

/* Does nesting in the part say it? */
static bool is_nested(const copier *c, uint32_t from, const waiter *w)
{
    const orr_node_id u = from / 2;
    if (!c->bridges.keep[u])
        return false;
    if (w->is_end)
        return u == w->of || (from % 2 && c->bridges.parent[u] == w->of) || from % 2 == 0;
    return from % 2 == 0 && u == w->parent;
}

/* The waiter waits for a point of the part in place of one that was left out. */
static orr_status bridge_to(copier *c, const waiter *w, uint32_t from, uint8_t led)
{
    if (c->listed[from] == w->mark || is_nested(c, from, w))
        return ORR_OK;
    c->listed[from] = w->mark;
    const bool is_kept = c->bridges.keep[from / 2];
    const orr_node_id on = is_kept ? c->to[from / 2] : c->point_to[from];
    /* of a point that became a node the end is the point, and its start waits for nothing else */
    return orr_builder_dep(c->b, w->id, on,
                           bridged_kind(c->g, is_kept ? from : 2 * (from / 2) + 1, w, led), c->err);
}

static orr_status bridge(copier *c, const waiter *w, uint32_t p, uint8_t led)
{
    const orr_bridges *b = &c->bridges;
    if (b->keep[p / 2] || b->is_node[p])
        return bridge_to(c, w, p, led);
    for (uint32_t i = 0; i < b->near_n[p]; i++)
        ORR_TRY(bridge_to(c, w, b->near[b->near_first[p] + i], led));
    return ORR_OK;
}

/* Dependencies of a kept node, in their order, and then what nesting in dropped nodes said. */
static orr_status copy_deps(copier *c, orr_node_id v)
{
    const orr_graph *g = c->g;
    const waiter start = {v, c->to[v], c->bridges.parent[v], false, 2 * v + 1};
    const waiter end = {v, c->to[v], c->bridges.parent[v], true, 2 * v + 2};
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++) {
        const orr_node_id u = g->dep[d];
        const uint8_t kind = g->dep_kind[d];
        if (c->bridges.keep[u]) {
            ORR_TRY(orr_builder_dep(c->b, c->to[v], c->to[u], (orr_dep_kind)kind, c->err));
            continue;
        }
        const bool from_start = kind == ORR_DEP_CONTROL || kind == ORR_DEP_LAUNCH;
        ORR_TRY(bridge(c, kind == ORR_DEP_SYNC ? &end : &start, 2 * u + !from_start, kind));
    }
    if (g->parent[v] != ORR_NONE && !c->bridges.keep[g->parent[v]])
        ORR_TRY(bridge(c, &start, 2 * g->parent[v], ORR_DEP_CONTROL));
    for (orr_node_id k = c->bridges.child[v]; k != ORR_NONE; k = c->bridges.sister[k])
        if (!c->bridges.keep[k])
            ORR_TRY(bridge(c, &end, 2 * k + 1, ORR_DEP_SYNC));
    return ORR_OK;
}

static orr_status add_point_deps(copier *c, uint32_t p)
{
    const waiter w = {p / 2, c->point_to[p], c->bridges.parent[p / 2], false, p + 1};
    for (uint32_t i = 0; i < c->bridges.near_n[p]; i++)
        ORR_TRY(bridge_to(c, &w, c->bridges.near[c->bridges.near_first[p] + i],
                          is_stream(c->g, p / 2) ? ORR_DEP_STREAM : ORR_DEP_THREAD));
    return ORR_OK;
}

static orr_status copy_order(copier *c)
{
    const orr_bridges *b = &c->bridges;
    for (orr_node_id v = 0; v < c->g->n_nodes; v++) {
        const orr_node_id up = b->parent[v];
        const orr_node_id to = up == ORR_NONE ? ORR_NONE : c->to[up];
        if (b->keep[v]) {
            c->b->parent[c->to[v]] = to;
            ORR_TRY(copy_deps(c, v));
        }
        for (uint32_t p = 2 * v; p < 2 * v + 2; p++)
            if (b->is_node[p]) {
                c->b->parent[c->point_to[p]] = to;
                ORR_TRY(add_point_deps(c, p));
            }
    }
    return ORR_OK;
}

/* The number after the largest id, where ids are numbers of nodes. */
static uint64_t free_source_id(const orr_graph *g)
{
    uint64_t largest = 0;
    bool all = g->n_nodes > 1;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        all &= g->source_id[v] != 0 || v == 0;
        largest = g->source_id[v] > largest ? g->source_id[v] : largest;
    }
    return all ? largest + 1 : 0;
}

orr_status orr_graph_part(const orr_graph *graph, const uint8_t *keep, orr_graph_builder *builder,
                          orr_error *err)
{
    copier c = {.g = graph,
                .b = builder,
                .arena = orr_arena_new(0, 0),
                .next_source_id = free_source_id(graph),
                .err = err};
    orr_status status = c.arena ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_bridges_find(graph, keep, c.arena, &c.bridges, err));
    ORR_TRY_OUT(status, open_copier(&c));
    ORR_TRY_OUT(status, copy_strings(&c));
    ORR_TRY_OUT(status, copy_groups(&c));
    orr_builder_recording(builder, &(orr_recording){graph->base_ns, graph->rank, graph->world_size,
                                                    graph->source, graph->device_name});
    ORR_TRY_OUT(status, copy_nodes(&c));
    ORR_TRY_OUT(status, copy_order(&c));
out:
    orr_arena_free(c.arena);
    return status;
}
