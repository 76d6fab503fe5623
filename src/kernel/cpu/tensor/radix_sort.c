/* SPDX-License-Identifier: Apache-2.0 */
#include "kernel/cpu/tensor/radix_sort.h"

/* LSD radix sort with digits of 11 bits, as many passes as the largest id needs. */
enum { DIGIT = 11, DIGITS = 1 << DIGIT };

static void sort_digit(const orr_indices *ids, int shift, const uint32_t *from, uint32_t *to)
{
    uint32_t begin[DIGITS + 1] = {0};
    for (int64_t i = 0; i < ids->n; i++)
        begin[(orr_indices_at(ids, from[i]) >> shift & (DIGITS - 1)) + 1]++;
    for (int d = 0; d < DIGITS; d++)
        begin[d + 1] += begin[d];
    for (int64_t i = 0; i < ids->n; i++)
        to[begin[orr_indices_at(ids, from[i]) >> shift & (DIGITS - 1)]++] = from[i];
}

uint32_t *orr_radix_sort_ids(const orr_indices *ids, uint32_t *a, uint32_t *b)
{
    int64_t most = 0;
    for (int64_t i = 0; i < ids->n; i++) {
        const int64_t id = orr_indices_at(ids, i);
        most = id > most ? id : most;
        a[i] = (uint32_t)i;
    }
    for (int shift = 0; shift < 63 && most >> shift > 0; shift += DIGIT) {
        sort_digit(ids, shift, a, b);
        uint32_t *sorted = b;
        b = a;
        a = sorted;
    }
    return a;
}
