/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_ARGUMENTS_FAILURES_H
#define ORR_CLI_ARGUMENTS_FAILURES_H

#include "cli/command/session.h"

/* --failures and --timing: names of the catalogue, or of a file, whose last entry is meant. In the
 * session's arena. Errors: NOT_FOUND, IO, PARSE. */
typedef struct orr_failure_choice {
    orr_failure_catalog catalog;
    const orr_failures *failures;
    const orr_fleet_timing *timing;
} orr_failure_choice;
orr_status orr_failure_choice_read(orr_session *session, orr_failure_choice *ret) ORR_MUST_CHECK;

#endif /* ORR_CLI_ARGUMENTS_FAILURES_H */
