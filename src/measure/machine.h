/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_MACHINE_H
#define ORR_MEASURE_MACHINE_H

#include <orrery/measure.h>

#include "base/workers.h"
#include "engine/ranks/communicator.h"

/* Measurements of the machine besides kernels. */
void orr_measure_machine(orr_measured *ret); /* cores, caches, memory of the process now */
/* Memory bandwidth of all workers beyond the caches: reading, and copying (bytes counted once). */
orr_status orr_measure_memory(orr_workers *workers, int64_t cache_bytes, double *ret_read,
                              double *ret_copy, orr_error *err) ORR_MUST_CHECK;
/* Collectives among 2 to `ranks` processes; in the arena. Must be called before any thread is
 * started. */
orr_status orr_measure_collectives(uint32_t ranks, bool quick, orr_arena *arena,
                                   const orr_measured_collective **ret, uint32_t *ret_n,
                                   orr_error *err) ORR_MUST_CHECK;

/* One of them at a size; `bytes`: the larger of what a member sends and receives. */
orr_status orr_time_transfer(orr_communicator *c, orr_collective kind, int64_t bytes,
                             int64_t *ret_ns, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MEASURE_MACHINE_H */
