/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/fit/data.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

/* Data of a fit: samples are grouped into cells, and shape groups are split into train,
 * validation and test by a hash, so that no shape is on two sides. */

static int by_cell(const orr_cost_sample *a, const orr_cost_sample *b)
{
    const orr_table_series series[] = {orr_table_series_of(a->device, &a->work),
                                       orr_table_series_of(b->device, &b->work)};
    const int order = orr_table_compare_series(&series[0], &series[1]);
    if (order != 0)
        return order;
    const orr_table_point points[] = {orr_table_point_of(&a->work), orr_table_point_of(&b->work)};
    return orr_table_compare_points(&points[0], &points[1]);
}

/* A total order, so that the result does not depend on the sort. */
static int by_cell_and_time(const void *left, const void *right)
{
    const orr_cost_sample *a = *(const orr_cost_sample *const *)left,
                          *b = *(const orr_cost_sample *const *)right;
    const int order = by_cell(a, b);
    if (order != 0)
        return order;
    if (a->ns != b->ns)
        return a->ns < b->ns ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Where dims do not determine the shape, FLOPs and bytes do. */
static uint64_t group_of(const orr_work *work, uint64_t seed)
{
    struct {
        int64_t family, n_dims, dims[ORR_WORK_DIMS];
        double flops, bytes;
    } key = {.family = work->family, .n_dims = work->n_dims};

    for (int i = 0; i < work->n_dims; i++)
        key.dims[i] = work->dims[i];
    if (work->n_dims == 0) {
        key.flops = work->flops;
        key.bytes = work->read_bytes + work->write_bytes;
    }
    return XXH3_64bits_withSeed(&key, sizeof key, seed);
}

/* The split: 60, 20 and 20 % of all possible groups. A group's side does not depend on other
 * groups. */
static uint8_t side_of(uint64_t group)
{
    const double at = (double)(group >> 11) * 0x1p-53;
    return at < 0.60 ? ORR_SUBSET_TRAIN : at < 0.80 ? ORR_SUBSET_VALIDATION : ORR_SUBSET_TEST;
}

static orr_fit_cell make_cell(const orr_cost_sample *const *rows, const double *ns, size_t n,
                              uint64_t seed)
{
    const orr_cost_sample *sample = rows[0];
    const orr_cost_model *roofline = orr_cost_roofline();
    orr_price price;
    orr_fit_cell cell = {
        .sample = sample,
        .series = orr_table_series_of(sample->device, &sample->work),
        .point = orr_table_point_of(&sample->work),
        .ns = ns,
        .group = group_of(&sample->work, seed),
    };

    cell.side = side_of(cell.group);
    cell.point.ns = n % 2 ? ns[n / 2] : ns[n / 2 - 1] + (ns[n / 2] - ns[n / 2 - 1]) / 2;
    cell.point.count = n;
    orr_table_locate(&cell.series, &cell.point);
    cell.roofline_ns =
        roofline->price(roofline, sample->device, &sample->work, &price) && price.ns > 0
            ? (double)price.ns
            : NAN;
    return cell;
}

static int by_group(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

/* Groups of a family: how many are on each side, and the index of each. */
static orr_status count_groups(orr_fit_cell *cells, size_t n, orr_arena *arena,
                               orr_fit_split *split, uint32_t *ret_groups, orr_error *err)
{
    const orr_arena_mark mark = orr_arena_get_mark(arena);
    uint64_t *groups = orr_arena_array(arena, uint64_t, n);
    uint32_t n_groups = 0;

    if (groups == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        groups[i] = cells[i].group;
        split->samples[cells[i].side] += cells[i].point.count;
    }
    if (n > 0)
        qsort(groups, n, sizeof *groups, by_group);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && groups[i] == groups[i - 1])
            continue;
        groups[n_groups++] = groups[i];
        split->groups[side_of(groups[i])]++;
    }
    for (size_t i = 0; i < n; i++) {
        const uint64_t *at = bsearch(&cells[i].group, groups, n_groups, sizeof *groups, by_group);
        cells[i].place = (uint32_t)(at - groups);
    }
    orr_arena_rewind(arena, mark);
    *ret_groups = n_groups;
    return ORR_OK;
}

orr_status orr_fit_data_make(const orr_samples *samples, uint64_t seed, orr_arena *arena,
                             orr_fit_data *ret, orr_error *err)
{
    size_t n;
    const orr_cost_sample *rows = orr_samples_rows(samples, &n);
    const orr_cost_sample **sorted = orr_arena_array(arena, const orr_cost_sample *, n);
    double *ns = orr_arena_array(arena, double, n);
    orr_fit_data data = {0};

    if (sorted == NULL || ns == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        sorted[i] = &rows[i];
    if (n > 0)
        qsort(sorted, n, sizeof(*sorted), by_cell_and_time);
    size_t n_cells = 0;
    for (size_t i = 0; i < n; i++) {
        ns[i] = sorted[i]->ns;
        n_cells += i == 0 || by_cell(sorted[i - 1], sorted[i]) != 0;
    }
    orr_fit_cell *cells = orr_arena_array(arena, orr_fit_cell, n_cells);
    if (cells == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && by_cell(sorted[i], sorted[end]) == 0;)
            end++;
        cells[data.n++] = make_cell(sorted + i, ns + i, end - i, seed);
    }
    data.cells = cells;
    for (size_t i = 0, family = 0; family <= ORR_FAMILIES; family++) {
        while (i < data.n && cells[i].series.family < family)
            i++;
        data.first[family] = i;
    }
    for (int family = 0; family < ORR_FAMILIES; family++) {
        data.splits[family].family = (uint8_t)family;
        ORR_TRY(count_groups(cells + data.first[family],
                             data.first[family + 1] - data.first[family], arena,
                             &data.splits[family], &data.groups[family], err));
    }
    *ret = data;
    return ORR_OK;
}

const orr_fit_minimum orr_fit_table_minimum = {{10, 5, 5}}, orr_fit_learned_minimum = {{24, 8, 8}};

bool orr_fit_enough(const orr_fit_split *split, const orr_fit_minimum *least)
{
    for (int side = 0; side < ORR_SUBSETS; side++)
        if (split->groups[side] < least->groups[side])
            return false;
    return true;
}

const char *orr_fit_too_few(const orr_fit_split *split, const orr_fit_minimum *least,
                            orr_arena *arena)
{
    const uint32_t *has = split->groups, *needs = least->groups;
    return orr_arena_printf(arena, "%u/%u/%u shape groups, %u/%u/%u needed", has[0], has[1], has[2],
                            needs[0], needs[1], needs[2]);
}

orr_status orr_fit_step(orr_fit_progress *progress, uint64_t steps, orr_error *err)
{
    progress->done += steps;
    if (progress->update != NULL &&
        !progress->update(progress->ctx, progress->done, progress->total))
        return orr_fail(err, ORR_CANCELED, "the fit was stopped");
    return ORR_OK;
}
