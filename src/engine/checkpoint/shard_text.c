/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/checkpoint/shard_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Text that grows to its length, which is measured first. */
typedef struct printer {
    char *to; /* NULL: only measured */
    size_t at;
} printer;

static void put(printer *p, int64_t value)
{
    char number[24];
    const int n = snprintf(number, sizeof number, "%s%lld", p->at > 0 ? " " : "", (long long)value);
    if (p->to != NULL)
        memcpy(p->to + p->at, number, (size_t)n);
    p->at += (size_t)n;
}

static void put_shard(printer *to, const orr_parameter *p)
{
    put(to, p->type.rank);
    for (uint32_t d = 0; d < p->type.rank; d++)
        put(to, p->own.whole.dim[d]);
    for (uint32_t d = 0; d < p->type.rank; d++)
        put(to, p->type.dim[d]);
    for (uint32_t d = 0; d < p->type.rank; d++) {
        put(to, p->own.by[d].n);
        for (uint32_t i = 0; i < p->own.by[d].n; i++) {
            put(to, p->own.by[d].piece[i].whole);
            put(to, p->own.by[d].piece[i].own);
            put(to, p->own.by[d].piece[i].count);
        }
    }
    put(to, p->shard_begin);
    put(to, p->shard_n);
    for (int64_t i = 0; p->own.rows != NULL && i < p->type.dim[0]; i++)
        put(to, p->own.rows[i]);
}

const char *orr_shard_text(const orr_parameter *parameter, orr_arena *arena)
{
    printer to = {.at = 0};
    put_shard(&to, parameter);
    to.to = orr_arena_array(arena, char, to.at + 1);
    if (to.to == NULL)
        return NULL;
    to.at = 0;
    put_shard(&to, parameter);
    to.to[to.at] = '\0';
    return to.to;
}

int64_t orr_number_text_next(orr_number_text *s)
{
    char *end;
    const long long value = strtoll(s->at, &end, 10);
    s->failed |= end == s->at || value < 0;
    s->at = end;
    return s->failed ? 0 : value;
}

static bool scan_dim(orr_number_text *s, orr_shard_part *p, uint32_t d)
{
    orr_dim_pieces *share = &p->own.by[d];
    share->n = (uint32_t)orr_number_text_next(s);
    if (share->n > ORR_DIM_PIECES_MAX)
        return false;
    for (uint32_t i = 0; i < share->n; i++) {
        share->piece[i].whole = orr_number_text_next(s);
        share->piece[i].own = orr_number_text_next(s);
        share->piece[i].count = orr_number_text_next(s);
        if (share->piece[i].own > p->type.dim[d] - share->piece[i].count ||
            share->piece[i].whole > p->own.whole.dim[d] - share->piece[i].count)
            return false;
    }
    return true;
}

static bool scan_part(orr_number_text *s, orr_shard_part *p)
{
    const int64_t rank = orr_number_text_next(s);
    if (s->failed || rank > ORR_TYPE_DIMS)
        return false;
    p->type.rank = p->own.whole.rank = (uint8_t)rank;
    for (uint32_t d = 0; d < rank; d++)
        p->own.whole.dim[d] = orr_number_text_next(s);
    for (uint32_t d = 0; d < rank; d++)
        p->type.dim[d] = orr_number_text_next(s);
    for (uint32_t d = 0; d < rank; d++)
        if (!scan_dim(s, p, d))
            return false;
    p->begin = orr_number_text_next(s);
    p->n = orr_number_text_next(s);
    const int64_t all = orr_type_elements(&p->type);
    return !s->failed && all >= 0 && p->begin <= all && p->n <= all - p->begin;
}

/* As many rows as there is text for at most. */
static bool scan_rows(orr_number_text *s, const orr_shard_part *p, uint32_t *rows)
{
    for (int64_t i = 0; i < p->type.dim[0]; i++) {
        const int64_t row = orr_number_text_next(s);
        if (s->failed || row >= p->own.whole.dim[0] || row > UINT32_MAX)
            return false;
        rows[i] = (uint32_t)row;
    }
    return *s->at == '\0';
}

orr_status orr_shard_text_read(const char *text, const char *what, orr_arena *arena,
                               orr_shard_part *ret, orr_error *err)
{
    orr_number_text s = {.at = text};
    orr_shard_part p = {.type.dtype = ORR_DTYPE_FP32, .own.whole.dtype = ORR_DTYPE_FP32};
    bool right = scan_part(&s, &p);
    if (right && *s.at != '\0') {
        uint32_t *rows = NULL;
        right = p.type.rank > 1 && (size_t)p.type.dim[0] <= strlen(s.at);
        if (right && (rows = orr_arena_array(arena, uint32_t, (size_t)p.type.dim[0])) == NULL)
            return orr_fail_memory(err);
        right = right && scan_rows(&s, &p, rows);
        p.own.rows = rows;
    }
    if (!right)
        return orr_fail(err, ORR_INVALID, "%s is '%.200s'", what, text);
    *ret = p;
    return ORR_OK;
}
