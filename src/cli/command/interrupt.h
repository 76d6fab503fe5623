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

/* A pipe whose reader has left is an error of write() to us. Where it is the standard output, the
 * process ends as if SIGPIPE had ended it, as other tools do: silently, without temporary files. */
void orr_interrupt_ignore_sigpipe(void);
/* Returns where standard output still has a reader, or the parent had SIGPIPE ignored. */
void orr_interrupt_end_like_sigpipe(void);

#endif /* ORR_CLI_COMMAND_INTERRUPT_H */
