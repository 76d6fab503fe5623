/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "graph/builder.h"
#include "trace/pytorch/reader.h"

/* The observer writes a node when it ends, so files are in the order of ends. Graphs are in the
 * order of begins, which is the order of ids: nodes are permuted before anything but their inputs
 * and outputs refers to them. */

static int by_id(const void *a, const void *b)
{
    const orr_et_row *x = a, *y = b;
    return x->id != y->id ? (x->id < y->id ? -1 : 1) : x->node < y->node ? -1 : 1;
}

orr_node_id orr_et_find(const orr_et_row *row, uint32_t n, uint64_t id)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (row[middle].id < id)
            low = middle + 1;
        else
            high = middle;
    }
    return low < n && row[low].id == id ? low : ORR_NONE;
}

/* New row i of the column is its old row from[i]. */
static void permute(void *column, size_t element_bytes, const orr_et_rows *from, uint8_t *scratch)
{
    uint8_t *bytes = column;
    for (size_t i = 0; i < from->n; i++)
        memcpy(scratch + i * element_bytes, bytes + from->at[i].node * element_bytes,
               element_bytes);
    memcpy(bytes, scratch, from->n * element_bytes);
}

static int by_node(const void *a, const void *b)
{
    const orr_et_write *x = a, *y = b;
    return x->node < y->node ? -1 : x->node > y->node;
}

static orr_status reorder(orr_et_reader *r, orr_error *err)
{
    orr_graph_builder *b = r->builder;
    const orr_et_rows *rows = &r->rows;
    uint8_t *scratch = orr_calloc(rows->n, sizeof(uint64_t));
    if (scratch == NULL)
        return orr_fail_memory(err);
#define PERMUTE(type, name) permute(b->name, sizeof(type), rows, scratch);
    ORR_NODE_COLUMNS(PERMUTE)
#undef PERMUTE
    uint32_t *new_of = (uint32_t *)(void *)scratch;
    for (size_t i = 0; i < rows->n; i++)
        new_of[rows->at[i].node] = (uint32_t)i;
    for (size_t i = 0; i < b->io_rows.n; i++)
        b->io_rows.at[i].node = new_of[b->io_rows.at[i].node];
    for (size_t i = 0; i < r->writes.n; i++)
        r->writes.at[i].node = new_of[r->writes.at[i].node];
    orr_free(scratch);
    return ORR_OK;
}

static orr_status check_ids(const orr_et_reader *r, orr_error *err)
{
    const orr_graph_builder *b = r->builder;
    const orr_et_rows *rows = &r->rows;
    for (size_t i = 1; i < rows->n; i++)
        if (rows->at[i].id == rows->at[i - 1].id)
            return orr_fail(err, ORR_INVALID, "two nodes of id %" PRIu64 ": '%.80s' and '%.80s'",
                            rows->at[i].id, orr_builder_text(b, b->name[rows->at[i - 1].node]),
                            orr_builder_text(b, b->name[rows->at[i].node]));
    return ORR_OK;
}

orr_status orr_et_sort(orr_et_reader *r, orr_error *err)
{
    orr_et_rows *rows = &r->rows;
    bool sorted = true;
    for (size_t i = 1; i < rows->n && sorted; i++)
        sorted = rows->at[i - 1].id < rows->at[i].id;
    if (sorted)
        return ORR_OK;
    qsort(rows->at, rows->n, sizeof *rows->at, by_id);
    ORR_TRY(check_ids(r, err));
    ORR_TRY(reorder(r, err));
    if (r->writes.n > 1)
        qsort(r->writes.at, r->writes.n, sizeof *r->writes.at, by_node);
    return ORR_OK;
}

/* The nearest ancestor of row v that was called before it. The observer nests work of other threads
 * (such as Gloo's) under whatever is open, which may have been called later than the node; then
 * that one's own caller is meant. ORR_NONE: not in the file, or none. */
static orr_node_id caller_of(const orr_et_reader *r, orr_node_id v)
{
    enum { MOST_STEPS = 64 };
    const uint32_t n = (uint32_t)r->rows.n;
    orr_node_id parent = orr_et_find(r->rows.at, n, r->rows.at[v].parent);
    for (int step = 0; parent != ORR_NONE && parent >= v && step < MOST_STEPS; step++)
        parent = orr_et_find(r->rows.at, n, r->rows.at[parent].parent);
    return parent;
}

/* A node that names itself as its parent, or none, is a root. */
orr_status orr_et_set_parents(orr_et_reader *r, orr_error *err)
{
    orr_graph_builder *b = r->builder;
    for (orr_node_id v = 0; v < r->rows.n; v++) {
        const orr_et_row *row = &r->rows.at[v];
        if (!row->has_parent || row->parent == row->id)
            continue;
        const orr_node_id parent = caller_of(r, v);
        if (parent < v)
            b->parent[v] = parent;
        else if (r->options->tolerant)
            r->report->faults[ORR_TRACE_FAULT_LOST_PARENT]++;
        else
            return orr_fail(err, ORR_INVALID, "node %" PRIu64 " '%.80s': its parent %" PRIu64 " %s",
                            row->id, orr_builder_text(b, b->name[v]), row->parent,
                            parent == ORR_NONE ? "is not in the file" : "is called by it");
    }
    return ORR_OK;
}
