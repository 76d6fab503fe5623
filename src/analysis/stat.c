/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>

#include "analysis/common.h"

void orr_stat_add(orr_stat *stat, int64_t value)
{
    if (stat->count == 0 || value < stat->min)
        stat->min = value;
    if (stat->count == 0 || value > stat->max)
        stat->max = value;
    stat->count++;
    stat->sum = orr_saturating_sum(stat->sum, value);
    const double delta = (double)value - stat->mean;
    stat->mean += delta / (double)stat->count;
    stat->m2 += delta * ((double)value - stat->mean);
}

double orr_stat_stddev(const orr_stat *stat)
{
    return stat->count < 2 ? 0 : sqrt(stat->m2 / (double)(stat->count - 1));
}

static int compare_doubles(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static int compare_ns(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

void orr_sort_doubles(double *values, size_t n)
{
    qsort(values, n, sizeof *values, compare_doubles);
}

void orr_sort_ns(int64_t *values, size_t n)
{
    qsort(values, n, sizeof *values, compare_ns);
}

double orr_quantile(const double *sorted, size_t n, double q)
{
    const double at = q * (double)(n - 1);
    const size_t low = (size_t)at;
    if (low + 1 >= n)
        return sorted[n - 1];
    return sorted[low] + (at - (double)low) * (sorted[low + 1] - sorted[low]);
}

int64_t orr_quantile_ns(const int64_t *sorted, size_t n, double q)
{
    const double at = q * (double)(n - 1);
    const size_t low = (size_t)at;
    if (low + 1 >= n)
        return sorted[n - 1];
    const double step = (double)(sorted[low + 1] - sorted[low]);
    return sorted[low] + (int64_t)llround((at - (double)low) * step);
}

void orr_describe(double *values, size_t n, orr_distribution *ret)
{
    orr_sort_doubles(values, n);
    double mean = 0, m2 = 0;
    for (size_t i = 0; i < n; i++) {
        const double delta = values[i] - mean;
        mean += delta / (double)(i + 1);
        m2 += delta * (values[i] - mean);
    }
    ret->count = n;
    ret->mean = mean;
    ret->stddev = n < 2 ? 0 : sqrt(m2 / (double)(n - 1));
    ret->min = values[0];
    ret->p25 = orr_quantile(values, n, 0.25);
    ret->p50 = orr_quantile(values, n, 0.50);
    ret->p75 = orr_quantile(values, n, 0.75);
    ret->max = values[n - 1];
}
