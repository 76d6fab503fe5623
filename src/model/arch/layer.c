/* SPDX-License-Identifier: Apache-2.0 */
/* The transformer layer, the embedding before the first layer, and the head after the last. */
#include "model/arch/transformer.h"

orr_value orr_write_activation(orr_draft *draft, orr_value x, int64_t ffn)
{
    switch (draft->job->model->activation) {
    case ORR_ACTIVATION_GELU:
        return ORR_CALL(draft, GELU, NULL, "gelu", x);
    case ORR_ACTIVATION_GELU_TANH:
        return ORR_CALL(draft, GELU, (&(orr_op_args){.tanh = true}), "gelu", x);
    case ORR_ACTIVATION_RELU:
        return ORR_CALL(draft, RELU, NULL, "relu", x);
    default:
        break;
    }
    if (draft->job->fused)
        return ORR_CALL(draft, SWIGLU, NULL, "swiglu", x);
    orr_value part[ORR_CALL_OUT];
    orr_write_split(draft, x, ORR_DIMS(ffn, ffn), part);
    return ORR_CALL(draft, MUL, NULL, "gate", ORR_CALL(draft, SILU, NULL, "silu", part[0]),
                    part[1]);
}

/* SwiGLU with two products, as torchtitan has it. */
static orr_value gated_apart(orr_draft *draft, orr_value x, int64_t ffn)
{
    orr_linear l = {.name = "gate_up",
                    .in = draft->job->model->hidden,
                    .out = ffn,
                    .slicing = ORR_BY_COLUMN,
                    .bias = draft->job->model->mlp_bias};
    const orr_value gate = orr_write_linear(draft, x, &l);
    l.name = "up";
    const orr_value up = orr_write_linear(draft, x, &l);
    return ORR_CALL(draft, MUL, NULL, "gate", ORR_CALL(draft, SILU, NULL, "silu", gate), up);
}

orr_value orr_write_mlp(orr_draft *draft, orr_value x, int64_t ffn)
{
    const orr_model *m = draft->job->model;
    const bool gated = m->activation == ORR_ACTIVATION_SWIGLU;
    const orr_linear down = {
        .name = "down", .in = ffn, .out = m->hidden, .slicing = ORR_BY_ROW, .bias = m->mlp_bias};
    if (gated && orr_draft_apart(draft))
        return orr_write_linear(draft, gated_apart(draft, x, ffn), &down);
    const orr_value up = orr_write_linear(draft, x,
                                          &(orr_linear){.name = gated ? "gate_up" : "up",
                                                        .in = m->hidden,
                                                        .out = gated ? 2 * ffn : ffn,
                                                        .slicing = ORR_BY_COLUMN,
                                                        .bias = m->mlp_bias,
                                                        .form = {.joined = gated ? 2 : 1}});
    return orr_write_linear(draft, orr_write_activation(draft, up, ffn), &down);
}

static orr_value feed_forward(orr_draft *draft, orr_value x, const orr_layer_kind *kind)
{
    return kind->moe ? orr_write_moe(draft, x) : orr_write_mlp(draft, x, draft->job->model->ffn);
}

static orr_value stream_input(orr_draft *draft, const char *name)
{
    const orr_job_shape *job = draft->job;
    const orr_layout stream = orr_draft_stream(draft);
    return orr_draft_input(draft, job->stream,
                           ORR_DIMS(job->samples, job->tokens, job->model->hidden), &stream, name);
}

static orr_value attention(orr_draft *draft, orr_value x, const orr_layer_kind *kind)
{
    if (kind->cross)
        return orr_write_cross_attention(draft, x);
    return draft->job->model->mla.kv_rank > 0 ? orr_write_mla(draft, x)
                                              : orr_write_attention(draft, x, &kind->visibility);
}

static orr_value add(orr_draft *draft, orr_value x, orr_value y, const orr_layer_kind *kind,
                     const char *name)
{
    return orr_write_residual(draft, x, kind->gated ? orr_write_gate(draft, y, name) : y, name);
}

orr_value orr_write_body(orr_draft *draft, orr_value x, const orr_layer_kind *kind)
{
    const orr_model *m = draft->job->model;
    orr_value normed = orr_write_norm(draft, x, m->hidden, "attention_norm");
    const orr_value seen = attention(draft, normed, kind);
    if (m->parallel_residual) { /* one norm for both branches */
        const orr_value y = feed_forward(draft, normed, kind);
        return add(draft, add(draft, x, seen, kind, "attention_add"), y, kind, "mlp_add");
    }
    x = add(draft, x, seen, kind, "attention_add");
    normed = orr_write_norm(draft, x, m->hidden, "mlp_norm");
    return add(draft, x, feed_forward(draft, normed, kind), kind, "mlp_add");
}

void orr_write_layer(orr_draft *draft, const orr_layer_kind *kind)
{
    draft->in = stream_input(draft, "hidden");
    draft->out = orr_write_body(draft, draft->in, kind);
}

static orr_value ids(orr_draft *draft, const char *name, bool sliced)
{
    const orr_job_shape *job = draft->job;
    const orr_layout tokens = {.by = {0, sliced
                                             ? orr_draft_stream(draft).by[1]
                                             : orr_draft_axes(draft, ORR_AXIS_CP, ORR_AXIS_NONE)}};
    return orr_draft_input(draft, ORR_DTYPE_INT64, ORR_DIMS(job->samples, job->tokens), &tokens,
                           name);
}

/* Vocabulary size, padded to a multiple of the slices as in Megatron-LM. */
static int64_t padded(const orr_draft *draft, int64_t rows)
{
    const int64_t slices = draft->job->how.members[ORR_AXIS_TP];
    return (rows + slices - 1) / slices * slices;
}

static int64_t vocabulary(const orr_draft *draft)
{
    return padded(draft, draft->job->model->vocab);
}

/* Image tokens replace placeholder tokens of the text: rows of all images of all samples, at the
 * positions of a token that the caller knows. The n-th placeholder can only be found where all
 * tokens are on one rank. */
static orr_value spliced(orr_draft *draft, orr_value x, orr_value tokens)
{
    const orr_job_shape *job = draft->job;
    const orr_model *m = job->model;
    const orr_layout whole = {0};
    if (!job->real || !job->serves || orr_images_of(job) == 0 || m->cross_layers > 0 ||
        m->vision.layers == 0 || job->workload->task == ORR_TASK_DECODE)
        return x;
    const int64_t rows =
        job->samples * orr_images_of(job) * m->vision.tiles * (int64_t)m->vision.tokens;
    const orr_value pictures =
        orr_draft_input(draft, job->stream, ORR_DIMS(rows, m->hidden), &whole, "pictures");
    return ORR_CALL(draft, MASKED_SCATTER, NULL, "pictures", orr_draft_set_layout(draft, x, &whole),
                    tokens, pictures);
}

static orr_value token_embedding(orr_draft *draft, orr_value table)
{
    const orr_layout stream = orr_draft_stream(draft);
    const orr_value tokens = ids(draft, "tokens", false);
    const orr_value x = ORR_CALL(draft, EMBEDDING, NULL, "embedding", table, tokens);
    return orr_draft_set_layout(draft, spliced(draft, x, tokens), &stream);
}

void orr_write_embedding(orr_draft *draft)
{
    const orr_model *m = draft->job->model;
    const int64_t rows = (int64_t)m->vocab + m->extra_tokens;
    draft->tag = m->tied ? ORR_WEIGHT_TIED : ORR_WEIGHT_DENSE;
    const orr_value tokens = orr_draft_weight(draft, ORR_DIMS(padded(draft, rows), m->hidden), 0,
                                              ORR_AXIS_TP, "embedding");
    orr_draft_packed_dim(draft, tokens, &(orr_packed_dim){.real = rows});
    draft->tag = ORR_WEIGHT_DENSE;
    orr_value x = token_embedding(draft, tokens);
    if (m->positions > 0) {
        const orr_value table = orr_draft_weight(draft, ORR_DIMS(m->positions, m->hidden), 0,
                                                 ORR_AXIS_NONE, "positions");
        x = ORR_CALL(
            draft, ADD, NULL, "positions", x,
            ORR_CALL(draft, EMBEDDING, NULL, "positions", table, ids(draft, "positions", true)));
    }
    draft->out = orr_write_dropout(draft, x, "embedding_dropout");
}

/* Loss of each token. */
static orr_value loss(orr_draft *draft, orr_value logits)
{
    if (orr_dtype_bytes(draft->job->stream) < 4)
        logits = ORR_CALL(draft, CAST, (&(orr_op_args){.dtype = ORR_DTYPE_FP32}), "logits", logits);
    const int64_t words = draft->job->model->vocab;
    const orr_op_args args = {.count = vocabulary(draft) > words ? words : 0};
    return ORR_CALL(draft, CROSS_ENTROPY, &args, "loss", logits, ids(draft, "targets", false));
}

/* Logits of the last token only, as serving needs. */
static orr_value last_token(orr_draft *draft, orr_value x)
{
    const orr_job_shape *job = draft->job;
    if (!job->serves || job->tokens == 1 || job->workload->all_logits)
        return x;
    const orr_op_args args = {.dim = 1, .begin = job->tokens - 1, .count = 1};
    return ORR_CALL(draft, SLICE, &args, "last token", x);
}

void orr_write_head(orr_draft *draft)
{
    const orr_model *m = draft->job->model;
    draft->in = stream_input(draft, "hidden");
    orr_value x = last_token(draft, draft->in);
    if (m->final_norm)
        x = orr_write_norm(draft, x, m->hidden, "final_norm");
    const orr_value logits =
        orr_write_linear(draft, x,
                         &(orr_linear){.name = "head",
                                       .in = m->hidden,
                                       .out = vocabulary(draft),
                                       .slicing = ORR_BY_COLUMN,
                                       .bias = m->head_bias,
                                       .exact = true,
                                       .turned = m->tied && draft->job->real,
                                       .tag = m->tied ? ORR_WEIGHT_TIED : ORR_WEIGHT_DENSE,
                                       .form = {.real = m->vocab}});
    orr_draft_packed_dim(draft, logits, &(orr_packed_dim){.dim = 2, .real = m->vocab});
    if (draft->job->serves)
        draft->out = logits;
    else
        draft->loss = loss(draft, logits);
}

/* Weights of another module: dims (V, D) sharded by V, or (D, V). */
static orr_value borrowed(orr_draft *draft, orr_dims dims, uint32_t dim, const char *name)
{
    orr_layout layout = {0};
    layout.by[dim] = orr_draft_axes(draft, ORR_AXIS_TP, ORR_AXIS_NONE);
    const orr_value table = orr_draft_input(draft, draft->job->stream, dims, &layout, name);
    orr_draft_packed_dim(draft, table,
                         &(orr_packed_dim){.dim = (uint8_t)dim, .real = draft->job->model->vocab});
    draft->shared[draft->n_shared++] = table;
    return table;
}

/* Multi-token prediction: a layer that predicts one more token from the activations and the
 * embedding of the next token, with the model's own embedding and head (DeepSeek-V3, arXiv
 * 2412.19437, section 2.2). The activations pass through unchanged. */
void orr_write_mtp(orr_draft *draft, const orr_layer_kind *kind)
{
    const orr_model *m = draft->job->model;
    draft->in = draft->out = stream_input(draft, "hidden");
    const orr_value table = borrowed(draft, ORR_DIMS(vocabulary(draft), m->hidden), 0, "embedding");
    const orr_value next = token_embedding(draft, table);
    const orr_value from_next = orr_write_norm(draft, next, m->hidden, "embedding_norm");
    const orr_value from_stream = orr_write_norm(draft, draft->in, m->hidden, "hidden_norm");
    const orr_op_args last = {.dim = 2};
    orr_value x = ORR_CALL(draft, CONCAT, &last, "mtp", from_next, from_stream);
    x = orr_write_linear(
        draft, x, &(orr_linear){.name = "mtp", .in = 2 * (int64_t)m->hidden, .out = m->hidden});
    x = orr_write_norm(draft, orr_write_body(draft, x, kind), m->hidden, "final_norm");
    const orr_value head = borrowed(draft, ORR_DIMS(m->hidden, vocabulary(draft)), 1, "head");
    draft->loss = loss(draft, ORR_CALL(draft, MATMUL, NULL, "head", x, head));
}
