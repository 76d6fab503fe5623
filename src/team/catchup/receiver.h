/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_CATCHUP_RECEIVER_H
#define ORR_TEAM_CATCHUP_RECEIVER_H

#include "team/catchup/parts.h"

/* The state of a receiver: receiver.c (what arrives, which provider is lost), receiver_request.c
 * (which chunk is asked of whom). */

typedef struct orr_state_receiver_provider {
    orr_conn conn;       /* 0: lost                                              */
    bool live;           /* has every chunk, as far as is known; else only `has` */
    orr_chunk_range has; /* of its part                                          */
    /* Positions in its part (chunk = provider + position * providers): none is missing outside. */
    orr_chunk_range lacks;
    /* Chunks, a ring, as they will be answered. */
    uint32_t asked[ORR_CATCHUP_WINDOW], first, n_asked;
    int64_t heard_ns;
    void *scratch; /* a chunk that crosses spans, while it arrives; NULL: not needed yet */
} orr_state_receiver_provider;

struct orr_state_receiver {
    orr_net *net;
    orr_net_callbacks net_user;
    orr_state_receiver_callbacks user;
    orr_chunks chunks;
    uint32_t window;
    /* Of the state: */
    bool begun; /* of `step` there may be chunks */
    uint64_t step;
    uint64_t *had; /* a bit for each chunk; NULL: none yet */
    uint32_t n_had;
    uint64_t bytes;
    /* While it is fetched: */
    uint64_t *asked; /* a bit for each chunk */
    uint32_t n_asked;
    orr_state_receiver_provider *providers; /* shape (n); NULL: nothing is fetched */
    uint32_t n;
    int64_t silence_ns;
    char why[256]; /* the last provider was lost */
};

static inline bool orr_bitmap_get(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}
static inline void orr_bitmap_set(uint64_t *bits, uint32_t i, bool value)
{
    bits[i / 64] = (bits[i / 64] & ~(UINT64_C(1) << i % 64)) | (uint64_t)value << i % 64;
}

/* Narrows what is missing of a provider's part. */
void orr_state_receiver_trim_missing(orr_state_receiver *receiver, uint32_t provider);
/* Fills the windows of all providers. */
void orr_state_receiver_request(orr_state_receiver *receiver);
/* Says what is still missing of a provider's part. */
void orr_state_receiver_acknowledge(orr_state_receiver *receiver, uint32_t provider);
/* A chunk that no provider has any more; NONE: all can still be had. */
uint32_t orr_state_receiver_lost_chunk(const orr_state_receiver *receiver);

#endif /* ORR_TEAM_CATCHUP_RECEIVER_H */
