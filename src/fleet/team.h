/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FLEET_TEAM_H
#define ORR_FLEET_TEAM_H

#include "team/protocol/roster.h"

/* The team of a simulated job. It produces the reports that replicas would send and gives them to
 * the coordinator's own code (team/protocol/roster.h), which decides who is a member, whether there
 * is a quorum, which step stands and whose data are trained next. There is no network and no clock.
 */
typedef struct orr_fleet_team {
    uint32_t n; /* number of replicas; their names sort like their indices */
    orr_membership memory;
    orr_epoch epoch; /* current epoch; without members: none */
    uint64_t lives;  /* incarnations given out */
    orr_member_report
        reports[ORR_TEAM_MAX_REPLICAS]; /* of the present incarnation of each replica */
    uint32_t at[ORR_TEAM_MAX_REPLICAS]; /* index in the epoch; UINT32_MAX: not a member */
    /* The newest checkpoint. */
    uint64_t saved_step;
    orr_team_data_cursor saved_data;
} orr_fleet_team;

typedef enum orr_formed {
    ORR_FORMED,
    ORR_FORMED_NO_QUORUM, /* too few members of the last epoch are present */
    ORR_FORMED_NO_STATE,  /* no replica that is present has a complete state */
} orr_formed;

/* All replicas have the state after step 0, in the first epoch. */
void orr_fleet_team_init(orr_fleet_team *team, uint32_t n);
/* A replica has started again, with no state or with that of the checkpoint. */
void orr_fleet_team_arrive(orr_fleet_team *team, uint32_t replica, bool with_checkpoint);
/* This incarnation is known to have ended: a connection was closed. */
void orr_fleet_team_gone(orr_fleet_team *team, uint32_t replica);
/* A replica has left by itself. */
void orr_fleet_team_left(orr_fleet_team *team, uint32_t replica);
/* The job restarts from the checkpoint: earlier members are not waited for; epoch numbers go on. */
void orr_fleet_team_dissolve(orr_fleet_team *team);
/* Forms an epoch of the replicas that are `here` and not `leaving`: shape (n). On FORMED, epoch and
 * reports are updated. */
orr_formed orr_fleet_team_form(orr_fleet_team *team, const bool *here, const bool *leaving);
/* Commits `steps` steps of the epoch at once; after the last, the replicas that are `whole`, shape
 * (n), have the state and contribute. */
void orr_fleet_team_commit(orr_fleet_team *team, uint64_t steps, const bool *whole);
void orr_fleet_team_save(orr_fleet_team *team);
bool orr_fleet_team_contributes(const orr_fleet_team *team, uint32_t replica);
bool orr_fleet_team_has(const orr_fleet_team *team, uint32_t replica);
/* Number of data slots trained so far, each counted once. */
uint64_t orr_fleet_team_trained(const orr_fleet_team *team);

#endif /* ORR_FLEET_TEAM_H */
