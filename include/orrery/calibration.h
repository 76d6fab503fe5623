/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CALIBRATION_H
#define ORR_CALIBRATION_H

#include <orrery/cost.h>
#include <orrery/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calibration: effective efficiencies of a device type, with its usual software, in whole jobs. One
 * parameter set for each device type, fitted to published measurements of whole steps; without one,
 * that of the nearest device, or assumed values, and every price says so. The files are in
 * catalog/calibrations, one for each device type.
 *
 * A kernel takes max(FLOPs / achieved FLOP/s, bytes / achieved bytes/s) + kernel_ns. A phase of a
 * module is also bounded below by its host, which needs launch_ns from one call to the next, unless
 * they are launched as a graph.
 *
 * Immutable: any number of threads may ask. Asking allocates nothing; a kernel takes well under
 * 100 ns, a collective under 1 us. */
#define ORR_CALIBRATION_MAP(X)                                                                     \
    X(matmul_bf16, "of peak, that a large product reaches in bf16 or fp16")                        \
    X(matmul_fp8, "of peak, that a large product reaches in fp8")                                  \
    X(matmul_fp4, "of peak, that a large product reaches in fp4")                                  \
    X(matmul_half, "FLOPs of a product at which half of that is reached")                          \
    X(matmul_narrow, "size of the inner dim K at which half of that is reached")                   \
    X(matmul_grouped, "of that, that many products in one kernel reach: experts")                  \
    X(matmul_odd, "of that, where rows do not begin at multiples of 16 bytes")                     \
    X(attention, "of peak, that attention in one kernel reaches forward")                          \
    X(attention_backward, "of peak, that it reaches backward")                                     \
    X(attention_eager, "of both, where kernels are those of an eager framework")                   \
    X(memory, "of the memory's bandwidth, that other kernels reach")                               \
    X(kernel_ns, "a kernel beside its work: ramp, gap to the next")                                \
    X(launch_ns, "from one call of an operator to the next, by the host")                          \
    X(scale_up, "of the bandwidth between neighbours, that collectives reach")                     \
    X(scale_up_ns, "a collective between neighbours beside its bytes")                             \
    X(scale_out, "of the bandwidth of a network port, that collectives reach")                     \
    X(scale_out_ns, "a collective over the network beside its bytes")                              \
    X(compute_slowdown, "times as long, computation beside communication")                         \
    X(dp_exposed, "of what could be hidden of the gradients' transfer, that is not")               \
    X(micro_batch_ns, "a micro-batch on a stage, beside its kernels")                              \
    X(step_ns, "a step, beside all else: data, logging, clipping")                                 \
    X(rank_log_frac, "of the step, for each doubling of ranks beyond 8: jitter")
typedef struct orr_calibration {
    const char *name;   /* of the device type: "h100_sxm_80g" */
    const char *source; /* what it was fitted to, or "assumed" */
#define ORR_CALIBRATION_FIELD_(name, text) double name;
    ORR_CALIBRATION_MAP(ORR_CALIBRATION_FIELD_)
#undef ORR_CALIBRATION_FIELD_
    double error_frac;          /* mean absolute error of step times on held-out rows; NAN */
    double low_frac, high_frac; /* 90 % of held-out rows were between (1 + low) and (1 + high)
                                 * times the prediction; NAN: unknown */
    uint8_t basis;              /* FITTED or ASSUMED */
} orr_calibration;
/* Calibration of a device, or of the nearest one (then basis ASSUMED), in the arena. Errors:
 * NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_calibration_of(const orr_device *device, orr_arena *arena,
                                                     const orr_calibration **ret, orr_error *err);
/* Loads a calibration from a file of the same form. Errors: IO; PARSE and INVALID as
 * "file:line:column: what is wrong"; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_calibration_load(const char *path, orr_arena *arena,
                                                       const orr_calibration **ret, orr_error *err);

/* Work of a call on a tape, as `cost/` counts it: family, dims, dtype, FLOPs, bytes. Views and
 * collectives: family OTHER, no work. */
ORR_API void orr_work_of_call(const orr_tape *tape, uint32_t call, orr_work *ret);

typedef struct orr_job_rates { /* rates of jobs on one cluster */
    const orr_device *device;
    const orr_cluster *cluster;
    const orr_calibration *calibration;
    orr_network network;                    /* of the cluster, with the calibration applied */
    uint8_t algorithm;                      /* orr_algorithm                                */
    double product_flops_per_s[ORR_DTYPES]; /* of large products; 0: the peak is unknown */
    double peak_flops_per_s[ORR_DTYPES];    /* likewise                                    */
    double memory_bytes_per_s;              /* achieved; 0: unknown */
    double sms;                             /* 0: unknown */
} orr_job_rates;
ORR_API void orr_job_rates_init(const orr_cluster *cluster, const orr_calibration *calibration,
                                uint8_t algorithm, orr_job_rates *ret);
/* Price of a kernel in a job. `eager`: of an eager framework, not of one that fuses. */
ORR_API orr_price orr_job_rates_kernel(const orr_job_rates *rates, const orr_work *work,
                                       bool eager);
/* Slowdown of computation, as a factor, because the host has to launch so many kernels in the
 * time in which the device runs them: the longer of both when they are far apart, smooth in
 * between (L4 norm: exponent 4 is assumed; launches are uneven). `device_ns`: of the phase, with
 * exposed transfers; `compute_ns`: the part that can be stretched. */
ORR_API double orr_job_rates_launch_bound(const orr_job_rates *rates, uint32_t kernels,
                                          int64_t device_ns, int64_t compute_ns);
/* Price of a collective in a job; bytes as orr_collective_price() takes them. */
ORR_API orr_price orr_job_rates_collective(const orr_job_rates *rates, const orr_span *span,
                                           orr_collective collective, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* ORR_CALIBRATION_H */
