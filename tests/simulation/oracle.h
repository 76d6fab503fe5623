/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_SIMULATION_TRUTH_H
#define ORR_TESTS_SIMULATION_TRUTH_H

#include "model.h"
#include "team/protocol/message.h"

/* What is true of a team, kept beside it: the same model trained by one process that nothing
 * happens to, given the slots of data that the team says it trained. Each commit of each rank is
 * held against it:
 *
 *   S1  all that commit a step have its bytes            sums, and the state before and after the
 * update S2  of the same contributors                         the number, and whose sums they are
 *   S3  every slot of data once                          slots of a step, against those of all
 * before S4  one team commits a step                          below
 *
 * Steps are a tree: where all who had a step are dead, those who are left go on from an earlier
 * one. That they may, but not while somebody lives who committed the last step, or had a part in it
 * (then it was prepared, and would have told). Two teams that go on beside each other are found by
 * that as well. */
typedef struct oracle_step {
    uint64_t step;
    uint32_t parent, next;     /* next: of the same step; UINT32_MAX: none */
    orr_team_data_cursor data; /* after it */
    uint64_t contributors, slots[ORR_TEAM_MAX_REPLICAS];
    uint32_t n_slots;
    uint64_t *state;    /* shape (ranks, words), after it */
    uint64_t at, epoch; /* when it was seen first; in which it was committed */
} oracle_step;

typedef struct oracle {
    const model_shape *shape;
    uint32_t ranks;
    model *models;                /* shape (ranks): scratch */
    orr_array(oracle_step) steps; /* [0]: what was begun with */
    orr_array(uint32_t) first;    /* of each step */
    uint32_t tip;                 /* the last that was committed */
    uint64_t undone;              /* how often the team went on from an earlier one */
    char why[256];                /* what does not hold */
} oracle;

/* Somebody's part in steps, for as long as it lives. */
typedef struct oracle_part {
    uint64_t step, slot; /* the last that it handed in gradients for; NEVER */
    uint64_t at;         /* when it did                        */
    uint64_t epoch;      /* that it is in                      */
    uint32_t committed;  /* index of a step; UINT32_MAX: none  */
} oracle_part;
typedef struct oracle_decision { /* the coordinator's, to commit a step */
    uint64_t step, epoch, at;
} oracle_decision;
typedef struct oracle_now {
    const oracle_part *const *parts; /* of all who live */
    uint32_t n;
    uint64_t at;                      /* counts on from event to event */
    const oracle_decision *decisions; /* all */
    size_t n_decisions;
    oracle_decision abandoned; /* the last before it went back */
} oracle_now;

void oracle_init(oracle *t, const model_shape *shape, uint32_t ranks);
void oracle_done(oracle *t);
uint64_t oracle_last(const oracle *t); /* step of the tip */
/* A rank has these sums of a step (in m->out), of so many contributors, and the data after it.
 * false: t->why. */
bool oracle_commit(oracle *t, const model *m, const orr_team_outcome *outcome,
                   const orr_team_data_cursor *data, const oracle_now *now, uint32_t *ret);
/* The same sums again, later. */
bool oracle_again(oracle *t, const model *m, uint32_t which);
/* A rank's state is the one after that step, or before it. */
bool oracle_state(oracle *t, const model *m, uint32_t which);
bool oracle_state_before(oracle *t, const model *m, uint32_t which);
/* Another job begins, from the beginning: what was before binds nobody. */
void oracle_forget(oracle *t);
oracle_part oracle_no_part(uint64_t epoch);
/* Has this team, as it goes on now, made that step? */
bool oracle_stands(const oracle *t, uint32_t which);

#endif /* ORR_TESTS_SIMULATION_TRUTH_H */
