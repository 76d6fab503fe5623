/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_CATCHUP_PROVIDER_H
#define ORR_TEAM_CATCHUP_PROVIDER_H

#include <pthread.h>

#include "team/catchup/parts.h"

/* A source, seen from inside. Two threads are in it: the one that polls (source.c: takers, their
 * requests, what is being sent) and the one that owns the state (source_keep.c: offer, keep,
 * withdraw). What both touch is under `lock`, which is held for one chunk's copy at most; keep()
 * copies outside of it while `phase` says so. */
enum { ORR_PROVIDER_MAX_SENDING = 2 }; /* chunks handed to the net, of one taker */

typedef enum orr_state_provider_phase {
    ORR_PROVIDER_NEW,          /* nothing was ever offered            */
    ORR_PROVIDER_LIVE,         /* the spans hold the state            */
    ORR_PROVIDER_SNAPSHOTTING, /* requests wait                       */
    ORR_PROVIDER_SNAPSHOT      /* only what is in `kept`              */
} orr_state_provider_phase;

typedef struct orr_state_provider_client {
    struct orr_state_provider_client *next;
    orr_conn conn;
    /* Under lock: */
    bool asked; /* what follows is known */
    uint64_t step;
    uint32_t index, n;     /* what it takes this source for */
    orr_chunk_range lacks; /* of this source's part         */
    /* Of the polling thread: */
    uint32_t pending[ORR_CATCHUP_WINDOW], first, n_pending; /* requests, a ring */
    void *sending[ORR_PROVIDER_MAX_SENDING];                /* rooms            */
    uint32_t n_sending;
} orr_state_provider_client;

typedef struct orr_state_provider_buffer { /* of a chunk on its way out, when it is free */
    struct orr_state_provider_buffer *next;
} orr_state_provider_buffer;

struct orr_state_provider {
    orr_net *net;
    orr_net_callbacks user;
    char address[ORR_NET_ADDRESS_BYTES];
    orr_chunks chunks;
    /* Of the polling thread: */
    orr_state_provider_buffer *rooms;
    uint32_t n_takers;
    /* Offers, keeps and withdrawals take turns. */
    pthread_mutex_t turn, lock;
    /* Under lock: */
    orr_state_provider_client *takers; /* changed by the polling thread only */
    orr_state_provider_phase phase;
    uint64_t step;
    uint32_t wanted;      /* takers that will ask                             */
    uint32_t done;        /* of them have all of this source's part, and left */
    uint32_t index, n;    /* this source's part                               */
    orr_chunk_range kept; /* chunks of the part; what is copied, from its first on */
    char *copy;
    size_t copy_room;
    orr_state_provider_counts counts;
};

/* Answers what can be answered; in the thread that polls. */
void orr_state_provider_serve(orr_state_provider *source);

#endif /* ORR_TEAM_CATCHUP_PROVIDER_H */
