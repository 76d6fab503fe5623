/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/plan/plan.h"
#include "estimate/estimate.h"

/* Small cache of the modules of a rank, with their tapes and memory, in order of last use. */

/* Key: the fields from which modules are built. */
static orr_memo_key key_of(const orr_plan *p)
{
    const uint32_t packed = p->sp | (uint32_t)p->precision << 4 | (uint32_t)p->recompute << 8 |
                            (uint32_t)p->fusion << 12 | (uint32_t)p->flash << 16 |
                            (uint32_t)p->cp_kind << 20 | (uint32_t)p->overlap_ep << 24 |
                            (uint32_t)p->pad_experts << 28;
    return (orr_memo_key){{p->tp,
                           p->cp,
                           p->dp,
                           p->ep,
                           p->etp,
                           p->micro_batch,
                           p->seq,
                           packed,
                           p->layers,
                           p->hidden,
                           p->ffn,
                           p->heads,
                           p->vocab,
                           p->capacity,
                           orr_estimate_saving(p),
                           p->expert_slots,
                           p->request_groups | (uint32_t)p->expert_policy << 24,
                           orr_estimate_order(p),
                           p->pp,
                           orr_plan_dp_inner(p)}};
}

static orr_status build(const orr_estimator *e, const orr_plan *plan, orr_cached_modules *ret,
                        orr_error *err)
{
    const orr_model *model;
    orr_workload workload = e->options.workload;
    workload.seq = plan->seq;
    ORR_TRY(orr_model_override(e->model, plan, ret->arena, &model, err));
    ORR_TRY(orr_modules_build(model, plan, &workload, ret->arena, &ret->row, err));
    if (ret->row.n_modules > ORR_ROW_MODULES)
        return orr_fail(err, ORR_LIMIT, "more than %d kinds of modules", ORR_ROW_MODULES);
    for (uint32_t i = 0; i < ret->row.n_modules; i++) {
        ORR_TRY(orr_module_memory_of_plan(&ret->row.modules[i], plan, &ret->memory[i], err));
        orr_module_weights_of(&ret->row.modules[i], &ret->weights[i]);
    }
    ret->sample_flops =
        orr_model_packed_flops(model, plan->seq, &ret->row.packed[0], &ret->row.packed[1]);
    return ORR_OK;
}

static orr_cached_modules *oldest(orr_estimator *e)
{
    orr_cached_modules *seat = &e->built[0];
    for (uint32_t i = 1; i < ORR_CACHED_MODULES; i++)
        if (e->built[i].used < seat->used)
            seat = &e->built[i];
    return seat;
}

/* Clears the arena but keeps its first block, in which modules fit. */
static orr_status clear(orr_cached_modules *seat, orr_error *err)
{
    enum { BLOCK_BYTES = 1 << 20 };
    seat->used = 0;
    if (seat->arena == NULL)
        seat->arena = orr_arena_new(BLOCK_BYTES, 0);
    if (seat->arena == NULL)
        return orr_fail_memory(err);
    orr_arena_reset(seat->arena);
    return ORR_OK;
}

orr_status orr_estimate_modules(orr_estimator *e, const orr_plan *plan,
                                const orr_cached_modules **ret, orr_error *err)
{
    const orr_memo_key key = key_of(plan);
    orr_cached_modules *seat = NULL;
    for (uint32_t i = 0; i < ORR_CACHED_MODULES; i++)
        if (e->built[i].used > 0 && memcmp(&e->built[i].key, &key, sizeof key) == 0)
            seat = &e->built[i];
    if (seat == NULL) {
        seat = oldest(e);
        ORR_TRY(clear(seat, err));
        ORR_TRY(build(e, plan, seat, err));
        seat->key = key;
    }
    seat->used = ++e->n_built;
    *ret = seat;
    return ORR_OK;
}
