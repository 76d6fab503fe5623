/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/common.h"
#include "base/array.h"
#include "graph/device_work.h"

orr_node_id orr_launch_of(const orr_graph *g, orr_node_id work)
{
    for (uint32_t i = g->dep_first[work]; i < g->dep_first[work + 1]; i++)
        if (g->dep_kind[i] == ORR_DEP_LAUNCH)
            return g->dep[i];
    return ORR_NONE;
}

bool orr_view_holds(const orr_view *view, orr_node_id node)
{
    if (!view->windowed)
        return true;
    const orr_graph *g = view->graph;
    if (g->lanes[g->lane[node]].kind == ORR_LANE_STREAM)
        node = orr_launch_of(g, node);
    return node != ORR_NONE && g->start_ns[node] != ORR_TIME_NONE &&
           g->start_ns[node] >= view->from_ns && g->start_ns[node] < view->to_ns;
}

/* "ProfilerStep#12" is an instance of "ProfilerStep", "ProfilerSteps" is not. */
static bool is_instance(const char *name, const char *annotation, size_t len)
{
    if (strncmp(name, annotation, len) != 0)
        return false;
    return !isalnum((unsigned char)name[len]) && name[len] != '_';
}

static int32_t number_of(const char *name)
{
    const char *hash = strchr(name, '#');
    if (hash == NULL)
        return -1;
    char *end;
    const long number = strtol(hash + 1, &end, 10);
    return end == hash + 1 || number < 0 || number > INT32_MAX ? -1 : (int32_t)number;
}

static orr_status instances_of_kind(const orr_graph *g, const char *annotation, orr_node_kind kind,
                                    orr_arena *arena, orr_keyed **ret, size_t *ret_n,
                                    orr_error *err)
{
    const size_t len = strlen(annotation);
    orr_array(orr_keyed) found = {0};
    orr_keyed *items = NULL;
    bool ok = true;
    for (orr_node_id v = 0; v < g->n_nodes && ok; v++)
        if (g->kind[v] == kind && g->start_ns[v] != ORR_TIME_NONE &&
            is_instance(orr_graph_str(g, g->name[v]), annotation, len))
            ok = orr_array_push(&found, ((orr_keyed){.key = g->start_ns[v], .id = v}));
    if (ok)
        items = orr_arena_array(arena, orr_keyed, found.n);
    if (items != NULL && found.n > 0)
        memcpy(items, found.at, found.n * sizeof *items);
    *ret = items;
    *ret_n = found.n;
    orr_array_done(&found);
    return items == NULL ? orr_fail_memory(err) : ORR_OK;
}

orr_status orr_find_instances(const orr_graph *g, const char *annotation, orr_arena *arena,
                              const orr_instance **ret, size_t *ret_n, orr_error *err)
{
    orr_keyed *found;
    size_t n;
    ORR_TRY(instances_of_kind(g, annotation, ORR_NODE_ANNOTATION, arena, &found, &n, err));
    if (n == 0) /* recordings of 2020 show steps as operators */
        ORR_TRY(instances_of_kind(g, annotation, ORR_NODE_HOST_OP, arena, &found, &n, err));
    ORR_TRY(orr_sort_keyed(found, n, arena, err));

    orr_instance *instances = orr_arena_array(arena, orr_instance, n);
    if (instances == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        const orr_node_id v = found[i].id;
        instances[i] = (orr_instance){.node = v,
                                      .number = number_of(orr_graph_str(g, g->name[v])),
                                      .from_ns = g->start_ns[v],
                                      .to_ns = orr_end_ns(g, v)};
    }
    *ret = instances;
    *ret_n = n;
    return ORR_OK;
}

/* Set the window; *ret_empty when the rank has no such step. */
static orr_status set_window(orr_view *view, const orr_analysis_options *options, orr_arena *arena,
                             bool *ret_empty, orr_error *err)
{
    const int32_t first = options->step_first, last = options->step_last;
    view->from_ns = INT64_MIN;
    view->to_ns = INT64_MAX;
    view->windowed = first >= 0 || last >= 0;
    *ret_empty = false;
    if (!view->windowed)
        return ORR_OK;
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    const orr_instance *steps;
    size_t n;
    ORR_TRY(orr_find_instances(view->graph, options->annotation, arena, &steps, &n, err));
    if (first >= 0 && (size_t)first < n)
        view->from_ns = steps[first].from_ns;
    if (last >= 0 && (size_t)last < n)
        view->to_ns = steps[last].to_ns;
    *ret_empty = n == 0 || (first >= 0 && (size_t)first >= n);
    orr_arena_rewind(arena, mark);
    return ORR_OK;
}

orr_status orr_find_views(const orr_job *job, const orr_analysis_options *complete,
                          orr_arena *arena, const orr_view **ret, size_t *ret_n, orr_error *err)
{
    orr_view *views = orr_arena_array(arena, orr_view, job->n_ranks);
    if (views == NULL)
        return orr_fail_memory(err);
    size_t n = 0;
    for (uint32_t rank = 0; rank < job->n_ranks; rank++) {
        const uint32_t graph = job->graph_of_rank[rank];
        if (graph == ORR_NONE || (complete->rank != ORR_NONE && complete->rank != rank))
            continue;
        views[n] =
            (orr_view){.job = job, .graph = job->graphs[graph], .graph_id = graph, .rank = rank};
        views[n].host_only = !orr_graph_has_device_work(views[n].graph);
        bool empty;
        ORR_TRY(set_window(&views[n], complete, arena, &empty, err));
        if (!empty)
            n++;
    }
    *ret = views;
    *ret_n = n;
    return ORR_OK;
}
