/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_PROTOCOL_ROSTER_H
#define ORR_TEAM_PROTOCOL_ROSTER_H

#include "team/protocol/message.h"

/* Reconfiguration: computes the next epoch from what members report and from what the coordinator
 * remembers. Pure functions, without network, clock or disk, so that the same code runs in
 * production, under simulated faults and in the simulation of fleets. tests/model checks the rules
 * exhaustively for small teams.
 *
 * A step is committed when all members of an epoch are prepared, that is have the same sums; only
 * then does the coordinator send COMMIT. What may therefore become of a prepared step:
 *
 *   the coordinator ...        and ...                               the next epoch
 *   sent no COMMIT             not all who have the state prepared   makes the step again
 *   sent no COMMIT             all who have the state are prepared   carries it: the work is done
 *   was restarted, so that     everybody who may know more is here   as above
 *     it does not know         somebody is absent, or nobody of      carries what anyone prepared
 *                              their epoch lives unprepared
 *
 * Who may still do what decides how long the coordinator waits. For each name in its two lists, the
 * members of the last epoch and its base, that is those of the last epoch in which a step was
 * committed, and who contributed since:
 *
 *   state                      may act in its epoch     may know of a later commit
 *   connected, or silent       yes                      yes
 *   gone (connection closed)   no                       yes
 *   dead (a later life came)   no                       no
 *
 * The team goes back behind a step that is known to be committed only when nobody who may have its
 * state lives: all of the base are here or dead; or after a wait (`waited_for_absent`), which
 * leaves behind whoever comes later. A longer wait (`waited_for_quorum`) stands for the quorum, so
 * that an outage of all does not wait for ever for a machine that is gone: one coordinator, which
 * has its memory, decides alone, and nobody can have gone on without it. */

/* A replica that may be in the next epoch: connected, of this job, its report fresh, not excluded.
 */
typedef struct orr_epoch_candidate {
    const orr_member_report *report;
    bool leaving; /* it is not taken into the next epoch, but its report counts */
} orr_epoch_candidate;

/* What a coordinator knows of the last epoch. `lost`, `uncommitted` and `waited_for_absent` are the
 * amnesiac cases: memory that was restored from reports, or from a record that may be one epoch
 * old. */
typedef struct orr_membership {
    orr_epoch_record record;             /* of the last epoch; epoch 0: none */
    bool gone[2][ORR_TEAM_MAX_REPLICAS]; /* of its members, and of its base: they cannot act in
                                          * their epoch any longer: their connection closed, they
                                          * were let go */
    bool dead[2][ORR_TEAM_MAX_REPLICAS]; /* a later life has come: what they knew is lost */
    bool lost; /* it comes from what members report: it may not be the newest                    */
    bool uncommitted;           /* this coordinator has committed nothing yet       */
    uint64_t step, epoch, made; /* that is known to be committed last, in which epoch that was, and
                                 * whose ring made it: a carried step may be committed in two */
    bool waited_for_absent;     /* for those who may have a later state, as long as one waits */
    bool waited_for_quorum;     /* as long as one waits for that: who is here goes on         */
    uint64_t known_epoch; /* the latest of which a state was reported: also of a checkpoint, whose
                           * replica was in no epoch since; later epochs have larger numbers */
    uint64_t jump; /* of epochs, when memory is lost: a random number, so that two coordinators that
                    * know nothing of each other give different ones */
} orr_membership;
/* Takes over from reports what is newer than what is remembered. */
void orr_membership_refresh(orr_membership *memory, const orr_epoch_candidate *candidates,
                            uint32_t n);
/* A replica has connected: its earlier lives are dead. A replica's connection has closed: it is
 * gone. */
void orr_membership_arrived(orr_membership *memory, const orr_member_id *id);
void orr_membership_gone(orr_membership *memory, const orr_member_id *id);
/* An operator says that no life of this replica will come back; false: nobody waits for one. Should
 * it come all the same it is taken in like any other. */
bool orr_membership_forget(orr_membership *memory, const char *name);
/* Those who may act in their epoch, or know of a later commit, and are no candidates. */
void orr_membership_list_awaited(const orr_membership *memory,
                                 const orr_epoch_candidate *candidates, uint32_t n,
                                 orr_member_list *ret);
/* Whether the numbers of a report can be those of a team that counts as this protocol does: no
 * epoch is further than 2^32 beyond the remembered one (epochs go up by one, and by less than 2^20
 * where memory is lost), and no step or slot beyond 2^48. So no report can use up the numbers at
 * once. */
bool orr_membership_is_plausible_report(const orr_membership *memory,
                                        const orr_member_report *report);
/* A replica leaves of its own will: nobody waits for what it may know. */
void orr_membership_left(orr_membership *memory, const orr_member_id *id);
/* An epoch was formed and is durable: who contributes to it has the state that it goes on from, so
 * that no member of the base need have it any longer. All its members committed a step. */
void orr_membership_formed(orr_membership *memory, const orr_epoch *epoch);
void orr_membership_committed(orr_membership *memory, const orr_epoch *epoch);

/* The quorum rule. `living` counts the base without those that are gone, `here` those of it that
 * are candidates; a quorum is at least half of the living. If memory is lost it is more than half
 * of all names of the base and of the last epoch's members too: of two coordinators that share an
 * epoch's members between them, only one can have that. */
typedef struct orr_quorum {
    uint32_t living, here;
    bool enough;
    bool all;       /* everyone who may act is here */
    bool all_heard; /* everyone who may know of a later commit is here */
} orr_quorum;
orr_quorum orr_roster_quorum(const orr_membership *memory, const orr_epoch_candidate *candidates,
                             uint32_t n);

/* Computes the next epoch: members in the order of their names, the committed step, roles and
 * slots; addresses and `you` are left to the caller. False, with the reason: nobody who is here has
 * the state that must be gone on from, or there are too many replicas. */
bool orr_roster_next_epoch(const orr_membership *memory, const orr_epoch_candidate *candidates,
                           uint32_t n, orr_epoch *ret, char why[ORR_TEAM_REASON_BYTES]);

/* Commits the epoch's next step: turns the epoch into the one for the step after that. `whole` says
 * of each member whether it had the state before the step (in a carried epoch: the sums). False:
 * the data cursor cannot hold what is returned. */
bool orr_roster_advance(orr_epoch *epoch, const bool *whole);

/* The slots whose gradients are in the sums of the epoch's next step; returns their number. */
uint32_t orr_epoch_slots(const orr_epoch *epoch, uint64_t ret[ORR_TEAM_MAX_REPLICAS]);
uint32_t orr_epoch_contributors(const orr_epoch *epoch);

#endif /* ORR_TEAM_PROTOCOL_ROSTER_H */
