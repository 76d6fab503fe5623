/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/common.h"

/* Bucket 0 holds durations of zero, bucket k those from 2^(k-1) to 2^k ns. */
enum { BUCKETS = 64 };

static unsigned bucket_of(int64_t duration_ns)
{
    return duration_ns <= 0 ? 0 : 64u - (unsigned)__builtin_clzll((uint64_t)duration_ns);
}

static orr_status add_rows(orr_analysis_run *f, uint32_t rank, orr_class class,
                           const orr_stat buckets[BUCKETS])
{
    for (unsigned b = 0; b < BUCKETS; b++) {
        if (buckets[b].count == 0)
            continue;
        orr_duration_bucket *row = orr_analysis_add_row(f);
        if (row == NULL)
            return orr_fail_memory(f->err);
        row->rank = rank;
        row->type = orr_class_name(class);
        row->from_ns = b == 0 ? 0 : (int64_t)1 << (b - 1);
        row->to_ns = b == BUCKETS - 1 ? INT64_MAX : (int64_t)1 << b;
        row->count = buckets[b].count;
        row->sum_ns = buckets[b].sum;
    }
    return ORR_OK;
}

static orr_status durations_of_rank(orr_analysis_run *f, const orr_view *view)
{
    const orr_graph *g = view->graph;
    orr_work_list work;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    orr_stat buckets[ORR_CLASS_MEMORY + 1][BUCKETS] = {0};
    for (size_t i = 0; i < work.n; i++) {
        const int64_t duration_ns = g->duration_ns[work.node[i]];
        orr_stat_add(&buckets[work.class[i]][bucket_of(duration_ns)], duration_ns);
    }
    for (unsigned class = 1; class < ORR_CLASS_ANY; class <<= 1)
        ORR_TRY(add_rows(f, view->rank, (orr_class) class, buckets[class]));
    return ORR_OK;
}

orr_status orr_analyze_durations(const orr_job *job, const orr_analysis_options *options,
                                 orr_arena *arena, const orr_duration_bucket **ret_rows,
                                 size_t *ret_n, orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_duration_bucket), durations_of_rank,
                             (const void **)ret_rows, ret_n);
}
