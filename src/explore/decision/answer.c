/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "explore/explore.h"
#include "model/plan/plan.h"

/* What the answer of a search means: the decision between its candidates and the published plans,
 * records of their classes, and what fp8 would bring. */

static bool is_among(const orr_explored *plans, uint32_t n, const orr_plan *plan)
{
    const orr_plan wanted = orr_plan_without_defaults(plan);
    for (uint32_t i = 0; i < n; i++) {
        const orr_plan other = orr_plan_without_defaults(&plans[i].plan);
        if (orr_plan_equal(&other, &wanted))
            return true;
    }
    return false;
}

/* Candidates, and published plans that a search could have found. */
static orr_status gather(const orr_exploration *x, const orr_explore_options *o,
                         const orr_explore_answer *a, orr_arena *arena, orr_explored **ret,
                         uint32_t *ret_n, orr_error *err)
{
    const orr_explored *from = x->n_candidates > x->n ? x->candidates : x->best;
    uint32_t most = x->n_candidates > x->n ? x->n_candidates : x->n;
    while (most > 0 && !(from[most - 1].value[o->objective] > 0)) /* they stand last */
        most--;
    if (most == 0 && x->n > 0)
        return orr_fail(err, ORR_INVALID, "the objective of no plan is known");
    orr_explored *plans = orr_arena_array(arena, orr_explored, most + a->n_published);
    if (plans == NULL)
        return orr_fail_memory(err);
    if (most > 0)
        memcpy(plans, from, most * sizeof *plans);
    *ret_n = most;
    for (uint32_t i = 0; i < a->n_published; i++) {
        const orr_published_result *p = &a->published[i];
        if (p->fits && p->explored.value[o->objective] > 0 &&
            !is_among(plans, *ret_n, &p->explored.plan))
            plans[(*ret_n)++] = p->explored;
    }
    *ret = plans;
    return ORR_OK;
}

static orr_status find_records(const orr_published *published, const orr_model *model,
                               const orr_cluster *cluster, uint32_t n, orr_arena *arena,
                               orr_explore_answer *a, orr_error *err)
{
    double *shares = orr_arena_array(arena, double, n);
    const orr_record *record;
    if (shares == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        ORR_TRY(orr_published_record_of(published, model, cluster, &a->plans[i].plan, arena,
                                        &shares[i], &record, err));
        if (i == 0)
            a->record = record;
    }
    a->record_mfu_frac = shares;
    return ORR_OK;
}

/* --- fp8 ------------------------------------------------------------------------------------- */

static orr_status may_be_fp8(const orr_model *model, const orr_cluster *cluster,
                             const orr_explore_options *o, const orr_plan *plan, bool *ret,
                             orr_error *err)
{
    orr_space_constraints constraints;
    const uint8_t precision = plan->precision != 0 ? plan->precision : ORR_PRECISION_BF16;
    const orr_dtype dtype = orr_precision_dtype(precision);
    *ret = dtype == ORR_DTYPE_BF16 || dtype == ORR_DTYPE_FP16;
    for (uint32_t i = 0; i < cluster->n_sites; i++)
        *ret &= orr_fact_or(&cluster->sites[i].device->peak_flops[ORR_DTYPE_FP8], 0) > 0;
    *ret &= orr_fact_or(&cluster->device->peak_flops[ORR_DTYPE_FP8], 0) > 0;
    ORR_TRY(orr_space_read_constraints(o, &constraints, err));
    for (uint32_t i = 0; i < constraints.n_excluded; i++)
        *ret &= constraints.excluded[i].field != ORR_AT_precision ||
                constraints.excluded[i].value != ORR_PRECISION_FP8;
    orr_plan changed = *plan;
    changed.precision = ORR_PRECISION_FP8;
    *ret &= constraints.rules == NULL ||
            orr_framework_verify(constraints.rules, model, &changed, NULL) == ORR_OK;
    return ORR_OK;
}

static orr_status try_fp8(const orr_model *model, const orr_cluster *cluster,
                          const orr_explore_options *o, const orr_explored *best,
                          orr_explore_answer *a, orr_error *err)
{
    orr_plan plan = best->plan;
    bool may;
    ORR_TRY(may_be_fp8(model, cluster, o, &plan, &may, err));
    if (!may)
        return ORR_OK;
    plan.precision = ORR_PRECISION_FP8;
    const orr_status status = orr_explore_evaluate(model, cluster, o, &plan, &a->fp8, NULL);
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(err);
    a->has_fp8 = status == ORR_OK;
    a->fp8_fits = a->has_fp8 && orr_explored_fits(&a->fp8, 0);
    return ORR_OK;
}

/* --- all of it ------------------------------------------------------------------------------- */

orr_status orr_explore_answer_of(const orr_model *model, const orr_cluster *cluster,
                                 const orr_explore_options *options,
                                 const orr_exploration *exploration,
                                 const orr_decision_options *how, orr_arena *arena,
                                 orr_explore_answer *ret, orr_error *err)
{
    orr_explore_answer made = {0};
    orr_published published;
    orr_explored *plans;
    uint32_t n;
    ORR_TRY(orr_published_open(NULL, arena, &published, err));
    ORR_TRY(orr_published_plans_of(&published, model, cluster, options, arena, &made.published,
                                   &made.n_published, err));
    ORR_TRY(gather(exploration, options, &made, arena, &plans, &n, err));
    made.plans = plans;
    if (n == 0) {
        *ret = made;
        return ORR_OK;
    }
    ORR_TRY(orr_explore_decide(model, cluster, options, plans, n, how, arena, &made.decision, err));
    ORR_TRY(find_records(&published, model, cluster, n, arena, &made, err));
    ORR_TRY(try_fp8(model, cluster, options, &plans[0], &made, err));
    *ret = made;
    return ORR_OK;
}
