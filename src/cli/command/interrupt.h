/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_COMMAND_INTERRUPT_H
#define ORR_CLI_COMMAND_INTERRUPT_H

#include <stdbool.h>

/* Ctrl-C and SIGTERM ask for an end: the first time it is only noted, the second time it is at
 * once. */
void orr_interrupt_watch(void);
int orr_interrupt_signal(void);                /* that asked; 0: none did */
const volatile bool *orr_interrupt_flag(void); /* for those who look */
bool orr_interrupt_requested(void *ctx);       /* for those who ask from time to time */

#endif /* ORR_CLI_COMMAND_INTERRUPT_H */
