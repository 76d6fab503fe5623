/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/fit/pooled.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel_for.h"

#define STEP        0.03 /* of a logarithm, for slopes */
#define ROBUST      1.5  /* standard deviations beyond which a residual counts linearly */
#define GOOD        0.7  /* gained share of what was expected at which slopes still hold */
#define FAR         1.0  /* no unknown moves further in a round */
#define CONVERGED   2e-3 /* share of the loss that a round must still gain */
#define INSENSITIVE 1e-6 /* slope of a parameter that a sample does not depend on */
enum { ATTEMPTS = 4, PARAMETERS_MOST = 64 };

/* --- parameters and predictions --------------------------------------------------------------- */

static double sum_terms(const orr_pooled_parameter *p, const double *x)
{
    double sum = p->prior;
    for (int t = 0; t < ORR_POOLED_TERMS && p->terms[t].unknown != ORR_POOLED_NONE; t++)
        sum += p->terms[t].factor * x[p->terms[t].unknown];
    return sum;
}

static const orr_pooled_parameter *parameters_of(const orr_pooled_problem *p, size_t sample)
{
    return &p->parameters[(size_t)p->samples[sample].context * p->n_parameters];
}

typedef struct evaluation {
    const orr_pooled_problem *problem;
    const double *x;
    double *residuals, *slopes; /* slopes NULL: not asked for */
    const uint8_t *matters;     /* shape (n_samples, n_parameters), or NULL: all may matter */
} evaluation;

static orr_status evaluate_one(void *ctx, size_t i, orr_error *err)
{
    const evaluation *e = ctx;
    const orr_pooled_problem *p = e->problem;
    const orr_pooled_parameter *of = parameters_of(p, i);
    const size_t n = p->n_parameters;
    double at[PARAMETERS_MOST];
    (void)err;
    for (size_t k = 0; k < n; k++)
        at[k] = fmin(fmax(sum_terms(&of[k], e->x), of[k].low), of[k].high);
    const double predicted = p->predict(p->ctx, i, at);
    e->residuals[i] = predicted - p->samples[i].measured;
    for (size_t k = 0; e->slopes != NULL && k < n; k++) {
        double *slope = &e->slopes[i * n + k];
        *slope = 0;
        if (isnan(predicted) || of[k].terms[0].unknown == ORR_POOLED_NONE ||
            (e->matters != NULL && !e->matters[i * n + k]) ||
            fabs(at[k] - sum_terms(&of[k], e->x)) > STEP) /* it stays at its bound */
            continue;
        const double kept = at[k], step = kept + STEP <= of[k].high ? STEP : -STEP;
        at[k] = kept + step;
        const double moved = p->predict(p->ctx, i, at);
        at[k] = kept;
        *slope = isnan(moved) ? 0 : (moved - predicted) / step;
    }
    return ORR_OK;
}

static orr_status evaluate(const orr_pooled_problem *p, const double *x, double *residuals,
                           double *slopes, const uint8_t *matters, orr_error *err)
{
    evaluation e = {p, x, residuals, slopes, matters};
    return orr_parallel_for(p->n_samples, p->threads, evaluate_one, &e, err);
}

static double noise_of(const orr_pooled_problem *p, size_t sample)
{
    return p->noise[p->samples[sample].source];
}

static double loss_of(const orr_pooled_problem *p, const double *residuals, const double *x)
{
    double sum = 0;
    for (size_t i = 0; i < p->n_samples; i++) {
        if (isnan(residuals[i]))
            continue;
        const double z = fabs(residuals[i]) / noise_of(p, i);
        sum += p->samples[i].weight * (z <= ROBUST ? z * z : ROBUST * (2 * z - ROBUST));
    }
    for (size_t k = 0; k < p->n_unknowns; k++)
        sum += x[k] * x[k] / (p->unknowns[k].spread * p->unknowns[k].spread);
    return sum;
}

/* --- normal equations ------------------------------------------------------------------------- */

/* Slopes of a sample in the unknowns: pairs of index and slope. */
static size_t chain_rule(const orr_pooled_problem *p, size_t sample, const double *slopes,
                         uint32_t *ret_index, double *ret_slope)
{
    const orr_pooled_parameter *of = parameters_of(p, sample);
    size_t n = 0;
    for (size_t k = 0; k < p->n_parameters; k++) {
        const double slope = slopes[sample * p->n_parameters + k];
        for (int t = 0; t < ORR_POOLED_TERMS && slope != 0; t++) {
            const orr_pooled_term *term = &of[k].terms[t];
            if (term->unknown == ORR_POOLED_NONE)
                break;
            if (p->unknowns[term->unknown].fixed)
                continue;
            ret_index[n] = term->unknown;
            ret_slope[n++] = slope * term->factor;
        }
    }
    return n;
}

/* a: shape (n, n), the Hessian (halved) without damping; b: shape (n), the descent. */
static void normal_equations(const orr_pooled_problem *p, const double *residuals,
                             const double *slopes, const double *x, double *a, double *b)
{
    const size_t n = p->n_unknowns;
    uint32_t index[PARAMETERS_MOST * ORR_POOLED_TERMS];
    double slope[PARAMETERS_MOST * ORR_POOLED_TERMS];
    memset(a, 0, n * n * sizeof *a);
    for (size_t k = 0; k < n; k++) {
        const double precision = 1 / (p->unknowns[k].spread * p->unknowns[k].spread);
        a[k * n + k] = precision;
        b[k] = -precision * x[k];
    }
    for (size_t i = 0; i < p->n_samples; i++) {
        const double r = residuals[i], noise = noise_of(p, i), z = fabs(r) / noise;
        if (isnan(r))
            continue;
        const double weight =
            p->samples[i].weight / (noise * noise) * (z <= ROBUST ? 1 : ROBUST / z);
        const size_t m = chain_rule(p, i, slopes, index, slope);
        for (size_t u = 0; u < m; u++) {
            b[index[u]] -= weight * slope[u] * r;
            for (size_t v = 0; v < m; v++)
                a[index[u] * n + index[v]] += weight * slope[u] * slope[v];
        }
    }
}

/* Cholesky factor of a symmetric positive matrix, in its lower half. */
static void factor(double *a, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        double *row = &a[k * n];
        for (size_t j = 0; j <= k; j++) {
            const double *of = &a[j * n];
            double sum = row[j];
            for (size_t i = 0; i < j; i++)
                sum -= row[i] * of[i];
            row[j] = j < k ? sum / of[j] : sqrt(fmax(sum, 1e-300));
        }
    }
}

static void solve(const double *l, size_t n, double *b)
{
    for (size_t k = 0; k < n; k++) {
        for (size_t i = 0; i < k; i++)
            b[k] -= l[k * n + i] * b[i];
        b[k] /= l[k * n + k];
    }
    for (size_t k = n; k-- > 0;) {
        for (size_t i = k + 1; i < n; i++)
            b[k] -= l[i * n + k] * b[i];
        b[k] /= l[k * n + k];
    }
}

/* Rows and columns of what may not move: fixed, or at a bound and pushed outward. */
static void hold(const orr_pooled_problem *p, const double *x, double *a, double *b)
{
    const size_t n = p->n_unknowns;
    for (size_t k = 0; k < n; k++) {
        const orr_pooled_unknown *u = &p->unknowns[k];
        if (!u->fixed && !(x[k] <= u->low && b[k] < 0) && !(x[k] >= u->high && b[k] > 0))
            continue;
        for (size_t i = 0; i < n; i++)
            a[k * n + i] = a[i * n + k] = 0;
        a[k * n + k] = 1;
        b[k] = 0;
    }
}

/* --- descent ---------------------------------------------------------------------------------- */

typedef struct work {
    double *x, *y, *b, *a, *l, *residuals, *tried, *slopes;
    uint8_t *matters;
} work;

static orr_status open_work(const orr_pooled_problem *p, orr_arena *arena, work *ret,
                            orr_error *err)
{
    const size_t n = p->n_unknowns, m = p->n_samples;
    *ret = (work){.x = orr_arena_array(arena, double, n + 1),
                  .y = orr_arena_array(arena, double, n + 1),
                  .b = orr_arena_array(arena, double, n + 1),
                  .a = orr_arena_array(arena, double, n *n + 1),
                  .l = orr_arena_array(arena, double, n *n + 1),
                  .residuals = orr_arena_array(arena, double, m + 1),
                  .tried = orr_arena_array(arena, double, m + 1),
                  .slopes = orr_arena_array(arena, double, m * p->n_parameters + 1),
                  .matters = orr_arena_array(arena, uint8_t, m * p->n_parameters + 1)};
    if (ret->x == NULL || ret->y == NULL || ret->b == NULL || ret->a == NULL || ret->l == NULL ||
        ret->residuals == NULL || ret->tried == NULL || ret->slopes == NULL || ret->matters == NULL)
        return orr_fail_memory(err);
    return ORR_OK;
}

/* Loss that a step should take away, if residuals were linear: a and b are of the point it begins
 * at. */
static double expected_gain(const work *w, size_t n, const double *a, const double *b)
{
    double gain = 0;
    for (size_t k = 0; k < n; k++) {
        const double step = w->y[k] - w->x[k];
        double curved = 0;
        for (size_t i = 0; i < n; i++)
            curved += a[k * n + i] * (w->y[i] - w->x[i]);
        gain += step * (2 * b[k] - curved);
    }
    return gain;
}

/* A better point, with more and more damping. *ret_gained: of the loss that the linear model
 * expected to take away, how much went; 0: there is no better point. */
static orr_status try_steps(const orr_pooled_problem *p, work *w, double *damping, double *loss,
                            double *ret_gained, orr_error *err)
{
    const size_t n = p->n_unknowns;
    *ret_gained = 0;
    normal_equations(p, w->residuals, w->slopes, w->x, w->a, w->b);
    hold(p, w->x, w->a, w->b);
    for (int attempt = 0; attempt < ATTEMPTS && *ret_gained <= 0; attempt++) {
        memcpy(w->l, w->a, n * n * sizeof *w->l);
        for (size_t k = 0; k < n; k++)
            w->l[k * n + k] *= 1 + *damping;
        factor(w->l, n);
        memcpy(w->y, w->b, n * sizeof *w->y);
        solve(w->l, n, w->y);
        for (size_t k = 0; k < n; k++)
            w->y[k] = fmin(fmax(w->x[k] + fmin(fmax(w->y[k], -FAR), FAR), p->unknowns[k].low),
                           p->unknowns[k].high);
        ORR_TRY(evaluate(p, w->y, w->tried, NULL, NULL, err));
        const double tried = loss_of(p, w->tried, w->y), expected = expected_gain(w, n, w->a, w->b);
        *damping = tried < *loss ? *damping / 4 : fmax(*damping, 1e-2) * 10;
        if (tried >= *loss)
            continue;
        *ret_gained = (*loss - tried) / fmax(expected, *loss - tried);
        *loss = tried;
        memcpy(w->x, w->y, n * sizeof *w->x);
        memcpy(w->residuals, w->tried, p->n_samples * sizeof *w->residuals);
    }
    return ORR_OK;
}

static void mark_what_matters(const orr_pooled_problem *p, work *w)
{
    for (size_t i = 0; i < p->n_samples * p->n_parameters; i++)
        w->matters[i] = fabs(w->slopes[i]) > INSENSITIVE;
}

static orr_status begin(const orr_pooled_problem *p, const orr_pooled_result *from, work *w,
                        orr_error *err)
{
    const size_t n = p->n_unknowns, m = p->n_samples;
    if (from == NULL) {
        ORR_TRY(evaluate(p, w->x, w->residuals, w->slopes, NULL, err));
    } else {
        for (size_t k = 0; k < n; k++)
            w->x[k] = p->unknowns[k].fixed ? 0 : from->unknowns[k];
        memcpy(w->slopes, from->slopes, m * p->n_parameters * sizeof *w->slopes);
        ORR_TRY(evaluate(p, w->x, w->residuals, NULL, NULL, err));
    }
    mark_what_matters(p, w);
    return ORR_OK;
}

/* Slopes are measured again where the linear model is no longer good. `fresh`: they are of the point
 * where the descent begins. */
static orr_status descend(const orr_pooled_problem *p, bool fresh, work *w, orr_pooled_result *ret,
                          orr_error *err)
{
    double damping = 1e-2;
    ret->loss = loss_of(p, w->residuals, w->x);
    for (ret->rounds = 0; ret->rounds < p->rounds; ret->rounds++) {
        const double before = ret->loss;
        double gained;
        ORR_TRY(try_steps(p, w, &damping, &ret->loss, &gained, err));
        const bool better = gained > 0 && before - ret->loss > CONVERGED * before;
        if (!better && fresh)
            break;
        fresh = gained > 0 ? false : fresh;
        if (gained >= GOOD)
            continue;
        ORR_TRY(evaluate(p, w->x, w->residuals, w->slopes, w->matters, err));
        fresh = true;
    }
    return fresh ? ORR_OK : evaluate(p, w->x, w->residuals, w->slopes, w->matters, err);
}

/* Inverse of the Hessian; of what is fixed, 0. */
static void invert(const orr_pooled_problem *p, work *w, double *ret)
{
    const size_t n = p->n_unknowns;
    normal_equations(p, w->residuals, w->slopes, w->x, w->a, w->b);
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; i < n && p->unknowns[k].fixed; i++)
            w->a[k * n + i] = w->a[i * n + k] = i == k;
    factor(w->a, n);
    for (size_t k = 0; k < n; k++) {
        double *row = &ret[k * n];
        memset(row, 0, n * sizeof *row);
        if (p->unknowns[k].fixed)
            continue;
        row[k] = 1;
        solve(w->a, n, row);
    }
}

orr_status orr_pooled_fit(const orr_pooled_problem *problem, const orr_pooled_result *from,
                          orr_arena *arena, orr_pooled_result *ret, orr_error *err)
{
    work w;
    const size_t n = problem->n_unknowns;
    if (problem->n_parameters > PARAMETERS_MOST)
        return orr_fail(err, ORR_LIMIT, "more than %d parameters of a sample", PARAMETERS_MOST);
    ORR_TRY(open_work(problem, arena, &w, err));
    double *covariance = orr_arena_array(arena, double, n *n + 1);
    if (covariance == NULL)
        return orr_fail_memory(err);
    *ret = (orr_pooled_result){w.x, covariance, w.residuals, w.slopes, 0, 0};
    ORR_TRY(begin(problem, from, &w, err));
    ORR_TRY(descend(problem, from == NULL, &w, ret, err));
    invert(problem, &w, covariance);
    return ORR_OK;
}

/* --- what the data do not tell -----------------------------------------------------------------
 */

/* Conditions the normal posterior on unknown k being 0. */
static void condition(size_t n, size_t k, double *x, double *covariance)
{
    const double variance = covariance[k * n + k], by = x[k] / variance;
    for (size_t i = 0; i < n; i++)
        if (i != k)
            x[i] -= covariance[i * n + k] * by;
    for (size_t i = 0; i < n; i++) {
        const double share = covariance[i * n + k] / variance;
        for (size_t j = 0; j < n && i != k; j++)
            if (j != k)
                covariance[i * n + j] -= share * covariance[k * n + j];
    }
    for (size_t i = 0; i < n; i++)
        covariance[i * n + k] = covariance[k * n + i] = 0;
    x[k] = 0;
}

size_t orr_pooled_drop(orr_pooled_problem *problem, double z, orr_pooled_result *result)
{
    const size_t n = problem->n_unknowns;
    size_t dropped = 0;
    for (;;) {
        size_t least = n;
        double certainty = z;
        for (size_t k = 0; k < n; k++) {
            if (problem->unknowns[k].fixed)
                continue;
            const double deviation = sqrt(result->covariance[k * n + k]),
                         of = fabs(result->unknowns[k]) / deviation;
            if (of < certainty) {
                certainty = of;
                least = k;
            }
        }
        if (least == n)
            return dropped;
        condition(n, least, result->unknowns, result->covariance);
        problem->unknowns[least].fixed = true;
        dropped++;
    }
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

orr_status orr_pooled_noise(orr_pooled_problem *problem, const orr_pooled_result *result,
                            double least, double most, orr_error *err)
{
    enum { ENOUGH = 4 };
    double *far = orr_malloc((problem->n_samples + 1) * sizeof *far);
    if (far == NULL)
        return orr_fail_memory(err);
    for (uint32_t source = 0; source < ORR_POOLED_SOURCES; source++) {
        size_t n = 0;
        for (size_t i = 0; i < problem->n_samples; i++)
            if (problem->samples[i].source == source && !isnan(result->residuals[i]))
                far[n++] = fabs(result->residuals[i]);
        if (n < ENOUGH)
            continue;
        qsort(far, n, sizeof *far, by_value);
        /* 1.4826: of a normal distribution, the standard deviation over the median deviation. */
        problem->noise[source] = fmin(fmax(1.4826 * far[n / 2], least), most);
    }
    orr_free(far);
    return ORR_OK;
}

orr_pooled_value orr_pooled_value_of(const orr_pooled_problem *problem,
                                     const orr_pooled_parameter *parameter,
                                     const orr_pooled_result *result)
{
    const size_t n = problem->n_unknowns;
    const orr_pooled_term *terms = parameter->terms;
    double variance = 0, value = parameter->prior;
    for (int t = 0; t < ORR_POOLED_TERMS && terms[t].unknown != ORR_POOLED_NONE; t++) {
        const size_t k = terms[t].unknown;
        if (result == NULL) {
            const double deviation = terms[t].factor * problem->unknowns[k].spread;
            variance += deviation * deviation;
            continue;
        }
        value += terms[t].factor * result->unknowns[k];
        for (int s = 0; s < ORR_POOLED_TERMS && terms[s].unknown != ORR_POOLED_NONE; s++)
            variance +=
                terms[t].factor * terms[s].factor * result->covariance[k * n + terms[s].unknown];
    }
    const double within = fmin(fmax(value, parameter->low), parameter->high);
    return (orr_pooled_value){within, sqrt(fmax(variance, 0)), within != value};
}
