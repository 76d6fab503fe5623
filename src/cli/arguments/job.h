/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_ARGUMENTS_JOB_H
#define ORR_CLI_ARGUMENTS_JOB_H

#include "cli/command/session.h"

/* A job nobody has run, as the command line says it, and what it comes to: for `simulate` and
 * `compare`. */
typedef struct orr_job_request {
    orr_session *session;
    const orr_catalog *catalog;
    const orr_model *model;
    const orr_cluster *cluster;
    orr_plan plan;
    const char *tables; /* tables=... of the plan; NULL: not said */
    orr_embedding_plan table_plan;
    orr_framework framework; /* NONE: any */
    orr_expert_placement placement;
    orr_expert_windows windows; /* loads of --expert-load, where it has no routes */
    orr_documents documents;
    orr_job_options options;
    orr_outcome outcome; /* after orr_job_request_run() */
} orr_job_request;

/* MODEL@CLUSTER:PLAN with any of the three left out; what is left out is as given. Errors: INVALID.
 */
typedef struct orr_job_spec {
    const char *model, *cluster, *plan;
} orr_job_spec;
orr_status orr_job_spec_parse(const char *text, const orr_job_spec *otherwise, orr_arena *arena,
                              orr_job_spec *ret, orr_error *err) ORR_MUST_CHECK;

/* Words and settings as they were meant. Errors: INVALID: what was typed; NOT_FOUND, IO, PARSE: a
 * model, a cluster, a device or a file. */
orr_status orr_job_request_read(orr_session *session, const orr_job_spec *words,
                                orr_job_request *ret) ORR_MUST_CHECK;
orr_status orr_job_request_run(orr_job_request *request) ORR_MUST_CHECK;
/* --emit: the configuration of the framework for a plan of the job, as the whole output. */
orr_status orr_job_request_emit(const orr_job_request *request,
                                const orr_plan *plan) ORR_MUST_CHECK;
void orr_job_request_done(orr_job_request *request); /* zeroed is allowed */

/* Exit codes of what failed. What was typed is a matter of usage; what cannot be, or is more than
 * can be simulated, of the plan; all else of the input. */
static inline int orr_job_exit_code_of_input(orr_status status)
{
    return status == ORR_INVALID ? EXIT_USAGE : EXIT_INPUT;
}
static inline int orr_job_exit_code_of_plan(orr_status status)
{
    return status == ORR_INVALID || status == ORR_UNSUPPORTED || status == ORR_LIMIT
               ? EXIT_INFEASIBLE
               : EXIT_INPUT;
}

/* What the job is and comes to, in a few lines for people. */
void orr_job_request_summary(const orr_job_request *request, orr_output *out);

#endif /* ORR_CLI_ARGUMENTS_JOB_H */
