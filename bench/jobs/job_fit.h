/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOB_FIT_H
#define JOB_FIT_H

#include "job_predict.h"

/* One parameter set a device type, fitted on the fitted side of the split.
 *
 * Levenberg-Marquardt (Marquardt, J. SIAM 11, 1963) on logarithms of predicted over measured
 * seconds, in the logarithms of the parameters, between bounds. Robust: a residual beyond ROBUST
 * counts linearly (Huber, Ann. Math. Stat. 35, 1964). A group of n rows weighs as sqrt(n). Each
 * parameter is pulled weakly to its start, so that one which no row depends on stays there. */
typedef struct job_fit_report {
    double before, after; /* mean absolute error on the fitted rows */
    int rounds, predictions;
} job_fit_report;

orr_status job_fit_device(job_world *world, const job_cases *cases, job_device *device,
                          job_fit_report *ret, orr_error *err);
/* The 90 % interval of measured over predicted, from the fitted rows; called after the fit. */
void job_fit_interval(const job_cases *cases, const job_prediction *predictions, job_world *world);
orr_status job_fit_write(const job_device *device, const char *folder, orr_error *err);

#endif /* JOB_FIT_H */
