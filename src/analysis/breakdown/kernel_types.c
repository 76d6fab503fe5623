/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analysis/common.h"

/* Every set of classes that can run at once, by its bits. */
enum { SETS = ORR_CLASS_ANY + 1 };
static const char *const SET_NAMES[SETS] = {
    [ORR_CLASS_COMPUTATION] = "COMPUTATION",
    [ORR_CLASS_COMMUNICATION] = "COMMUNICATION",
    [ORR_CLASS_MEMORY] = "MEMORY",
    [ORR_CLASS_COMPUTATION | ORR_CLASS_COMMUNICATION] = "COMPUTATION overlapping COMMUNICATION",
    [ORR_CLASS_COMPUTATION | ORR_CLASS_MEMORY] = "COMPUTATION overlapping MEMORY",
    [ORR_CLASS_COMMUNICATION | ORR_CLASS_MEMORY] = "COMMUNICATION overlapping MEMORY",
    [ORR_CLASS_ANY] = "COMPUTATION overlapping COMMUNICATION overlapping MEMORY",
};

/* Walk the boundaries of the three interval sets in order of time and add each stretch to
 * the set of classes that ran in it. */
static void sweep(const orr_interval_set of_class[3], int64_t sums[SETS])
{
    size_t next[3] = {0}; /* boundary 2i is the start of interval i, 2i + 1 its end */
    unsigned running = 0;
    int64_t at = 0;
    for (;;) {
        int64_t first = INT64_MAX;
        for (int c = 0; c < 3; c++) {
            if (next[c] == 2 * of_class[c].n)
                continue;
            const orr_interval *span = &of_class[c].at[next[c] / 2];
            const int64_t moment = next[c] % 2 == 0 ? span->from_ns : span->to_ns;
            first = moment < first ? moment : first;
        }
        if (first == INT64_MAX)
            return;
        if (running != 0)
            sums[running] += first - at;
        at = first;
        for (int c = 0; c < 3; c++) {
            if (next[c] == 2 * of_class[c].n)
                continue;
            const orr_interval *span = &of_class[c].at[next[c] / 2];
            if ((next[c] % 2 == 0 ? span->from_ns : span->to_ns) != first)
                continue;
            running ^= 1u << c;
            next[c]++;
        }
    }
}

/* One row a rank and set here; summed over ranks below. */
static orr_status types_of_rank(orr_analysis_run *f, const orr_view *view)
{
    orr_work_list work;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    orr_interval_set of_class[3];
    for (int c = 0; c < 3; c++)
        ORR_TRY(orr_interval_set_of_work(view, &work, 1u << c, f->scratch, &of_class[c], f->err));
    int64_t sums[SETS] = {0};
    sweep(of_class, sums);
    for (int set = 1; set < SETS; set++) {
        if (sums[set] == 0)
            continue;
        orr_kernel_type *row = orr_analysis_add_row(f);
        if (row == NULL)
            return orr_fail_memory(f->err);
        row->type = SET_NAMES[set];
        row->sum_ns = sums[set];
    }
    return ORR_OK;
}

static int most_first(const void *a, const void *b)
{
    const orr_kernel_type *x = a, *y = b;
    if (x->sum_ns != y->sum_ns)
        return x->sum_ns < y->sum_ns ? 1 : -1;
    return strcmp(x->type, y->type);
}

orr_status orr_analyze_kernel_types(const orr_job *job, const orr_analysis_options *options,
                                    orr_arena *arena, const orr_kernel_type **ret_rows,
                                    size_t *ret_n, orr_error *err)
{
    const void *all;
    size_t n_all;
    ORR_TRY(orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                              sizeof(orr_kernel_type), types_of_rank, &all, &n_all));
    orr_kernel_type *rows = orr_arena_array(arena, orr_kernel_type, SETS);
    if (rows == NULL)
        return orr_fail_memory(err);
    size_t n = 0;
    int64_t total = 0;
    for (size_t i = 0; i < n_all; i++) {
        const orr_kernel_type *part = (const orr_kernel_type *)all + i;
        size_t k = 0;
        while (k < n && rows[k].type != part->type)
            k++;
        if (k == n)
            rows[n++].type = part->type;
        rows[k].sum_ns = orr_saturating_sum(rows[k].sum_ns, part->sum_ns);
        total = orr_saturating_sum(total, part->sum_ns);
    }
    for (size_t k = 0; k < n; k++)
        rows[k].frac = orr_frac((double)rows[k].sum_ns, (double)total);
    qsort(rows, n, sizeof *rows, most_first);
    *ret_rows = rows;
    *ret_n = n;
    return ORR_OK;
}
