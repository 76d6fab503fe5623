/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cost/roofline/device_rates.h"

/* Embedding lookups with an L2 hit-rate model, after the DLRM performance model
 * (owensgroup/ml_perf_model, analysis/inference.py; Lin et al., 2022). One warp works on one bag
 * of one table. Letters: B bags, E rows of a table, L lookups a bag, D columns, T tables. Bytes
 * in units of the 32-byte sectors of DRAM. */
#define TABLE_OFFSET_BYTES 32
#define BAG_OFFSET_BYTES   64
#define INDEX_BYTES        4
#define WARPS_PER_SM       45  /* 64 at the occupancy of 0.71 that FBGEMM's kernels reach there */
#define L2_SHARE           0.9 /* share of the cache that rows may fill */

static double sectors(double bytes)
{
    return 32 * ceil(bytes / 32);
}

static double row_bytes(const orr_work *w)
{
    return sectors((double)w->dims[3] * orr_dtype_bytes((orr_dtype)w->dtype));
}

/* Bytes of a bag beside the rows of the table: offsets, indices and the output. */
static double bag_bytes(const orr_work *w)
{
    return TABLE_OFFSET_BYTES + BAG_OFFSET_BYTES + sectors(INDEX_BYTES * (double)w->dims[2]) +
           row_bytes(w);
}

double orr_embedding_simple_bytes(const orr_work *w)
{
    const double bags = (double)w->dims[0] * (double)w->dims[4];
    const double passes = w->backward ? 2 : 1; /* backward reads a row and writes it */
    return bags * (bag_bytes(w) + passes * (double)w->dims[2] * row_bytes(w));
}

double orr_embedding_hit_rate(const orr_device_rates *r, double bags, double rows, double lookups,
                              double columns)
{
    const double all = bags * lookups;
    if (all < 1 || rows < 1 || r->l2_bytes <= 0 || isnan(r->sms))
        return 0;
    const double tables_at_once = ceil(r->sms * WARPS_PER_SM / bags);
    const double fit = floor(L2_SHARE * r->l2_bytes / tables_at_once / INDEX_BYTES / columns);
    const double cached = fmin(fmin(fit, rows), all);
    const double untouched = rows * pow(1 - 1 / rows, all);
    double hit;
    if (rows - untouched > cached) /* the rows that are used do not fit into the cache */
        hit = 1 - (cached + (all - cached) * (rows - cached) / rows) / all;
    else
        hit = 1 - (rows - untouched) / all;
    return fmin(1, fmax(0, hit));
}

/* Narrow rows leave lanes of a warp idle: published factors, found by experiment there. */
static double narrow_factor(double columns)
{
    return columns > 64 ? 1 : columns > 32 ? 1.1 : 1.55;
}

/* Published bandwidth curve in three pieces: a constant time below 2^16 bytes, bandwidth as a
 * sigmoid of the size, and the limit from 2^27 bytes on. The constants are V100's (source:
 * ml_perf_model, analysis/utils.py); another device moves in the same time as many more bytes as
 * its memory is faster (assumed). As published the curve falls where the last piece begins: the
 * larger of both is taken, so that more bytes never take less time. */
double orr_bandwidth_curve_ns(const orr_device_rates *rates, double bytes)
{
    const double v100_bytes_per_s = 816.953e9, constant_us = 4.83328223;
    const double size = bytes * v100_bytes_per_s / rates->memory_bytes_per_s;
    const double log_size = fmin(27, fmax(16, log2(fmax(1, size))));
    const double log_rate = 6.53478964 / (1 + exp(-0.19557855 * (log_size - 11.78536754))) -
                            3.4045424; /* log10 of GB/s */
    const double middle_us = exp2(log_size) / pow(10, log_rate) / 1e3;
    const double large_us = log_size < 27 ? 0 : size / v100_bytes_per_s * 1e6 + constant_us;
    return 1e3 * fmax(constant_us, fmax(middle_us, large_us));
}

/* All rows pass through the cache, misses too. The published form counts only hits there, by
 * which a larger table would cost less where the cache is the limit. */
static double published_forward_ns(const orr_device_rates *r, const orr_work *w)
{
    const double bags = (double)w->dims[0], lookups = (double)w->dims[2],
                 tables = (double)w->dims[4], weights = lookups * row_bytes(w);
    const double hit =
        orr_embedding_hit_rate(r, bags, (double)w->dims[1], lookups, (double)w->dims[3]);
    const double dram = tables * bags * (bag_bytes(w) + (1 - hit) * weights);
    const double l2 = tables * bags * weights;
    return fmax(orr_bandwidth_curve_ns(r, dram), 1e9 * l2 / r->l2_bytes_per_s) *
           narrow_factor((double)w->dims[3]);
}

/* Rows a little wider than 32 or 64 columns cost at least as much as rows of that width. */
static double forward_ns(const orr_device_rates *r, const orr_work *w)
{
    static const int64_t STEPS[] = {32, 64};
    double ns = published_forward_ns(r, w);
    orr_work narrower = *w;
    for (int i = 0; i < 2; i++)
        if (w->dims[3] > STEPS[i]) {
            narrower.dims[3] = STEPS[i];
            ns = fmax(ns, published_forward_ns(r, &narrower));
        }
    return ns;
}

/* Stochastic gradient descent fused with the backward pass: each row is read and written.
 * Row-wise Adagrad adds one number a row, in a sector of its own, read and written. */
static double backward_ns(const orr_device_rates *r, const orr_work *w)
{
    const double bags = (double)w->dims[0] * (double)w->dims[4], lookups = (double)w->dims[2];
    const double state = 2 * lookups * 32;
    const double dram = orr_embedding_simple_bytes(w) + bags * state;
    const double flops = 2 * bags * lookups * (double)w->dims[3];
    const double compute_ns = isnan(r->vector_flops) ? 0 : 1e9 * flops / r->vector_flops;
    return fmax(orr_bandwidth_curve_ns(r, dram), compute_ns);
}

double orr_embedding_ns(const orr_device_rates *rates, const orr_work *work)
{
    if (work->n_dims < 5 || isnan(rates->memory_bytes_per_s))
        return NAN;
    return work->backward || work->family == ORR_FAMILY_EMBEDDING_BACKWARD
               ? backward_ns(rates, work)
               : forward_ns(rates, work);
}
