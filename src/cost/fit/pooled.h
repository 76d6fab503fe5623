/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_FIT_POOLED_H
#define ORR_COST_FIT_POOLED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/status.h>

/* Partially pooled (hierarchical) nonlinear least squares: Gelman and Hill, Data Analysis Using
 * Regression and Multilevel Models, 2007, chapter 12.
 *
 * A sample is predicted from parameters, of which each is the prior plus a few unknowns: those of
 * all samples, of an architecture, of a device, of a year. Every unknown has a normal prior around
 * 0 whose standard deviation says how far it may well be, so that one of which the samples know
 * nothing stays at 0. Loss: Huber's of each residual over its noise (Ann. Math. Stat. 35, 1964),
 * plus the priors; descended by Levenberg-Marquardt (Marquardt, J. SIAM 11, 1963) with the slopes
 * of each sample in its own parameters, measured once, and the chain rule from there.
 *
 * Everything is in logarithms. The result does not depend on the number of threads. */
typedef struct orr_pooled_unknown {
    double spread;    /* standard deviation of its prior */
    double low, high; /* bounds; low <= 0 <= high */
    bool fixed;       /* stays at 0 */
} orr_pooled_unknown;

enum { ORR_POOLED_TERMS = 5 };
typedef struct orr_pooled_term {
    uint32_t unknown; /* ORR_POOLED_NONE: no more terms */
    double factor;
} orr_pooled_term;
#define ORR_POOLED_NONE UINT32_MAX
/* A parameter of a context: prior + sum of factor * unknown, within bounds. */
typedef struct orr_pooled_parameter {
    double prior, low, high;
    orr_pooled_term terms[ORR_POOLED_TERMS];
} orr_pooled_parameter;

typedef struct orr_pooled_sample {
    uint32_t context; /* index of the parameters that it is predicted from */
    uint32_t source;  /* samples of a source have the same noise; below ORR_POOLED_SOURCES */
    double measured;
    double weight; /* 1: as much as one independent measurement */
} orr_pooled_sample;
enum { ORR_POOLED_SOURCES = 64 };

typedef struct orr_pooled_problem {
    size_t n_parameters, n_unknowns, n_contexts, n_samples;
    orr_pooled_unknown *unknowns;           /* shape (n_unknowns); `fixed` is set by a drop */
    const orr_pooled_parameter *parameters; /* shape (n_contexts, n_parameters) */
    const orr_pooled_sample *samples;       /* shape (n_samples) */
    double noise[ORR_POOLED_SOURCES];       /* standard deviation of each source's residuals */
    /* Prediction of a sample from its parameters; NAN: it cannot be predicted, and does not count.
     * Called by several threads at once. */
    double (*predict)(void *ctx, size_t sample, const double *parameters);
    void *ctx;
    int threads;
    int rounds; /* at most */
} orr_pooled_problem;

typedef struct orr_pooled_result {
    double *unknowns;   /* shape (n_unknowns) */
    double *covariance; /* shape (n_unknowns, n_unknowns): of the linearised posterior */
    double *residuals;  /* shape (n_samples): predicted - measured; NAN */
    double *slopes;     /* shape (n_samples, n_parameters): of the prediction in each parameter */
    double loss;
    int rounds;
} orr_pooled_result;

/* Fits, and the result is in the arena. Continues from `from`, an earlier result of the same
 * samples whose slopes are near enough to begin with; NULL: from 0. A slope that was 0 at the
 * beginning is not measured again. Errors: NO_MEMORY; LIMIT: too many parameters. */
orr_status orr_pooled_fit(const orr_pooled_problem *problem, const orr_pooled_result *from,
                          orr_arena *arena, orr_pooled_result *ret, orr_error *err) ORR_MUST_CHECK;

/* Drops each unknown whose interval of `z` standard deviations spans 0, the least certain first,
 * and marks it as fixed; the others move as the linear model says. `result` is updated (residuals
 * and slopes are not). Returns how many were dropped. */
size_t orr_pooled_drop(orr_pooled_problem *problem, double z, orr_pooled_result *result);

/* Noise of each source as its residuals have it: the median absolute deviation from 0, between
 * `least` and `most`. Sources of fewer than 4 samples keep theirs. Errors: NO_MEMORY. */
orr_status orr_pooled_noise(orr_pooled_problem *problem, const orr_pooled_result *result,
                            double least, double most, orr_error *err) ORR_MUST_CHECK;

/* A parameter of a context: its value, and the standard deviation of that (with the priors alone
 * if `result` is NULL: value is the prior). */
typedef struct orr_pooled_value {
    double value, deviation;
    bool at_bound;
} orr_pooled_value;
orr_pooled_value orr_pooled_value_of(const orr_pooled_problem *problem,
                                     const orr_pooled_parameter *parameter,
                                     const orr_pooled_result *result);

#endif /* ORR_COST_FIT_POOLED_H */
