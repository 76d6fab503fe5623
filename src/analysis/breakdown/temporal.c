/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/common.h"

static orr_status temporal_of_rank(orr_analysis_run *f, const orr_view *view)
{
    orr_work_list work;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    if (work.n == 0)
        return ORR_OK;

    orr_interval_set computation, communication, both, busy;
    ORR_TRY(orr_interval_set_of_work(view, &work, ORR_CLASS_COMPUTATION, f->scratch, &computation,
                                     f->err));
    ORR_TRY(orr_interval_set_of_work(view, &work, ORR_CLASS_COMMUNICATION, f->scratch,
                                     &communication, f->err));
    ORR_TRY(orr_interval_set_of_work(view, &work, ORR_CLASS_ANY, f->scratch, &busy, f->err));
    ORR_TRY(orr_interval_set_union(&computation, &communication, f->scratch, &both, f->err));

    orr_temporal *row = orr_analysis_add_row(f);
    if (row == NULL)
        return orr_fail_memory(f->err);
    const int64_t busy_ns = orr_interval_set_length(&busy),
                  both_ns = orr_interval_set_length(&both);
    row->rank = view->rank;
    row->host_only = view->host_only;
    row->span_ns = busy.n == 0 ? 0 : busy.at[busy.n - 1].to_ns - busy.at[0].from_ns;
    row->idle_ns = row->span_ns - busy_ns;
    row->compute_ns = orr_interval_set_length(&computation);
    row->non_compute_ns = busy_ns - row->compute_ns;
    row->exposed_comm_ns = both_ns - row->compute_ns;
    row->exposed_memory_ns = busy_ns - both_ns;
    row->idle_frac = orr_frac((double)row->idle_ns, (double)row->span_ns);
    row->compute_frac = orr_frac((double)row->compute_ns, (double)row->span_ns);
    row->non_compute_frac = orr_frac((double)row->non_compute_ns, (double)row->span_ns);
    return ORR_OK;
}

orr_status orr_analyze_temporal(const orr_job *job, const orr_analysis_options *options,
                                orr_arena *arena, const orr_temporal **ret_rows, size_t *ret_n,
                                orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_temporal), temporal_of_rank, (const void **)ret_rows,
                             ret_n);
}
