/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "model/experts/skew.h"
#include "model/module/draft.h"
#include "model/plan/plan.h"

/* The job shape that all modules share, from plan and workload. */

enum { LONGEST_BY_DEFAULT = 8192 };

static int64_t sample_tokens(const orr_model *model, const orr_plan *plan,
                             const orr_workload *workload)
{
    if (workload->seq > 0 || plan->seq > 0)
        return workload->seq > 0 ? workload->seq : plan->seq;
    const uint32_t most = model->context > 0 ? model->context : 1;
    return most < LONGEST_BY_DEFAULT ? most : LONGEST_BY_DEFAULT;
}

static orr_dtype stream_of(orr_precision precision)
{
    switch (precision) {
    case ORR_PRECISION_FP32:
        return ORR_DTYPE_FP32;
    case ORR_PRECISION_TF32:
        return ORR_DTYPE_TF32;
    case ORR_PRECISION_FP16:
        return ORR_DTYPE_FP16;
    default:
        return ORR_DTYPE_BF16;
    }
}

/* Is the model trained with dropout? GPT-3 and Megatron-LM's models of before flash attention
 * are (Shoeybi et al., arXiv 1909.08053, section 4; Korthikanti et al., arXiv 2205.05198, figure
 * 2). Later runs of the same shapes are not: MLPerf's has 0 (mlcommons/training,
 * large_language_model/megatron-lm/run_gpt3.sh). */
static bool is_dropped(const orr_model *model, const orr_plan *plan)
{
    return model->family != NULL && plan->flash == ORR_SWITCH_OFF &&
           (strncmp(model->family, "gpt3", 4) == 0 || strncmp(model->family, "megatron", 8) == 0);
}

static orr_axis_set axes(const uint32_t *members, orr_axis axis)
{
    return members[axis] > 1 ? orr_axis_bit(axis) : 0;
}

static orr_sharding sharding_of(const orr_plan *plan, bool backward)
{
    orr_sharding how = {.backward = backward};
    for (int axis = 0; axis < ORR_AXES; axis++)
        how.members[axis] = orr_plan_group_size(plan, (orr_axis)axis);
    how.experts = axes(how.members, ORR_AXIS_EP);
    how.expert_slices = axes(how.members, ORR_AXIS_ETP);
    if (plan->cp_kind == ORR_CONTEXT_RING)
        how.ring = axes(how.members, ORR_AXIS_CP);
    if (plan->overlap_ep == ORR_SWITCH_ON)
        how.overlapped = how.experts;
    return how;
}

static orr_status set_tokens(orr_job_shape *job, orr_error *err)
{
    const orr_workload *w = job->workload;
    job->samples = job->plan->micro_batch > 0 ? job->plan->micro_batch : 1;
    job->tokens = job->keys = sample_tokens(job->model, job->plan, w);
    if (w->task == ORR_TASK_PREFILL && w->prompt > 0) {
        job->tokens = job->keys = w->prompt;
        job->serves = true;
        if (w->cache > 0 && job->how.members[ORR_AXIS_CP] > 1)
            return orr_fail(err, ORR_UNSUPPORTED, "a cache is not sliced by context (cp)");
    }
    if (w->task == ORR_TASK_DECODE) {
        job->keys = (w->prompt > 0 ? w->prompt : job->tokens) + 1;
        job->tokens = 1;
        job->serves = true;
        if (job->how.members[ORR_AXIS_CP] > 1)
            return orr_fail(
                err, ORR_UNSUPPORTED,
                "context parallelism slices prompts, not the one token of a decoding step");
    }
    if (job->serves && w->cache > 0) {
        if (w->cache < job->tokens)
            return orr_fail(err, ORR_INVALID, "%lld tokens do not fit into a cache of %u",
                            (long long)job->tokens, w->cache);
        job->keys = w->cache;
    }
    const uint32_t slices = job->how.members[ORR_AXIS_TP] * job->how.members[ORR_AXIS_CP];
    const bool divides = job->tokens % slices == 0;
    job->sequence = job->plan->sp == ORR_SWITCH_ON && (divides || !job->serves);
    if (job->model->kind == ORR_MODEL_TRANSFORMER && job->sequence && !divides)
        return orr_fail(err, ORR_INVALID, "%lld tokens do not divide into %u slices (tp x cp)",
                        (long long)job->tokens, slices);
    return ORR_OK;
}

static orr_status must_divide(int64_t what, const char *of, uint32_t into, const char *slices,
                              orr_error *err)
{
    if (what % into == 0 || (what > 0 && into % what == 0))
        return ORR_OK;
    return orr_fail(err, ORR_INVALID, "%lld %s do not divide into %u %s", (long long)what, of, into,
                    slices);
}

static orr_status check_slices(const orr_job_shape *job, orr_error *err)
{
    const orr_model *m = job->model;
    const uint32_t tp = job->how.members[ORR_AXIS_TP], ep = job->how.members[ORR_AXIS_EP];
    if (m->kind != ORR_MODEL_TRANSFORMER)
        return ORR_OK;
    if (m->heads % tp != 0)
        return orr_fail(err, ORR_INVALID, "%u attention heads do not divide into %u slices (tp)",
                        m->heads, tp);
    if (m->moe.experts == 0 ? ep > 1 : m->moe.experts % ep != 0)
        return orr_fail(err, ORR_INVALID, "%u experts do not divide over %u ranks (ep)",
                        m->moe.experts, ep);
    return must_divide(m->kv_heads, "heads of keys and values", tp, "slices (tp)", err);
}

/* Rejects what can be simulated but not executed. */
static orr_status check_real(const orr_job_shape *job, orr_error *err)
{
    const orr_model *m = job->model;
    const char *what = NULL;
    if (m->kind != ORR_MODEL_TRANSFORMER)
        return ORR_OK;
    if (m->position == ORR_POSITION_ALIBI)
        what = "positions as slopes (ALiBi)";
    else if (m->sinks)
        what = "attention sinks";
    else if (m->sliding && m->chunk > 0 && m->chunk < job->keys)
        what = "windows that slide";
    else if (m->rope_factor < 0 && m->position == ORR_POSITION_ROTARY)
        what = "this scaling of rotary positions";
    else if (m->cross_layers > 0 && job->serves)
        what = "cross-attention to pictures, while tokens are generated,";
    return what == NULL ? ORR_OK
                        : orr_fail(err, ORR_UNSUPPORTED, "%s: %s cannot be run", m->name, what);
}

static orr_dtype cached_of(const orr_plan *plan)
{
    return plan->kv_cache_dtype != ORR_PRECISION_UNKNOWN
               ? orr_precision_dtype(plan->kv_cache_dtype)
               : stream_of((orr_precision)plan->precision);
}

static orr_status pack_documents(orr_job_shape *job, orr_arena *arena, orr_error *err)
{
    const orr_workload *w = job->workload;
    const orr_model *m = job->model;
    orr_packing how = {.seq = (uint32_t)job->tokens,
                       .slices = job->how.members[ORR_AXIS_CP],
                       .samples = (uint32_t)job->samples};
    job->packed[0] = job->packed[1] = (orr_packed_pairs){1, 1};
    if (w->documents == NULL)
        return ORR_OK;
    if (m->kind != ORR_MODEL_TRANSFORMER || job->real ||
        (w->task != ORR_TASK_PRETRAIN && w->task != ORR_TASK_SFT && w->task != ORR_TASK_LORA))
        return orr_fail(err, ORR_UNSUPPORTED,
                        "only training of language models (pretrain, sft, lora), simulated, has "
                        "samples packed of documents");
    if (job->plan->flash == ORR_SWITCH_OFF)
        return ORR_OK;
    ORR_TRY(orr_packed_pairs_of(w->documents, &how, arena, &job->packed[0], err));
    how.window = m->chunk;
    how.sliding = m->sliding;
    if (m->chunk == 0 || m->chunk >= how.seq)
        return ORR_OK;
    return orr_packed_pairs_of(w->documents, &how, arena, &job->packed[1], err);
}

orr_status orr_job_shape_of(const orr_model *model, const orr_plan *plan,
                            const orr_workload *workload, orr_arena *arena, orr_job_shape *ret,
                            orr_error *err)
{
    const uint8_t task = workload->task;
    orr_job_shape job = {.model = model,
                         .plan = plan,
                         .workload = workload,
                         .stream = stream_of((orr_precision)plan->precision),
                         .product = orr_precision_dtype(plan->precision),
                         .cached = cached_of(plan),
                         .fused = plan->fusion != ORR_SWITCH_OFF,
                         .trained = task != ORR_TASK_PREFILL && task != ORR_TASK_DECODE};
    job.dropout = job.trained && is_dropped(model, plan);
    job.how = sharding_of(plan, job.trained);
    ORR_TRY(check_slices(&job, err));
    job.real = workload->real || workload->cache > 0;
    ORR_TRY(set_tokens(&job, err));
    if (job.real)
        ORR_TRY(check_real(&job, err));
    ORR_TRY(pack_documents(&job, arena, err));
    job.even_rows = model->moe.experts > 0 ? orr_expert_even_rows(plan) : 1;
    *ret = job;
    return ORR_OK;
}
