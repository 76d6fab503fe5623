/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_ARGUMENTS_TEAM_KEY_H
#define ORR_CLI_ARGUMENTS_TEAM_KEY_H

#include <orrery/team.h>

#include "cli/command/session.h"

/* Where a coordinator listens, and an operator looks for it, unless told. */
#define ORR_COORDINATOR_ADDRESS_DEFAULT "127.0.0.1:29400"

/* --key, --encrypt and --insecure; the key is in the arena. INVALID: they contradict each other, a
 * key that others may read, or of another size; IO: it cannot be read. */
orr_status orr_arguments_team_access(const orr_settings *settings, orr_arena *arena,
                                     orr_team_access *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_CLI_ARGUMENTS_TEAM_KEY_H */
