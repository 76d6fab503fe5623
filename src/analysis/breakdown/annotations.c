/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analysis/common.h"

/* All instances of one name, on the host or on the device. */
typedef struct group {
    const char *name;
    bool on_device;
    orr_stat stat;
    int64_t kernel_ns;
} group;

static bool is_annotation(const orr_graph *g, orr_node_id v)
{
    return g->start_ns[v] != ORR_TIME_NONE &&
           (g->kind[v] == ORR_NODE_ANNOTATION || g->kind[v] == ORR_NODE_DEVICE_ANNOTATION);
}

/* A device annotation is in the window when it starts in it: nothing launches it. */
static bool holds(const orr_view *view, orr_node_id v)
{
    const int64_t start_ns = view->graph->start_ns[v];
    return !view->windowed || (start_ns >= view->from_ns && start_ns < view->to_ns);
}

/* Groups by kind and name, and the group of each node; ORR_NONE where it has none. */
static orr_status group_annotations(orr_analysis_run *f, const orr_view *view, group **ret,
                                    size_t *ret_n, uint32_t **ret_group_of)
{
    const orr_graph *g = view->graph;
    size_t n = 0, n_groups = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        n += is_annotation(g, v);
    orr_keyed *items = orr_arena_array(f->scratch, orr_keyed, n);
    group *groups = orr_arena_array(f->scratch, group, n);
    uint32_t *group_of = orr_arena_array(f->scratch, uint32_t, g->n_nodes);
    if (items == NULL || groups == NULL || group_of == NULL)
        return orr_fail_memory(f->err);
    n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        group_of[v] = ORR_NONE;
        if (is_annotation(g, v) && holds(view, v))
            items[n++] = (orr_keyed){.key = (int64_t)g->kind[v] << 32 | g->name[v], .id = v};
    }
    ORR_TRY(orr_sort_keyed(items, n, f->scratch, f->err));
    for (size_t i = 0; i < n; i++) {
        const orr_node_id v = items[i].id;
        if (i == 0 || items[i].key != items[i - 1].key)
            groups[n_groups++] = (group){.name = orr_graph_str(g, g->name[v]),
                                         .on_device = g->kind[v] == ORR_NODE_DEVICE_ANNOTATION};
        group_of[v] = (uint32_t)(n_groups - 1);
        orr_stat_add(&groups[n_groups - 1].stat, g->duration_ns[v]);
    }
    *ret = groups;
    *ret_n = n_groups;
    *ret_group_of = group_of;
    return ORR_OK;
}

/* Threads that carry no annotation of their own (autograd) work for the thread that waits
 * for them: give each such call the annotation that started last and runs at that moment.
 * Calls and annotations are walked together in order of time. */
static orr_status annotate_by_time(orr_analysis_run *f, const orr_graph *g, const orr_keyed *calls,
                                   size_t n_calls, orr_node_id *annotation_of)
{
    size_t n = 0, depth = 0, next = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        n += g->kind[v] == ORR_NODE_ANNOTATION;
    orr_keyed *starts = orr_arena_array(f->scratch, orr_keyed, n);
    orr_node_id *open = orr_arena_array(f->scratch, orr_node_id, n);
    if (starts == NULL || open == NULL)
        return orr_fail_memory(f->err);
    n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (g->kind[v] == ORR_NODE_ANNOTATION && g->start_ns[v] != ORR_TIME_NONE)
            starts[n++] = (orr_keyed){.key = g->start_ns[v], .id = v};
    ORR_TRY(orr_sort_keyed(starts, n, f->scratch, f->err));
    for (size_t i = 0; i < n_calls; i++) {
        while (next < n && starts[next].key <= calls[i].key)
            open[depth++] = starts[next++].id;
        while (depth > 0 && orr_end_ns(g, open[depth - 1]) <= calls[i].key)
            depth--;
        if (annotation_of[calls[i].id] == ORR_NONE && depth > 0)
            annotation_of[calls[i].id] = open[depth - 1];
    }
    return ORR_OK;
}

/* The annotation of each call that launched work. */
static orr_status find_annotations(orr_analysis_run *f, const orr_view *view,
                                   const orr_work_list *work, const orr_node_id **ret)
{
    const orr_graph *g = view->graph;
    const orr_node_id *above;
    ORR_TRY(orr_nearest_ancestor(g, ORR_KIND(ANNOTATION), f->scratch, &above, f->err));
    orr_node_id *annotation_of = orr_arena_array(f->scratch, orr_node_id, g->n_nodes);
    orr_keyed *calls = orr_arena_array(f->scratch, orr_keyed, work->n);
    if (annotation_of == NULL || calls == NULL)
        return orr_fail_memory(f->err);
    memcpy(annotation_of, above, g->n_nodes * sizeof *annotation_of);
    size_t n = 0;
    for (size_t i = 0; i < work->n; i++) {
        const orr_node_id call = view->host_only ? work->node[i] : orr_launch_of(g, work->node[i]);
        if (call != ORR_NONE)
            calls[n++] = (orr_keyed){.key = g->start_ns[call], .id = call};
    }
    ORR_TRY(orr_sort_keyed(calls, n, f->scratch, f->err));
    ORR_TRY(annotate_by_time(f, g, calls, n, annotation_of));
    *ret = annotation_of;
    return ORR_OK;
}

static orr_status add_kernel_time(orr_analysis_run *f, const orr_view *view, group *groups,
                                  const uint32_t *group_of)
{
    const orr_graph *g = view->graph;
    const orr_node_id *annotation_of = NULL;
    orr_work_list work;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    ORR_TRY(find_annotations(f, view, &work, &annotation_of));
    for (size_t i = 0; i < work.n; i++) {
        const orr_node_id v = work.node[i];
        const orr_node_id call = view->host_only ? v : orr_launch_of(g, v);
        const orr_node_id annotation = call == ORR_NONE ? ORR_NONE : annotation_of[call];
        if (annotation == ORR_NONE || group_of[annotation] == ORR_NONE)
            continue;
        group *into = &groups[group_of[annotation]];
        into->kernel_ns = orr_saturating_sum(into->kernel_ns, g->duration_ns[v]);
    }
    return ORR_OK;
}

/* Host before device, then most time first. */
static int most_first(const void *a, const void *b)
{
    const group *x = a, *y = b;
    if (x->on_device != y->on_device)
        return x->on_device ? 1 : -1;
    if (x->stat.sum != y->stat.sum)
        return x->stat.sum < y->stat.sum ? 1 : -1;
    return strcmp(x->name, y->name);
}

static orr_status annotations_of_rank(orr_analysis_run *f, const orr_view *view)
{
    group *groups = NULL;
    size_t n = 0;
    uint32_t *group_of = NULL;
    ORR_TRY(group_annotations(f, view, &groups, &n, &group_of));
    if (n == 0)
        return ORR_OK;
    ORR_TRY(add_kernel_time(f, view, groups, group_of));
    qsort(groups, n, sizeof *groups, most_first);
    for (size_t i = 0; i < n; i++) {
        orr_annotation *row = orr_analysis_add_row(f);
        if (row == NULL)
            return orr_fail_memory(f->err);
        *row = (orr_annotation){.rank = view->rank,
                                .name = groups[i].name,
                                .on_device = groups[i].on_device,
                                .count = groups[i].stat.count,
                                .sum_ns = groups[i].stat.sum,
                                .max_ns = groups[i].stat.max,
                                .min_ns = groups[i].stat.min,
                                .mean_ns = groups[i].stat.mean,
                                .stddev_ns = orr_stat_stddev(&groups[i].stat),
                                .kernel_ns = groups[i].kernel_ns};
    }
    return ORR_OK;
}

orr_status orr_analyze_annotations(const orr_job *job, const orr_analysis_options *options,
                                   orr_arena *arena, const orr_annotation **ret_rows, size_t *ret_n,
                                   orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_annotation), annotations_of_rank, (const void **)ret_rows,
                             ret_n);
}
