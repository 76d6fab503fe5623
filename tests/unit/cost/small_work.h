/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SMALL_WORK_H
#define SMALL_WORK_H

/* Small graphs with shapes, and a device with round numbers. */
#include "../analysis/small_job.h"

#include <math.h>

#include <orrery/cost.h>

/* "Input Dims" and "Input type" as Kineto has them; values may be NULL. */
static inline void small_shapes(small *s, uint32_t node, const char *dims, const char *types,
                                const char *values)
{
    const char *names[3] = {"Input Dims", "Input type", "Concrete Inputs"};
    const char *texts[3] = {dims, types, values};
    orr_str strings[3];
    orr_attr attrs[3];
    uint32_t n = 0;
    for (int i = 0; i < 3; i++) {
        if (texts[i] == NULL)
            continue;
        strings[n] = small_str(s, texts[i]);
        attrs[n] = (orr_attr){.name = small_str(s, names[i]),
                              .kind = ORR_ATTR_JSON,
                              .count = 1,
                              .values = &strings[n]};
        n++;
    }
    assert_int_equal(orr_builder_attrs(s->builder, node, attrs, n, &s->err), ORR_OK);
}

static inline orr_fact small_fact(double value)
{
    return (orr_fact){.value = value, .basis = ORR_FACT_MEASURED, .source = "made up"};
}

static inline orr_fact small_published(double value)
{
    return (orr_fact){.value = value, .basis = ORR_FACT_PUBLISHED, .source = "made up"};
}

/* 100 multiprocessors of 1 GHz, 1 TB/s, 10 TFLOP/s of FP32 and 100 of FP16, 40 MB of L2. */
static inline orr_device small_device(void)
{
    orr_device d = {.name = "round",
                    .memory_bytes_per_s = small_published(1.2e12),
                    .achievable_memory_bytes_per_s = small_fact(1e12),
                    .l2_bytes = small_fact(40e6),
                    .l2_bytes_per_s = small_fact(4e12),
                    .sms = small_fact(100),
                    .clock_hz = small_fact(1e9),
                    .pcie_bytes_per_s = small_fact(10e9)};
    d.matmul_flops[ORR_DTYPE_FP32] = small_fact(10e12);
    d.matmul_flops[ORR_DTYPE_FP16] = small_fact(100e12);
    return d;
}

static inline orr_work small_dims(orr_kernel_family family, uint8_t n, const int64_t *dims)
{
    orr_work w = {
        .family = (uint8_t)family, .dtype = ORR_DTYPE_FP32, .n_dims = n, .op = "", .kernel = ""};
    memcpy(w.dims, dims, n * sizeof *dims);
    return w;
}
#define SMALL_WORK(family, ...)                                                                    \
    small_dims(ORR_FAMILY_##family,                                                                \
               (uint8_t)(sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t)),                \
               (const int64_t[]){__VA_ARGS__})

#endif /* SMALL_WORK_H */
