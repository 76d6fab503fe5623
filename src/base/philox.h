/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_PHILOX_H
#define ORR_BASE_PHILOX_H

#include <stdint.h>

/* Random numbers that can be repeated: a seed and a stream give one sequence, on every
 * machine and for any number of threads (a stream for each index of the work).
 *
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011:
 * Philox4x32 with 10 rounds. */
void orr_philox4x32(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);

/* One sequence of 2^66 numbers; a plain struct, copied to fork it. Threads: one. */
typedef struct orr_random {
    uint32_t key[2];     /* the seed */
    uint32_t counter[4]; /* block number in [0], [1]; stream in [2], [3] */
    uint32_t block[4];
    uint32_t used; /* of block */
} orr_random;

orr_random orr_random_of(uint64_t seed, uint64_t stream);
uint32_t orr_random_u32(orr_random *random);
uint64_t orr_random_u64(orr_random *random);
/* Uniform in [0, bound), without bias; bound > 0. */
uint64_t orr_random_below(orr_random *random, uint64_t bound);
/* Uniform in [0, 1), a multiple of 2^-53. */
double orr_random_unit(orr_random *random);

#endif /* ORR_BASE_PHILOX_H */
