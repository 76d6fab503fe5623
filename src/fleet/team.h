/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FLEET_TEAM_H
#define ORR_FLEET_TEAM_H

#include "team/protocol/roster.h"

/* The team of a simulated job: what its replicas would report, and what the coordinator's own code
 * (team/protocol/roster.h) decides of it. No network and no clock: who is in, whether they may go
 * on, which step stands, whose data are trained next. */
typedef struct orr_fleet_team {
    uint32_t n; /* replicas of the job, by number; their names sort like it */
    orr_membership memory;
    orr_epoch epoch;                                  /* as it stands; of no members: none */
    uint64_t lives;                                   /* incarnations given */
    orr_member_report reports[ORR_TEAM_MAX_REPLICAS]; /* of each replica's present life */
    uint32_t at[ORR_TEAM_MAX_REPLICAS]; /* index in the epoch; UINT32_MAX: not in it */
    /* The newest checkpoint. */
    uint64_t saved_step;
    orr_team_data_cursor saved_data;
} orr_fleet_team;

typedef enum orr_formed {
    ORR_FORMED,
    ORR_FORMED_NO_QUORUM, /* too few of the last epoch are here         */
    ORR_FORMED_NO_STATE,  /* nobody who is here has a whole state       */
} orr_formed;

/* All have the state after step 0, and the first epoch. */
void orr_fleet_team_init(orr_fleet_team *team, uint32_t n);
/* A replica has started anew: with nothing, or with what the checkpoint holds. */
void orr_fleet_team_arrive(orr_fleet_team *team, uint32_t replica, bool with_checkpoint);
/* It is known that this life has ended: a connection was closed. */
void orr_fleet_team_gone(orr_fleet_team *team, uint32_t replica);
/* It went of its own will. */
void orr_fleet_team_left(orr_fleet_team *team, uint32_t replica);
/* The job is ended and started again, from the checkpoint: nobody of before is waited for; epochs
 * are counted on. */
void orr_fleet_team_dissolve(orr_fleet_team *team);
/* A new epoch of those who are `here`, less those who are `leaving`: shape (n). On FORMED the epoch
 * and the reports follow it. */
orr_formed orr_fleet_team_form(orr_fleet_team *team, const bool *here, const bool *leaving);
/* `steps` commits of the epoch in one jump; at the last of them those have the state that are
 * `whole`, shape (n), and contribute from then on. */
void orr_fleet_team_commit(orr_fleet_team *team, uint64_t steps, const bool *whole);
void orr_fleet_team_save(orr_fleet_team *team);
bool orr_fleet_team_contributes(const orr_fleet_team *team, uint32_t replica);
bool orr_fleet_team_has(const orr_fleet_team *team, uint32_t replica);
/* Slots of data that are trained by now, each once. */
uint64_t orr_fleet_team_trained(const orr_fleet_team *team);

#endif /* ORR_FLEET_TEAM_H */
