/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OP_H
#define ORR_OP_H

#include <orrery/arena.h>
#include <orrery/dtype.h>
#include <orrery/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The operator table, and tapes: operators applied to tensors, in order (a Wengert list; Griewank
 * and Walther, Evaluating Derivatives).
 *
 * A row of the table holds an operator's shape rule, its work, its gradient and its names
 * elsewhere, but no kernel: a backend has its own table of kernels (kernel.h). What is simulated
 * and what is executed is the same tape.
 *
 * Letters in shapes: B batch, S tokens of a sample, T tokens (B x S), D columns, H heads, G key and
 * value heads, E experts, K chosen experts, M N K of a matrix product. */
enum { ORR_TYPE_DIMS = 6, ORR_CALL_IN = 8, ORR_CALL_OUT = 4 };
typedef struct orr_type {
    uint8_t dtype; /* orr_dtype */
    uint8_t rank;
    int64_t dim[ORR_TYPE_DIMS]; /* outermost first, row-major */
} orr_type;
/* -1: more than 63 bits. */
ORR_API int64_t orr_type_elements(const orr_type *type);
ORR_API int64_t orr_type_bytes(const orr_type *type); /* rounded up */

/* Operators: enumerator, name, family (a file of src/op/families). Inputs and outputs are defined
 * in the family's file, and printed by `orrery ops`. */
#define ORR_OP_MAP(X)                                                                              \
    X(MATMUL, "matmul", MATMUL)                                                                    \
    X(GROUPED_MATMUL, "grouped_matmul", MATMUL)                                                    \
    X(ATTENTION, "attention", ATTENTION) X(ATTENTION_BACKWARD, "attention_backward", ATTENTION) X( \
        SOFTMAX, "softmax", ATTENTION) X(SOFTMAX_BACKWARD, "softmax_backward", ATTENTION)          \
        X(RMS_NORM, "rms_norm", NORM) X(RMS_NORM_BACKWARD, "rms_norm_backward", NORM) X(           \
            LAYER_NORM, "layer_norm", NORM) X(LAYER_NORM_BACKWARD, "layer_norm_backward",          \
                                              NORM) X(BATCH_NORM, "batch_norm", NORM)              \
            X(BATCH_NORM_BACKWARD, "batch_norm_backward", NORM) X(ROTARY, "rotary", ROTARY) X(     \
                SWIGLU, "swiglu", ACTIVATION) X(SWIGLU_BACKWARD, "swiglu_backward", ACTIVATION)    \
                X(GELU, "gelu", ACTIVATION) X(RELU, "relu", ACTIVATION)                            \
                    X(SILU, "silu", ACTIVATION) X(SIGMOID, "sigmoid", ACTIVATION) X(               \
                        ACTIVATION_BACKWARD, "activation_backward",                                \
                        ACTIVATION) X(EMBEDDING, "embedding", EMBEDDING)                           \
                        X(EMBEDDING_BACKWARD, "embedding_backward",                                \
                          EMBEDDING) X(EMBEDDING_BAG, "embedding_bag", EMBEDDING_BAG)              \
                            X(EMBEDDING_BAG_BACKWARD, "embedding_bag_backward",                    \
                              EMBEDDING_BAG) X(CROSS_ENTROPY, "cross_entropy", LOSS)               \
                                X(CROSS_ENTROPY_BACKWARD, "cross_entropy_backward",                \
                                  LOSS) X(BCE_LOSS, "bce_loss", LOSS)                              \
                                    X(BCE_LOSS_BACKWARD, "bce_loss_backward",                      \
                                      LOSS) X(TOP_K, "top_k", ROUTING)                             \
                                        X(TOP_K_BACKWARD, "top_k_backward",                        \
                                          ROUTING) X(DISPATCH, "dispatch",                         \
                                                     ROUTING) X(COMBINE, "combine", ROUTING)       \
                                            X(INTERACTION, "interaction", INTERACTION)             \
                                                X(INTERACTION_BACKWARD, "interaction_backward",    \
                                                  INTERACTION)                                     \
                                                    X(CONVOLUTION, "convolution", CONVOLUTION)     \
                                                        X(CONVOLUTION_INPUT, "convolution_input",  \
                                                          CONVOLUTION) /* gradient of the input */ \
        X(CONVOLUTION_WEIGHT, "convolution_weight", CONVOLUTION) /* gradient of the weights */     \
        X(POOL, "pool", CONVOLUTION) X(POOL_BACKWARD, "pool_backward", CONVOLUTION) X(SGD, "sgd",  \
                                                                                      OPTIMIZER)   \
            X(ADAMW, "adamw", OPTIMIZER) X(ROWWISE_ADAGRAD, "rowwise_adagrad", OPTIMIZER) X(       \
                ADD, "add", ELEMENTWISE) X(MUL, "mul", ELEMENTWISE) X(SCALE, "scale", ELEMENTWISE) \
                X(BIAS, "bias", ELEMENTWISE) X(SUM, "sum", ELEMENTWISE)                            \
                    X(DROPOUT, "dropout", ELEMENTWISE) X(FILL, "fill", ELEMENTWISE)                \
                        X(VIEW, "view", LAYOUT) X(TRANSPOSE, "transpose", LAYOUT)                  \
                            X(CONCAT, "concat", LAYOUT) X(SPLIT, "split", LAYOUT) X(               \
                                SLICE, "slice", LAYOUT) X(PAD, "pad", LAYOUT)                      \
                                X(CACHE, "cache",                                                  \
                                  LAYOUT) /* KV cache: rows written after those that were there */ \
        X(MASKED_SCATTER, "masked_scatter",                                                        \
          EMBEDDING) /* image embeddings in place of placeholder tokens */                         \
        X(ATTENTION_TEMPERATURE, "attention_temperature",                                          \
          ATTENTION) /* queries scaled by position */                                              \
        X(ATTENTION_MERGE, "attention_merge",                                                      \
          ATTENTION)                /* partial attentions over different keys combined */          \
        X(EXPAND, "expand", LAYOUT) /* a new dim, repeated along it */                             \
        X(CAST, "cast", CAST) X(QUANTIZE, "quantize", CAST) X(DEQUANTIZE, "dequantize", CAST)      \
            X(ALL_REDUCE, "all_reduce", COLLECTIVE) X(ALL_GATHER, "all_gather", COLLECTIVE)        \
                X(REDUCE_SCATTER, "reduce_scatter", COLLECTIVE)                                    \
                    X(ALL_TO_ALL, "all_to_all", COLLECTIVE) X(BROADCAST, "broadcast", COLLECTIVE)  \
                        X(BARRIER, "barrier", COLLECTIVE)                                          \
                            X(REPLICATE, "replicate",                                              \
                              COLLECTIVE) /* identity forward, all-reduce backward */              \
        X(SHARD, "shard", COLLECTIVE)     /* slice forward, all-gather backward */                 \
        X(SEND, "send", COLLECTIVE) X(RECV, "recv", COLLECTIVE) X(COPY, "copy", COPY)
typedef enum orr_op {
#define ORR_OP_ENUM_(name, text, family) ORR_OP_##name,
    ORR_OP_MAP(ORR_OP_ENUM_)
#undef ORR_OP_ENUM_
        ORR_OPS
} orr_op;

#define ORR_OP_FAMILY_MAP(X)                                                                       \
    X(MATMUL, "matmul")                                                                            \
    X(ATTENTION, "attention")                                                                      \
    X(NORM, "norm") X(ROTARY, "rotary") X(ACTIVATION, "activation") X(EMBEDDING, "embedding")      \
        X(EMBEDDING_BAG, "embedding bag") X(LOSS, "loss") X(ROUTING, "routing")                    \
            X(INTERACTION, "interaction") X(CONVOLUTION, "convolution") X(OPTIMIZER, "optimizer")  \
                X(ELEMENTWISE, "elementwise") X(LAYOUT, "layout") X(CAST, "cast")                  \
                    X(COLLECTIVE, "collective") X(COPY, "copy")
typedef enum orr_op_family {
#define ORR_OP_FAMILY_ENUM_(name, text) ORR_OP_FAMILY_##name,
    ORR_OP_FAMILY_MAP(ORR_OP_FAMILY_ENUM_)
#undef ORR_OP_FAMILY_ENUM_
        ORR_OP_FAMILIES
} orr_op_family;
ORR_API const char *orr_op_family_name(orr_op_family family);

typedef enum orr_mask { ORR_MASK_NONE, ORR_MASK_CAUSAL, ORR_MASK_CHUNKED } orr_mask;

/* Arguments of an operator beside its tensors. Each operator reads those that its family's file
 * names; all others are 0. */
typedef struct orr_op_args {
    bool transpose_a, transpose_b; /* matrix products */
    uint8_t mask; /* orr_mask: attention                                                 */
    bool flash;   /* attention in one kernel; otherwise scores and probabilities are materialized */
    bool frozen;  /* backward of norms: no gradients of the weights */
    int64_t window; /* tokens of a chunk: ORR_MASK_CHUNKED */
    int64_t offset; /* position of the first query among the keys: causal masks with a cache or a
                       slice of the context */
    int32_t dim; /* the dim that is concatenated, sliced, gathered, scattered, reduced, permuted */
    int32_t to_dim; /* all-to-all: the dim that is gathered; transpose: the other dim */
    int64_t begin,
        count; /* slice: the range; pad: zeros before and after; expand: count is the repetition;
                  sum: number of dims (0: 1); bags: mean lookups per bag x 1024 in count; attention:
                  begin is the first key's position; losses: count is the number of words */
    const orr_type *shape; /* dims of a view; dims and dtype of a fill; sizes of the parts of a
                              split. Copied to the tape */
    uint8_t dtype;         /* orr_dtype of the result of a cast */
    uint8_t op;            /* the orr_op whose derivative an ACTIVATION_BACKWARD computes */
    uint8_t axis;          /* of a collective: the parallelism axis, numbered by the caller */
    uint32_t members;      /* ranks in the collective's group */
    bool overlap;    /* of a collective: overlaps with what follows until its result is used */
    uint16_t slices; /* axes (1 << axis, the caller's) that offset, begin and count depend on:
                        filled in by whoever knows the rank */
    int64_t top_k, experts; /* experts: also for the gradient of grouped weights */
    const uint32_t *expert_position; /* DISPATCH, COMBINE: shape (experts), where each stands among
                                        experts as rows are sorted; NULL: as numbered. The
                                        caller's */
    uint32_t stride, padding,
        size; /* convolution, pool; size: elements that share a scale in QUANTIZE and in products of
                 its results, 0: the whole tensor; rotary: patches in a row of an image */
    bool tanh;                /* GELU: the tanh form, see src/op/families/activation.c */
    bool interleaved;         /* rotary: columns 2i and 2i + 1 form a pair */
    float stretch, low, high; /* rotary context extension: factor and the range of wavelengths it
                                 applies to; 0: none */
    int64_t context;          /* rotary: tokens of the original context */
    double seen, uneven; /* attention: the share of pairs that other masks (documents) leave, mean
                            of ranks; how many the rank has that has most, over that mean. Work
                            alone depends on them. 0: as if 1 */
    double value; /* epsilon of a norm, factor of SCALE, base of rotary (negative: rotate
                     backwards), fill value, dropout probability (also in attention) */
} orr_op_args;

typedef struct orr_tape orr_tape;
typedef uint32_t orr_value; /* a tensor on a tape; ORR_NONE: none */

/* An operator with the types of its inputs, and of its outputs once these are known: what rules are
 * asked about. */
typedef struct orr_op_signature {
    uint8_t op;
    const orr_op_args *args;
    uint32_t n_in, n_out;
    const orr_type *in, *out; /* shapes (n_in), (n_out) */
} orr_op_signature;

typedef struct orr_op_work {
    double flops;                   /* multiplications and additions; a fused pair counts as 2 */
    double read_bytes, write_bytes; /* of the device's memory, each tensor once */
    uint8_t dtype;                  /* orr_dtype of the arithmetic */
} orr_op_work;

/* Context of a gradient function: values of the call, gradients of its outputs (ORR_NONE: no
 * gradient flows into it; not all are), and whose gradients are wanted. The function records
 * backward calls and sets ret_in. */
typedef struct orr_gradient {
    orr_tape *tape;
    uint8_t op;
    const orr_op_args *args;
    uint32_t n_in, n_out;
    const orr_value *in, *out, *grad_out;
    const bool *wanted; /* shape (n_in) */
    orr_value *ret_in;  /* shape (n_in); ORR_NONE where there is none */
    const char *name;   /* of the call */
} orr_gradient;

typedef struct orr_op_row {
    const char *name;
    uint8_t op, family;
    uint8_t min_in, max_in, n_out;
    bool shares; /* the output shares the bytes of the first input: no work, except that CACHE
                    writes some of them */
    const char *takes, *gives;  /* "x (..., M, K), w (K, N)", "y (..., M, N)"       */
    const char *const *pytorch; /* NULL-terminated: "aten::mm", "aten::linear"      */
    const char *chakra;         /* "COMP_NODE", "COMM_COLL_NODE ALL_REDUCE"         */
    /* Infers output types; ORR_DTYPES as the dtype of trailing outputs: these do not exist.
     * INVALID: "matmul: x (8, 512) and w (256, 1024): the inner dims 512 and 256 differ". */
    orr_status (*shape)(const orr_op_signature *site, orr_type *ret_out, orr_error *err);
    void (*work)(const orr_op_signature *site, orr_op_work *ret);
    /* NULL: no gradient (optimizers, indices). */
    orr_status (*gradient)(orr_gradient *g, orr_error *err);
} orr_op_row;
/* The row of an operator; never NULL for op < ORR_OPS. Static storage. */
ORR_API const orr_op_row *orr_op_of(orr_op op);
/* By our name, or a name in PyTorch; NULL: none. */
ORR_API const orr_op_row *orr_op_find(const char *name);
ORR_API const orr_op_row *orr_op_find_pytorch(const char *name);

/* A tape: values and calls in order, in static single assignment. It grows in an arena, used by one
 * thread while it does; afterwards any thread may read it. A value's bytes live from the call that
 * makes it to the last that uses it. */
#define ORR_VALUE_ROLE_MAP(X)                                                                      \
    X(INPUT, "input")                                                                              \
    X(PARAMETER, "parameter")                                                                      \
    X(ACTIVATION, "activation") X(GRADIENT, "gradient")                                            \
        X(PARAMETER_GRADIENT, "parameter gradient") X(STATE, "optimizer state")                    \
            X(CONSTANT, "constant")
typedef enum orr_value_role {
#define ORR_VALUE_ROLE_ENUM_(name, text) ORR_VALUE_##name,
    ORR_VALUE_ROLE_MAP(ORR_VALUE_ROLE_ENUM_)
#undef ORR_VALUE_ROLE_ENUM_
} orr_value_role;
typedef struct orr_tape_value {
    orr_type type;
    uint8_t role; /* orr_value_role                                                    */
    bool frozen;  /* a parameter without gradient                                      */
    bool kept;    /* saved for the backward pass: not a view, and read after the forward pass; see
                     orr_tape_is_saved() */
    uint32_t made_by;  /* the call that makes it, or ORR_NONE */
    orr_value of;      /* gradient: the value it is of; recomputed value: the original */
    orr_value view_of; /* the value whose bytes it shares, itself not a view; or ORR_NONE */
    const char *name;  /* "wq", or ""                                                       */
    uint32_t tag;      /* for the maker of the tape: which weights are an expert's, ... */
} orr_tape_value;

#define ORR_PASS_MAP(X)                                                                            \
    X(FORWARD, "forward")                                                                          \
    X(RECOMPUTE, "recompute") /* forward calls repeated in the backward pass */                    \
    X(INPUT, "input gradient")                                                                     \
    X(WEIGHT, "weight gradient") /* leads only to gradients of parameters */                       \
    X(OPTIMIZER, "optimizer")
typedef enum orr_pass {
#define ORR_PASS_ENUM_(name, text) ORR_PASS_##name,
    ORR_PASS_MAP(ORR_PASS_ENUM_)
#undef ORR_PASS_ENUM_
        ORR_PASSES
} orr_pass;
ORR_API const char *orr_pass_name(orr_pass pass);
typedef struct orr_tape_call {
    uint8_t op, pass; /* orr_op, orr_pass */
    uint8_t n_in, n_out;
    bool again; /* recorded by orr_tape_recompute()                              */
    orr_value in[ORR_CALL_IN], out[ORR_CALL_OUT];
    orr_op_args args;
    const char *name; /* "qkv", or ""                                                   */
} orr_tape_call;
struct orr_tape {
    orr_arena *arena;
    orr_tape_value *values;
    orr_tape_call *calls;
    uint32_t n_values, n_calls, room_values, room_calls;
    uint8_t pass; /* pass of the calls that are being recorded */
};

ORR_API void orr_tape_init(orr_tape *tape, orr_arena *arena);
/* Adds a value that no call makes. INVALID: negative dims, or a size over 63 bits; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_tape_value_new(orr_tape *tape, orr_value_role role,
                                                     const orr_type *type, const char *name,
                                                     orr_value *ret, orr_error *err);
/* Records a call of an operator; output types are inferred by its row. `args` NULL: all 0.
 * `ret_out`: shape (n_out of the row), ORR_NONE where these inputs and arguments give none. `name`
 * stays the caller's. Errors: the row's; INVALID: too few or too many inputs; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_tape_call_op(orr_tape *tape, orr_op op,
                                                   const orr_op_args *args, const orr_value *in,
                                                   uint32_t n_in, const char *name,
                                                   orr_value *ret_out, orr_error *err);
/* Reverse-mode differentiation: appends to the tape, as passes INPUT and WEIGHT, the gradients of
 * all parameters that are not frozen and of `wanted`, shape (n_wanted), given the gradients `seeds`
 * of `outputs`, shape (n). Gradients of a value that is used several times are added; they have its
 * dtype, or a wider one if that has 8 bits or fewer. `ret_wanted`, shape (n_wanted): ORR_NONE where
 * no gradient flows. Gradients of parameters are values of role PARAMETER_GRADIENT, `of` the
 * parameter. Backward calls have the names of their forward calls. On failure the tape is
 * unchanged. INVALID: an operator without gradient is on the way; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_tape_gradient(orr_tape *tape, const orr_value *outputs,
                                                    const orr_value *seeds, uint32_t n,
                                                    const orr_value *wanted, uint32_t n_wanted,
                                                    orr_value *ret_wanted, orr_error *err);
/* Which values are not saved for the backward pass but recomputed (activation checkpointing: Chen
 * et al., arXiv 1604.06174; selective: Korthikanti et al., arXiv 2205.05198). */
typedef struct orr_recompute_policy {
    /* true: the value may be dropped and recomputed from saved ones. Asked once for each value that
     * a forward call makes, but not for views, which exist when their root does. */
    bool (*drops)(void *ctx, const orr_tape *tape, orr_value value);
    void *ctx;
} orr_recompute_policy;
/* Rewrites the tape so that no backward call reads a dropped value: the forward calls that make it
 * are recorded again (pass RECOMPUTE), each right before it is first needed, from saved values;
 * collectives too. Value numbers stay the same, call numbers do not. On failure the tape is
 * unchanged. NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_tape_recompute(orr_tape *tape,
                                                     const orr_recompute_policy *keep,
                                                     orr_error *err);
/* Whether the value, made in or before the forward pass, is read in the backward pass and must
 * therefore be saved. Never true of a view: its root is saved. Defined for parameters too. */
ORR_API bool orr_tape_is_saved(const orr_tape *tape, orr_value value);

/* The signature of a call, with storage for its types. */
typedef struct orr_op_signature_types {
    orr_type in[ORR_CALL_IN], out[ORR_CALL_OUT];
} orr_op_signature_types;
ORR_API orr_op_signature orr_tape_signature(const orr_tape *tape, uint32_t call,
                                            orr_op_signature_types *room);
ORR_API void orr_tape_work(const orr_tape *tape, uint32_t call, orr_op_work *ret);

#ifdef __cplusplus
}
#endif

#endif /* ORR_OP_H */
