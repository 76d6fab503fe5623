/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_H
#define ORR_KERNEL_H

#include <stddef.h>

#include <orrery/op.h>
#include <orrery/dtype.h>
#include <orrery/workers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels: what computes an operator on real bytes. A backend is a device (CPU, GPU) with a table
 * of kernel entries by operator, some of which may be empty. The inputs, outputs and meaning of an
 * operator are defined in its family's file of src/op. */

/* The weights (K, N) of a product stored transposed, as checkpoints have them: N rows of K numbers,
 * in segments at arbitrary addresses (of mapped files), so that q, k and v of a layer can be one
 * operand. Also an embedding table (V, D): V rows of D. */
typedef struct orr_row_segment {
    const void *data;
    int64_t first, count; /* rows; segments are in order and without gaps */
} orr_row_segment;
typedef struct orr_weight_rows {
    uint8_t format; /* orr_row_format */
    int64_t columns, row_bytes;
    const orr_row_segment *segments; /* shape (n_segments) */
    uint32_t n_segments;
} orr_weight_rows;

/* A tensor as a kernel sees it. */
typedef struct orr_operand {
    orr_type type;
    int64_t stride[ORR_TYPE_DIMS]; /* elements from one index of a dim to the next; rows of dtypes
                                      below 8 bits are contiguous */
    void *data; /* on the device; NULL where `rows` has the numbers, or for an output that is not
                   wanted */
    const orr_weight_rows *rows;
} orr_operand;
/* Strides of a contiguous tensor. */
ORR_API void orr_operand_contiguous(const orr_type *type, int64_t *ret_stride);
ORR_API bool orr_operand_is_contiguous(const orr_operand *operand);

/* The hyperparameters of one optimizer step. */
typedef struct orr_update {
    double rate, beta1, beta2, epsilon, decay, momentum;
    int64_t step;          /* from 1, for the bias correction of the moments */
    double gradient_scale; /* multiplies gradients first: clipping, mean over tokens */
} orr_update;

typedef struct orr_kernel_call {
    uint8_t op;
    const orr_op_args *args;
    uint32_t n_in, n_out;
    const orr_operand *in, *out;
    bool accumulate; /* out[0] += instead of =, where the entry supports it. Norms backward: out[1],
                        the gradient of the weight */
    const int64_t *first; /* shape (B): position of each sample's first token, for rotary, attention
                             and KV cache. NULL: args->offset for all. */
    const orr_update *update; /* for optimizers */
    uint64_t seed;            /* for dropout: of the call and step */
    void *workspace;          /* as many bytes as the entry asked for, aligned to 64 */
    void *state;              /* of the entry's prepare(), or NULL */
    orr_workers *workers;     /* threads; results do not depend on their number. NULL: the calling
                                 thread alone */
    void *stream;             /* of the device */
} orr_kernel_call;

typedef struct orr_kernel_entry {
    /* Runs the operator. Allocates nothing and does not block. Errors: INVALID: an id out of range,
     * ... */
    orr_status (*run)(const orr_kernel_call *call, orr_error *err);
    /* Bytes of scratch for a call; NULL: none. Data pointers may not be set yet; `workers` are
     * those that will run it, since per-thread scratch counts. */
    size_t (*workspace)(const orr_kernel_call *call);
    /* Prepares what depends on shapes only (such as a compiled primitive of a library), once; NULL:
     * nothing. */
    orr_status (*prepare)(const orr_kernel_call *call, void **ret_state, orr_error *err);
    void (*release)(void *state);
    bool accumulates;
} orr_kernel_entry;

/* A device: memory, streams, events and kernel entries. Calls on one stream run in order; for a
 * device, `run` returns when the work is enqueued. Threads: any, one at a time per stream. */
typedef struct orr_backend orr_backend;
struct orr_backend {
    const char *name;                  /* "cpu", "cuda:0"                                */
    const char *description;           /* for people: "AMD EPYC, avx512_bf16" */
    orr_kernel_entry entries[ORR_OPS]; /* run NULL: no kernel */
    void *ctx;
    orr_status (*allocate)(orr_backend *self, size_t bytes, void **ret, orr_error *err);
    void (*release)(orr_backend *self, void *data, size_t bytes);
    /* Copies between host and device, either way. */
    orr_status (*copy)(orr_backend *self, void *to, const void *from, size_t bytes, void *stream,
                       orr_error *err);
    orr_status (*stream_new)(orr_backend *self, void **ret, orr_error *err); /* NULL: no streams */
    void (*stream_free)(orr_backend *self, void *stream);
    orr_status (*event_record)(orr_backend *self, void *stream, void **event, orr_error *err);
    orr_status (*event_wait)(orr_backend *self, void *stream, void *event, orr_error *err);
    orr_status (*synchronize)(orr_backend *self, void *stream, orr_error *err);
    int64_t (*free_bytes)(orr_backend *self); /* that can be allocated; -1: unknown */
    void (*close)(orr_backend *self);
};

/* The host's CPU at its best level (AVX-512, bf16, AMX, down to plain C); ORRERY_CPU=plain, avx2,
 * avx512, ... in the environment limits it. Static storage. */
ORR_API ORR_MUST_CHECK orr_status orr_backend_cpu(orr_backend **ret, orr_error *err);
/* GPU number `device`. UNSUPPORTED with one line that says why: built without CUDA, no driver, no
 * such device. close() frees it. */
ORR_API ORR_MUST_CHECK orr_status orr_backend_cuda(int device, orr_backend **ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_KERNEL_H */
