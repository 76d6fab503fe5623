/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_SEARCH_EXPERTS_H
#define ORR_CLI_SEARCH_EXPERTS_H

#include "cli/command/session.h"
#include "report/experts/experts.h"

/* What is asked about routes of experts, and what it comes to: for `experts`. */
typedef struct orr_experts_request {
    orr_session session;
    const orr_model *model; /* NULL: not known */
    bool model_by_shape;
    const orr_cluster *cluster; /* NULL: statistics alone */
    const orr_routes *routes;   /* NULL: loads alone */
    orr_expert_windows windows; /* of the file, or of --windows */
    bool has_windows;
    /* Where there is a cluster: */
    uint32_t ranks, spare;
    bool every_policy;
    bool remote_first; /* --objective remote: placed without costs, told with them */
    orr_expert_costs costs;
    orr_expert_options options; /* of the chosen policy, with the routes to place by */
    bool has_running;
    orr_expert_placement running;
    orr_expert_approach approach; /* of the first policy's placement to what runs */
    double step_bytes;
    orr_placement_format format;
    /* --hold-out: */
    const orr_routes *placed_by, *told_of; /* other requests each; else both all routes */
    orr_experts_held_out held_out;
    /* After orr_experts_request_answer(): */
    orr_expert_statistics statistics;
    orr_expert_moves moves;
    orr_experts_report report;
} orr_experts_request;

/* Routes and settings as they were meant. Errors: INVALID: what was typed; NOT_FOUND, IO, PARSE: a
 * model, a cluster, a file. */
orr_status orr_experts_request_read(orr_experts_request *request) ORR_MUST_CHECK;
/* request->report, of statistics and, where there is a cluster, placements. */
orr_status orr_experts_request_answer(orr_experts_request *request) ORR_MUST_CHECK;

/* Of the report with placements: moves from what runs, drift from window to window. */
orr_status orr_experts_request_moves(orr_experts_request *request) ORR_MUST_CHECK;

/* Parts of the reading, each in a file: */
/* --model, else the only one of the catalogue with such layers (NULL: none). PARSE: routes of
 * another model. */
orr_status orr_experts_request_model(orr_experts_request *request) ORR_MUST_CHECK;
/* --hold-out and --groups: which requests placements are made from, and which group each is in. */
orr_status orr_experts_request_groups(orr_experts_request *request) ORR_MUST_CHECK;

#endif /* ORR_CLI_SEARCH_EXPERTS_H */
