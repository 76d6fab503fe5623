/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_SEARCH_EXPLORE_H
#define ORR_CLI_SEARCH_EXPLORE_H

#include "cli/arguments/failures.h"
#include "cli/arguments/job.h"

/* What is asked of a search, and what it comes to: for `explore`. */
enum { ORR_EXPLORE_SHOWN = 4 }; /* plans that are simulated again, to tell why */
typedef struct orr_explore_request {
    orr_session session;
    orr_job_request job; /* model, cluster, workload, and the plan that --fix says */
    orr_failure_choice failures;
    orr_fleet_options fleet;
    orr_explore_options options;
    uint8_t baselines[ORR_BASELINES];
    uint32_t n_baselines;
    bool batch_assumed;
    orr_exploration exploration;
    orr_outcome outcomes[ORR_EXPLORE_SHOWN];
    uint32_t n_outcomes;
    orr_sensitivity sensitivity;
    orr_explore_baseline_plan baseline_plans[ORR_BASELINES];
    bool has_sensitivity;
} orr_explore_request;

/* Settings as they were meant. Errors: INVALID: what was typed; NOT_FOUND, IO, PARSE: a model, a
 * cluster, failures. */
orr_status orr_explore_request_read(orr_explore_request *request) ORR_MUST_CHECK;

/* --published-effects: a table, and no search. */
orr_status orr_explore_print_effects(orr_session *session) ORR_MUST_CHECK;

/* "exploring  25 %  best 8.210 s  bound 8.020 s  gap 2.3 %  1.24 M plans  310 k/s  17 simulated 301
 * of 1,204 sets": what a terminal shows, at most `room` - 1 characters. */
void orr_explore_progress_line(const orr_explore_progress *at, orr_objective objective,
                               int64_t elapsed_ns, char *out, size_t room);

#endif /* ORR_CLI_SEARCH_EXPLORE_H */
