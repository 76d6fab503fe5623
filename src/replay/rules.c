/* SPDX-License-Identifier: Apache-2.0 */
/* The rules: how each PyTorch operator is run, by name. The outermost operator with a rule is run,
 * and what it called is not run again. Elementwise operators without a kernel of their own run as
 * one that reads and writes the same amount. */
#include "replay/tape_builder.h"

#include <string.h>

#define KERNEL(name, op, build)                                                                    \
    {                                                                                              \
        name, ORR_REPLAY_KERNEL, ORR_OP_##op, orr_replay_##build                                   \
    }
#define VIEW(name)                                                                                 \
    {                                                                                              \
        name, ORR_REPLAY_VIEW, 0, NULL                                                             \
    }
#define MEETING(name, op)                                                                          \
    {                                                                                              \
        name, ORR_REPLAY_COLLECTIVE, ORR_OP_##op, orr_replay_collective                            \
    }
#define EXCHANGE(name)                                                                             \
    {                                                                                              \
        name, ORR_REPLAY_COLLECTIVE, ORR_OP_ALL_TO_ALL, orr_replay_exchange                        \
    }

/* '*' is the end of a prefix. */
static const orr_replay_rule rules[] = {
    KERNEL("_convolution", CONVOLUTION, convolution),
    KERNEL("_embedding_bag", EMBEDDING_BAG, embedding_bag),
    KERNEL("_efficient_attention_backward", ATTENTION_BACKWARD, attention_backward),
    KERNEL("_efficient_attention_forward", ATTENTION, attention),
    KERNEL("_flash_attention_backward", ATTENTION_BACKWARD, attention_backward),
    KERNEL("_flash_attention_forward", ATTENTION, attention),
    KERNEL("_foreach_*", ADD, many),
    KERNEL("_fused_adam", ADAMW, many),
    KERNEL("_fused_adamw", ADAMW, many),
    KERNEL("_fused_sgd", SGD, many),
    VIEW("_indices"),
    KERNEL("_log_softmax", SOFTMAX, softmax),
    KERNEL("_log_softmax_backward_data", SOFTMAX_BACKWARD, softmax_backward),
    KERNEL("_scaled_dot_product_cudnn_attention", ATTENTION, attention),
    KERNEL("_scaled_dot_product_efficient_attention", ATTENTION, attention),
    KERNEL("_scaled_dot_product_efficient_attention_backward", ATTENTION_BACKWARD,
           attention_backward),
    KERNEL("_scaled_dot_product_flash_attention", ATTENTION, attention),
    KERNEL("_scaled_dot_product_flash_attention_backward", ATTENTION_BACKWARD, attention_backward),
    KERNEL("_scaled_dot_product_flash_attention_for_cpu", ATTENTION, attention),
    KERNEL("_scaled_dot_product_flash_attention_for_cpu_backward", ATTENTION_BACKWARD,
           attention_backward),
    KERNEL("_softmax", SOFTMAX, softmax),
    KERNEL("_softmax_backward_data", SOFTMAX_BACKWARD, softmax_backward),
    KERNEL("_to_copy", CAST, copy),
    KERNEL("abs", RELU, unary),
    KERNEL("add", ADD, binary),
    KERNEL("addcdiv", ADD, binary),
    KERNEL("addcmul", ADD, binary),
    KERNEL("addmm", MATMUL, addmm),
    VIEW("_local_scalar_dense"),
    VIEW("alias"),
    KERNEL("arange", FILL, fill),
    VIEW("as_strided"),
    KERNEL("avg_pool2d", POOL, pool),
    KERNEL("avg_pool2d_backward", POOL_BACKWARD, pool_backward),
    KERNEL("baddbmm", MATMUL, bmm),
    KERNEL("binary_cross_entropy", SIGMOID, binary),
    KERNEL("binary_cross_entropy_with_logits", SIGMOID, binary),
    KERNEL("bmm", MATMUL, bmm),
    KERNEL("cat", CONCAT, concat),
    KERNEL("clamp", RELU, unary),
    KERNEL("clamp_min", RELU, unary),
    KERNEL("clone", COPY, copy),
    KERNEL("convolution", CONVOLUTION, convolution),
    KERNEL("convolution_backward", CONVOLUTION_INPUT, convolution_backward),
    KERNEL("copy", CAST, copy),
    KERNEL("cudnn_batch_norm", BATCH_NORM, batch_norm),
    KERNEL("cudnn_batch_norm_backward", BATCH_NORM_BACKWARD, batch_norm_backward),
    KERNEL("cudnn_convolution", CONVOLUTION, convolution),
    KERNEL("cumsum", SCALE, unary),
    VIEW("detach"),
    KERNEL("div", MUL, binary),
    KERNEL("embedding", EMBEDDING, embedding),
    KERNEL("embedding_dense_backward", EMBEDDING_BACKWARD, embedding_backward),
    VIEW("empty"),
    VIEW("empty_like"),
    VIEW("empty_strided"),
    KERNEL("eq", ADD, binary),
    KERNEL("exp", SIGMOID, unary),
    VIEW("expand"),
    VIEW("expand_as"),
    KERNEL("fill", FILL, fill),
    VIEW("flatten"),
    KERNEL("gather", EMBEDDING, gather),
    KERNEL("ge", ADD, binary),
    KERNEL("gelu", GELU, unary),
    KERNEL("gelu_backward", GELU, activation_backward),
    KERNEL("gt", ADD, binary),
    KERNEL("hardtanh", RELU, unary),
    KERNEL("index", EMBEDDING, gather),
    KERNEL("index_add", EMBEDDING, gather),
    KERNEL("index_select", EMBEDDING, gather),
    KERNEL("le", ADD, binary),
    KERNEL("linear", MATMUL, linear),
    KERNEL("log", SIGMOID, unary),
    KERNEL("lt", ADD, binary),
    KERNEL("masked_fill", MUL, binary),
    KERNEL("max_pool2d_with_indices", POOL, pool),
    KERNEL("max_pool2d_with_indices_backward", POOL_BACKWARD, pool_backward),
    KERNEL("maximum", ADD, binary),
    KERNEL("mean", SUM, sum),
    KERNEL("minimum", ADD, binary),
    KERNEL("miopen_batch_norm", BATCH_NORM, batch_norm),
    KERNEL("mkldnn_convolution", CONVOLUTION, convolution),
    KERNEL("mm", MATMUL, mm),
    KERNEL("mse_loss", MUL, binary),
    KERNEL("mul", MUL, binary),
    VIEW("is_pinned"),
    VIEW("item"),
    VIEW("lift_fresh"),
    VIEW("narrow"),
    KERNEL("native_batch_norm", BATCH_NORM, batch_norm),
    KERNEL("native_batch_norm_backward", BATCH_NORM_BACKWARD, batch_norm_backward),
    KERNEL("native_dropout", DROPOUT, dropout),
    KERNEL("native_dropout_backward", MUL, binary),
    KERNEL("native_layer_norm", LAYER_NORM, layer_norm),
    KERNEL("native_layer_norm_backward", LAYER_NORM_BACKWARD, layer_norm_backward),
    KERNEL("ne", ADD, binary),
    KERNEL("neg", SCALE, unary),
    VIEW("new_empty"),
    VIEW("new_empty_strided"),
    KERNEL("normal", FILL, fill),
    KERNEL("ones_like", FILL, fill),
    VIEW("permute"),
    KERNEL("pow", SCALE, unary),
    KERNEL("reciprocal", SCALE, unary),
    KERNEL("relu", RELU, unary),
    VIEW("record_stream"),
    VIEW("resize"),
    VIEW("resolve_conj"),
    VIEW("resolve_neg"),
    VIEW("result_type"),
    KERNEL("remainder", ADD, binary),
    KERNEL("rms_norm", RMS_NORM, layer_norm),
    KERNEL("rsqrt", SCALE, unary),
    VIEW("select"),
    VIEW("set"),
    KERNEL("sigmoid", SIGMOID, unary),
    KERNEL("sigmoid_backward", SIGMOID, activation_backward),
    KERNEL("silu", SILU, unary),
    KERNEL("silu_backward", SILU, activation_backward),
    VIEW("slice"),
    VIEW("split"),
    VIEW("split_with_sizes"),
    KERNEL("sqrt", SCALE, unary),
    VIEW("squeeze"),
    KERNEL("stack", CONCAT, concat),
    KERNEL("sub", ADD, binary),
    KERNEL("sum", SUM, sum),
    VIEW("t"),
    KERNEL("tanh", SIGMOID, unary),
    KERNEL("tanh_backward", SIGMOID, activation_backward),
    KERNEL("threshold", RELU, unary),
    KERNEL("threshold_backward", RELU, activation_backward),
    VIEW("to"),
    VIEW("transpose"),
    KERNEL("uniform", FILL, fill),
    VIEW("unbind"),
    VIEW("unsqueeze"),
    VIEW("unsafe_view"),
    VIEW("_values"),
    VIEW("_unsafe_view"),
    VIEW("_reshape_alias"),
    VIEW("view"),
    KERNEL("where", ADD, binary),
    KERNEL("zero", FILL, fill),
    MEETING("c10d::_allgather_base", ALL_GATHER),
    MEETING("c10d::_reduce_scatter_base", REDUCE_SCATTER),
    MEETING("c10d::allgather", ALL_GATHER),
    MEETING("c10d::allreduce", ALL_REDUCE),
    EXCHANGE("c10d::alltoall"),
    EXCHANGE("c10d::alltoall_base"),
    MEETING("c10d::barrier", BARRIER),
    MEETING("c10d::broadcast", BROADCAST),
    MEETING("c10d::reduce_scatter", REDUCE_SCATTER),
};

static bool fits(const char *rule, const char *name, size_t n)
{
    const size_t len = strlen(rule);
    if (len > 0 && rule[len - 1] == '*')
        return n >= len - 1 && memcmp(rule, name, len - 1) == 0;
    return len == n && memcmp(rule, name, n) == 0;
}

const orr_replay_rule *orr_replay_rule_of(const char *name)
{
    if (strncmp(name, "aten::", 6) == 0)
        name += 6;
    size_t n = strlen(name);
    for (int in_place = 0; in_place < 2; in_place++) {
        for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
            if (fits(rules[i].name, name, n))
                return &rules[i];
        if (n == 0 || name[n - 1] != '_')
            return NULL;
        n--;
    }
    return NULL;
}

const char *orr_replay_method_name(orr_replay_method how)
{
    static const char *const names[] = {"kernel", "view", "emulated", "skipped", "collective"};
    return names[how];
}
