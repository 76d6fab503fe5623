/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_MODULE_LOWER_H
#define ORR_MODEL_MODULE_LOWER_H

#include "model/module/draft.h"

/* From a draft to the tape of one rank: sharded, differentiated, with what is computed again.
 * `kind`, `name` and `recomputed` of the module are set. */
orr_status orr_module_lower(const orr_draft *draft, orr_arena *arena, orr_module *module,
                            orr_error *err) ORR_MUST_CHECK;
/* Finds which calls are one kernel. */
orr_status orr_module_fuse(orr_module *module, orr_arena *arena, orr_error *err) ORR_MUST_CHECK;
/* Transfers that run beside computation stand as early on the tape as they can start. */
orr_status orr_module_hoist_transfers(orr_tape *tape, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_MODULE_LOWER_H */
