/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "job_fit.h"

/* A row's logarithm of measured over predicted, as if it had not been fitted, and its weight. */
typedef struct scored {
    double residual, weight;
} scored;

static int by_residual(const void *a, const void *b)
{
    const double x = ((const scored *)a)->residual, y = ((const scored *)b)->residual;
    return (x > y) - (x < y);
}

/* How much of a row's own error the fit has taken away: the diagonal of the hat matrix. */
static double leverage_of(const job_fit *f, size_t i)
{
    const orr_pooled_problem *p = &f->problem;
    const size_t n = p->n_unknowns;
    const double noise = p->noise[p->samples[i].source];
    double sum = 0;
    for (size_t k = 0; k < p->n_parameters; k++)
        for (size_t j = 0; j < p->n_parameters; j++) {
            const orr_pooled_parameter *a = &p->parameters[i * p->n_parameters + k],
                                       *b = &p->parameters[i * p->n_parameters + j];
            const double slopes = f->result.slopes[i * p->n_parameters + k] *
                                  f->result.slopes[i * p->n_parameters + j];
            for (int s = 0; slopes != 0 && a->terms[s].unknown != ORR_POOLED_NONE; s++)
                for (int t = 0; b->terms[t].unknown != ORR_POOLED_NONE; t++)
                    sum += slopes * a->terms[s].factor * b->terms[t].factor *
                           f->result.covariance[a->terms[s].unknown * n + b->terms[t].unknown];
        }
    return fmin(p->samples[i].weight * sum / (noise * noise), 0.5);
}

static double quantile(const scored *rows, size_t n, double share)
{
    double total = 0, sum = 0;
    for (size_t i = 0; i < n; i++)
        total += rows[i].weight;
    for (size_t i = 0; i < n; i++) {
        sum += rows[i].weight;
        if (sum >= share * total)
            return rows[i].residual;
    }
    return rows[n - 1].residual;
}

static orr_error_interval interval_of(scored *rows, size_t n)
{
    enum { ENOUGH = 5 };
    orr_error_interval ret = {NAN, NAN, NAN, 0};
    double sum = 0, total = 0;
    if (n < ENOUGH)
        return ret;
    qsort(rows, n, sizeof *rows, by_residual);
    /* 5 % on each side, and as much more as so few rows may have missed. */
    const double share = fmax(0.05 - 0.5 / (double)n, 0);
    ret.low_frac = expm1(quantile(rows, n, share));
    ret.high_frac = expm1(quantile(rows, n, 1 - share));
    for (size_t i = 0; i < n; i++) {
        sum += rows[i].weight * fabs(expm1(-rows[i].residual));
        total += rows[i].weight;
    }
    ret.error_frac = sum / total;
    ret.rows = (uint32_t)n;
    return ret;
}

orr_status job_fit_intervals(const job_fit *f, orr_error *err)
{
    const size_t n = f->problem.n_samples;
    orr_error_interval *intervals =
        orr_arena_array(f->world->arena, orr_error_interval, ORR_JOB_KINDS);
    scored *rows = orr_arena_array(f->world->arena, scored, n + 1);
    if (intervals == NULL || rows == NULL)
        return orr_fail_memory(err);
    for (int kind = 0; kind < ORR_JOB_KINDS; kind++) {
        size_t m = 0;
        for (size_t i = 0; i < n; i++) {
            const job_case *c = &f->rows[i];
            if (isnan(f->result.residuals[i]) || (int)job_kind_of(c) != kind)
                continue;
            rows[m++] = (scored){-f->result.residuals[i] / (1 - leverage_of(f, i)),
                                 f->problem.samples[i].weight};
        }
        intervals[kind] = interval_of(rows, m);
    }
    for (size_t d = 0; d < f->world->n_devices; d++)
        f->world->devices[d].calibration.intervals = intervals;
    return ORR_OK;
}
