/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OUTCOME_MULTI_PASS_H
#define ORR_OUTCOME_MULTI_PASS_H

#include <orrery/outcome.h>

/* Tasks of several passes, each simulated as a step: DPO and RL. Their passes are PRETRAIN (also
 * for SFT and LORA), PREFILL and DECODE: one pass through the pipeline each, which orr_outcome_of()
 * simulates itself. For other tasks it calls orr_multi_pass_outcome_of(). */
bool orr_task_is_multi_pass(uint8_t task);

/* Simulates the passes one after another. step_ns, waterfall, basis, FLOPs, energy and transfers
 * are sums; memory is that of the task, with all its models; `phases` names the passes. Ensemble,
 * simulation and nodes are those of the last pass, the update. INVALID: a task of one pass; other
 * errors as orr_outcome_of(). */
orr_status orr_multi_pass_outcome_of(const orr_model *model, const orr_plan *plan,
                                     const orr_cluster *cluster, const orr_job_options *options,
                                     orr_arena *arena, orr_outcome *ret,
                                     orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_OUTCOME_MULTI_PASS_H */
