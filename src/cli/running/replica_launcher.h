/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_RUNNING_REPLICA_LAUNCHER_H
#define ORR_CLI_RUNNING_REPLICA_LAUNCHER_H

#include <poll.h>

#include "cli/running/child_process.h"
#include "cli/running/train.h"

/* A replica that is run here, in one process after another. */
typedef struct replica_slot {
    orr_child child;   /* first: a replica_slot is found by it */
    const char *state; /* as orr_replica_row */
    int64_t step;      /* the last that it told; -1: none */
    bool has_result;
    orr_train_result result; /* without what it points at */
} replica_slot;

/* All of a team (replica_launcher.c). */
typedef struct launcher {
    orr_training *t;
    orr_child coordinator;
    char address[ORR_CHILD_REPORT_TEXT]; /* of it; "": not known yet */
    replica_slot *replica_slots;         /* shape (n) */
    uint32_t n;
    const char *log;    /* of the coordinator */
    const char *folder; /* temporary, in which it is; NULL: it is kept */
    int signals;        /* that come, as a file */
    struct pollfd *polled;
    int stop_signal;  /* that asked for an end; 0 */
    int64_t ended_ns; /* the coordinator said that all had left; 0 */
    bool failed;      /* the whole job: with `code`, and session.err or nothing to say */
    int code;
    orr_train_step *history; /* shape (steps) */
    size_t n_history;
    int64_t last_step;
    orr_replicas_summary told;
} launcher;

/* Before and after (replica_launcher_end.c): room, a place for the log; nothing temporary stays; what
 * it came to is printed, and the exit status. */
orr_status orr_replicas_prepare(launcher *l) ORR_MUST_CHECK;
void orr_replicas_clean(const launcher *l);
int orr_replicas_print_summary(launcher *l);

#endif /* ORR_CLI_RUNNING_REPLICA_LAUNCHER_H */
