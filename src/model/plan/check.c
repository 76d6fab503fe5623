/* SPDX-License-Identifier: Apache-2.0 */
#include "model/plan/plan.h"
#include "model/plan/check.h"
#include "model/schedule/schedule.h"

/* Checks of a plan for contradictions: degrees that do not divide, schedules that do not fit the
 * pipeline, layers that do not fill the stages. Fields of 0 are unknown and not checked. */

enum { MOST_SAMPLES = INT32_MAX };

static orr_status must_divide(uint64_t what, const char *of, uint64_t by, const char *into,
                              orr_error *err)
{
    if (what == 0 || by == 0 || what % by == 0)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID, "%llu %s do not divide into %llu %s",
                    (unsigned long long)what, of, (unsigned long long)by, into);
}

static orr_status check_shapes(const orr_plan *p, orr_error *err)
{
    ORR_TRY(must_divide(p->heads, "attention heads", p->tp, "tensor-parallel slices", err));
    ORR_TRY(must_divide(p->ffn, "columns of the feed-forward part", p->tp, "tensor-parallel slices",
                        err));
    ORR_TRY(must_divide(p->hidden, "hidden columns", p->heads, "attention heads", err));
    return must_divide(p->seq, "tokens of a sample", p->cp, "context-parallel slices", err);
}

static orr_status check_ranks(const orr_plan *p, orr_error *err)
{
    if (orr_plan_ranks(p) > (UINT32_C(1) << 24))
        return orr_fail(err, ORR_INVALID, "%u x %u x %u x %u are more than 2^24 ranks",
                        orr_plan_degree(p->tp), orr_plan_degree(p->cp), orr_plan_degree(p->dp),
                        orr_plan_degree(p->pp));
    const uint64_t of_a_stage = orr_plan_ranks(p) / orr_plan_degree(p->pp);
    const uint64_t slices = p->etp > 0 ? p->etp : p->ep > 1 ? orr_plan_degree(p->tp) : 1;
    const uint64_t of_experts = orr_plan_degree(p->ep) * slices;
    if (of_a_stage % of_experts == 0)
        return ORR_OK;
    if (slices > 1 && of_a_stage % orr_plan_degree(p->ep) == 0)
        return orr_fail(err, ORR_INVALID,
                        "ep=%u groups of experts in slices of %u (etp%s) need %llu ranks, and a "
                        "stage has tp x cp x dp = %llu: give etp=%u, or more replicas",
                        p->ep, (unsigned)slices, p->etp > 0 ? "" : ", as tp where not said",
                        (unsigned long long)of_experts, (unsigned long long)of_a_stage,
                        (unsigned)orr_gcd((int64_t)slices, (int64_t)(of_a_stage / p->ep)));
    return orr_fail(err, ORR_INVALID,
                    "ep=%u groups of experts do not divide the %llu ranks of a stage (tp x cp x "
                    "dp): ep has to be a divisor of them",
                    p->ep, (unsigned long long)of_a_stage);
}

static orr_status check_order(const orr_plan *p, orr_error *err)
{
    uint32_t seen = 0;
    if (!orr_plan_has_order(p))
        return ORR_OK;
    for (uint32_t i = 0; i < ORR_BASE_AXES; i++)
        if (p->order[i] >= 1 && p->order[i] <= ORR_BASE_AXES)
            seen |= 1U << p->order[i];
    if (seen == (1U << (ORR_BASE_AXES + 1)) - 2)
        return ORR_OK;
    return orr_fail(err, ORR_INVALID, "the order of a plan names tp, cp, dp and pp once each");
}

/* The embedding and the head may have a virtual stage to themselves; every other virtual stage
 * has at least one layer. */
static orr_status check_stages(const orr_plan *p, orr_error *err)
{
    const uint64_t stages = orr_plan_degree(p->pp);
    const uint64_t ends = (uint64_t)p->first_layers + p->last_layers;
    const uint64_t chunks = p->schedule == ORR_SCHEDULE_DUALPIPE ? 1 : orr_plan_degree(p->vp);
    if (p->layers == 0 || stages == 1)
        return ORR_OK;
    if (p->layers + 2 < stages * chunks)
        return orr_fail(err, ORR_INVALID, "%u layers cannot fill %llu stages%s", p->layers,
                        (unsigned long long)(stages * chunks), chunks > 1 ? " (pp x vp)" : "");
    const uint64_t others = stages - (p->first_layers > 0) - (p->last_layers > 0);
    if (ends == 0 || (ends <= p->layers && p->layers - ends >= others * chunks &&
                      (others > 0 || ends == p->layers)))
        return ORR_OK;
    return orr_fail(err, ORR_INVALID,
                    "%llu layers for the ends of the pipeline leave %lld of %u to the %llu other "
                    "stages",
                    (unsigned long long)ends, (long long)p->layers - (long long)ends, p->layers,
                    (unsigned long long)others);
}

static orr_status check_unequal_batch(const orr_plan *p, orr_error *err)
{
    const uint64_t n = orr_plan_step_micro_batches(p);
    const double samples = (double)n * orr_plan_degree(p->micro_batch);
    if (samples > MOST_SAMPLES)
        return orr_fail(err, ORR_INVALID, "%.4g samples a step are more than 2^31", samples);
    if (p->batch == 0 || n == 0)
        return ORR_OK;
    if (p->micro_batch > 0 && n * p->micro_batch != p->batch)
        return orr_fail(err, ORR_INVALID,
                        "a batch of %u: site_micro_batches are %llu micro-batches of %u in all",
                        p->batch, (unsigned long long)n, p->micro_batch);
    return must_divide(p->batch, "samples a step", n, "micro-batches of all sites", err);
}

static orr_status check_batch(const orr_plan *p, orr_error *err)
{
    if (orr_plan_has_site_micro_batches(p))
        return check_unequal_batch(p, err);
    const uint64_t replicas = orr_plan_degree(p->dp);
    const double samples =
        (double)replicas * orr_plan_degree(p->micro_batch) * orr_plan_degree(p->micro_batches);
    if (samples > MOST_SAMPLES)
        return orr_fail(err, ORR_INVALID, "%.4g samples a step are more than 2^31", samples);
    if (p->batch == 0)
        return ORR_OK;
    if (p->batch % replicas != 0)
        return orr_fail(err, ORR_INVALID, "a batch of %u does not divide into %u replicas",
                        p->batch, p->dp);
    const uint64_t of_one = p->batch / replicas;
    ORR_TRY(
        must_divide(of_one, "samples of a replica", p->micro_batch, "samples a micro-batch", err));
    if (p->micro_batch > 0 && p->micro_batches > 0 &&
        (uint64_t)p->micro_batch * p->micro_batches != of_one)
        return orr_fail(err, ORR_INVALID,
                        "a batch of %u over %llu replicas is %llu micro-batches of %u, not %u",
                        p->batch, (unsigned long long)replicas,
                        (unsigned long long)(of_one / p->micro_batch), p->micro_batch,
                        p->micro_batches);
    return ORR_OK;
}

static orr_status check_schedule(const orr_plan *p, orr_error *err)
{
    if (p->pp > 1 && p->micro_batches == 0 && p->batch == 0 && !orr_plan_has_site_micro_batches(p))
        return orr_fail(err, ORR_INVALID,
                        "%u pipeline stages need a number of micro-batches (micro_batches=8) or "
                        "a batch (batch=512)",
                        p->pp);
    const orr_plan whole = orr_plan_with_defaults(p);
    if (whole.micro_batches == 0)
        return ORR_OK;
    if (p->group > 0 && whole.schedule != ORR_SCHEDULE_INTERLEAVED)
        return orr_fail(err, ORR_INVALID, "group=%u goes with schedule=interleaved", p->group);
    const orr_schedule_spec spec = orr_plan_schedule(&whole);
    return orr_schedule_spec_check(&spec, err);
}

static orr_status check_sharding(const orr_plan *p, orr_error *err)
{
    const bool none = p->zero == 0 || p->zero == ORR_ZERO_NONE;
    if (p->zero > 3 && !none)
        return orr_fail(err, ORR_INVALID, "zero=%u: there are 0, 1, 2 and 3", p->zero);
    if (p->shards > 1 && none)
        return orr_fail(err, ORR_INVALID,
                        "shards=%u share what ZeRO shards: give zero=1, 2 or 3 as well", p->shards);
    const uint64_t ranks = (uint64_t)orr_plan_synchronous_replicas(p) * orr_plan_degree(p->cp);
    if (p->shards > 0 && ranks % p->shards != 0)
        return orr_fail(err, ORR_INVALID, "dp%s x cp = %llu ranks do not divide into %u shards",
                        p->local_steps > 1 ? " / dp_outer" : "", (unsigned long long)ranks,
                        p->shards);
    return ORR_OK;
}

static orr_status check_recomputation(const orr_plan *p, orr_error *err)
{
    if (p->recompute == ORR_RECOMPUTE_BLOCK && p->recompute_layers == 0)
        return orr_fail(err, ORR_INVALID,
                        "recompute=block: of how many layers of a chunk (recompute_layers=4)?");
    if (p->recompute_layers > 0 && p->recompute != 0 && p->recompute != ORR_RECOMPUTE_BLOCK)
        return orr_fail(err, ORR_INVALID, "recompute_layers=%u goes with recompute=block",
                        p->recompute_layers);
    if (p->recompute == ORR_RECOMPUTE_SOME && p->recompute_modules == 0)
        return orr_fail(err, ORR_INVALID,
                        "recompute=modules: of which (recompute_modules=layernorm-moe_act)?");
    if (p->recompute_modules > 0 && p->recompute != 0 && p->recompute != ORR_RECOMPUTE_SOME)
        return orr_fail(err, ORR_INVALID, "recompute_modules goes with recompute=modules");
    return ORR_OK;
}

orr_status orr_plan_check(const orr_plan *plan, orr_error *err)
{
    ORR_TRY(check_shapes(plan, err));
    ORR_TRY(check_ranks(plan, err));
    ORR_TRY(check_order(plan, err));
    ORR_TRY(orr_plan_check_sites(plan, err));
    ORR_TRY(orr_plan_check_site_micro_batches(plan, err));
    ORR_TRY(orr_plan_check_sections(plan, err));
    ORR_TRY(check_stages(plan, err));
    ORR_TRY(check_batch(plan, err));
    ORR_TRY(check_schedule(plan, err));
    ORR_TRY(check_sharding(plan, err));
    return check_recomputation(plan, err);
}
