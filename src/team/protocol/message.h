/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_PROTOCOL_MESSAGE_H
#define ORR_TEAM_PROTOCOL_MESSAGE_H

#include <orrery/team.h>

#include "base/array.h"
#include "io/net/net.h"

/* The messages of the team protocol, between members (or the replica proxies that stand for them)
 * and the coordinator. A message is a frame of the net: its kind, epoch and step stand in the
 * header, the rest is the payload, with numbers in little endian. A payload that does not parse to
 * its last byte is an error, after which the connection is closed. */
enum {
    ORR_TEAM_NAME_BYTES = 40,
    ORR_TEAM_MAX_REPLICAS = 64,
    ORR_TEAM_REASON_BYTES = 160,
    ORR_TEAM_VERSION = 2
};
#define ORR_TEAM_NONE UINT64_MAX /* no step, no slot, no member */

typedef enum orr_team_message_kind {
    /* to the coordinator */
    ORR_MESSAGE_HELLO = 1, /* frame: step: the number of the call: see orr_caller */
    ORR_MESSAGE_HEARTBEAT,
    ORR_MESSAGE_FAULT,
    ORR_MESSAGE_READY,
    ORR_MESSAGE_LEAVE,          /* frame: op 1: the job is complete                          */
    ORR_MESSAGE_STATE_COMPLETE, /* a rank, to its proxy: the state is here                     */
    /* from it */
    ORR_MESSAGE_EPOCH, /* frame, of a proxy: op 1: its ranks were in different epochs before it */
    ORR_MESSAGE_COMMIT,
    ORR_MESSAGE_HALT,
    ORR_MESSAGE_DISMISS,
    ORR_MESSAGE_REFUSED,
    ORR_MESSAGE_HEARTBEAT_ACK, /* of a heartbeat                                            */
    ORR_MESSAGE_STANDBY, /* another coordinator leads, or too few called this one             */
    ORR_MESSAGE_ALL_STATE_COMPLETE, /* a proxy, to its ranks                                      */
    /* an operator and the coordinator */
    ORR_MESSAGE_FORGET,   /* a fault report that names a replica: it will not come back       */
    ORR_MESSAGE_FORGOTTEN /* a fault report: what that means; or REFUSED                       */
} orr_team_message_kind;

/* One life of a replica. The incarnation number tells a restarted process from the one that died
 * (as in SWIM). */
typedef struct orr_member_id {
    char name[ORR_TEAM_NAME_BYTES];
    uint64_t incarnation; /* larger at each start */
} orr_member_id;
bool orr_member_id_equal(const orr_member_id *a, const orr_member_id *b);
typedef struct orr_member_list {
    uint32_t n;
    orr_member_id ids[ORR_TEAM_MAX_REPLICAS];
} orr_member_list;

/* What a replica knows when it says hello: which state it has, which steps it knows to be
 * committed, and which sums it has prepared but not seen committed. From the reports of all
 * candidates the coordinator computes the next epoch (roster.h). */
typedef struct orr_member_report {
    orr_member_id id;
    uint64_t step; /* it has the state after this one; NEVER: none that is whole             */
    orr_team_data_cursor data; /* after it, and in which epoch it was committed and made */
    uint64_t known, known_epoch,
        known_made; /* the last step that it knows to be committed, in which epoch, and made */
    uint64_t slot;  /* of data, that the next step's gradients are made of; NEVER             */
    uint64_t epoch; /* the last that it was in; 0: none                                       */
    orr_member_list members; /* of that epoch */
    orr_member_list base;    /* of the last epoch before it in which a step was committed    */
    bool carried;     /* the next step is carried over into that epoch: see orr_epoch           */
    bool prepared;    /* it has the sums of the next step, of that epoch                        */
    uint64_t digest;  /* of them, or of what is carried                                         */
    uint64_t made;    /* the epoch whose ring made them                                         */
    uint32_t n_slots; /* of the contributors to them                                            */
    uint64_t slots[ORR_TEAM_MAX_REPLICAS];
} orr_member_report;

/* The addresses of a replica's ranks, two for each: of its ring and of its state provider. Strings
 * with their NULs, one after another. */
typedef struct orr_addresses {
    const char *text;
    size_t bytes;
    uint32_t ranks;
} orr_addresses;
/* Finds both addresses of one rank; false when there are fewer ranks. */
bool orr_addresses_of(const orr_addresses *addresses, uint32_t rank, const char **ret_ring,
                      const char **ret_state);

typedef struct orr_hello {
    uint64_t fingerprint;
    uint32_t rank,
        ranks; /* whose it is; ranks: 1 of a whole replica, by its proxy or its only rank */
    orr_member_report report;
    orr_addresses addresses; /* of `rank` to a proxy, of all to a coordinator */
} orr_hello;

/* The last call of a life of a replica, or of a rank. Each counts the times it has called, so that
 * a hello that comes late, over a connection that was given up, is told from the one after it. */
typedef struct orr_caller {
    orr_member_id id;
    uint64_t call;
} orr_caller;
/* Whether a hello is late: a later call of the same life was heard. Else notes it. */
bool orr_caller_is_late(orr_caller *last, const orr_member_id *id, uint64_t call);

typedef enum orr_role { ORR_ROLE_CONTRIBUTOR, ORR_ROLE_HEALING } orr_role;
typedef struct orr_epoch_member {
    orr_member_id id;
    uint8_t role;  /* orr_role */
    uint64_t slot; /* of a contributor, for the step after the committed one */
    orr_addresses addresses;
} orr_epoch_member;
/* An epoch: a numbered configuration of members (a view of viewstamped replication, a quorum of
 * torchft), with the step from which they go on.
 *
 * A carried epoch is formed when some members have prepared sums of the next step which others may
 * have committed already: a prepared transaction that survives a view change. Nothing is reduced in
 * it. Members that have those sums (contributors) and members that have not (healing) are ready at
 * once, so that all have entered the epoch before any of them commits. */
typedef struct orr_epoch { /* frame: epoch; step: the committed one */
    uint64_t epoch, step;
    orr_team_data_cursor data; /* after the step, and in which epoch it was committed and made */
    bool carried;
    uint64_t digest,
        made; /* of the carried sums, the epoch whose ring made them, and their slots */
    uint32_t n_slots;
    uint64_t slots[ORR_TEAM_MAX_REPLICAS];
    orr_member_list base; /* members of the last epoch in which a step was committed */
    uint32_t you;         /* index */
    uint32_t n;
    orr_epoch_member members[ORR_TEAM_MAX_REPLICAS];
} orr_epoch;

typedef struct orr_commit_message { /* frame: epoch, step; roles and slots of the next step: */
    uint32_t n;
    uint8_t role[ORR_TEAM_MAX_REPLICAS];
    uint64_t slot[ORR_TEAM_MAX_REPLICAS];
} orr_commit_message;

typedef struct orr_heartbeat {
    uint64_t posted, reduced, sent, received;
    uint64_t fetched; /* bytes of state: progress of a member that heals */
} orr_heartbeat;
typedef struct orr_ready_message { /* frame: epoch, step */
    uint64_t digest;
    bool whole; /* the member has the state before the step too */
} orr_ready_message;
typedef struct orr_fault_report { /* frame: epoch */
    uint32_t about;               /* index of a member; UINT32_MAX: nobody */
    char why[ORR_TEAM_REASON_BYTES];
} orr_fault_report;

/* Append a payload to `to`; false: out of memory. */
typedef orr_array(uint8_t) orr_message_bytes;
bool orr_write_hello(orr_message_bytes *to, const orr_hello *hello);
bool orr_write_epoch(orr_message_bytes *to, const orr_epoch *epoch);
bool orr_write_commit(orr_message_bytes *to, const orr_commit_message *commit);
bool orr_write_heartbeat(orr_message_bytes *to, const orr_heartbeat *heartbeat);
bool orr_write_ready(orr_message_bytes *to, const orr_ready_message *ready);
bool orr_write_fault(orr_message_bytes *to, const orr_fault_report *fault);
/* Parse a payload; addresses point into it. False: it is not such a message. */
bool orr_read_hello(const void *payload, size_t bytes, orr_hello *ret);
bool orr_read_epoch(const orr_net_frame *frame, const void *payload, orr_epoch *ret);
bool orr_read_commit(const void *payload, size_t bytes, orr_commit_message *ret);
bool orr_read_heartbeat(const void *payload, size_t bytes, orr_heartbeat *ret);
bool orr_read_ready(const void *payload, size_t bytes, orr_ready_message *ret);
bool orr_read_fault(const void *payload, size_t bytes, orr_fault_report *ret);

/* The record that a coordinator keeps in its store, and reads again after a restart. */
typedef struct orr_epoch_record {
    uint64_t epoch;
    uint64_t fingerprint;          /* of the job; of no use while there are no members */
    orr_member_list members, base; /* as in orr_epoch */
} orr_epoch_record;
bool orr_write_record(orr_message_bytes *to, const orr_epoch_record *record);
bool orr_read_record(const void *payload, size_t bytes, orr_epoch_record *ret);

/* Sends a message; the payload is copied (NULL: none). */
void orr_message_send(orr_net *net, orr_conn conn, orr_team_message_kind kind, uint64_t epoch,
                      uint64_t step, const orr_message_bytes *payload);

/* Sends a fault report as FAULT, REFUSED or HALT. `about`: index of a member, UINT32_MAX: nobody.
 * Nothing is sent when there is no memory. */
void orr_message_send_fault(orr_net *net, orr_conn conn, orr_team_message_kind kind, uint64_t epoch,
                            uint32_t about, const char *reason);

/* Memory for payloads that are larger than the buffer of the net. Freed by orr_free(inbox.at). */
typedef struct orr_message_inbox {
    uint8_t *at;
    size_t bytes;
} orr_message_inbox;
/* Where the payload goes that this frame announces; NULL: the net's buffer is large enough, the
 * payload is larger than `most`, or there is no memory. */
void *orr_message_inbox_place(orr_message_inbox *inbox, const orr_net_frame *frame, uint32_t most);

/* Moves the data cursor over a committed step. `slots` were trained; lower slots that were given
 * out and not trained, since their replica died, are returned and will be given out again. False:
 * more are returned than the cursor can hold, or a slot had been trained before. */
bool orr_team_data_cursor_consume(orr_team_data_cursor *data, const uint64_t *slots, uint32_t n);
/* Whether this slot is still to be trained. */
bool orr_team_data_cursor_is_open(const orr_team_data_cursor *data, uint64_t slot);

#endif /* ORR_TEAM_PROTOCOL_MESSAGE_H */
