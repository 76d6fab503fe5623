/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_KERNELS_H
#define ORR_MEASURE_KERNELS_H

#include "measure/timing.h"

/* Which calls are measured: products over a grid of sizes in three forms, attention over tokens and
 * widths, everything else over bytes, warm and cold. */
typedef orr_status orr_timed_visit(void *ctx, const orr_timed_call *call, bool cold,
                                   orr_error *err);
/* `quick`: a coarser grid. Stops at the first failure of `visit`. */
orr_status orr_list_timed_calls(bool quick, orr_timed_visit *visit, void *ctx,
                                orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MEASURE_KERNELS_H */
