/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "model/plan/groups.h"
#include "model/plan/axis_layout.h"
#include "model/plan/plan.h"

/* Spans of process groups on a regular cluster, from strides alone. A group is a set of nested
 * arithmetic progressions (orr_runs), and a level of the cluster is a division of the devices
 * into units of equal size. Where unit boundaries and strides divide each other, the width of
 * the group at a level is a product over its runs, and every group of the axis has the same span
 * as the first. Where they do not, the ranks of groups are listed and measured. */

bool orr_runs_of(const orr_axis_layout *l, orr_runs *ret)
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

bool orr_runs_aligned(const orr_runs *r, uint32_t devices)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (devices % r->run[i].stride != 0 && r->run[i].stride % devices != 0)
            return false;
    return true;
}

/* Elements of an endless run within one unit of `devices` devices. */
static uint32_t elements(orr_digit run, uint32_t devices)
{
    return devices > run.stride ? devices / run.stride : 1;
}

static uint32_t units(uint32_t n, uint32_t of_unit)
{
    return (n + of_unit - 1) / of_unit;
}

/* Product over the runs: elements of the run in one unit, counted in units of the level below
 * that they fill. */
uint32_t orr_runs_width(const orr_runs *r, uint32_t below, uint32_t devices, bool *even)
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

static bool span_of_runs(const orr_runs *r, uint32_t n, const orr_cluster *cluster, orr_span *ret)
{
    orr_span span = {.n_ranks = n, .n_levels = cluster->n_levels, .even = true};
    uint32_t below = 1;
    for (uint32_t i = 0; i < cluster->n_levels; i++) {
        const uint32_t devices = cluster->levels[i].devices;
        if (!orr_runs_aligned(r, devices))
            return false;
        span.width[i] = orr_runs_width(r, below, devices, &span.even);
        if (span.width[i] > 1)
            span.top = i;
        below = devices;
    }
    *ret = span;
    return true;
}

static bool has_ends(const orr_cluster *cluster)
{
    for (uint32_t l = 0; l < cluster->n_levels; l++)
        if (cluster->levels[l].ends != NULL)
            return true;
    return false;
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
    const orr_axis_layout l = orr_plan_axis_layout(plan, axis);
    const uint32_t last = orr_axis_layout_rank(&l, 0, (l.size - 1) * l.stride);
    orr_runs r;
    if (last >= cluster->n_devices)
        return orr_fail(err, ORR_INVALID, "rank %u: cluster '%s' has %u devices", last,
                        cluster->name, cluster->n_devices);
    if (has_ends(cluster))
        return orr_plan_site_span(plan, axis, cluster, ret, err);
    if (orr_runs_of(&l, &r) && span_of_runs(&r, l.size, cluster, ret))
        return ORR_OK;
    return span_of_list(plan, axis, l.size, cluster, ret, err);
}

orr_status orr_plan_stage_span(const orr_plan *plan, uint32_t stage, const orr_cluster *cluster,
                               orr_span *ret, orr_error *err)
{
    const uint32_t p = orr_plan_degree(plan->pp);
    const uint32_t parts = has_ends(cluster) ? orr_plan_degree(plan->dp_outer) : 1;
    orr_span widest_pair = {.n_ranks = 0};
    for (uint32_t part = 0; part < parts; part++) {
        orr_coordinates at = {{0}};
        uint32_t pair[2];
        orr_span span;
        at.at[ORR_AXIS_DP] = part * orr_plan_dp_inner(plan);
        for (uint32_t i = 0; i < 2; i++) {
            at.at[ORR_AXIS_PP] = (stage + i) % p;
            pair[i] = orr_plan_rank_at(plan, &at);
        }
        ORR_TRY(orr_cluster_span(cluster, pair, p > 1 ? 2 : 1, &span, err));
        if (part == 0 || orr_span_is_wider(&span, &widest_pair))
            widest_pair = span;
    }
    *ret = widest_pair;
    return ORR_OK;
}

orr_span orr_plan_world_span(const orr_plan *plan, const orr_cluster *cluster)
{
    const uint32_t parts = plan->local_steps > 1 ? orr_plan_degree(plan->dp_outer) : 1;
    const uint32_t n = (uint32_t)orr_plan_ranks(plan) / parts;
    orr_span span = {.n_ranks = n, .n_levels = cluster->n_levels, .even = true};
    for (uint32_t l = 0, below = 1; l < cluster->n_levels; below = cluster->levels[l++].devices) {
        const orr_level *level = &cluster->levels[l];
        const bool full = cluster->levels[l > 0 ? l - 1 : l].ends != NULL && parts == 1;
        const uint32_t units = full ? level->size : (n + below - 1) / below;
        span.width[l] = units < level->size ? units : level->size;
        if (span.width[l] > 1)
            span.top = l;
        span.even &= level->ends == NULL && (units <= level->size || units % level->size == 0);
    }
    return span;
}
