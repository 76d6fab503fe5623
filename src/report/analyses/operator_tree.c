/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/common.h"
#include "base/array.h"
#include "base/strtab.h"

/* The call tree of operators: instances with the same path of operators and annotations above them
 * are one row, whatever their thread. Annotations of steps are no part of a path; they are counted,
 * so that rows have means per step. Device work is under the operator whose call launched it. */
enum { NO_ENTRY = 0 };

typedef struct operator_tree_row {
    uint32_t rank, depth;
    const char *path; /* names from the root, as flame graphs collapse them: "a;b;c" */
    const char *op;   /* the last of them */
    uint64_t count;
    double count_per_step; /* 0: no step was recorded */
    int64_t host_total_ns, host_self_ns;
    uint64_t kernels; /* device work launched below */
    int64_t kernel_total_ns,
        kernel_self_ns; /* of it; self: launched by no operator further below */
    double host_per_step_ns, kernel_per_step_ns;
} operator_tree_row;

#define C(field, type) ORR_COL_(operator_tree_row, field, type)
static const orr_column columns_operator_tree[] = {
    C(rank, U32),
    C(depth, U32),
    C(path, TEXT),
    C(op, TEXT),
    C(count, U64),
    C(count_per_step, NUMBER),
    C(host_total_ns, NS),
    C(host_self_ns, NS),
    C(kernels, U64),
    C(kernel_total_ns, NS),
    C(kernel_self_ns, NS),
    C(host_per_step_ns, NS_MEAN),
    C(kernel_per_step_ns, NS_MEAN),
};
#undef C

/* A path. Parents have lower numbers than their children. */
typedef struct entry {
    uint32_t up, depth;
    const char *name;
    uint64_t count, kernels;
    int64_t total_ns, nested_ns; /* nested: of operators directly below */
    int64_t kernel_self_ns, kernel_ns;
    uint32_t first_child, next; /* by time; of the tree in the order of its rows */
} entry;

typedef struct tree {
    const orr_view *view;
    orr_strtab *paths; /* (number of the path above, name), numbered from 1 */
    orr_array(entry) entries;
    uint32_t *entry_of; /* shape (N): the path of a host node, or that above it */
} tree;

static bool is_operator(const orr_graph *g, orr_node_id v)
{
    const uint8_t kind = g->kind[v];
    return g->start_ns[v] != ORR_TIME_NONE && g->lanes[g->lane[v]].kind == ORR_LANE_HOST &&
           (kind == ORR_NODE_HOST_OP || kind == ORR_NODE_ANNOTATION ||
            kind == ORR_NODE_COLLECTIVE || kind == ORR_NODE_SEND || kind == ORR_NODE_RECV);
}

/* The entry of an operator below another. UINT32_MAX: out of memory. */
static uint32_t entry_below(tree *t, uint32_t up, orr_str name)
{
    const uint32_t text[2] = {up, name};
    const uint32_t id = orr_strtab_add(t->paths, (const char *)text, sizeof text);
    const entry e = {.up = up,
                     .depth = up == NO_ENTRY ? 0 : t->entries.at[up].depth + 1,
                     .name = orr_graph_str(t->view->graph, name)};
    return id != UINT32_MAX && id == t->entries.n && !orr_array_push(&t->entries, e) ? UINT32_MAX
                                                                                     : id;
}

/* Parents come before what is nested in them in the order of a lane. */
static orr_status add_operators(tree *t, const bool *is_step, orr_error *err)
{
    const orr_graph *g = t->view->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const orr_node_id v = g->lane_node[i];
        const uint32_t up = g->parent[v] == ORR_NONE ? NO_ENTRY : t->entry_of[g->parent[v]];
        t->entry_of[v] = up;
        if (!is_operator(g, v) || is_step[v] || !orr_view_holds(t->view, v))
            continue;
        const uint32_t id = entry_below(t, up, g->name[v]);
        if (id == UINT32_MAX)
            return orr_fail_memory(err);
        entry *e = &t->entries.at[id];
        t->entry_of[v] = id;
        e->count++;
        e->total_ns = orr_saturating_sum(e->total_ns, g->duration_ns[v]);
        t->entries.at[up].nested_ns =
            orr_saturating_sum(t->entries.at[up].nested_ns, g->duration_ns[v]);
    }
    return ORR_OK;
}

static orr_status add_kernels(tree *t, orr_arena *scratch, orr_error *err)
{
    const orr_graph *g = t->view->graph;
    orr_work_list work;
    if (t->view->host_only)
        return ORR_OK;
    ORR_TRY(orr_view_work(t->view, scratch, &work, err));
    for (size_t i = 0; i < work.n; i++) {
        const orr_node_id v = work.node[i], call = orr_launch_of(g, v);
        entry *e = &t->entries.at[call == ORR_NONE ? NO_ENTRY : t->entry_of[call]];
        e->kernels++;
        e->kernel_self_ns = orr_saturating_sum(e->kernel_self_ns, g->duration_ns[v]);
    }
    for (uint32_t i = (uint32_t)t->entries.n; i-- > 1;) {
        entry *e = &t->entries.at[i], *up = &t->entries.at[e->up];
        e->kernel_ns = orr_saturating_sum(e->kernel_ns, e->kernel_self_ns);
        up->kernel_ns = orr_saturating_sum(up->kernel_ns, e->kernel_ns);
        up->kernels += e->kernels;
    }
    return ORR_OK;
}

/* Least first, since children are put in front of one another. */
static int by_time(const void *a_, const void *b_)
{
    const entry *const *a = a_, *const *b = b_;
    const int64_t x = orr_saturating_sum((*a)->total_ns, (*a)->kernel_ns);
    const int64_t y = orr_saturating_sum((*b)->total_ns, (*b)->kernel_ns);
    if (x != y)
        return x < y ? -1 : 1;
    return -strcmp((*a)->name, (*b)->name);
}

static orr_status order_children(tree *t, orr_arena *scratch, orr_error *err)
{
    const size_t n = t->entries.n;
    entry **sorted = orr_arena_array(scratch, entry *, n);
    if (sorted == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &t->entries.at[i];
    qsort(sorted + 1, n - 1, sizeof *sorted, by_time);
    for (size_t i = 1; i < n; i++) {
        entry *up = &t->entries.at[sorted[i]->up];
        sorted[i]->next = up->first_child;
        up->first_child = (uint32_t)(sorted[i] - t->entries.at);
    }
    return ORR_OK;
}

/* "a;b" and "c" as "a;b;c". */
static const char *join(const char *above, const char *name, orr_arena *arena)
{
    const size_t n = strlen(above), more = strlen(name);
    char *path = orr_arena_array(arena, char, n + more + 2);
    if (path == NULL)
        return NULL;
    memcpy(path, above, n);
    if (n > 0)
        path[n] = ';';
    memcpy(path + n + (n > 0), name, more + 1);
    return path;
}

/* The next path in depth-first order; NO_ENTRY: it was the last. */
static uint32_t next_path(const tree *t, uint32_t i)
{
    const entry *at = t->entries.at;
    if (at[i].first_child != NO_ENTRY)
        return at[i].first_child;
    while (i != NO_ENTRY && at[i].next == NO_ENTRY)
        i = at[i].up;
    return i == NO_ENTRY ? NO_ENTRY : at[i].next;
}

/* Rows in depth-first order, most time first among siblings. */
static orr_status add_rows(orr_analysis_run *f, const tree *t, size_t n_steps)
{
    const char **path = orr_arena_array(f->scratch, const char *, t->entries.n);
    const double share = n_steps > 0 ? 1 / (double)n_steps : 0;
    if (path == NULL)
        return orr_fail_memory(f->err);
    path[NO_ENTRY] = "";
    for (uint32_t i = next_path(t, NO_ENTRY); i != NO_ENTRY; i = next_path(t, i)) {
        const entry *e = &t->entries.at[i];
        operator_tree_row *row = orr_analysis_add_row(f);
        path[i] = join(path[e->up], e->name, f->arena);
        if (row == NULL || path[i] == NULL)
            return orr_fail_memory(f->err);
        *row = (operator_tree_row){.rank = t->view->rank,
                                   .depth = e->depth,
                                   .path = path[i],
                                   .op = e->name,
                                   .count = e->count,
                                   .count_per_step = (double)e->count * share,
                                   .host_total_ns = e->total_ns,
                                   .host_self_ns =
                                       e->nested_ns < e->total_ns ? e->total_ns - e->nested_ns : 0,
                                   .kernels = e->kernels,
                                   .kernel_total_ns = e->kernel_ns,
                                   .kernel_self_ns = e->kernel_self_ns,
                                   .host_per_step_ns = (double)e->total_ns * share,
                                   .kernel_per_step_ns = (double)e->kernel_ns * share};
    }
    return ORR_OK;
}

/* Which nodes are annotations of steps, and how many of them are in the window. */
static orr_status mark_steps(const orr_analysis_run *f, const orr_view *view, bool *is_step,
                             size_t *ret_n)
{
    const orr_instance *steps;
    size_t n;
    *ret_n = 0;
    ORR_TRY(orr_find_instances(view->graph, f->options.annotation, f->scratch, &steps, &n, f->err));
    for (size_t i = 0; i < n; i++) {
        is_step[steps[i].node] = true;
        *ret_n += orr_view_holds(view, steps[i].node);
    }
    return ORR_OK;
}

static orr_status tree_of_rank(orr_analysis_run *f, const orr_view *view)
{
    const uint32_t n = view->graph->n_nodes;
    tree t = {.view = view, .paths = orr_strtab_new()};
    bool *is_step = orr_arena_array(f->scratch, bool, n);
    size_t n_steps;
    orr_status status = ORR_OK;
    t.entry_of = orr_arena_array(f->scratch, uint32_t, n);
    if (t.paths == NULL || is_step == NULL || t.entry_of == NULL ||
        !orr_array_push(&t.entries, ((entry){.name = ""}))) {
        status = orr_fail_memory(f->err);
        goto out;
    }
    ORR_TRY_OUT(status, mark_steps(f, view, is_step, &n_steps));
    ORR_TRY_OUT(status, add_operators(&t, is_step, f->err));
    ORR_TRY_OUT(status, add_kernels(&t, f->scratch, f->err));
    ORR_TRY_OUT(status, order_children(&t, f->scratch, f->err));
    status = add_rows(f, &t, n_steps);
out:
    orr_array_done(&t.entries);
    orr_strtab_free(t.paths);
    return status;
}

static orr_status find_tree(const orr_job *job, const orr_analysis_options *options,
                            orr_arena *arena, const operator_tree_row **ret_rows, size_t *ret_n,
                            orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(operator_tree_row), tree_of_rank, (const void **)ret_rows,
                             ret_n);
}
ORR_RUN_(operator_tree, operator_tree_row, find_tree,
         "Operators by call path: time of the host and of the kernels below")
