/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/convolution/onednn_plan.h"

#include <string.h>

#include "kernel/format/dtype_convert.h"

/* Plans a convolution for oneDNN: the shape of a piece, the layouts that oneDNN prefers for it, and
 * whether its implementation is fast. */

/* Shapes of x, w and y of a call, or of their gradients. */
typedef struct shape {
    const orr_operand *x, *w, *y;
    dnnl_dims_t strides, padding;
    int64_t x_dim[4], w_dim[4], y_dim[4]; /* of a piece */
} shape;

static dnnl_data_type_t type_of(const orr_operand *o)
{
    return o->type.dtype == ORR_DTYPE_FP32   ? dnnl_f32
           : o->type.dtype == ORR_DTYPE_BF16 ? dnnl_bf16
                                             : dnnl_data_type_undef;
}

/* The piece size of a dim that gives enough pieces for all threads; the whole dim where it cannot
 * be divided into even blocks. */
static int64_t piece_of(int64_t n, int64_t others)
{
    enum { PIECES = 16, MOST = 256, LEAST = 32 };
    int64_t best = n;
    for (int64_t block = MOST; block >= LEAST; block /= 2)
        if (n % block == 0 && block <= best) {
            best = block;
            if (n / block * others >= PIECES)
                break;
        }
    return best;
}

static int64_t step_of(const orr_operand *o, int dim, int64_t piece)
{
    return o->stride[dim] * piece * orr_dtype_stride_bytes((orr_dtype)o->type.dtype);
}

static shape shape_of(const orr_kernel_call *call)
{
    const orr_operand *in = call->in, *out = call->out;
    const int64_t stride = call->args->stride > 0 ? call->args->stride : 1;
    shape s = {.strides = {stride, stride}, .padding = {call->args->padding, call->args->padding}};
    s.x = call->op == ORR_OP_CONVOLUTION_INPUT ? out : &in[0];
    s.w = call->op == ORR_OP_CONVOLUTION_WEIGHT ? out : &in[1];
    s.y = call->op == ORR_OP_CONVOLUTION         ? out
          : call->op == ORR_OP_CONVOLUTION_INPUT ? &in[0]
                                                 : &in[1];
    memcpy(s.x_dim, s.x->type.dim, sizeof s.x_dim);
    memcpy(s.w_dim, s.w->type.dim, sizeof s.w_dim);
    memcpy(s.y_dim, s.y->type.dim, sizeof s.y_dim);
    return s;
}

/* Cuts the shape to a piece, and computes the strides between pieces. */
static void cut(const orr_kernel_call *call, shape *s, orr_onednn_plan *plan)
{
    orr_onednn_side *first = &plan->side[ORR_ONEDNN_FIRST],
                    *second = &plan->side[ORR_ONEDNN_SECOND],
                    *result = &plan->side[ORR_ONEDNN_RESULT];
    const int64_t samples = s->x_dim[0], channels = s->x_dim[1], filters = s->w_dim[0];
    if (call->op == ORR_OP_CONVOLUTION_WEIGHT) {
        const int64_t f = piece_of(filters, 1), c = piece_of(channels, filters / f);
        plan->n_i = channels / c;
        plan->n_j = filters / f;
        s->x_dim[1] = s->w_dim[1] = c;
        s->y_dim[1] = s->w_dim[0] = f;
        first->step_i = step_of(s->x, 1, c);
        second->step_j = step_of(s->y, 1, f);
        result->step_i = step_of(s->w, 1, c);
        result->step_j = step_of(s->w, 0, f);
        return;
    }
    const bool forward = call->op == ORR_OP_CONVOLUTION;
    const int64_t all = forward ? filters : channels, n = piece_of(all, samples);
    plan->n_i = samples;
    plan->n_j = all / n;
    s->x_dim[0] = s->y_dim[0] = 1;
    s->w_dim[forward ? 0 : 1] = n;
    (forward ? s->y_dim : s->x_dim)[1] = n;
    first->step_i = step_of(&call->in[0], 0, 1);
    second->step_j = step_of(s->w, forward ? 0 : 1, n);
    result->step_i = step_of(&call->out[0], 0, 1);
    result->step_j = step_of(&call->out[0], 1, n);
}

/* Strides of dims of size 1 are arbitrary; they are set as of a contiguous tensor, since oneDNN
 * compares them. */
static bool describe(const orr_onednn_api *api, const orr_operand *o, const int64_t *dim,
                     dnnl_memory_desc_t *given, dnnl_memory_desc_t *any)
{
    dnnl_dims_t dims, strides;
    int64_t next = 1;
    for (int d = 4; d-- > 0;) {
        dims[d] = dim[d];
        strides[d] = dim[d] == 1 ? next : o->stride[d];
        next = strides[d] * dim[d];
    }
    return api->dnnl_memory_desc_init_by_strides(given, 4, dims, type_of(o), strides) ==
               dnnl_success &&
           api->dnnl_memory_desc_init_by_tag(any, 4, dims, type_of(o), dnnl_format_tag_any) ==
               dnnl_success;
}

/* Its reference implementation is far slower than the built-in kernels. */
static bool is_fast(const orr_onednn_api *api, dnnl_primitive_desc_t primitive)
{
    const char *name = NULL;
    return api->dnnl_primitive_desc_query(primitive, dnnl_query_impl_info_str, 0, &name) ==
               dnnl_success &&
           name != NULL && strstr(name, "ref") == NULL;
}

static bool take(const orr_onednn_api *api, const dnnl_convolution_desc_t *wanted,
                 dnnl_primitive_attr_t attr, dnnl_primitive_desc_t hint, dnnl_primitive_desc_t *ret)
{
    dnnl_primitive_desc_t made;
    if (api->dnnl_primitive_desc_create(&made, wanted, attr, api->engine, hint) != dnnl_success)
        return false;
    if (is_fast(api, made)) {
        *ret = made;
        return true;
    }
    (void)api->dnnl_primitive_desc_destroy(made);
    return false;
}

static bool describe_primitive(const orr_onednn_api *api, orr_op op, const shape *s,
                               const dnnl_memory_desc_t *x, const dnnl_memory_desc_t *w,
                               const dnnl_memory_desc_t *y, dnnl_primitive_attr_t attr,
                               dnnl_primitive_desc_t *ret)
{
    dnnl_convolution_desc_t forward, wanted;
    dnnl_primitive_desc_t hint;
    if (api->dnnl_convolution_forward_desc_init(&forward, dnnl_forward_training,
                                                dnnl_convolution_direct, x, w, NULL, y, s->strides,
                                                s->padding, s->padding) != dnnl_success)
        return false;
    if (op == ORR_OP_CONVOLUTION)
        return take(api, &forward, attr, NULL, ret);
    const dnnl_status_t status =
        op == ORR_OP_CONVOLUTION_INPUT
            ? api->dnnl_convolution_backward_data_desc_init(&wanted, dnnl_convolution_direct, x, w,
                                                            y, s->strides, s->padding, s->padding)
            : api->dnnl_convolution_backward_weights_desc_init(&wanted, dnnl_convolution_direct, x,
                                                               w, NULL, y, s->strides, s->padding,
                                                               s->padding);
    if (status != dnnl_success ||
        api->dnnl_primitive_desc_create(&hint, &forward, attr, api->engine, NULL) != dnnl_success)
        return false;
    const bool taken = take(api, &wanted, attr, hint, ret);
    (void)api->dnnl_primitive_desc_destroy(hint);
    return taken;
}

/* A 1 x 1 convolution is a matrix product of pixels as they are and needs no blocking by
 * channels. */
static bool is_product(orr_op op, const shape *s)
{
    return op != ORR_OP_CONVOLUTION_WEIGHT && s->w_dim[2] == 1 && s->w_dim[3] == 1 &&
           s->strides[0] == 1 && s->padding[0] == 0;
}

static bool choose(const orr_onednn_api *api, orr_op op, const shape *s, dnnl_primitive_attr_t attr,
                   orr_onednn_side *x, orr_onednn_side *w, orr_onednn_side *y,
                   dnnl_primitive_desc_t *ret)
{
    if (!describe(api, s->x, s->x_dim, &x->given, &x->own) ||
        !describe(api, s->w, s->w_dim, &w->given, &w->own) ||
        !describe(api, s->y, s->y_dim, &y->given, &y->own))
        return false;
    if (is_product(op, s) &&
        describe_primitive(api, op, s, &x->given, &w->own, &y->given, attr, ret))
        return true;
    return describe_primitive(api, op, s, &x->own, &w->own, &y->own, attr, ret);
}

static bool measure(const orr_onednn_api *api, orr_onednn_plan *plan)
{
    for (int i = 0; i < ORR_ONEDNN_SIDES; i++) {
        orr_onednn_side *side = &plan->side[i];
        const dnnl_memory_desc_t *own = api->dnnl_primitive_desc_query_md(
            plan->primitive, dnnl_query_exec_arg_md, side->argument);
        if (own == NULL)
            return false;
        side->own = *own;
        side->reordered = !api->dnnl_memory_desc_equal(&side->own, &side->given);
        side->bytes = side->reordered ? api->dnnl_memory_desc_get_size(&side->own) : 0;
    }
    const dnnl_memory_desc_t *scratchpad = api->dnnl_primitive_desc_query_md(
        plan->primitive, dnnl_query_exec_arg_md, DNNL_ARG_SCRATCHPAD);
    if (scratchpad == NULL)
        return false;
    plan->scratchpad = *scratchpad;
    plan->scratchpad_bytes = api->dnnl_memory_desc_get_size(scratchpad);
    return true;
}

bool orr_onednn_plan_convolution(const orr_onednn_api *api, const orr_kernel_call *call,
                                 orr_onednn_plan *ret)
{
    const orr_op op = (orr_op)call->op;
    orr_onednn_plan plan = {0};
    dnnl_primitive_attr_t attr;
    shape s = shape_of(call);
    if (orr_type_elements(&s.x->type) == 0 || orr_type_elements(&s.w->type) == 0 ||
        orr_type_elements(&s.y->type) == 0 || s.w->rows != NULL ||
        s.w->type.dim[1] != s.x->type.dim[1] ||
        api->dnnl_primitive_attr_create(&attr) != dnnl_success)
        return false;
    const int of_weight = op == ORR_OP_CONVOLUTION_WEIGHT,
              of_input = op == ORR_OP_CONVOLUTION_INPUT;
    orr_onednn_side *x = &plan.side[of_input ? ORR_ONEDNN_RESULT : ORR_ONEDNN_FIRST],
                    *w = &plan.side[of_weight ? ORR_ONEDNN_RESULT : ORR_ONEDNN_SECOND],
                    *y = &plan.side[of_input    ? ORR_ONEDNN_FIRST
                                    : of_weight ? ORR_ONEDNN_SECOND
                                                : ORR_ONEDNN_RESULT];
    x->argument = of_input ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
    w->argument = of_weight ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
    y->argument = op == ORR_OP_CONVOLUTION ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
    cut(call, &s, &plan);
    bool ok = api->dnnl_primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user) ==
                  dnnl_success &&
              choose(api, op, &s, attr, x, w, y, &plan.primitive);
    (void)api->dnnl_primitive_attr_destroy(attr);
    if (ok && !measure(api, &plan)) {
        (void)api->dnnl_primitive_desc_destroy(plan.primitive);
        ok = false;
    }
    if (ok)
        *ret = plan;
    return ok;
}
