/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_TRAIN_H
#define ORR_CLI_TRAIN_H

#include "cli/session.h"

/* A run of `orrery train`, as the command line says it. */
typedef struct orr_training {
    orr_session       session;
    const orr_model  *model;
    orr_plan          plan;
    orr_workload      workload;
    orr_train_options options;
    orr_measured      measured;
    orr_expected      expected;
    orr_train_result  result;
    orr_table_style   style;
    bool              heading; /* of the lines of steps is out */
} orr_training;

/* What is about to be done, and what it should take, in a few lines. */
void orr_training_announce(orr_training *training);
/* A line a step: for orr_train_options.told; ctx: the training. */
void orr_training_step(void *ctx, const orr_train_step *step);
/* What it came to: tables, or JSON. */
orr_status orr_training_print(orr_training *training) ORR_MUST_CHECK;

#endif /* ORR_CLI_TRAIN_H */
