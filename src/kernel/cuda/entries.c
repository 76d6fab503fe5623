/* SPDX-License-Identifier: Apache-2.0 */
/* Kernel entries of the CUDA backend: which device kernel runs an operator, and with what grid. */
#include <math.h>
#include <string.h>

#include "kernel/cuda/driver.h"

static orr_cuda_operand operand(const orr_operand *t)
{
    orr_cuda_operand o = {.data = t->data, .dtype = t->type.dtype};
    for (int d = 0; d < t->type.rank; d++)
        o.stride[d] = t->stride[d];
    return o;
}

/* Parameters with all operands of a call; the kernel iterates over the dims of `over`. */
static orr_cuda_params params_of(const orr_kernel_call *call, const orr_type *over)
{
    orr_cuda_params p = {.rank = over->rank,
                         .n = orr_type_elements(over),
                         .columns = over->rank > 0 ? over->dim[over->rank - 1] : 1,
                         .n_in = (int)call->n_in,
                         .code = call->op,
                         .accumulate = call->accumulate,
                         .value = (float)call->args->value,
                         .offset = call->args->offset,
                         .first = (const long long *)call->first,
                         .scratch = call->workspace};
    for (int d = 0; d < over->rank; d++)
        p.dim[d] = over->dim[d];
    for (uint32_t k = 0; k < call->n_in && k < ORR_CUDA_IN; k++)
        p.in[k] = operand(&call->in[k]);
    for (uint32_t k = 0; k < call->n_out && k < ORR_CUDA_OUT; k++)
        p.out[k] = operand(&call->out[k]);
    return p;
}

static int64_t blocks_of(int64_t n)
{
    return (n + ORR_CUDA_BLOCK - 1) / ORR_CUDA_BLOCK;
}
static int64_t rows_of(const orr_type *type)
{
    int64_t n = 1;
    for (int d = 0; d + 1 < type->rank; d++)
        n *= type->dim[d];
    return n;
}

/* Broadcasting: inputs of fewer dims are aligned with the last ones, and dims of size 1 get stride
 * 0. */
static void broadcast(orr_cuda_params *p, const orr_kernel_call *call)
{
    const orr_type *y = &call->out[0].type;
    for (uint32_t k = 0; k < call->n_in && k < ORR_CUDA_IN; k++) {
        const orr_operand *x = &call->in[k];
        const int skip = y->rank - x->type.rank;
        for (int d = 0; d < y->rank; d++)
            p->in[k].stride[d] = d < skip || (x->type.dim[d - skip] == 1 && y->dim[d] != 1)
                                     ? 0
                                     : x->stride[d - skip];
    }
}

static orr_status map(const orr_kernel_call *call, orr_error *err)
{
    orr_cuda_params p = params_of(call, &call->out[0].type);
    broadcast(&p, call);
    p.begin = call->args->op;
    p.flag = call->args->tanh;
    return orr_cuda_launch(call, ORR_CUDA_MAP, blocks_of(p.n), 1, &p, err);
}

/* Copies one input to a part of the output. */
static orr_status copy_part(const orr_kernel_call *call, const orr_operand *x, orr_cuda_operand to,
                            orr_error *err)
{
    orr_cuda_params p = params_of(call, &x->type);
    p.in[0] = operand(x);
    p.out[0] = to;
    p.n_in = 1;
    p.code = ORR_OP_COPY;
    return orr_cuda_launch(call, ORR_CUDA_MAP, blocks_of(p.n), 1, &p, err);
}

static void *at(const orr_operand *t, int64_t elements)
{
    return (char *)t->data +
           (int64_t)((double)elements * orr_dtype_bytes((orr_dtype)t->type.dtype));
}

static orr_status concat(const orr_kernel_call *call, orr_error *err)
{
    const int d = call->args->dim;
    int64_t begin = 0;
    for (uint32_t k = 0; k < call->n_in; k++) {
        orr_cuda_operand to = operand(&call->out[0]);
        to.data = at(&call->out[0], begin * call->out[0].stride[d]);
        begin += call->in[k].type.dim[d];
        ORR_TRY(copy_part(call, &call->in[k], to, err));
    }
    return ORR_OK;
}

/* Copying forms of operators that share bytes elsewhere. */
static orr_status split(const orr_kernel_call *call, orr_error *err)
{
    const int d = call->args->dim;
    int64_t begin = call->op == ORR_OP_SLICE ? call->args->begin : 0;
    for (uint32_t k = 0; k < call->n_out; k++) {
        orr_operand part = call->in[0];
        part.type.dim[d] = call->out[k].type.dim[d];
        part.data = at(&call->in[0], begin * call->in[0].stride[d]);
        begin += part.type.dim[d];
        if (call->out[k].data != NULL)
            ORR_TRY(copy_part(call, &part, operand(&call->out[k]), err));
    }
    return ORR_OK;
}

static orr_status transpose(const orr_kernel_call *call, orr_error *err)
{
    orr_cuda_operand to = operand(&call->out[0]);
    const int a = call->args->dim, b = call->args->to_dim;
    const long long kept = to.stride[a];
    to.stride[a] = to.stride[b];
    to.stride[b] = kept;
    return copy_part(call, &call->in[0], to, err);
}

static orr_status view(const orr_kernel_call *call, orr_error *err)
{
    orr_operand flat = {.type = call->in[0].type};
    orr_operand_contiguous(&flat.type, flat.stride);
    orr_cuda_operand to = operand(&flat);
    to.data = call->out[0].data;
    return copy_part(call, &call->in[0], to, err);
}

/* KV cache: appends keys or values, one copy per sample. */
static orr_status cache(const orr_kernel_call *call, orr_error *err)
{
    if (call->first != NULL)
        return orr_fail(err, ORR_UNSUPPORTED, "cache: samples at different positions, on a GPU");
    orr_cuda_operand to = operand(&call->out[0]);
    to.data = at(&call->out[0], call->args->offset * call->out[0].stride[1]);
    return copy_part(call, &call->in[1], to, err);
}

static orr_status sum(const orr_kernel_call *call, orr_error *err)
{
    const orr_operand *x = &call->in[0];
    const int first = call->args->dim, n = call->args->count > 0 ? (int)call->args->count : 1;
    orr_cuda_params p = params_of(call, &call->out[0].type);
    int64_t count = 1;
    for (int d = 0; d < x->type.rank; d++)
        if (d < first)
            p.in[0].stride[d] = x->stride[d];
        else if (d >= first + n)
            p.in[0].stride[d - n] = x->stride[d];
    for (int d = first; d < first + n; d++) {
        if (d + 1 < first + n && x->stride[d] != x->stride[d + 1] * x->type.dim[d + 1])
            return orr_fail(err, ORR_UNSUPPORTED, "sum: dims that do not lie together, on a GPU");
        count *= x->type.dim[d];
    }
    p.count = count;
    p.window = x->stride[first + n - 1];
    return orr_cuda_launch(call, ORR_CUDA_SUM, blocks_of(p.n), 1, &p, err);
}

static orr_status swiglu(const orr_kernel_call *call, orr_error *err)
{
    orr_cuda_params p = params_of(call, &call->out[0].type);
    if (call->n_in == 1) {
        p.in[1] = p.in[0];
        p.in[1].data = at(&call->in[0], call->in[0].type.dim[p.rank - 1] / 2);
        p.n_in = 2;
    }
    return orr_cuda_launch(call, ORR_CUDA_MAP, blocks_of(p.n), 1, &p, err);
}

static orr_status swiglu_backward(const orr_kernel_call *call, orr_error *err)
{
    orr_cuda_params p = params_of(call, &call->in[0].type);
    const int64_t half = call->in[0].type.dim[p.rank - 1];
    if (call->n_in == 2) {
        p.in[2] = p.in[1];
        p.in[2].data = at(&call->in[1], half);
        p.out[1] = p.out[0];
        p.out[1].data = at(&call->out[0], half);
        p.n_in = 3;
    }
    return orr_cuda_launch(call, ORR_CUDA_MAP, blocks_of(p.n), 1, &p, err);
}

static orr_status norm(const orr_kernel_call *call, orr_error *err)
{
    orr_cuda_params p = params_of(call, &call->in[0].type);
    p.flag = call->op == ORR_OP_LAYER_NORM;
    return orr_cuda_launch(call, ORR_CUDA_NORM, rows_of(&call->in[0].type), 1, &p, err);
}

enum { PARTS = 64 };
static size_t norm_workspace(const orr_kernel_call *call)
{
    const orr_type *x = &call->in[1].type;
    return (size_t)x->dim[x->rank - 1] * PARTS * sizeof(float);
}
static orr_status norm_backward(const orr_kernel_call *call, orr_error *err)
{
    orr_cuda_params p = params_of(call, &call->in[1].type);
    const int64_t rows = rows_of(&call->in[1].type);
    p.flag = call->op == ORR_OP_LAYER_NORM_BACKWARD;
    ORR_TRY(orr_cuda_launch(call, ORR_CUDA_NORM_BACKWARD, rows, 1, &p, err));
    if (call->n_out < 2 || call->out[1].data == NULL)
        return ORR_OK;
    p.n = rows;
    p.count = PARTS;
    ORR_TRY(orr_cuda_launch(call, ORR_CUDA_NORM_WEIGHTS, blocks_of(p.columns), PARTS, &p, err));
    p.out[0] = p.out[1];
    return orr_cuda_launch(call, ORR_CUDA_FOLD, blocks_of(p.columns), 1, &p, err);
}

static orr_status rotary(const orr_kernel_call *call, orr_error *err)
{
    const orr_op_args *a = call->args;
    if (call->in[0].type.rank != 4)
        return orr_fail(err, ORR_UNSUPPORTED, "rotary: on a GPU of tensors (B, S, H, D)");
    orr_cuda_params p = params_of(call, &call->in[0].type);
    p.flag = a->interleaved;
    p.stretch = a->stretch;
    p.low = a->low;
    p.high = a->high;
    p.context = a->context;
    return orr_cuda_launch(call, ORR_CUDA_ROTARY, rows_of(&call->in[0].type), 1, &p, err);
}

/* One warp per row. */
static int64_t warps_of(int64_t rows)
{
    const int64_t warps = ORR_CUDA_BLOCK / ORR_CUDA_WARP;
    return (rows + warps - 1) / warps;
}

static orr_status attention_params(const orr_kernel_call *call, uint32_t first, orr_cuda_params *p,
                                   orr_error *err)
{
    const orr_type *q = &call->in[first].type, *k = &call->in[first + 1].type,
                   *v = &call->in[first + 2].type;
    if (!call->args->flash || q->dim[3] > 256 || v->dim[3] > 256)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "attention: on a GPU in one kernel, of up to 256 columns");
    *p = params_of(call, q);
    p->mask = call->args->mask;
    p->window = call->args->window > 0 ? call->args->window : 1;
    p->begin = k->dim[2];
    p->count = k->dim[1];
    p->columns = v->dim[3];
    p->value = 1 / sqrtf((float)q->dim[3]);
    return ORR_OK;
}

static orr_status attention(const orr_kernel_call *call, orr_error *err)
{
    orr_cuda_params p;
    ORR_TRY(attention_params(call, 0, &p, err));
    return orr_cuda_launch(call, ORR_CUDA_ATTENTION, warps_of(rows_of(&call->in[0].type)), 1, &p,
                           err);
}

static size_t attention_workspace(const orr_kernel_call *call)
{
    return (size_t)rows_of(&call->in[1].type) * sizeof(float);
}
static orr_status attention_backward(const orr_kernel_call *call, orr_error *err)
{
    orr_cuda_params p;
    ORR_TRY(attention_params(call, 1, &p, err));
    const int64_t queries = rows_of(&call->in[1].type), keys = rows_of(&call->in[2].type);
    ORR_TRY(orr_cuda_launch(call, ORR_CUDA_ATTENTION_DELTA, warps_of(queries), 1, &p, err));
    ORR_TRY(orr_cuda_launch(call, ORR_CUDA_ATTENTION_QUERY, warps_of(queries), 1, &p, err));
    return orr_cuda_launch(call, ORR_CUDA_ATTENTION_KEY, warps_of(keys), 1, &p, err);
}

static orr_status embedding(const orr_kernel_call *call, orr_error *err)
{
    const orr_type *table = &call->in[0].type;
    orr_cuda_params p = params_of(call, &call->out[0].type);
    p.begin = call->args->begin;
    p.count = call->args->count > 0 ? call->args->count : table->dim[0];
    p.columns = table->dim[1];
    return orr_cuda_launch(call, ORR_CUDA_EMBEDDING, rows_of(&call->out[0].type), 1, &p, err);
}

static orr_status embedding_backward(const orr_kernel_call *call, orr_error *err)
{
    const orr_type *table = &call->out[0].type;
    orr_cuda_params p = params_of(call, &call->in[0].type);
    p.n = rows_of(&call->in[0].type);
    p.begin = call->args->begin;
    p.count = table->dim[0];
    p.columns = table->dim[1];
    if (!call->accumulate) {
        orr_cuda_params zero = params_of(call, table);
        zero.n_in = 0;
        zero.code = ORR_OP_FILL;
        zero.value = 0;
        ORR_TRY(orr_cuda_launch(call, ORR_CUDA_MAP, blocks_of(zero.n), 1, &zero, err));
    }
    return orr_cuda_launch(call, ORR_CUDA_EMBEDDING_BACKWARD, PARTS, (uint32_t)blocks_of(p.columns),
                           &p, err);
}

/* Columns that are words: src/op/families/loss.c. */
static int64_t words_of(const orr_kernel_call *call, int64_t columns)
{
    const int64_t count = call->args->count;
    return count < 0 ? 0 : count == 0 || count > columns ? columns : count;
}

static orr_status cross_entropy(const orr_kernel_call *call, orr_error *err)
{
    orr_cuda_params p = params_of(call, &call->in[0].type);
    p.n = rows_of(&call->in[0].type);
    p.flag = call->args->members > 1;
    p.begin = call->args->begin;
    p.count = words_of(call, p.columns);
    p.window = call->args->members;
    return orr_cuda_launch(call, ORR_CUDA_CROSS_ENTROPY, p.n, 1, &p, err);
}

static orr_status cross_entropy_backward(const orr_kernel_call *call, orr_error *err)
{
    orr_cuda_params p = params_of(call, &call->in[0].type);
    p.begin = call->args->begin;
    p.count = words_of(call, p.columns);
    return orr_cuda_launch(call, ORR_CUDA_CROSS_ENTROPY_BACKWARD, rows_of(&call->in[0].type), 1, &p,
                           err);
}

static orr_status optimizer(const orr_kernel_call *call, orr_error *err)
{
    const orr_update *u = call->update;
    orr_cuda_params p = params_of(call, &call->in[0].type);
    if (u == NULL)
        return orr_fail(err, ORR_INVALID, "%s: no rate was given",
                        orr_op_of((orr_op)call->op)->name);
    p.rate = (float)u->rate;
    p.beta1 = (float)(call->op == ORR_OP_SGD ? u->momentum : u->beta1);
    p.beta2 = (float)u->beta2;
    p.epsilon = (float)u->epsilon;
    p.decay = (float)u->decay;
    p.scale = (float)u->gradient_scale;
    p.correction1 = (float)(1 / (1 - pow(u->beta1, (double)u->step)));
    p.correction2 = (float)(1 / (1 - pow(u->beta2, (double)u->step)));
    return orr_cuda_launch(call, call->op == ORR_OP_SGD ? ORR_CUDA_SGD : ORR_CUDA_ADAMW,
                           blocks_of(p.n), 1, &p, err);
}

void orr_cuda_entries(orr_backend *backend)
{
    static const struct {
        orr_op op;
        orr_kernel_entry entry;
    } entries[] = {
        {ORR_OP_ADD, {.run = map, .accumulates = true}},
        {ORR_OP_MUL, {.run = map}},
        {ORR_OP_SCALE, {.run = map}},
        {ORR_OP_BIAS, {.run = map}},
        {ORR_OP_FILL, {.run = map}},
        {ORR_OP_CAST, {.run = map}},
        {ORR_OP_COPY, {.run = map}},
        {ORR_OP_GELU, {.run = map}},
        {ORR_OP_RELU, {.run = map}},
        {ORR_OP_SILU, {.run = map}},
        {ORR_OP_SIGMOID, {.run = map}},
        {ORR_OP_ACTIVATION_BACKWARD, {.run = map}},
        {ORR_OP_SWIGLU, {.run = swiglu}},
        {ORR_OP_SWIGLU_BACKWARD, {.run = swiglu_backward}},
        {ORR_OP_SUM, {.run = sum, .accumulates = true}},
        {ORR_OP_VIEW, {.run = view}},
        {ORR_OP_CONCAT, {.run = concat}},
        {ORR_OP_SPLIT, {.run = split}},
        {ORR_OP_SLICE, {.run = split}},
        {ORR_OP_TRANSPOSE, {.run = transpose}},
        {ORR_OP_CACHE, {.run = cache}},
        {ORR_OP_RMS_NORM, {.run = norm}},
        {ORR_OP_LAYER_NORM, {.run = norm}},
        {ORR_OP_RMS_NORM_BACKWARD, {.run = norm_backward, .workspace = norm_workspace}},
        {ORR_OP_LAYER_NORM_BACKWARD, {.run = norm_backward, .workspace = norm_workspace}},
        {ORR_OP_ROTARY, {.run = rotary}},
        {ORR_OP_ATTENTION, {.run = attention}},
        {ORR_OP_ATTENTION_BACKWARD, {.run = attention_backward, .workspace = attention_workspace}},
        {ORR_OP_EMBEDDING, {.run = embedding}},
        {ORR_OP_EMBEDDING_BACKWARD, {.run = embedding_backward, .accumulates = true}},
        {ORR_OP_CROSS_ENTROPY, {.run = cross_entropy}},
        {ORR_OP_CROSS_ENTROPY_BACKWARD, {.run = cross_entropy_backward}},
        {ORR_OP_ADAMW, {.run = optimizer}},
        {ORR_OP_SGD, {.run = optimizer}},
    };
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        backend->entries[entries[i].op] = entries[i].entry;
    backend->entries[ORR_OP_MATMUL] = orr_cuda_matmul_entry;
}
