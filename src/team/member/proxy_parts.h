/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_MEMBER_PROXY_PARTS_H
#define ORR_TEAM_MEMBER_PROXY_PARTS_H

#include "team/member/coordinator_list.h"
#include "team/member/proxy.h"
#include "team/protocol/message.h"
#include "team/protocol/timeouts.h"

/* What the files proxy*.c share. */

typedef struct orr_replica_proxy_rank {
    orr_conn conn; /* 0: not here                              */
    bool hello, leaves, done;
    orr_caller caller; /* stays when the proxy hangs up           */
    int64_t heard_ns;
    uint64_t fingerprint;
    orr_member_report report; /* as in its hello                          */
    char addresses[2 * ORR_NET_ADDRESS_BYTES];
    size_t address_bytes;
    uint64_t ready_epoch, ready_step;
    orr_ready_message ready;
    uint64_t whole_step; /* the state after it is there; NEVER       */
    orr_heartbeat progress;
} orr_replica_proxy_rank;

struct orr_replica_proxy {
    orr_net *net;
    orr_net_callbacks user;
    orr_team_timeouts times;
    orr_coordinator_list coordinators;
    char address[ORR_NET_ADDRESS_BYTES];
    uint32_t n;
    orr_conn up;
    int64_t heard_ns;
    bool carried, said_ready; /* carried: the epoch is */
    bool apart;               /* the ranks were in different epochs when they said hello */
    uint64_t calls;           /* of the coordinator */
    bool dismissed;           /* a rank that has not heard it yet is told when it calls */
    uint64_t epoch, step;     /* the step under way */
    orr_message_inbox inbox;
    orr_replica_proxy_rank *ranks; /* shape (n) */
};

/* Merging what all ranks have said (proxy_merge.c). */
bool orr_replica_proxy_all_here(const orr_replica_proxy *proxy); /* hello */
/* Whether one of the ranks missed an epoch in which the others may have dropped their step. */
bool orr_replica_proxy_is_apart(const orr_replica_proxy *proxy);
bool orr_replica_proxy_write_hello(const orr_replica_proxy *proxy, orr_message_bytes *to);
bool orr_replica_proxy_merge_ready(const orr_replica_proxy *proxy,
                                   orr_ready_message *ret); /* false: not all are */
void orr_replica_proxy_merge_heartbeat(const orr_replica_proxy *proxy, orr_heartbeat *ret);

#endif /* ORR_TEAM_MEMBER_PROXY_PARTS_H */
