/* SPDX-License-Identifier: Apache-2.0 */
#include "io/protobuf/wire.h"

#include <string.h>

#include "base/alloc.h"
#include "base/array.h"

enum { VARINT_MAX_BYTES = 10, GROUP_BEGIN = 3, GROUP_END = 4, MOST_FIELD = (1 << 29) - 1 };

orr_proto orr_proto_of(const void *bytes, size_t len)
{
    const uint8_t *begin = bytes;
    return (orr_proto){.begin = begin, .at = begin, .end = len > 0 ? begin + len : begin};
}

/* The varint at `at`: behind it, or NULL when it is cut or longer than 64 bits. */
static const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, uint64_t *ret)
{
    uint64_t value = 0;
    for (unsigned shift = 0; at < end && shift < 7 * VARINT_MAX_BYTES; shift += 7) {
        const uint8_t byte = *at++;
        if (shift == 63 && byte > 1)
            return NULL;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *ret = value;
            return at;
        }
    }
    return NULL;
}

bool orr_proto_varint(orr_proto *p, uint64_t *ret)
{
    if (p->failed || p->at == p->end)
        return false;
    const uint8_t *after = read_varint(p->at, p->end, ret);
    if (after == NULL) {
        p->failed = true;
        return false;
    }
    p->at = after;
    return true;
}

static uint64_t little_endian(const uint8_t *at, size_t n)
{
    uint64_t value = 0;
    for (size_t i = n; i > 0; i--)
        value = value << 8 | at[i - 1];
    return value;
}

/* What follows the tag: behind it, or NULL when broken. */
static const uint8_t *read_content(const uint8_t *at, const uint8_t *end, orr_proto_field *f)
{
    const size_t left = (size_t)(end - at);
    switch ((int)f->wire) {
    case ORR_PROTO_VARINT:
        return read_varint(at, end, &f->value);
    case ORR_PROTO_FIXED64:
    case ORR_PROTO_FIXED32: {
        const size_t n = f->wire == ORR_PROTO_FIXED64 ? 8 : 4;
        if (left < n)
            return NULL;
        f->value = little_endian(at, n);
        return at + n;
    }
    case ORR_PROTO_BYTES: {
        uint64_t len;
        at = read_varint(at, end, &len);
        if (at == NULL || len > (uint64_t)(end - at))
            return NULL;
        f->bytes = at;
        f->len = (size_t)len;
        return at + f->len;
    }
    default: /* groups, and 6 and 7, which mean nothing */
        return NULL;
    }
}

bool orr_proto_next(orr_proto *p, orr_proto_field *ret)
{
    if (p->failed || p->at == p->end)
        return false;
    uint64_t tag;
    const uint8_t *at = read_varint(p->at, p->end, &tag);
    if (at != NULL && (tag >> 3) >= 1 && (tag >> 3) <= MOST_FIELD) {
        orr_proto_field f = {.number = (uint32_t)(tag >> 3), .wire = (orr_proto_wire)(tag & 7)};
        at = read_content(at, p->end, &f);
        if (at != NULL) {
            f.raw = p->at;
            f.raw_len = (size_t)(at - p->at);
            p->at = at;
            *ret = f;
            return true;
        }
    }
    p->failed = true;
    return false;
}

/* Length before a message. Incomplete in this window: *ret_after is NULL. */
static orr_status read_length(orr_stream *stream, uint64_t *ret_len, const uint8_t **ret_after,
                              orr_error *err)
{
    static const uint64_t most_bytes = (UINT64_C(1) << 31) - 1;
    const orr_window window = orr_stream_window(stream);
    *ret_after = read_varint(window.bytes, window.bytes + window.n, ret_len);
    const unsigned long long pos = orr_stream_offset(stream);
    if (*ret_after == NULL && window.n >= VARINT_MAX_BYTES)
        return orr_fail_byte(err, ORR_PARSE, pos, "at byte %llu: not the length of a message", pos);
    if (*ret_after != NULL && *ret_len > most_bytes)
        return orr_fail_byte(err, ORR_PARSE, pos,
                             "at byte %llu: a message of %llu bytes is too long", pos,
                             (unsigned long long)*ret_len);
    return ORR_OK;
}

orr_status orr_proto_read_message(orr_stream *stream, const uint8_t **ret_bytes, size_t *ret_len,
                                  bool *ret_end, orr_error *err)
{
    for (;;) {
        const orr_window window = orr_stream_window(stream);
        const uint8_t *at = NULL;
        uint64_t len = 0;
        if (window.n > 0)
            ORR_TRY(read_length(stream, &len, &at, err));
        if (at != NULL && window.n - (size_t)(at - window.bytes) >= len) {
            *ret_bytes = at;
            *ret_len = (size_t)len;
            *ret_end = false;
            orr_stream_consume(stream, (size_t)(at - window.bytes) + (size_t)len);
            return ORR_OK;
        }
        bool ended;
        ORR_TRY(orr_stream_fill(stream, &ended, err));
        if (!ended)
            continue;
        const unsigned long long pos = orr_stream_offset(stream) + window.n;
        if (window.n > 0)
            return orr_fail_byte(err, ORR_PARSE, pos,
                                 "at byte %llu: the input ends in the middle of a message", pos);
        *ret_end = true;
        return ORR_OK;
    }
}

static uint8_t *room_for(orr_proto_buffer *b, size_t len)
{
    if (b->failed || !orr_array_reserve(b, len)) {
        b->failed = true;
        return NULL;
    }
    uint8_t *to = b->at + b->n;
    b->n += len;
    return to;
}

void orr_proto_buffer_done(orr_proto_buffer *b)
{
    orr_array_done(b);
    b->failed = false;
}

static size_t encode_varint(uint8_t out[VARINT_MAX_BYTES], uint64_t value)
{
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        out[n++] = (uint8_t)(value | 0x80);
    out[n++] = (uint8_t)value;
    return n;
}

void orr_proto_put_varint(orr_proto_buffer *b, uint64_t value)
{
    uint8_t digits[VARINT_MAX_BYTES];
    orr_proto_put_raw(b, digits, encode_varint(digits, value));
}

void orr_proto_put_raw(orr_proto_buffer *b, const void *bytes, size_t len)
{
    uint8_t *to = room_for(b, len);
    if (to != NULL && len > 0)
        memcpy(to, bytes, len);
}

static void put_tag(orr_proto_buffer *b, uint32_t field, orr_proto_wire wire)
{
    orr_proto_put_varint(b, (uint64_t)field << 3 | wire);
}

void orr_proto_put_uint(orr_proto_buffer *b, uint32_t field, uint64_t value)
{
    put_tag(b, field, ORR_PROTO_VARINT);
    orr_proto_put_varint(b, value);
}

void orr_proto_put_sint(orr_proto_buffer *b, uint32_t field, int64_t value)
{
    orr_proto_put_uint(b, field, orr_proto_zigzag(value));
}

static void put_fixed(orr_proto_buffer *b, uint64_t value, size_t n)
{
    uint8_t bytes[8];
    for (size_t i = 0; i < n; i++)
        bytes[i] = (uint8_t)(value >> 8 * i);
    orr_proto_put_raw(b, bytes, n);
}

void orr_proto_put_fixed64(orr_proto_buffer *b, uint32_t field, uint64_t value)
{
    put_tag(b, field, ORR_PROTO_FIXED64);
    put_fixed(b, value, 8);
}

void orr_proto_put_fixed32(orr_proto_buffer *b, uint32_t field, uint32_t value)
{
    put_tag(b, field, ORR_PROTO_FIXED32);
    put_fixed(b, value, 4);
}

void orr_proto_put_bytes(orr_proto_buffer *b, uint32_t field, const void *bytes, size_t len)
{
    put_tag(b, field, ORR_PROTO_BYTES);
    orr_proto_put_varint(b, len);
    orr_proto_put_raw(b, bytes, len);
}

/* One byte is left for the length. A longer one, known at the end, moves the content on, so that
 * the encoding is the shortest. */
size_t orr_proto_begin(orr_proto_buffer *b, uint32_t field)
{
    put_tag(b, field, ORR_PROTO_BYTES);
    (void)room_for(b, 1);
    return b->n;
}

void orr_proto_end(orr_proto_buffer *b, size_t mark)
{
    if (b->failed)
        return;
    uint8_t digits[VARINT_MAX_BYTES];
    const size_t len = b->n - mark;
    const size_t n = encode_varint(digits, len);
    if (room_for(b, n - 1) == NULL)
        return;
    memmove(b->at + mark + n - 1, b->at + mark, len);
    memcpy(b->at + mark - 1, digits, n);
}

uint64_t orr_proto_zigzag(int64_t value)
{
    return (uint64_t)value << 1 ^ (uint64_t)(value >> 63);
}

int64_t orr_proto_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1 ^ (~(value & 1) + 1));
}
