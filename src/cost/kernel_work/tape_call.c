/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/calibration.h>

#include "cost/kernel_work/work.h"
#include "op/families/tensor_rows.h"

/* Work of calls on tapes: FLOPs and bytes are those of the operator's row; family and dims are
 * those that cost models know. Views and collectives have no work. */
typedef void (*describe)(const orr_op_signature *sig, orr_work *work);

static void elements_out(const orr_op_signature *sig, orr_work *work)
{
    ORR_SET_DIMS(work, orr_type_elements(&sig->out[0]));
}

static void elements_in(const orr_op_signature *sig, orr_work *work)
{
    ORR_SET_DIMS(work, orr_type_elements(&sig->in[0]));
}

static void set_rows(const orr_type *type, orr_work *work)
{
    ORR_SET_DIMS(work, orr_type_rows(type), orr_type_columns(type));
}

static void rows_in(const orr_op_signature *sig, orr_work *work)
{
    set_rows(&sig->in[0], work);
}

/* Rows of the forward input, which comes after the gradient. */
static void rows_of_second(const orr_op_signature *sig, orr_work *work)
{
    set_rows(&sig->in[1], work);
}

static void channels(const orr_op_signature *sig, orr_work *work)
{
    const orr_type *x = &sig->in[work->backward ? 1 : 0];
    ORR_SET_DIMS(work, x->dim[1], orr_type_elements(x) / (x->dim[1] > 0 ? x->dim[1] : 1));
}

/* A single matrix multiplies all batches: the leading dims are rows of one product. */
static void product(const orr_op_signature *sig, orr_work *work)
{
    const orr_type *x = &sig->in[0], *w = &sig->in[1], *y = &sig->out[0];
    const bool one = w->rank == 2;
    const int64_t leading = orr_type_span(y, 0, y->rank - 2u), m = y->dim[y->rank - 2];
    const int64_t k = x->dim[sig->args->transpose_a ? x->rank - 2 : x->rank - 1];
    ORR_SET_DIMS(work, one ? 1 : leading, one ? leading * m : m, orr_type_columns(y), k);
}

/* One product for each expert, as if all had equally many tokens. Gradients of weights sum over
 * these. */
static void grouped_product(const orr_op_signature *sig, orr_work *work)
{
    const orr_type *x = &sig->in[0], *y = &sig->out[0];
    const bool of_weights = sig->args->transpose_a;
    const int64_t experts = of_weights ? y->dim[0] : sig->in[1].dim[0];
    const int64_t tokens = experts > 0 ? orr_ceil_div(x->dim[0], experts) : 0;
    work->backward = of_weights;
    if (of_weights)
        ORR_SET_DIMS(work, experts, y->dim[1], y->dim[2], tokens);
    else
        ORR_SET_DIMS(work, experts, tokens, y->dim[1], x->dim[1]);
}

static void attention(const orr_op_signature *sig, orr_work *work)
{
    const orr_type *q = &sig->in[work->backward ? 1 : 0], *k = q + 1;
    ORR_SET_DIMS(work, q->dim[0], q->dim[2], q->dim[1], k->dim[1], q->dim[3]);
}

static void embedding(const orr_op_signature *sig, orr_work *work)
{
    const orr_type *table = &sig->in[0];
    ORR_SET_DIMS(work, orr_type_elements(&sig->in[1]), table->dim[0], 1, table->dim[1], 1);
}

/* Bags (B, D) or (B, F, D). In the backward pass the table's size is unknown: as many rows as
 * are looked up. */
static void bags(const orr_op_signature *sig, orr_work *work)
{
    const orr_type *y = work->backward ? &sig->in[0] : &sig->out[0];
    const int64_t tables = y->rank > 2 ? y->dim[1] : 1, count = orr_type_rows(y);
    const int64_t ids = orr_type_elements(&sig->in[1]), given = sig->args->count;
    const int64_t pooling =
        given > 0 ? orr_ceil_div(given, 1024) : orr_ceil_div(ids, count > 0 ? count : 1);
    const int64_t rows = (work->backward ? ids : sig->in[0].dim[0]) / (tables > 0 ? tables : 1);
    ORR_SET_DIMS(work, y->dim[0], rows, pooling, orr_type_columns(y), tables);
}

static void pairs(const orr_op_signature *sig, orr_work *work)
{
    const orr_type *x = &sig->in[0];
    ORR_SET_DIMS(work, x->dim[0], x->dim[1], x->dim[1]);
}

static void set_convolution(const orr_op_signature *sig, const orr_type *x, const orr_type *w,
                            orr_work *work)
{
    const int64_t stride = sig->args->stride > 0 ? sig->args->stride : 1;
    ORR_SET_DIMS(work, x->dim[0], x->dim[1], x->dim[2], x->dim[3], w->dim[0], w->dim[2], w->dim[3],
                 stride);
}

static void convolution(const orr_op_signature *sig, orr_work *work)
{
    set_convolution(sig, &sig->in[0], &sig->in[1], work);
}

static void convolution_input(const orr_op_signature *sig, orr_work *work)
{
    set_convolution(sig, &sig->out[0], &sig->in[1], work);
}

static void convolution_weight(const orr_op_signature *sig, orr_work *work)
{
    set_convolution(sig, &sig->in[0], &sig->out[0], work);
}

/* (..., dim, between, to_dim, ...) as transposed matrices. */
static void transposed(const orr_op_signature *sig, orr_work *work)
{
    const orr_type *x = &sig->in[0];
    const uint32_t a = (uint32_t)sig->args->dim, b = (uint32_t)sig->args->to_dim;
    const uint32_t first = a < b ? a : b, second = a < b ? b : a;
    ORR_SET_DIMS(work, orr_type_span(x, 0, first), orr_type_span(x, first, second),
                 orr_type_span(x, second, x->rank));
}

static void bytes_written(const orr_op_signature *sig, orr_work *work)
{
    (void)sig;
    work->copy = ORR_COPY_DTOD;
    ORR_SET_DIMS(work, (int64_t)work->write_bytes);
}

/* Updated rows: those of the gradient. */
static void updated_rows(const orr_op_signature *sig, orr_work *work)
{
    ORR_SET_DIMS(work, orr_type_elements(&sig->in[1]));
}

typedef struct call_rule {
    describe dims; /* NULL: no work */
    uint8_t family;
    bool backward;
} call_rule;

#define F(name) ORR_FAMILY_##name
static const call_rule RULES[ORR_OPS] = {
    [ORR_OP_MATMUL] = {product, F(GEMM), false},
    [ORR_OP_GROUPED_MATMUL] = {grouped_product, F(GEMM), false},
    [ORR_OP_ATTENTION] = {attention, F(ATTENTION), false},
    [ORR_OP_ATTENTION_BACKWARD] = {attention, F(ATTENTION), true},
    [ORR_OP_SOFTMAX] = {rows_in, F(SOFTMAX), false},
    [ORR_OP_SOFTMAX_BACKWARD] = {rows_in, F(SOFTMAX), true},
    [ORR_OP_RMS_NORM] = {rows_in, F(NORM), false},
    [ORR_OP_RMS_NORM_BACKWARD] = {rows_of_second, F(NORM), true},
    [ORR_OP_LAYER_NORM] = {rows_in, F(NORM), false},
    [ORR_OP_LAYER_NORM_BACKWARD] = {rows_of_second, F(NORM), true},
    [ORR_OP_BATCH_NORM] = {channels, F(NORM), false},
    [ORR_OP_BATCH_NORM_BACKWARD] = {channels, F(NORM), true},
    [ORR_OP_ROTARY] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_ATTENTION_MERGE] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_ATTENTION_TEMPERATURE] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_SWIGLU] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_SWIGLU_BACKWARD] = {elements_out, F(ELEMENTWISE), true},
    [ORR_OP_GELU] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_RELU] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_SILU] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_SIGMOID] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_ACTIVATION_BACKWARD] = {elements_out, F(ELEMENTWISE), true},
    [ORR_OP_EMBEDDING] = {embedding, F(EMBEDDING_FORWARD), false},
    /* Not a kernel of embedding tables: zeros over a dense gradient, and sums into part of it. */
    [ORR_OP_EMBEDDING_BACKWARD] = {elements_out, F(ELEMENTWISE), true},
    [ORR_OP_MASKED_SCATTER] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_EMBEDDING_BAG] = {bags, F(EMBEDDING_FORWARD), false},
    [ORR_OP_EMBEDDING_BAG_BACKWARD] = {bags, F(EMBEDDING_BACKWARD), true},
    [ORR_OP_CROSS_ENTROPY] = {rows_in, F(SOFTMAX), false},
    [ORR_OP_CROSS_ENTROPY_BACKWARD] = {rows_in, F(SOFTMAX), true},
    [ORR_OP_BCE_LOSS] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_BCE_LOSS_BACKWARD] = {elements_out, F(ELEMENTWISE), true},
    [ORR_OP_TOP_K] = {rows_in, F(SOFTMAX), false},
    [ORR_OP_TOP_K_BACKWARD] = {rows_in, F(SOFTMAX), true},
    [ORR_OP_DISPATCH] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_COMBINE] = {elements_in, F(ELEMENTWISE), false},
    [ORR_OP_INTERACTION] = {pairs, F(INTERACTION), false},
    [ORR_OP_INTERACTION_BACKWARD] = {pairs, F(INTERACTION), true},
    [ORR_OP_CONVOLUTION] = {convolution, F(CONVOLUTION), false},
    [ORR_OP_CONVOLUTION_INPUT] = {convolution_input, F(CONVOLUTION), true},
    [ORR_OP_CONVOLUTION_WEIGHT] = {convolution_weight, F(CONVOLUTION), true},
    [ORR_OP_POOL] = {elements_in, F(REDUCTION), false},
    [ORR_OP_POOL_BACKWARD] = {elements_out, F(ELEMENTWISE), true},
    [ORR_OP_SGD] = {elements_in, F(OPTIMIZER), false},
    [ORR_OP_ADAMW] = {elements_in, F(OPTIMIZER), false},
    [ORR_OP_ROWWISE_ADAGRAD] = {updated_rows, F(OPTIMIZER), false},
    [ORR_OP_ADD] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_MUL] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_SCALE] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_BIAS] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_SUM] = {elements_in, F(REDUCTION), false},
    [ORR_OP_DROPOUT] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_FILL] = {bytes_written, F(COPY), false},
    [ORR_OP_TRANSPOSE] = {transposed, F(TRANSPOSE), false},
    [ORR_OP_CONCAT] = {elements_out, F(CONCAT), false},
    [ORR_OP_PAD] = {bytes_written, F(COPY), false},
    [ORR_OP_EXPAND] = {bytes_written, F(COPY), false},
    [ORR_OP_CAST] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_QUANTIZE] = {elements_in, F(ELEMENTWISE), false},
    [ORR_OP_DEQUANTIZE] = {elements_out, F(ELEMENTWISE), false},
    [ORR_OP_SHARD] = {bytes_written, F(COPY), false},
    [ORR_OP_COPY] = {bytes_written, F(COPY), false},
};
#undef F

void orr_work_of_call(const orr_tape *tape, uint32_t call, orr_work *ret)
{
    orr_op_signature_types room;
    orr_op_work row;
    const orr_op_signature sig = orr_tape_signature(tape, call, &room);
    const call_rule *rule = &RULES[sig.op];
    orr_tape_work(tape, call, &row);
    *ret = (orr_work){.family = rule->family,
                      .dtype = row.dtype,
                      .backward = rule->backward,
                      .op = orr_op_of((orr_op)sig.op)->name,
                      .kernel = ""};
    if (rule->dims == NULL)
        return;
    ret->flops = row.flops;
    ret->read_bytes = row.read_bytes;
    ret->write_bytes = row.write_bytes;
    rule->dims(&sig, ret);
}
