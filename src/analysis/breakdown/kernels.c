/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analysis/common.h"

/* All launches of one kernel. */
typedef struct group {
    const char *name;
    orr_stat stat;
} group;

static int most_first(const void *a, const void *b)
{
    const group *x = a, *y = b;
    if (x->stat.sum != y->stat.sum)
        return x->stat.sum < y->stat.sum ? 1 : -1;
    return strcmp(x->name, y->name);
}

/* Statistics of two groups in one (Chan, Golub and LeVeque 1979). */
static void stat_join(orr_stat *into, const orr_stat *other)
{
    if (other->count == 0)
        return;
    if (into->count == 0) {
        *into = *other;
        return;
    }
    const double a = (double)into->count, b = (double)other->count;
    const double delta = other->mean - into->mean;
    into->mean += delta * b / (a + b);
    into->m2 += other->m2 + delta * delta * a * b / (a + b);
    into->count += other->count;
    into->sum = orr_saturating_sum(into->sum, other->sum);
    into->min = other->min < into->min ? other->min : into->min;
    into->max = other->max > into->max ? other->max : into->max;
}

/* Work of a class by name, then start. */
static orr_status sort_by_name(orr_analysis_run *f, const orr_graph *g, const orr_work_list *work,
                               orr_class class, orr_keyed **ret, size_t *ret_n)
{
    orr_keyed *items = orr_arena_array(f->scratch, orr_keyed, work->n);
    if (items == NULL)
        return orr_fail_memory(f->err);
    size_t n = 0;
    for (size_t i = 0; i < work->n; i++)
        if (work->class[i] == class)
            items[n++] = (orr_keyed){.key = g->name[work->node[i]], .id = work->node[i]};
    *ret = items;
    *ret_n = n;
    return orr_sort_keyed(items, n, f->scratch, f->err);
}

static orr_status group_by_name(orr_analysis_run *f, const orr_graph *g, const orr_work_list *work,
                                orr_class class, group **ret, size_t *ret_n)
{
    orr_keyed *items = NULL;
    size_t n = 0, n_groups = 0;
    ORR_TRY(sort_by_name(f, g, work, class, &items, &n));
    for (size_t i = 0; i < n; i++)
        n_groups += i == 0 || items[i].key != items[i - 1].key;
    group *groups = orr_arena_array(f->scratch, group, n_groups);
    if (groups == NULL)
        return orr_fail_memory(f->err);
    n_groups = 0;
    for (size_t i = 0; i < n; i++) {
        if (i == 0 || items[i].key != items[i - 1].key)
            groups[n_groups++].name = orr_graph_str(g, (orr_str)items[i].key);
        orr_stat_add(&groups[n_groups - 1].stat, g->duration_ns[items[i].id]);
    }
    qsort(groups, n_groups, sizeof *groups, most_first);
    *ret = groups;
    *ret_n = n_groups;
    return ORR_OK;
}

/* How many are named before the rest is summed up as "others". */
static size_t named(const group *groups, size_t n, const orr_analysis_options *options)
{
    if (options->top_kernels == 0 || n <= options->top_kernels)
        return n;
    int64_t total = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        total = orr_saturating_sum(total, groups[i].stat.sum);
    size_t keep = 0;
    while (keep < options->top_kernels && (double)sum < options->top_duration_frac * (double)total)
        sum = orr_saturating_sum(sum, groups[keep++].stat.sum);
    return keep;
}

static orr_status add_row(orr_analysis_run *f, uint32_t rank, const char *type, const group *from)
{
    orr_kernel *row = orr_analysis_add_row(f);
    if (row == NULL)
        return orr_fail_memory(f->err);
    *row = (orr_kernel){.rank = rank,
                        .name = from->name,
                        .type = type,
                        .count = from->stat.count,
                        .sum_ns = from->stat.sum,
                        .max_ns = from->stat.max,
                        .min_ns = from->stat.min,
                        .mean_ns = from->stat.mean,
                        .stddev_ns = orr_stat_stddev(&from->stat)};
    return ORR_OK;
}

static orr_status add_class(orr_analysis_run *f, const orr_view *view, const orr_work_list *work,
                            orr_class class)
{
    group *groups = NULL, others = {.name = "others"};
    size_t n = 0;
    ORR_TRY(group_by_name(f, view->graph, work, class, &groups, &n));
    const char *type = orr_class_name(class);
    const size_t keep = named(groups, n, &f->options);
    for (size_t i = 0; i < keep; i++)
        ORR_TRY(add_row(f, view->rank, type, &groups[i]));
    for (size_t i = keep; i < n; i++)
        stat_join(&others.stat, &groups[i].stat);
    return keep < n ? add_row(f, view->rank, type, &others) : ORR_OK;
}

static orr_status kernels_of_rank(orr_analysis_run *f, const orr_view *view)
{
    orr_work_list work;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    for (unsigned class = 1; class < ORR_CLASS_ANY; class <<= 1) {
        const orr_arena_mark mark = orr_arena_get_mark(f->scratch);
        ORR_TRY(add_class(f, view, &work, (orr_class) class));
        orr_arena_rewind(f->scratch, mark);
    }
    return ORR_OK;
}

orr_status orr_analyze_kernels(const orr_job *job, const orr_analysis_options *options,
                               orr_arena *arena, const orr_kernel **ret_rows, size_t *ret_n,
                               orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err}, sizeof(orr_kernel),
                             kernels_of_rank, (const void **)ret_rows, ret_n);
}
