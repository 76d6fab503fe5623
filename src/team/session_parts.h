/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_SESSION_PARTS_H
#define ORR_TEAM_SESSION_PARTS_H

#include <pthread.h>

#include "base/array.h"
#include "team/member/proxy.h"
#include "team/member/member.h"

/* A session: a member in the control thread, its owner (the training loop) in another. What the
 * owner wants crosses as commands, what the member decides crosses back as a directive, an outcome
 * or a failure. All of that is under one lock, which neither side holds while it waits for the
 * network. */
typedef enum orr_team_command_kind {
    ORR_COMMAND_REDUCE,
    ORR_COMMAND_VOTE,
    ORR_COMMAND_UPDATED,
    ORR_COMMAND_FOLLOW,
    ORR_COMMAND_DRAIN
} orr_team_command_kind;
typedef struct orr_team_command {
    orr_team_command_kind kind;
    uint32_t op; /* REDUCE; VOTE: how many there are */
    orr_team_dtype dtype;
    const void *in;
    void *out;
    size_t n;
    uint64_t step;
    orr_team_directive directive;
} orr_team_command;
typedef orr_array(orr_team_command) orr_team_commands;

struct orr_team {
    orr_team_options options;
    char where[ORR_NET_ADDRESS_BYTES], state_where[ORR_NET_ADDRESS_BYTES],
        proxy_where[ORR_NET_ADDRESS_BYTES];
    orr_net *net, *state_net;
    orr_replica_proxy *proxy;
    orr_team_member *member;
    orr_team_member_callbacks user;
    pthread_t control, serving;
    bool running, serves;
    /* Of the control thread: reductions that others must come before, and how far they are. */
    orr_team_commands early;
    uint32_t next_op, ops;
    bool voted;
    /* Of both. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    orr_team_commands commands;
    bool stop, has_directive, has_outcome;
    orr_team_directive directive;
    orr_team_outcome outcome;
    orr_status failed;
    orr_error err;
    char why[160]; /* there is no team, as far as it is known */
    int64_t alone_ns;
    uint64_t step;
    orr_team_data_cursor data;
};

/* The control thread (session_thread.c). */
extern const orr_team_member_callbacks orr_team_session_callbacks;
void *orr_team_session_control(void *team);
void *orr_team_session_serve(void *team);

#endif /* ORR_TEAM_SESSION_PARTS_H */
