/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/common.h"

typedef enum cause { HOST_WAIT, KERNEL_WAIT, OTHER, CAUSES } cause;
static const char *const CAUSE_NAMES[CAUSES] = {"host_wait", "kernel_wait", "other"};

/* One stream, as far as it was walked. */
typedef struct stream {
    bool used;
    int64_t end_ns; /* of all work so far */
    int64_t idle_ns[CAUSES];
} stream;

static cause cause_of(const orr_graph *g, orr_node_id work, int64_t previous_end_ns,
                      int64_t kernel_wait_ns)
{
    const orr_node_id call = orr_launch_of(g, work);
    if (call != ORR_NONE && g->start_ns[call] > previous_end_ns)
        return HOST_WAIT;
    return g->start_ns[work] - previous_end_ns < kernel_wait_ns ? KERNEL_WAIT : OTHER;
}

static void walk(orr_analysis_run *f, const orr_view *view, const orr_work_list *work,
                 stream *streams)
{
    const orr_graph *g = view->graph;
    for (size_t i = 0; i < work->n; i++) {
        const orr_node_id v = work->node[i];
        stream *s = &streams[g->lane[v]];
        const int64_t gap_ns = g->start_ns[v] - s->end_ns, end_ns = orr_end_ns(g, v);
        if (s->used && gap_ns > 0)
            s->idle_ns[cause_of(g, v, s->end_ns, f->options.kernel_wait_ns)] += gap_ns;
        if (!s->used || end_ns > s->end_ns)
            s->end_ns = end_ns;
        s->used = true;
    }
}

static orr_status idle_of_rank(orr_analysis_run *f, const orr_view *view)
{
    const orr_graph *g = view->graph;
    orr_work_list work;
    const char *const *labels;
    if (view->host_only)
        return ORR_OK;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    ORR_TRY(orr_lane_labels(g, f->arena, &labels, f->err));
    stream *streams = orr_arena_array(f->scratch, stream, g->n_lanes);
    if (streams == NULL)
        return orr_fail_memory(f->err);
    walk(f, view, &work, streams);

    for (uint32_t lane = 0; lane < g->n_lanes; lane++) {
        const stream *s = &streams[lane];
        const int64_t total = s->idle_ns[HOST_WAIT] + s->idle_ns[KERNEL_WAIT] + s->idle_ns[OTHER];
        for (int c = 0; c < CAUSES && s->used; c++) {
            orr_idle *row = orr_analysis_add_row(f);
            if (row == NULL)
                return orr_fail_memory(f->err);
            row->rank = view->rank;
            row->stream = labels[lane];
            row->cause = CAUSE_NAMES[c];
            row->idle_ns = s->idle_ns[c];
            row->frac = orr_frac((double)s->idle_ns[c], (double)total);
        }
    }
    return ORR_OK;
}

orr_status orr_analyze_idle(const orr_job *job, const orr_analysis_options *options,
                            orr_arena *arena, const orr_idle **ret_rows, size_t *ret_n,
                            orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err}, sizeof(orr_idle),
                             idle_of_rank, (const void **)ret_rows, ret_n);
}
