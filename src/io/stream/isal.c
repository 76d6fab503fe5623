/* SPDX-License-Identifier: Apache-2.0 */
#include <isa-l/igzip_lib.h>
#include <pthread.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/library.h"
#include "io/stream/codec.h"

/* gzip read by ISA-L, which inflates three times as fast as zlib. It says less of what is broken:
 * then the member is decoded again by zlib, up to the fault, and the error is zlib's. */

/* The functions that are used; the library is opened when the first gzip file is. */
#define FUNCTION_MAP(X)                                                                            \
    X(isal_inflate_init)                                                                           \
    X(isal_inflate_reset)                                                                          \
    X(isal_inflate)

ORR_LIBRARY_API(FUNCTION_MAP, "libisal.so.2")
static bool available;
static pthread_once_t opened = PTHREAD_ONCE_INIT;

static void open_library(void)
{
    available = find_api();
}

typedef struct decoder {
    struct inflate_state state;
    uint64_t member_offset; /* in the file, of the member at hand */
    bool between_members;   /* one is complete; the file may end here */
    bool failed;            /* what came before the fault is handed out first */
} decoder;

static void begin(decoder *d, uint64_t offset)
{
    api.isal_inflate_reset(&d->state);
    d->state.crc_flag = ISAL_GZIP;
    d->member_offset = offset;
    d->between_members = false;
}

static orr_status decoder_open(void **ret_state, orr_error *err)
{
    decoder *d = orr_calloc(1, sizeof *d);
    if (d == NULL)
        return orr_fail_memory(err);
    api.isal_inflate_init(&d->state);
    begin(d, 0);
    *ret_state = d;
    return ORR_OK;
}

static void decoder_close(void *state)
{
    orr_free(state);
}

/* Back to the first byte of the member; false: the input cannot go back. */
static bool rewind_member(const decoder *d, orr_raw_input *source)
{
    const uint64_t back = source->offset - d->member_offset;
    if (source->source != NULL)
        return false;
    if (source->fd < 0) {
        source->at -= back;
        source->n += back;
    } else {
        if (lseek(source->fd, -(off_t)(back + source->n), SEEK_CUR) < 0)
            return false;
        source->at = source->buffer;
        source->n = 0;
    }
    source->offset = d->member_offset;
    source->ended = false;
    return true;
}

/* The error of the member at hand, in zlib's words; buffer[0..room) is overwritten. */
static orr_status explain(decoder *d, orr_raw_input *source, uint8_t *buffer, size_t room,
                          orr_error *err)
{
    const uint64_t offset = source->offset;
    orr_status status = ORR_OK;
    if (rewind_member(d, source)) {
        void *zlib = NULL;
        size_t n = 1;
        bool truncated = false;
        ORR_TRY(orr_gzip_decoder.open(&zlib, err));
        while (status == ORR_OK && n > 0 && !truncated)
            status = orr_gzip_decoder.read(zlib, source, buffer, room, &n, &truncated, err);
        orr_gzip_decoder.close(zlib);
    }
    return status != ORR_OK
               ? status
               : orr_fail_byte(err, ORR_PARSE, offset, "broken gzip data at byte %llu of the file",
                               (unsigned long long)offset);
}

/* ISA-L counts in 32 bits. */
static uint32_t clip(size_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Flags of a member that mean nothing yet, which zlib refuses and ISA-L takes. */
static bool unknown_flags(const decoder *d, const orr_raw_input *source)
{
    enum { FLAGS_AT = 3, UNKNOWN = 0xe0 };
    const uint64_t at = d->member_offset + FLAGS_AT;
    return at >= source->offset && at - source->offset < source->n &&
           (source->at[at - source->offset] & UNKNOWN) != 0;
}

/* One step: as far as the input at hand, the room or the member goes. */
static int step(decoder *d, orr_raw_input *source)
{
    d->state.next_in = (uint8_t *)(uintptr_t)source->at; /* ISA-L does not write to it */
    d->state.avail_in = clip(source->n);
    const uint32_t had = d->state.avail_in;
    const int code = api.isal_inflate(&d->state);
    orr_raw_input_consume(source, had - d->state.avail_in);
    d->between_members = code == ISAL_DECOMP_OK && d->state.block_state == ISAL_BLOCK_FINISH;
    return code;
}

static orr_status decoder_read(void *state, orr_raw_input *source, uint8_t *buffer, size_t room,
                               size_t *ret_n, bool *ret_truncated, orr_error *err)
{
    decoder *d = state;
    if (d->failed)
        return explain(d, source, buffer, room, err);
    d->state.next_out = buffer;
    d->state.avail_out = clip(room);
    const uint32_t given = d->state.avail_out;
    while (d->state.avail_out == given && !d->failed) {
        if (source->n == 0 && !source->ended)
            ORR_TRY(orr_raw_input_fill(source, err));
        if (d->between_members && source->n == 0)
            break;
        if (d->between_members) {
            ORR_TRY(orr_gzip_check_magic(source, err));
            begin(d, source->offset);
        }
        d->failed = unknown_flags(d, source) || step(d, source) != ISAL_DECOMP_OK;
        if (!d->failed && !d->between_members && d->state.avail_out == given && source->n == 0 &&
            source->ended) {
            *ret_truncated = true;
            break;
        }
    }
    *ret_n = given - d->state.avail_out;
    return d->failed && *ret_n == 0 ? explain(d, source, buffer, room, err) : ORR_OK;
}

static const orr_decoder_ops isal_decoder = {
    .open = decoder_open, .read = decoder_read, .close = decoder_close};

const orr_decoder_ops *orr_gzip_fast_decoder(void)
{
    pthread_once(&opened, open_library);
    return available ? &isal_decoder : NULL;
}
