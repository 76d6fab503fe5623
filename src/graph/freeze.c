/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "graph/frozen.h"
#include "graph/lane_rows.h"
#include "graph/validate.h"

/* The steps of orr_graph_build(), in the order that keeps the peak of memory low: what a
 * step no longer needs is given back before the next one asks. Each array either
 * changes hands or is the builder's still, so a failure anywhere frees both and is done. */

/* Hand an array over, cut to what is used; NULL when that is nothing. A cut that fails leaves a
 * larger block, which is right too. */
static void *take(void **from, size_t bytes)
{
    void *at = *from;
    *from = NULL;
    if (bytes == 0) {
        orr_free(at);
        return NULL;
    }
    void *cut = orr_realloc(at, bytes);
    return cut ? cut : at;
}
#define TAKE(pointer, n)  take((void **)&(pointer), (n) * sizeof *(pointer))
#define TAKE_ARRAY(array) ((array).room = 0, TAKE((array).at, (array).n))

static void drop(void **at)
{
    orr_free(*at);
    *at = NULL;
}
#define DROP(pointer) drop((void **)&(pointer))

static orr_status fail_times(orr_error *err, const char *what, orr_node_id v)
{
    return orr_fail(err, ORR_INVALID, "node %u: its %s is more than 2^63 ns from the others", v,
                    what);
}

/* First recorded start to 0; what was before it to base_ns. */
static orr_status rebase(orr_graph_builder *b, orr_graph *g, orr_error *err)
{
    int64_t first = INT64_MAX;
    for (uint32_t v = 0; v < b->n_nodes; v++)
        if (b->start_ns[v] != ORR_TIME_NONE && b->start_ns[v] < first)
            first = b->start_ns[v];
    g->base_ns = b->recording.base_ns;
    if (first == INT64_MAX)
        return ORR_OK;
    if (__builtin_add_overflow(g->base_ns, first, &g->base_ns))
        return orr_fail(err, ORR_INVALID, "the recording begins more than 2^63 ns from 1970");
    for (uint32_t v = 0; v < b->n_nodes; v++) {
        if (b->start_ns[v] == ORR_TIME_NONE)
            continue;
        int64_t end, clock;
        if (__builtin_sub_overflow(b->start_ns[v], first, &b->start_ns[v]))
            return fail_times(err, "start", v);
        if (__builtin_add_overflow(b->start_ns[v], b->duration_ns[v], &end) ||
            __builtin_add_overflow(end, g->base_ns, &clock))
            return fail_times(err, "end", v);
        if (end > g->span_ns)
            g->span_ns = end;
    }
    return ORR_OK;
}

/* Counts to offsets of rows: first[v] is where row v begins. Given first[v + 1] = length of v. */
static void counts_to_rows(uint32_t *first, uint32_t n)
{
    for (uint32_t v = 0; v < n; v++)
        first[v + 1] += first[v];
}

/* After first[v] was moved along the row of v to its end. */
static void restore_rows(uint32_t *first, uint32_t n)
{
    for (uint32_t v = n; v > 0; v--)
        first[v] = first[v - 1];
    first[0] = 0;
}

static orr_status scatter_deps(orr_graph_builder *b, orr_graph *g, uint32_t *first, orr_error *err)
{
    orr_node_id *dep = orr_malloc(b->n_deps * sizeof *dep);
    uint8_t *kind = orr_malloc(b->n_deps);
    g->dep = dep;
    g->dep_kind = kind;
    if (dep == NULL || kind == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < b->n_deps; i++) {
        const uint32_t to = first[b->dep_node[i]]++;
        dep[to] = b->dep_on[i];
        kind[to] = b->dep_kind[i];
    }
    restore_rows(first, b->n_nodes);
    DROP(b->dep_on);
    DROP(b->dep_kind);
    return ORR_OK;
}

/* Rows in the order of nodes; in a row the order in which they were added. */
static orr_status freeze_deps(orr_graph_builder *b, orr_graph *g, orr_error *err)
{
    uint32_t *first = orr_calloc((size_t)b->n_nodes + 1, sizeof *first);
    if (first == NULL)
        return orr_fail_memory(err);
    g->dep_first = first;
    for (uint32_t i = 0; i < b->n_deps; i++)
        first[b->dep_node[i] + 1]++;
    counts_to_rows(first, b->n_nodes);
    if (b->deps_scattered) {
        ORR_TRY(scatter_deps(b, g, first, err));
    } else {
        g->dep = TAKE(b->dep_on, b->n_deps);
        g->dep_kind = TAKE(b->dep_kind, b->n_deps);
    }
    DROP(b->dep_node);
    g->n_deps = b->n_deps;
    return ORR_OK;
}

static orr_status freeze_lanes(orr_graph_builder *b, orr_graph *g, orr_error *err)
{
    const orr_lane_columns columns = {b->n_nodes, (uint32_t)b->lanes.n, b->lane, b->start_ns,
                                      b->duration_ns};
    orr_lane_rows rows = b->lane_rows;
    b->lane_rows = (orr_lane_rows){0};
    if (rows.first == NULL || b->sorted_nodes != columns.n_nodes ||
        b->sorted_lanes != columns.n_lanes || !orr_lane_rows_valid(&rows, &columns)) {
        orr_lane_rows_done(&rows);
        ORR_TRY(orr_lane_rows_sort(&columns, &rows, err));
    }
    g->lane_first = rows.first;
    g->lane_node = rows.node;
    return ORR_OK;
}

static orr_status scatter_io(orr_graph_builder *b, orr_graph *g, const uint32_t *first,
                             orr_error *err)
{
    orr_tensor_id *io = orr_malloc(b->io.n * sizeof *io);
    if (io == NULL)
        return orr_fail_memory(err);
    g->io = io;
    for (size_t i = 0; i < b->io_rows.n; i++) {
        const orr_io_row *row = &b->io_rows.at[i];
        for (uint32_t k = 0; k < row->n_in + row->n_out; k++)
            io[first[row->node] + k] = b->io.at[row->first + k];
    }
    orr_array_done(&b->io);
    return ORR_OK;
}

static orr_status freeze_io(orr_graph_builder *b, orr_graph *g, orr_error *err)
{
    if (b->tensors.n == 0)
        return ORR_OK;
    uint32_t *first = orr_calloc((size_t)b->n_nodes + 1, sizeof *first);
    uint32_t *out = orr_calloc(b->n_nodes, sizeof *out);
    g->io_first = first;
    g->io_out = out;
    if (first == NULL || out == NULL)
        return orr_fail_memory(err);
    bool in_order = true;
    for (size_t i = 0; i < b->io_rows.n; i++) {
        const orr_io_row *row = &b->io_rows.at[i];
        if (first[row->node + 1] != 0)
            return orr_fail(err, ORR_INVALID, "node %u: its tensors were given twice", row->node);
        first[row->node + 1] = row->n_in + row->n_out;
        out[row->node] = row->n_in;
        in_order &= i == 0 || row[-1].node < row->node;
    }
    counts_to_rows(first, b->n_nodes);
    for (uint32_t v = 0; v < b->n_nodes; v++)
        out[v] += first[v];
    if (in_order)
        g->io = TAKE_ARRAY(b->io);
    else
        ORR_TRY(scatter_io(b, g, first, err));
    orr_array_done(&b->io_rows);
    return ORR_OK;
}

/* What the builder holds is right as it is, and only changes hands. */
static void adopt(orr_graph_builder *b, orr_frozen *frozen)
{
    orr_graph *g = &frozen->graph;
    const orr_recording *recording = &b->recording;
    g->n_nodes = b->n_nodes;
    g->name = TAKE(b->name, b->n_nodes);
    g->kind = TAKE(b->kind, b->n_nodes);
    g->flags = TAKE(b->flags, b->n_nodes);
    g->lane = TAKE(b->lane, b->n_nodes);
    g->start_ns = TAKE(b->start_ns, b->n_nodes);
    g->duration_ns = TAKE(b->duration_ns, b->n_nodes);
    g->parent = TAKE(b->parent, b->n_nodes);
    g->source_id = TAKE(b->source_id, b->n_nodes);
    g->detail = TAKE(b->detail, b->n_nodes);
    frozen->attrs = TAKE(b->attrs, b->n_nodes);

    g->n_lanes = (uint32_t)b->lanes.n;
    g->lanes = TAKE_ARRAY(b->lanes);
    g->n_groups = (uint32_t)b->groups.n;
    g->groups = TAKE_ARRAY(b->groups);
    b->groups.n = 0; /* their lists of ranks went along */
    g->n_tensors = (uint32_t)b->tensors.n;
    g->tensors = TAKE_ARRAY(b->tensors);
    g->n_comms = (uint32_t)b->comms.n;
    g->comms = TAKE_ARRAY(b->comms);
    g->n_copies = (uint32_t)b->copies.n;
    g->copies = TAKE_ARRAY(b->copies);
    g->n_memories = (uint32_t)b->memories.n;
    g->memories = TAKE_ARRAY(b->memories);

    g->n_strings = orr_strtab_count(b->strings);
    frozen->strings = b->strings;
    b->strings = NULL;
    orr_attr_heap_freeze(&b->attr_heap);
    frozen->attr_heap = b->attr_heap;
    b->attr_heap = (orr_attr_heap){0};
    frozen->recording_attrs = b->recording_attrs;

    g->rank = recording->rank;
    g->world_size = recording->world_size;
    g->source = recording->source;
    g->device_name = recording->device_name;
}

static orr_status freeze(orr_graph_builder *b, orr_frozen *frozen, orr_error *err)
{
    if (b->strings == NULL && (b->strings = orr_strtab_new()) == NULL)
        return orr_fail_memory(err);
    orr_hash_index_done(&b->lane_index);
    orr_hash_index_done(&b->group_index);
    orr_hash_index_done(&b->tensor_index);
    ORR_TRY(orr_check_columns(b, err));
    ORR_TRY(rebase(b, &frozen->graph, err));
    ORR_TRY(freeze_deps(b, &frozen->graph, err));
    ORR_TRY(freeze_lanes(b, &frozen->graph, err));
    ORR_TRY(freeze_io(b, &frozen->graph, err));
    adopt(b, frozen);
    return orr_check_acyclic(&frozen->graph, err);
}

orr_status orr_graph_build(orr_graph_builder *b, const orr_graph **ret_graph, orr_error *err)
{
    orr_frozen *frozen = orr_calloc(1, sizeof *frozen);
    const orr_status status = frozen ? freeze(b, frozen, err) : orr_fail_memory(err);
    orr_builder_reset(b);
    if (status == ORR_OK)
        *ret_graph = &frozen->graph;
    else
        orr_graph_free(frozen ? &frozen->graph : NULL);
    return status;
}
