/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_ENTRIES_H
#define ORR_KERNEL_CPU_ENTRIES_H

#include <orrery/kernel.h>

/* The CPU backend's kernel entries, one for each operator but collectives. The file that implements
 * an operator defines
 *
 *   const orr_kernel_entry orr_cpu_RMS_NORM = {.run = ..., .workspace = ...};
 *
 * and is listed in meson.build; a missing entry is a link error. */
#define ORR_CPU_ENTRY_MAP(X)                                                                       \
    X(MATMUL)                                                                                      \
    X(GROUPED_MATMUL)                                                                              \
    X(ATTENTION)                                                                                   \
    X(ATTENTION_BACKWARD) X(ATTENTION_MERGE) X(SOFTMAX) X(SOFTMAX_BACKWARD)                        \
        X(ATTENTION_TEMPERATURE) X(RMS_NORM) X(RMS_NORM_BACKWARD) X(LAYER_NORM)                    \
            X(LAYER_NORM_BACKWARD) X(BATCH_NORM) X(BATCH_NORM_BACKWARD) X(ROTARY) X(SWIGLU)        \
                X(SWIGLU_BACKWARD) X(GELU) X(RELU) X(SILU) X(SIGMOID) X(ACTIVATION_BACKWARD)       \
                    X(EMBEDDING) X(EMBEDDING_BACKWARD) X(MASKED_SCATTER) X(EMBEDDING_BAG)          \
                        X(EMBEDDING_BAG_BACKWARD) X(CROSS_ENTROPY) X(CROSS_ENTROPY_BACKWARD)       \
                            X(BCE_LOSS) X(BCE_LOSS_BACKWARD) X(TOP_K) X(TOP_K_BACKWARD)            \
                                X(DISPATCH) X(COMBINE) X(INTERACTION) X(INTERACTION_BACKWARD)      \
                                    X(CONVOLUTION) X(CONVOLUTION_INPUT) X(CONVOLUTION_WEIGHT)      \
                                        X(POOL) X(POOL_BACKWARD) X(SGD) X(ADAMW)                   \
                                            X(ROWWISE_ADAGRAD) X(ADD) X(MUL) X(SCALE) X(BIAS)      \
                                                X(SUM) X(DROPOUT) X(FILL) X(VIEW) X(TRANSPOSE)     \
                                                    X(CONCAT) X(SPLIT) X(SLICE) X(PAD) X(CACHE)    \
                                                        X(EXPAND) X(CAST) X(QUANTIZE)              \
                                                            X(DEQUANTIZE) X(COPY)
#define ORR_CPU_ENTRY_(name) extern const orr_kernel_entry orr_cpu_##name;
ORR_CPU_ENTRY_MAP(ORR_CPU_ENTRY_)
#undef ORR_CPU_ENTRY_

#endif /* ORR_KERNEL_CPU_ENTRIES_H */
