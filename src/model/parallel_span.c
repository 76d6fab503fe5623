/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "model/parallel.h"
#include "model/parallel_axis.h"

/* How groups lie on a cluster, told from strides. The first group of an axis is all sums of `runs`:
 * a run is `size` ranks, each `stride` after the one before, and encloses the run before it. */
typedef struct runs {
    orr_digit run[2];
    uint32_t  n;
} runs;

/* False: the group does not begin and end with whole digits. */
static bool runs_of(const orr_axis_layout *l, runs *ret)
{
    uint32_t stride = l->stride, size = l->size;
    ret->n = 0;
    for (uint32_t i = 0; i < l->n_digits && size > 1; i++) {
        const orr_digit digit = l->digits[i];
        if (stride >= digit.size) {
            if (stride % digit.size != 0)
                return false;
            stride /= digit.size;
            continue;
        }
        const uint32_t all = digit.size / stride, part = size < all ? size : all;
        if (size > all && (digit.size % stride != 0 || size % all != 0))
            return false;
        ret->run[ret->n++] = (orr_digit){part, digit.stride * stride};
        size /= part;
        stride = 1;
    }
    return size == 1;
}

/* Do units of so many devices begin with whole elements of every run? */
static bool aligned(const runs *r, uint32_t devices)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (devices % r->run[i].stride != 0 && r->run[i].stride % devices != 0)
            return false;
    return true;
}

/* Elements of a run in one unit of so many devices, if the run were endless. */
static uint32_t elements(orr_digit run, uint32_t devices)
{
    return devices > run.stride ? devices / run.stride : 1;
}

static uint32_t units(uint32_t n, uint32_t of_unit)
{
    return (n + of_unit - 1) / of_unit;
}

/* A level's width is the product over runs: of what a unit has of the run's elements, how many
 * units of the level below they fill. */
static uint32_t width_of(const runs *r, uint32_t below, uint32_t devices, bool *even)
{
    uint32_t width = 1;
    for (uint32_t i = 0; i < r->n; i++) {
        const uint32_t size = r->run[i].size, inside = elements(r->run[i], devices);
        const uint32_t of_below = elements(r->run[i], below);
        const uint32_t most = units(size < inside ? size : inside, of_below);
        const uint32_t rest = inside < size ? size % inside : 0;
        if (rest > 0 && units(rest, of_below) != most)
            *even = false;
        width *= most;
    }
    return width;
}

static bool span_of_runs(const runs *r, uint32_t n, const orr_cluster *cluster, orr_span *ret)
{
    orr_span span = {.n_ranks = n, .n_levels = cluster->n_levels, .even = true};
    uint32_t below = 1;
    for (uint32_t i = 0; i < cluster->n_levels; i++) {
        const uint32_t devices = cluster->levels[i].devices;
        if (!aligned(r, devices))
            return false;
        span.width[i] = width_of(r, below, devices, &span.even);
        if (span.width[i] > 1)
            span.top = i;
        below = devices;
    }
    *ret = span;
    return true;
}

static orr_status span_of_list(const orr_plan *plan, orr_axis axis, uint32_t n,
                               const orr_cluster *cluster, orr_span *ret, orr_error *err)
{
    uint32_t *ranks = orr_malloc((size_t)n * sizeof *ranks);
    if (ranks == NULL)
        return orr_fail_memory(err);
    orr_plan_members_of(plan, axis, 0, ranks);
    const orr_status status = orr_cluster_span(cluster, ranks, n, ret, err);
    orr_free(ranks);
    return status;
}

orr_status orr_plan_span(const orr_plan *plan, orr_axis axis, const orr_cluster *cluster,
                         orr_span *ret, orr_error *err)
{
    const orr_axis_layout l = orr_plan_layout(plan, axis);
    const uint32_t last = orr_layout_rank(&l, 0, (l.size - 1) * l.stride);
    runs r;
    if (last >= cluster->n_devices)
        return orr_fail(err, ORR_INVALID, "rank %u: cluster '%s' has %u devices", last,
                        cluster->name, cluster->n_devices);
    if (runs_of(&l, &r) && span_of_runs(&r, l.size, cluster, ret))
        return ORR_OK;
    return span_of_list(plan, axis, l.size, cluster, ret, err);
}

orr_status orr_plan_stage_span(const orr_plan *plan, uint32_t stage, const orr_cluster *cluster,
                               orr_span *ret, orr_error *err)
{
    const orr_axis_layout l = orr_plan_layout(plan, ORR_AXIS_PP);
    const uint32_t ranks[2] = {orr_layout_rank(&l, 0, stage % l.size),
                               orr_layout_rank(&l, 0, (stage + 1) % l.size)};
    return orr_cluster_span(cluster, ranks, l.size > 1 ? 2 : 1, ret, err);
}
