/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_RUNNING_CHILD_REPORT_H
#define ORR_CLI_RUNNING_CHILD_REPORT_H

#include <orrery/engine.h>

/* What a process of this command tells the one that started it (see child_process.h), over a pipe that both
 * ends of the same binary read alike. */
typedef enum orr_child_report_kind {
    ORR_CHILD_REPORT_ADDRESS, /* of the coordinator */
    ORR_CHILD_REPORT_EVENT,
    ORR_CHILD_REPORT_STEP,
    ORR_CHILD_REPORT_RESULT
} orr_child_report_kind;

enum { ORR_CHILD_REPORT_TEXT = 256 };
typedef struct orr_child_report {
    uint64_t kind;                    /* orr_child_report_kind */
    char text[ORR_CHILD_REPORT_TEXT]; /* address; what happened */
    union {
        orr_team_event event;
        orr_train_step step;
        orr_train_result result; /* its arrays are of the other process */
    };
} orr_child_report;

/* The end of the pipe that the environment names, which is not handed on to children; -1: nobody
 * asks. */
int orr_child_report_open(void);
/* Nobody is waited for: while the pipe is full, reports are lost, but results. From any thread. */
void orr_child_report_send_event(int reports, const orr_team_event *event);
void orr_child_report_send_step(int reports, const orr_train_step *step);
void orr_child_report_send_result(int reports, const orr_train_result *result);
void orr_child_report_send_address(int reports, const char *address);

/* "orrery: 13:05:09.123 epoch 2, step 17: lost r1: it was silent", on standard error. `who` may be
 * NULL. */
void orr_team_event_print(const char *who, const orr_team_event *event, const char *text);

#define ORR_CHILD_REPORT_VARIABLE "ORRERY_REPORTS_TO"

#endif /* ORR_CLI_RUNNING_CHILD_REPORT_H */
