/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_H
#define ORR_KERNEL_H

#include <stddef.h>

#include <orrery/op.h>
#include <orrery/workers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Kernels: what runs an operator on real bytes. A backend is an array of functions by operator;
 * entries may be empty. What an operator takes, gives and means is said in its family's file of
 * src/op, and nowhere else. */

/* How a row of weights is kept in memory. FP32, FP16, BF16: numbers one behind another. The others
 * are blocks along the row, each with its scale:
 *   Q8_0  32 numbers: fp16 scale, 32 int8             (GGUF)
 *   Q4_0  32 numbers: fp16 scale, 16 bytes of two nibbles, number j of the low ones, j + 16 of
 *         the high ones, each minus 8                  (GGUF)
 *   INT8  fp32 scale of the row, then int8            (embedding rows, weights of our own)
 *   INT4  fp32 scale, fp32 least, then nibbles, low one first */
#define ORR_ROW_FORMAT_MAP(X)                                                                      \
    X(FP32, "fp32")                                                                                \
    X(FP16, "fp16") X(BF16, "bf16") X(Q8_0, "q8_0") X(Q4_0, "q4_0") X(INT8, "int8")                \
        X(INT4, "int4")
typedef enum orr_row_format {
#define ORR_ROW_FORMAT_ENUM_(name, text) ORR_ROW_FORMAT_##name,
    ORR_ROW_FORMAT_MAP(ORR_ROW_FORMAT_ENUM_)
#undef ORR_ROW_FORMAT_ENUM_
        ORR_ROW_FORMATS
} orr_row_format;
ORR_API const char *orr_row_format_name(orr_row_format format);
/* Bytes of a row of so many numbers; -1: no whole number of blocks. */
ORR_API int64_t orr_row_format_bytes(orr_row_format format, int64_t columns);

/* Weights (K, N) of a product, kept the other way round: N rows of K numbers, as checkpoints have
 * them, in segments that lie anywhere (mapped files): q, k and v of a layer are one operand so.
 * Also a table (V, D) that is looked up: V rows of D. */
typedef struct orr_row_segment {
    const void *data;
    int64_t first, count; /* rows; segments stand in order and leave nothing out */
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
    int64_t stride[ORR_TYPE_DIMS]; /* elements from one index of a dim to the next; of dtypes below
                                    * 8 bits rows are contiguous                              */
    void *data;                    /* of the device; NULL where `rows` has the numbers, or where no
                                    * one wants the output                                     */
    const orr_weight_rows *rows;
} orr_operand;
/* Strides of a tensor without gaps. */
ORR_API void orr_operand_contiguous(const orr_type *type, int64_t *ret_stride);
ORR_API bool orr_operand_is_contiguous(const orr_operand *operand);

/* What optimizers go by, of the step that is made. */
typedef struct orr_update {
    double rate, beta1, beta2, epsilon, decay, momentum;
    int64_t step;          /* from 1: corrects the bias of the means */
    double gradient_scale; /* gradients are multiplied by it first: clipping, mean over tokens */
} orr_update;

typedef struct orr_kernel_call {
    uint8_t op;
    const orr_op_args *args;
    uint32_t n_in, n_out;
    const orr_operand *in, *out;
    bool accumulate;          /* out[0] += instead of =; only where the entry says it can. Norms
                               * backward: out[1], the gradient of the weight             */
    const int64_t *first;     /* shape (B): position of each sample's first token, instead of
                               * args->offset: rotary, attention, cache. NULL: args->offset.   */
    const orr_update *update; /* of optimizers */
    uint64_t seed;            /* of dropout: of the call and the step */
    void *workspace;          /* as many bytes as the entry asked for, aligned to 64 */
    void *state;              /* of the entry's prepare(), or NULL */
    orr_workers *workers;     /* threads; results do not depend on how many. NULL: the caller's */
    void *stream;             /* of a device */
} orr_kernel_call;

typedef struct orr_kernel_entry {
    /* Runs it. Allocates nothing, blocks on nothing. Errors: INVALID: an id out of range, ... */
    orr_status (*run)(const orr_kernel_call *call, orr_error *err);
    /* Bytes of scratch for calls like this; NULL: none. Data pointers may not be set yet; `workers`
     * are those that will run it, since scratch of a thread's own is counted here. */
    size_t (*workspace)(const orr_kernel_call *call);
    /* Builds what depends on shapes only (a primitive of a library), once; NULL: nothing. */
    orr_status (*prepare)(const orr_kernel_call *call, void **ret_state, orr_error *err);
    void (*release)(void *state);
    bool accumulates;
} orr_kernel_entry;

/* A place where tensors live and kernels run. Calls on one stream run in order; `run` of a device
 * returns when the work is enqueued. Threads: any, one at a time for each stream. */
typedef struct orr_backend orr_backend;
struct orr_backend {
    const char *name;                  /* "cpu", "cuda:0"                                */
    const char *description;           /* "AMD EPYC, avx512_bf16", for people            */
    orr_kernel_entry entries[ORR_OPS]; /* run NULL: none                          */
    void *ctx;
    orr_status (*allocate)(orr_backend *self, size_t bytes, void **ret, orr_error *err);
    void (*release)(orr_backend *self, void *data, size_t bytes);
    /* Between host and device, either way. */
    orr_status (*copy)(orr_backend *self, void *to, const void *from, size_t bytes, void *stream,
                       orr_error *err);
    orr_status (*stream_new)(orr_backend *self, void **ret, orr_error *err); /* NULL: no streams */
    void (*stream_free)(orr_backend *self, void *stream);
    orr_status (*event_record)(orr_backend *self, void *stream, void **event, orr_error *err);
    orr_status (*event_wait)(orr_backend *self, void *stream, void *event, orr_error *err);
    orr_status (*synchronize)(orr_backend *self, void *stream, orr_error *err);
    int64_t (*free_bytes)(orr_backend *self); /* that can be allocated; -1: not known */
    void (*close)(orr_backend *self);
};

/* The host's processors, at what they can do (AVX-512, bf16, AMX, down to plain C):
 * ORRERY_CPU=plain, avx2, avx512, ... in the environment asks for less. Static storage. */
ORR_API ORR_MUST_CHECK orr_status orr_backend_cpu(orr_backend **ret, orr_error *err);
/* GPU number `device`. UNSUPPORTED with one line that says why: built without, no driver, no
 * device. close() frees it. */
ORR_API ORR_MUST_CHECK orr_status orr_backend_cuda(int device, orr_backend **ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_KERNEL_H */
