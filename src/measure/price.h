/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_PRICE_H
#define ORR_MEASURE_PRICE_H

#include <orrery/measure.h>

#include "engine/run/program.h"

/* Time of a call on the measured machine, interpolated in logarithms: matrix products over M, N and
 * K, attention over tokens and width, everything else over bytes. */
typedef struct orr_kernel_pricer {
    const orr_measured *measured;
    uint32_t threads; /* of a rank: the nearest measured number */
} orr_kernel_pricer;
/* `cold_bytes` of its operands come from memory. TABLE: measured; ASSUMED: another operator of as
 * many bytes stands in. */
orr_price orr_measured_price(const orr_kernel_pricer *pricer, const orr_tape *tape, uint32_t call,
                             double cold_bytes, bool accumulate);
/* A collective; bytes as orr_measured_collective counts them. 0 where nothing was measured. */
int64_t orr_measured_collective_ns(const orr_measured *measured, orr_collective collective,
                                   uint32_t ranks, int64_t bytes);

/* The collective that a call is among several members; ORR_COLL_UNKNOWN: none. The bytes that it
 * is known by: the larger of what a member sends and receives. */
orr_collective orr_collective_of_call(const orr_program_source *program, uint32_t call);
int64_t orr_travelling_bytes(const orr_tape *tape, uint32_t call);

#endif /* ORR_MEASURE_PRICE_H */
