/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OUTCOME_MULTI_PASS_H
#define ORR_OUTCOME_MULTI_PASS_H

#include <orrery/outcome.h>

/* Tasks of several passes, each simulated as a step of its own: DPO and RL. Their passes are
 * PRETRAIN (SFT, LORA alike), PREFILL and DECODE: one pass over the pipeline, which
 * orr_outcome_of() lays out itself; for any other it calls orr_multi_pass_outcome_of(). */
bool orr_task_is_multi_pass(uint8_t task);

/* The passes one after the other: step_ns, waterfall, basis, FLOPs, energy and transfers add up,
 * memory is the task's own (with the models that stand beside), `phases` names them. Ensemble,
 * simulation and nodes are those of the update, the last pass. INVALID: a task of one pass; else as
 * orr_outcome_of(). */
orr_status orr_multi_pass_outcome_of(const orr_model *model, const orr_plan *plan,
                                     const orr_cluster *cluster, const orr_job_options *options,
                                     orr_arena *arena, orr_outcome *ret,
                                     orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_OUTCOME_MULTI_PASS_H */
