/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEASURED_H
#define MEASURED_H

/* Measurements by hand, on devices by hand. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "cost/fit/samples.h"

#include <math.h>

static inline orr_fact known(double value)
{
    return (orr_fact){.value = value, .basis = ORR_FACT_PUBLISHED, .source = "test"};
}

/* Facts that are not set are not known. */
static inline orr_device some_device(const char *name, double peak_flops, double bytes_per_s)
{
    const orr_fact unknown = {.value = NAN, .basis = ORR_FACT_UNKNOWN, .source = ""};
    orr_device device = {
        .name = name,
        .vendor = "ACME",
        .kind = "gpu",
        .notes = "",
        .memory_bytes = unknown,
        .achievable_memory_bytes_per_s = unknown,
        .l2_bytes = unknown,
        .l2_bytes_per_s = unknown,
        .sms = known(100),
        .clock_hz = unknown,
        .launch_latency_ns = unknown,
        .kernel_gap_ns = unknown,
        .pcie_bytes_per_s = known(16e9),
        .power_w = unknown,
        .idle_power_w = unknown,
        .memory_bytes_per_s = known(bytes_per_s),
    };
    for (int dtype = 0; dtype < ORR_DTYPES; dtype++) {
        device.peak_flops[dtype] = known(peak_flops);
        device.matmul_flops[dtype] = unknown;
    }
    return device;
}

static inline orr_work gemm(int64_t m, int64_t n, int64_t k)
{
    orr_work work = {.family = ORR_FAMILY_GEMM,
                     .dtype = ORR_DTYPE_FP16,
                     .n_dims = 4,
                     .dims = {1, m, n, k},
                     .op = "aten::mm",
                     .kernel = "gemm"};
    orr_work_complete(&work);
    return work;
}

static inline void add_sample(orr_samples *samples, const orr_device *device, orr_work work,
                              double ns)
{
    const orr_cost_sample sample = {.device = device, .work = work, .ns = ns};
    orr_samples_report report = {0};
    orr_error err;
    assert_int_equal(orr_samples_add(samples, &sample, &report, &err), ORR_OK);
    assert_int_equal(report.taken, 1);
}

/* What a made-up kernel takes: a start, and an efficiency that grows with the smaller side. */
static inline double gemm_ns(const orr_device *device, const orr_work *work)
{
    const double side = fmin((double)work->dims[1], (double)work->dims[2]);
    const double efficiency = 0.8 * side / (side + 300);
    return 2500 + 1e9 * work->flops / (efficiency * device->peak_flops[work->dtype].value);
}

/* Products of powers of two and of numbers between them, `repeats` of each, a little noise. */
static inline void add_gemms(orr_samples *samples, const orr_device *device, int repeats)
{
    static const int64_t SIDES[] = {64, 96, 128, 256, 384, 512, 1024, 2048};
    orr_random random = orr_random_of(1, 2);

    for (int m = 0; m < 8; m++)
        for (int n = 0; n < 8; n++)
            for (int k = 0; k < 8; k += 2)
                for (int r = 0; r < repeats; r++) {
                    const orr_work work = gemm(SIDES[m], SIDES[n], SIDES[k]);
                    const double noise = 0.99 + 0.02 * orr_random_unit(&random);
                    add_sample(samples, device, work, gemm_ns(device, &work) * noise);
                }
}

#endif /* MEASURED_H */
