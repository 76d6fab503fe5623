/* SPDX-License-Identifier: Apache-2.0 */
/* Mixture of experts: router, dispatch of tokens to experts and combination of results, shared
 * experts. */
#include "model/arch/transformer.h"

typedef struct routed {
    orr_value scores, indices; /* both (B, S, K) */
} routed;

/* Correction bias of the router, which changes the choice of experts and not their weights:
 * adjusted by load, not by a gradient. */
static orr_value balance(orr_draft *draft)
{
    const bool frozen = draft->frozen;
    draft->frozen = true;
    const orr_value bias = orr_draft_weight(draft, ORR_DIMS(draft->job->model->moe.experts), 0,
                                            ORR_AXIS_NONE, "router_bias");
    draft->frozen = frozen;
    return bias;
}

/* Router. Scores are computed in fp32 (Fedus et al., arXiv 2101.03961, section 2.4). */
static routed route(orr_draft *draft, orr_value x)
{
    const orr_model *m = draft->job->model;
    const orr_moe *moe = &m->moe;
    const orr_value logits = orr_write_linear(draft, x,
                                              &(orr_linear){.name = "router",
                                                            .in = m->hidden,
                                                            .out = moe->experts,
                                                            .bias = moe->biases,
                                                            .exact = true});
    const bool grouped = moe->groups > 1;
    const orr_op_args args = {.top_k = moe->top_k,
                              .op = moe->router == ORR_ROUTER_SIGMOID ? ORR_OP_SIGMOID : 0,
                              .count = grouped ? moe->groups : 0,
                              .begin = grouped ? moe->top_groups : 0};
    const orr_value wide =
        ORR_CALL(draft, CAST, (&(orr_op_args){.dtype = ORR_DTYPE_FP32}), "router", logits);
    orr_value out[ORR_CALL_OUT];
    const orr_value in[] = {wide, moe->router_bias ? balance(draft) : ORR_NONE};
    orr_draft_call_all(draft, ORR_OP_TOP_K, &args, "router", moe->router_bias ? 2 : 1, in, out);
    return (routed){out[0], out[1]};
}

/* Rows sorted by expert, as an operand of products. */
typedef struct sorted {
    orr_value x, scale; /* ORR_NONE: not quantised */
    orr_value counts;   /* ORR_NONE: all experts have equally many rows */
    orr_value weights;  /* score of each row, (rows, 1); ORR_NONE: applied elsewhere */
} sorted;

/* Grouped matrix product: each row with the weights of its expert. `slicing`: of every expert's
 * weights. */
static orr_value expert_linear(orr_draft *draft, const sorted *rows, int64_t in, int64_t out,
                               orr_slicing slicing, const char *name)
{
    orr_value w, scale_w;
    orr_write_weight(draft, ORR_DIMS(draft->job->model->moe.experts, in, out),
                     slicing == ORR_BY_ROW ? 1 : 2, ORR_AXIS_ETP, false, name, &w, &scale_w);
    const bool gated = draft->job->model->activation == ORR_ACTIVATION_SWIGLU;
    if (slicing == ORR_BY_COLUMN)
        orr_draft_packed_dim(draft, w, &(orr_packed_dim){.dim = 2, .joined = gated ? 2 : 1});
    if (w != ORR_NONE)
        draft->layouts.of[w].by[0] = draft->job->how.experts;
    const orr_op_args args = {.size = orr_write_scale_block(draft)};
    orr_value operands[5] = {rows->x, w};
    uint32_t n = 2;
    if (rows->counts != ORR_NONE)
        operands[n++] = rows->counts;
    if (rows->scale != ORR_NONE) {
        operands[n++] = rows->scale;
        operands[n++] = scale_w;
    }
    return orr_draft_call(draft, ORR_OP_GROUPED_MATMUL, &args, name, n, operands);
}

/* Rows of a rank under even routing. */
static int64_t sorted_rows(const orr_job_shape *job)
{
    const double rows = (double)job->samples * (double)job->tokens * job->model->moe.top_k;
    const int64_t parts = job->how.members[ORR_AXIS_TP] * (int64_t)job->how.members[ORR_AXIS_CP] *
                          job->how.members[ORR_AXIS_EP];
    const int64_t most = (int64_t)(rows * job->even_rows / (double)parts + 0.999999);
    return most * parts;
}

/* Sizes of the dispatched rows on one device. For execution the sharding pass replaces them by
 * blocks with room for all rows (shard/rules_experts.c). */
static orr_op_args laid(const orr_job_shape *job)
{
    const orr_moe *moe = &job->model->moe;
    if (!job->real)
        return (orr_op_args){.count = sorted_rows(job)};
    return (orr_op_args){
        .count = job->samples * job->tokens * moe->top_k, .experts = moe->experts, .members = 1};
}

/* Scores of the sorted rows. In training they weigh the activation within an expert, as in
 * Megatron-Core (experts.py, permuted_probs): their gradient then needs none of the experts'
 * outputs, which are not saved. */
static orr_value sorted_scores(orr_draft *draft, const routed *r, const orr_op_args *rows)
{
    const orr_job_shape *job = draft->job;
    const orr_layout stream = orr_draft_stream(draft);
    const orr_type shape = {
        .dtype = (uint8_t)job->stream, .rank = 3, .dim = {job->samples, job->tokens, 1}};
    const orr_op_args one = {.value = 1, .shape = &shape};
    orr_value out[ORR_CALL_OUT];
    const orr_value ones = orr_draft_set_layout(
        draft, orr_draft_call(draft, ORR_OP_FILL, &one, "weigh", 0, NULL), &stream);
    const orr_value in[] = {ones, r->indices, r->scores};
    orr_draft_call_all(draft, ORR_OP_DISPATCH, rows, "weigh", 3, in, out);
    return out[0];
}

/* Tokens sorted by expert, in the form in which they are sent. */
static sorted dispatch(orr_draft *draft, orr_value x, const routed *r)
{
    const orr_op_args rows = laid(draft->job);
    const orr_value in[] = {x, r->indices, r->scores};
    orr_value out[ORR_CALL_OUT];
    sorted ret;
    orr_draft_call_all(draft, ORR_OP_DISPATCH, &rows, "dispatch",
                       draft->job->model->moe.scales_input ? 3 : 2, in, out);
    orr_write_operand(draft, out[0], &ret.x, &ret.scale);
    ret.counts = out[1];
    ret.weights = ORR_NONE;
    if (draft->job->trained && !draft->job->model->moe.scales_input)
        ret.weights = sorted_scores(draft, r, &rows);
    return ret;
}

static orr_value experts(orr_draft *draft, const sorted *tokens, const routed *r)
{
    const orr_job_shape *job = draft->job;
    const orr_moe *moe = &job->model->moe;
    const bool gated = job->model->activation == ORR_ACTIVATION_SWIGLU;
    const orr_op_args rows = laid(job);
    sorted inner = {.counts = tokens->counts};
    draft->tag = ORR_WEIGHT_EXPERT;
    orr_value y =
        expert_linear(draft, tokens, job->model->hidden, (gated ? 2 : 1) * (int64_t)moe->expert_ffn,
                      ORR_BY_COLUMN, "expert_gate_up");
    y = orr_write_activation(draft, y, moe->expert_ffn);
    if (tokens->weights != ORR_NONE)
        y = ORR_CALL(draft, MUL, NULL, "swiglu", y, tokens->weights);
    orr_write_operand(draft, y, &inner.x, &inner.scale);
    y = expert_linear(draft, &inner, moe->expert_ffn, job->model->hidden, ORR_BY_ROW,
                      "expert_down");
    draft->tag = ORR_WEIGHT_DENSE;
    const bool scored = moe->scales_input || tokens->weights != ORR_NONE;
    return scored ? ORR_CALL(draft, COMBINE, &rows, "combine", y, r->indices)
                  : ORR_CALL(draft, COMBINE, &rows, "combine", y, r->indices, r->scores);
}

/* Shared experts: one expert as wide as all of them together, which sees every token. */
static orr_value shared_experts(orr_draft *draft, orr_value x)
{
    const orr_model *m = draft->job->model;
    const orr_value y = orr_write_mlp(draft, x, (int64_t)m->moe.shared * m->moe.shared_ffn);
    if (!m->moe.shared_gate)
        return y;
    const orr_value gate = orr_write_linear(
        draft, x, &(orr_linear){.name = "shared_gate", .in = m->hidden, .out = 1, .exact = true});
    return ORR_CALL(draft, MUL, NULL, "shared_gate", y,
                    ORR_CALL(draft, SIGMOID, NULL, "shared_gate", gate));
}

/* Where transfers overlap, the shared experts come between the dispatch of tokens and the experts
 * that wait for them (Megatron-Core, --moe-shared-expert-overlap). */
orr_value orr_write_moe(orr_draft *draft, orr_value x)
{
    const routed r = route(draft, x);
    const orr_layout stream = orr_draft_stream(draft);
    const bool shares = draft->job->model->moe.shared > 0;
    const bool beside = draft->job->plan->overlap_ep == ORR_SWITCH_ON;
    orr_value all = ORR_NONE;
    if (shares && !beside)
        all = shared_experts(draft, x);
    const sorted tokens = dispatch(draft, x, &r);
    if (shares && beside)
        all = shared_experts(draft, x);
    const orr_value chosen = orr_draft_set_layout(draft, experts(draft, &tokens, &r), &stream);
    return shares ? ORR_CALL(draft, ADD, NULL, "experts_add", chosen, all) : chosen;
}
