/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FLEET_RUN_H
#define ORR_FLEET_RUN_H

#include "fleet/fleet.h"
#include "fleet/team.h"

/* One trial of a job, event by event.
 *
 * A replica is up, or somewhere on its way back. The team runs, or is stalled for a reason, or is
 * halted, or there is none. While it runs, nothing happens until the next event: steps are
 * committed in one jump when somebody asks. A job of one replica is a team of one: its death is the
 * end of the team, and what comes after is a restart from the checkpoint. */

/* In the order in which a replica comes back. */
typedef enum orr_fleet_phase {
    ORR_PHASE_DETECTING, /* dead, and nobody knows          */
    ORR_PHASE_SCHEDULING,
    ORR_PHASE_STARTING,
    ORR_PHASE_INIT,
    ORR_PHASE_REBUILDING, /* what else it needs before it asks to join a team  */
    ORR_PHASE_LOADING,    /* or: there is no team, and it reads the checkpoint */
    ORR_PHASE_FIRST_STEP,
    ORR_PHASE_JOINING, /* waits for a commit             */
    ORR_PHASE_HEALING, /* in the team, without the state */
    ORR_PHASE_UP,      /* contributes                    */
} orr_fleet_phase;

typedef struct orr_fleet_replica {
    uint8_t phase; /* orr_fleet_phase */
    bool fetched;  /* HEALING: the state is here                            */
    bool leaving;  /* goes at the next commit                               */
    bool slow;
    uint32_t broken;  /* nodes that have to be replaced                        */
    int64_t until_ns; /* end of the phase; INT64_MAX: something else ends it   */
    int64_t found_ns; /* a slow node is found; INT64_MAX: there is none        */
} orr_fleet_replica;

typedef enum orr_fleet_state {
    ORR_FLEET_RUNNING,
    ORR_FLEET_DETECTING, /* a member is dead, and not everybody knows */
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
    int64_t now_ns, until_ns; /* of the state; INT64_MAX                               */
    uint8_t state;            /* orr_fleet_state                                       */
    bool joined;              /* REGROUPING: somebody joins, whom all wait for next    */
    bool over;
    /* RUNNING: an attempt at a step began here (or would have, with what was kept of one that
     * broke), and steps take so long, with a slow node and without. */
    int64_t begin_ns, step_ns, plain_ns;
    bool changed;      /* begin anew at the next commit                         */
    int64_t credit_ns; /* kept of an attempt that broke                         */
    /* Checkpoints. */
    int64_t save_every_ns, next_save_ns, productive_since;
    uint64_t steps_since, shares_since;
    bool saves_free;   /* after every step, at no cost                          */
    uint64_t budget;   /* of replica-steps; 0: none                             */
    int64_t *spare_at; /* shape (spares): when each is ready                    */
    int64_t init_ns;   /* of a replica's communicators                          */
} orr_fleet_trial;

/* fleet_account.c: where time goes. */
uint32_t orr_fleet_count(const orr_fleet_trial *trial, orr_fleet_phase phase);
/* From now to `t_ns`, in which nothing happens. */
void orr_fleet_advance(orr_fleet_trial *trial, int64_t t_ns);
/* Steps that are whole by now are committed; the attempt under way goes on. */
void orr_fleet_commit_steps(orr_fleet_trial *trial);
/* The attempt under way broke: what is kept of it is credit to the next. */
void orr_fleet_abort_attempt(orr_fleet_trial *trial);
/* All that came after the checkpoint is lost. */
void orr_fleet_roll_back(orr_fleet_trial *trial);
/* From now on steps are made, until something changes. */
void orr_fleet_resume_steps(orr_fleet_trial *trial);
/* When the next commit needs to be looked at; INT64_MAX: none. */
int64_t orr_fleet_next_commit(const orr_fleet_trial *trial);
/* The state after the last commit is the checkpoint. */
void orr_fleet_mark_checkpoint(orr_fleet_trial *trial);

/* fleet_recover.c: from a fault to being back. */
void orr_fleet_apply_fault(orr_fleet_trial *trial, const orr_node_fault *fault);
void orr_fleet_replica_due(orr_fleet_trial *trial, uint32_t replica);
void orr_fleet_slow_found(orr_fleet_trial *trial, uint32_t replica);
void orr_fleet_begin_recovery(orr_fleet_trial *trial, uint32_t replica);
/* A new epoch of those who are here, after a loss or at a commit. */
void orr_fleet_form(orr_fleet_trial *trial, bool lost);

int64_t orr_fleet_trial_draw(orr_fleet_trial *trial, orr_fleet_times which);

#endif /* ORR_FLEET_RUN_H */
