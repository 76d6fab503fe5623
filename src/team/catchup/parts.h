/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEAM_CATCHUP_PARTS_H
#define ORR_TEAM_CATCHUP_PARTS_H

#include "team/catchup/catchup.h"

/* What provider and receiver share: the frames between them, and the cutting of spans into chunks.
 *
 * The part of provider i of n is the chunks i, i + n, ... A receiver fetches it from the front;
 * others that have nothing left to do take from its end. So what a receiver lacks of a part lies in
 * one range of chunks, [from, to), and each request says which: it acknowledges, and tells
 * keep() what may still be asked for.
 *
 *          step  chunk      lane  partition  op, round                      epoch
 *   ASK    of    wanted     i     n          lacked of i's part [op, round) bytes of the state
 *   HAVE   of    -          i     n          the same, without asking       bytes of the state
 *   GIVE   of    carried    -     -          -                              -
 *   GONE   of    refused    i     n          still had of i's part          -
 *
 * On one connection all are of one step, and answers come in the order of the requests. */
enum {
    ORR_CATCHUP_REQUEST = 0x40,
    ORR_CATCHUP_ACK,
    ORR_CATCHUP_DATA,
    ORR_CATCHUP_GONE,
    ORR_CATCHUP_WINDOW = 64 /* most requests not yet answered, on a connection */
};
static const uint32_t ORR_CATCHUP_NONE = UINT32_MAX; /* no chunk */

/* The chunks of a part in [from, to). */
typedef struct orr_chunk_range {
    uint32_t from, to;
} orr_chunk_range;

/* Spans end to end, as chunks. */
typedef struct orr_placed_span {
    char *data;
    uint64_t begin; /* in the state */
} orr_placed_span;
typedef struct orr_chunks {
    orr_placed_span *spans; /* shape (n_spans + 1), the last begins where the state ends */
    uint32_t n_spans, n;    /* n: chunks                                                 */
    uint64_t bytes;
} orr_chunks;

/* Errors: LIMIT: too much for numbers of 32 bits; NO_MEMORY. */
orr_status orr_chunks_init(orr_chunks *chunks, const orr_team_span *spans, uint32_t n,
                           orr_error *err) ORR_MUST_CHECK;
void orr_chunks_done(orr_chunks *chunks);
uint32_t orr_chunk_bytes(const orr_chunks *chunks, uint32_t chunk);
/* Where all of it lies; NULL: in several spans. */
void *orr_chunk_address(const orr_chunks *chunks, uint32_t chunk);
/* Copies `count` chunks one after another. */
void orr_chunk_read(const orr_chunks *chunks, uint32_t chunk, uint32_t count, void *to);
void orr_chunk_write(const orr_chunks *chunks, uint32_t chunk, const void *from);

#endif /* ORR_TEAM_CATCHUP_PARTS_H */
