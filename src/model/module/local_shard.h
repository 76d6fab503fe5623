/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_MODULE_LOCAL_SHARD_H
#define ORR_MODEL_MODULE_LOCAL_SHARD_H

#include "model/module/module.h"
#include "model/plan/groups.h"

/* From the tape of any rank to that of one: what a module leaves at 0 is filled in, so that an
 * engine can run it. */

/* Which numbers along one dim of a whole tensor a rank has: pieces, one behind another in its own.
 */
enum { ORR_DIM_PIECES_MAX = 4 };
typedef struct orr_dim_pieces {
    uint32_t n;
    struct {
        int64_t whole, own, count; /* whole: first index in the whole; own: in the rank's */
        uint32_t copies; /* slices along the dim that have this piece: 1, but of keys and values
                          * that there are fewer heads of than slices                           */
    } piece[ORR_DIM_PIECES_MAX];
} orr_dim_pieces;
typedef struct orr_local_shard {
    orr_type whole; /* as on one device: the same in all plans                     */
    orr_dim_pieces
        by[ORR_TYPE_DIMS]; /* by dim; what no piece covers of the rank's is padding: zeros */
    orr_axis_set slices;   /* axes that slice it: along all others ranks have the same     */
    bool copied;           /* a piece has copies: its gradient is a term of a sum over them */
} orr_local_shard;

/* Which of the slices that these axes make a rank has, of the one that comes first in orr_axis the
 * innermost; `ret_n` (may be NULL): of how many. */
uint32_t orr_module_slice_index(const orr_module *module, const orr_plan *plan, uint32_t rank,
                                orr_axis_set slices, uint32_t *ret_n);

/* A copy of the module whose tape is that of `rank` (of orr_plan_ranks()): rows of the vocabulary
 * and columns of the logits where they begin, positions of its slice of the context, peers of its
 * ring. In the arena; values and calls keep their numbers. */
orr_status orr_module_specialize(const orr_module *module, const orr_plan *plan, uint32_t rank,
                                 orr_arena *arena, orr_module *ret, orr_error *err) ORR_MUST_CHECK;
/* Which part of the whole tensor a parameter, an input, what comes in or goes out of the module, or
 * a gradient of these, is on a rank. The whole has one replica's samples. INVALID: a value whose
 * layout is not known. */
orr_status orr_module_local_shard(const orr_module *module, const orr_plan *plan, uint32_t rank,
                                  orr_value value, orr_local_shard *ret,
                                  orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_MODULE_LOCAL_SHARD_H */
