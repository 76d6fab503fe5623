/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_POLICY_KEYS_H
#define ORR_EXPERTS_POLICY_KEYS_H

#include <stdint.h>
#include <string.h>

/* Loads as integer keys: a non-negative float has the order of its bits, and an index in the lower
 * half resolves ties. Threads: any. */

static inline uint32_t orr_key_bits(float load)
{
    uint32_t bits;
    memcpy(&bits, &load, sizeof bits);
    return bits;
}
static inline uint64_t orr_key_ascending(float load, uint32_t index)
{
    return (uint64_t)orr_key_bits(load) << 32 | index;
}
static inline uint64_t orr_key_descending(float load, uint32_t index)
{
    return (uint64_t)~orr_key_bits(load) << 32 | index;
}

/* Restores a min-heap after the key at `at` grew. */
static inline void orr_key_sift_down(uint64_t *heap, uint32_t n, uint32_t at)
{
    const uint64_t key = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < n; at = child) {
        child += child + 1 < n && heap[child + 1] < heap[child];
        if (heap[child] >= key)
            break;
        heap[at] = heap[child];
    }
    heap[at] = key;
}

/* Stable radix sort by the upper half, ascending. Returns which of the arrays has the result. */
static inline uint64_t *orr_key_sort(uint64_t *key, uint64_t *spare, uint32_t n)
{
    uint32_t count[4][256] = {{0}};
    for (uint32_t i = 0; i < n; i++)
        for (int d = 0; d < 4; d++)
            count[d][key[i] >> (32 + 8 * d) & 255]++;
    for (int d = 0; d < 4; d++) {
        const int shift = 32 + 8 * d;
        uint32_t sum = 0;
        if (n == 0 || count[d][key[0] >> shift & 255] == n)
            continue; /* all keys have the same digit */
        for (int b = 0; b < 256; b++) {
            const uint32_t here = count[d][b];
            count[d][b] = sum;
            sum += here;
        }
        for (uint32_t i = 0; i < n; i++)
            spare[count[d][key[i] >> shift & 255]++] = key[i];
        uint64_t *const sorted = spare;
        spare = key;
        key = sorted;
    }
    return key;
}

#endif /* ORR_EXPERTS_POLICY_KEYS_H */
