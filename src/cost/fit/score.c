/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "cost/fit/data.h"

/* Errors of predictions, and the paired comparison of a model with the roofline over shape
 * groups. */

/* Floor of the geometric mean, as the performance model for DLRM training reports it; see
 * <orrery/fit.h>. */
static const double GMAE_FLOOR = 4e-4;
/* Standard errors by which a model has to be better; one is too few where the best of many is
 * chosen. Assumed. */
static const double STANDARD_ERRORS = 2;

bool orr_fit_errors_add(orr_fit_errors *errors, const orr_fit_cell *cell, double predicted_ns)
{
    if (!orr_array_reserve(&errors->frac, cell->point.count))
        return false;
    for (uint64_t i = 0; i < cell->point.count; i++)
        errors->frac.at[errors->frac.n++] = fabs(predicted_ns / cell->ns[i] - 1);
    return true;
}

static int by_size(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return a < b ? -1 : a > b;
}

orr_fit_score orr_fit_errors_score(orr_fit_errors *errors)
{
    const size_t n = errors->frac.n;
    double sum = 0, log_sum = 0;

    if (n == 0)
        return (orr_fit_score){NAN, NAN, NAN};
    qsort(errors->frac.at, n, sizeof *errors->frac.at, by_size);
    for (size_t i = 0; i < n; i++) {
        sum += errors->frac.at[i];
        log_sum += log(errors->frac.at[i] + GMAE_FLOOR);
    }
    return (orr_fit_score){
        .gmae = exp(log_sum / (double)n),
        .mape = sum / (double)n,
        .p90 = errors->frac.at[(9 * n + 9) / 10 - 1], /* nearest rank */
    };
}

void orr_fit_errors_done(orr_fit_errors *errors)
{
    orr_array_done(&errors->frac);
}

orr_status orr_fit_comparison_new(uint32_t n, orr_arena *arena, orr_fit_comparison *ret,
                                  orr_error *err)
{
    const orr_fit_comparison duel = {
        .ours = orr_arena_array(arena, double, n),
        .roofline = orr_arena_array(arena, double, n),
        .cells = orr_arena_array(arena, uint32_t, n),
        .n = n,
    };
    if (duel.ours == NULL || duel.roofline == NULL || duel.cells == NULL)
        return orr_fail_memory(err);
    *ret = duel;
    return ORR_OK;
}

void orr_fit_comparison_reset(orr_fit_comparison *duel)
{
    for (uint32_t i = 0; i < duel->n; i++) {
        duel->ours[i] = duel->roofline[i] = 0;
        duel->cells[i] = 0;
    }
}

/* Mean distance over the rows of a cell. */
static double distance(const orr_fit_cell *cell, double predicted_ns)
{
    double sum = 0;
    for (uint64_t i = 0; i < cell->point.count; i++)
        sum += fabs(log(predicted_ns / cell->ns[i]));
    return sum / (double)cell->point.count;
}

void orr_fit_comparison_add(orr_fit_comparison *duel, const orr_fit_cell *cell, double predicted_ns)
{
    duel->ours[cell->place] += distance(cell, predicted_ns);
    duel->roofline[cell->place] += distance(cell, cell->roofline_ns);
    duel->cells[cell->place]++;
}

orr_fit_comparison_result orr_fit_comparison_end(const orr_fit_comparison *duel)
{
    double ours = 0, gain = 0, squares = 0, n = 0;

    for (uint32_t i = 0; i < duel->n; i++) {
        if (duel->cells[i] == 0)
            continue;
        const double more = (duel->roofline[i] - duel->ours[i]) / duel->cells[i];
        ours += duel->ours[i] / duel->cells[i];
        gain += more;
        squares += more * more;
        n++;
    }
    if (n < 2)
        return (orr_fit_comparison_result){(uint32_t)n, n > 0 ? ours / n : INFINITY, false};
    const double mean = gain / n;
    const double error = sqrt(fmax(squares / n - mean * mean, 0) / (n - 1));
    return (orr_fit_comparison_result){(uint32_t)n, ours / n, mean > STANDARD_ERRORS * error};
}
