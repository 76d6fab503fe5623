/* SPDX-License-Identifier: Apache-2.0 */
#include "cost/roofline/device_rates.h"

#include <math.h>

/* Achieved shares of published peaks, where no measured rate is known. The DLRM performance
 * model's fitted memory rates are 0.91 (V100: 817 of 900 GB/s) and 0.89 (A100: 1391 of 1555) of
 * the data sheets; its L2 3.5 and 1.6 times these; its FP32 rates 0.98 and 0.77 of the data
 * sheets (source: owensgroup/ml_perf_model, analysis/utils.py). Largest matrix products reach
 * 0.78 (B200) to 0.87 (A100) of the peak (source: stas00/ml-engineering, MAMF table). Copies
 * between host and device reach 8.1 GB/s on PCIe 3 x16 (ml_perf_model), about half of the link. */
#define MEMORY_FRAC      0.9
#define L2_OVER_MEMORY   2.5
#define VECTOR_FRAC      0.85
#define PRODUCT_FRAC     0.8
#define PCIE_FRAC        0.51
#define PCIE_BYTES_PER_S 8.1e9
/* Shortest kernel. Assumed: recordings of V100, A100 and H100 have no computation shorter than 1
 * us, and hardly any that touches memory shorter than this. */
#define FLOOR_NS 1500

static bool known(const orr_fact *fact)
{
    return fact->basis != ORR_FACT_UNKNOWN && fact->value > 0;
}

static double positive(const orr_fact *fact)
{
    return known(fact) ? fact->value : NAN;
}

static double pcie_of(const orr_device *device, bool *assumed)
{
    const orr_fact *fact = &device->pcie_bytes_per_s;
    if (known(fact) && fact->basis == ORR_FACT_MEASURED)
        return fact->value;
    *assumed = true;
    return known(fact) ? fact->value * PCIE_FRAC : PCIE_BYTES_PER_S;
}

orr_device_rates orr_device_rates_of(const orr_device *device)
{
    orr_device_rates r = {.l2_bytes = known(&device->l2_bytes) ? device->l2_bytes.value : 0,
                          .sms = positive(&device->sms),
                          .clock_hz = positive(&device->clock_hz),
                          .floor_ns = FLOOR_NS};
    if (known(&device->achievable_memory_bytes_per_s)) {
        r.memory_bytes_per_s = device->achievable_memory_bytes_per_s.value;
    } else {
        r.memory_bytes_per_s = MEMORY_FRAC * positive(&device->memory_bytes_per_s);
        r.memory_assumed = true;
    }
    r.l2_bytes_per_s = known(&device->l2_bytes_per_s) ? device->l2_bytes_per_s.value
                                                      : L2_OVER_MEMORY * r.memory_bytes_per_s;
    r.vector_flops = known(&device->matmul_flops[ORR_DTYPE_FP32])
                         ? device->matmul_flops[ORR_DTYPE_FP32].value
                         : VECTOR_FRAC * positive(&device->peak_flops[ORR_DTYPE_FP32]);
    r.pcie_bytes_per_s = pcie_of(device, &r.pcie_assumed);
    return r;
}

/* Substitutes for a dtype of unknown rate: the dtype itself, then the nearest ones that its
 * units also run. */
static const orr_dtype *kin_of(orr_dtype dtype)
{
    static const orr_dtype KIN[ORR_DTYPES][4] = {
        [ORR_DTYPE_FP64] = {ORR_DTYPE_FP64, ORR_DTYPES},
        [ORR_DTYPE_FP32] = {ORR_DTYPE_FP32, ORR_DTYPES},
        [ORR_DTYPE_TF32] = {ORR_DTYPE_TF32, ORR_DTYPE_FP32, ORR_DTYPES},
        [ORR_DTYPE_FP16] = {ORR_DTYPE_FP16, ORR_DTYPE_BF16, ORR_DTYPE_FP32, ORR_DTYPES},
        [ORR_DTYPE_BF16] = {ORR_DTYPE_BF16, ORR_DTYPE_FP16, ORR_DTYPE_FP32, ORR_DTYPES},
        [ORR_DTYPE_FP8] = {ORR_DTYPE_FP8, ORR_DTYPE_BF16, ORR_DTYPE_FP16, ORR_DTYPES},
        [ORR_DTYPE_FP4] = {ORR_DTYPE_FP4, ORR_DTYPE_FP8, ORR_DTYPE_BF16, ORR_DTYPES},
        [ORR_DTYPE_INT8] = {ORR_DTYPE_INT8, ORR_DTYPE_FP16, ORR_DTYPE_FP32, ORR_DTYPES},
        [ORR_DTYPE_INT32] = {ORR_DTYPE_INT32, ORR_DTYPE_FP32, ORR_DTYPES},
        [ORR_DTYPE_INT64] = {ORR_DTYPE_INT64, ORR_DTYPE_FP32, ORR_DTYPES},
    };
    return KIN[dtype];
}

double orr_device_matmul_rate(const orr_device *device, orr_dtype dtype, bool *ret_assumed)
{
    bool unused;
    bool *assumed = ret_assumed != NULL ? ret_assumed : &unused;
    for (const orr_dtype *d = kin_of(dtype); *d != ORR_DTYPES; d++) {
        *assumed = *d != dtype || !known(&device->matmul_flops[*d]);
        if (known(&device->matmul_flops[*d]))
            return device->matmul_flops[*d].value;
        if (known(&device->peak_flops[*d]))
            return device->peak_flops[*d].value * PRODUCT_FRAC;
    }
    return NAN;
}
