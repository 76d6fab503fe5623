/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/host/overheads.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strtab.h"

/* From observations to means: sorted by kind, name and value. */
typedef struct grouping {
    orr_overhead_samples samples;
    const char **text; /* shape (names), sorted; from then on sample.name is an index into it */
    uint32_t n_names;
} grouping;

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int by_kind_name_value(const void *a, const void *b)
{
    const orr_overhead_sample *x = a, *y = b;
    if (x->kind != y->kind)
        return x->kind < y->kind ? -1 : 1;
    if (x->name != y->name)
        return x->name < y->name ? -1 : 1;
    return (x->us > y->us) - (x->us < y->us);
}

static orr_status sort_samples(grouping *g, orr_error *err)
{
    g->n_names = orr_strtab_count(g->samples.names);
    g->text = orr_calloc(g->n_names, sizeof *g->text);
    if (g->text == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < g->n_names; i++)
        g->text[i] = orr_strtab_text(g->samples.names, i);
    qsort(g->text, g->n_names, sizeof *g->text, by_text);
    uint32_t *place = orr_calloc(g->n_names, sizeof *place);
    if (place == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < g->n_names; i++)
        place[orr_strtab_find(g->samples.names, g->text[i], strlen(g->text[i]))] = i;
    for (size_t i = 0; i < g->samples.rows.n; i++)
        g->samples.rows.at[i].name = place[g->samples.rows.at[i].name];
    orr_free(place);
    if (g->samples.rows.n > 0)
        qsort(g->samples.rows.at, g->samples.rows.n, sizeof *g->samples.rows.at,
              by_kind_name_value);
    return ORR_OK;
}

static bool same_row(const orr_overhead_sample *a, const orr_overhead_sample *b)
{
    return a->kind == b->kind && a->name == b->name;
}

/* Quantile by linear interpolation between order statistics. */
static double quantile(const orr_overhead_sample *sorted, size_t n, double q)
{
    const double at = q * (double)(n - 1);
    const size_t below = (size_t)at;
    const size_t above = below + 1 < n ? below + 1 : below;
    return sorted[below].us + (at - (double)below) * (sorted[above].us - sorted[below].us);
}

/* Mean and standard deviation without outliers: within 1.5 interquartile ranges of the
 * quartiles. */
static void describe(const orr_overhead_sample *sorted, size_t n, orr_overhead *row)
{
    const double q1 = quantile(sorted, n, 0.25), q3 = quantile(sorted, n, 0.75);
    const double low = q1 - 1.5 * (q3 - q1), high = q3 + 1.5 * (q3 - q1);
    double mean = 0, m2 = 0;
    for (size_t i = 0; i < n; i++) {
        if (sorted[i].us < low || sorted[i].us > high)
            continue;
        row->count++;
        const double from_mean = sorted[i].us - mean;
        mean += from_mean / (double)row->count;
        m2 += from_mean * (sorted[i].us - mean);
    }
    row->mean_us = mean;
    row->std_us = row->count > 0 ? sqrt(m2 / (double)row->count) : 0;
}

static orr_status make_rows(const grouping *g, orr_arena *arena, orr_overheads *ret, orr_error *err)
{
    const orr_overhead_sample *at = g->samples.rows.at;
    const size_t n = g->samples.rows.n;
    size_t n_rows = 0;
    for (size_t i = 0; i < n; i++)
        n_rows += i == 0 || !same_row(&at[i - 1], &at[i]);
    orr_overhead *rows = orr_arena_array(arena, orr_overhead, n_rows);
    if (rows == NULL)
        return orr_fail_memory(err);
    orr_overhead *row = rows;
    for (size_t first = 0, end; first < n; first = end, row++) {
        for (end = first + 1; end < n && same_row(&at[first], &at[end]); end++)
            continue;
        const char *name = g->text[at[first].name];
        row->kind = at[first].kind;
        row->name = orr_arena_strndup(arena, name, strlen(name));
        if (row->name == NULL)
            return orr_fail_memory(err);
        describe(at + first, end - first, row);
    }
    *ret = (orr_overheads){rows, n_rows};
    return ORR_OK;
}

orr_status orr_overheads_extract(const orr_job *job, orr_arena *arena, orr_overheads *ret,
                                 orr_error *err)
{
    grouping g = {.samples = {.names = orr_strtab_new()}};
    orr_status status = g.samples.names == NULL ? orr_fail_memory(err) : ORR_OK;
    for (uint32_t i = 0; i < job->n_graphs && status == ORR_OK; i++)
        status = orr_overheads_collect(job->graphs[i], &g.samples, err);
    if (status == ORR_OK)
        status = sort_samples(&g, err);
    if (status == ORR_OK)
        status = make_rows(&g, arena, ret, err);
    orr_free(g.text);
    orr_array_done(&g.samples.rows);
    orr_strtab_free(g.samples.names);
    return status;
}

static int order_of(const orr_overhead *row, orr_overhead_kind kind, const char *name)
{
    if (row->kind != kind)
        return row->kind < kind ? -1 : 1;
    return strcmp(row->name, name);
}

const orr_overhead *orr_overheads_find(const orr_overheads *overheads, orr_overhead_kind kind,
                                       const char *name)
{
    size_t low = 0, high = overheads->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const int order = order_of(&overheads->rows[middle], kind, name);
        if (order == 0)
            return &overheads->rows[middle];
        if (order < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}
