/* SPDX-License-Identifier: Apache-2.0 */
#include "report/timeline/blob.h"

#include <string.h>
#include <zlib.h>

#include "base/alloc.h"

void orr_blob_done(orr_blob *blob)
{
    orr_array_done(&blob->bytes);
}

void orr_blob_put(orr_blob *blob, const void *bytes, size_t n)
{
    if (blob->failed || !orr_array_reserve(&blob->bytes, n)) {
        blob->failed = true;
        return;
    }
    if (n > 0)
        memcpy(blob->bytes.at + blob->bytes.n, bytes, n);
    blob->bytes.n += n;
}

void orr_blob_varint(orr_blob *blob, uint64_t value)
{
    uint8_t bytes[10];
    size_t n = 0;
    for (; value >= 0x80; value >>= 7)
        bytes[n++] = (uint8_t)(value | 0x80);
    bytes[n++] = (uint8_t)value;
    orr_blob_put(blob, bytes, n);
}

void orr_blob_zigzag(orr_blob *blob, int64_t value)
{
    orr_blob_varint(blob, ((uint64_t)value << 1) ^ (value < 0 ? UINT64_MAX : 0));
}

/* Base64 of bytes that come in pieces: up to two wait for a third. */
typedef struct base64 {
    orr_output *out;
    uint8_t waiting[2];
    size_t n_waiting;
} base64;

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static void put_three(char quad[4], const uint8_t b[3])
{
    quad[0] = digits[b[0] >> 2];
    quad[1] = digits[(b[0] & 3) << 4 | b[1] >> 4];
    quad[2] = digits[(b[1] & 15) << 2 | b[2] >> 6];
    quad[3] = digits[b[2] & 63];
}

static void base64_put(base64 *b, const uint8_t *bytes, size_t n)
{
    char text[4096];
    size_t w = 0;
    for (size_t i = 0; i < n; i++) {
        if (b->n_waiting < 2) {
            b->waiting[b->n_waiting++] = bytes[i];
            continue;
        }
        put_three(text + w, (const uint8_t[3]){b->waiting[0], b->waiting[1], bytes[i]});
        b->n_waiting = 0;
        w += 4;
        if (w == sizeof text) {
            orr_output_write(b->out, text, w);
            w = 0;
        }
    }
    orr_output_write(b->out, text, w);
}

static void base64_end(base64 *b)
{
    char quad[4];
    uint8_t three[3] = {0};
    if (b->n_waiting == 0)
        return;
    memcpy(three, b->waiting, b->n_waiting);
    put_three(quad, three);
    quad[3] = '=';
    if (b->n_waiting == 1)
        quad[2] = '=';
    orr_output_write(b->out, quad, 4);
}

static void *zlib_alloc(void *ctx, uInt count, uInt bytes)
{
    (void)ctx;
    return orr_calloc(count, bytes);
}

static void zlib_free(void *ctx, void *old)
{
    (void)ctx;
    orr_free(old);
}

orr_status orr_blob_write(const void *bytes, size_t n, orr_output *out, orr_error *err)
{
    enum { CHUNK = 16384, LEVEL = 6, INPUT_MAX = 1 << 30 };
    uint8_t chunk[CHUNK];
    base64 text = {.out = out};
    z_stream z = {.zalloc = zlib_alloc, .zfree = zlib_free};
    const uint8_t *at = n > 0 ? bytes : chunk; /* of nothing there may be no address */
    int state;
    if (deflateInit(&z, LEVEL) != Z_OK)
        return orr_fail_memory(err);
    do {
        if (z.avail_in == 0) {
            z.next_in = (Bytef *)at; /* zlib reads only */
            z.avail_in = (uInt)(n < INPUT_MAX ? n : INPUT_MAX);
            at += z.avail_in;
            n -= z.avail_in;
        }
        z.next_out = chunk;
        z.avail_out = CHUNK;
        state = deflate(&z, n == 0 ? Z_FINISH : Z_NO_FLUSH);
        base64_put(&text, chunk, CHUNK - z.avail_out);
    } while (state != Z_STREAM_END);
    base64_end(&text);
    deflateEnd(&z);
    return ORR_OK;
}
