/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_SEARCH_TABLES_H
#define ORR_CLI_SEARCH_TABLES_H

#include "cli/arguments/sharding.h"
#include "cli/command/session.h"

/* What is asked of the planner of embedding tables, and what it comes to: for `tables`. */
typedef struct orr_tables_request {
    orr_session session;
    const orr_model *model;
    const orr_cluster *cluster; /* NULL: this machine */
    orr_table_planner_options options;
    uint32_t groups, synchronize; /* of the plan */
    bool has_given;
    orr_embedding_plan given_plan; /* of --plan tables=FILE */
    orr_table_planning best, given;
} orr_tables_request;

/* Settings as they were meant, and the given plan. Errors: INVALID: what was typed; NOT_FOUND, IO,
 * PARSE: a model, a cluster, a plan. */
orr_status orr_tables_request_read(orr_tables_request *request) ORR_MUST_CHECK;

#endif /* ORR_CLI_SEARCH_TABLES_H */
