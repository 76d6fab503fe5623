/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/workers.h"
#include "engine/tables/tables_state.h"

/* Bags and gradients on their way between ranks. In fp32 a message is rows of numbers, a row a
 * sample, so that it can be sent and received in place; encoded it is vector by vector, each of all
 * samples. */

typedef struct vector_work {
    const orr_tables *t;
    const orr_tables_vector *vectors;
    uint32_t n;
    orr_embedding_codec codec;
    const void *from;
    void *to;
    int64_t from_stride, to_stride;
} vector_work;

enum { PIECE_SAMPLES = 64 };

static size_t pieces_of(const orr_tables *t)
{
    return (size_t)((t->layout.samples + PIECE_SAMPLES - 1) / PIECE_SAMPLES);
}

static int64_t piece_end(const orr_tables *t, size_t piece)
{
    const int64_t end = (int64_t)(piece + 1) * PIECE_SAMPLES;
    return end < t->layout.samples ? end : t->layout.samples;
}

static void copy_piece(void *ctx, size_t piece, int thread)
{
    const vector_work *w = ctx;
    (void)thread;
    for (int64_t s = (int64_t)piece * PIECE_SAMPLES; s < piece_end(w->t, piece); s++) {
        const float *from = (const float *)w->from + s * w->from_stride;
        float *to = (float *)w->to + s * w->to_stride;
        for (uint32_t i = 0; i < w->n; i++)
            memcpy(to + w->vectors[i].to, from + w->vectors[i].from,
                   w->vectors[i].columns * sizeof *to);
    }
}

void orr_tables_copy_vectors(const orr_tables *t, const orr_tables_vector *vectors, uint32_t n,
                             const float *from, int64_t from_stride, float *to, int64_t to_stride)
{
    vector_work w = {.t = t,
                     .vectors = vectors,
                     .n = n,
                     .from = from,
                     .to = to,
                     .from_stride = from_stride,
                     .to_stride = to_stride};
    orr_workers_run(t->source.workers, pieces_of(t), copy_piece, &w);
}

static void encode_vector(void *ctx, size_t i, int thread)
{
    const vector_work *w = ctx;
    const orr_tables_vector *v = &w->vectors[i];
    const int64_t samples = w->t->layout.samples;
    (void)thread;
    orr_codec_encode(w->codec, (const float *)w->from + v->from, samples, v->columns,
                     w->from_stride, (char *)w->to + v->bytes_at * samples);
}

void orr_tables_encode(const orr_tables *t, const orr_tables_vector *vectors, uint32_t n,
                       orr_embedding_codec codec, const float *from, int64_t from_stride, void *to)
{
    vector_work w = {.t = t,
                     .vectors = vectors,
                     .codec = codec,
                     .from = from,
                     .to = to,
                     .from_stride = from_stride};
    orr_workers_run(t->source.workers, n, encode_vector, &w);
}

static void decode_vector(void *ctx, size_t i, int thread)
{
    const vector_work *w = ctx;
    const orr_tables_vector *v = &w->vectors[i];
    const int64_t samples = w->t->layout.samples;
    (void)thread;
    orr_codec_decode(w->codec, (const char *)w->from + v->bytes_at * samples, samples, v->columns,
                     (float *)w->to + v->to, w->to_stride);
}

void orr_tables_decode(const orr_tables *t, const orr_tables_vector *vectors, uint32_t n,
                       orr_embedding_codec codec, const void *from, float *to, int64_t to_stride)
{
    vector_work w = {
        .t = t, .vectors = vectors, .codec = codec, .from = from, .to = to, .to_stride = to_stride};
    orr_workers_run(t->source.workers, n, decode_vector, &w);
}
