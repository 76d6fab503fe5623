/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "analysis/common.h"
#include "base/array.h"
#include "base/strtab.h"

/* HTA compares every event of one rank and step by name; here it is all ranks and steps that
 * the options select, and only work: device work, and host operators and runtime calls by
 * the time that they take themselves. Names of annotations ("ProfilerStep#7") differ from run to
 * run by design. */

enum { A, B };
enum {
    HOST_KINDS = ORR_KIND(HOST_OP) | ORR_KIND(RUNTIME) | ORR_KIND(COMPUTE) | ORR_KIND(COLLECTIVE) |
                 ORR_KIND(SEND) | ORR_KIND(RECV) | ORR_KIND(COPY) | ORR_KIND(SET)
};

typedef struct total {
    const char *name; /* NULL: not seen */
    uint64_t count[2];
    int64_t sum_ns[2];
} total;

typedef struct differ {
    orr_strtab *names;
    struct {
        total *at; /* by name, host and device apart: row 2 x name + on_device */
        size_t n, room;
    } totals;
    uint64_t shares[2]; /* ranks x steps */
    orr_arena *scratch;
    orr_error *err;
} differ;

/* `number` remembers, for each string of the graph, the number of its text plus one. */
static total *total_of(differ *d, const orr_graph *g, orr_node_id v, uint32_t *number)
{
    const char *name = orr_graph_str(g, g->name[v]);
    uint32_t *known = &number[g->name[v]];
    if (*known == 0)
        *known = orr_strtab_add(d->names, name, orr_graph_str_len(g, g->name[v])) + 1;
    if (*known == 0)
        return NULL;
    const size_t at = 2 * (size_t)(*known - 1) + orr_graph_on_device(g, v);
    while (d->totals.n <= at)
        if (!orr_array_push(&d->totals, ((total){0})))
            return NULL;
    total *t = &d->totals.at[at];
    if (t->name == NULL)
        t->name = name;
    return t;
}

/* Time of each host node outside the host nodes nested in it. Shape (N). */
static orr_status find_own_time(const orr_graph *g, orr_arena *arena, int64_t **ret, orr_error *err)
{
    const orr_node_id *above;
    ORR_TRY(orr_nearest_ancestor(g, HOST_KINDS, arena, &above, err));
    int64_t *own_ns = orr_arena_array(arena, int64_t, g->n_nodes);
    if (own_ns == NULL)
        return orr_fail_memory(err);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        own_ns[v] = orr_saturating_sum(own_ns[v], g->duration_ns[v]);
        if (((HOST_KINDS >> g->kind[v]) & 1) && above[v] != ORR_NONE &&
            g->lane[above[v]] == g->lane[v])
            own_ns[above[v]] = orr_saturating_sum(own_ns[above[v]], -g->duration_ns[v]);
    }
    *ret = own_ns;
    return ORR_OK;
}

static uint64_t steps_in(const orr_view *view, const orr_instance *steps, size_t n)
{
    uint64_t in = 0;
    for (size_t i = 0; i < n; i++)
        in += orr_view_holds(view, steps[i].node);
    return in > 0 ? in : 1;
}

static orr_status add_rank(differ *d, const orr_view *view, const char *annotation, int side)
{
    const orr_graph *g = view->graph;
    const orr_instance *steps;
    size_t n_steps;
    int64_t *own_ns;
    ORR_TRY(orr_find_instances(g, annotation, d->scratch, &steps, &n_steps, d->err));
    d->shares[side] += steps_in(view, steps, n_steps);
    ORR_TRY(find_own_time(g, d->scratch, &own_ns, d->err));
    uint32_t *number = orr_arena_array(d->scratch, uint32_t, g->n_strings);
    if (number == NULL)
        return orr_fail_memory(d->err);
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        const bool on_device = orr_graph_on_device(g, v);
        if (!(on_device ? orr_class_of_kind((orr_node_kind)g->kind[v]) != ORR_CLASS_NONE
                        : ((HOST_KINDS >> g->kind[v]) & 1)) ||
            !orr_view_holds(view, v))
            continue;
        total *t = total_of(d, g, v, number);
        if (t == NULL)
            return orr_fail_memory(d->err);
        const int64_t ns = on_device ? g->duration_ns[v] : own_ns[v];
        t->count[side]++;
        t->sum_ns[side] = orr_saturating_sum(t->sum_ns[side], ns > 0 ? ns : 0);
    }
    return ORR_OK;
}

static orr_status add_job(differ *d, const orr_job *job, const orr_analysis_options *options,
                          int side)
{
    const orr_view *views;
    size_t n;
    ORR_TRY(orr_find_views(job, options, d->scratch, &views, &n, d->err));
    for (size_t i = 0; i < n; i++) {
        const orr_arena_mark mark = orr_arena_get_mark(d->scratch);
        ORR_TRY(add_rank(d, &views[i], options->annotation, side));
        orr_arena_rewind(d->scratch, mark);
    }
    return ORR_OK;
}

/* By count, or by count in each rank and step. */
static const char *change_of(const total *t, const uint64_t shares[2])
{
    if (t->count[A] == 0)
        return "added";
    if (t->count[B] == 0)
        return "deleted";
    const unsigned __int128 a = (unsigned __int128)t->count[A] * shares[B];
    const unsigned __int128 b = (unsigned __int128)t->count[B] * shares[A];
    return a < b ? "increased" : a > b ? "decreased" : "unchanged";
}

static int64_t share_of(int64_t sum_ns, uint64_t shares)
{
    return orr_saturating_sum(sum_ns, (int64_t)(shares / 2)) / (int64_t)shares;
}

static int64_t magnitude(int64_t x)
{
    return x < 0 ? -x : x;
}

static int compare_rows(const void *a_, const void *b_)
{
    const orr_diff_row *a = a_, *b = b_;
    if (magnitude(a->delta_ns) != magnitude(b->delta_ns))
        return magnitude(a->delta_ns) > magnitude(b->delta_ns) ? -1 : 1;
    const int name = strcmp(a->name, b->name);
    return name != 0 ? name : a->on_device - b->on_device;
}

static orr_status write_rows(const differ *d, bool normalise, orr_arena *arena,
                             const orr_diff_row **ret_rows, size_t *ret_n)
{
    uint64_t shares[2] = {1, 1};
    if (normalise)
        for (int side = A; side <= B; side++)
            shares[side] = d->shares[side] > 0 ? d->shares[side] : 1;
    size_t n = 0;
    for (size_t i = 0; i < d->totals.n; i++)
        n += d->totals.at[i].name != NULL;
    orr_diff_row *rows = orr_arena_array(arena, orr_diff_row, n);
    if (rows == NULL)
        return orr_fail_memory(d->err);
    n = 0;
    for (size_t i = 0; i < d->totals.n; i++) {
        const total *t = &d->totals.at[i];
        if (t->name == NULL)
            continue;
        orr_diff_row *row = &rows[n++];
        *row = (orr_diff_row){.name = t->name,
                              .on_device = i % 2,
                              .change = change_of(t, shares),
                              .count_a = t->count[A],
                              .count_b = t->count[B],
                              .sum_a_ns = share_of(t->sum_ns[A], shares[A]),
                              .sum_b_ns = share_of(t->sum_ns[B], shares[B])};
        row->delta_ns = row->sum_b_ns - row->sum_a_ns;
    }
    qsort(rows, n, sizeof *rows, compare_rows);
    *ret_rows = rows;
    *ret_n = n;
    return ORR_OK;
}

orr_status orr_analyze_diff(const orr_job *a, const orr_job *b, const orr_analysis_options *given,
                            bool normalise, orr_arena *arena, const orr_diff_row **ret_rows,
                            size_t *ret_n, orr_error *err)
{
    const orr_analysis_options options = orr_options_complete(given);
    differ d = {.names = orr_strtab_new(), .scratch = orr_arena_new(0, 0), .err = err};
    orr_status status = ORR_OK;
    if (d.names == NULL || d.scratch == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, add_job(&d, a, &options, A));
    ORR_TRY_OUT(status, add_job(&d, b, &options, B));
    ORR_TRY_OUT(status, write_rows(&d, normalise, arena, ret_rows, ret_n));
out:
    orr_array_done(&d.totals);
    orr_arena_free(d.scratch);
    orr_strtab_free(d.names);
    return status;
}
