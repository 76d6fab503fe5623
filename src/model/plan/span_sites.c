/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "model/plan/groups.h"
#include "model/plan/axis_layout.h"
#include "model/plan/plan.h"

/* Spans of process groups on sites of unequal size. Groups of one axis may then have different
 * spans; the widest stands for all, because every group has to finish before the step ends. Two
 * ways: from strides where each site holds whole replicas one after another, and otherwise by
 * listing the groups of the first and last rank of each site. */

bool orr_span_is_wider(const orr_span *a, const orr_span *b)
{
    for (uint32_t l = a->n_levels; l-- > 0;)
        if (a->width[l] != b->width[l])
            return a->width[l] > b->width[l];
    return !a->even && b->even;
}

static orr_status widen(const orr_plan *plan, orr_axis axis, uint32_t rank,
                        const orr_cluster *cluster, uint32_t *members, orr_span *ret,
                        orr_error *err)
{
    orr_span span;
    orr_plan_members_of(plan, axis, rank, members);
    ORR_TRY(orr_cluster_span(cluster, members, orr_plan_group_size(plan, axis), &span, err));
    if (ret->n_ranks == 0 || orr_span_is_wider(&span, ret))
        *ret = span;
    return ORR_OK;
}

/* Widest span of the groups that contain the first or the last rank of a site. */
static orr_status widest(const orr_plan *plan, orr_axis axis, const orr_cluster *cluster,
                         uint32_t *members, orr_span *ret, orr_error *err)
{
    const uint32_t n_ranks = (uint32_t)orr_plan_ranks(plan);
    orr_span span = {.n_ranks = 0};
    for (uint32_t rank = 0; rank < n_ranks;) {
        const orr_device_range site = orr_cluster_unit(cluster, cluster->site_level, rank);
        const uint32_t end = site.end < n_ranks ? site.end : n_ranks;
        ORR_TRY(widen(plan, axis, rank, cluster, members, &span, err));
        ORR_TRY(widen(plan, axis, end - 1, cluster, members, &span, err));
        rank = end;
    }
    *ret = span;
    return ORR_OK;
}

static orr_status span_of_lists(const orr_plan *plan, orr_axis axis, const orr_cluster *cluster,
                                orr_span *ret, orr_error *err)
{
    uint32_t *ranks = orr_malloc((size_t)orr_plan_group_size(plan, axis) * sizeof *ranks);
    if (ranks == NULL)
        return orr_fail_memory(err);
    const orr_status status = widest(plan, axis, cluster, ranks, ret, err);
    orr_free(ranks);
    return status;
}

/* --- from strides ---------------------------------------------------------------------------- */

/* A group of a plan with cross=dp, where each site holds contiguous whole replicas: runs inside
 * of one replica, and one run from replica to replica, with `size` members that are `step`
 * replicas apart. */
typedef struct spread {
    orr_runs inside;
    uint32_t size, step;
} spread;

/* Does each group lie inside of one replica's part of the axis, or consist of whole such parts? */
static bool fits_replicas(const orr_axis_layout *l, uint32_t replica)
{
    uint32_t inside = 1;
    for (uint32_t i = 0; i < l->n_digits; i++) {
        const orr_digit digit = l->digits[i];
        if (digit.stride < replica && (uint64_t)digit.stride * digit.size > replica)
            return false;
        inside *= digit.stride < replica ? digit.size : 1;
    }
    const uint64_t group = (uint64_t)l->stride * l->size;
    return inside % group == 0 ||
           (group % inside == 0 && (l->stride % inside == 0 || inside % l->stride == 0));
}

static bool spread_of(const orr_plan *plan, const orr_axis_layout *l, uint32_t replica, spread *ret)
{
    orr_runs r;
    *ret = (spread){.size = 1, .step = 1};
    if (plan->order[ORR_BASE_AXES - 1] != ORR_AXIS_DP + 1 || !fits_replicas(l, replica) ||
        !orr_runs_of(l, &r))
        return false;
    for (uint32_t i = 0; i < r.n; i++) {
        const uint32_t stride = r.run[i].stride, size = r.run[i].size;
        if (stride < replica) {
            ret->inside.run[ret->inside.n++] = r.run[i];
            continue;
        }
        if (ret->size > 1 && stride != ret->size * ret->step * replica)
            return false;
        ret->step = ret->size > 1 ? ret->step : stride / replica;
        ret->size *= size;
    }
    return true;
}

/* Does every group have members on all sites, equally many on a site as every other group?
 * `common`: greatest common divisor of the sites' replicas. */
static bool reaches_all(const orr_plan *plan, const spread *s, uint32_t common)
{
    return s->size > 1 && s->size * s->step == plan->dp && common % s->step == 0;
}

/* Members of a group on a site with so many replicas. 0: groups differ. */
static uint32_t members_on(const orr_plan *plan, const spread *s, uint32_t replicas,
                           uint32_t common)
{
    if (s->size == 1)
        return 1;
    if (reaches_all(plan, s, common))
        return replicas / s->step;
    return common % (s->size * s->step) == 0 ? s->size : 0;
}

/* The span within one site. */
static bool span_of_site(const spread *s, uint32_t members, uint32_t replica,
                         const orr_cluster *cluster, orr_span *ret)
{
    orr_span span = {.n_levels = cluster->n_levels, .even = true};
    orr_runs r = s->inside;
    if (members > 1)
        r.run[r.n++] = (orr_digit){members, s->step * replica};
    for (uint32_t l = 0, below = 1; l < cluster->n_levels; l++) {
        const uint32_t devices = cluster->levels[l].devices;
        span.width[l] = 1;
        if (l > cluster->site_level)
            continue;
        if (l < cluster->site_level && !orr_runs_aligned(&r, devices))
            return false;
        span.width[l] = orr_runs_width(&r, below, devices, &span.even);
        below = devices;
    }
    *ret = span;
    return true;
}

/* Adds the levels above sites: every site of a region, and every region, takes part. */
static void span_above(const orr_cluster *cluster, orr_span *span)
{
    for (uint32_t l = cluster->site_level + 1; l < cluster->n_levels; l++) {
        span->width[l] = cluster->levels[l].size;
        uint32_t n = 0, unit_end = 0;
        for (uint32_t first = 0; first < cluster->n_devices && l == cluster->site_level + 1;) {
            const orr_device_range unit = orr_cluster_unit(cluster, l, first);
            if (unit.end != unit_end && n > 0)
                span->even &= n == cluster->levels[l].size;
            n = unit.end != unit_end ? 1 : n + 1;
            unit_end = unit.end;
            first = orr_cluster_unit(cluster, cluster->site_level, first).end;
        }
        span->even &= n == 0 || n == cluster->levels[l].size;
    }
}

/* Widens a span to that of another site; spans of unequal sites are not even. */
static void widen_to(orr_span *span, const orr_span *site)
{
    const bool wider = orr_span_is_wider(site, span);
    const bool equal = !wider && !orr_span_is_wider(span, site);
    const bool even = span->even && site->even && equal;
    if (wider)
        *span = *site;
    span->even = even;
}

static bool span_of_strides(const orr_plan *plan, orr_axis axis, const orr_cluster *cluster,
                            orr_span *ret)
{
    const orr_axis_layout l = orr_plan_axis_layout(plan, axis);
    const uint32_t n_ranks = (uint32_t)orr_plan_ranks(plan);
    const uint32_t replica = n_ranks / orr_plan_degree(plan->dp);
    orr_span span = {.n_levels = 0};
    uint32_t common = 0;
    spread s;
    if (plan->cross != ORR_CROSS_DP || !orr_plan_has_sites(plan) || n_ranks != cluster->n_devices ||
        !spread_of(plan, &l, replica, &s))
        return false;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        common = (uint32_t)orr_gcd(plan->sites[i], common);
    const bool crosses = reaches_all(plan, &s, common) && cluster->n_sites > 1;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++) {
        orr_span site;
        if (plan->sites[i] == 0 || (!crosses && span.n_levels > 0))
            continue;
        const uint32_t members = members_on(plan, &s, plan->sites[i], common);
        if (members == 0 || !span_of_site(&s, members, replica, cluster, &site))
            return false;
        if (span.n_levels == 0)
            span = site;
        else
            widen_to(&span, &site);
    }
    if (crosses)
        span_above(cluster, &span);
    span.n_ranks = l.size;
    for (uint32_t k = 0; k < span.n_levels; k++)
        span.top = span.width[k] > 1 ? k : span.top;
    *ret = span;
    return true;
}

orr_status orr_plan_site_span(const orr_plan *plan, orr_axis axis, const orr_cluster *cluster,
                              orr_span *ret, orr_error *err)
{
    orr_span span = {.n_ranks = 0};
    if (span_of_strides(plan, axis, cluster, ret))
        return ORR_OK;
    ORR_TRY(span_of_lists(plan, axis, cluster, &span, err));
    *ret = span;
    return ORR_OK;
}
