/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "cost/models/table.h"

/* Nearest neighbours by an implicit k-d tree (Bentley, CACM 1975), which is nothing but an order
 * of the points: the middle of a range splits it, along the coordinates that vary, one after
 * another. */
enum { DEEPEST = 34 }; /* levels of a balanced tree of 2^32 points, and two */

typedef struct axis_list {
    uint8_t at[ORR_TABLE_COORDS];
    uint32_t n;
} axis_list;

static axis_list axes_of(const orr_table_series *series)
{
    const uint32_t coords = orr_table_coords(series);
    axis_list axes = {.n = 0};

    for (uint32_t c = 0; c < coords; c++)
        if (series->high[c] > series->low[c])
            axes.at[axes.n++] = (uint8_t)c;
    return axes;
}

static void bound(orr_table_series *series)
{
    const uint32_t coords = orr_table_coords(series);

    for (uint32_t c = 0; c < coords; c++) {
        series->low[c] = INFINITY;
        series->high[c] = -INFINITY;
        for (uint32_t i = 0; i < series->n; i++) {
            series->low[c] = fmin(series->low[c], series->points[i].coord[c]);
            series->high[c] = fmax(series->high[c], series->points[i].coord[c]);
        }
    }
}

typedef struct one_axis {
    const orr_table_point *points;
    uint8_t axis;
} one_axis;

static int by_axis(const void *left, const void *right, void *ctx)
{
    const one_axis *along = ctx;
    const uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    const double at = along->points[a].coord[along->axis], bt = along->points[b].coord[along->axis];

    if (at != bt)
        return at < bt ? -1 : 1;
    return a < b ? -1 : a > b;
}

typedef struct range {
    uint32_t from, to, level;
    double squared; /* lower bound of the distance of its points */
} range;

orr_status orr_table_index(orr_table_series *series, orr_arena *arena, orr_error *err)
{
    uint32_t *tree = orr_arena_array(arena, uint32_t, series->n);
    range left[DEEPEST];
    int n_left = 0;

    if (tree == NULL)
        return orr_fail_memory(err);
    bound(series);
    for (uint32_t i = 0; i < series->n; i++)
        tree[i] = i;
    const axis_list axes = axes_of(series);
    if (axes.n > 0)
        left[n_left++] = (range){.to = series->n};
    while (n_left > 0) {
        const range now = left[--n_left];
        const uint32_t middle = now.from + (now.to - now.from) / 2;
        one_axis along = {series->points, axes.at[now.level % axes.n]};
        if (now.to - now.from < 2)
            continue;
        qsort_r(tree + now.from, now.to - now.from, sizeof *tree, by_axis, &along);
        left[n_left++] = (range){.from = now.from, .to = middle, .level = now.level + 1};
        left[n_left++] = (range){.from = middle + 1, .to = now.to, .level = now.level + 1};
    }
    series->tree = tree;
    return ORR_OK;
}

static double distance(const orr_table_point *a, const orr_table_point *b, const axis_list *axes)
{
    double squared = 0;
    for (uint32_t i = 0; i < axes->n; i++) {
        const double apart = a->coord[axes->at[i]] - b->coord[axes->at[i]];
        squared += apart * apart;
    }
    return squared;
}

static bool before(const orr_table_neighbour *a, const orr_table_neighbour *b)
{
    return a->squared != b->squared ? a->squared < b->squared : a->point < b->point;
}

static void insert(orr_table_neighbour *found, uint32_t *n, uint32_t most, orr_table_neighbour near)
{
    if (*n == most && !before(&near, &found[most - 1]))
        return;
    uint32_t at = *n < most ? (*n)++ : most - 1;
    for (; at > 0 && before(&near, &found[at - 1]); at--)
        found[at] = found[at - 1];
    found[at] = near;
}

/* Coordinates that do not vary need no comparison: the query is inside the bounding box. */
uint32_t orr_table_nearest(const orr_table_series *series, const orr_table_point *wanted,
                           uint32_t most, orr_table_neighbour found[ORR_TABLE_NEIGHBOURS_MAX])
{
    const axis_list axes = axes_of(series);
    range left[DEEPEST];
    int n_left = 0;
    uint32_t n = 0;

    if (most == 0)
        return 0;
    left[n_left++] = (range){.to = series->n};
    while (n_left > 0) {
        range now = left[--n_left];
        if (n == most && now.squared > found[n - 1].squared)
            continue;
        while (now.from < now.to) {
            const uint32_t middle = now.from + (now.to - now.from) / 2,
                           point = series->tree[middle];
            const orr_table_point *at = &series->points[point];
            insert(found, &n, most, (orr_table_neighbour){distance(at, wanted, &axes), point});
            const uint8_t axis = axes.n > 0 ? axes.at[now.level % axes.n] : 0;
            const double apart = axes.n > 0 ? wanted->coord[axis] - at->coord[axis] : 0;
            range lower = {now.from, middle, now.level + 1, now.squared};
            range upper = {middle + 1, now.to, now.level + 1, now.squared};
            range *far = apart < 0 ? &upper : &lower;
            far->squared = fmax(now.squared, apart * apart);
            left[n_left++] = *far;
            now = apart < 0 ? lower : upper;
        }
    }
    return n;
}
