/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "kernel/cpu/simd/vector_math.h"
#include "kernel/cpu/tensor/iterator.h"
#include "kernel/cpu/entries.h"

/* Rotary position embeddings (RoPE); src/op/families/rotary.c has the formulas. Frequencies are
 * computed once per call, cosines and sines once per token for all its heads. */
enum { PAIRS = ORR_ELEMENT_CHUNK / 2 }; /* pairs rotated at a time */

typedef struct rotary {
    orr_tensor_iter walk; /* tokens, heads, columns */
    const int64_t *first;
    int64_t offset, tokens, heads, pairs;
    int64_t side;      /* patches in a row of an image, or 0 */
    double *frequency; /* shape (pairs) */
    bool interleaved;
    bool dense; /* heads are contiguous */
} rotary;

static double stretched(const orr_op_args *args, double frequency)
{
    if (!(args->stretch > 0))
        return frequency;
    const double turns = (double)args->context * frequency / (2 * M_PI);
    const double low = (double)args->low, high = (double)args->high;
    const double mix = turns < low                   ? 0
                       : turns > high || high <= low ? 1
                                                     : (turns - low) / (high - low);
    return (1 - mix) * frequency / (double)args->stretch + mix * frequency;
}

/* For an image: frequencies of half as many pairs, once for columns and once for rows. */
static void compute_frequencies(const orr_op_args *args, int64_t pairs, double *ret)
{
    const int64_t different = args->size > 0 ? pairs / 2 : pairs;
    for (int64_t i = 0; i < pairs; i++) {
        const double power = (double)(i % different) / (double)different;
        const double frequency = pow(fabs(args->value), -power);
        ret[i] = copysign(args->size > 0 ? frequency : stretched(args, frequency), args->value);
    }
}

typedef struct rotary_buffers {
    _Alignas(64) float cosine[PAIRS], sine[PAIRS], x[ORR_ELEMENT_CHUNK], y[ORR_ELEMENT_CHUNK],
        pair[4][PAIRS];
} rotary_buffers;

/* Rotates pairs [from, from + n) of one head, whose columns are i and i + W / 2. */
static void rotate_halves(const rotary *r, const orr_tensor_cursor *cursor, int64_t from, int64_t n,
                          rotary_buffers *room)
{
    const float *a = orr_tensor_iter_read(&r->walk, 0, cursor, from, n, room->pair[0]);
    const float *b = orr_tensor_iter_read(&r->walk, 0, cursor, from + r->pairs, n, room->pair[1]);
    float *ya = orr_tensor_iter_buffer(&r->walk, 1, cursor, from, room->pair[2]);
    float *yb = orr_tensor_iter_buffer(&r->walk, 1, cursor, from + r->pairs, room->pair[3]);
    orr_vector_math_of_cpu()->turn(a, b, room->cosine, room->sine, n, ya, yb);
    orr_tensor_iter_write(&r->walk, 1, cursor, from, n, ya);
    orr_tensor_iter_write(&r->walk, 1, cursor, from + r->pairs, n, yb);
}

/* Rotates pairs whose columns are 2 i and 2 i + 1. */
static void rotate_interleaved(const float *x, int64_t n, rotary_buffers *room, float *y)
{
    for (int64_t i = 0; i < n; i++) {
        room->pair[0][i] = x[2 * i];
        room->pair[1][i] = x[2 * i + 1];
    }
    orr_vector_math_of_cpu()->turn(room->pair[0], room->pair[1], room->cosine, room->sine, n,
                                   room->pair[2], room->pair[3]);
    for (int64_t i = 0; i < n; i++) {
        y[2 * i] = room->pair[2][i];
        y[2 * i + 1] = room->pair[3][i];
    }
}

static void turn_neighbours_at(const rotary *r, const orr_tensor_cursor *cursor, int64_t from,
                               int64_t n, rotary_buffers *room)
{
    const float *x = orr_tensor_iter_read(&r->walk, 0, cursor, 2 * from, 2 * n, room->x);
    float *y = orr_tensor_iter_buffer(&r->walk, 1, cursor, 2 * from, room->y);
    rotate_interleaved(x, n, room, y);
    orr_tensor_iter_write(&r->walk, 1, cursor, 2 * from, 2 * n, y);
}

/* Rotates contiguous heads, as many at a time as the buffers hold. */
static void rotate_heads(const rotary *r, const orr_tensor_cursor *cursor, int64_t heads,
                         rotary_buffers *room)
{
    const int64_t n = r->pairs;
    const float *x = orr_tensor_iter_read(&r->walk, 0, cursor, 0, heads * 2 * n, room->x);
    float *y = orr_tensor_iter_buffer(&r->walk, 1, cursor, 0, room->y);
    for (int64_t at = 0; at < heads * 2 * n; at += 2 * n)
        if (r->interleaved)
            rotate_interleaved(x + at, n, room, y + at);
        else
            orr_vector_math_of_cpu()->turn(x + at, x + at + n, room->cosine, room->sine, n, y + at,
                                           y + at + n);
    orr_tensor_iter_write(&r->walk, 1, cursor, 0, heads * 2 * n, y);
}

/* Cosines and sines of pairs [from, from + n) of token t, counted over all samples. */
static void compute_angles(const rotary *r, int64_t t, int64_t from, int64_t n,
                           rotary_buffers *room)
{
    const orr_vector_math *math = orr_vector_math_of_cpu();
    const int64_t sample = t / r->tokens, index = t % r->tokens;
    if (r->side == 0) {
        const int64_t first = r->first != NULL ? r->first[sample] : r->offset;
        math->angles((double)(first + index), r->frequency + from, n, room->cosine, room->sine);
        return;
    }
    const bool patch = index < r->side * r->side;
    const int64_t column = patch ? index % r->side + 1 : 0, row = patch ? index / r->side + 1 : 0;
    int64_t by_column = r->pairs / 2 - from;
    by_column = by_column < 0 ? 0 : by_column > n ? n : by_column;
    math->angles((double)column, r->frequency + from, by_column, room->cosine, room->sine);
    math->angles((double)row, r->frequency + from + by_column, n - by_column,
                 room->cosine + by_column, room->sine + by_column);
}

static void turn_pairs(const rotary *r, int64_t t, int64_t from, int64_t n, rotary_buffers *room)
{
    orr_tensor_cursor cursor;
    compute_angles(r, t, from, n, room);
    orr_tensor_iter_seek(&r->walk, t * r->heads, &cursor);
    for (int64_t h = 0; h < r->heads; h++, orr_tensor_iter_next(&r->walk, &cursor))
        if (r->interleaved)
            turn_neighbours_at(r, &cursor, from, n, room);
        else
            rotate_halves(r, &cursor, from, n, room);
}

/* Rotates all heads of a token. */
static void rotate_token(const rotary *r, int64_t t, rotary_buffers *room)
{
    const int64_t together = r->dense ? ORR_ELEMENT_CHUNK / (2 * r->pairs) : 0;
    if (together == 0) {
        for (int64_t from = 0; from < r->pairs; from += PAIRS)
            turn_pairs(r, t, from, r->pairs - from < PAIRS ? r->pairs - from : PAIRS, room);
        return;
    }
    compute_angles(r, t, 0, r->pairs, room);
    for (int64_t h = 0; h < r->heads; h += together) {
        orr_tensor_cursor cursor;
        orr_tensor_iter_seek(&r->walk, t * r->heads + h, &cursor);
        rotate_heads(r, &cursor, r->heads - h < together ? r->heads - h : together, room);
    }
}

/* Whether the heads of a token are contiguous. */
static bool heads_are_dense(const orr_operand *x)
{
    const uint32_t last = x->type.rank - 1u;
    return x->stride[last] == 1 &&
           (x->type.dim[last - 1] == 1 || x->stride[last - 1] == x->type.dim[last]);
}

static void turn_tokens(void *ctx, int64_t begin, int64_t end)
{
    rotary_buffers room;
    for (int64_t t = begin; t < end; t++)
        rotate_token(ctx, t, &room);
}

static orr_status rotary_run(const orr_kernel_call *call, orr_error *err)
{
    (void)err;
    const orr_type *x = &call->in[0].type;
    rotary r = {.walk = orr_tensor_iter_over(x),
                .first = call->first,
                .offset = call->args->offset,
                .tokens = x->dim[x->rank - 3],
                .heads = x->dim[x->rank - 2],
                .pairs = x->dim[x->rank - 1] / 2,
                .side = call->args->size,
                .frequency = call->workspace,
                .interleaved = call->args->interleaved,
                .dense = heads_are_dense(&call->in[0]) && heads_are_dense(&call->out[0])};
    if (orr_type_elements(x) == 0)
        return ORR_OK;
    compute_frequencies(call->args, r.pairs, r.frequency);
    orr_tensor_iter_add(&r.walk, &call->in[0]);
    orr_tensor_iter_add(&r.walk, &call->out[0]);
    orr_tensor_iter_coalesce(&r.walk, 1);
    orr_parallel_ranges(orr_tensor_iter_rows(&r.walk) / r.heads,
                        orr_rows_per_range(r.heads * r.pairs * 2), turn_tokens, &r, call->workers);
    return ORR_OK;
}

static size_t rotary_workspace(const orr_kernel_call *call)
{
    const orr_type *x = &call->in[0].type;
    return (size_t)(x->dim[x->rank - 1] / 2) * sizeof(double);
}

const orr_kernel_entry orr_cpu_ROTARY = {.run = rotary_run, .workspace = rotary_workspace};
