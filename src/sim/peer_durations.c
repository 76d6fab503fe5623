/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/peer_durations.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "graph/pollers.h"

static bool communicates(const orr_graph *g, orr_node_id v)
{
    return g->kind[v] == ORR_NODE_COLLECTIVE || g->kind[v] == ORR_NODE_SEND ||
           g->kind[v] == ORR_NODE_RECV;
}

/* Calls of the runtime wait in many ways, launches into full queues among them. */
static bool is_compared(const orr_graph *g, orr_node_id v)
{
    const uint8_t kind = g->kind[v];
    if (g->lanes[g->lane[v]].kind == ORR_LANE_STREAM)
        return kind == ORR_NODE_COMPUTE || kind == ORR_NODE_COPY || kind == ORR_NODE_SET;
    if (kind != ORR_NODE_HOST_OP && kind != ORR_NODE_PYTHON && kind != ORR_NODE_COMPUTE)
        return false;
    for (uint32_t k = g->dep_first[v]; k < g->dep_first[v + 1]; k++)
        if (g->dep_kind[k] == ORR_DEP_SYNC)
            return false;
    return strncmp(orr_graph_str(g, g->name[v]), "c10d::", 6) != 0;
}

/* FNV-1a over kind and name. */
static uint64_t key_of(const orr_graph *g, orr_node_id v)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ g->kind[v];
    for (const char *at = orr_graph_str(g, g->name[v]); *at != '\0'; at++)
        hash = (hash ^ (uint8_t)*at) * UINT64_C(0x100000001b3);
    return hash;
}

static int by_key_and_start(const void *a_, const void *b_)
{
    const orr_peer_operation *a = a_, *b = b_; /* own_ns holds the start */
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->own_ns != b->own_ns)
        return a->own_ns < b->own_ns ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

static int by_correspondence(const void *a_, const void *b_)
{
    const orr_peer_operation *a = a_, *b = b_;
    if (a->key != b->key)
        return a->key < b->key ? -1 : 1;
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    if (a->ordinal != b->ordinal)
        return a->ordinal < b->ordinal ? -1 : 1;
    return (a->graph > b->graph) - (a->graph < b->graph);
}

/* Time of each node without what is nested in it on its thread; -1 of one that a communication is
 * nested in: what it does not spend inside of that it may spend waiting. */
static orr_status find_own_times(const orr_graph *g, const int64_t *duration_ns, orr_arena *scratch,
                                 int64_t **ret, orr_error *err)
{
    int64_t *own_ns = orr_arena_array(scratch, int64_t, g->n_nodes);
    if (own_ns == NULL)
        return orr_fail_memory(err);
    memcpy(own_ns, duration_ns, g->n_nodes * sizeof *own_ns);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const orr_node_id up = g->parent[v];
        if (up == ORR_NONE || g->lane[up] != g->lane[v] || own_ns[up] == INT64_MIN)
            continue;
        own_ns[up] = communicates(g, v) ? INT64_MIN : own_ns[up] - duration_ns[v];
    }
    *ret = own_ns;
    return ORR_OK;
}

/* The operations of one graph, counted and numbered. */
static orr_status gather(const orr_ensemble *e, uint32_t d, orr_arena *scratch,
                         orr_peer_operation *at, size_t *n, orr_error *err)
{
    const orr_graph *g = e->graphs[d];
    int64_t *own_ns;
    size_t found = 0;
    ORR_TRY(find_own_times(g,
                           e->duration_ns && e->duration_ns[d] ? e->duration_ns[d] : g->duration_ns,
                           scratch, &own_ns, err));
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (is_compared(g, v))
            at[found++] = (orr_peer_operation){
                .key = key_of(g, v), .graph = d, .node = v, .own_ns = g->start_ns[v]};
    if (found > 1)
        qsort(at, found, sizeof *at, by_key_and_start);
    for (size_t i = 0, end; i < found; i = end) {
        for (end = i + 1; end < found && at[end].key == at[i].key;)
            end++;
        for (size_t k = i; k < end; k++) {
            at[k].count = (uint32_t)(end - i);
            at[k].ordinal = (uint32_t)(k - i);
            at[k].own_ns = own_ns[at[k].node];
        }
    }
    *n += found;
    return ORR_OK;
}

orr_status orr_peer_operations_find(const orr_ensemble *e, orr_arena *arena,
                                    orr_peer_operations *ret, orr_error *err)
{
    size_t room = 0, n = 0;
    for (uint32_t d = 0; d < e->n_graphs; d++)
        room += e->graphs[d]->n_nodes;
    orr_peer_operation *at = orr_arena_array(arena, orr_peer_operation, room);
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_status status = at != NULL && scratch != NULL ? ORR_OK : orr_fail_memory(err);
    for (uint32_t d = 0; d < e->n_graphs && status == ORR_OK; d++) {
        const orr_arena_mark mark = orr_arena_get_mark(scratch);
        status = gather(e, d, scratch, at + n, &n, err);
        orr_arena_rewind(scratch, mark);
    }
    orr_arena_free(scratch);
    if (status != ORR_OK)
        return status;
    if (n > 1)
        qsort(at, n, sizeof *at, by_correspondence);
    *ret = (orr_peer_operations){at, n};
    return ORR_OK;
}

static int compare_ns(const void *a_, const void *b_)
{
    const int64_t *a = a_, *b = b_;
    return (*a > *b) - (*a < *b);
}

/* The median of sorted times, shape (n), without that of `left_out`; -1 counts all. n > 0. */
static double median_without(const int64_t *sorted, size_t n, int64_t left_out_ns)
{
    size_t out = n;
    for (size_t low = 0, high = n; left_out_ns >= 0 && low < high;) {
        const size_t middle = low + (high - low) / 2;
        if (sorted[middle] < left_out_ns)
            low = middle + 1;
        else
            out = high = middle;
    }
    const size_t m = out < n ? n - 1 : n, a = (m - 1) / 2, b = m / 2;
    return ((double)sorted[a + (a >= out)] + (double)sorted[b + (b >= out)]) / 2;
}

typedef struct peer_visitor {
    void (*visit)(const struct peer_visitor *v, const orr_peer_operation *operation,
                  double median_ns);
    int64_t *const *duration_ns;
    orr_peer_excess *excess;
    uint64_t *changed;
} peer_visitor;

/* Operations that correspond, shape (n). */
static void visit_group(const orr_peer_operation *at, size_t n, const bool *chosen, bool all,
                        int64_t *spare, const peer_visitor *v)
{
    size_t peers = 0;
    for (size_t i = 0; i < n; i++)
        if ((all || chosen == NULL || !chosen[at[i].graph]) && at[i].own_ns >= 0)
            spare[peers++] = at[i].own_ns;
    if (peers == 0 || (chosen == NULL && peers < 2))
        return;
    qsort(spare, peers, sizeof *spare, compare_ns);
    for (size_t i = 0; i < n; i++)
        if ((chosen == NULL || chosen[at[i].graph]) && at[i].own_ns > 0)
            v->visit(v, &at[i], median_without(spare, peers, chosen == NULL ? at[i].own_ns : -1));
}

/* Calls `visit` for each chosen operation that has peers; chosen NULL: for each, against all
 * others. */
static orr_status visit_chosen(const orr_peer_operations *operations, const orr_ensemble *e,
                               const bool *chosen, orr_arena *scratch, const peer_visitor *v,
                               orr_error *err)
{
    int64_t *spare = orr_arena_array(scratch, int64_t, e->n_graphs);
    const orr_peer_operation *at = operations->at;
    bool all = chosen != NULL;
    if (spare == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < e->n_graphs && all; d++)
        all = chosen[d];
    for (size_t i = 0, end; i < operations->n; i = end) {
        for (end = i + 1; end < operations->n && at[end].key == at[i].key &&
                          at[end].count == at[i].count && at[end].ordinal == at[i].ordinal;)
            end++;
        visit_group(at + i, end - i, chosen, all, spare, v);
    }
    return ORR_OK;
}

static void set_duration(const peer_visitor *v, const orr_peer_operation *operation,
                         double median_ns)
{
    int64_t *ns = &v->duration_ns[operation->graph][operation->node];
    const int64_t was_ns = *ns;
    *ns = llround((double)was_ns * median_ns / (double)operation->own_ns);
    *v->changed += *ns != was_ns;
}

orr_status orr_peer_durations_set(const orr_peer_operations *operations, const orr_ensemble *e,
                                  const bool *chosen, orr_arena *scratch,
                                  int64_t *const *duration_ns, uint64_t *ret_changed,
                                  orr_error *err)
{
    uint64_t changed = 0;
    ORR_TRY(visit_chosen(operations, e, chosen, scratch,
                         &(peer_visitor){set_duration, duration_ns, NULL, &changed}, err));
    *ret_changed = changed;
    return ORR_OK;
}

static void add_excess(const peer_visitor *v, const orr_peer_operation *operation, double median_ns)
{
    orr_peer_excess *sum = &v->excess[operation->graph];
    const int64_t ns = operation->own_ns - llround(median_ns);
    uint32_t at = ORR_PEER_WORST;
    sum->ns += ns;
    sum->operations++;
    for (; at > 0 && ns > sum->worst_ns[at - 1]; at--)
        if (at < ORR_PEER_WORST) {
            sum->worst_ns[at] = sum->worst_ns[at - 1];
            sum->worst[at] = sum->worst[at - 1];
        }
    if (at < ORR_PEER_WORST) {
        sum->worst_ns[at] = ns;
        sum->worst[at] = operation->node;
    }
}

orr_status orr_peer_excess_find(const orr_peer_operations *operations, const orr_ensemble *e,
                                const bool *chosen, orr_arena *scratch, orr_peer_excess *excess,
                                orr_error *err)
{
    memset(excess, 0, e->n_graphs * sizeof *excess);
    return visit_chosen(operations, e, chosen, scratch,
                        &(peer_visitor){add_excess, NULL, excess, NULL}, err);
}
