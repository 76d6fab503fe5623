/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_SIMULATION_TRUTH_H
#define ORR_TESTS_SIMULATION_TRUTH_H

#include "model.h"
#include "team/protocol/message.h"

/* The test oracle: the same model trained by one process without faults, with the slots of data
 * that the team says it trained. Each commit of each rank is compared with it:
 *
 *   S1  all ranks that commit a step have equal bytes   sums, and the state before and after
 *   S2  of the same contributors                        their number, and whose sums they are
 *   S3  every slot of data once                         slots of a step, against those before
 *   S4  one team commits a step                         below
 *
 * Steps form a tree: where all who had a step are dead, the others go on from an earlier one.
 * That is allowed, but not while somebody lives who committed the last step, or took part in it
 * (then it was prepared, and would have been reported). Two teams that go on beside each other
 * (split brain) are found by that as well. */
typedef struct oracle_step {
    uint64_t step;
    uint32_t parent, next;     /* next: another with the same step number; UINT32_MAX: none */
    orr_team_data_cursor data; /* after it */
    uint64_t contributors, slots[ORR_TEAM_MAX_REPLICAS];
    uint32_t n_slots;
    uint64_t *state;    /* shape (ranks, words), after it */
    uint64_t at, epoch; /* when it was first seen; epoch in which it was committed */
} oracle_step;

typedef struct oracle {
    const model_shape *shape;
    uint32_t ranks;
    model *models;                /* shape (ranks): scratch */
    orr_array(oracle_step) steps; /* [0]: the initial state */
    orr_array(uint32_t) first;    /* of each step */
    uint32_t tip;                 /* last committed step */
    uint64_t undone;              /* how often the team went on from an earlier step */
    char why[256];                /* the violated property */
} oracle;

/* A live member's part in steps. */
typedef struct oracle_part {
    uint64_t step, slot; /* last step and slot that it submitted gradients for; NEVER */
    uint64_t at;         /* when it did                        */
    uint64_t epoch;      /* that it is in                      */
    uint32_t committed;  /* index of a step; UINT32_MAX: none  */
} oracle_part;
typedef struct oracle_decision { /* the coordinator's decision to commit a step */
    uint64_t step, epoch, at;
} oracle_decision;
typedef struct oracle_now {
    const oracle_part *const *parts; /* of all live members */
    uint32_t n;
    uint64_t at;                      /* event counter */
    const oracle_decision *decisions; /* all */
    size_t n_decisions;
    oracle_decision abandoned; /* the last decision before the team went back */
} oracle_now;

void oracle_init(oracle *t, const model_shape *shape, uint32_t ranks);
void oracle_done(oracle *t);
uint64_t oracle_last(const oracle *t); /* step number of the tip */
/* A rank has these sums of a step (in m->out), of so many contributors, and the data cursor
 * after it. False: t->why. */
bool oracle_commit(oracle *t, const model *m, const orr_team_outcome *outcome,
                   const orr_team_data_cursor *data, const oracle_now *now, uint32_t *ret);
/* The same sums were reported again, later. */
bool oracle_again(oracle *t, const model *m, uint32_t which);
/* A rank's state is that after the step, or before it. */
bool oracle_state(oracle *t, const model *m, uint32_t which);
bool oracle_state_before(oracle *t, const model *m, uint32_t which);
/* Another job starts from the beginning: earlier steps bind nobody. */
void oracle_forget(oracle *t);
oracle_part oracle_no_part(uint64_t epoch);
/* Is the step an ancestor of the current tip? */
bool oracle_stands(const oracle *t, uint32_t which);

#endif /* ORR_TESTS_SIMULATION_TRUTH_H */
