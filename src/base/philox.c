/* SPDX-License-Identifier: Apache-2.0 */
#include "base/philox.h"

enum { ROUNDS = 10 };

void orr_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < ROUNDS; round++) {
        const uint64_t a = (uint64_t)0xd2511f53 * c0;
        const uint64_t b = (uint64_t)0xcd9e8d57 * c2;
        c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
        c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        k0 += 0x9e3779b9;
        k1 += 0xbb67ae85;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

orr_random orr_random_of(uint64_t seed, uint64_t stream)
{
    return (orr_random){.key = {(uint32_t)seed, (uint32_t)(seed >> 32)},
                        .counter = {0, 0, (uint32_t)stream, (uint32_t)(stream >> 32)},
                        .used = 4};
}

uint32_t orr_random_u32(orr_random *random)
{
    if (random->used == 4) {
        orr_philox4x32(random->counter, random->key, random->block);
        random->used = 0;
        if (++random->counter[0] == 0)
            random->counter[1]++;
    }
    return random->block[random->used++];
}

uint64_t orr_random_u64(orr_random *random)
{
    const uint64_t low = orr_random_u32(random);
    return low | (uint64_t)orr_random_u32(random) << 32;
}

/* D. Lemire, "Fast random integer generation in an interval", TOMACS 2019. */
uint64_t orr_random_below(orr_random *random, uint64_t bound)
{
    unsigned __int128 product = (unsigned __int128)orr_random_u64(random) * bound;
    if ((uint64_t)product < bound) {
        const uint64_t uneven = (~bound + 1) % bound;
        while ((uint64_t)product < uneven)
            product = (unsigned __int128)orr_random_u64(random) * bound;
    }
    return (uint64_t)(product >> 64);
}

double orr_random_unit(orr_random *random)
{
    return (double)(orr_random_u64(random) >> 11) * 0x1p-53;
}
