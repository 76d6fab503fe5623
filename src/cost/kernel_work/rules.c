/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/kernel_work/work.h"

#include <string.h>

/* Rules by operator name. FLOPs for each element are those that the DLRM performance model
 * counts by hand (sigmoid 4, its gradient 2, gelu 175, softmax 174, tanh 180, binary cross
 * entropy 7 and 4, mean squared error 3, everything plain 1; source: owensgroup/ml_perf_model,
 * analysis/inference.py and utils.py); those of silu and of the gradients of gelu and tanh are
 * assumed from the same parts. */
#define GEMM ORR_FAMILY_GEMM
#define CONV ORR_FAMILY_CONVOLUTION
#define ATTN ORR_FAMILY_ATTENTION
#define NORM ORR_FAMILY_NORM
#define SOFT ORR_FAMILY_SOFTMAX
#define ELEM ORR_FAMILY_ELEMENTWISE
#define LIST ORR_FAMILY_OPTIMIZER
#define SUMS ORR_FAMILY_REDUCTION
#define ROWS ORR_FAMILY_EMBEDDING_FORWARD
#define BACK ORR_FAMILY_EMBEDDING_BACKWARD

static const orr_op_rule RULES[] = {
    {"mm", GEMM, false, 0, orr_read_mm},
    {"bmm", GEMM, false, 0, orr_read_mm},
    {"matmul", GEMM, false, 0, orr_read_mm},
    {"mv", GEMM, false, 0, orr_read_mm},
    {"addmm", GEMM, false, 0, orr_read_addmm},
    {"baddbmm", GEMM, false, 0, orr_read_addmm},
    {"addbmm", GEMM, false, 0, orr_read_addmm},
    {"addmv", GEMM, false, 0, orr_read_addmm},
    {"_addmm_activation", GEMM, false, 0, orr_read_addmm},
    {"linear", GEMM, false, 0, orr_read_linear},
    {"_scaled_mm", GEMM, false, 0, orr_read_mm},

    {"cudnn_convolution_backward*", CONV, true, 0, orr_read_cudnn_backward},
    {"miopen_convolution_backward*", CONV, true, 0, orr_read_cudnn_backward},
    {"convolution_backward", CONV, true, 0, orr_read_convolution_backward},
    {"cudnn_convolution*", CONV, false, 0, orr_read_convolution},
    {"miopen_convolution*", CONV, false, 0, orr_read_convolution},
    {"mkldnn_convolution", CONV, false, 0, orr_read_convolution},
    {"_convolution", CONV, false, 0, orr_read_convolution},
    {"convolution", CONV, false, 0, orr_read_convolution},
    {"conv2d", CONV, false, 0, orr_read_convolution},
    {"conv1d", CONV, false, 0, orr_read_convolution},
    {"_conv_depthwise2d", CONV, false, 0, orr_read_convolution},

    {"_flash_attention_forward", ATTN, false, 0, orr_read_flash},
    {"_efficient_attention_forward", ATTN, false, 0, orr_read_flash},
    {"_flash_attention_backward", ATTN, true, 0, orr_read_flash_backward},
    {"_efficient_attention_backward", ATTN, true, 0, orr_read_flash_backward},
    {"_scaled_dot_product_*_attention_backward", ATTN, true, 0, orr_read_attention_backward},
    {"_scaled_dot_product_*_attention", ATTN, false, 0, orr_read_attention},
    {"scaled_dot_product_attention", ATTN, false, 0, orr_read_attention},

    {"embedding", ROWS, false, 0, orr_read_embedding},
    {"_embedding_bag*", ROWS, false, 0, orr_read_embedding_bag},
    {"index_select", ROWS, false, 0, orr_read_index_select},
    {"embedding_dense_backward", BACK, true, 0, NULL},
    {"_embedding_bag_dense_backward", BACK, true, 0, NULL},
    {"LookupFunctionBackward*", BACK, true, 0, NULL},
    {"LookupFunction", ROWS, false, 0, NULL},
    {"fbgemm::*_embedding_codegen_lookup_*", ROWS, false, 0, orr_read_split_lookup},
    {"torch::autograd::CppNode<Split*Lookup*", BACK, true, 0, orr_read_split_lookup},

    {"cat", ORR_FAMILY_CONCAT, false, 0, orr_read_concat},
    {"stack", ORR_FAMILY_CONCAT, false, 0, orr_read_concat},
    {"copy", ORR_FAMILY_COPY, false, 0, orr_read_copy},
    {"clone", ORR_FAMILY_COPY, false, 0, orr_read_copy},
    {"contiguous", ORR_FAMILY_COPY, false, 0, orr_read_copy},
    {"fill", ORR_FAMILY_COPY, false, 0, orr_read_fill},
    {"zero", ORR_FAMILY_COPY, false, 0, orr_read_fill},
    {"index", ORR_FAMILY_INTERACTION, false, 0, orr_read_index},

    {"*batch_norm_backward*", NORM, true, 0, orr_read_channels},
    {"*batch_norm*", NORM, false, 0, orr_read_channels},
    {"native_layer_norm_backward", NORM, true, 0, orr_read_layer_norm_backward},
    {"native_group_norm_backward", NORM, true, 0, orr_read_channels},
    {"native_layer_norm", NORM, false, 0, orr_read_layer_norm},
    {"layer_norm", NORM, false, 0, orr_read_layer_norm},
    {"native_group_norm", NORM, false, 0, orr_read_channels},
    {"*rms_norm", NORM, false, 0, orr_read_rows},

    {"*softmax_backward_data", SOFT, true, 0, orr_read_rows},
    {"*softmax", SOFT, false, 0, orr_read_rows},

    {"sum", SUMS, false, 1, orr_read_reduction},
    {"mean", SUMS, false, 1, orr_read_reduction},
    {"*norm", SUMS, false, 2, orr_read_reduction},
    {"max", SUMS, false, 1, orr_read_reduction},
    {"min", SUMS, false, 1, orr_read_reduction},
    {"amax", SUMS, false, 1, orr_read_reduction},
    {"argmax", SUMS, false, 1, orr_read_reduction},
    {"all", SUMS, false, 1, orr_read_reduction},
    {"any", SUMS, false, 1, orr_read_reduction},
    {"var*", SUMS, false, 3, orr_read_reduction},
    {"std*", SUMS, false, 3, orr_read_reduction},

    {"_foreach_*", LIST, false, 1, orr_read_lists},
    {"_fused_*", LIST, false, 12, orr_read_lists},
    {"_amp_foreach_*", LIST, false, 1, orr_read_lists},
    {"Optimizer.*", LIST, false, 0, NULL},

    {"sigmoid_backward", ELEM, true, 2, orr_read_elements},
    {"sigmoid", ELEM, false, 4, orr_read_elements},
    {"tanh_backward", ELEM, true, 3, orr_read_elements},
    {"tanh", ELEM, false, 180, orr_read_elements},
    {"gelu_backward", ELEM, true, 175, orr_read_elements},
    {"gelu", ELEM, false, 175, orr_read_elements},
    {"silu_backward", ELEM, true, 7, orr_read_elements},
    {"silu", ELEM, false, 5, orr_read_elements},
    {"binary_cross_entropy*_backward", ELEM, true, 4, orr_read_elements},
    {"binary_cross_entropy*", ELEM, false, 7, orr_read_elements},
    {"mse_loss_backward", ELEM, true, 1, orr_read_elements},
    {"mse_loss", ELEM, false, 3, orr_read_elements},
    {"addcmul", ELEM, false, 3, orr_read_elements},
    {"addcdiv", ELEM, false, 3, orr_read_elements},
    {"add", ELEM, false, 1, orr_read_elements},
    {"sub", ELEM, false, 1, orr_read_elements},
    {"mul", ELEM, false, 1, orr_read_elements},
    {"div", ELEM, false, 1, orr_read_elements},
    {"relu", ELEM, false, 1, orr_read_elements},
    {"threshold*", ELEM, false, 1, orr_read_elements},
    {"clamp*", ELEM, false, 1, orr_read_elements},
    {"native_dropout*", ELEM, false, 2, orr_read_elements},
    {"*pool2d*", ELEM, false, 1, orr_read_elements},
};

/* Pattern matching; '*' in `pattern` stands for any text. */
static bool matches(const char *pattern, const char *text, size_t len)
{
    const char *star = NULL;
    size_t at = 0, resume = 0;
    for (;;) {
        if (*pattern == '*') {
            star = ++pattern;
            resume = at;
        } else if (at == len) {
            return *pattern == '\0';
        } else if (*pattern == text[at]) {
            pattern++;
            at++;
        } else if (star != NULL) {
            pattern = star;
            at = ++resume;
        } else {
            return false;
        }
    }
}

const orr_op_rule *orr_op_rule_of(const char *op)
{
    if (strncmp(op, "aten::", 6) == 0)
        op += 6;
    size_t len = strlen(op);
    if (len > 1 && op[len - 1] == '_' && op[len - 2] != '_') /* in place, but not __and__ */
        len--;
    for (size_t i = 0; i < sizeof RULES / sizeof *RULES; i++)
        if (matches(RULES[i].name, op, len))
            return &RULES[i];
    return NULL;
}
