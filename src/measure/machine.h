/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_MACHINE_H
#define ORR_MEASURE_MACHINE_H

#include <orrery/measure.h>

#include "base/workers.h"

/* What is found out about the machine beside kernels. */
void orr_measure_machine(orr_measured *ret); /* cores, caches, memory of the process now */
/* Bytes a second of all workers over memory that no cache holds, read, and copied (counted once).
 */
orr_status orr_measure_memory(orr_workers *workers, int64_t cache_bytes, double *ret_read,
                              double *ret_copy, orr_error *err) ORR_MUST_CHECK;
/* Collectives among 2 .. `ranks` processes. In the arena. Where no threads stand. */
orr_status orr_measure_collectives(uint32_t ranks, bool quick, orr_arena *arena,
                                   const orr_measured_collective **ret, uint32_t *ret_n,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MEASURE_MACHINE_H */
