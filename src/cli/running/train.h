/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CLI_RUNNING_TRAIN_H
#define ORR_CLI_RUNNING_TRAIN_H

#include "cli/command/session.h"

/* What became of a replica that ran here. */
typedef struct orr_replica_row {
    const char *replica, *state; /* "done", "left", "given up", ... */
    int64_t starts, step;        /* it has the state after; -1: none */
    const char *state_digest;    /* "": none */
    uint64_t digest;             /* 0: none */
} orr_replica_row;

typedef struct orr_replicas_summary {
    const orr_replica_row *rows;
    uint32_t n;
    int64_t restarts, coordinator_restarts, retries;
    bool equal; /* all that have the last state have the same */
} orr_replicas_summary;

/* A run of `orrery train`, as the command line says it. */
typedef struct orr_training {
    orr_session session;
    const orr_model *model;
    orr_plan plan;
    const char *tables; /* tables=... of --plan; NULL: not said */
    orr_embedding_plan table_plan;
    orr_train_store store;
    orr_device_limits byte_limits; /* of --byte-device */
    orr_workload workload;
    orr_train_options options;
    orr_measured measured;
    orr_predicted_step expected;
    orr_train_result result;
    orr_table_style style;
    orr_train_team team;
    bool in_team; /* a replica of one, or all of them */
    int reports;  /* to who started this replica; -1 */
    const orr_replicas_summary
        *replicas; /* all that ran here; NULL: this was the job, or one of them */
    bool heading;  /* of the lines of steps is out */
} orr_training;

/* Of --team and --replicas (train_team.c): the settings, and what they forbid. */
orr_status orr_training_team(orr_training *training) ORR_MUST_CHECK;
/* Of --store and --byte-store (train_store.c): the settings, and what they forbid. */
orr_status orr_training_store(orr_training *training) ORR_MUST_CHECK;
/* The tiers of the tables: of the plan that --plan names, else by rule. INVALID: a tier whose place
 * is not said; LIMIT: more than the memory. */
orr_status orr_training_place_tables(orr_training *training, const orr_model *model,
                                     const orr_plan *plan) ORR_MUST_CHECK;
/* How changed rows of the tables on a block device are written (train_writes.c): as --row-writes
 * says, else as measurements of the device do. Errors: of the file of measurements. */
orr_status orr_training_choose_writes(orr_training *training, uint32_t ranks) ORR_MUST_CHECK;
/* Where a replica keeps its checkpoints. NULL: out of memory. */
const char *orr_training_checkpoint_folder(const orr_training *training, const char *replica);
/* All replicas on this machine, and their coordinator (replica_launcher.c): until they are done.
 * Returns the exit status; what fails is in session.err. */
int orr_training_replicas(orr_training *training);
/* Names of replicas that are started here: "r0"; in the arena. NULL: out of memory. */
const char *orr_training_replica_name(orr_arena *arena, uint32_t i);

/* What is about to be done, and what it should take, in a few lines. */
void orr_training_print_setup(orr_training *training);
/* A line a step: for orr_train_options.told; ctx: the training. */
void orr_training_print_step(void *ctx, const orr_train_step *step);
/* What it came to: tables, or JSON. */
orr_status orr_training_print_result(orr_training *training) ORR_MUST_CHECK;

#endif /* ORR_CLI_RUNNING_TRAIN_H */
