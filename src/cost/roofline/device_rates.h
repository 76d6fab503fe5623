/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_ROOFLINE_DEVICE_RATES_H
#define ORR_COST_ROOFLINE_DEVICE_RATES_H

#include <orrery/cost.h>

#include "cost/kernel_work/arguments.h"

/* Rates that a device achieves, from its facts. Where none was measured, the usual share of a
 * published peak is assumed, and `assumed` says so. NAN: unknown. */
typedef struct orr_device_rates {
    double memory_bytes_per_s; /* device memory, streaming */
    double l2_bytes, l2_bytes_per_s;
    double sms, clock_hz;
    double vector_flops; /* FP32, outside of the matrix units */
    double pcie_bytes_per_s;
    double floor_ns; /* shortest time of a kernel */
    bool memory_assumed, pcie_assumed;
} orr_device_rates;
orr_device_rates orr_device_rates_of(const orr_device *device);
/* FLOP/s of matrix products of a dtype; NAN: unknown. ret_assumed may be NULL. */
double orr_device_matmul_rate(const orr_device *device, orr_dtype dtype, bool *ret_assumed);

/* Time of the work's bytes at the rate of memory. */
static inline double orr_bytes_ns(const orr_device_rates *rates, const orr_work *work)
{
    return 1e9 * (work->read_bytes + work->write_bytes) / rates->memory_bytes_per_s;
}

/* Closed forms of kernels, in ns and without the floor (embeddings: with it); NAN: dims or facts
 * do not suffice. Each is monotone in every dim. */
double orr_gemm_ns(const orr_device *device, const orr_device_rates *rates, const orr_work *work);
double orr_convolution_ns(const orr_device *device, const orr_device_rates *rates,
                          const orr_work *work);
double orr_attention_ns(const orr_device *device, const orr_device_rates *rates,
                        const orr_work *work);
double orr_embedding_ns(const orr_device_rates *rates, const orr_work *work);
/* L2 hit rate of B bags of L lookups in E rows of D columns. */
double orr_embedding_hit_rate(const orr_device_rates *rates, double bags, double rows,
                              double lookups, double columns);
/* Bytes of an embedding without a cache: the published simple form. */
double orr_embedding_simple_bytes(const orr_work *work);
/* Time to move bytes through device memory, by the published curve in three pieces. */
double orr_bandwidth_curve_ns(const orr_device_rates *rates, double bytes);

/* Tile (M, N) of a matrix-product kernel from its name: "volta_sgemm_128x64_nt". */
bool orr_tile_of_kernel(const char *kernel, int64_t *ret_m, int64_t *ret_n);

/* Mean absolute error of the closed forms of a family on recorded shapes; NAN: unknown. */
double orr_roofline_error(orr_kernel_family family);
/* The model that orr_cost_roofline() returns. */
extern const orr_cost_model orr_roofline_model;

#endif /* ORR_COST_ROOFLINE_DEVICE_RATES_H */
