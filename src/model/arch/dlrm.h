/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_ARCH_DLRM_H
#define ORR_MODEL_ARCH_DLRM_H

#include "model/module/draft.h"
#include "model/tables/load.h"

/* What tables ask of the ranks in a micro-batch, by the workload's plan or by rule. In the arena.
 * INVALID: a plan over other ranks than the job's, or of another model's tables. */
orr_status orr_dlrm_tables_work(const orr_job_shape *job, orr_arena *arena,
                                const orr_tables_work **ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_ARCH_DLRM_H */
