/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"
#include "io/stream/codec.h"
#include "io/stream/output.h"
#include "io/stream/stream.h"
#include "io/stream/stream_test.h"

enum { MOST_BYTES = 1 << 20 }; /* of a bomb, enough is seen of it */

typedef struct unpacked {
    orr_output *out;
    orr_status status;
    bool truncated;
} unpacked;

/* Bytes of a stream (gzip, zstd or plain, by its content), and how it ended. */
static unpacked unpack(const uint8_t *bytes, size_t len, bool tolerant, size_t step)
{
    orr_stream *stream = NULL;
    unpacked u = {0};
    bool ended = false;
    FUZZ_CHECK(orr_output_open_memory(&u.out, NULL) == ORR_OK);
    orr_stream_test_step(step);
    FUZZ_CHECK(orr_stream_open_memory(bytes, len, &stream, NULL) == ORR_OK);
    orr_stream_test_step(0);
    orr_stream_set_tolerant(stream, tolerant);
    for (uint64_t total = 0; u.status == ORR_OK && !ended && total < MOST_BYTES;) {
        const orr_window window = orr_stream_window(stream);
        const size_t n = window.n < MOST_BYTES - total ? window.n : (size_t)(MOST_BYTES - total);
        orr_output_write(u.out, window.bytes, n);
        orr_stream_consume(stream, n);
        total += n;
        if (total < MOST_BYTES)
            u.status = orr_stream_fill(stream, &ended, NULL);
    }
    u.truncated = ended && orr_stream_truncated(stream);
    orr_stream_close(stream);
    return u;
}

/* The window does not matter; but how much comes out before an error may depend on it. */
static void check_windows(const uint8_t *bytes, size_t len, bool tolerant, size_t step)
{
    const unpacked whole = unpack(bytes, len, tolerant, 0);
    const unpacked parts = unpack(bytes, len, tolerant, step);
    size_t n, m;
    const void *a = orr_output_memory(whole.out, &n), *b = orr_output_memory(parts.out, &m);
    FUZZ_CHECK(memcmp(a, b, n < m ? n : m) == 0);
    FUZZ_CHECK(n == m || whole.status != ORR_OK || parts.status != ORR_OK);
    FUZZ_CHECK(whole.status == parts.status || n == MOST_BYTES || m == MOST_BYTES);
    FUZZ_CHECK(whole.truncated == parts.truncated);
    FUZZ_CHECK(!whole.truncated || tolerant);
    orr_output_close(whole.out);
    orr_output_close(parts.out);
}

static orr_status append(void *ctx, const void *bytes, size_t len, orr_error *err)
{
    (void)err;
    orr_output_write(ctx, bytes, len);
    return ORR_OK;
}

/* What is packed comes back. */
static void check_round_trip(const orr_encoder_ops *encoder, const uint8_t *bytes, size_t len,
                             size_t step)
{
    void *state;
    orr_output *packed;
    FUZZ_CHECK(orr_output_open_memory(&packed, NULL) == ORR_OK);
    FUZZ_CHECK(encoder->open(&state, NULL) == ORR_OK);
    for (size_t at = 0; at < len; at += step) {
        const size_t n = len - at < step ? len - at : step;
        FUZZ_CHECK(encoder->write(state, bytes + at, n, false, append, packed, NULL) == ORR_OK);
    }
    FUZZ_CHECK(encoder->write(state, bytes, 0, true, append, packed, NULL) == ORR_OK);
    encoder->close(state);
    size_t n, m;
    const void *at = orr_output_memory(packed, &n);
    const unpacked back = unpack(at, n, false, step);
    const void *text = orr_output_memory(back.out, &m);
    FUZZ_CHECK(back.status == ORR_OK && m == len && memcmp(text, bytes, len) == 0);
    orr_output_close(back.out);
    orr_output_close(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    const uint64_t choice = fuzz_choice(bytes, len);
    const size_t step = 1 + choice % 200;
    if (len > MOST_BYTES / 2)
        return 0;
    check_windows(bytes, len, false, step);
    check_windows(bytes, len, true, step);
    if (choice / 200 % 8 == 0) {
        check_round_trip(&orr_gzip_encoder, bytes, len, step);
        check_round_trip(&orr_zstd_encoder, bytes, len, step);
    }
    return 0;
}
