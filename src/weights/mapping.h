/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WEIGHTS_MAPPING_H
#define ORR_WEIGHTS_MAPPING_H

#include <orrery/weights.h>

/* Weight mapping: which rows of which tensors of a checkpoint a parameter is made of, for reading
 * and writing (cf. param mappings of Megatron Bridge). A parameter is seen as M matrices of R rows
 * (outputs) by K columns (inputs), as checkpoints store weights.
 *
 * Example: qkv of a Llama with 4 heads, 2 key heads and head size d, grouped by key head, consists
 * of rows [0, 2d) of q_proj, [0, d) of k_proj, [0, d) of v_proj, then rows [2d, 4d) of q_proj, [d,
 * 2d) of k_proj, [d, 2d) of v_proj. */
typedef enum orr_weight_mapping_kind {
    ORR_WEIGHT_MAPPING_LINEAR, /* on the tape (K, R), or (M, K, R) */
    ORR_WEIGHT_MAPPING_TABLE,  /* (R, K)  */
    ORR_WEIGHT_MAPPING_VECTOR  /* (R), or any dims with R elements; K is 1 */
} orr_weight_mapping_kind;

typedef struct orr_weight_mapping_tensor {
    const char *name;
    uint8_t rank;
    int64_t dim[ORR_TYPE_DIMS]; /* required dims */
    int64_t rows, columns;      /* of one of its matrices */
    bool input_major;           /* its matrices are stored (K, R) */
    bool exact;                 /* never quantized: routers */
} orr_weight_mapping_tensor;

/* A range of rows of a tensor's matrix, contiguous in the parameter; ranges are in order and
 * without gaps. */
typedef struct orr_weight_mapping_rows {
    uint32_t tensor;
    int64_t matrix, from, count;
} orr_weight_mapping_rows;

typedef struct orr_weight_mapping {
    uint8_t kind; /* orr_weight_mapping_kind */
    int64_t matrices, rows, columns;
    orr_weight_mapping_tensor *tensors;
    orr_weight_mapping_rows *ranges;
    uint32_t n_tensors, n_ranges, room_tensors, room_ranges;
    orr_arena *arena;
    bool failed;                /* out of memory: reported by orr_weight_mapping_make() */
    const orr_weights *weights; /* the checkpoint that tensors are checked against; NULL: none */
    bool incomplete; /* a tensor is missing or has the wrong shape: nothing more is added */
} orr_weight_mapping;

/* The tensor names of one model's checkpoint. */
typedef struct orr_tensor_naming orr_tensor_naming;
/* The names used by `weights`, or by a checkpoint that is to be written (`weights` NULL), GGUF or
 * not. In the arena. UNSUPPORTED: no checkpoints of such a model are known. */
orr_status orr_tensor_naming_of(const orr_model *model, const orr_weights *weights, bool gguf,
                                orr_arena *arena, const orr_tensor_naming **ret,
                                orr_error *err) ORR_MUST_CHECK;
/* NOT_FOUND: the model has no such parameter, or checkpoints do not store it. */
orr_status orr_weight_mapping_make(const orr_tensor_naming *naming, const orr_weight_key *key,
                                   orr_arena *arena, orr_weight_mapping *ret,
                                   orr_error *err) ORR_MUST_CHECK;

/* For the files that make mappings. */
bool orr_weight_mapping_matches(const orr_weight_mapping_tensor *tensor, const orr_weight *weight);
void orr_weight_mapping_begin(orr_weight_mapping *mapping, orr_weight_mapping_kind kind,
                              int64_t matrices, int64_t rows, int64_t columns);
/* Adds a tensor of so many matrices; returns its number. Its dims follow from the mapping's kind.
 * `matrices` 0: a tensor without that dim. */
uint32_t orr_weight_mapping_add_tensor(orr_weight_mapping *mapping, const char *name,
                                       int64_t matrices, int64_t rows, bool input_major);
void orr_weight_mapping_add_rows(orr_weight_mapping *mapping, uint32_t tensor, int64_t matrix,
                                 int64_t from, int64_t count);

#endif /* ORR_WEIGHTS_MAPPING_H */
