/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_RUNNING_CHILD_PROCESS_H
#define ORR_CLI_RUNNING_CHILD_PROCESS_H

#include <sys/types.h>

#include "cli/running/child_report.h"

/* A process of this same command that is started, listened to, and started again when it dies.
 *
 * It has a process group of its own, so that Ctrl-C reaches who started it, who then says what is
 * to be done; and it dies with who started it, which must not have threads. */
enum { ORR_CHILD_LINE = 512, ORR_CHILD_FAILURES = 5 };
typedef struct orr_child {
    const char *name;
    const char *const *words; /* of its command line, NULL after the last */
    pid_t pid;                /* 0: it does not run */
    int status;               /* of waitpid(), when it has ended */
    uint32_t lives;
    int reports, errors;     /* pipes; read when orr_child_open() */
    orr_child_report report; /* one that is not yet whole */
    size_t n_report;
    char line[ORR_CHILD_LINE]; /* the same of standard error */
    size_t n_line;
    char said[ORR_CHILD_LINE];             /* why it failed, as it says; "" */
    int64_t failed_ns[ORR_CHILD_FAILURES]; /* the latest failures, in a ring */
    uint32_t failures;
    int64_t again_ns; /* when it is started again; 0: it is not */
} orr_child;

orr_status orr_child_start(orr_child *child, orr_error *err) ORR_MUST_CHECK;
/* What has come from it, without waiting. What it prints on standard error is kept, if it tells a
 * failure, or passed on. */
void orr_child_read(orr_child *child,
                    void (*told)(void *ctx, orr_child *child, const orr_child_report *report),
                    void *ctx);
/* It has ended: true once, everything that it said having been heard. */
bool orr_child_ended(orr_child *child,
                     void (*told)(void *ctx, orr_child *child, const orr_child_report *report),
                     void *ctx);
void orr_child_signal(const orr_child *child, int signal_number); /* if it runs */
void orr_child_kill(orr_child *child); /* with those that it has started, and waits */
/* It has failed now: sets again_ns, after a pause that grows from failure to failure. False: too
 * often, more than ORR_CHILD_FAILURES times within a minute. */
bool orr_child_schedule_restart(orr_child *child, int64_t now_ns);
/* "was killed by signal 9 (Killed)", "ended with status 3: WHY", into text[0..n). */
void orr_child_exit_text(const orr_child *child, char *text, size_t n);

#endif /* ORR_CLI_RUNNING_CHILD_PROCESS_H */
