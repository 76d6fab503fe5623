/* SPDX-License-Identifier: Apache-2.0 */
#include "job_fit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/parallel_for.h"
#include "io/stream/output.h"

#define ROBUST 0.1  /* of a residual: 10 % */
#define STEP   0.04 /* of a logarithm, for derivatives */
enum { ROUNDS_MOST = 24, ATTEMPTS = 8, PARAMETERS = 22, ROWS_MOST = 2048 };

/* A parameter, its bounds, how far (in logarithms) it may well be from its start, and what it
 * cannot fall below: its logarithm is that of the rest. */
typedef struct parameter {
    const char *name;
    size_t offset;
    double low, high, spread, floor;
} parameter;
#define PARAMETER_(name, low, high, spread, floor)                                                 \
    {                                                                                              \
#name, offsetof(orr_calibration, name), low, high, spread, floor                           \
    }
static const parameter ALL[PARAMETERS] = {
    PARAMETER_(matmul_bf16, 0.3, 0.98, 0.2, 0),
    PARAMETER_(matmul_fp8, 0.2, 0.98, 0.3, 0),
    PARAMETER_(matmul_fp4, 0.1, 0.98, 0.3, 0),
    PARAMETER_(matmul_half, 1e5, 3e10, 1.5, 0),
    PARAMETER_(matmul_narrow, 0.5, 256, 1, 0),
    PARAMETER_(matmul_grouped, 0.15, 0.98, 0.3, 0),
    PARAMETER_(matmul_odd, 0.2, 0.98, 0.3, 0),
    PARAMETER_(attention, 0.1, 0.9, 0.25, 0),
    PARAMETER_(attention_backward, 0.1, 0.9, 0.25, 0),
    PARAMETER_(attention_eager, 0.3, 1, 0.3, 0),
    PARAMETER_(memory, 0.3, 0.97, 0.2, 0),
    PARAMETER_(kernel_ns, 100, 20000, 0.7, 0),
    PARAMETER_(launch_ns, 500, 80000, 0.7, 0),
    PARAMETER_(scale_up, 0.3, 0.9, 0.25, 0),
    PARAMETER_(scale_up_ns, 1000, 300000, 1, 0),
    PARAMETER_(scale_out, 0.2, 0.97, 0.3, 0),
    PARAMETER_(scale_out_ns, 1000, 2e6, 1, 0),
    PARAMETER_(compute_slowdown, 1.005, 1.5, 1, 1),
    PARAMETER_(dp_exposed, 0.005, 0.9, 1, 0),
    PARAMETER_(micro_batch_ns, 1000, 2e7, 1.5, 0),
    PARAMETER_(step_ns, 1e5, 2e8, 1.5, 0),
    PARAMETER_(jitter_frac, 2e-4, 0.04, 1, 0),
};

static double *field(orr_calibration *c, const parameter *p)
{
    return (double *)((char *)c + p->offset);
}

static double get(const orr_calibration *c, const parameter *p)
{
    const double value = *(const double *)((const char *)c + p->offset);
    return log(fmin(fmax(value, p->low), p->high) - p->floor);
}

static void set(orr_calibration *c, const parameter *p, double x)
{
    *field(c, p) = fmin(fmax(exp(x) + p->floor, p->low), p->high);
}

/* The rows of a fit, and their residuals at one or more points at once. */
typedef struct problem {
    job_world *world;
    const job_case *const *rows; /* shape (n) */
    const double *weights;       /* shape (n) */
    size_t n;
    const orr_calibration *points; /* shape (n_points) */
    size_t n_points;
    double *residuals; /* shape (n_points, n): log(predicted / measured) */
} problem;

static orr_status residual_of(void *ctx, size_t i, orr_error *err)
{
    const problem *p = ctx;
    const size_t row = i % p->n;
    job_prediction prediction;
    (void)err;
    job_predict(p->world, p->rows[row], &p->points[i / p->n], &prediction);
    p->residuals[i] =
        prediction.seconds > 0 ? log(prediction.seconds / p->rows[row]->seconds) : NAN;
    return ORR_OK;
}

static orr_status evaluate(problem *p, orr_error *err)
{
    return orr_parallel_for(p->n * p->n_points, p->world->threads, residual_of, p, err);
}

static double huber(double r)
{
    const double a = fabs(r);
    return a <= ROBUST ? r * r : ROBUST * (2 * a - ROBUST);
}

static double loss_of(const problem *p, const double *residuals, const double *x, const double *x0)
{
    double sum = 0;
    for (size_t i = 0; i < p->n; i++)
        if (!isnan(residuals[i]))
            sum += p->weights[i] * huber(residuals[i]);
    for (int k = 0; k < PARAMETERS; k++) {
        const double pull = (x[k] - x0[k]) / ALL[k].spread;
        sum += 1e-3 * pull * pull;
    }
    return sum;
}

/* A x = b for a symmetric positive matrix of PARAMETERS rows; in place. */
static void solve(double a[PARAMETERS][PARAMETERS], double b[PARAMETERS])
{
    for (int k = 0; k < PARAMETERS; k++)
        for (int i = k + 1; i < PARAMETERS; i++) {
            const double factor = a[i][k] / a[k][k];
            for (int j = k; j < PARAMETERS; j++)
                a[i][j] -= factor * a[k][j];
            b[i] -= factor * b[k];
        }
    for (int k = PARAMETERS; k-- > 0;) {
        for (int j = k + 1; j < PARAMETERS; j++)
            b[k] -= a[k][j] * b[j];
        b[k] /= a[k][k];
    }
}

/* The step that the linear model takes, from residuals at x (point 0) and at x moved along each
 * parameter (points 1 to PARAMETERS). */
static void step_of(const problem *p, const double *x, const double *x0, double damping,
                    double ret[PARAMETERS])
{
    double a[PARAMETERS][PARAMETERS] = {{0}}, b[PARAMETERS] = {0};
    for (size_t i = 0; i < p->n; i++) {
        const double r = p->residuals[i];
        double slope[PARAMETERS];
        if (isnan(r))
            continue;
        const double weight = p->weights[i] * (fabs(r) <= ROBUST ? 1 : ROBUST / fabs(r));
        for (int k = 0; k < PARAMETERS; k++) {
            slope[k] = (p->residuals[(size_t)(k + 1) * p->n + i] - r) / STEP;
            b[k] -= weight * slope[k] * r;
        }
        for (int k = 0; k < PARAMETERS; k++)
            for (int j = 0; j < PARAMETERS; j++)
                a[k][j] += weight * slope[k] * slope[j];
    }
    for (int k = 0; k < PARAMETERS; k++) {
        const double pull = 1e-3 / (ALL[k].spread * ALL[k].spread);
        a[k][k] = (a[k][k] + pull) * (1 + damping) + 1e-12;
        b[k] -= pull * (x[k] - x0[k]);
    }
    solve(a, b);
    memcpy(ret, b, sizeof b);
}

/* Points to evaluate: the calibration at x, and moved along each parameter, away from a bound. */
static void points_around(const orr_calibration *start, const double *x, orr_calibration *ret)
{
    ret[0] = *start;
    for (int k = 0; k < PARAMETERS; k++)
        set(&ret[0], &ALL[k], x[k]);
    for (int k = 0; k < PARAMETERS; k++) {
        ret[k + 1] = ret[0];
        set(&ret[k + 1], &ALL[k], x[k] + STEP);
    }
}

static double mean_error(const problem *p)
{
    double sum = 0;
    size_t n = 0;
    for (size_t i = 0; i < p->n; i++)
        if (!isnan(p->residuals[i])) {
            sum += fabs(expm1(p->residuals[i]));
            n++;
        }
    return n > 0 ? sum / (double)n : NAN;
}

static void clamp(double *x)
{
    for (int k = 0; k < PARAMETERS; k++)
        x[k] = fmin(fmax(x[k], log(ALL[k].low - ALL[k].floor)),
                    log(ALL[k].high - ALL[k].floor) - STEP);
}

static orr_status descend(problem *p, orr_calibration *calibration, job_fit_report *report,
                          orr_error *err)
{
    orr_calibration points[PARAMETERS + 1];
    double x[PARAMETERS], x0[PARAMETERS], damping = 0.1;
    for (int k = 0; k < PARAMETERS; k++)
        x[k] = x0[k] = get(calibration, &ALL[k]);
    clamp(x);
    double best = INFINITY;
    for (report->rounds = 0; report->rounds < ROUNDS_MOST; report->rounds++) {
        points_around(calibration, x, points);
        p->points = points;
        p->n_points = PARAMETERS + 1;
        ORR_TRY(evaluate(p, err));
        best = loss_of(p, p->residuals, x, x0);
        if (report->rounds == 0)
            report->before = mean_error(p);
        report->after = mean_error(p);
        bool better = false;
        double loss = best;
        double *kept = malloc(p->n * sizeof *kept);
        if (kept == NULL)
            return orr_fail_memory(err);
        for (int attempt = 0; attempt < ATTEMPTS && !better; attempt++) {
            double step[PARAMETERS], y[PARAMETERS];
            orr_calibration tried = points[0];
            step_of(p, x, x0, damping, step);
            for (int k = 0; k < PARAMETERS; k++)
                y[k] = x[k] + fmin(fmax(step[k], -1), 1);
            clamp(y);
            for (int k = 0; k < PARAMETERS; k++)
                set(&tried, &ALL[k], y[k]);
            problem one = *p;
            one.points = &tried;
            one.n_points = 1;
            one.residuals = kept;
            const orr_status status = evaluate(&one, err);
            if (status != ORR_OK) {
                free(kept);
                return status;
            }
            loss = loss_of(&one, kept, y, x0);
            better = loss < best;
            damping = better ? damping / 3 : damping * 4;
            if (better)
                memcpy(x, y, sizeof x);
        }
        free(kept);
        if (!better || best - loss < 2e-5 * best)
            break;
    }
    for (int k = 0; k < PARAMETERS; k++)
        set(calibration, &ALL[k], x[k]);
    return ORR_OK;
}

/* A group of n rows weighs as sqrt(n). */
static void weigh(const job_case *const *rows, size_t n, double *ret)
{
    for (size_t i = 0; i < n; i++) {
        size_t alike = 0;
        for (size_t k = 0; k < n; k++)
            alike += strcmp(rows[k]->group, rows[i]->group) == 0;
        ret[i] = 1 / sqrt((double)alike);
    }
}

orr_status job_fit_device(job_world *world, const job_cases *cases, job_device *device,
                          job_fit_report *ret, orr_error *err)
{
    static const job_case *rows[ROWS_MOST];
    static double weights[ROWS_MOST];
    problem p = {.world = world, .rows = rows, .weights = weights};
    for (size_t i = 0; i < cases->n && p.n < ROWS_MOST; i++)
        if (cases->at[i].fitted && job_device_of(world, &cases->at[i]) == device)
            rows[p.n++] = &cases->at[i];
    *ret = (job_fit_report){.before = NAN, .after = NAN};
    if (p.n == 0)
        return ORR_OK;
    weigh(rows, p.n, weights);
    p.residuals = malloc(p.n * (PARAMETERS + 1) * sizeof *p.residuals);
    if (p.residuals == NULL)
        return orr_fail_memory(err);
    const orr_status status = descend(&p, &device->calibration, ret, err);
    free(p.residuals);
    if (status == ORR_OK)
        device->calibration.basis = ORR_BASIS_FITTED;
    return status;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Measured over predicted on the fitted rows of a device, or of all, in order. */
static size_t ratios_of(const job_cases *cases, const job_prediction *predictions, job_world *world,
                        const job_device *device, double *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < cases->n; i++)
        if (cases->at[i].fitted && predictions[i].seconds > 0 &&
            (device == NULL || job_device_of(world, &cases->at[i]) == device))
            ret[n++] = cases->at[i].seconds / predictions[i].seconds;
    qsort(ret, n, sizeof *ret, by_value);
    return n;
}

/* Split conformal prediction (Vovk et al., 2005): the k-th smallest and largest of n, k = 0.05 (n +
 * 1). Fewer than 19 rows say nothing of 5 %: then no less than what all rows of all devices say. */
void job_fit_interval(const job_cases *cases, const job_prediction *predictions, job_world *world)
{
    enum { ENOUGH = 19 };
    static double all[JOB_CASES_MOST], own[JOB_CASES_MOST];
    const size_t n_all = ratios_of(cases, predictions, world, NULL, all);
    const size_t k_all = (size_t)(0.05 * ((double)n_all + 1));
    for (size_t d = 0; d < world->n_devices; d++) {
        orr_calibration *c = &world->devices[d].calibration;
        const size_t n = ratios_of(cases, predictions, world, &world->devices[d], own);
        const size_t k = (size_t)(0.05 * ((double)n + 1)), at = k > 0 ? k - 1 : 0;
        if (n == 0 || k_all == 0)
            continue;
        c->low_frac = own[at] - 1;
        c->high_frac = own[n - 1 - at] - 1;
        if (n < ENOUGH) {
            c->low_frac = fmin(c->low_frac, all[k_all - 1] - 1);
            c->high_frac = fmax(c->high_frac, all[n_all - k_all] - 1);
        }
    }
}

orr_status job_fit_write(const job_device *device, const char *folder, orr_error *err)
{
    char path[4096];
    orr_output *out;
    const orr_calibration *c = &device->calibration;
    if (snprintf(path, sizeof path, "%s/%s.yaml", folder, device->device->name) >= (int)sizeof path)
        return orr_fail(err, ORR_INVALID, "the name of the folder is too long");
    ORR_TRY(orr_output_open(path, &out, err));
    orr_output_printf(
        out,
        "# SPDX-License-Identifier: Apache-2.0\n"
        "# What jobs on this device reach. Fields: include/orrery/calibration.h. Made by "
        "`bench/jobs --fit`.\ndevice: %s\nbasis: %s\nsource: \"%s\"\n",
        device->device->name, c->basis == ORR_BASIS_FITTED ? "fitted" : "assumed",
        device->said_to_rest_on != NULL ? device->said_to_rest_on : c->source);
#define WRITE_(name, text) orr_output_printf(out, #name ": %.4g\n", c->name);
    ORR_CALIBRATION_MAP(WRITE_)
    if (!isnan(c->error_frac))
        WRITE_(error_frac, "")
    if (!isnan(c->low_frac))
        WRITE_(low_frac, "")
    if (!isnan(c->high_frac))
        WRITE_(high_frac, "")
#undef WRITE_
    const orr_status status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}
