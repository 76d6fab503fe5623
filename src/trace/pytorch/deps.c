/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "graph/builder.h"
#include "trace/pytorch/reader.h"

/* Dependencies of a PyTorch execution trace. The file has no times, but ids rise in the order of
 * calls, over all threads. So node u ended before node v began if all of u's subtree has smaller
 * ids than v; only then may v wait for u. Every dependency therefore goes from smaller ids to
 * larger ones, and there is no cycle. Data dependencies come from a last-writer table: storage ->
 * the node that wrote it last. */
typedef struct maker {
    orr_graph_builder *b;
    const orr_et_row *row; /* shape (N), by id */
    uint32_t n;
    uint32_t *last;     /* shape (N): last node of the subtree */
    uint32_t *child;    /* shape (N): the latest child seen so far */
    uint32_t *ends;     /* shape (N): first node whose subtree ends with this one ... */
    uint32_t *ends_too; /* shape (N): ... and the next such one, outwards */
    uint32_t *io;       /* shape (N): row of io_rows */
    uint32_t *writes;   /* shape (N): its first row in `written` */
    orr_idmap writer;   /* storage -> the node that wrote it last */
} maker;

static orr_status make_arrays(maker *m, orr_error *err)
{
    uint32_t **const arrays[] = {&m->last, &m->child, &m->ends, &m->ends_too, &m->io, &m->writes};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++) {
        *arrays[i] = orr_calloc(m->n, sizeof(uint32_t));
        if (*arrays[i] == NULL)
            return orr_fail_memory(err);
        memset(*arrays[i], 0xff, m->n * sizeof(uint32_t));
    }
    return ORR_OK;
}

static void free_arrays(maker *m)
{
    uint32_t *const arrays[] = {m->last, m->child, m->ends, m->ends_too, m->io, m->writes};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
        orr_free(arrays[i]);
    orr_idmap_done(&m->writer);
}

static void find_ends(maker *m)
{
    for (uint32_t v = 0; v < m->n; v++)
        m->last[v] = v;
    for (uint32_t v = m->n; v-- > 0;) {
        const orr_node_id p = m->b->parent[v];
        if (p != ORR_NONE && m->last[v] > m->last[p])
            m->last[p] = m->last[v];
    }
    for (uint32_t v = 0; v < m->n; v++) {
        m->ends_too[v] = m->ends[m->last[v]];
        m->ends[m->last[v]] = v;
    }
}

/* Program order: each child waits for the one before it in its thread. */
static orr_status add_thread_dep(maker *m, orr_node_id v, orr_error *err)
{
    const orr_node_id p = m->b->parent[v];
    if (p == ORR_NONE)
        return ORR_OK;
    const orr_node_id before = m->child[p];
    m->child[p] = v;
    if (before == ORR_NONE || m->b->lane[before] != m->b->lane[v] || m->last[before] >= v)
        return ORR_OK;
    return orr_builder_dep(m->b, v, before, ORR_DEP_THREAD, err);
}

/* The operator of another thread that called v, such as the one that started the backward pass. v's
 * outermost operator is what waits. */
static orr_status add_caller(maker *m, orr_node_id v, orr_error *err)
{
    const orr_graph_builder *b = m->b;
    const orr_node_id caller = orr_et_find(m->row, m->n, m->row[v].fw_parent);
    if (m->row[v].fw_parent == 0 || caller == ORR_NONE || b->lane[caller] == b->lane[v])
        return ORR_OK;
    orr_node_id top = v;
    for (orr_node_id p; (p = b->parent[top]) != ORR_NONE && b->kind[p] != ORR_NODE_META;)
        top = p;
    if (caller >= top)
        return ORR_OK;
    for (uint32_t d = b->n_deps; d > 0 && b->dep_node[d - 1] >= top; d--)
        if (b->dep_node[d - 1] == top && b->dep_kind[d - 1] == ORR_DEP_CONTROL)
            return ORR_OK;
    return orr_builder_dep(m->b, top, caller, ORR_DEP_CONTROL, err);
}

static const orr_io_row *io_of(const maker *m, orr_node_id v)
{
    return m->io[v] == ORR_NONE ? NULL : &m->b->io_rows.at[m->io[v]];
}

static uint64_t storage_of(const maker *m, uint32_t io)
{
    return (uint64_t)m->b->tensors.at[m->b->io.at[io]].storage;
}

/* v waits for the last writers of what it reads (RAW). */
static orr_status add_data_deps(maker *m, orr_node_id v, orr_error *err)
{
    const orr_graph_builder *b = m->b;
    const orr_io_row *io = io_of(m, v);
    const uint32_t first = b->n_deps;
    for (uint32_t i = 0; io != NULL && i < io->n_in; i++) {
        const uint32_t writer = orr_idmap_get(&m->writer, storage_of(m, io->first + i));
        bool known = writer == ORR_NONE;
        for (uint32_t d = first; d < b->n_deps && !known; d++)
            known = b->dep_on[d] == writer;
        if (!known)
            ORR_TRY(orr_builder_dep(m->b, v, writer, ORR_DEP_DATA, err));
    }
    return ORR_OK;
}

static orr_status note_writes(maker *m, orr_node_id u, const orr_et_writes *writes, orr_error *err)
{
    const orr_io_row *io = io_of(m, u);
    for (uint32_t i = 0; io != NULL && i < io->n_out; i++)
        ORR_TRY(orr_idmap_set(&m->writer, storage_of(m, io->first + io->n_in + i), u, err));
    for (size_t i = m->writes[u]; i < writes->n && writes->at[i].node == u; i++)
        ORR_TRY(orr_idmap_set(&m->writer, writes->at[i].storage, u, err));
    return ORR_OK;
}

orr_status orr_et_add_deps(orr_et_reader *r, orr_error *err)
{
    maker m = {.b = r->builder, .row = r->rows.at, .n = (uint32_t)r->rows.n};
    orr_status status;
    ORR_TRY_OUT(status, make_arrays(&m, err));
    for (size_t i = 0; i < m.b->io_rows.n; i++)
        m.io[m.b->io_rows.at[i].node] = (uint32_t)i;
    for (size_t i = r->writes.n; i-- > 0;)
        m.writes[r->writes.at[i].node] = (uint32_t)i;
    find_ends(&m);
    for (orr_node_id v = 0; v < m.n; v++) {
        ORR_TRY_OUT(status, add_thread_dep(&m, v, err));
        ORR_TRY_OUT(status, add_caller(&m, v, err));
        ORR_TRY_OUT(status, add_data_deps(&m, v, err));
        for (orr_node_id u = m.ends[v]; u != ORR_NONE; u = m.ends_too[u])
            ORR_TRY_OUT(status, note_writes(&m, u, &r->writes, err));
    }
out:
    free_arrays(&m);
    return status;
}
