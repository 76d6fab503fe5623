/* SPDX-License-Identifier: Apache-2.0 */
#include "graph/reorder.h"

#include <string.h>

#include "base/alloc.h"
#include "graph/builder.h"

bool orr_is_permutation(const uint32_t *order, uint32_t n)
{
    uint8_t *seen = orr_calloc(n > 0 ? n : 1, sizeof *seen);
    bool each_once = seen != NULL;
    for (uint32_t v = 0; v < n && each_once; v++) {
        each_once = order[v] < n && seen[order[v]] == 0;
        if (each_once)
            seen[order[v]] = 1;
    }
    orr_free(seen);
    return each_once;
}

/* The column's values in the new order; it keeps its memory. */
static orr_status reorder_column(void *column, size_t bytes, const uint32_t *order, uint32_t n,
                                 orr_error *err)
{
    uint8_t *copy = orr_calloc(n > 0 ? n : 1, bytes);
    if (copy == NULL)
        return orr_fail_memory(err);
    for (uint32_t v = 0; v < n; v++)
        memcpy(copy + order[v] * bytes, (const uint8_t *)column + v * bytes, bytes);
    if (n > 0)
        memcpy(column, copy, n * bytes);
    orr_free(copy);
    return ORR_OK;
}

static void renumber(uint32_t *ids, size_t n, const uint32_t *order, uint32_t n_nodes)
{
    for (size_t i = 0; i < n; i++)
        if (ids[i] < n_nodes)
            ids[i] = order[ids[i]];
}

orr_status orr_builder_reorder(orr_graph_builder *b, const uint32_t *order, orr_error *err)
{
    const uint32_t n = b->n_nodes;
#define REORDER(type, name) ORR_TRY(reorder_column(b->name, sizeof(type), order, n, err));
    ORR_NODE_COLUMNS(REORDER)
#undef REORDER
    renumber(b->parent, n, order, n);
    renumber(b->dep_node, b->n_deps, order, n);
    renumber(b->dep_on, b->n_deps, order, n);
    for (size_t i = 0; i < b->io_rows.n; i++)
        renumber(&b->io_rows.at[i].node, 1, order, n);
    b->deps_scattered = true;
    return ORR_OK;
}
