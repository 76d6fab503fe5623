/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <stdint.h>

#include <zlib.h>

#include "base/alloc.h"
#include "io/stream/codec.h"

enum { GZIP_WINDOW_BITS = 15 + 16, LEVEL = 6, MEMORY_LEVEL = 9, OUT_BYTES = 64 * 1024 };

bool orr_gzip_is(const uint8_t *bytes, size_t n)
{
    return n >= 3 && bytes[0] == 0x1f && bytes[1] == 0x8b && bytes[2] == 8;
}

static void *zlib_alloc(void *ctx, unsigned count, unsigned bytes)
{
    (void)ctx;
    size_t total;
    return orr_mul_size(count, bytes, &total) ? orr_malloc(total) : NULL;
}

static void zlib_free(void *ctx, void *old)
{
    (void)ctx;
    orr_free(old);
}

/* zlib counts in unsigned int. */
static unsigned clip(size_t n)
{
    return n < UINT_MAX ? (unsigned)n : UINT_MAX;
}

typedef struct decoder {
    z_stream z;
    bool between_members; /* one is complete; the file may end here */
} decoder;

static orr_status decoder_open(void **ret_state, orr_error *err)
{
    decoder *d = orr_calloc(1, sizeof *d);
    if (d == NULL)
        return orr_fail_memory(err);
    d->z.zalloc = zlib_alloc;
    d->z.zfree = zlib_free;
    if (inflateInit2(&d->z, GZIP_WINDOW_BITS) != Z_OK) {
        orr_free(d);
        return orr_fail_memory(err);
    }
    *ret_state = d;
    return ORR_OK;
}

static void decoder_close(void *state)
{
    decoder *d = state;
    if (d == NULL)
        return;
    inflateEnd(&d->z);
    orr_free(d);
}

orr_status orr_gzip_check_magic(const orr_raw_input *source, orr_error *err)
{
    static const uint8_t magic[2] = {0x1f, 0x8b};
    if (source->at[0] != magic[0] || (source->n > 1 && source->at[1] != magic[1]))
        return orr_fail_byte(err, ORR_PARSE, source->offset,
                             "garbage after the end of the gzip data, at byte %llu of the file",
                             (unsigned long long)source->offset);
    return ORR_OK;
}

static orr_status inflate_failed(const decoder *d, int code, const orr_raw_input *source,
                                 orr_error *err)
{
    if (code == Z_MEM_ERROR)
        return orr_fail_memory(err);
    return orr_fail_byte(
        err, ORR_PARSE, source->offset, "broken gzip data at byte %llu of the file: %s",
        (unsigned long long)source->offset, d->z.msg != NULL ? d->z.msg : "not a gzip stream");
}

static orr_status decoder_read(void *state, orr_raw_input *source, uint8_t *buffer, size_t room,
                               size_t *ret_n, bool *ret_truncated, orr_error *err)
{
    decoder *d = state;
    d->z.next_out = buffer;
    d->z.avail_out = clip(room);
    const unsigned given = d->z.avail_out;
    while (d->z.avail_out == given) {
        if (source->n == 0 && !source->ended)
            ORR_TRY(orr_raw_input_fill(source, err));
        if (d->between_members && source->n == 0)
            break;
        if (d->between_members) {
            ORR_TRY(orr_gzip_check_magic(source, err));
            inflateReset(&d->z);
            d->between_members = false;
        }
        d->z.next_in = (Bytef *)(uintptr_t)source->at; /* zlib does not write to it */
        d->z.avail_in = clip(source->n);
        const unsigned had = d->z.avail_in;
        const int code = inflate(&d->z, Z_NO_FLUSH);
        orr_raw_input_consume(source, had - d->z.avail_in);
        if (code == Z_STREAM_END) {
            d->between_members = true;
        } else if (code == Z_BUF_ERROR && source->ended && source->n == 0) {
            *ret_truncated = true;
            break;
        } else if (code != Z_OK && code != Z_BUF_ERROR && d->z.avail_out == given) {
            return inflate_failed(d, code, source, err);
        } else if (code != Z_OK && code != Z_BUF_ERROR) {
            break; /* what came before it is handed out; zlib repeats its complaint */
        }
    }
    *ret_n = given - d->z.avail_out;
    return ORR_OK;
}

const orr_decoder_ops orr_gzip_decoder = {
    .open = decoder_open, .read = decoder_read, .close = decoder_close};

typedef struct encoder {
    z_stream z;
    uint8_t out[OUT_BYTES];
} encoder;

/* The header that zlib writes has no name and no time. */
static orr_status encoder_open(void **ret_state, orr_error *err)
{
    encoder *e = orr_calloc(1, sizeof *e);
    if (e == NULL)
        return orr_fail_memory(err);
    e->z.zalloc = zlib_alloc;
    e->z.zfree = zlib_free;
    if (deflateInit2(&e->z, LEVEL, Z_DEFLATED, GZIP_WINDOW_BITS, MEMORY_LEVEL,
                     Z_DEFAULT_STRATEGY) != Z_OK) {
        orr_free(e);
        return orr_fail_memory(err);
    }
    *ret_state = e;
    return ORR_OK;
}

static void encoder_close(void *state)
{
    encoder *e = state;
    if (e == NULL)
        return;
    deflateEnd(&e->z);
    orr_free(e);
}

static orr_status encoder_write(void *state, const void *bytes, size_t len, bool last,
                                orr_sink sink, void *ctx, orr_error *err)
{
    encoder *e = state;
    const uint8_t *at = bytes;
    for (bool more = true; more;) {
        e->z.next_in = (Bytef *)(uintptr_t)at;
        e->z.avail_in = clip(len);
        const unsigned had = e->z.avail_in;
        e->z.next_out = e->out;
        e->z.avail_out = sizeof e->out;
        const int code = deflate(&e->z, last && had == len ? Z_FINISH : Z_NO_FLUSH);
        at += had - e->z.avail_in;
        len -= had - e->z.avail_in;
        ORR_TRY(sink(ctx, e->out, sizeof e->out - e->z.avail_out, err));
        more = last ? code != Z_STREAM_END : len > 0 || e->z.avail_out == 0;
    }
    return ORR_OK;
}

const orr_encoder_ops orr_gzip_encoder = {
    .open = encoder_open, .write = encoder_write, .close = encoder_close};
