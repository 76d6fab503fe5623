/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_COMMAND_HELP_H
#define ORR_CLI_COMMAND_HELP_H

#include <stdio.h>

#include "cli/command/command.h"

/* Help of a command, or of `orrery` itself when it is NULL. */
void orr_help_print(const orr_command *command, FILE *to);

#endif /* ORR_CLI_COMMAND_HELP_H */
