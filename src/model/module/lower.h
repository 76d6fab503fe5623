/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_MODULE_LOWER_H
#define ORR_MODEL_MODULE_LOWER_H

#include "model/module/draft.h"

/* Lowers a draft to the tape of one rank: sharded, differentiated, with recomputation. `kind`,
 * `name` and `recomputed` of the module are set by the caller. */
orr_status orr_module_lower(const orr_draft *draft, orr_arena *arena, orr_module *module,
                            orr_error *err) ORR_MUST_CHECK;
/* Is a value of the forward pass computed again rather than saved? A policy of
 * orr_tape_recompute(); `plan`: const orr_plan. */
bool orr_module_drops(void *plan, const orr_tape *tape, orr_value value);
/* With recompute=op: is the output of the forward call saved? */
bool orr_module_saves_by_op(const orr_tape *tape, const orr_tape_call *call);
/* Finds which calls run as one kernel. */
orr_status orr_module_fuse(orr_module *module, orr_arena *arena, orr_error *err) ORR_MUST_CHECK;
/* Moves transfers that overlap computation up to the earliest place where they can start. */
orr_status orr_module_hoist_transfers(orr_tape *tape, orr_error *err) ORR_MUST_CHECK;

/* The module for a layer with this skew, which has to outlive it, from the one for even routing;
 * `experts`: of the layer. They share all but sizes. LIMIT, NO_MEMORY. */
orr_status orr_module_skew(const orr_module *even, const struct orr_layer_skew *skew,
                           uint32_t experts, orr_arena *arena, orr_module *ret,
                           orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_MODULE_LOWER_H */
