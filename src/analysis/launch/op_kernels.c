/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analysis/launch/attribution.h"
#include "base/strtab.h"

/* All instances of an operator with one sequence of kernels. */
typedef struct group {
    const orr_attributed_work *first;
    uint64_t count;
    double op_delay_ns, runtime_delay_ns; /* sums */
    int64_t kernel_ns;
} group;

static void add_instance(group *into, const orr_graph *g, const orr_attributed_work *instance)
{
    const orr_node_id work = instance->work[0], call = orr_launch_of(g, work);
    if (into->count++ == 0)
        into->first = instance;
    into->op_delay_ns += (double)(g->start_ns[call] - g->start_ns[instance->owner]);
    into->runtime_delay_ns += (double)(g->start_ns[work] - g->start_ns[call]);
    for (size_t i = 0; i < instance->n; i++)
        into->kernel_ns = orr_saturating_sum(into->kernel_ns, g->duration_ns[instance->work[i]]);
}

static orr_status group_instances(orr_analysis_run *f, const orr_graph *g,
                                  const orr_attributed_work *instances, size_t n, group *groups,
                                  size_t *ret_n)
{
    orr_strtab *sequences = orr_strtab_new();
    if (sequences == NULL)
        return orr_fail_memory(f->err);
    for (size_t i = 0; i < n; i++) {
        const uint32_t number = orr_attributed_sequence(g, &instances[i], sequences, f->scratch);
        if (number == UINT32_MAX) {
            orr_strtab_free(sequences);
            return orr_fail_memory(f->err);
        }
        add_instance(&groups[number - 1], g, &instances[i]); /* 0 is the empty string */
    }
    *ret_n = orr_strtab_count(sequences) - 1;
    orr_strtab_free(sequences);
    return ORR_OK;
}

static int most_often_first(const void *a, const void *b)
{
    const orr_op_kernels *x = a, *y = b;
    if (x->count != y->count)
        return x->count < y->count ? 1 : -1;
    if (x->kernel_ns != y->kernel_ns)
        return x->kernel_ns < y->kernel_ns ? 1 : -1;
    const int by_op = strcmp(x->op, y->op);
    return by_op != 0 ? by_op : strcmp(x->kernels, y->kernels);
}

static orr_status add_row(orr_analysis_run *f, const orr_view *view, const group *from)
{
    const orr_graph *g = view->graph;
    orr_op_kernels *row = orr_analysis_add_row(f);
    if (row == NULL)
        return orr_fail_memory(f->err);
    row->rank = view->rank;
    row->op = orr_graph_str(g, g->name[from->first->owner]);
    row->kernels = orr_attributed_text(g, from->first, false, " -> ", f->arena);
    row->count = from->count;
    row->mean_op_delay_ns = from->op_delay_ns / (double)from->count;
    row->mean_runtime_delay_ns = from->runtime_delay_ns / (double)from->count;
    row->kernel_ns = from->kernel_ns;
    return row->kernels == NULL ? orr_fail_memory(f->err) : ORR_OK;
}

static orr_status op_kernels_of_rank(orr_analysis_run *f, const orr_view *view)
{
    const orr_graph *g = view->graph;
    const orr_node_id *op_of;
    const orr_attributed_work *instances;
    orr_work_list work;
    size_t n = 0, n_groups = 0;
    if (view->host_only)
        return ORR_OK;
    ORR_TRY(orr_view_work(view, f->scratch, &work, f->err));
    ORR_TRY(orr_nearest_ancestor(g, ORR_KIND(HOST_OP), f->scratch, &op_of, f->err));
    ORR_TRY(orr_attribute_work(view, &work, ORR_CLASS_COMPUTATION | ORR_CLASS_COMMUNICATION, op_of,
                               ORR_ATTRIBUTED_BY_LAUNCH, f->scratch, &instances, &n, f->err));
    group *groups = orr_arena_array(f->scratch, group, n);
    if (groups == NULL)
        return orr_fail_memory(f->err);
    ORR_TRY(group_instances(f, g, instances, n, groups, &n_groups));

    const size_t first = f->n;
    for (size_t i = 0; i < n_groups; i++)
        ORR_TRY(add_row(f, view, &groups[i]));
    if (n_groups > 0)
        qsort((orr_op_kernels *)f->rows + first, n_groups, sizeof(orr_op_kernels),
              most_often_first);
    return ORR_OK;
}

orr_status orr_analyze_op_kernels(const orr_job *job, const orr_analysis_options *options,
                                  orr_arena *arena, const orr_op_kernels **ret_rows, size_t *ret_n,
                                  orr_error *err)
{
    return orr_analyze_ranks(&(orr_analysis_request){job, options, arena, err},
                             sizeof(orr_op_kernels), op_kernels_of_rank, (const void **)ret_rows,
                             ret_n);
}
