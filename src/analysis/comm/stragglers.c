/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analysis/common.h"
#include "base/alloc.h"

/* A rank that is late is waited for: the others sit in the collective until it comes, and it
 * leaves at once. So who spends least time in communication holds up the rest. On the recordings
 * at hand this names the ranks that HTA names, which looks for late starts of the kernel whose
 * duration differs most; unlike that it needs no steps and no kernel that all ranks share. */

static orr_status communication_of_rank(orr_analysis_run *frame, const orr_view *view)
{
    orr_work_list work;
    ORR_TRY(orr_view_work(view, frame->scratch, &work, frame->err));
    orr_straggler *row = orr_analysis_add_row(frame);
    if (row == NULL)
        return orr_fail_memory(frame->err);
    row->rank = view->rank;
    for (size_t i = 0; i < work.n; i++)
        if (work.class[i] == ORR_CLASS_COMMUNICATION)
            row->comm_ns = orr_saturating_sum(row->comm_ns, view->graph->duration_ns[work.node[i]]);
    return ORR_OK;
}

static int64_t middle_of(int64_t *values, size_t n)
{
    orr_sort_ns(values, n);
    return orr_quantile_ns(values, n, 0.5);
}

/* Lateness of the members of one match after the one in the middle, to their ranks' rows. */
static void add_lateness(const orr_job *job, const orr_match *match, const orr_view *const *view_of,
                         orr_straggler *const *row_of, int64_t *spare)
{
    const orr_member *members = job->members + match->first;
    size_t n = 0;
    for (uint32_t i = 0; i < match->count; i++)
        if (job->graphs[members[i].graph]->start_ns[members[i].node] != ORR_TIME_NONE)
            spare[n++] = orr_job_start_ns(job, members[i].graph, members[i].node);
    if (n < 2)
        return;
    const int64_t middle = middle_of(spare, n);
    for (uint32_t i = 0; i < match->count; i++) {
        const uint32_t graph = members[i].graph;
        if (row_of[graph] == NULL || !orr_view_holds(view_of[graph], members[i].node) ||
            job->graphs[graph]->start_ns[members[i].node] == ORR_TIME_NONE)
            continue;
        const int64_t late = orr_job_start_ns(job, graph, members[i].node) - middle;
        if (late > 0)
            row_of[graph]->late_ns = orr_saturating_sum(row_of[graph]->late_ns, late);
    }
}

static orr_status find_lateness(const orr_job *job, const orr_analysis_options *options,
                                orr_straggler *rows, size_t n, orr_arena *scratch, orr_error *err)
{
    const orr_view *views;
    size_t n_views;
    uint32_t most = 0;
    ORR_TRY(orr_find_views(job, options, scratch, &views, &n_views, err));
    for (uint32_t i = 0; i < job->n_matches; i++)
        if (job->matches[i].count > most)
            most = job->matches[i].count;
    const orr_view **view_of = orr_arena_array(scratch, const orr_view *, job->n_graphs);
    orr_straggler **row_of = orr_arena_array(scratch, orr_straggler *, job->n_graphs);
    int64_t *spare = orr_arena_array(scratch, int64_t, most);
    if (view_of == NULL || row_of == NULL || spare == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n_views && i < n; i++) { /* rows are in the order of the views */
        view_of[views[i].graph_id] = &views[i];
        row_of[views[i].graph_id] = &rows[i];
    }
    for (uint32_t i = 0; i < job->n_matches; i++)
        add_lateness(job, &job->matches[i], view_of, row_of, spare);
    return ORR_OK;
}

static int compare_rows(const void *a_, const void *b_)
{
    const orr_straggler *a = a_, *b = b_;
    if (a->comm_ns != b->comm_ns)
        return a->comm_ns < b->comm_ns ? -1 : 1;
    if (a->late_ns != b->late_ns)
        return a->late_ns > b->late_ns ? -1 : 1;
    return a->rank < b->rank ? -1 : 1;
}

static orr_status rank_stragglers(const orr_job *job, const orr_analysis_options *options,
                                  orr_straggler *rows, size_t n, orr_arena *scratch, orr_error *err)
{
    ORR_TRY(find_lateness(job, options, rows, n, scratch, err));
    int64_t *comm = orr_arena_array(scratch, int64_t, n);
    if (comm == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        comm[i] = rows[i].comm_ns;
    const int64_t median = middle_of(comm, n);
    for (size_t i = 0; i < n; i++)
        rows[i].score = orr_frac((double)(median - rows[i].comm_ns), (double)median);
    qsort(rows, n, sizeof *rows, compare_rows);
    return ORR_OK;
}

orr_status orr_analyze_stragglers(const orr_job *job, const orr_analysis_options *given,
                                  orr_arena *arena, const orr_straggler **ret_rows, size_t *ret_n,
                                  orr_error *err)
{
    const orr_analysis_options options = orr_options_complete(given);
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_status status = ORR_OK;
    const void *found;
    size_t n;
    if (scratch == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status,
                orr_analyze_ranks(&(orr_analysis_request){job, &options, scratch, err},
                                  sizeof(orr_straggler), communication_of_rank, &found, &n));
    int64_t sum_ns = 0;
    for (size_t i = 0; i < n; i++)
        sum_ns = orr_saturating_sum(sum_ns, ((const orr_straggler *)found)[i].comm_ns);
    if (n < 2 || sum_ns == 0)
        n = 0; /* nobody to compare with */
    orr_straggler *rows = orr_arena_array(arena, orr_straggler, n);
    if (rows == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    if (n > 0) {
        memcpy(rows, found, n * sizeof *rows);
        ORR_TRY_OUT(status, rank_stragglers(job, &options, rows, n, scratch, err));
    }
    *ret_rows = rows;
    *ret_n =
        options.straggler_count > 0 && options.straggler_count < n ? options.straggler_count : n;
out:
    orr_arena_free(scratch);
    return status;
}
