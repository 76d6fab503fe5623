/* SPDX-License-Identifier: Apache-2.0 */
#include "experts/routes/count.h"

#include <string.h>

/* Tables of counts that take turns: an expert that is chosen twice in a row would else wait for its
 * own count to be written. */
enum { TABLES = 4, LOW = 256, BLOCK_BYTES = 1 << 28 };

static void add_tables(const uint32_t count[TABLES][LOW], uint32_t experts, uint64_t *ret)
{
    for (uint32_t e = 0; e < experts && e < LOW; e++)
        for (uint32_t i = 0; i < TABLES; i++)
            ret[e] += count[i][e];
}

/* Experts below 256; a block is short enough that no count overflows. */
static void count_low(const uint8_t *at, size_t n, uint32_t experts, uint64_t *ret)
{
    while (n > 0) {
        uint32_t count[TABLES][LOW] = {{0}};
        const size_t block = n < BLOCK_BYTES ? n : BLOCK_BYTES;
        size_t i = 0;
        for (; i + 8 <= block; i += 8) {
            uint64_t word;
            memcpy(&word, at + i, sizeof word);
            for (uint32_t b = 0; b < 8; b++)
                count[b % TABLES][word >> (8 * b) & 255]++;
        }
        for (; i < block; i++)
            count[0][at[i]]++;
        add_tables((const uint32_t(*)[LOW])count, experts, ret);
        at += block;
        n -= block;
    }
}

void orr_routes_count(const orr_routes *routes, uint32_t layer, uint64_t first, uint64_t n,
                      uint64_t *ret)
{
    enum { TOKENS = 64 };
    const uint32_t k = routes->top_k;
    uint16_t choice[TOKENS * ORR_ROUTE_CHOICES_MAX];
    if (routes->high == NULL) {
        count_low(routes->low[layer] + first * k, n * k, routes->experts, ret);
        return;
    }
    for (uint64_t end = first + n; first < end; first += TOKENS) {
        const uint64_t tokens = end - first < TOKENS ? end - first : TOKENS;
        orr_routes_choices(routes, layer, first, tokens, choice);
        for (uint64_t i = 0; i < tokens * k; i++)
            ret[choice[i]]++;
    }
}
