/* SPDX-License-Identifier: Apache-2.0 */
/* Building blocks of layers: linear layers, norms, residuals, quantised operands. */
#include "model/arch/transformer.h"

#include <string.h>

orr_value orr_write_view(orr_draft *draft, orr_value x, orr_dims dims)
{
    orr_type shape = {.rank = (uint8_t)dims.rank};
    memcpy(shape.dim, dims.dim, sizeof shape.dim);
    return ORR_CALL(draft, VIEW, (&(orr_op_args){.shape = &shape}), "", x);
}

void orr_write_split(orr_draft *draft, orr_value x, orr_dims sizes, orr_value *ret)
{
    orr_type shape = {.rank = (uint8_t)sizes.rank};
    memcpy(shape.dim, sizes.dim, sizeof shape.dim);
    const orr_op_args args = {.shape = &shape, .dim = orr_draft_type(draft, x)->rank - 1};
    orr_draft_call_all(draft, ORR_OP_SPLIT, &args, "", 1, &x, ret);
}

uint32_t orr_write_scale_block(const orr_draft *draft)
{
    switch (draft->job->plan->precision) {
    case ORR_PRECISION_MXFP8:
        return 32;
    case ORR_PRECISION_FP4:
        return 16;
    default:
        return 0;
    }
}

static bool is_quantised(const orr_draft *draft)
{
    return orr_dtype_bytes(draft->job->product) <= 1;
}

void orr_write_operand(orr_draft *draft, orr_value x, orr_value *ret, orr_value *ret_scale)
{
    *ret = x;
    *ret_scale = ORR_NONE;
    if (!is_quantised(draft))
        return;
    orr_value out[ORR_CALL_OUT];
    const orr_op_args args = {.dtype = (uint8_t)draft->job->product,
                              .size = orr_write_scale_block(draft)};
    orr_draft_call_all(draft, ORR_OP_QUANTIZE, &args, "quantize", 1, &x, out);
    *ret = out[0];
    *ret_scale = out[1];
}

/* Weights are quantised once after each optimizer step, not for each micro-batch: they come in
 * the dtype of products, with scales that are constants on the tape. */
void orr_write_weight(orr_draft *draft, orr_dims dims, uint32_t dim, orr_axis axis, bool exact,
                      const char *name, orr_value *ret, orr_value *ret_scale)
{
    *ret = orr_draft_weight(draft, dims, dim, axis, name);
    *ret_scale = ORR_NONE;
    if (exact || !is_quantised(draft) || *ret == ORR_NONE)
        return;
    draft->tape.values[*ret].type.dtype = (uint8_t)draft->job->product;
    *ret_scale = orr_draft_scale(draft, name);
}

/* Marks the packed dims of a linear layer; `dim` of the value is the layer's output. */
static void form_columns(orr_draft *draft, orr_value value, const orr_linear *l, uint8_t dim)
{
    orr_packed_dim form = l->form;
    form.dim = dim;
    orr_draft_packed_dim(draft, value, &form);
}

static orr_value product(orr_draft *draft, orr_value x, const orr_linear *l)
{
    orr_value w, scale_w, scale_x = ORR_NONE;
    const uint8_t tag = draft->tag, columns = l->turned ? 0 : 1;
    draft->tag = l->tag;
    orr_write_weight(draft, l->turned ? ORR_DIMS(l->out, l->in) : ORR_DIMS(l->in, l->out),
                     l->slicing == ORR_BY_ROW ? 1u - columns : columns,
                     l->slicing == ORR_BY_NONE ? ORR_AXIS_NONE : ORR_AXIS_TP, l->exact, l->name, &w,
                     &scale_w);
    form_columns(draft, w, l, columns);
    draft->tag = tag;
    if (!l->exact)
        orr_write_operand(draft, x, &x, &scale_x);
    const orr_op_args args = {.transpose_b = l->turned,
                              .size = scale_x == ORR_NONE ? 0 : orr_write_scale_block(draft)};
    const orr_value in[] = {x, w, scale_x, scale_w};
    return orr_draft_call(draft, ORR_OP_MATMUL, &args, l->name, scale_x == ORR_NONE ? 2 : 4, in);
}

/* LoRA (Hu et al., arXiv 2106.09685): y + (x A) B, A (in, r), B (r, out), where the layer itself
 * is frozen. */
static orr_value adapter(orr_draft *draft, orr_value x, const orr_linear *l)
{
    const orr_workload *w = draft->job->workload;
    const int64_t rank = w->lora_rank > 0 ? w->lora_rank : 16;
    const bool frozen = draft->frozen;
    draft->frozen = false;
    const orr_value a =
        orr_draft_weight(draft, ORR_DIMS(l->in, rank), 0,
                         l->slicing == ORR_BY_ROW ? ORR_AXIS_TP : ORR_AXIS_NONE, "lora_a");
    const orr_value b =
        orr_draft_weight(draft, ORR_DIMS(rank, l->out), 1,
                         l->slicing == ORR_BY_COLUMN ? ORR_AXIS_TP : ORR_AXIS_NONE, "lora_b");
    form_columns(draft, b, l, 1);
    draft->frozen = frozen;
    const orr_value down = ORR_CALL(draft, MATMUL, NULL, "lora_a", x, a);
    const orr_layout stream = orr_draft_stream(draft);
    if (l->slicing == ORR_BY_ROW)
        orr_draft_set_layout(draft, down, &stream);
    return ORR_CALL(draft, MATMUL, NULL, "lora_b", down, b);
}

static bool is_adapted(const orr_draft *draft, const orr_linear *l)
{
    return draft->job->workload->task == ORR_TASK_LORA &&
           (l->adapted || (draft->job->workload->lora_all && !l->exact));
}

orr_value orr_write_linear(orr_draft *draft, orr_value x, const orr_linear *l)
{
    const orr_layout stream = orr_draft_stream(draft);
    orr_value y = product(draft, x, l);
    if (l->slicing == ORR_BY_ROW)
        y = orr_draft_set_layout(draft, y, &stream);
    if (is_adapted(draft, l))
        y = ORR_CALL(draft, ADD, NULL, "lora", y, adapter(draft, x, l));
    if (!l->bias)
        return y;
    const orr_axis axis = l->slicing == ORR_BY_COLUMN ? ORR_AXIS_TP : ORR_AXIS_NONE;
    const orr_value bias = orr_draft_weight(draft, ORR_DIMS(l->out), 0, axis, l->name);
    form_columns(draft, bias, l, 0);
    return ORR_CALL(draft, BIAS, NULL, l->name, y, bias);
}

/* Eager PyTorch computes an RMS norm in fp32, with casts before and after. */
orr_value orr_write_norm(orr_draft *draft, orr_value x, int64_t width, const char *name)
{
    const orr_model *m = draft->job->model;
    const orr_op_args args = {.value = m->norm_epsilon};
    const orr_value w = orr_draft_weight(draft, ORR_DIMS(width), 0, ORR_AXIS_NONE, name);
    if (m->norm == ORR_NORM_LAYER) {
        if (!m->norm_bias)
            return ORR_CALL(draft, LAYER_NORM, &args, name, x, w);
        const orr_value b = orr_draft_weight(draft, ORR_DIMS(width), 0, ORR_AXIS_NONE, name);
        return ORR_CALL(draft, LAYER_NORM, &args, name, x, w, b);
    }
    if (draft->job->fused)
        return ORR_CALL(draft, RMS_NORM, &args, name, x, w);
    const orr_op_args wide = {.dtype = ORR_DTYPE_FP32};
    const orr_op_args back = {.dtype = (uint8_t)draft->job->stream};
    const orr_value y =
        ORR_CALL(draft, RMS_NORM, &args, name, ORR_CALL(draft, CAST, &wide, name, x), w);
    return ORR_CALL(draft, CAST, &back, name, y);
}

orr_value orr_write_dropout(orr_draft *draft, orr_value x, const char *name)
{
    if (!draft->job->dropout)
        return x;
    return ORR_CALL(draft, DROPOUT, (&(orr_op_args){.value = ORR_DROPOUT}), name, x);
}

orr_value orr_write_gate(orr_draft *draft, orr_value x, const char *name)
{
    const orr_value gate = orr_draft_weight(draft, ORR_DIMS(1, 1, 1), 0, ORR_AXIS_NONE, name);
    return ORR_CALL(draft, MUL, NULL, name, x, gate);
}

orr_value orr_write_residual(orr_draft *draft, orr_value x, orr_value y, const char *name)
{
    return ORR_CALL(draft, ADD, NULL, name, x, orr_write_dropout(draft, y, name));
}
