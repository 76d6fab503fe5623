/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_NET_FRAME_H
#define ORR_IO_NET_FRAME_H

#include <sys/uio.h>

#include "io/net/net.h"

/* Frames as bytes: sealing them with hashes, checking them, and reading them out of a stream.
 * Nothing here knows a socket. */

/* XXH3, 64 bits; never 0, which in a header says "not hashed yet". */
uint64_t orr_net_frame_hash(const void *payload, size_t bytes);
/* Fills in magic, header_hash and, where it is 0, payload_hash. `unchecked`: the payload's is 1. */
void orr_net_frame_seal(orr_net_frame *frame, const void *payload, bool unchecked);
bool orr_net_frame_header_is_valid(const orr_net_frame *frame); /* by its magic and its hash */
bool orr_net_frame_payload_is_valid(const orr_net_frame *frame, const void *payload);

/* Reads frames out of a stream. Payloads are received straight to where they are wanted; headers
 * and small payloads are read ahead. Nothing is allocated but the buffer, when it is first needed.
 */
enum { ORR_NET_READ_AHEAD_BYTES = 4096 };
typedef struct orr_net_frame_reader {
    orr_net_frame frame; /* whose payload is being read, when inside    */
    uint8_t *to;         /* of its payload; NULL: dropped               */
    size_t had;          /* of its payload                              */
    bool inside;         /* a frame, between its header and its end     */
    bool bulk;           /* the frame before was large: the next may be */
    uint8_t *room;       /* ORR_NET_BUFFER_BYTES bytes, or NULL                 */
    size_t begin, end;   /* of what is read ahead                    */
    _Alignas(16) uint8_t ahead[ORR_NET_READ_AHEAD_BYTES];
} orr_net_frame_reader;

typedef enum orr_net_frame_event {
    ORR_NET_FRAME_INCOMPLETE, /* more bytes are needed                               */
    ORR_NET_FRAME_HEADER,     /* reader.frame; orr_net_frame_reader_place() is to follow */
    ORR_NET_FRAME_WHOLE,      /* whole: reader.frame, reader.to                      */
    ORR_NET_FRAME_CORRUPT
} orr_net_frame_event;

/* The one or two buffers that the next bytes go to; returns their number. */
int orr_net_frame_reader_buffers(orr_net_frame_reader *reader, struct iovec rest[2]);
/* `n` bytes were received into them. Call orr_net_frame_reader_next() until INCOMPLETE. */
void orr_net_frame_reader_advance(orr_net_frame_reader *reader, size_t n);
orr_net_frame_event orr_net_frame_reader_next(orr_net_frame_reader *reader, bool unchecked);
/* For the payload of a frame whose header has come: `to`, or NULL: the reader's room. False: out of
 * memory. */
bool orr_net_frame_reader_place(orr_net_frame_reader *reader, void *to);
/* Begins a frame whose header came by another way. */
void orr_net_frame_reader_begin(orr_net_frame_reader *reader, const orr_net_frame *frame);
void orr_net_frame_reader_done(orr_net_frame_reader *reader);

#endif /* ORR_IO_NET_FRAME_H */
