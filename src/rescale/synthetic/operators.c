/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "rescale/emit/host_overheads.h"
#include "rescale/synthetic/synthesis.h"

/* Operators of a transformer layer with the shapes that PyTorch records, slices as Megatron-LM cuts
 * them: Shoeybi et al., "Megatron-LM", 2019, section 3. Letters as in synthesis.h; T = b * s. */
enum { SHAPE_TEXT = 256 };
typedef struct shape {
    char text[SHAPE_TEXT];
} shape;

#define SHAPE(...)                                                                                 \
    (__extension__({                                                                               \
        shape made_;                                                                               \
        snprintf(made_.text, SHAPE_TEXT, __VA_ARGS__);                                             \
        made_;                                                                                     \
    }))
#define LL(x) ((long long)(x))

/* An operator that calls another one, which launches a kernel. */
typedef struct op {
    const char *outer, *inner, *kernel;
    shape outer_dims, inner_dims;
    const char *inner_values; /* "Concrete Inputs", or NULL */
} op;

static void put_types(orr_synthesis *y, orr_node_id node, shape dims, const char *values,
                      int64_t sequence, int64_t forward_thread)
{
    char types[SHAPE_TEXT];
    snprintf(types, sizeof types, "[\"%s\", \"%s\", \"%s\", \"%s\", \"%s\"]", y->kineto_dtype,
             y->kineto_dtype, y->kineto_dtype, y->kineto_dtype, y->kineto_dtype);
    orr_emit_attr attrs[5] = {{"Input Dims", dims.text, 0}, {"Input type", types, 0}};
    uint32_t n = 2;
    if (values != NULL)
        attrs[n++] = (orr_emit_attr){"Concrete Inputs", values, 0};
    if (sequence >= 0)
        attrs[n++] = (orr_emit_attr){"Sequence number", NULL, sequence};
    if (sequence >= 0)
        attrs[n++] = (orr_emit_attr){"Fwd thread id", NULL, forward_thread};
    orr_emit_attrs(&y->e, node, attrs, n);
}

static void put_kernel(orr_synthesis *y, const char *name)
{
    const uint32_t stream = orr_emit_stream_of(&y->e, y->e.compute_stream);
    const orr_node_id launch = orr_emit_call(&y->e, "cudaLaunchKernel", ORR_HOST_T4_LAUNCH_NS);
    const orr_node work = {.name = orr_emit_str(&y->e, name), .kind = ORR_NODE_COMPUTE};
    orr_emit_work(&y->e, stream, launch, &work);
}

static void put_inner(orr_synthesis *y, const op *o)
{
    const orr_node_id inner = orr_emit_begin(&y->e, ORR_NODE_HOST_OP, o->inner);
    put_types(y, inner, o->inner_dims, o->inner_values, -1, 0);
    orr_emit_advance(&y->e, ORR_HOST_T2_OP_TO_CALL_NS);
    put_kernel(y, o->kernel);
    orr_emit_advance(&y->e, ORR_HOST_T3_CALL_TO_OP_END_NS);
    orr_emit_end(&y->e);
}

static void put_forward(orr_synthesis *y, const op *o)
{
    orr_emit_advance(&y->e, ORR_HOST_T1_BETWEEN_OPS_NS);
    const orr_node_id outer = orr_emit_begin(&y->e, ORR_NODE_HOST_OP, o->outer);
    put_types(y, outer, o->outer_dims, NULL, y->sequence++, 0);
    orr_emit_advance(&y->e, ORR_HOST_T2_OP_TO_CALL_NS);
    put_inner(y, o);
    orr_emit_advance(&y->e, ORR_HOST_T3_CALL_TO_OP_END_NS);
    orr_emit_end(&y->e);
}

/* autograd::engine::evaluate_function: X { X { operators } }. */
static void put_backward(orr_synthesis *y, const char *name, int64_t sequence, const op *ops,
                         uint32_t n)
{
    char text[128];
    snprintf(text, sizeof text, "autograd::engine::evaluate_function: %s", name);
    orr_emit_advance(&y->e, ORR_HOST_T1_BETWEEN_OPS_NS);
    const orr_node_id evaluate = orr_emit_begin(&y->e, ORR_NODE_HOST_OP, text);
    const orr_emit_attr attrs[] = {{"Sequence number", NULL, sequence}, {"Fwd thread id", NULL, 1}};
    orr_emit_attrs(&y->e, evaluate, attrs, 2);
    orr_emit_advance(&y->e, ORR_HOST_T2_OP_TO_CALL_NS);
    for (uint32_t i = 0; i < n; i++) {
        if (i > 0)
            orr_emit_advance(&y->e, ORR_HOST_T5_BETWEEN_CALLS_NS);
        put_inner(y, &ops[i]);
    }
    orr_emit_advance(&y->e, ORR_HOST_T3_CALL_TO_OP_END_NS);
    orr_emit_end(&y->e);
}

static const char gemm[] =
    "sm80_xmma_gemm_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_kernel";
static const char pointwise[] = "void at::native::vectorized_elementwise_kernel<4>";

static void put_norm(orr_synthesis *y)
{
    const shape dims = SHAPE("[[%lld, %lld, %lld], [], [%lld], [%lld], []]", LL(y->b), LL(y->s),
                             LL(y->h), LL(y->h), LL(y->h));
    put_forward(y, &(op){"aten::layer_norm", "aten::native_layer_norm",
                         "void at::native::vectorized_layer_norm_kernel<float>", dims, dims, NULL});
}

static void back_norm(orr_synthesis *y, int64_t sequence)
{
    const op o = {NULL,
                  "aten::native_layer_norm_backward",
                  "void at::native::layer_norm_grad_input_kernel_vectorized<float>",
                  {""},
                  SHAPE("[[%lld, %lld, %lld], [%lld, %lld, %lld], [], [%lld, %lld, 1], "
                        "[%lld, %lld, 1], [%lld], [%lld], []]",
                        LL(y->b), LL(y->s), LL(y->h), LL(y->b), LL(y->s), LL(y->h), LL(y->b),
                        LL(y->s), LL(y->b), LL(y->s), LL(y->h), LL(y->h)),
                  NULL};
    put_backward(y, "NativeLayerNormBackward0", sequence, &o, 1);
}

/* (T, in) x (in, out) */
static void put_linear(orr_synthesis *y, int64_t in, int64_t out)
{
    put_forward(y, &(op){"aten::linear", "aten::addmm", gemm,
                         SHAPE("[[%lld, %lld, %lld], [%lld, %lld], [%lld]]", LL(y->b), LL(y->s),
                               LL(in), LL(out), LL(in), LL(out)),
                         SHAPE("[[%lld], [%lld, %lld], [%lld, %lld], [], []]", LL(out),
                               LL(y->b * y->s), LL(in), LL(in), LL(out)),
                         NULL});
}

/* Gradient of the input (T, out) x (out, in), of the weight (in, T) x (T, out). */
static void back_linear(orr_synthesis *y, const char *name, int64_t sequence, int64_t in,
                        int64_t out)
{
    const int64_t tokens = y->b * y->s;
    const op ops[] = {
        {NULL,
         "aten::mm",
         gemm,
         {""},
         SHAPE("[[%lld, %lld], [%lld, %lld]]", LL(tokens), LL(out), LL(out), LL(in)),
         NULL},
        {NULL,
         "aten::mm",
         gemm,
         {""},
         SHAPE("[[%lld, %lld], [%lld, %lld]]", LL(in), LL(tokens), LL(tokens), LL(out)),
         NULL}};
    put_backward(y, name, sequence, ops, 2);
}

static void put_attention(orr_synthesis *y)
{
    const shape dims =
        SHAPE("[[%lld, %lld, %lld, %lld], [%lld, %lld, %lld, %lld], [%lld, %lld, %lld, %lld]]",
              LL(y->b), LL(y->n / y->t), LL(y->s), LL(y->d), LL(y->b), LL(y->n / y->t), LL(y->s),
              LL(y->d), LL(y->b), LL(y->n / y->t), LL(y->s), LL(y->d));
    put_forward(y, &(op){"aten::scaled_dot_product_attention",
                         "aten::_scaled_dot_product_flash_attention",
                         "void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4>>", dims,
                         dims, NULL});
}

static void back_attention(orr_synthesis *y, int64_t sequence)
{
    const shape one =
        SHAPE("[%lld, %lld, %lld, %lld]", LL(y->b), LL(y->n / y->t), LL(y->s), LL(y->d));
    const op o = {NULL,
                  "aten::_scaled_dot_product_flash_attention_backward",
                  "void flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits>",
                  {""},
                  SHAPE("[%.45s, %.45s, %.45s, %.45s, %.45s]", one.text, one.text, one.text,
                        one.text, one.text),
                  NULL};
    put_backward(y, "ScaledDotProductFlashAttentionBackward0", sequence, &o, 1);
}

static void put_add(orr_synthesis *y)
{
    const shape dims = SHAPE("[[%lld, %lld, %lld], [%lld, %lld, %lld], []]", LL(y->b), LL(y->s),
                             LL(y->h), LL(y->b), LL(y->s), LL(y->h));
    put_forward(y, &(op){"aten::add", "aten::add", pointwise, dims, dims, NULL});
}

static void put_gelu(orr_synthesis *y)
{
    const shape dims = SHAPE("[[%lld, %lld, %lld], []]", LL(y->b), LL(y->s), LL(y->f / y->t));
    put_forward(y, &(op){"aten::gelu", "aten::gelu", pointwise, dims, dims, NULL});
}

static void back_gelu(orr_synthesis *y, int64_t sequence)
{
    const op o = {NULL,
                  "aten::gelu_backward",
                  pointwise,
                  {""},
                  SHAPE("[[%lld, %lld, %lld], [%lld, %lld, %lld], []]", LL(y->b), LL(y->s),
                        LL(y->f / y->t), LL(y->b), LL(y->s), LL(y->f / y->t)),
                  NULL};
    put_backward(y, "GeluBackward0", sequence, &o, 1);
}

/* All-reduce of this many bytes of tensor parallelism; nothing with one slice. */
static void synthesis_tp(orr_synthesis *y, int64_t elements, const char *dims)
{
    if (y->t == 1)
        return;
    const orr_comm_call call = {.role = ORR_ROLE_TP,
                                .group = y->groups[ORR_GROUPING_TP],
                                .group_size = (int32_t)y->t,
                                .peer = -1,
                                .seq = y->seq[ORR_GROUPING_TP]++,
                                .bytes = elements * y->dtype_bytes,
                                .dtype = y->comm_dtype,
                                .dims = dims};
    orr_emit_comm(&y->e, &call, (orr_rendezvous_id){ORR_GROUPING_TP, (uint32_t)call.seq},
                  &y->rendezvous);
}

static void reduce_hidden(orr_synthesis *y)
{
    const shape dims = SHAPE("[[%lld, %lld, %lld]]", LL(y->b), LL(y->s), LL(y->h));
    synthesis_tp(y, y->b * y->s * y->h, dims.text);
}

static void layer_forward(orr_synthesis *y)
{
    put_norm(y);
    put_linear(y, y->h, 3 * y->h / y->t);
    put_attention(y);
    put_linear(y, y->h / y->t, y->h);
    reduce_hidden(y);
    put_add(y);
    put_norm(y);
    put_linear(y, y->h, y->f / y->t);
    put_gelu(y);
    put_linear(y, y->f / y->t, y->h);
    reduce_hidden(y);
    put_add(y);
}

static void layer_backward(orr_synthesis *y, int64_t sequence)
{
    back_linear(y, "AddmmBackward0", sequence + 8, y->f / y->t, y->h);
    back_gelu(y, sequence + 7);
    back_linear(y, "AddmmBackward0", sequence + 6, y->h, y->f / y->t);
    reduce_hidden(y);
    back_norm(y, sequence + 5);
    back_linear(y, "AddmmBackward0", sequence + 3, y->h / y->t, y->h);
    back_attention(y, sequence + 2);
    back_linear(y, "AddmmBackward0", sequence + 1, y->h, 3 * y->h / y->t);
    reduce_hidden(y);
    back_norm(y, sequence);
}

static void embedding_forward(orr_synthesis *y)
{
    const shape dims = SHAPE("[[%lld, %lld], [%lld, %lld], [], [], []]", LL(y->v / y->t), LL(y->h),
                             LL(y->b), LL(y->s));
    put_forward(
        y, &(op){"aten::embedding", "aten::index_select",
                 "void at::native::indexSelectLargeIndex<long>", dims,
                 SHAPE("[[%lld, %lld], [], [%lld]]", LL(y->v / y->t), LL(y->h), LL(y->b * y->s)),
                 NULL});
    reduce_hidden(y);
    put_add(y);
}

static void embedding_backward(orr_synthesis *y, int64_t sequence)
{
    const shape values = SHAPE("[\"\", \"\", \"%lld\", \"-1\", \"False\"]", LL(y->v / y->t));
    const op o = {NULL,
                  "aten::embedding_dense_backward",
                  "void at::native::(anonymous namespace)::compute_grad_weight<float>",
                  {""},
                  SHAPE("[[%lld, %lld, %lld], [%lld, %lld], [], [], []]", LL(y->b), LL(y->s),
                        LL(y->h), LL(y->b), LL(y->s)),
                  values.text};
    put_backward(y, "EmbeddingBackward0", sequence, &o, 1);
}

static void head_forward(orr_synthesis *y)
{
    const int64_t tokens = y->b * y->s, v = y->v / y->t;
    put_norm(y);
    put_forward(y,
                &(op){"aten::linear", "aten::mm", gemm,
                      SHAPE("[[%lld, %lld, %lld], [%lld, %lld], []]", LL(y->b), LL(y->s), LL(y->h),
                            LL(v), LL(y->h)),
                      SHAPE("[[%lld, %lld], [%lld, %lld]]", LL(tokens), LL(y->h), LL(y->h), LL(v)),
                      NULL});
    const shape logits = SHAPE("[[%lld, %lld], [], []]", LL(tokens), LL(v));
    put_forward(y, &(op){"aten::log_softmax", "aten::_log_softmax",
                         "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float>",
                         logits, logits, NULL});
    const shape ones = SHAPE("[[%lld]]", LL(tokens));
    synthesis_tp(y, tokens, ones.text);
    const shape both = SHAPE("[[%lld, %lld], [%lld], [], [], []]", LL(tokens), LL(v), LL(tokens));
    put_forward(y, &(op){"aten::nll_loss", "aten::nll_loss_forward",
                         "void at::native::(anonymous namespace)::nll_loss_forward_reduce_cuda",
                         both, both, NULL});
}

static void head_backward(orr_synthesis *y, int64_t sequence)
{
    const int64_t tokens = y->b * y->s, v = y->v / y->t;
    const op nll = {
        NULL,
        "aten::nll_loss_backward",
        "void at::native::(anonymous namespace)::nll_loss_backward_reduce_cuda",
        {""},
        SHAPE("[[], [%lld, %lld], [%lld], [], [], [], []]", LL(tokens), LL(v), LL(tokens)),
        NULL};
    put_backward(y, "NllLossBackward0", sequence + 3, &nll, 1);
    const op softmax = {
        NULL,
        "aten::_log_softmax_backward_data",
        "void at::native::(anonymous namespace)::cunn_SoftMaxBackward<4, float>",
        {""},
        SHAPE("[[%lld, %lld], [%lld, %lld], [], []]", LL(tokens), LL(v), LL(tokens), LL(v)),
        NULL};
    put_backward(y, "LogSoftmaxBackward0", sequence + 2, &softmax, 1);
    back_linear(y, "MmBackward0", sequence + 1, y->h, v);
    reduce_hidden(y);
    back_norm(y, sequence);
}

const orr_synthetic_part orr_part_embedding = {embedding_forward, embedding_backward, 2};
const orr_synthetic_part orr_part_layer = {layer_forward, layer_backward, 10};
const orr_synthetic_part orr_part_head = {head_forward, head_backward, 4};

/* Weights and biases as the operators have them: a product's weight and bias, a norm's two. */
int64_t orr_layer_parameters(const orr_synthesis *y)
{
    const int64_t h = y->h, t = y->t, f = y->f;
    return 2 * 2 * h + (3 * h / t) * h + 3 * h / t + h * (h / t) + h + (f / t) * h + f / t +
           h * (f / t) + h;
}

int64_t orr_embedding_parameters(const orr_synthesis *y)
{
    return y->v / y->t * y->h;
}

int64_t orr_head_parameters(const orr_synthesis *y)
{
    return 2 * y->h + y->v / y->t * y->h;
}

void orr_part_optimizer(orr_synthesis *y, int64_t parameters)
{
    const shape dims = SHAPE("[[[%lld]], [[%lld]], [[%lld]], [[%lld]]]", LL(parameters),
                             LL(parameters), LL(parameters), LL(parameters));
    const op o = {NULL,
                  "aten::_fused_adamw_",
                  "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<at::native::"
                  "FusedAdamMathFunctor<float>>",
                  {""},
                  dims,
                  NULL};
    orr_emit_advance(&y->e, ORR_HOST_T1_BETWEEN_OPS_NS);
    put_inner(y, &o);
}
