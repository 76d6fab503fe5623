/* SPDX-License-Identifier: Apache-2.0 */
#include "replay/select.h"

#include <stdlib.h>
#include <string.h>

#include "replay/native.h"

/* Selects the operators that run from the call tree of a recording. */

typedef struct selecting {
    const orr_graph *g;
    const orr_replay_options *options;
    orr_arena *arena;
    orr_node_id *first_child, *next; /* shape (N): children by id; ORR_NONE */
    bool *above;                     /* shape (N): has an operator somewhere below */
    orr_replay_unit *units;
    uint32_t n;
    uint32_t *unit_of; /* shape (N): ORR_NONE */
    orr_error *err;
} selecting;

static const char *name_of(const orr_graph *g, orr_node_id v)
{
    return orr_graph_str(g, g->name[v]);
}

/* Nodes that only wrap operators do not count: autograd nodes, hooks, transport records. */
static bool is_operator(const orr_graph *g, orr_node_id v)
{
    static const char *const wrappers[] = {"autograd::", "torch::", "torch.",
                                           "nccl:",      "gloo:",   "mpi:"};
    const char *name = name_of(g, v);
    if (orr_replay_native_rule(g, v) != NULL)
        return true;
    if (g->kind[v] != ORR_NODE_HOST_OP || strstr(name, "::") == NULL)
        return false;
    for (size_t i = 0; i < sizeof wrappers / sizeof *wrappers; i++)
        if (strncmp(name, wrappers[i], strlen(wrappers[i])) == 0)
            return false;
    return true;
}

/* Builds child lists, and marks nodes with operators below. Ids of children mostly, but not always,
 * follow their parent's, so marks are propagated upwards. */
static orr_status index_tree(selecting *s)
{
    const orr_graph *g = s->g;
    s->first_child = orr_arena_array(s->arena, orr_node_id, g->n_nodes);
    s->next = orr_arena_array(s->arena, orr_node_id, g->n_nodes);
    s->above = orr_arena_array(s->arena, bool, g->n_nodes);
    s->unit_of = orr_arena_array(s->arena, uint32_t, g->n_nodes);
    if (s->first_child == NULL || s->next == NULL || s->above == NULL || s->unit_of == NULL)
        return orr_fail_memory(s->err);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        s->first_child[v] = s->next[v] = s->unit_of[v] = ORR_NONE;
    for (orr_node_id v = g->n_nodes; v-- > 0;) {
        const orr_node_id up = g->parent[v];
        if (up != ORR_NONE) {
            s->next[v] = s->first_child[up];
            s->first_child[up] = v;
        }
        if (is_operator(g, v))
            for (orr_node_id a = up; a != ORR_NONE && !s->above[a]; a = g->parent[a])
                s->above[a] = true;
    }
    return ORR_OK;
}

/* Kineto records the tensors' dims, execution traces the tensors: without either an operator cannot
 * be run. */
static void add_unit(selecting *s, orr_node_id v, const orr_replay_rule *rule)
{
    s->unit_of[v] = s->n;
    s->units[s->n++] =
        (orr_replay_unit){.node = v,
                          .rule = rule,
                          .how = rule != NULL ? rule->how : (uint8_t)ORR_REPLAY_EMULATED,
                          .why = rule != NULL ? "" : "no kernel",
                          .recorded_ns = s->g->duration_ns[v]};
}

static const orr_replay_rule *rule_of(const orr_graph *g, orr_node_id v)
{
    const orr_replay_rule *own = orr_replay_native_rule(g, v);
    return own != NULL || !is_operator(g, v) ? own : orr_replay_rule_of(name_of(g, v));
}

/* Depth-first from a node; descendants of a unit are part of it. */
static void visit(selecting *s, orr_node_id root)
{
    orr_node_id v = root;
    for (;;) {
        const orr_replay_rule *rule = rule_of(s->g, v);
        const bool unit = rule != NULL || (is_operator(s->g, v) && !s->above[v]);
        if (unit)
            add_unit(s, v, rule);
        if (!unit && s->above[v]) {
            v = s->first_child[v];
            continue;
        }
        while (v != root && s->next[v] == ORR_NONE)
            v = s->g->parent[v];
        if (v == root)
            return;
        v = s->next[v];
    }
}

/* Device work counts for the unit that launched it, and replaces that unit's host time. */
static orr_status add_device_time(selecting *s)
{
    const orr_graph *g = s->g;
    int64_t *device = orr_arena_array(s->arena, int64_t, s->n);
    if (device == NULL)
        return orr_fail_memory(s->err);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        if (!orr_graph_on_device(g, v))
            continue;
        for (uint32_t i = g->dep_first[v]; i < g->dep_first[v + 1]; i++) {
            orr_node_id up = g->dep[i];
            if (g->dep_kind[i] != ORR_DEP_LAUNCH && g->dep_kind[i] != ORR_DEP_CONTROL)
                continue;
            while (up != ORR_NONE && s->unit_of[up] == ORR_NONE)
                up = g->parent[up];
            if (up != ORR_NONE)
                device[s->unit_of[up]] += g->duration_ns[v];
            break;
        }
    }
    for (uint32_t i = 0; i < s->n; i++)
        if (device[i] > 0)
            s->units[i].recorded_ns = device[i];
    return ORR_OK;
}

static orr_status find(const selecting *s, const char *what, orr_node_id *ret)
{
    const orr_graph *g = s->g;
    char *end;
    const unsigned long id = what[0] == '#' ? strtoul(what + 1, &end, 10) : 0;
    if (what[0] == '#' && end != what + 1 && *end == '\0' && id < g->n_nodes)
        return *ret = (orr_node_id)id, ORR_OK;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (strcmp(name_of(g, v), what) == 0)
            return *ret = v, ORR_OK;
    return orr_fail(s->err, ORR_INVALID, "the recording has no operator or annotation '%s'", what);
}

static bool is_below(const orr_graph *g, orr_node_id v, orr_node_id root)
{
    while (v != ORR_NONE && v != root)
        v = g->parent[v];
    return v == root;
}

/* A host annotation covers what began while it was open, on any thread. */
static bool is_within(const orr_graph *g, orr_node_id v, orr_node_id root)
{
    const int64_t from = g->start_ns[root], at = g->start_ns[v];
    return is_below(g, v, root) || (g->kind[root] == ORR_NODE_ANNOTATION && from != ORR_TIME_NONE &&
                                    at >= from && at < from + g->duration_ns[root]);
}

static bool is_skipped(const char *list, const char *name)
{
    while (list != NULL && *list != '\0') {
        const size_t n = strcspn(list, ",");
        const bool prefix = n > 0 && list[n - 1] == '*';
        const size_t len = prefix ? n - 1 : n;
        if (strncmp(list, name, len) == 0 && (prefix || name[len] == '\0'))
            return true;
        list += n + (list[n] == ',');
    }
    return false;
}

/* Restricts units to the range and the subtree; skipped ones stay, and do nothing. */
static orr_status narrow(selecting *s)
{
    const orr_replay_options *o = s->options;
    orr_node_id root = ORR_NONE, from = ORR_NONE, to = ORR_NONE;
    uint32_t first = 0, last = s->n, kept = 0;
    if (o->subtree != NULL)
        ORR_TRY(find(s, o->subtree, &root));
    if (o->from != NULL)
        ORR_TRY(find(s, o->from, &from));
    if (o->to != NULL)
        ORR_TRY(find(s, o->to, &to));
    for (uint32_t i = s->n; from != ORR_NONE && i-- > 0;)
        if (is_below(s->g, s->units[i].node, from))
            first = i;
    for (uint32_t i = 0; to != ORR_NONE && i < s->n; i++)
        if (is_below(s->g, s->units[i].node, to))
            last = i + 1;
    for (uint32_t i = first; i < last; i++) {
        orr_replay_unit u = s->units[i];
        const bool meets = u.how == ORR_REPLAY_COLLECTIVE;
        if (root != ORR_NONE && !is_within(s->g, u.node, root))
            continue;
        if (is_skipped(o->skip, name_of(s->g, u.node)) ||
            (o->part == ORR_REPLAY_COMPUTE && meets) || (o->part == ORR_REPLAY_COMM && !meets))
            u.how = ORR_REPLAY_SKIPPED;
        s->units[kept++] = u;
    }
    s->n = kept;
    return ORR_OK;
}

/* By start; without times by position. */
static int by_start(const void *a, const void *b, void *ctx)
{
    const orr_graph *g = ctx;
    const orr_node_id x = ((const orr_replay_unit *)a)->node,
                      y = ((const orr_replay_unit *)b)->node;
    if (g->start_ns[x] != g->start_ns[y])
        return g->start_ns[x] < g->start_ns[y] ? -1 : 1;
    return (x > y) - (x < y);
}

static int64_t span_of(const selecting *s)
{
    int64_t begin = INT64_MAX, end = INT64_MIN;
    for (uint32_t i = 0; i < s->n; i++) {
        const orr_node_id v = s->units[i].node;
        if (s->g->start_ns[v] == ORR_TIME_NONE)
            continue;
        begin = s->g->start_ns[v] < begin ? s->g->start_ns[v] : begin;
        const int64_t over = s->g->start_ns[v] + s->g->duration_ns[v];
        end = over > end ? over : end;
    }
    return end > begin ? end - begin : 0;
}

orr_status orr_replay_select(const orr_graph *graph, const orr_replay_options *options,
                             orr_arena *arena, orr_replay_selection *ret, orr_error *err)
{
    selecting s = {.g = graph, .options = options, .arena = arena, .err = err};
    s.units = orr_arena_array(arena, orr_replay_unit, graph->n_nodes);
    if (s.units == NULL)
        return orr_fail_memory(err);
    ORR_TRY(index_tree(&s));
    for (orr_node_id v = 0; v < graph->n_nodes; v++)
        if (graph->parent[v] == ORR_NONE)
            visit(&s, v);
    ORR_TRY(add_device_time(&s));
    qsort_r(s.units, s.n, sizeof *s.units, by_start, (void *)graph);
    ORR_TRY(narrow(&s));
    if (s.n == 0)
        return orr_fail(err, ORR_INVALID, "there is no operator to replay: %s",
                        graph->n_nodes > 0 ? "nothing is left of the recording"
                                           : "the recording is empty");
    *ret = (orr_replay_selection){.units = s.units, .n = s.n, .span_ns = span_of(&s)};
    return ORR_OK;
}
