/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head and grouped-query attention, cross-attention, and the attention core that all
 * variants share. */
#include "model/arch/transformer.h"

orr_value orr_write_rotary(orr_draft *draft, orr_value x, const char *name)
{
    const orr_job_shape *job = draft->job;
    const orr_model *m = job->model;
    const bool picture = job->outer != NULL, stretched = m->rope_factor > 0;
    const orr_op_args args = {.value = m->rope_theta,
                              .interleaved = m->rope_interleaved,
                              .stretch = stretched ? (float)m->rope_factor : 0,
                              .low = stretched ? (float)m->rope_low : 0,
                              .high = stretched ? (float)m->rope_high : 0,
                              .context = stretched ? m->rope_context : 0,
                              .size = picture ? m->vision.image / m->vision.patch : 0};
    return ORR_CALL(draft, ROTARY, &args, name, x);
}

/* Attention temperature tuning of layers without positions (Llama 4): queries far into the
 * context are scaled. Only the last of every tuned_floor tokens changes its factor, so the cost
 * is negligible. */
static orr_value tuned(orr_draft *draft, orr_value q, const orr_visibility *visibility)
{
    const orr_job_shape *job = draft->job;
    const orr_model *m = job->model;
    const int64_t reach = job->keys + (job->real ? 1 : 0);
    if (visibility->rotary || m->tuned_floor == 0 || reach <= m->tuned_floor)
        return q;
    const orr_op_args args = {.window = m->tuned_floor, .value = m->tuned_scale};
    return ORR_CALL(draft, ATTENTION_TEMPERATURE, &args, "q", q);
}

/* Norm over each head by itself. */
static orr_value head_norm(orr_draft *draft, orr_value x, const char *name)
{
    const orr_model *m = draft->job->model;
    const orr_op_args args = {.value = m->norm_epsilon};
    const orr_value w = orr_draft_weight(draft, ORR_DIMS(m->head_dim), 0, ORR_AXIS_NONE, name);
    return ORR_CALL(draft, RMS_NORM, &args, name, x, w);
}

static orr_value weightless_norm(orr_draft *draft, orr_value x, const char *name)
{
    const orr_model *m = draft->job->model;
    return ORR_CALL(draft, RMS_NORM, (&(orr_op_args){.value = m->norm_epsilon}), name, x);
}

static orr_value positioned(orr_draft *draft, orr_value x, const orr_visibility *visibility,
                            const char *name)
{
    const orr_model *m = draft->job->model;
    const bool turns = visibility->rotary && m->position == ORR_POSITION_ROTARY;
    if (m->qk_norm == 1)
        x = head_norm(draft, x, name);
    if (turns)
        x = orr_write_rotary(draft, x, name);
    /* Llama 4 normalises after the rotation, and only in layers that rotate. */
    return m->qk_norm == 2 && turns ? weightless_norm(draft, x, name) : x;
}

/* Position of the first token of this step: filled in at run time, or after all cached tokens. */
static int64_t first_position(const orr_job_shape *job)
{
    return job->workload->cache > 0 ? 0 : job->keys - job->tokens;
}

/* Keys and values of cached tokens, followed by those of this step. */
static orr_value cached(orr_draft *draft, orr_value fresh, const orr_visibility *visibility,
                        const char *name)
{
    const orr_job_shape *job = draft->job;
    const bool kept = job->keys > job->tokens || (job->workload->cache > 0 && job->serves);
    if (!kept || draft->status != ORR_OK || visibility->all)
        return fresh;
    const orr_type type = *orr_draft_type(draft, fresh);
    const orr_dtype dtype = job->real ? (orr_dtype)type.dtype : job->cached;
    const orr_layout heads = {
        .by = {0, orr_draft_axes(draft, ORR_AXIS_CP, ORR_AXIS_NONE),
               type.dim[2] > 1 ? orr_draft_axes(draft, ORR_AXIS_TP, ORR_AXIS_NONE) : 0}};
    const orr_value cache = orr_draft_input(
        draft, dtype, ORR_DIMS(type.dim[0], job->keys, type.dim[2], type.dim[3]), &heads, name);
    const orr_op_args args = {.offset = first_position(job)};
    return ORR_CALL(draft, CACHE, &args, name, cache, fresh);
}

/* A sliding window has as many visible pairs as chunks of twice its width. */
orr_value orr_write_attention_core(orr_draft *draft, orr_value q, orr_value k, orr_value v,
                                   const orr_visibility *visibility)
{
    const orr_job_shape *job = draft->job;
    const int64_t window = (int64_t)job->model->chunk * (job->model->sliding ? 2 : 1);
    orr_op_args args = {.mask = ORR_MASK_CAUSAL,
                        .flash = job->plan->flash == ORR_SWITCH_ON,
                        .offset = first_position(job),
                        .value = job->dropout ? ORR_DROPOUT : 0};
    if (visibility->all) {
        args.mask = ORR_MASK_NONE;
        args.offset = 0;
    } else if (visibility->chunked && window > 0 && window < job->keys) {
        args.mask = ORR_MASK_CHUNKED;
        args.window = window;
    }
    if (!visibility->all) {
        const orr_packed_pairs *packed = &job->packed[args.mask == ORR_MASK_CHUNKED];
        args.seen = packed->seen_frac;
        args.uneven = packed->uneven;
    }
    k = cached(draft, k, visibility, "key cache");
    v = cached(draft, v, visibility, "value cache");
    return ORR_CALL(draft, ATTENTION, &args, "attention", q, k, v);
}

/* Key-value heads on all ranks together. Where there are more slices than key-value heads, each
 * slice has a copy. */
static int64_t groups_of(const orr_job_shape *job)
{
    const uint32_t slices = job->how.members[ORR_AXIS_TP];
    return job->model->kv_heads < slices ? slices : job->model->kv_heads;
}

/* The packed dim of a fused projection: `lead` columns for each query head of a group, followed
 * by `shared` columns of its key and value. */
static orr_packed_dim form_of(const orr_job_shape *job, int64_t lead, int64_t shared)
{
    const uint32_t groups = job->model->kv_heads, slices = job->how.members[ORR_AXIS_TP];
    if (groups >= slices)
        return (orr_packed_dim){0};
    const int64_t heads = job->model->heads / groups;
    return (orr_packed_dim){.copies = slices / groups, .lead = heads * lead, .shared = shared};
}

/* Self-attention with one fused projection for q, k and v in Megatron-LM's layout, where the
 * heads of a group stand before their key and value: slices are whole groups. As in Megatron-LM,
 * v stays a view of the fused output, which is therefore saved although q and k were rotated. */
orr_value orr_write_attention(orr_draft *draft, orr_value x, const orr_visibility *visibility)
{
    const orr_job_shape *job = draft->job;
    const orr_model *m = job->model;
    const int64_t b = job->samples, s = job->tokens, w = m->head_dim, heads = m->heads;
    const int64_t groups = groups_of(job), each = heads / groups;
    const orr_value qkv = orr_write_linear(draft, x,
                                           &(orr_linear){.name = "qkv",
                                                         .in = m->hidden,
                                                         .out = (heads + 2 * groups) * w,
                                                         .slicing = ORR_BY_COLUMN,
                                                         .bias = m->qkv_bias,
                                                         .adapted = true,
                                                         .form = form_of(job, w, 2 * w)});
    orr_value part[ORR_CALL_OUT];
    orr_write_split(draft, orr_write_view(draft, qkv, ORR_DIMS(b, s, groups, (each + 2) * w)),
                    ORR_DIMS(each * w, w, w), part);
    orr_value q = orr_write_view(draft, part[0], ORR_DIMS(b, s, heads, w));
    q = tuned(draft, positioned(draft, q, visibility, "q"), visibility);
    const orr_value k = positioned(draft, part[1], visibility, "k");
    const orr_value y = orr_write_attention_core(draft, q, k, part[2], visibility);
    return orr_write_linear(draft, orr_write_view(draft, y, ORR_DIMS(b, s, heads * w)),
                            &(orr_linear){.name = "attention_out",
                                          .in = heads * w,
                                          .out = m->hidden,
                                          .slicing = ORR_BY_ROW,
                                          .bias = m->output_bias,
                                          .adapted = true});
}

/* Keys and values of image tokens: constant while tokens are generated. */
static orr_value of_pictures(orr_draft *draft, int64_t tokens, orr_value *ret)
{
    const orr_job_shape *job = draft->job;
    const orr_model *m = job->model;
    const int64_t b = job->samples, g = groups_of(job), w = m->head_dim;
    const orr_layout whole = {0};
    const orr_layout heads = {.by = {0, 0, orr_draft_axes(draft, ORR_AXIS_TP, ORR_AXIS_NONE)}};
    if (job->workload->task == ORR_TASK_DECODE) {
        ret[1] =
            orr_draft_input(draft, job->stream, ORR_DIMS(b, tokens, g, w), &heads, "value cache");
        return orr_draft_input(draft, job->stream, ORR_DIMS(b, tokens, g, w), &heads, "key cache");
    }
    const orr_value x =
        orr_draft_input(draft, job->stream, ORR_DIMS(b, tokens, m->hidden), &whole, "pictures");
    draft->shared[draft->n_shared++] = x;
    const orr_value kv = orr_write_linear(draft, x,
                                          &(orr_linear){.name = "kv",
                                                        .in = m->hidden,
                                                        .out = 2 * g * w,
                                                        .slicing = ORR_BY_COLUMN,
                                                        .adapted = true,
                                                        .form = form_of(job, 0, 2 * w)});
    orr_value part[ORR_CALL_OUT];
    orr_write_split(draft, orr_write_view(draft, kv, ORR_DIMS(b, tokens, g, 2 * w)), ORR_DIMS(w, w),
                    part);
    ret[1] = part[1];
    return head_norm(draft, part[0], "k");
}

orr_value orr_write_cross_attention(orr_draft *draft, orr_value x)
{
    const orr_job_shape *job = draft->job;
    const orr_model *m = job->model;
    const int64_t b = job->samples, s = job->tokens, width = (int64_t)m->heads * m->head_dim;
    const int64_t tokens = (int64_t)orr_images_of(job) * m->vision.tiles * m->vision.tokens;
    const orr_value q = orr_write_linear(
        draft, x,
        &(orr_linear){
            .name = "q", .in = m->hidden, .out = width, .slicing = ORR_BY_COLUMN, .adapted = true});
    const orr_value heads =
        head_norm(draft, orr_write_view(draft, q, ORR_DIMS(b, s, m->heads, m->head_dim)), "q");
    orr_value kv[2];
    kv[0] = of_pictures(draft, tokens, kv);
    const orr_value y =
        orr_write_attention_core(draft, heads, kv[0], kv[1], &(orr_visibility){.all = true});
    return orr_write_linear(draft, orr_write_view(draft, y, ORR_DIMS(b, s, width)),
                            &(orr_linear){.name = "attention_out",
                                          .in = width,
                                          .out = m->hidden,
                                          .slicing = ORR_BY_ROW,
                                          .adapted = true});
}
