/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_MODULE_LOCAL_SHARD_H
#define ORR_MODEL_MODULE_LOCAL_SHARD_H

#include "model/module/module.h"
#include "model/plan/groups.h"

/* From the tape of any rank to that of one rank, for execution: the arguments that differ
 * between ranks are filled in, and the index ranges of tensors are found. */

/* Index ranges of one dim of a whole tensor that a rank holds: pieces, which follow one another
 * in the rank's dim. */
enum { ORR_DIM_PIECES_MAX = 4 };
typedef struct orr_dim_pieces {
    uint32_t n;
    struct {
        int64_t whole, own, count; /* first index in the whole and in the rank's dim; length */
        uint32_t copies; /* slices along the dim that hold this piece: 1, or more for heads of
                          * keys and values where there are fewer of them than slices */
    } piece[ORR_DIM_PIECES_MAX];
} orr_dim_pieces;
typedef struct orr_local_shard {
    orr_type whole;                   /* on one device: the same in all plans */
    orr_dim_pieces by[ORR_TYPE_DIMS]; /* by dim; what no piece covers is padding with zeros */
    orr_axis_set slices;              /* axes that shard it: along all others ranks hold the same */
    bool copied;          /* some piece has copies: its gradient is a partial sum over them */
    const uint32_t *rows; /* of dim 0, shape (dim 0 of the rank): the index in the whole of each,
                           * where that is not as `by[0]` says: experts of a placement. Of tensors
                           * of two dims or more; NULL: as by[0] says. Whoever sets it owns it */
} orr_local_shard;

/* Index of the rank's slice along a set of axes; the axis that comes first in orr_axis is the
 * innermost. `ret_n` (may be NULL): the number of slices. */
uint32_t orr_module_slice_index(const orr_module *module, const orr_plan *plan, uint32_t rank,
                                orr_axis_set slices, uint32_t *ret_n);

/* A copy of the module whose tape is that of `rank` (of orr_plan_ranks()): first row of the
 * vocabulary shard, positions of its slice of the context, peers of its ring. In the arena;
 * values and calls keep their numbers. */
orr_status orr_module_specialize(const orr_module *module, const orr_plan *plan, uint32_t rank,
                                 orr_arena *arena, orr_module *ret, orr_error *err) ORR_MUST_CHECK;
/* The local shard of a parameter, an input, the module's input or output, or a gradient of
 * these. The whole tensor has one replica's samples. INVALID: a value whose layout is not known. */
orr_status orr_module_local_shard(const orr_module *module, const orr_plan *plan, uint32_t rank,
                                  orr_value value, orr_local_shard *ret,
                                  orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_MODULE_LOCAL_SHARD_H */
