/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_PROTOBUF_WIRE_H
#define ORR_IO_PROTOBUF_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

#include "io/stream/stream.h"

/* Protobuf wire format, reading: a message in memory, field by field.
 *
 *   orr_proto p = orr_proto_of(bytes, len);
 *   orr_proto_field f;
 *   while (orr_proto_next(&p, &f)) switch (f.number) ...
 *   if (p.failed) ...            // p.at is where
 */
typedef enum orr_proto_wire {
    ORR_PROTO_VARINT = 0,
    ORR_PROTO_FIXED64 = 1,
    ORR_PROTO_BYTES = 2,
    ORR_PROTO_FIXED32 = 5
} orr_proto_wire;

typedef struct orr_proto {
    const uint8_t *begin, *at, *end;
    bool failed;
} orr_proto;

typedef struct orr_proto_field {
    uint32_t number;
    orr_proto_wire wire;
    uint64_t value;       /* VARINT, FIXED64, FIXED32 */
    const uint8_t *bytes; /* BYTES: its content       */
    size_t len;
    const uint8_t *raw; /* the whole field, tag included */
    size_t raw_len;
} orr_proto_field;

orr_proto orr_proto_of(const void *bytes, size_t len);
/* False at the end or on broken bytes (see failed). Groups are refused. */
bool orr_proto_next(orr_proto *p, orr_proto_field *ret);
/* One varint, e.g. in a packed list. False at the end or broken. */
bool orr_proto_varint(orr_proto *p, uint64_t *ret);

/* The next message of a stream of varint(len) message: its bytes are in the window
 * until the next call. *ret_end at a clean end. Errors: as orr_stream_fill(), and
 * PARSE (truncated, or a length over 2 GiB). */
orr_status orr_proto_read_message(orr_stream *stream, const uint8_t **ret_bytes, size_t *ret_len,
                                  bool *ret_end, orr_error *err) ORR_MUST_CHECK;

/* Writing: into a growing buffer; nested messages by begin and end. Out of memory is
 * remembered in `failed`. */
typedef struct orr_proto_buffer {
    uint8_t *at;
    size_t n, room;
    bool failed;
} orr_proto_buffer;

void orr_proto_buffer_done(orr_proto_buffer *b);
void orr_proto_put_varint(orr_proto_buffer *b, uint64_t value);             /* bare */
void orr_proto_put_raw(orr_proto_buffer *b, const void *bytes, size_t len); /* bare */
void orr_proto_put_uint(orr_proto_buffer *b, uint32_t field, uint64_t value);
void orr_proto_put_sint(orr_proto_buffer *b, uint32_t field, int64_t value); /* zigzag */
void orr_proto_put_fixed64(orr_proto_buffer *b, uint32_t field, uint64_t value);
void orr_proto_put_fixed32(orr_proto_buffer *b, uint32_t field, uint32_t value);
void orr_proto_put_bytes(orr_proto_buffer *b, uint32_t field, const void *bytes, size_t len);
/* size_t mark = begin(b, 8); ...fields of the inner message...; end(b, mark); */
size_t orr_proto_begin(orr_proto_buffer *b, uint32_t field);
void orr_proto_end(orr_proto_buffer *b, size_t mark);

uint64_t orr_proto_zigzag(int64_t value);
int64_t orr_proto_unzigzag(uint64_t value);

#endif /* ORR_IO_PROTOBUF_WIRE_H */
