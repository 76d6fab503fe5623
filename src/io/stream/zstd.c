/* SPDX-License-Identifier: Apache-2.0 */
#include <zstd.h>
#include <zstd_errors.h>

#include "base/alloc.h"
#include "io/stream/codec.h"

enum { LEVEL = 3, OUT_BYTES = 128 * 1024 };

/* A frame, or a skippable frame, which may stand before one. */
bool orr_zstd_is(const uint8_t *bytes, size_t n)
{
    if (n < 4 || bytes[3] != (bytes[0] == 0x28 ? 0xfd : 0x18))
        return false;
    return (bytes[0] == 0x28 && bytes[1] == 0xb5 && bytes[2] == 0x2f) ||
           ((bytes[0] & 0xf0) == 0x50 && bytes[1] == 0x2a && bytes[2] == 0x4d);
}

typedef struct decoder {
    ZSTD_DCtx *z;
    bool between_frames; /* one is complete; the file may end here */
    bool pending;        /* the buffer was full: more may come without input */
} decoder;

static orr_status decoder_open(void **ret_state, orr_error *err)
{
    decoder *d = orr_calloc(1, sizeof *d);
    if (d == NULL)
        return orr_fail_memory(err);
    d->between_frames = true;
    d->z = ZSTD_createDCtx();
    if (d->z == NULL) {
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
    ZSTD_freeDCtx(d->z);
    orr_free(d);
}

/* zstd does not say where; it is not before what it took so far. */
static orr_status decompress_failed(size_t code, const orr_raw_input *source, orr_error *err)
{
    if (ZSTD_getErrorCode(code) == ZSTD_error_memory_allocation)
        return orr_fail_memory(err);
    return orr_fail_byte(err, ORR_PARSE, source->offset,
                         "broken zstd data after byte %llu of the file: %s",
                         (unsigned long long)source->offset, ZSTD_getErrorName(code));
}

static orr_status decoder_read(void *state, orr_raw_input *source, uint8_t *buffer, size_t room,
                               size_t *ret_n, bool *ret_truncated, orr_error *err)
{
    decoder *d = state;
    ZSTD_outBuffer out = {.dst = buffer, .size = room, .pos = 0};
    while (out.pos == 0) {
        if (source->n == 0 && !source->ended && !d->pending)
            ORR_TRY(orr_raw_input_fill(source, err));
        if (source->n == 0 && !d->pending) {
            *ret_truncated = !d->between_frames;
            break;
        }
        ZSTD_inBuffer in = {.src = source->at, .size = source->n, .pos = 0};
        const size_t code = ZSTD_decompressStream(d->z, &out, &in);
        orr_raw_input_consume(source, in.pos);
        if (ZSTD_isError(code))
            return decompress_failed(code, source, err);
        d->between_frames = code == 0;
        d->pending = code != 0 && out.pos == out.size;
    }
    *ret_n = out.pos;
    return ORR_OK;
}

const orr_decoder_ops orr_zstd_decoder = {
    .open = decoder_open, .read = decoder_read, .close = decoder_close};

typedef struct encoder {
    ZSTD_CCtx *z;
    uint8_t out[OUT_BYTES];
} encoder;

static void encoder_close(void *state)
{
    encoder *e = state;
    if (e == NULL)
        return;
    ZSTD_freeCCtx(e->z);
    orr_free(e);
}

static orr_status encoder_open(void **ret_state, orr_error *err)
{
    encoder *e = orr_calloc(1, sizeof *e);
    if (e == NULL)
        return orr_fail_memory(err);
    e->z = ZSTD_createCCtx();
    if (e->z == NULL ||
        ZSTD_isError(ZSTD_CCtx_setParameter(e->z, ZSTD_c_compressionLevel, LEVEL)) ||
        ZSTD_isError(ZSTD_CCtx_setParameter(e->z, ZSTD_c_checksumFlag, 1))) {
        encoder_close(e);
        return orr_fail_memory(err);
    }
    *ret_state = e;
    return ORR_OK;
}

static orr_status encoder_write(void *state, const void *bytes, size_t len, bool last,
                                orr_sink sink, void *ctx, orr_error *err)
{
    encoder *e = state;
    ZSTD_inBuffer in = {.src = bytes, .size = len, .pos = 0};
    for (bool more = true; more;) {
        ZSTD_outBuffer out = {.dst = e->out, .size = sizeof e->out, .pos = 0};
        const size_t left =
            ZSTD_compressStream2(e->z, &out, &in, last ? ZSTD_e_end : ZSTD_e_continue);
        if (ZSTD_isError(left))
            return orr_fail(err, ORR_NO_MEMORY, "cannot compress: %s", ZSTD_getErrorName(left));
        ORR_TRY(sink(ctx, e->out, out.pos, err));
        more = last ? left != 0 : in.pos < in.size;
    }
    return ORR_OK;
}

const orr_encoder_ops orr_zstd_encoder = {
    .open = encoder_open, .write = encoder_write, .close = encoder_close};
