/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "model/plan/plan.h"
#include "estimate/bound_family.h"

/* Refined family bound: the least bound of degrees (bound_degrees.c) of all stages, replicas and
 * schedules that a family has, in any layout. Area first: what is pruned by it, or by the
 * order-free bound, is not asked whether it has room.
 *
 * GPipe, which is never less than 1F1B, is left out where there is that; and groups but the
 * smallest and the whole, as in the search. */

typedef struct refinement {
    orr_estimator *e;
    const orr_family_scope *scope;
    double least_ns;
} refinement;

static bool may(const refinement *r, orr_schedule schedule)
{
    return r->scope->schedules >> schedule & 1;
}

/* A schedule that cannot be is none of the family's. */
static orr_status try_group(refinement *r, const orr_plan *degrees, orr_schedule schedule,
                            uint32_t chunks, uint32_t group, orr_error *err)
{
    orr_plan p = *degrees;
    double ns = INFINITY;
    p.schedule = (uint8_t)schedule;
    p.vp = chunks;
    p.group = group;
    orr_status status = orr_estimate_order_free_bound(r->e, &p, true, false, &ns, err);
    if (status == ORR_OK && ns < r->least_ns)
        status = orr_estimate_degrees_bound(r->e, &p, &r->scope->degrees, true, &ns, err);
    if (status == ORR_NO_MEMORY)
        return status;
    if (status == ORR_OK)
        r->least_ns = fmin(r->least_ns, ns);
    return ORR_OK;
}

static orr_status try_schedule(refinement *r, const orr_plan *p, orr_schedule schedule,
                               uint32_t chunks, orr_error *err)
{
    const uint32_t smallest = orr_schedule_smallest_group(p->pp, p->micro_batches);
    if (schedule != ORR_SCHEDULE_INTERLEAVED)
        return try_group(r, p, schedule, chunks, 0, err);
    ORR_TRY(try_group(r, p, schedule, chunks, smallest, err));
    return smallest == p->micro_batches ? ORR_OK
                                        : try_group(r, p, schedule, chunks, p->micro_batches, err);
}

static orr_status try_degrees(refinement *r, const orr_plan *p, orr_error *err)
{
    enum { MOST_CHUNKS = 32 };
    if (p->pp == 1)
        return try_schedule(r, p, ORR_SCHEDULE_1F1B, 1, err);
    for (uint32_t v = 2; v <= MOST_CHUNKS && p->pp * v <= r->e->model->layers + 2 &&
                         may(r, ORR_SCHEDULE_INTERLEAVED);
         v++)
        ORR_TRY(try_schedule(r, p, ORR_SCHEDULE_INTERLEAVED, v, err));
    if (may(r, ORR_SCHEDULE_ZB_V))
        ORR_TRY(try_schedule(r, p, ORR_SCHEDULE_ZB_V, 2, err));
    if (may(r, ORR_SCHEDULE_DUALPIPE))
        ORR_TRY(try_schedule(r, p, ORR_SCHEDULE_DUALPIPE, 2, err));
    if (may(r, ORR_SCHEDULE_ZB_H1))
        ORR_TRY(try_schedule(r, p, ORR_SCHEDULE_ZB_H1, 1, err));
    if (may(r, ORR_SCHEDULE_1F1B))
        return try_schedule(r, p, ORR_SCHEDULE_1F1B, 1, err);
    return may(r, ORR_SCHEDULE_GPIPE) ? try_schedule(r, p, ORR_SCHEDULE_GPIPE, 1, err) : ORR_OK;
}

/* Most replicas first: with fewer, each has more micro-batches. `area_ns`: of all devices. */
static orr_status try_stages(refinement *r, const orr_plan *family, double area_ns, uint32_t stages,
                             orr_error *err)
{
    const uint32_t samples = family->batch / family->micro_batch;
    const uint64_t slices = (uint64_t)family->tp * family->cp,
                   experts = (uint64_t)family->ep * family->etp,
                   most = r->scope->n_devices / (slices * stages);
    for (uint64_t dp = most < samples ? most : samples; dp > 0; dp--) {
        const double share = (double)(dp * slices * stages) / r->scope->n_devices;
        orr_plan p = *family;
        if (area_ns / share >= r->least_ns)
            break;
        if (samples % dp != 0 || slices * dp % experts != 0)
            continue;
        p.pp = stages;
        p.dp = (uint32_t)dp;
        p.micro_batches = samples / p.dp;
        ORR_TRY(try_degrees(r, &p, err));
    }
    return ORR_OK;
}

orr_status orr_estimate_refined_family_bound(orr_estimator *e, const orr_plan *plan,
                                             const orr_family_scope *scope, double *ret_ns,
                                             orr_error *err)
{
    refinement r = {e, scope, INFINITY};
    orr_family_parts parts;
    ORR_TRY(orr_family_parts_of(e, plan, scope->n_devices, &parts, err));
    *ret_ns = parts.bound_ns;
    if (parts.n_device_kinds != 1 || orr_plan_has_sections(plan))
        return ORR_OK;
    orr_plan family = *plan;
    family.tp = parts.plan.tp;
    family.cp = parts.plan.cp;
    family.ep = parts.plan.ep;
    family.etp = parts.plan.etp;
    family.micro_batch = parts.plan.micro_batch;
    const double area_ns = 0.98 * (parts.bound_ns - parts.rest_ns); /* jitter of fewer devices */
    for (uint32_t i = 0; i < scope->n_stages; i++)
        ORR_TRY(try_stages(&r, &family, area_ns, scope->stages[i], err));
    *ret_ns = fmax(r.least_ns, parts.bound_ns);
    return ORR_OK;
}
