/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include <orrery/explore.h>

#include "model/plan/plan.h"
#include "explore/evaluate/evaluator.h"

/* What was published beside what was found: plans of the same job, and the most of its class. */

static bool same_family(const char *a, const char *b)
{
    const size_t n = strcspn(a, "_");
    return n == strcspn(b, "_") && memcmp(a, b, n) == 0;
}

/* --- plans ----------------------------------------------------------------------------------- */

/* Batch and tokens of a sample, as the question fixes them; 0: it does not. */
static orr_plan question_of(const orr_explore_options *options)
{
    orr_plan plan = {0};
    if (options->fix == NULL || orr_plan_parse(options->fix, &plan, NULL) != ORR_OK)
        plan = (orr_plan){0};
    if (options->workload.seq > 0)
        plan.seq = options->workload.seq;
    return plan;
}

static bool is_of(const orr_published_plan *p, const orr_model *model, const orr_cluster *cluster,
                  const orr_explore_options *options, const orr_plan *question)
{
    const double devices = options->max_devices > 0 ? options->max_devices : cluster->n_devices;
    return strcmp(p->model, model->name) == 0 && same_family(p->device, cluster->device->name) &&
           orr_fact_or(&p->devices, 0) == devices &&
           (question->seq == 0 || question->seq == p->plan.seq);
}

static double measured_ns(const orr_published_plan *p, const orr_model *model)
{
    const double flops_per_s = orr_fact_or(&p->reached, NAN) * orr_fact_or(&p->devices, NAN);
    return orr_fact_or(&p->step, 1e9 * 3 * orr_model_flops(model, p->plan.seq, false) *
                                     p->plan.batch / flops_per_s);
}

static orr_status evaluate(orr_evaluator *evaluator, const orr_published_plan *p,
                           const orr_model *model, const orr_plan *question, orr_arena *arena,
                           orr_published_result *ret, orr_error *err)
{
    orr_plan plan = p->plan;
    orr_error why = {0};
    *ret = (orr_published_result){.published = p, .measured_step_ns = NAN};
    if (question->batch == 0 || question->batch == plan.batch)
        ret->measured_step_ns = measured_ns(p, model);
    else
        plan.batch = question->batch;
    const orr_status status = orr_evaluator_simulate(evaluator, &plan, &ret->explored, &why);
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(err);
    ret->explored.plan = plan;
    if (status != ORR_OK && (ret->why_not = orr_arena_printf(arena, "%s", why.text)) == NULL)
        return orr_fail_memory(err);
    ret->fits = status == ORR_OK && (ret->explored.usable_bytes < 0 ||
                                     ret->explored.peak_bytes <= ret->explored.usable_bytes);
    return ORR_OK;
}

orr_status orr_published_plans_of(const orr_published *published, const orr_model *model,
                                  const orr_cluster *cluster, const orr_explore_options *options,
                                  orr_arena *arena, const orr_published_result **ret,
                                  uint32_t *ret_n, orr_error *err)
{
    const orr_plan question = question_of(options);
    orr_published_result *results =
        orr_arena_array(arena, orr_published_result, published->n_plans);
    orr_evaluator *evaluator = NULL;
    orr_status status = results != NULL ? ORR_OK : orr_fail_memory(err);
    uint32_t n = 0;
    for (uint32_t i = 0; i < published->n_plans && status == ORR_OK; i++) {
        const orr_published_plan *p = published->plans[i];
        if (!is_of(p, model, cluster, options, &question))
            continue;
        if (evaluator == NULL)
            status = orr_evaluator_new(model, cluster, options, &evaluator, err);
        if (status == ORR_OK)
            status = evaluate(evaluator, p, model, &question, arena, &results[n++], err);
    }
    orr_evaluator_free(evaluator);
    if (status != ORR_OK)
        return status;
    *ret = results;
    *ret_n = n;
    return ORR_OK;
}

orr_status orr_explore_evaluate(const orr_model *model, const orr_cluster *cluster,
                                const orr_explore_options *options, const orr_plan *plan,
                                orr_explored *ret, orr_error *err)
{
    orr_evaluator *evaluator;
    ORR_TRY(orr_evaluator_new(model, cluster, options, &evaluator, err));
    const orr_status status = orr_evaluator_simulate(evaluator, plan, ret, err);
    orr_evaluator_free(evaluator);
    if (status == ORR_OK)
        ret->plan = *plan;
    return status;
}

/* --- records --------------------------------------------------------------------------------- */

/* Share of the peak of a record of the class; NAN: it is of another. */
static orr_status share_of(const orr_record *r, const orr_model *model, double peak,
                           orr_arena *arena, double *ret, orr_error *err)
{
    const bool mixture = model->moe.experts > 0;
    const orr_model *of = NULL;
    *ret = NAN;
    if (*r->model == '\0') {
        const orr_job_kind kind = mixture ? ORR_JOB_KIND_MIXTURE : ORR_JOB_KIND_DENSE;
        if (strcmp(r->kind, orr_job_kind_name(kind)) == 0)
            *ret = orr_fact_or(&r->mfu, NAN);
        return ORR_OK;
    }
    const orr_status status = orr_model_load(r->model, arena, &of, NULL);
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(err);
    if (status != ORR_OK || (of->moe.experts > 0) != mixture)
        return ORR_OK;
    const double seq = orr_fact_or(&r->seq, NAN);
    *ret = 3 * orr_model_flops(of, (uint32_t)seq, false) / seq * orr_fact_or(&r->rate, NAN) / peak;
    return ORR_OK;
}

orr_status orr_published_record_of(const orr_published *published, const orr_model *model,
                                   const orr_cluster *cluster, const orr_plan *plan,
                                   orr_arena *arena, double *ret_mfu_frac, const orr_record **ret,
                                   orr_error *err)
{
    const uint8_t precision = plan->precision != 0 ? plan->precision : ORR_PRECISION_BF16;
    const orr_dtype dtype = orr_precision_dtype(precision);
    const double peak = orr_fact_or(&cluster->device->peak_flops[dtype], NAN);
    double best = NAN;
    const orr_record *found = NULL;
    for (uint32_t i = 0; i < published->n_records; i++) {
        const orr_record *r = published->records[i];
        double share;
        if (!same_family(r->device, cluster->device->name) ||
            strcmp(r->precision, orr_dtype_name(dtype)) != 0)
            continue;
        ORR_TRY(share_of(r, model, peak, arena, &share, err));
        if (share > 0 && !(share <= best)) {
            best = share;
            found = r;
        }
    }
    *ret_mfu_frac = best;
    *ret = found;
    return ORR_OK;
}
