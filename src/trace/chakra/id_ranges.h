/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_CHAKRA_ID_RANGES_H
#define ORR_TRACE_CHAKRA_ID_RANGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/array.h"

/* A set of ids as ranges that neither meet nor overlap, in order. Zero-initialized is empty. */
typedef struct orr_id_range {
    uint64_t first, last;
} orr_id_range;

typedef struct orr_id_ranges {
    orr_array(orr_id_range) list;
} orr_id_ranges;

bool orr_id_ranges_has(const orr_id_ranges *ranges, uint64_t id);
/* Adds an id that is not there. False: out of memory. */
bool orr_id_ranges_add(orr_id_ranges *ranges, uint64_t id);
void orr_id_ranges_done(orr_id_ranges *ranges);

#endif /* ORR_TRACE_CHAKRA_ID_RANGES_H */
