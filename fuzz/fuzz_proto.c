/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"
#include "io/protobuf/wire.h"
#include "io/stream/stream_test.h"

enum { DEEPEST = 8 };

static void put_field(orr_proto_buffer *b, const orr_proto_field *f)
{
    switch (f->wire) {
    case ORR_PROTO_VARINT:
        orr_proto_put_uint(b, f->number, f->value);
        break;
    case ORR_PROTO_FIXED64:
        orr_proto_put_fixed64(b, f->number, f->value);
        break;
    case ORR_PROTO_FIXED32:
        orr_proto_put_fixed32(b, f->number, (uint32_t)f->value);
        break;
    case ORR_PROTO_BYTES: {
        const size_t mark = orr_proto_begin(b, f->number);
        orr_proto_put_raw(b, f->bytes, f->len);
        orr_proto_end(b, mark);
        break;
    }
    }
}

static bool same_field(const orr_proto_field *a, const orr_proto_field *b)
{
    return a->number == b->number && a->wire == b->wire &&
           (a->wire == ORR_PROTO_BYTES ? a->len == b->len && memcmp(a->bytes, b->bytes, a->len) == 0
                                       : a->value == b->value);
}

/* Fields lie end to end, say what they hold, and written again say the same, in no more
 * bytes: a varint may have been longer than it need be. */
static void check_fields(const uint8_t *bytes, size_t len, int depth)
{
    orr_proto p = orr_proto_of(bytes, len);
    orr_proto_field f, g;
    const uint8_t *at = bytes;
    orr_proto_buffer again = {0};
    while (orr_proto_next(&p, &f)) {
        FUZZ_CHECK(f.raw == at && f.raw_len > 0 && f.raw + f.raw_len == p.at && p.at <= p.end);
        const size_t before = again.n;
        put_field(&again, &f);
        FUZZ_CHECK(!again.failed && again.n - before <= f.raw_len);
        orr_proto q = orr_proto_of(again.at + before, again.n - before);
        FUZZ_CHECK(orr_proto_next(&q, &g) && q.at == q.end && same_field(&f, &g));
        if (f.wire == ORR_PROTO_BYTES && depth < DEEPEST)
            check_fields(f.bytes, f.len, depth + 1);
        at = p.at;
    }
    FUZZ_CHECK(p.failed || p.at == p.end);
    orr_proto_buffer_done(&again);
}

static void check_varints(const uint8_t *bytes, size_t len)
{
    orr_proto p = orr_proto_of(bytes, len);
    uint64_t value;
    while (orr_proto_varint(&p, &value)) {
        uint64_t back;
        orr_proto_buffer b = {0};
        orr_proto_put_varint(&b, value);
        orr_proto q = orr_proto_of(b.at, b.n);
        FUZZ_CHECK(orr_proto_varint(&q, &back) && back == value && q.at == q.end);
        orr_proto_buffer_done(&b);
        FUZZ_CHECK(orr_proto_zigzag(orr_proto_unzigzag(value)) == value);
    }
}

/* Sum of the messages of a stream, and how it ended. */
static uint64_t read_messages(const uint8_t *bytes, size_t len, size_t step)
{
    orr_stream *stream;
    const uint8_t *message = NULL;
    size_t n = 0;
    bool ended = false;
    uint64_t sum = 0;
    orr_status status;
    orr_error err = {.byte_pos = 0};
    orr_stream_test_step(step);
    FUZZ_CHECK(orr_stream_open_memory(bytes, len, &stream, NULL) == ORR_OK);
    orr_stream_test_step(0);
    while ((status = orr_proto_read_message(stream, &message, &n, &ended, &err)) == ORR_OK &&
           !ended)
        sum = sum * 31 + fuzz_choice(message, n);
    orr_stream_close(stream);
    return sum * 31 + (uint64_t)status + err.byte_pos;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    check_fields(bytes, len, 0);
    check_varints(bytes, len);
    const bool packed =
        len > 3 && ((bytes[0] == 0x1f && bytes[1] == 0x8b) || bytes[3] == 0xfd || bytes[3] == 0x18);
    if (!packed)
        FUZZ_CHECK(read_messages(bytes, len, 0) ==
                   read_messages(bytes, len, 1 + fuzz_choice(bytes, len) % 64));
    return 0;
}
