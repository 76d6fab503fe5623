/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_MODELS_SIMULATE_H
#define ORR_CLI_MODELS_SIMULATE_H

#include "cli/command/command.h"
#include "cli/arguments/job.h"

/* A model in a plan on a cluster. `remark` (or NULL) adds lines to what people see of it. Exit
 * code. */
typedef void orr_job_summary_hook(const orr_job_request *request, void *ctx);
int orr_simulate_spec(const orr_settings *settings, const orr_job_spec *words,
                      orr_job_summary_hook *remark, void *ctx);
/* ASTRA-sim's inputs instead of a model and a plan. Exit code. */
int orr_simulate_astra(const orr_settings *settings);
/* --task serve: a host that serves a recommendation model. Exit code. */
int orr_simulate_serve(const orr_settings *settings);
/* --ranks-as-trace: FOLDER/rank.N.et of every rank and FOLDER/groups.json, as ASTRA-sim reads them.
 */
orr_status orr_simulate_write_rank_traces(const orr_job_request *request) ORR_MUST_CHECK;

#endif /* ORR_CLI_MODELS_SIMULATE_H */
