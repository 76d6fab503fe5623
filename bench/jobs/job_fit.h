/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOB_FIT_H
#define JOB_FIT_H

#include "cost/fit/pooled.h"
#include "job_predict.h"
#include "job_priors.h"

/* One fit of the calibrations of all device types and of all technologies of links, on the fitted
 * side of the split: whole steps, kernels and collectives alike (cost/fit/pooled.h). A group of n
 * rows on a device weighs as at most 4 sqrt(n) rows: rows of one source share its errors.
 *
 * Deviations whose 90 % interval spans 0 are dropped one by one, and what remains is fitted again:
 * no prediction rests on a parameter that the data cannot tell from its prior. */
enum { JOB_TECHNOLOGIES_MOST = 24 };
typedef struct job_fit {
    job_world *world;
    job_case *rows; /* shape (problem.n_samples): of the fitted side */
    orr_pooled_problem problem;
    orr_pooled_result whole, result; /* before and after dropping */
    const char *technologies[JOB_TECHNOLOGIES_MOST];
    bool is_up[JOB_TECHNOLOGIES_MOST];
    size_t n_technologies, n_dropped;
    /* Indices of unknowns; ORR_POOLED_NONE: there is none. */
    uint32_t common[JOB_PARAMETERS], yearly[JOB_ARCHITECTURES][JOB_PARAMETERS];
    uint32_t architecture[JOB_ARCHITECTURES][JOB_PARAMETERS];
    uint32_t device[JOB_DEVICES_MOST][JOB_PARAMETERS];
    uint32_t technology[JOB_TECHNOLOGIES_MOST][JOB_PARAMETERS];
} job_fit;

/* Fits, and gives each device of the world its calibration. Errors: NO_MEMORY. */
orr_status job_fit_all(job_world *world, const job_cases *cases, job_fit *ret, orr_error *err);
/* A parameter of a device (or, of links, of a technology) in a year, as the problem has it. */
orr_pooled_parameter job_fit_parameter(const job_fit *fit, int parameter, const char *name,
                                       size_t index, double year);

/* Kinds of jobs of the fitted rows: the 90 % interval of measured over predicted, split conformal
 * (Vovk et al., Algorithmic Learning in a Random World, 2005) on leave-one-out residuals, each
 * group weighing as in the fit. */
orr_status job_fit_intervals(const job_fit *fit, orr_error *err);

/* Writes the files of catalog/calibrations. */
orr_status job_fit_write(const job_fit *fit, const char *folder, orr_error *err);

#endif /* JOB_FIT_H */
