/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_COMMAND_HELP_H
#define ORR_CLI_COMMAND_HELP_H

#include <stdio.h>

#include "cli/command/command.h"

/* Help of a command, or of `orrery` itself when it is NULL. */
void orr_help_print(const orr_command *command, FILE *to);

/* One line on standard error that begins with "orrery: ", harmless for a terminal. */
void orr_complain(const char *format, ...) ORR_PRINTF(1, 2);
/* How the command is called, as such a line. Returns EXIT_USAGE. */
int orr_help_usage(const orr_command *command);

#endif /* ORR_CLI_COMMAND_HELP_H */
