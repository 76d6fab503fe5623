/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FLEET_RUN_H
#define ORR_FLEET_RUN_H

#include "fleet/fleet.h"
#include "fleet/team.h"

/* One Monte Carlo trial of a job under failures: a discrete-event simulation.
 *
 * The team is in a state: running, in a stall, halted for lack of a quorum, or dissolved; each
 * replica is up or in a phase of its recovery (diagram: recovery.c). The next event is the earliest
 * of the next fault, the ends of the replicas' phases, the detection of a slow node, the end of the
 * state, and, while the team runs, the next commit that matters (a checkpoint, a join or leave, the
 * end of the budget). Steps between two events are committed in one jump, so that months of
 * training take milliseconds. A job without replicas is a team of one: its failure ends the team,
 * and a restart from the checkpoint follows. */

/* Phases of a recovery, in order. */
typedef enum orr_fleet_phase {
    ORR_PHASE_DETECTING, /* dead, not detected yet */
    ORR_PHASE_SCHEDULING,
    ORR_PHASE_STARTING,
    ORR_PHASE_INIT,
    ORR_PHASE_REBUILDING, /* needs that are left before it asks to join a team */
    ORR_PHASE_LOADING,    /* or, without a team: reads the checkpoint */
    ORR_PHASE_FIRST_STEP,
    ORR_PHASE_JOINING, /* waits for a commit */
    ORR_PHASE_HEALING, /* in the team, fetching the state */
    ORR_PHASE_UP,      /* contributes */
} orr_fleet_phase;

typedef struct orr_fleet_replica {
    uint8_t phase; /* orr_fleet_phase */
    bool fetched;  /* HEALING: the state has arrived */
    bool leaving;  /* leaves at the next commit */
    bool slow;
    uint32_t broken;  /* nodes to be replaced */
    int64_t until_ns; /* end of the phase; INT64_MAX: ended by another event */
    int64_t found_ns; /* detection of a slow node; INT64_MAX: none */
} orr_fleet_replica;

typedef enum orr_fleet_state {
    ORR_FLEET_RUNNING,
    ORR_FLEET_DETECTING, /* a member is dead, not detected by all yet */
    ORR_FLEET_REGROUPING,
    ORR_FLEET_REJOINING,
    ORR_FLEET_SAVING,
    ORR_FLEET_NO_QUORUM,
    ORR_FLEET_NO_TEAM,
} orr_fleet_state;

typedef struct orr_fleet_trial {
    const orr_fleet_options *options;
    orr_fleet_policy policy;
    uint32_t nodes;
    orr_random random;
    orr_fault_source faults;
    orr_fleet_replica replicas[ORR_FLEET_REPLICAS];
    orr_fleet_team team;
    orr_fleet_run run;
    orr_fleet_timeline *timeline;
    int64_t now_ns, until_ns; /* end of the state; INT64_MAX: ended by another event */
    uint8_t state;            /* orr_fleet_state                                       */
    bool joined;              /* REGROUPING: a replica has joined, so REJOINING follows */
    bool over;
    /* RUNNING: begin of the current attempt at a step (earlier by what was kept of an aborted one),
     * and the step time with a slow node and without. */
    int64_t begin_ns, step_ns, plain_ns;
    bool changed;      /* step time has to be computed anew at the next commit */
    int64_t credit_ns; /* kept of an aborted attempt */
    /* Checkpoints. */
    int64_t save_every_ns, next_save_ns, productive_since;
    uint64_t steps_since, shares_since;
    bool saves_free;   /* a checkpoint after every step, free of cost */
    uint64_t budget;   /* in replica-steps; 0: none */
    int64_t *spare_at; /* shape (spares): when each is ready */
    int64_t init_ns;   /* initialisation of a replica's communicators */
} orr_fleet_trial;

/* Accounting (accounting.c). */
uint32_t orr_fleet_count(const orr_fleet_trial *trial, orr_fleet_phase phase);
/* Advances the clock to `t_ns`; no event happens before. */
void orr_fleet_advance(orr_fleet_trial *trial, int64_t t_ns);
/* Commits the steps that are complete; the current attempt goes on. */
void orr_fleet_commit_steps(orr_fleet_trial *trial);
/* Aborts the current attempt; what can be kept of it is credited to the next. */
void orr_fleet_abort_attempt(orr_fleet_trial *trial);
/* Moves everything since the checkpoint to the losses. */
void orr_fleet_roll_back(orr_fleet_trial *trial);
/* Starts running: steps repeat until the next event. */
void orr_fleet_resume_steps(orr_fleet_trial *trial);
/* The next commit that matters; INT64_MAX: none. */
int64_t orr_fleet_next_commit(const orr_fleet_trial *trial);
/* Makes the state after the last commit the checkpoint. */
void orr_fleet_mark_checkpoint(orr_fleet_trial *trial);

/* Recovery (recovery.c). */
void orr_fleet_apply_fault(orr_fleet_trial *trial, const orr_node_fault *fault);
void orr_fleet_replica_due(orr_fleet_trial *trial, uint32_t replica);
void orr_fleet_slow_found(orr_fleet_trial *trial, uint32_t replica);
/* Forms a new epoch of the replicas that are present, after a loss or at a commit. */
void orr_fleet_form(orr_fleet_trial *trial, bool lost);

int64_t orr_fleet_trial_draw(orr_fleet_trial *trial, orr_fleet_times which);

#endif /* ORR_FLEET_RUN_H */
