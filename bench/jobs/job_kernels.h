/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOB_KERNELS_H
#define JOB_KERNELS_H

#include <orrery/cost.h>
#include <orrery/graph.h>

#include "job_predict.h"

/* A call that was measured by itself: one or two kernels in a row, or a collective. */
struct job_kernel {
    orr_work work[2]; /* shape (n) */
    size_t n;
    uint8_t collective; /* orr_collective; UNKNOWN: kernels        */
    int64_t bytes;      /* as orr_collective_price() takes them    */
    uint32_t ranks;     /* from the first device of the cluster on */
};

/* By the prices that jobs are made of: orr_job_rates_kernel() and orr_job_rates_collective(). */
void job_predict_kernel(const job_world *world, const job_case *c,
                        const orr_calibration *calibration, job_prediction *ret);

#endif /* JOB_KERNELS_H */
