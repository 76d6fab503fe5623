/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_CATCHUP_PROVIDER_H
#define ORR_TEAM_CATCHUP_PROVIDER_H

#include <pthread.h>

#include "team/catchup/parts.h"

/* The state of a provider. Two threads use it: the one that polls (provider.c: receivers, their
 * requests, chunks being sent) and the one that owns the state (provider_snapshot.c: offer,
 * snapshot, withdraw). What both touch is under `lock`, held for one chunk's copy at most; a
 * snapshot copies outside of it while the phase is SNAPSHOTTING.
 *
 *   phase          entered by            a request for a chunk gets
 *   NEW            -                     no answer yet: it waits for an offer
 *   LIVE           offer                 the chunk, from the spans
 *   SNAPSHOTTING   snapshot begins       no answer yet: it waits until the copy is made
 *   SNAPSHOT       snapshot is made      the chunk from the copy, or GONE if it is not in there */
enum { ORR_PROVIDER_MAX_SENDING = 2 }; /* chunks handed to the net, of one receiver */

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
    uint32_t index, n;     /* what it takes this provider for */
    orr_chunk_range lacks; /* of this provider's part         */
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
    uint32_t n_receivers;
    /* Offers, keeps and withdrawals take turns. */
    pthread_mutex_t owner_lock, lock;
    /* Under lock: */
    orr_state_provider_client *receivers; /* changed by the polling thread only */
    orr_state_provider_phase phase;
    uint64_t step;
    uint32_t wanted;      /* receivers that will ask                             */
    uint32_t done;        /* of them have all of this provider's part, and left */
    uint32_t index, n;    /* this provider's part                               */
    orr_chunk_range kept; /* chunks of the part; what is copied, from its first on */
    char *copy;
    size_t copy_room;
    orr_state_provider_counts counts;
};

/* Answers what can be answered; in the thread that polls. */
void orr_state_provider_serve(orr_state_provider *provider);

#endif /* ORR_TEAM_CATCHUP_PROVIDER_H */
