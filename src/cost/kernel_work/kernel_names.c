/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "cost/kernel_work/work.h"

/* Kernel families by names of cuBLAS, cuDNN, CUTLASS, PyTorch, FBGEMM, Triton and rocBLAS. The
 * first pattern that occurs decides, so special ones come before general ones. */
static const struct {
    const char *part;
    unsigned family;
} KERNELS[] = {
    {"splitKreduce", ORR_FAMILY_HELPER},
    {"splitKReduce", ORR_FAMILY_HELPER},
    {"OffsetsKernel", ORR_FAMILY_HELPER},
    {"nchwToNhwc", ORR_FAMILY_HELPER},
    {"nhwcToNchw", ORR_FAMILY_HELPER},
    {"scalePackedTensor", ORR_FAMILY_HELPER},
    {"generateWinogradTiles", ORR_FAMILY_HELPER},
    {"winogradForwardData", ORR_FAMILY_HELPER},
    {"winogradForwardFilter", ORR_FAMILY_HELPER},
    {"winogradForwardOutput", ORR_FAMILY_HELPER},
    {"winogradWgradData", ORR_FAMILY_HELPER},
    {"winogradWgradDelta", ORR_FAMILY_HELPER},
    {"winogradWgradOutput", ORR_FAMILY_HELPER},
    {"im2col", ORR_FAMILY_HELPER},
    {"reduce_wgrad", ORR_FAMILY_HELPER},
    {"epilogue::impl::globalKernel", ORR_FAMILY_HELPER},
    {"flash_bwd_dot_do_o", ORR_FAMILY_HELPER},
    {"flash_bwd_convert", ORR_FAMILY_HELPER},
    {"DeviceRadixSort", ORR_FAMILY_HELPER},
    {"DeviceScan", ORR_FAMILY_HELPER},
    {"DeviceReduceByKey", ORR_FAMILY_HELPER},
    {"DeviceCompact", ORR_FAMILY_HELPER},
    {"linearize_index", ORR_FAMILY_HELPER},
    {"find_long_segments", ORR_FAMILY_HELPER},
    {"grad_indice_weights", ORR_FAMILY_HELPER},
    {"bn_fw", ORR_FAMILY_NORM},
    {"bn_bw", ORR_FAMILY_NORM},
    {"batch_norm", ORR_FAMILY_NORM},
    {"layer_norm", ORR_FAMILY_NORM},
    {"LayerNorm", ORR_FAMILY_NORM},
    {"GammaBeta", ORR_FAMILY_NORM},
    {"rms_norm", ORR_FAMILY_NORM},
    {"flash", ORR_FAMILY_ATTENTION},
    {"fmha", ORR_FAMILY_ATTENTION},
    {"attention", ORR_FAMILY_ATTENTION},
    {"embedding_backward", ORR_FAMILY_EMBEDDING_BACKWARD},
    {"embedding_codegen_forward", ORR_FAMILY_EMBEDDING_FORWARD},
    {"batched_embedding", ORR_FAMILY_EMBEDDING_FORWARD},
    {"EmbeddingBag", ORR_FAMILY_EMBEDDING_FORWARD},
    {"embedding_forward", ORR_FAMILY_EMBEDDING_FORWARD},
    {"indexSelect", ORR_FAMILY_EMBEDDING_FORWARD},
    {"fbgemm", ORR_FAMILIES}, /* a library, not a product */
    {"winograd", ORR_FAMILY_CONVOLUTION},
    {"scudnn", ORR_FAMILY_CONVOLUTION},
    {"wgrad", ORR_FAMILY_CONVOLUTION},
    {"dgrad", ORR_FAMILY_CONVOLUTION},
    {"fprop", ORR_FAMILY_CONVOLUTION},
    {"convolve", ORR_FAMILY_CONVOLUTION},
    {"cutlass__5x_cudnn", ORR_FAMILY_CONVOLUTION},
    {"conv2d", ORR_FAMILY_CONVOLUTION},
    {"conv_depthwise", ORR_FAMILY_CONVOLUTION},
    {"miopen", ORR_FAMILY_CONVOLUTION},
    {"gemm", ORR_FAMILY_GEMM},
    {"Gemm", ORR_FAMILY_GEMM},
    {"gemv", ORR_FAMILY_GEMM},
    {"cutlass", ORR_FAMILY_GEMM},
    {"cublas", ORR_FAMILY_GEMM},
    {"Cijk_", ORR_FAMILY_GEMM},
    {"nvjet", ORR_FAMILY_GEMM},
    {"s884", ORR_FAMILY_GEMM},
    {"s16816", ORR_FAMILY_GEMM},
    {"dot_kernel", ORR_FAMILY_GEMM},
    {"CatArray", ORR_FAMILY_CONCAT},
    {"oftmax", ORR_FAMILY_SOFTMAX},
    {"softMax", ORR_FAMILY_SOFTMAX},
    {"SoftMax", ORR_FAMILY_SOFTMAX},
    {"multi_tensor_apply", ORR_FAMILY_OPTIMIZER},
    {"reduce_kernel", ORR_FAMILY_REDUCTION},
    {"triton_red", ORR_FAMILY_REDUCTION},
    {"triton_per", ORR_FAMILY_REDUCTION},
    {"triton_poi", ORR_FAMILY_ELEMENTWISE},
    {"index_elementwise", ORR_FAMILIES},
    {"elementwise_kernel", ORR_FAMILY_ELEMENTWISE},
    {"transpose", ORR_FAMILY_TRANSPOSE},
};

unsigned orr_kernel_family_by_name(const char *kernel)
{
    for (size_t i = 0; i < sizeof KERNELS / sizeof *KERNELS; i++)
        if (strstr(kernel, KERNELS[i].part) != NULL)
            return KERNELS[i].family;
    return ORR_FAMILIES;
}
