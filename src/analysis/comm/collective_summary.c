/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analysis/common.h"

static int compare_kinds(const orr_collective_row *a, const orr_collective_row *b)
{
    int order = strcmp(a->collective, b->collective);
    if (order == 0)
        order = strcmp(a->group, b->group);
    if (order == 0)
        order = (a->group_size > b->group_size) - (a->group_size < b->group_size);
    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static int compare_rows(const void *a_, const void *b_)
{
    const orr_collective_row *const *a = a_, *const *b = b_;
    const int order = compare_kinds(*a, *b);
    if (order != 0)
        return order;
    return *a < *b ? -1 : *a > *b;
}

static int compare_sums(const void *a_, const void *b_)
{
    const orr_collective_summary *a = a_, *b = b_;
    if (a->sum_ns != b->sum_ns)
        return a->sum_ns > b->sum_ns ? -1 : 1;
    int order = strcmp(a->collective, b->collective);
    if (order == 0)
        order = strcmp(a->group, b->group);
    return order != 0 ? order : (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static double median(double *values, size_t n)
{
    orr_sort_doubles(values, n);
    return orr_quantile(values, n, 0.5);
}

/* rows[0..n) are of one collective, group and size. */
static orr_collective_summary sum_up(const orr_collective_row *const *rows, size_t n, double *spare)
{
    orr_collective_summary sum = {.collective = rows[0]->collective,
                                  .group = rows[0]->group,
                                  .group_size = rows[0]->group_size,
                                  .count = n,
                                  .bytes = rows[0]->bytes};
    for (size_t i = 0; i < n; i++) {
        sum.sum_ns = orr_saturating_sum(sum.sum_ns, rows[i]->duration_ns);
        sum.skew_sum_ns = orr_saturating_sum(sum.skew_sum_ns, rows[i]->skew_ns);
        if (rows[i]->skew_ns > sum.skew_max_ns)
            sum.skew_max_ns = rows[i]->skew_ns;
        sum.transfer_mean_ns += (double)rows[i]->transfer_ns / (double)n;
    }
    for (size_t i = 0; i < n; i++)
        spare[i] = rows[i]->algbw_bytes_per_s;
    sum.algbw_bytes_per_s = median(spare, n);
    for (size_t i = 0; i < n; i++)
        spare[i] = rows[i]->busbw_bytes_per_s;
    sum.busbw_bytes_per_s = median(spare, n);
    return sum;
}

static orr_status summarise(const orr_job *job, const orr_analysis_options *options,
                            orr_arena *scratch, orr_arena *arena,
                            const orr_collective_summary **ret_rows, size_t *ret_n, orr_error *err)
{
    const orr_collective_row *rows;
    size_t n;
    ORR_TRY(orr_analyze_collectives(job, options, scratch, &rows, &n, err));
    const orr_collective_row **order = orr_arena_array(scratch, const orr_collective_row *, n);
    double *spare = orr_arena_array(scratch, double, n);
    if (order == NULL || spare == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        order[i] = &rows[i];
    qsort(order, n, sizeof *order, compare_rows);

    orr_collective_summary *sums = orr_arena_array(arena, orr_collective_summary, n);
    if (sums == NULL)
        return orr_fail_memory(err);
    size_t n_sums = 0;
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && compare_kinds(order[i], order[end]) == 0;)
            end++;
        sums[n_sums++] = sum_up(order + i, end - i, spare);
    }
    qsort(sums, n_sums, sizeof *sums, compare_sums);
    *ret_rows = sums;
    *ret_n = n_sums;
    return ORR_OK;
}

orr_status orr_analyze_collective_summary(const orr_job *job, const orr_analysis_options *options,
                                          orr_arena *arena, const orr_collective_summary **ret_rows,
                                          size_t *ret_n, orr_error *err)
{
    orr_arena *scratch = orr_arena_new(0, 0);
    if (scratch == NULL)
        return orr_fail_memory(err);
    const orr_status status = summarise(job, options, scratch, arena, ret_rows, ret_n, err);
    orr_arena_free(scratch);
    return status;
}
