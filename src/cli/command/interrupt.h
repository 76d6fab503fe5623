/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_COMMAND_INTERRUPT_H
#define ORR_CLI_COMMAND_INTERRUPT_H

#include <stdbool.h>

/* SIGINT, SIGTERM, SIGHUP and SIGUSR1 (what schedulers send before they end a job) ask for an end.
 * Caught, they end the process at once, without its temporary files. Watched, the first one is only
 * noted, and the next one, whichever it is, ends it at once. */
void orr_interrupt_catch(void);
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
