/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SEEDS_H
#define TESTS_SEEDS_H

#include <stdio.h>
#include <stdlib.h>

#include "base/philox.h"

/* The seeds [begin, end) that a property is tried with: `count` of them, or the one in the
 * environment. Failures are told by seed_fail(), which names the seed, so that it can
 * be run again. */
typedef struct seed_range {
    uint64_t begin, end;
} seed_range;

static inline seed_range seeds(uint64_t count)
{
    const char *one = getenv("ORRERY_SEED");
    if (one == NULL || *one == '\0')
        return (seed_range){0, count};
    const uint64_t seed = strtoull(one, NULL, 10);
    return (seed_range){seed, seed + 1};
}

/* fail_msg() of cmocka with the seed in front. */
#define seed_fail(seed, ...)                                                                       \
    do {                                                                                           \
        char seed_text_[600];                                                                      \
        snprintf(seed_text_, sizeof seed_text_, __VA_ARGS__);                                      \
        fail_msg("ORRERY_SEED=%llu: %s", (unsigned long long)(seed), seed_text_);                  \
    } while (0)

#endif /* TESTS_SEEDS_H */
