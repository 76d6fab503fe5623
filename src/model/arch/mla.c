/* SPDX-License-Identifier: Apache-2.0 */
/* Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1; V3, arXiv 2412.19437,
 * section 2.1.1): q, and k and v, are projected down to a narrow latent vector, normalised, and
 * projected up; part of q and k is rotated by position, and that part of k is shared by all
 * heads. */
#include "model/arch/transformer.h"

static orr_value up(orr_draft *draft, orr_value x, int64_t in, int64_t width, const char *name)
{
    const orr_job_shape *job = draft->job;
    const orr_value y = orr_write_linear(draft, x,
                                         &(orr_linear){.name = name,
                                                       .in = in,
                                                       .out = job->model->heads * width,
                                                       .slicing = ORR_BY_COLUMN,
                                                       .adapted = true});
    return orr_write_view(draft, y, ORR_DIMS(job->samples, job->tokens, job->model->heads, width));
}

static orr_value down(orr_draft *draft, orr_value x, int64_t width, const char *name)
{
    return orr_write_linear(
        draft, x,
        &(orr_linear){
            .name = name, .in = draft->job->model->hidden, .out = width, .adapted = true});
}

/* Queries (B, S, H, nope + rope). */
static orr_value queries(orr_draft *draft, orr_value x)
{
    const orr_model *m = draft->job->model;
    const orr_mla *mla = &m->mla;
    const int64_t width = (int64_t)mla->nope_dim + mla->rope_dim;
    int64_t in = m->hidden;
    if (mla->q_rank > 0) {
        in = mla->q_rank;
        x = orr_write_norm(draft, down(draft, x, in, "q_down"), in, "q_norm");
    }
    orr_value part[ORR_CALL_OUT];
    orr_write_split(draft, up(draft, x, in, width, "q_up"), ORR_DIMS(mla->nope_dim, mla->rope_dim),
                    part);
    const orr_op_args last = {.dim = 3};
    return ORR_CALL(draft, CONCAT, &last, "q", part[0], orr_write_rotary(draft, part[1], "q_rope"));
}

/* The rotated part of k: computed as one head, then expanded to all heads. */
static orr_value shared_key(orr_draft *draft, orr_value x)
{
    const orr_job_shape *job = draft->job;
    const int64_t width = job->model->mla.rope_dim;
    const orr_value one = orr_write_rotary(
        draft, orr_write_view(draft, x, ORR_DIMS(job->samples, job->tokens, 1, width)), "k_rope");
    const orr_value flat = orr_write_view(draft, one, ORR_DIMS(job->samples, job->tokens, width));
    const orr_op_args each = {.dim = 2, .count = job->model->heads};
    const orr_value all = ORR_CALL(draft, EXPAND, &each, "k_rope", flat);
    const orr_layout heads = {.by = {0, orr_draft_axes(draft, ORR_AXIS_CP, ORR_AXIS_NONE),
                                     orr_draft_axes(draft, ORR_AXIS_TP, ORR_AXIS_NONE)}};
    return orr_draft_set_layout(draft, all, &heads);
}

orr_value orr_write_mla(orr_draft *draft, orr_value x)
{
    const orr_job_shape *job = draft->job;
    const orr_model *m = job->model;
    const orr_mla *mla = &m->mla;
    const orr_value q = queries(draft, x);
    orr_value narrow[ORR_CALL_OUT], part[ORR_CALL_OUT];
    orr_write_split(draft, down(draft, x, (int64_t)mla->kv_rank + mla->rope_dim, "kv_down"),
                    ORR_DIMS(mla->kv_rank, mla->rope_dim), narrow);
    const orr_value normed = orr_write_norm(draft, narrow[0], mla->kv_rank, "kv_norm");
    orr_write_split(
        draft, up(draft, normed, mla->kv_rank, (int64_t)mla->nope_dim + mla->value_dim, "kv_up"),
        ORR_DIMS(mla->nope_dim, mla->value_dim), part);
    const orr_op_args last = {.dim = 3};
    const orr_value k = ORR_CALL(draft, CONCAT, &last, "k", part[0], shared_key(draft, narrow[1]));
    const orr_value y =
        orr_write_attention_core(draft, q, k, part[1], &(orr_visibility){.rotary = true});
    const int64_t width = (int64_t)m->heads * mla->value_dim;
    return orr_write_linear(draft,
                            orr_write_view(draft, y, ORR_DIMS(job->samples, job->tokens, width)),
                            &(orr_linear){.name = "attention_out",
                                          .in = width,
                                          .out = m->hidden,
                                          .slicing = ORR_BY_ROW,
                                          .adapted = true});
}
