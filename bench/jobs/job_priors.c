/* SPDX-License-Identifier: Apache-2.0 */
#include "job_priors.h"

#include <stddef.h>
#include <string.h>

#define MAMF                                                                                       \
    "largest product of a sweep over the dense peak: stas00/ml-engineering, compute/accelerator, " \
    "MAMF"
#define NCCL  "nccl-tests on 8 H200 and 32 B200: facts/hardware/measured_busbw.csv"
#define TIMES "assumed: order of magnitude of a host's work in Python and C++"

/* The order is that of ORR_CALIBRATION_MAP. Spreads are wide where a prior is a guess (0.5 is a
 * factor of 1.6), and narrow where it was measured. */
#define AT(name) [ORR_CALIBRATION_##name]
const job_parameter job_parameters[JOB_PARAMETERS] = {
    AT(matmul_bf16) = {0.8, 0, 0.3, 0.98, 0.08, 0.06, 0.05, 0.02, 1, MAMF},
    AT(matmul_fp8) = {0.72, 0, 0.2, 0.98, 0.1, 0.08, 0.06, 0.03, 1,
                      "DeepGEMM on H800, large shapes: 1358 to 1550 of 1979 TFLOP/s"},
    AT(matmul_fp4) = {0.55, 0, 0.1, 0.98, 0.2, 0, 0.06, 0.03, 1,
                      "assumed: that of fp8, less "
                      "scales of blocks"},
    AT(matmul_half) = {2e8, 0, 1e7, 1e10, 0.2, 0, 0, 0, 0, "assumed: a quarter of a microsecond"},
    AT(matmul_narrow) = {25, 0, 4, 150, 0.3, 0.15, 0, 0, 0, "assumed: prologue of a thread block"},
    AT(matmul_grouped) = {0.85, 0, 0.3, 0.98, 0.1, 0.06, 0.05, 0.02, 1,
                          "DeepGEMM on H800: grouped over dense products of the same rows"},
    AT(matmul_odd) = {0.5, 0, 0.2, 0.98, 0.25, 0, 0, 0, 0,
                      "NVIDIA, Matrix Multiplication Background: a half, misaligned"},
    AT(attention) = {0.68, 0, 0.1, 0.9, 0.08, 0.1, 0.05, 0.5, 1,
                     "FlashAttention 2 on A100, 3 on H100, heads of 128, long sequences"},
    AT(attention_backward) = {0.58, 0, 0.1, 0.9, 0.08, 0.1, 0.05, 0.5, 1,
                              "FlashAttention 2 on A100, 3 on H100, heads of 128, long sequences"},
    AT(attention_half) = {180, 0, 10, 2000, 0.4, 0.2, 0, 0, 0,
                          "FlashAttention 2 on A100: 173 TFLOP/s of 203 at 1,024 keys"},
    AT(attention_narrow) = {25, 0, 1, 200, 0.5, 0.3, 0, 0, 0,
                            "FlashAttention 2 on H100: heads of 64 reach 0.87 of those of 128"},
    AT(attention_eager) = {0.9, 0, 0.3, 0.99, 0.1, 0, 0, 0, 0, "assumed"},
    AT(memory) = {0.8, 0, 0.4, 0.95, 0.12, 0.12, 0.08, 0.03, 1,
                  "copies reach 0.89 of the published bandwidth of an A100: catalog/devices"},
    AT(stream) = {0.8, 0, 0.4, 0.95, 0.1, 0.06, 0.05, 0.02, 1,
                  "copies reach 0.89 of the published bandwidth of an A100: catalog/devices"},
    AT(kernel_ns) = {2500, 0, 500, 10000, 0.3, 0.15, 0.1, 0.05, -1,
                     "assumed: ramp up and down of a grid, and the gap to the next"},
    AT(launch_ns) = {60000, 0, 1000, 300000, 0.4, 0.15, 0.2, 0.15, -1,
                     "assumed: 5 to 8 kernels of an eager framework at 8 to 12 us"},
    AT(scale_up) = {0.8, 0, 0.4, 0.95, 0.05, 0, 0.06, 0, 0, NCCL},
    AT(scale_up_ns) = {12000, 0, 2000, 80000, 0.4, 0, 0.2, 0, 0, NCCL},
    AT(scale_out) = {0.9, 0, 0.3, 0.98, 0.06, 0, 0.1, 0, 0, NCCL},
    AT(scale_out_ns) = {20000, 0, 3000, 400000, 0.5, 0, 0.3, 0, 0, NCCL},
    AT(collective_ns) = {1.5e4, 0, 100, 300000, 0.6, 0.3, 0.2, 0.2, -1, TIMES},
    AT(compute_slowdown) = {1.05, 1, 1.005, 1.5, 0.5, 0, 0.2, 0, 0,
                            "assumed: NCCL's channels take 4 to 24 of 132 multiprocessors"},
    AT(dp_exposed) = {0.15, 0, 0.005, 0.9, 0.6, 0, 0.25, 0.15, -1,
                      "assumed: first and last buckets have nothing to hide behind"},
    AT(micro_batch_ns) = {3e5, 0, 1e3, 1e8, 0.8, 0, 0.4, 0.1, -1, TIMES},
    AT(step_ns) = {1e7, 0, 1e4, 2e9, 0.7, 0, 0.4, 0.1, -1, TIMES},
    AT(serving_ns) = {1e6, 0, 1e3, 1e9, 0.7, 0, 0.3, 0.3, -1, TIMES},
    AT(engine_launch_ns) = {8000, 0, 500, 100000, 0.4, 0, 0.2, 0.1, -1,
                            "assumed: launches of CUDA from C++, 3 to 5 us, of two kernels a call"},
    AT(recommendation_ns) = {5e5, 0, 1e3, 1e9, 0.7, 0, 0.3, 0.1, -1, TIMES},
    AT(jitter_frac) = {0.005, 0, 5e-4, 0.03, 0.5, 0, 0, 0, 0,
                       "devices of a kind within 8 %, six standard deviations (Sinha et al., SC "
                       "2022), much of it evened out over a step"},
    [JOB_REDUCTION] = {0.75, 0, 0.4, 0.99, 0.05, 0, 0.08, 0, 0, NCCL},
};

static const job_prior PRIORS[] = {
    {ORR_CALIBRATION_matmul_bf16, "a100", 0.869, 0, MAMF},
    {ORR_CALIBRATION_matmul_bf16, "h100_sxm_96g_500w", 0.68, 0.1,
     "that of the H100 of 700 W; 500 W: assumed, clocks of the cube root to the full ratio"},
    {ORR_CALIBRATION_matmul_fp8, "h100_sxm_96g_500w", 0.61, 0.1,
     "that of the H100 of 700 W; 500 W: assumed, clocks of the cube root to the full ratio"},
    {ORR_CALIBRATION_attention, "h100_sxm_96g_500w", 0.58, 0.1,
     "that of the H100 of 700 W; 500 W: assumed, clocks of the cube root to the full ratio"},
    {ORR_CALIBRATION_attention_backward, "h100_sxm_96g_500w", 0.49, 0.1,
     "that of the H100 of 700 W; 500 W: assumed, clocks of the cube root to the full ratio"},
    {ORR_CALIBRATION_matmul_bf16, "h100", 0.803, 0, MAMF},
    {ORR_CALIBRATION_matmul_bf16, "h200", 0.803, 0, MAMF},
    {ORR_CALIBRATION_matmul_bf16, "h800", 0.803, 0, MAMF},
    {ORR_CALIBRATION_matmul_bf16, "gh200", 0.838, 0, MAMF},
    {ORR_CALIBRATION_matmul_bf16, "b200", 0.776, 0, MAMF},
    {ORR_CALIBRATION_matmul_bf16, "gb200", 0.776, 0, MAMF ", of the B200"},
    {ORR_CALIBRATION_matmul_bf16, "b300", 0.786, 0, MAMF},
    {ORR_CALIBRATION_matmul_bf16, "gb300", 0.786, 0, MAMF ", of the B300"},
    {ORR_CALIBRATION_matmul_bf16, "mi300x", 0.511, 0, MAMF},
    {ORR_CALIBRATION_matmul_bf16, "mi325x", 0.6, 0, MAMF},
    {ORR_CALIBRATION_matmul_bf16, "mi355x", 0.626, 0, MAMF},
    {ORR_CALIBRATION_scale_up, "NVLink4", 0.81, 0.03,
     "rings on 8 H200: 361 to 367 of 450 GB/s: facts/hardware/measured_busbw.csv"},
    {ORR_CALIBRATION_scale_out, "EFA v4 (P6-B200)", 0.95, 0.03,
     "all-reduce on 32 B200: 382 of 400 GB/s a host: facts/hardware/measured_busbw.csv"},
    {JOB_REDUCTION, "NVLink4", 0.757, 0.03,
     "all-reduce in switches on 8 H200: 480 GB/s of bus bandwidth, rings 367"},
    {JOB_REDUCTION, "NVLink5", 0.67, 0.05,
     "all-reduce in switches on 8 B200: 846 GB/s of bus bandwidth; rings assumed at 0.8"},
};

const char *job_parameter_name(int parameter)
{
    return parameter == JOB_REDUCTION
               ? "reduction"
               : orr_calibration_field_name((orr_calibration_field)parameter);
}

bool job_parameter_is_of_links(int parameter)
{
    return parameter == ORR_CALIBRATION_scale_up || parameter == ORR_CALIBRATION_scale_up_ns ||
           parameter == ORR_CALIBRATION_scale_out || parameter == ORR_CALIBRATION_scale_out_ns ||
           parameter == JOB_REDUCTION;
}

bool job_parameter_is_of_kernels(int parameter)
{
    return parameter == ORR_CALIBRATION_attention ||
           parameter == ORR_CALIBRATION_attention_backward;
}

double job_year_until(int parameter, int architecture)
{
    static const double YEARS[JOB_ARCHITECTURES] = {2025, 2023.5, 2024.5, 2025.5, 2025};
    return job_parameter_is_of_kernels(parameter) ? YEARS[architecture] : ORR_SOFTWARE_NEWEST;
}

const job_prior *job_prior_of(int parameter, const char *name)
{
    for (size_t i = 0; i < sizeof PRIORS / sizeof *PRIORS; i++)
        if (PRIORS[i].parameter == parameter &&
            strncmp(name, PRIORS[i].of, strlen(PRIORS[i].of)) == 0)
            return &PRIORS[i];
    return NULL;
}

int job_architecture_of(const char *device)
{
    static const struct {
        const char *begins;
        int architecture;
    } KNOWN[] = {{"a100", 1}, {"h100", 2}, {"h200", 2},  {"h800", 2},  {"h20", 2}, {"gh200", 2},
                 {"b200", 3}, {"b300", 3}, {"gb200", 3}, {"gb300", 3}, {"tpu", 4}};
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++)
        if (strncmp(device, KNOWN[i].begins, strlen(KNOWN[i].begins)) == 0)
            return KNOWN[i].architecture;
    return 0;
}
