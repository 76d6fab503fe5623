/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_STEP_CALLS_H
#define ORR_MEASURE_STEP_CALLS_H

#include "base/array.h"
#include "measure/timing.h"
#include "model/module/module.h"

/* Calls at the sizes that a step has them in. */
typedef orr_array(orr_measured_kernel) orr_measured_calls;
/* A call as prices know it, without its time. Where an operator does no work, as a view that is
 * copied after all, it is known by the bytes of its output. */
orr_measured_kernel orr_kernel_of_call(const orr_tape *tape, uint32_t call);
/* The measured call that is alike in operator, dtype, form, FLOPs and bytes; NULL: none is. */
const orr_measured_kernel *orr_measured_call(const orr_measured_kernel *calls, uint32_t n,
                                             const orr_tape *tape, uint32_t call);
/* A module's calls, forward and backward, timed in their order: each finds in the caches what the
 * ones before it have left there. */
typedef struct orr_module_timing orr_module_timing;
orr_status orr_module_timing_open(const orr_timing *timing, const orr_module *module,
                                  orr_module_timing **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_module_timing_run(orr_module_timing *t, orr_error *err) ORR_MUST_CHECK;
void orr_module_timing_close(orr_module_timing *t); /* NULL is allowed */
/* Means over the middle third of the runs, by how long they took; calls that are alike have their
 * mean. Appends. */
orr_status orr_module_timing_calls(const orr_module_timing *t, orr_measured_calls *ret,
                                   orr_error *err) ORR_MUST_CHECK;
/* Kernels of the program that are not among the calls yet, and views that are copied because they
 * go to places of their own, each by itself. Appends. */
orr_status orr_time_other_calls(const orr_timing *timing, const orr_program_source *program,
                                orr_measured_calls *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MEASURE_STEP_CALLS_H */
