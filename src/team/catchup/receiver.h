/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_TAKER_H
#define ORR_TEAM_TAKER_H

#include "team/catchup/parts.h"

/* A taker, seen from inside: taker.c (what arrives, who is lost), taker_ask.c (which chunk is asked
 * of whom). */

typedef struct orr_taker_source {
    orr_conn conn;       /* 0: lost                                              */
    bool     live;       /* has every chunk, as far as is known; else only `has` */
    orr_chunk_range has; /* of its part                                          */
    /* Positions in its part (chunk = source + position * sources): none is missing outside. */
    orr_chunk_range lacks;
    /* Chunks, a ring, as they will be answered. */
    uint32_t asked[ORR_CATCHUP_WINDOW], first, n_asked;
    int64_t  heard_ns;
    void    *scratch; /* a chunk that crosses spans, while it arrives; NULL: not needed yet */
} orr_taker_source;

struct orr_taker {
    orr_net *net;
    orr_net_callbacks net_user;
    orr_taker_user user;
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
    orr_taker_source *sources; /* shape (n); NULL: nothing is fetched */
    uint32_t n;
    int64_t silence_ns;
    char why[256]; /* the last source was lost */
};

static inline bool orr_bit(const uint64_t *bits, uint32_t i)
{
    return bits[i / 64] >> i % 64 & 1;
}
static inline void orr_bit_set(uint64_t *bits, uint32_t i, bool value)
{
    bits[i / 64] = (bits[i / 64] & ~(UINT64_C(1) << i % 64)) | (uint64_t)value << i % 64;
}

/* Narrows what is missing of a source's part. */
void orr_taker_narrow(orr_taker *taker, uint32_t source);
/* Fills the windows of all sources. */
void orr_taker_ask(orr_taker *taker);
/* Says what is still missing of a source's part. */
void orr_taker_tell(orr_taker *taker, uint32_t source);
/* A chunk that no source has any more; NONE: all can still be had. */
uint32_t orr_taker_orphan(const orr_taker *taker);

#endif /* ORR_TEAM_TAKER_H */
