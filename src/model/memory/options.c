/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "model/memory/memory.h"
#include "model/plan/plan.h"

/* Memory options: changes of a few fields of a plan that free memory (recomputation, ZeRO stage,
 * offload, other degrees), with as many ranks and the same batch. */
enum { CHANGES_MAX = 24 };
typedef struct changes {
    orr_plan all[CHANGES_MAX]; /* only the changed fields are set */
    uint32_t n;
} changes;

static void propose(changes *c, orr_plan change)
{
    if (c->n < CHANGES_MAX)
        c->all[c->n++] = change;
}

/* What is cheap to compute again: elementwise kernels, and products out of narrow latents. */
enum {
    CHEAP = 1 << ORR_RECOMPUTE_MODULE_layernorm | 1 << ORR_RECOMPUTE_MODULE_mlp_act |
            1 << ORR_RECOMPUTE_MODULE_moe_act | 1 << ORR_RECOMPUTE_MODULE_mla_up_proj
};

static void propose_recompute(changes *c, const orr_plan *from)
{
    if (from->recompute == ORR_RECOMPUTE_NONE) {
        propose(c, (orr_plan){.recompute = ORR_RECOMPUTE_SELECTIVE});
        propose(c, (orr_plan){.recompute = ORR_RECOMPUTE_SOME, .recompute_modules = CHEAP});
    }
    if (from->recompute != ORR_RECOMPUTE_FULL)
        propose(c, (orr_plan){.recompute = ORR_RECOMPUTE_FULL});
    if (from->flash == ORR_SWITCH_OFF)
        propose(c, (orr_plan){.flash = ORR_SWITCH_ON});
}

static void propose_states(changes *c, const orr_plan *from)
{
    for (uint32_t zero = from->zero + 1; zero <= 3; zero++)
        propose(c, (orr_plan){.zero = zero});
    if (from->exp_avg_dtype == 0 && from->exp_avg_sq_dtype == 0)
        propose(c, (orr_plan){.exp_avg_dtype = ORR_PRECISION_BF16,
                              .exp_avg_sq_dtype = ORR_PRECISION_BF16});
    if (from->gradients == ORR_PRECISION_FP32)
        propose(c, (orr_plan){.gradients = ORR_PRECISION_BF16});
    const uint32_t ranks = orr_plan_synchronous_replicas(from) * from->cp;
    if (from->zero > 0 && from->shards > 0 && from->shards < ranks)
        propose(c, (orr_plan){.shards = ranks});
    if (from->zero == 3 && from->reshard == ORR_SWITCH_OFF)
        propose(c, (orr_plan){.reshard = ORR_SWITCH_ON});
}

static void propose_offload(changes *c, const orr_plan *from)
{
    for (uint8_t offload = ORR_OFFLOAD_OPTIMIZER; offload <= ORR_OFFLOAD_BOTH; offload++)
        if (offload != from->offload &&
            (from->offload == ORR_OFFLOAD_NONE || offload == ORR_OFFLOAD_BOTH))
            propose(c, (orr_plan){.offload = offload});
}

static void propose_pipeline(changes *c, const orr_plan *from)
{
    if (from->micro_batch % 2 == 0 && !orr_plan_has_site_micro_batches(from))
        propose(c, (orr_plan){.micro_batch = from->micro_batch / 2,
                              .micro_batches = from->micro_batches * 2});
    if (from->vp > 1)
        propose(c, (orr_plan){.vp = 1, .schedule = ORR_SCHEDULE_1F1B});
    else if (from->pp > 1 && from->schedule != ORR_SCHEDULE_1F1B)
        propose(c, (orr_plan){.schedule = ORR_SCHEDULE_1F1B});
    if (from->sp == ORR_SWITCH_OFF && from->tp > 1)
        propose(c, (orr_plan){.sp = ORR_SWITCH_ON});
}

/* Halves the replicas, also those of sites. False: a site has an odd number, or
 * micro-batches of its own. */
static bool halve(const orr_plan *from, orr_plan *ret)
{
    *ret = (orr_plan){.dp = from->dp / 2, .micro_batches = from->micro_batches * 2};
    if (orr_plan_has_site_micro_batches(from))
        return false;
    for (uint32_t i = 0; i < ORR_PLAN_PARTS && from->cross == ORR_CROSS_DP; i++) {
        ret->sites[i] = from->sites[i] / 2;
        if (from->sites[i] % 2 != 0)
            return false;
    }
    return from->dp % 2 == 0;
}

/* Half the replicas, and twice another degree: a replica then has twice the samples. */
static void propose_degrees(changes *c, const orr_plan *from)
{
    orr_plan half;
    if (from->ep > 0)
        propose(c, (orr_plan){.ep = from->ep * 2});
    if (!halve(from, &half))
        return;
    orr_plan tp = half, pp = half, cp = half;
    tp.tp = from->tp * 2;
    if (from->etp == from->tp && from->ep > 1)
        tp.etp = tp.tp;
    pp.pp = from->pp * 2;
    cp.cp = from->cp * 2;
    propose(c, tp);
    propose(c, pp);
    propose(c, cp);
}

/* The complete changed plan; fields that follow from changed ones are derived again. */
static orr_plan applied(const orr_plan *from, const orr_plan *change)
{
    orr_plan plan = orr_plan_override(from, change);
    plan.group = 0;
    if (change->shards == 0 && from->shards == orr_plan_synchronous_replicas(from) * from->cp)
        plan.shards = 0;
    if (change->zero > 0)
        plan.prefetch = 0;
    if (change->recompute != ORR_RECOMPUTE_UNKNOWN) {
        plan.recompute_layers = 0;
        plan.recompute_modules = change->recompute_modules;
    }
    if (from->etp == from->tp)
        plan.etp = plan.tp;
    if (from->ep <= 1 && change->ep == 0)
        plan.ep = 1;
    return orr_plan_with_defaults(&plan);
}

/* Measures one change. A change that the model or the schedule does not allow is no option, and
 * no error. */
static orr_status try_change(const orr_model *model, const orr_plan *from, const orr_plan *change,
                             const orr_workload *workload, const orr_device *device,
                             int64_t peak_bytes, orr_memory_plan_option *ret)
{
    const orr_plan plan = applied(from, change);
    orr_memory_plan made;
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return ORR_NO_MEMORY;
    orr_status status = orr_plan_check(&plan, NULL);
    if (status == ORR_OK)
        status = orr_memory_plan_estimate(model, &plan, workload, device, arena, &made, NULL);
    *ret = (orr_memory_plan_option){0};
    if (status == ORR_OK) {
        ret->peak_bytes = made.stages[made.worst].peak_bytes;
        ret->freed_bytes = peak_bytes - ret->peak_bytes;
        ret->fits = made.fits;
    }
    orr_arena_free(arena);
    return status == ORR_NO_MEMORY ? status : ORR_OK;
}

static int most_first(const void *a_, const void *b_)
{
    const orr_memory_plan_option *a = a_, *b = b_;
    if (a->freed_bytes != b->freed_bytes)
        return a->freed_bytes > b->freed_bytes ? -1 : 1;
    return strcmp(a->change, b->change);
}

orr_status orr_memory_plan_options(const orr_model *model, const orr_plan *plan,
                                   const orr_workload *workload, const orr_device *device,
                                   const orr_memory_plan *now, orr_arena *arena,
                                   const orr_memory_plan_option **ret, uint32_t *ret_n,
                                   orr_error *err)
{
    changes c = {.n = 0};
    const bool trains = orr_task_trains(workload->task);
    if (trains) {
        propose_recompute(&c, plan);
        propose_states(&c, plan);
        propose_offload(&c, plan);
    }
    propose_pipeline(&c, plan);
    propose_degrees(&c, plan);
    orr_memory_plan_option *options = orr_arena_array(arena, orr_memory_plan_option, c.n);
    if (options == NULL)
        return orr_fail_memory(err);
    uint32_t n = 0;
    for (uint32_t i = 0; i < c.n; i++) {
        orr_memory_plan_option *r = &options[n];
        if (try_change(model, plan, &c.all[i], workload, device, now->stages[now->worst].peak_bytes,
                       r) != ORR_OK)
            return orr_fail_memory(err);
        if (r->freed_bytes <= 0)
            continue;
        r->change = orr_plan_text(&c.all[i], arena);
        if (r->change == NULL)
            return orr_fail_memory(err);
        n++;
    }
    qsort(options, n, sizeof *options, most_first);
    *ret = options;
    *ret_n = n;
    return ORR_OK;
}
