/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_COORDINATOR_PARTS_H
#define ORR_TEAM_COORDINATOR_PARTS_H

#include "team/coordinator/coordinator.h"
#include "team/protocol/roster.h"
#include "team/protocol/timeouts.h"

/* Private to team/coordinator: the state of a coordinator and of a connected peer. */

/* A connected peer: a replica that has said hello, or somebody who has not yet. */
typedef struct orr_peer {
    orr_conn conn; /* 0: nobody here                                          */
    bool hello;
    bool leaving, done; /* wants to go at the next commit; since the job is complete */
    bool in;            /* a member of the epoch, at `index`                       */
    uint32_t index;
    int64_t heard_ns;
    int64_t excluded_ns;      /* it is no candidate before that time */
    orr_member_report report; /* its last report, updated by what was sent to it since */
    uint32_t ranks;
    uint64_t fingerprint; /* of its job */
    char *addresses;      /* as in its hello                                         */
    size_t address_bytes;
    orr_message_inbox inbox;
    /* Of the step under way: */
    bool ready, whole;
    uint64_t digest;
    orr_heartbeat progress;
    int64_t moved_ns; /* when that changed last                                  */
    uint32_t complaints;
} orr_peer;

/* Assumed: shorter than the ten minutes after which replicas without a team give up, and long
 * enough for a rack to start again. */
#define ORR_COORDINATOR_OUTAGE_NS INT64_C(300000000000)
#define ORR_COORDINATOR_ANOTHER_JOB                                                                \
    "it trains another job: model, plan, seed, data or options differ"

enum { ORR_COORDINATOR_MAX_PEERS = 2 * ORR_TEAM_MAX_REPLICAS };

struct orr_coordinator {
    orr_net *net;
    orr_net_callbacks user;
    orr_coordinator_settings settings;
    orr_team_timeouts times;
    char address[ORR_NET_ADDRESS_BYTES];
    orr_team_state state;
    orr_membership memory;
    orr_epoch epoch;      /* as it stands for the step under way; of no use unless RUNNING */
    uint64_t fingerprint; /* of the job, once an epoch of it was formed */
    bool known;           /* fingerprint is */
    int64_t began_ns, patience_ns; /* for so long it waits for all who may live */
    int64_t halted_ns, first_hello_ns, step_ns, last_commit_ns, attempt_ns;
    int64_t retry_at_ns;   /* the attempt is to be made again; INT64_MAX: it is not */
    int64_t lost_at_ns;    /* when what is being recovered from was found; 0: nothing is */
    uint32_t retries;      /* of the step */
    bool attempted;        /* the step under way, before */
    bool first_commit;     /* is yet to come, of the epoch */
    bool leads;            /* the record in the store is its own */
    uint32_t draws;        /* of times for which it waits, as a standby */
    int64_t look_ns;       /* when it looks at the record next, if others share its store */
    int64_t save_again_ns; /* not before; 0: the last save was carried out */
    bool taken;            /* the store, by another coordinator */
    bool ended, changed;   /* changed: who is here, since it was looked at last */
    char why[ORR_TEAM_REASON_BYTES];
    orr_team_status counters;
    orr_member_list absent; /* lost, and not back: who may come late when the job has ended */
    orr_caller callers[ORR_TEAM_MAX_REPLICAS]; /* by name; of an empty one: nobody yet */
    orr_peer peers[ORR_COORDINATOR_MAX_PEERS];
};

/* Reports an event; text as printf. */
void orr_coordinator_emit_event(orr_coordinator *c, orr_team_event_kind kind, const char *format,
                                ...) ORR_PRINTF(3, 4);

/* Whether the next epoch may have this peer. */
bool orr_peer_is_candidate(const orr_coordinator *c, const orr_peer *peer);
orr_peer *orr_peer_of_index(orr_coordinator *c,
                            uint32_t index); /* member of the epoch; NULL: gone */
/* Lets a replica go: it leaves, or the job has ended. */
void orr_peer_dismiss(orr_coordinator *c, orr_peer *peer);
/* Tells it why it is not of the team, and closes. */
void orr_peer_refuse(orr_coordinator *c, orr_peer *peer, const char *name, const char *why);
void orr_peer_drop(orr_coordinator *c, orr_peer *peer); /* closes; what it was is forgotten */
/* A member or somebody waiting is no more. `gone`: it cannot act in its epoch any longer. */
void orr_peer_lost(orr_coordinator *c, orr_peer *peer, bool gone, const char *why);

/* Several coordinators (standby.c). Reading the record of the store; errors: of the store. */
orr_status orr_coordinator_load_record(orr_coordinator *c, orr_error *err) ORR_MUST_CHECK;
bool orr_coordinator_stands_by(const orr_coordinator *c);
/* Before a hello counts: a standby reads the record at the first. False: it cannot be read. */
bool orr_coordinator_heed_call(orr_coordinator *c);
/* From time to time: a standby looks whether the job has ended, and one that halts claims the lead
 * anew, lest another has taken it. */
void orr_coordinator_watch_record(orr_coordinator *c);
/* Makes its record the last, though no epoch is formed: false: another leads, or the store failed.
 */
bool orr_coordinator_claim_lead(orr_coordinator *c);
/* Sends all replicas on to another coordinator. */
void orr_coordinator_stand_by(orr_coordinator *c, const char *why);
/* The job is over; a later one is waited for where it was asked for. */
void orr_coordinator_end_team(orr_coordinator *c, const char *why);

/* Forms an epoch if one can and must be; called after whatever has changed (epoch.c). */
void orr_coordinator_reconfigure(orr_coordinator *c);
/* A member is ready: commits if all are (commit.c). */
void orr_coordinator_on_ready(orr_coordinator *c, orr_peer *peer, const orr_net_frame *frame,
                              const orr_ready_message *ready);
/* Gives the attempt up, and forms an epoch of those who are here. */
void orr_coordinator_form_epoch(orr_coordinator *c);
/* Makes an epoch durable: when it is formed, and when it has `committed` its first step. False: the
 * store failed, and the team halts. */
bool orr_coordinator_persist_epoch(orr_coordinator *c, const orr_epoch *epoch, bool committed);
/* Finds silent members and stalled steps; takes fault reports of members (failure_detector.c). */
void orr_coordinator_detect_failures(orr_coordinator *c);
void orr_coordinator_on_fault(orr_coordinator *c, orr_peer *from, const orr_fault_report *fault);

#endif /* ORR_TEAM_COORDINATOR_PARTS_H */
