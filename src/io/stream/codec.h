/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_IO_STREAM_CODEC_H
#define ORR_IO_STREAM_CODEC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/status.h>

#include "io/stream/stream.h"

/* What a compression format gives: a decoder for streams, an encoder for outputs. Adding
 * a format is one file with both and one row in stream.c and output.c. */

/* The bytes of the file as they lie there: read() in steps, a source's, or memory. A decoder takes
 * from the front of at[0..n) and asks for more when it is empty. */
typedef struct orr_raw_input {
    const uint8_t *at;
    size_t n;
    uint64_t offset; /* in the file, of `at` */
    bool ended;
    int fd; /* -1: of a source, or memory, all of it in at[0..n) */
    bool owns_fd;
    const orr_stream_source *source; /* NULL: a file or memory */
    uint8_t *buffer;                 /* of fd or source */
    size_t buffer_bytes;
} orr_raw_input;

/* Read more behind at[0..n), which may move; sets `ended` when there is none. */
orr_status orr_raw_input_fill(orr_raw_input *source, orr_error *err) ORR_MUST_CHECK;
static inline void orr_raw_input_consume(orr_raw_input *source, size_t n)
{
    source->at += n;
    source->n -= n;
    source->offset += n;
}

typedef struct orr_decoder_ops {
    orr_status (*open)(void **ret_state, orr_error *err);
    /* Decode some into buffer[0..room), room > 0. *ret_n == 0 is the end. *ret_truncated:
     * the input ended where the format does not. */
    orr_status (*read)(void *state, orr_raw_input *source, uint8_t *buffer, size_t room,
                       size_t *ret_n, bool *ret_truncated, orr_error *err);
    void (*close)(void *state); /* NULL is allowed */
} orr_decoder_ops;

/* Where an encoder puts its bytes. */
typedef orr_status (*orr_sink)(void *ctx, const void *bytes, size_t len, orr_error *err);

typedef struct orr_encoder_ops {
    orr_status (*open)(void **ret_state, orr_error *err);
    /* `last`: also write the end of the format; called once, len may be 0. */
    orr_status (*write)(void *state, const void *bytes, size_t len, bool last, orr_sink sink,
                        void *ctx, orr_error *err);
    void (*close)(void *state);
} orr_encoder_ops;

extern const orr_decoder_ops orr_gzip_decoder, orr_zstd_decoder;
extern const orr_encoder_ops orr_gzip_encoder, orr_zstd_encoder;

/* gzip by a faster library; NULL where the build has none. */
const orr_decoder_ops *orr_gzip_fast_decoder(void);
/* Another member may follow a complete one at once; anything else behind the last is not gzip.
 * source->n > 0. */
orr_status orr_gzip_check_magic(const orr_raw_input *source, orr_error *err) ORR_MUST_CHECK;

/* Do these first bytes of a file announce the format? */
bool orr_gzip_is(const uint8_t *bytes, size_t n);
bool orr_zstd_is(const uint8_t *bytes, size_t n);

#endif /* ORR_IO_STREAM_CODEC_H */
