/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_PROTOCOL_ROSTER_H
#define ORR_TEAM_PROTOCOL_ROSTER_H

#include "team/protocol/message.h"

/* What a coordinator decides, without a network, a clock or a disk: pure functions of what members
 * report and of what is remembered. They are the same in production, under simulated faults and in
 * the simulation of fleets.
 *
 * A step is committed when all members of an epoch are prepared (have the same sums): only then is
 * a COMMIT sent. So a coordinator that did not send one may make the step again with whoever is
 * here; and if all who have the state before it are prepared, it is carried over and committed in
 * the next epoch: the work is done. A coordinator that has begun anew does not know what was sent
 * before it, and carries over what anyone is prepared for, unless everybody who may know more is
 * here.
 *
 * It goes back behind a step that is known to be committed only when nobody who may have its state
 * lives: all of the base are here or have come in a later life; or when it was `waited` for them,
 * which leaves who comes later behind. */

/* A replica that could be in the next epoch: connected, fresh, of this job, not excluded. */
typedef struct orr_epoch_candidate {
    const orr_member_report *report;
    bool leaving; /* is not taken into the next epoch, but what it knows counts */
} orr_epoch_candidate;

/* What is remembered. */
typedef struct orr_membership {
    orr_epoch_record record; /* of the last epoch; epoch 0: none                           */
    bool gone[2][ORR_TEAM_MAX_REPLICAS]; /* of its members, and of its base: they cannot act in
                                          * their epoch any longer: their connection closed, they
                                          * were let go */
    bool dead[2][ORR_TEAM_MAX_REPLICAS]; /* and what they knew is lost: a later life has come */
    bool lost; /* it comes from what members report: it may not be the newest                    */
    bool anew; /* this coordinator has committed nothing yet                                     */
    uint64_t step, epoch; /* that is known to be committed last, and in which epoch that was */
    bool waited; /* for those who may have a later state, as long as one waits                    */
    uint64_t jump; /* of epochs, when memory is lost: a random number, so that two coordinators that
                    * know nothing of each other give different ones */
} orr_membership;
/* From what members report, where that is newer than what is remembered. */
void orr_membership_refresh(orr_membership *memory, const orr_epoch_candidate *candidates,
                            uint32_t n);
/* A replica has come, in this life: its earlier lives are over. Or it is gone. */
void orr_membership_arrived(orr_membership *memory, const orr_member_id *id);
void orr_membership_gone(orr_membership *memory, const orr_member_id *id);
/* Was this said before its replica took part in the last commit? It came late, over a connection
 * that was given up. */
bool orr_membership_is_stale_report(const orr_membership *memory, const orr_member_report *report);
/* It goes of its own will: nobody waits for what it may know. */
void orr_membership_left(orr_membership *memory, const orr_member_id *id);
/* An epoch was formed and written down; a step of it was committed by all its members. */
void orr_membership_formed(orr_membership *memory, const orr_epoch *epoch);
void orr_membership_committed(orr_membership *memory, const orr_epoch *epoch);

/* Who of the base, the last epoch in which a step was committed, may still live, and how many of
 * them are candidates. Quorum is at least half of them. If memory is lost, it is more than half of
 * all of the base and of all of the last epoch's members: of two coordinators that divide an epoch
 * between them only one has this. */
typedef struct orr_quorum {
    uint32_t living, here;
    bool enough;
    bool all;  /* everyone who may act is here    */
    bool told; /* everyone who may know something */
} orr_quorum;
orr_quorum orr_roster_quorum(const orr_membership *memory, const orr_epoch_candidate *candidates,
                             uint32_t n);

/* The next epoch: members in the order of names, committed step, roles, slots; no addresses, `you`
 * not set. false, and why: nobody who is here has what must be gone on from; too many; data that do
 * not add up. */
bool orr_roster_next_epoch(const orr_membership *memory, const orr_epoch_candidate *candidates,
                           uint32_t n, orr_epoch *ret, char why[ORR_TEAM_REASON_BYTES]);

/* All members are prepared for the epoch's next step, and `whole` had the state before it (of a
 * carried epoch: the sums): the epoch as it stands for the step after that. false: data that do not
 * add up. */
bool orr_roster_advance(orr_epoch *epoch, const bool *whole);

/* Slots that are in the sums of the epoch's next step; their number. */
uint32_t orr_epoch_slots(const orr_epoch *epoch, uint64_t ret[ORR_TEAM_MAX_REPLICAS]);
uint32_t orr_epoch_contributors(const orr_epoch *epoch);

#endif /* ORR_TEAM_PROTOCOL_ROSTER_H */
