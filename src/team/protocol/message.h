/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_PROTOCOL_MESSAGE_H
#define ORR_TEAM_PROTOCOL_MESSAGE_H

#include <orrery/team.h>

#include "base/array.h"
#include "io/net/net.h"

/* What members, hubs and coordinators say to one another. Epoch and step stand in the frame; the
 * rest is its payload, numbers little endian. A payload that does not read whole is no message: the
 * connection is closed. */
enum {
    ORR_TEAM_NAME_BYTES = 40,
    ORR_TEAM_MAX_REPLICAS = 64,
    ORR_TEAM_REASON_BYTES = 160,
    ORR_TEAM_VERSION = 1
};
#define ORR_TEAM_NONE UINT64_MAX /* no step, no slot, no member */

typedef enum orr_team_message_kind {
    /* to the coordinator */
    ORR_MESSAGE_HELLO = 1,
    ORR_MESSAGE_HEARTBEAT,
    ORR_MESSAGE_FAULT,
    ORR_MESSAGE_READY,
    ORR_MESSAGE_LEAVE,          /* frame: op 1: the job is complete                          */
    ORR_MESSAGE_STATE_COMPLETE, /* a rank, to its hub: the state is here                     */
    /* from it */
    ORR_MESSAGE_EPOCH,
    ORR_MESSAGE_COMMIT,
    ORR_MESSAGE_HALT,
    ORR_MESSAGE_DISMISS,
    ORR_MESSAGE_REFUSED,
    ORR_MESSAGE_HEARTBEAT_ACK,     /* of a heartbeat                                            */
    ORR_MESSAGE_ALL_STATE_COMPLETE /* a hub, to its ranks                                       */
} orr_team_message_kind;

/* A replica, in one of its lives. */
typedef struct orr_member_id {
    char name[ORR_TEAM_NAME_BYTES];
    uint64_t incarnation; /* of each start another */
} orr_member_id;
bool orr_member_id_equal(const orr_member_id *a, const orr_member_id *b);
typedef struct orr_member_list {
    uint32_t n;
    orr_member_id ids[ORR_TEAM_MAX_REPLICAS];
} orr_member_list;

/* What a replica knows of itself. */
typedef struct orr_member_report {
    orr_member_id id;
    uint64_t step; /* it has the state after this one; NEVER: none that is whole             */
    orr_team_data_cursor data; /* after it, and in which epoch it was committed */
    uint64_t known,
        known_epoch; /* the last step that it knows to be committed, and in which epoch  */
    uint64_t slot;   /* of data, that the next step's gradients are made of; NEVER             */
    uint64_t epoch;  /* the last that it was in; 0: none                                       */
    orr_member_list members; /* of that epoch */
    orr_member_list base;    /* of the last epoch before it in which a step was committed    */
    bool carried;     /* the next step is carried over into that epoch: see orr_epoch           */
    bool prepared;    /* it has the sums of the next step, of that epoch                        */
    uint64_t digest;  /* of them, or of what is carried                                         */
    uint32_t n_slots; /* of the contributors to them                                            */
    uint64_t slots[ORR_TEAM_MAX_REPLICAS];
} orr_member_report;

/* Addresses of a replica's ranks: for each, where its ring and its state are reached, texts one
 * behind another, each with its NUL. */
typedef struct orr_addresses {
    const char *text;
    size_t bytes;
    uint32_t ranks;
} orr_addresses;
/* "ring" and "state" of a rank; false: there are not so many. */
bool orr_addresses_of(const orr_addresses *addresses, uint32_t rank, const char **ret_ring,
                      const char **ret_state);

typedef struct orr_hello {
    uint64_t fingerprint;
    uint32_t rank,
        ranks; /* whose it is; ranks: 1 of a whole replica, by its hub or its only rank */
    orr_member_report report;
    orr_addresses addresses; /* of `rank` to a hub, of all to a coordinator */
} orr_hello;

typedef enum orr_role { ORR_ROLE_CONTRIBUTOR, ORR_ROLE_HEALING } orr_role;
typedef struct orr_epoch_member {
    orr_member_id id;
    uint8_t role;  /* orr_role */
    uint64_t slot; /* of a contributor, for the step after the committed one */
    orr_addresses addresses;
} orr_epoch_member;
/* A carried epoch finds some members with the sums of the next step, which others may have
 * committed already. Nothing is reduced in it: who has those sums (contributors) and who has not
 * (healing) both say at once that they are ready; so all have entered before any of them commits.
 */
typedef struct orr_epoch { /* frame: epoch; step: the committed one */
    uint64_t epoch, step;
    orr_team_data_cursor data; /* after the step, and in which epoch it was committed */
    bool carried;
    uint64_t digest; /* of the carried sums; and the slots that are in them */
    uint32_t n_slots;
    uint64_t slots[ORR_TEAM_MAX_REPLICAS];
    orr_member_list base; /* members of the last epoch in which a step was committed */
    uint32_t you;         /* index */
    uint32_t n;
    orr_epoch_member members[ORR_TEAM_MAX_REPLICAS];
} orr_epoch;

typedef struct orr_commit_message { /* frame: epoch, step; of the next step: */
    uint32_t n;
    uint8_t role[ORR_TEAM_MAX_REPLICAS];
    uint64_t slot[ORR_TEAM_MAX_REPLICAS];
} orr_commit_message;

typedef struct orr_heartbeat {
    uint64_t posted, reduced, sent, received;
    uint64_t fetched; /* bytes of state, by one that comes back: that moves too */
} orr_heartbeat;
typedef struct orr_ready_message { /* frame: epoch, step */
    uint64_t digest;
    bool whole; /* the state before the step is there too */
} orr_ready_message;
typedef struct orr_fault_report { /* frame: epoch */
    uint32_t about;               /* index of a member; UINT32_MAX: nobody */
    char why[ORR_TEAM_REASON_BYTES];
} orr_fault_report;

/* Payloads, appended to `to`. NO_MEMORY: false. */
typedef orr_array(uint8_t) orr_message_bytes;
bool orr_write_hello(orr_message_bytes *to, const orr_hello *hello);
bool orr_write_epoch(orr_message_bytes *to, const orr_epoch *epoch);
bool orr_write_commit(orr_message_bytes *to, const orr_commit_message *commit);
bool orr_write_heartbeat(orr_message_bytes *to, const orr_heartbeat *heartbeat);
bool orr_write_ready(orr_message_bytes *to, const orr_ready_message *ready);
bool orr_write_fault(orr_message_bytes *to, const orr_fault_report *fault);
/* Addresses point into the payload. false: it is no such message. */
bool orr_read_hello(const void *payload, size_t bytes, orr_hello *ret);
bool orr_read_epoch(const orr_net_frame *frame, const void *payload, orr_epoch *ret);
bool orr_read_commit(const void *payload, size_t bytes, orr_commit_message *ret);
bool orr_read_heartbeat(const void *payload, size_t bytes, orr_heartbeat *ret);
bool orr_read_ready(const void *payload, size_t bytes, orr_ready_message *ret);
bool orr_read_fault(const void *payload, size_t bytes, orr_fault_report *ret);

/* What a coordinator remembers. */
typedef struct orr_epoch_record {
    uint64_t epoch;
    orr_member_list members, base; /* as in an epoch */
} orr_epoch_record;
bool orr_write_record(orr_message_bytes *to, const orr_epoch_record *record);
bool orr_read_record(const void *payload, size_t bytes, orr_epoch_record *ret);

/* Sends a message with this payload (NULL: none), copied. */
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

/* Data after a step of these slots: they are trained, and what was given out below the highest and
 * is not comes back. false: more come back than can be remembered, or a slot that was trained
 * before. */
bool orr_team_data_cursor_consume(orr_team_data_cursor *data, const uint64_t *slots, uint32_t n);
/* Is this slot still to be trained? */
bool orr_team_data_cursor_is_open(const orr_team_data_cursor *data, uint64_t slot);

#endif /* ORR_TEAM_PROTOCOL_MESSAGE_H */
