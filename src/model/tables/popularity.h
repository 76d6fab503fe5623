/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_TABLES_POPULARITY_H
#define ORR_MODEL_TABLES_POPULARITY_H

#include <orrery/embedding.h>

/* Draws rows by their popularity, from random bits that the caller has. */
typedef struct orr_row_sampler {
    orr_popularity popularity;
    uint32_t below[ORR_POPULARITY_CLASSES]; /* a class is drawn by numbers below this one; but the
                                             * last class by all others */
    uint8_t guide[256]; /* by the highest 8 bits: the first class that they may draw */
} orr_row_sampler;
void orr_row_sampler_init(const orr_popularity *popularity, orr_row_sampler *ret);

/* The row that is k-th by popularity, from 0. */
static inline int64_t orr_popularity_row(const orr_popularity *p, int64_t k)
{
    if (p->rows <= UINT32_MAX)
        return (int64_t)((uint64_t)k * p->stride % (uint64_t)p->rows);
    return (int64_t)((unsigned __int128)k * p->stride % (uint64_t)p->rows);
}

/* A row from 96 random bits: 32 draw its class, 64 the row of it. */
static inline int64_t orr_row_sampler_row(const orr_row_sampler *s, uint32_t for_class,
                                          uint64_t for_row)
{
    const orr_popularity *p = &s->popularity;
    uint32_t i = s->guide[for_class >> 24];
    while (i + 1 < p->n && for_class >= s->below[i])
        i++;
    const int64_t begin = i > 0 ? p->end[i - 1] : 0;
    const uint64_t rows = (uint64_t)(p->end[i] - begin);
    return orr_popularity_row(p, begin + (int64_t)((unsigned __int128)for_row * rows >> 64));
}

#endif /* ORR_MODEL_TABLES_POPULARITY_H */
