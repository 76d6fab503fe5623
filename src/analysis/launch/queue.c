/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/common.h"

/* One launch waiting on a stream: from the call to the start of the first work that it
 * launched there (a graph is one launch of many kernels). */
typedef struct launch {
    int64_t enqueued_ns, started_ns;
} launch;

/* Queue length of one stream over time; length[i] holds from at_ns[i] to at_ns[i + 1]. */
typedef struct series {
    const char *stream;
    const int64_t *at_ns;  /* shape (n), n > 0 */
    const int64_t *length; /* shape (n) */
    size_t n;
} series;
typedef orr_status (*series_visitor)(orr_analysis_run *f, const orr_view *view, const series *s);

/* Work that has a launch, by stream and call, then start. */
static orr_status by_stream_and_call(orr_analysis_run *f, const orr_view *view,
                                     const orr_work_list *work, orr_keyed **ret, size_t *ret_n)
{
    const orr_graph *g = view->graph;
    orr_keyed *items = orr_arena_array(f->scratch, orr_keyed, work->n);
    if (items == NULL)
        return orr_fail_memory(f->err);
    size_t n = 0;
    for (size_t i = 0; i < work->n; i++) {
        const orr_node_id call = orr_launch_of(g, work->node[i]);
        if (call == ORR_NONE)
            continue;
        const int64_t key = (int64_t)g->lane[work->node[i]] << 32 | (int64_t)call;
        items[n++] = (orr_keyed){.key = key, .id = (uint32_t)i};
    }
    *ret = items;
    *ret_n = n;
    return orr_sort_keyed(items, n, f->scratch, f->err);
}

static orr_status build_series(orr_analysis_run *f, const launch *launches, size_t n, series *ret)
{
    orr_keyed *points = orr_arena_array(f->scratch, orr_keyed, 2 * n);
    int64_t *at_ns = orr_arena_array(f->scratch, int64_t, 2 * n);
    int64_t *length = orr_arena_array(f->scratch, int64_t, 2 * n);
    if (points == NULL || at_ns == NULL || length == NULL)
        return orr_fail_memory(f->err);
    for (size_t i = 0; i < n; i++) { /* ids below n enqueue: first where times are equal */
        points[i] = (orr_keyed){.key = launches[i].enqueued_ns, .id = (uint32_t)i};
        points[n + i] = (orr_keyed){.key = launches[i].started_ns, .id = (uint32_t)(n + i)};
    }
    ORR_TRY(orr_sort_keyed(points, 2 * n, f->scratch, f->err));
    for (size_t i = 0; i < 2 * n; i++) {
        at_ns[i] = points[i].key;
        length[i] = (i == 0 ? 0 : length[i - 1]) + (points[i].id < n ? 1 : -1);
    }
    ret->at_ns = at_ns;
    ret->length = length;
    ret->n = 2 * n;
    return ORR_OK;
}

static orr_status visit_streams(orr_analysis_run *f, const orr_view *view, series_visitor visit)
{
    const orr_graph *g = view->graph;
    orr_work_list work;
    orr_keyed *items = NULL;
    size_t n = 0;
    const char *const *labels;
    if (view->host_only)
        return ORR_OK;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    ORR_TRY(by_stream_and_call(f, view, &work, &items, &n));
    ORR_TRY(orr_lane_labels(g, f->arena, &labels, f->err));
    launch *launches = orr_arena_array(f->scratch, launch, n);
    if (launches == NULL)
        return orr_fail_memory(f->err);
    for (size_t i = 0; i < n;) {
        const int64_t lane = items[i].key >> 32;
        size_t n_launches = 0;
        for (int64_t last = -1; i < n && items[i].key >> 32 == lane; last = items[i++].key)
            if (items[i].key != last) {
                const orr_node_id v = work.node[items[i].id];
                launches[n_launches++] = (launch){g->start_ns[orr_launch_of(g, v)], g->start_ns[v]};
            }
        const orr_arena_mark mark = orr_arena_get_mark(f->scratch);
        series s = {.stream = labels[lane]};
        ORR_TRY(build_series(f, launches, n_launches, &s));
        ORR_TRY(visit(f, view, &s));
        orr_arena_rewind(f->scratch, mark);
    }
    return ORR_OK;
}

static orr_status add_samples(orr_analysis_run *f, const orr_view *view, const series *s)
{
    for (size_t i = 0; i < s->n; i++) {
        orr_series_sample *row = orr_analysis_add_row(f);
        if (row == NULL)
            return orr_fail_memory(f->err);
        row->rank = view->rank;
        row->series = s->stream;
        row->at_ns = orr_view_job_ns(view, s->at_ns[i]);
        row->value = (double)s->length[i];
    }
    return ORR_OK;
}

static orr_status add_distribution(orr_analysis_run *f, const orr_view *view, const series *s)
{
    double *values = orr_arena_array(f->scratch, double, s->n);
    orr_distribution *row = orr_analysis_add_row(f);
    if (values == NULL || row == NULL)
        return orr_fail_memory(f->err);
    for (size_t i = 0; i < s->n; i++)
        values[i] = (double)s->length[i];
    orr_describe(values, s->n, row);
    row->rank = view->rank;
    row->series = s->stream;
    return ORR_OK;
}

static orr_status add_blocked(orr_analysis_run *f, const orr_view *view, const series *s)
{
    orr_blocked *row = orr_analysis_add_row(f);
    if (row == NULL)
        return orr_fail_memory(f->err);
    row->rank = view->rank;
    row->stream = s->stream;
    for (size_t i = 0; i + 1 < s->n; i++)
        if (s->length[i] >= (int64_t)f->options.queue_length_max)
            row->blocked_ns += s->at_ns[i + 1] - s->at_ns[i];
    row->frac = orr_frac((double)row->blocked_ns, (double)(s->at_ns[s->n - 1] - s->at_ns[0]));
    return ORR_OK;
}

static orr_status series_of_rank(orr_analysis_run *f, const orr_view *view)
{
    return visit_streams(f, view, add_samples);
}

static orr_status distribution_of_rank(orr_analysis_run *f, const orr_view *view)
{
    return visit_streams(f, view, add_distribution);
}

static orr_status blocked_of_rank(orr_analysis_run *f, const orr_view *view)
{
    return visit_streams(f, view, add_blocked);
}

orr_status orr_analyze_queue_length_series(const orr_job *job, const orr_analysis_options *options,
                                           orr_arena *arena, const orr_series_sample **ret_rows,
                                           size_t *ret_n, orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_series_sample), series_of_rank, (const void **)ret_rows,
                             ret_n);
}

orr_status orr_analyze_queue_length(const orr_job *job, const orr_analysis_options *options,
                                    orr_arena *arena, const orr_distribution **ret_rows,
                                    size_t *ret_n, orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_distribution), distribution_of_rank,
                             (const void **)ret_rows, ret_n);
}

orr_status orr_analyze_queue_blocked(const orr_job *job, const orr_analysis_options *options,
                                     orr_arena *arena, const orr_blocked **ret_rows, size_t *ret_n,
                                     orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err}, sizeof(orr_blocked),
                             blocked_of_rank, (const void **)ret_rows, ret_n);
}
