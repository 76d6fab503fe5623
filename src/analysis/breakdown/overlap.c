/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/common.h"

static orr_status overlap_of_rank(orr_analysis_run *f, const orr_view *view)
{
    orr_work_list work;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    if (work.n == 0)
        return ORR_OK;

    orr_interval_set computation, communication;
    ORR_TRY(orr_interval_set_of_work(view, &work, ORR_CLASS_COMPUTATION, f->scratch, &computation,
                                     f->err));
    ORR_TRY(orr_interval_set_of_work(view, &work, ORR_CLASS_COMMUNICATION, f->scratch,
                                     &communication, f->err));

    orr_overlap *row = orr_analysis_add_row(f);
    if (row == NULL)
        return orr_fail_memory(f->err);
    row->rank = view->rank;
    row->comm_ns = orr_interval_set_length(&communication);
    row->overlapped_ns = orr_interval_set_overlap(&computation, &communication);
    row->overlap_frac = orr_frac((double)row->overlapped_ns, (double)row->comm_ns);
    return ORR_OK;
}

orr_status orr_analyze_overlap(const orr_job *job, const orr_analysis_options *options,
                               orr_arena *arena, const orr_overlap **ret_rows, size_t *ret_n,
                               orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err}, sizeof(orr_overlap),
                             overlap_of_rank, (const void **)ret_rows, ret_n);
}
