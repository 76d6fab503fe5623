/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "team/catchup/parts.h"

/* A list of spans, cut into chunks that do not know where one span ends. */

static const uint64_t CHUNK = ORR_CATCHUP_CHUNK_BYTES;

orr_status orr_chunks_init(orr_chunks *chunks, const orr_team_span *spans, uint32_t n,
                           orr_error *err)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n; i++)
        if (__builtin_add_overflow(bytes, spans[i].bytes, &bytes))
            return orr_fail(err, ORR_LIMIT, "the state has more bytes than can be counted");
    const uint64_t count = bytes / CHUNK + (bytes % CHUNK != 0);
    /* Numbers of chunks stay well below the end, so that a step of n past the last one fits. */
    if (count > UINT32_MAX / 2)
        return orr_fail(err, ORR_LIMIT, "%llu bytes of state are more than can be fetched",
                        (unsigned long long)bytes);
    orr_placed_span *placed = orr_calloc((size_t)n + 1, sizeof *placed);
    if (placed == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        placed[i].data = spans[i].data;
        placed[i + 1].begin = placed[i].begin + spans[i].bytes;
    }
    *chunks = (orr_chunks){.spans = placed, .n_spans = n, .n = (uint32_t)count, .bytes = bytes};
    return ORR_OK;
}

void orr_chunks_done(orr_chunks *chunks)
{
    orr_free(chunks->spans);
    *chunks = (orr_chunks){0};
}

uint32_t orr_chunk_bytes(const orr_chunks *chunks, uint32_t chunk)
{
    const uint64_t left = chunks->bytes - chunk * CHUNK;
    return (uint32_t)(left < CHUNK ? left : CHUNK);
}

/* The span in which byte `at` of the state lies; at < bytes. */
static const orr_placed_span *span_of(const orr_chunks *chunks, uint64_t at)
{
    uint32_t low = 0, high = chunks->n_spans; /* begin of low <= at < begin of high */
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (chunks->spans[middle].begin <= at)
            low = middle;
        else
            high = middle;
    }
    return &chunks->spans[low];
}

void *orr_chunk_address(const orr_chunks *chunks, uint32_t chunk)
{
    const uint64_t at = chunk * CHUNK;
    const orr_placed_span *span = span_of(chunks, at);
    if (at + orr_chunk_bytes(chunks, chunk) > span[1].begin)
        return NULL;
    return span->data + (at - span->begin);
}

/* Between the state from byte `at` on and a buffer, one way or the other. */
static void copy(const orr_chunks *chunks, uint64_t at, uint64_t bytes, char *buffer, bool out)
{
    for (const orr_placed_span *span = span_of(chunks, at); bytes > 0; span++) {
        const uint64_t here = span[1].begin - at;
        const size_t run = (size_t)(here < bytes ? here : bytes);
        if (run == 0)
            continue;
        char *state = span->data + (at - span->begin);
        memcpy(out ? buffer : state, out ? state : buffer, run);
        buffer += run;
        at += run;
        bytes -= run;
    }
}

void orr_chunk_read(const orr_chunks *chunks, uint32_t chunk, uint32_t count, void *to)
{
    const uint64_t at = chunk * CHUNK, left = chunks->bytes - at;
    copy(chunks, at, left < count * CHUNK ? left : count * CHUNK, to, true);
}

void orr_chunk_write(const orr_chunks *chunks, uint32_t chunk, const void *from)
{
    copy(chunks, chunk * CHUNK, orr_chunk_bytes(chunks, chunk), (char *)from, false);
}
