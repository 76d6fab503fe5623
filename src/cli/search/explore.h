/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_SEARCH_EXPLORE_H
#define ORR_CLI_SEARCH_EXPLORE_H

#include "cli/arguments/failures.h"
#include "cli/arguments/job.h"

/* What is asked of a search, and what it comes to: for `explore`. */
enum { ORR_EXPLORE_SHOWN = 4 }; /* plans that are simulated again, to tell why */
/* Questions that take searches of their own, and their answers. */
enum {
    ORR_EXPLORE_CLUSTERS = 8,
    ORR_EXPLORE_SOLVES = 8,
    ORR_EXPLORE_PRICES = 16,
    ORR_EXPLORE_ANSWERS = 4 + ORR_EXPLORE_SOLVES + 3 * ORR_EXPLORE_CLUSTERS
};
typedef struct orr_explore_questions {
    double deadline_ns; /* 0: none */
    orr_solve solves[ORR_EXPLORE_SOLVES];
    uint32_t n_solves;
    bool against;
    const orr_cluster *other; /* NULL: the same devices in one place */
    uint32_t changes;         /* bits ORR_WHAT_IF_... */
    const orr_device **devices;
    uint32_t n_devices;
    const orr_cluster *clusters[ORR_EXPLORE_CLUSTERS]; /* the first is the job's */
    uint32_t n_clusters;
    const char *price_names[ORR_EXPLORE_PRICES];
    double prices[ORR_EXPLORE_PRICES];
    uint32_t n_prices;
    orr_answer answers[ORR_EXPLORE_ANSWERS];
    uint32_t n_answers;
} orr_explore_questions;

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
    orr_explore_answer answer;
    bool has_answer;
    orr_explore_questions questions;
    orr_network_check_options network;
    const orr_explored_network *checks; /* shape (n_checks) */
    uint32_t n_checks;
} orr_explore_request;

/* Settings as they were meant. Errors: INVALID: what was typed; NOT_FOUND, IO, PARSE: a model, a
 * cluster, failures. */
orr_status orr_explore_request_read(orr_explore_request *request) ORR_MUST_CHECK;

/* --deadline, --solve, --against, --what-if, and the clusters behind the first: read once the
 * options are. Errors as above. */
orr_status orr_explore_questions_read(orr_explore_request *request) ORR_MUST_CHECK;
/* The first of --cluster A,B,C, in the arena. */
orr_status orr_explore_first_cluster(const orr_explore_request *request, const char **ret,
                                     orr_error *err) ORR_MUST_CHECK;
/* --price: of any device, into the options, or of devices by name. */
orr_status orr_explore_prices_read(orr_explore_request *request, const char *text) ORR_MUST_CHECK;
/* Answers them, after the search. Of several clusters the best becomes the request's. */
orr_status orr_explore_ask(orr_explore_request *request) ORR_MUST_CHECK;
/* --network-draws, --network-flows. Errors: INVALID. */
orr_status orr_explore_network_read(orr_explore_request *request) ORR_MUST_CHECK;
/* The plans of the report with flows over cuts, ranked anew where that makes a difference. */
orr_status orr_explore_network_ask(orr_explore_request *request) ORR_MUST_CHECK;

/* --published-effects: a table, and no search. */
orr_status orr_explore_print_effects(orr_session *session) ORR_MUST_CHECK;

/* "exploring  25 %  best 8.210 s  bound 8.020 s  gap 2.3 %  1.24 M plans  310 k/s  17 simulated 301
 * of 1,204 sets": what a terminal shows, at most `room` - 1 characters. */
void orr_explore_progress_line(const orr_explore_progress *at, orr_objective objective,
                               int64_t elapsed_ns, char *out, size_t room);

#endif /* ORR_CLI_SEARCH_EXPLORE_H */
