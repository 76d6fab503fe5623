/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_WEAR_H
#define ORR_ENGINE_SERVE_WEAR_H

#include <stdint.h>

/* How fast a drive is written, from a counter of bytes that is looked at now and then: over the
 * last one to two minutes where it is looked at that often; else since two looks ago, or the
 * first. */
typedef struct orr_wear {
    int64_t since_ns, next_ns; /* the beginning of the range, and of the next one */
    uint64_t since_bytes, next_bytes;
} orr_wear;
#define ORR_WEAR_RANGE_NS INT64_C(60000000000)

orr_wear orr_wear_from(int64_t now_ns, uint64_t bytes);
double orr_wear_bytes_per_day(orr_wear *wear, int64_t now_ns, uint64_t bytes);

#endif /* ORR_ENGINE_SERVE_WEAR_H */
