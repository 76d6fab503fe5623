/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "io/net/parts.h"

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "a frame's header is on the wire as it is in memory, little endian"
#endif

enum { WIDE_BYTES = 1 << 10 };                      /* from here on wide vectors pay */
static const uint32_t magic = UINT32_C(0x3152524f); /* "ORR1" */

static uint64_t wide_hash(const void *payload, size_t bytes)
{
#if defined __x86_64__
    if (__builtin_cpu_supports("avx512f"))
        return orr_net_hash_avx512(payload, bytes);
    if (__builtin_cpu_supports("avx2"))
        return orr_net_hash_avx2(payload, bytes);
#endif
    return XXH3_64bits(payload, bytes);
}

uint64_t orr_net_frame_hash(const void *payload, size_t bytes)
{
    const uint64_t hash = bytes == 0           ? 1
                          : bytes < WIDE_BYTES ? XXH3_64bits(payload, bytes)
                                               : wide_hash(payload, bytes);
    return hash == 0 ? 1 : hash;
}

static uint32_t header_hash(const orr_net_frame *frame)
{
    orr_net_frame copy = *frame;
    copy.header_hash = 0;
    return XXH32(&copy, sizeof copy, 0);
}

void orr_net_frame_seal(orr_net_frame *frame, const void *payload, bool unchecked)
{
    frame->magic = magic;
    if (frame->payload_hash == 0)
        frame->payload_hash = unchecked ? 1 : orr_net_frame_hash(payload, frame->bytes);
    frame->header_hash = header_hash(frame);
}

bool orr_net_frame_header_is_valid(const orr_net_frame *frame)
{
    return frame->magic == magic && frame->payload_hash != 0 &&
           frame->header_hash == header_hash(frame);
}

bool orr_net_frame_payload_is_valid(const orr_net_frame *frame, const void *payload)
{
    return frame->payload_hash == orr_net_frame_hash(payload, frame->bytes);
}

/* Behind a large payload only the next header is read ahead, since what follows it is likely large
 * too, and has its own place. */
int orr_net_frame_reader_buffers(orr_net_frame_reader *reader, struct iovec rest[2])
{
    int n = 0;
    if (reader->inside) {
        const size_t left = reader->frame.bytes - reader->had;
        rest[n++] = reader->to != NULL
                        ? (struct iovec){reader->to + reader->had, left}
                        : (struct iovec){reader->room, orr_min_size(left, ORR_NET_BUFFER_BYTES)};
        if (rest[0].iov_len < left)
            return n;
    }
    const size_t here = reader->end - reader->begin;
    memmove(reader->ahead, reader->ahead + reader->begin, here);
    reader->begin = 0;
    reader->end = here;
    const size_t room = reader->bulk ? ORR_NET_FRAME_BYTES : ORR_NET_READ_AHEAD_BYTES;
    rest[n++] = (struct iovec){reader->ahead + here, room - here};
    return n;
}

void orr_net_frame_reader_advance(orr_net_frame_reader *reader, size_t n)
{
    if (reader->inside) {
        const size_t more = orr_min_size(n, reader->frame.bytes - reader->had);
        reader->had += more;
        n -= more;
    }
    reader->end += n;
}

static void take_ahead(orr_net_frame_reader *reader)
{
    const size_t n = orr_min_size(reader->frame.bytes - reader->had, reader->end - reader->begin);
    if (reader->to != NULL && n > 0)
        memcpy(reader->to + reader->had, reader->ahead + reader->begin, n);
    reader->had += n;
    reader->begin += n;
}

/* A dropped payload is not checked: nobody sees it. */
static orr_net_frame_event checked(const orr_net_frame_reader *reader, bool unchecked)
{
    if (unchecked || reader->frame.bytes == 0 || reader->to == NULL ||
        orr_net_frame_payload_is_valid(&reader->frame, reader->to))
        return ORR_NET_FRAME_WHOLE;
    return ORR_NET_FRAME_CORRUPT;
}

orr_net_frame_event orr_net_frame_reader_next(orr_net_frame_reader *reader, bool unchecked)
{
    if (!reader->inside) {
        if (reader->end - reader->begin < ORR_NET_FRAME_BYTES)
            return ORR_NET_FRAME_INCOMPLETE;
        orr_net_frame frame;
        memcpy(&frame, reader->ahead + reader->begin, sizeof frame);
        if (!orr_net_frame_header_is_valid(&frame))
            return ORR_NET_FRAME_CORRUPT;
        reader->begin += ORR_NET_FRAME_BYTES;
        orr_net_frame_reader_begin(reader, &frame);
        return ORR_NET_FRAME_HEADER;
    }
    take_ahead(reader);
    if (reader->had < reader->frame.bytes)
        return ORR_NET_FRAME_INCOMPLETE;
    reader->inside = false;
    return checked(reader, unchecked);
}

void orr_net_frame_reader_begin(orr_net_frame_reader *reader, const orr_net_frame *frame)
{
    reader->frame = *frame;
    reader->to = NULL;
    reader->had = 0;
    reader->inside = true;
    reader->bulk = frame->bytes > ORR_NET_READ_AHEAD_BYTES;
}

bool orr_net_frame_reader_place(orr_net_frame_reader *reader, void *to)
{
    reader->to = to;
    if (to != NULL || reader->frame.bytes == 0)
        return true;
    if (reader->room == NULL)
        reader->room = orr_malloc_aligned(ORR_NET_BUFFER_BYTES);
    if (reader->frame.bytes <= ORR_NET_BUFFER_BYTES)
        reader->to = reader->room;
    return reader->room != NULL;
}

void orr_net_frame_reader_done(orr_net_frame_reader *reader)
{
    orr_free(reader->room);
    reader->room = NULL;
}
