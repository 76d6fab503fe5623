/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "cost/roofline/device_rates.h"

/* Concatenation reaches 0.79 of the streaming rate (source: ml_perf_model, concat; fitting it
 * took the error from 12.7 to 3.3 %). A gather or a transpose uses part of each 32-byte sector
 * that it moves: half, assumed. */
#define CONCAT_FRAC    0.79
#define SCATTERED_FRAC 0.5

static double memory_frac(orr_kernel_family family)
{
    switch (family) {
    case ORR_FAMILY_CONCAT:
        return CONCAT_FRAC;
    case ORR_FAMILY_TRANSPOSE:
    case ORR_FAMILY_INTERACTION:
        return SCATTERED_FRAC;
    default:
        return 1;
    }
}

/* The roofline outside of the matrix units: the longer of FLOPs and bytes. */
static double traffic_ns(const orr_device_rates *r, const orr_work *w)
{
    const double bytes = w->read_bytes + w->write_bytes;
    if (isnan(r->memory_bytes_per_s))
        return NAN;
    const double memory_s =
        bytes / (r->memory_bytes_per_s * memory_frac((orr_kernel_family)w->family));
    const double compute_s = isnan(r->vector_flops) ? 0 : w->flops / r->vector_flops;
    return 1e9 * fmax(memory_s, compute_s);
}

static double copy_ns(const orr_device_rates *r, const orr_work *w)
{
    if (w->copy == ORR_COPY_HTOD || w->copy == ORR_COPY_DTOH)
        return 1e9 * fmax(w->read_bytes, w->write_bytes) / r->pcie_bytes_per_s;
    return traffic_ns(r, w);
}

static bool is_product(const orr_work *w)
{
    return w->family == ORR_FAMILY_GEMM || w->family == ORR_FAMILY_CONVOLUTION ||
           w->family == ORR_FAMILY_ATTENTION;
}

/* Products of unknown dims, but known FLOPs: the roofline proper (Williams, Waterman, Patterson,
 * CACM 52(4), 2009). */
static double product_ns(const orr_device *device, const orr_device_rates *r, const orr_work *w)
{
    const double rate = orr_device_matmul_rate(device, (orr_dtype)w->dtype, NULL);
    if (isnan(rate) || isnan(r->memory_bytes_per_s))
        return NAN;
    return fmax(1e9 * w->flops / rate, orr_bytes_ns(r, w));
}

/* One row from one table each is a plain gather. */
static bool is_gather(const orr_work *w)
{
    return w->n_dims == 5 && w->dims[2] == 1 && w->dims[4] == 1 && !w->backward;
}

static double modelled_ns(const orr_device *device, const orr_device_rates *r, const orr_work *w)
{
    switch ((orr_kernel_family)w->family) {
    case ORR_FAMILY_GEMM:
        return orr_gemm_ns(device, r, w);
    case ORR_FAMILY_CONVOLUTION:
        return orr_convolution_ns(device, r, w);
    case ORR_FAMILY_ATTENTION:
        return orr_attention_ns(device, r, w);
    case ORR_FAMILY_EMBEDDING_FORWARD:
    case ORR_FAMILY_EMBEDDING_BACKWARD: /* its curve includes the floor */
        return is_gather(w) ? traffic_ns(r, w) : orr_embedding_ns(r, w) - r->floor_ns;
    case ORR_FAMILY_COPY:
        return copy_ns(r, w);
    default:
        return traffic_ns(r, w);
    }
}

static double kernel_ns(const orr_device *device, const orr_device_rates *r, const orr_work *w)
{
    const double ns = modelled_ns(device, r, w);
    if (!isnan(ns))
        return ns;
    return is_product(w) ? product_ns(device, r, w) : traffic_ns(r, w);
}

/* Errors seen on recorded shapes of V100, A100 and H100, to none of which anything was fitted:
 * tests/reference/test_kernel_models.c computes these and compares. */
double orr_roofline_error(orr_kernel_family family)
{
    static const double ERRORS[ORR_FAMILIES] = {
        [ORR_FAMILY_OTHER] = 1.75,
        [ORR_FAMILY_GEMM] = 0.34,
        [ORR_FAMILY_CONVOLUTION] = 0.47,
        [ORR_FAMILY_ATTENTION] = 0.64,
        [ORR_FAMILY_EMBEDDING_FORWARD] = 0.59,
        [ORR_FAMILY_EMBEDDING_BACKWARD] = 0.92,
        [ORR_FAMILY_CONCAT] = 0.42,
        [ORR_FAMILY_COPY] = 0.61,
        [ORR_FAMILY_NORM] = 0.22,
        [ORR_FAMILY_REDUCTION] = 0.68,
        [ORR_FAMILY_ELEMENTWISE] = 0.43,
    };
    return family < ORR_FAMILIES && ERRORS[family] > 0 ? ERRORS[family] : NAN;
}

/* Does the price rest on an assumed rate? */
static bool rests_on_assumption(const orr_device *device, const orr_device_rates *r,
                                const orr_work *w)
{
    bool products_assumed = false;
    if (w->family == ORR_FAMILY_COPY && w->copy != ORR_COPY_DTOD && w->copy != ORR_COPY_NONE)
        return r->pcie_assumed;
    if (is_product(w))
        (void)orr_device_matmul_rate(device, (orr_dtype)w->dtype, &products_assumed);
    return r->memory_assumed || products_assumed;
}

static int64_t whole_ns(double ns)
{
    return ns < 9e18 ? (int64_t)(ns + 0.5) : INT64_MAX;
}

static bool roofline_price(const orr_cost_model *self, const orr_device *device,
                           const orr_work *work, orr_price *ret)
{
    orr_work whole = *work;
    orr_work_complete(&whole);
    if (device == NULL || !(whole.flops > 0 || whole.read_bytes + whole.write_bytes > 0))
        return false;
    const orr_device_rates rates = orr_device_rates_of(device);
    const double ns = kernel_ns(device, &rates, &whole);
    if (isnan(ns))
        return false;
    *ret = (orr_price){.ns = whole_ns(rates.floor_ns + ns),
                       .basis = ORR_BASIS_ROOFLINE,
                       .error_frac = orr_roofline_error((orr_kernel_family)whole.family),
                       .model = rests_on_assumption(device, &rates, &whole)
                                    ? "roofline, assumed efficiency"
                                    : self->name};
    return true;
}

const orr_cost_model orr_roofline_model = {.name = "roofline", .price = roofline_price};

const orr_cost_model *orr_cost_roofline(void)
{
    return &orr_roofline_model;
}
