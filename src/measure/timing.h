/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_TIMING_H
#define ORR_MEASURE_TIMING_H

#include <orrery/measure.h>

#include "engine/run/program.h"

/* One call of an operator, timed as programs execute it. */
typedef struct orr_timed_call {
    orr_op op;
    orr_op_args args;
    uint32_t n_in;
    orr_type in[ORR_CALL_IN];
    int64_t limit;  /* integer inputs are ids below it */
    int64_t dim[3]; /* what orr_measured_kernel says of it */
    uint8_t form;
    bool accumulate;
} orr_timed_call;
typedef struct orr_timing {
    orr_backend *backend;
    orr_workers *workers;
    uint32_t threads;
    int64_t cache_bytes;
    orr_arena *room;  /* memory of the operands: the same pages for all calls */
    int64_t least_ns; /* minimum total time of the runs of a call */
    uint32_t least_runs;
} orr_timing;
/* Warm: the same operands again; cold: more copies than twice the caches hold, in turn. Errors:
 * those of programs. */
orr_status orr_time_call(const orr_timing *timing, const orr_timed_call *call, bool cold,
                         orr_measured_kernel *ret, orr_error *err) ORR_MUST_CHECK;
/* Median, and half the interquartile range over it; sorts. */
int64_t orr_median_of(int64_t *ns, uint32_t n, double *ret_spread);

#endif /* ORR_MEASURE_TIMING_H */
