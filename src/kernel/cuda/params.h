/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CUDA_PARAMS_H
#define ORR_KERNEL_CUDA_PARAMS_H

/* Parameters of device kernels: included by both compilers. */

enum { ORR_CUDA_DIMS = 6, ORR_CUDA_IN = 6, ORR_CUDA_OUT = 3 };

/* A tensor; strides in elements, 0 where broadcast. data NULL: an output that is not wanted. */
typedef struct orr_cuda_operand {
    void *data;
    long long stride[ORR_CUDA_DIMS];
    int dtype; /* orr_dtype */
} orr_cuda_operand;

/* One parameter struct for all kernels. `dim`: the dims iterated over, outermost first; kernels on
 * rows iterate over all but the last. Letters are those of the operators' files. */
typedef struct orr_cuda_params {
    orr_cuda_operand in[ORR_CUDA_IN], out[ORR_CUDA_OUT];
    long long dim[ORR_CUDA_DIMS];
    int rank, n_in, code; /* code: orr_op, or orr_pass for a kernel with several passes */
    int flag, accumulate, mask;
    long long n, columns; /* elements; elements of a row */
    long long offset, window, begin, count;
    float value, beta1, beta2, epsilon, rate, decay, scale, correction1, correction2;
    float stretch, low, high;
    long long context;
    const long long *first; /* in device memory, or NULL */
    float *scratch;
} orr_cuda_params;

/* Kernels by name, for the host's table. */
#define ORR_CUDA_KERNEL_MAP(X)                                                                     \
    X(MAP, "orr_map")                                                                              \
    X(SUM, "orr_sum")                                                                              \
    X(NORM, "orr_norm")                                                                            \
    X(NORM_BACKWARD, "orr_norm_backward") X(NORM_WEIGHTS, "orr_norm_weights") X(FOLD, "orr_fold")  \
        X(ROTARY, "orr_rotary") X(ATTENTION, "orr_attention")                                      \
            X(ATTENTION_DELTA, "orr_attention_delta") X(ATTENTION_QUERY, "orr_attention_query")    \
                X(ATTENTION_KEY, "orr_attention_key") X(EMBEDDING, "orr_embedding")                \
                    X(EMBEDDING_BACKWARD, "orr_embedding_backward")                                \
                        X(CROSS_ENTROPY, "orr_cross_entropy")                                      \
                            X(CROSS_ENTROPY_BACKWARD, "orr_cross_entropy_backward")                \
                                X(ADAMW, "orr_adamw") X(SGD, "orr_sgd")

#endif /* ORR_KERNEL_CUDA_PARAMS_H */
