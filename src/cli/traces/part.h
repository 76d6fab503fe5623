/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_TRACES_PART_H
#define ORR_CLI_TRACES_PART_H

#include "cli/command/session.h"

/* Is a part of the job asked for: --step, --subtree, --ranks? */
bool orr_part_asked(const orr_settings *settings);
/* The session's job becomes that part of it. Errors: INVALID (a list of ranks), NOT_FOUND (a step,
 * operator or rank), NO_MEMORY, LIMIT. */
orr_status orr_session_reduce(orr_session *session) ORR_MUST_CHECK;

#endif /* ORR_CLI_TRACES_PART_H */
