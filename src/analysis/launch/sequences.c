/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analysis/launch/attribution.h"
#include "base/array.h"
#include "base/strtab.h"

/* Which names hold the text that is looked for, each looked at once. */
typedef struct name_filter {
    const orr_graph *graph;
    const char *wanted; /* NULL: any */
    uint8_t *known;     /* shape (n_strings): 0 not looked at, 1 no, 2 yes */
} name_filter;

static bool wanted(const name_filter *names, orr_node_id v)
{
    const orr_graph *g = names->graph;
    if (g->kind[v] != ORR_NODE_HOST_OP)
        return false;
    if (names->wanted == NULL)
        return true;
    uint8_t *known = &names->known[g->name[v]];
    if (*known == 0)
        *known = strstr(orr_graph_str(g, g->name[v]), names->wanted) != NULL ? 2 : 1;
    return *known == 2;
}

/* For every node the outermost wanted operator that it is in, itself included. */
static orr_status find_roots(orr_analysis_run *f, const name_filter *names, const orr_node_id **ret)
{
    const orr_graph *g = names->graph;
    const orr_node_id unknown = ORR_NONE - 1;
    orr_node_id *root = orr_arena_array(f->scratch, orr_node_id, g->n_nodes);
    orr_array(orr_node_id) chain = {0};
    if (root == NULL)
        return orr_fail_memory(f->err);
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        root[v] = unknown;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        chain.n = 0;
        orr_node_id at = v;
        for (; at != ORR_NONE && root[at] == unknown; at = g->parent[at])
            if (!orr_array_push(&chain, at)) {
                orr_array_done(&chain);
                return orr_fail_memory(f->err);
            }
        orr_node_id above = at == ORR_NONE ? ORR_NONE : root[at];
        while (chain.n > 0) {
            at = chain.at[--chain.n];
            if (above == ORR_NONE && wanted(names, at))
                above = at;
            root[at] = above;
        }
    }
    orr_array_done(&chain);
    *ret = root;
    return ORR_OK;
}

/* All roots with one sequence of work. */
typedef struct group {
    const orr_attributed_work *first;
    uint64_t count;
    int64_t kernel_ns, op_ns;
} group;

static orr_status group_roots(orr_analysis_run *f, const orr_graph *g,
                              const orr_attributed_work *roots, size_t n, group *groups,
                              size_t *ret_n)
{
    orr_strtab *sequences = orr_strtab_new();
    if (sequences == NULL)
        return orr_fail_memory(f->err);
    for (size_t i = 0; i < n; i++) {
        if (roots[i].n < f->options.sequence_min)
            continue;
        const uint32_t number = orr_attributed_sequence(g, &roots[i], sequences, f->scratch);
        if (number == UINT32_MAX) {
            orr_strtab_free(sequences);
            return orr_fail_memory(f->err);
        }
        group *into = &groups[number - 1]; /* 0 is the empty string */
        if (into->count++ == 0)
            into->first = &roots[i];
        into->op_ns = orr_saturating_sum(into->op_ns, g->duration_ns[roots[i].owner]);
        for (size_t k = 0; k < roots[i].n; k++)
            into->kernel_ns = orr_saturating_sum(into->kernel_ns, g->duration_ns[roots[i].work[k]]);
    }
    *ret_n = orr_strtab_count(sequences) - 1;
    orr_strtab_free(sequences);
    return ORR_OK;
}

static int most_often_first(const void *a, const void *b)
{
    const group *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    if (x->kernel_ns != y->kernel_ns)
        return x->kernel_ns < y->kernel_ns ? 1 : -1;
    return (x->first > y->first) - (x->first < y->first);
}

static orr_status add_rows(orr_analysis_run *f, const orr_view *view, group *groups, size_t n)
{
    qsort(groups, n, sizeof *groups, most_often_first);
    const size_t top = f->options.sequence_top;
    for (size_t i = 0; i < n && (top == 0 || i < top); i++) {
        orr_sequence *row = orr_analysis_add_row(f);
        if (row == NULL)
            return orr_fail_memory(f->err);
        row->rank = view->rank;
        row->pattern = orr_attributed_text(view->graph, groups[i].first, true, "|", f->arena);
        row->count = groups[i].count;
        row->kernel_ns = groups[i].kernel_ns;
        row->op_ns = groups[i].op_ns;
        if (row->pattern == NULL)
            return orr_fail_memory(f->err);
    }
    return ORR_OK;
}

static orr_status sequences_of_rank(orr_analysis_run *f, const orr_view *view)
{
    const orr_graph *g = view->graph;
    orr_work_list work;
    const orr_node_id *root_of = NULL;
    const orr_attributed_work *roots;
    size_t n = 0, n_groups = 0;
    if (view->host_only)
        return ORR_OK;
    name_filter names = {.graph = g,
                         .wanted = f->options.operator_name,
                         .known = orr_arena_array(f->scratch, uint8_t, g->n_strings)};
    if (names.known == NULL)
        return orr_fail_memory(f->err);
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    ORR_TRY(find_roots(f, &names, &root_of));
    ORR_TRY(orr_attribute_work(view, &work, ORR_CLASS_ANY, root_of, ORR_ATTRIBUTED_BY_START,
                               f->scratch, &roots, &n, f->err));
    group *groups = orr_arena_array(f->scratch, group, n);
    if (groups == NULL)
        return orr_fail_memory(f->err);
    ORR_TRY(group_roots(f, g, roots, n, groups, &n_groups));
    return add_rows(f, view, groups, n_groups);
}

orr_status orr_analyze_sequences(const orr_job *job, const orr_analysis_options *options,
                                 orr_arena *arena, const orr_sequence **ret_rows, size_t *ret_n,
                                 orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_sequence), sequences_of_rank, (const void **)ret_rows,
                             ret_n);
}
