/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analysis/common.h"

/* A copy of some kind starts (value > 0) or ends (value < 0). */
typedef struct point {
    const char *kind;
    size_t kind_len;
    int64_t at_ns;
    double bytes_per_s;
    orr_node_id copy;
} point;

/* "Memcpy DtoD" of "Memcpy DtoD (Device -> Device)". */
static size_t kind_len(const char *name)
{
    const char *end = strstr(name, " (");
    return end == NULL ? strlen(name) : (size_t)(end - name);
}

static double bandwidth_of(const orr_graph *g, orr_node_id v)
{
    const orr_copy *copy = orr_graph_copy(g, v);
    if (copy == NULL)
        return 0;
    if (copy->bandwidth_bytes_per_s > 0)
        return copy->bandwidth_bytes_per_s;
    return g->duration_ns[v] > 0 ? (double)copy->bytes * 1e9 / (double)g->duration_ns[v] : 0;
}

static int compare_kinds(const point *x, const point *y)
{
    const size_t len = x->kind_len < y->kind_len ? x->kind_len : y->kind_len;
    const int by_text = memcmp(x->kind, y->kind, len);
    if (by_text != 0)
        return by_text;
    return (x->kind_len > y->kind_len) - (x->kind_len < y->kind_len);
}

/* By kind, then time; what ends makes room for what starts at that moment. */
static int in_order(const void *a, const void *b)
{
    const point *x = a, *y = b;
    const int by_kind = compare_kinds(x, y);
    if (by_kind != 0)
        return by_kind;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    if ((x->bytes_per_s < 0) != (y->bytes_per_s < 0))
        return x->bytes_per_s < 0 ? -1 : 1;
    return (x->copy > y->copy) - (x->copy < y->copy);
}

static orr_status gather(orr_analysis_run *f, const orr_view *view, point **ret, size_t *ret_n)
{
    const orr_graph *g = view->graph;
    orr_work_list work;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    size_t n = 0;
    for (size_t i = 0; i < work.n; i++)
        n += work.class[i] == ORR_CLASS_MEMORY;
    point *points = orr_arena_array(f->scratch, point, 2 * n);
    if (points == NULL)
        return orr_fail_memory(f->err);
    n = 0;
    for (size_t i = 0; i < work.n; i++) {
        const orr_node_id v = work.node[i];
        const double bytes_per_s = work.class[i] == ORR_CLASS_MEMORY ? bandwidth_of(g, v) : 0;
        if (bytes_per_s <= 0)
            continue;
        const char *name = orr_graph_str(g, g->name[v]);
        /* a copy too short for the clock still ends after it starts */
        const int64_t duration_ns = g->duration_ns[v] > 0 ? g->duration_ns[v] : 1;
        points[n++] = (point){name, kind_len(name), g->start_ns[v], bytes_per_s, v};
        points[n++] = (point){name, kind_len(name), g->start_ns[v] + duration_ns, -bytes_per_s, v};
    }
    qsort(points, n, sizeof *points, in_order);
    *ret = points;
    *ret_n = n;
    return ORR_OK;
}

/* All points of one kind: each becomes the bandwidth of all copies that run after it. */
static size_t sum_up(point *points, size_t n)
{
    size_t i = 0, running = 0;
    double sum = 0;
    for (; i < n && compare_kinds(&points[i], &points[0]) == 0; i++) {
        if (points[i].bytes_per_s > 0)
            running++;
        else
            running--;
        sum = running == 0 ? 0 : sum + points[i].bytes_per_s;
        points[i].bytes_per_s = sum;
    }
    return i;
}

static orr_status series_of_rank(orr_analysis_run *f, const orr_view *view)
{
    point *points;
    size_t n;
    ORR_TRY(gather(f, view, &points, &n));
    for (size_t i = 0; i < n;) {
        const char *kind = orr_arena_strndup(f->arena, points[i].kind, points[i].kind_len);
        if (kind == NULL)
            return orr_fail_memory(f->err);
        for (const size_t end = i + sum_up(points + i, n - i); i < end; i++) {
            orr_series_sample *row = orr_analysis_add_row(f);
            if (row == NULL)
                return orr_fail_memory(f->err);
            row->rank = view->rank;
            row->series = kind;
            row->at_ns = orr_view_job_ns(view, points[i].at_ns);
            row->value = points[i].bytes_per_s;
        }
    }
    return ORR_OK;
}

static orr_status distribution_of_rank(orr_analysis_run *f, const orr_view *view)
{
    point *points;
    size_t n;
    ORR_TRY(gather(f, view, &points, &n));
    double *values = orr_arena_array(f->scratch, double, n);
    if (values == NULL)
        return orr_fail_memory(f->err);
    for (size_t i = 0; i < n;) {
        const char *kind = orr_arena_strndup(f->arena, points[i].kind, points[i].kind_len);
        orr_distribution *row = orr_analysis_add_row(f);
        if (kind == NULL || row == NULL)
            return orr_fail_memory(f->err);
        size_t n_values = 0;
        for (const size_t end = i + sum_up(points + i, n - i); i < end; i++)
            if (points[i].bytes_per_s > 0) /* while nothing is copied there is no bandwidth */
                values[n_values++] = points[i].bytes_per_s;
        orr_describe(values, n_values, row);
        row->rank = view->rank;
        row->series = kind;
    }
    return ORR_OK;
}

orr_status orr_analyze_memory_bandwidth_series(const orr_job *job,
                                               const orr_analysis_options *options,
                                               orr_arena *arena, const orr_series_sample **ret_rows,
                                               size_t *ret_n, orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_series_sample), series_of_rank, (const void **)ret_rows,
                             ret_n);
}

orr_status orr_analyze_memory_bandwidth(const orr_job *job, const orr_analysis_options *options,
                                        orr_arena *arena, const orr_distribution **ret_rows,
                                        size_t *ret_n, orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_distribution), distribution_of_rank,
                             (const void **)ret_rows, ret_n);
}
