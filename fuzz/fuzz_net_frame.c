/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "io/net/frame.h"

/* A stream of frames, given in pieces. What is wrong of a seal is then made right, so
 * that what is behind it is reached too. */
enum { PLACE = 1 << 16 };

static void seal(uint8_t *bytes, size_t len)
{
    for (size_t at = 0; at + ORR_NET_FRAME_BYTES <= len;) {
        orr_net_frame frame;
        memcpy(&frame, bytes + at, sizeof frame);
        const size_t left = len - at - ORR_NET_FRAME_BYTES;
        frame.bytes %= 2 * PLACE;
        if (frame.bytes <= left)
            frame.payload_hash = 0;
        else if (frame.payload_hash == 0)
            frame.payload_hash = 1;
        orr_net_frame_seal(&frame, bytes + at + ORR_NET_FRAME_BYTES, false);
        memcpy(bytes + at, &frame, sizeof frame);
        at += ORR_NET_FRAME_BYTES + frame.bytes;
    }
}

static bool take_all(orr_net_frame_reader *reader, uint8_t *place)
{
    for (;;) {
        switch (orr_net_frame_reader_next(reader, false)) {
        case ORR_NET_FRAME_INCOMPLETE:
            return true;
        case ORR_NET_FRAME_CORRUPT:
            return false;
        case ORR_NET_FRAME_HEADER:
            FUZZ_CHECK(orr_net_frame_header_is_valid(&reader->frame));
            FUZZ_CHECK(orr_net_frame_reader_place(
                reader,
                reader->frame.kind % 2 == 0 && reader->frame.bytes <= PLACE ? place : NULL));
            break;
        case ORR_NET_FRAME_WHOLE:
            FUZZ_CHECK(reader->to == NULL ||
                       orr_net_frame_payload_is_valid(&reader->frame, reader->to));
            break;
        }
    }
}

static void read_all(const uint8_t *bytes, size_t len, uint64_t choice)
{
    orr_net_frame_reader *reader = orr_malloc_aligned(sizeof *reader);
    uint8_t *place = orr_malloc(PLACE);
    FUZZ_CHECK(reader != NULL && place != NULL);
    memset(reader, 0, sizeof *reader);
    for (size_t at = 0; at < len;) {
        struct iovec rest[2];
        const int n = orr_net_frame_reader_buffers(reader, rest);
        size_t took = 0, most = 1 + choice % 5000;
        choice = choice * 6364136223846793005u + 1442695040888963407u;
        for (int i = 0; i < n && at < len && took < most; i++) {
            size_t some = rest[i].iov_len < len - at ? rest[i].iov_len : len - at;
            some = some < most - took ? some : most - took;
            memcpy(rest[i].iov_base, bytes + at, some);
            at += some;
            took += some;
            if (some < rest[i].iov_len)
                break;
        }
        FUZZ_CHECK(took > 0);
        orr_net_frame_reader_advance(reader, took);
        if (!take_all(reader, place))
            break;
    }
    orr_net_frame_reader_done(reader);
    orr_free(reader);
    orr_free(place);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const uint64_t choice = fuzz_choice(bytes, len);
    uint8_t *sealed = orr_malloc(len + 1);
    FUZZ_CHECK(sealed != NULL);
    memcpy(sealed, bytes, len);
    read_all(bytes, len, choice);
    seal(sealed, len);
    read_all(sealed, len, choice);
    orr_free(sealed);
    return 0;
}
