/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CALIBRATION_H
#define ORR_CALIBRATION_H

#include <orrery/cost.h>
#include <orrery/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calibration: what a type of device, with the software that usually runs on it, reaches in whole
 * jobs. One parameter set a device type, fitted on published measurements of whole steps; where
 * there is none, that of the device most like it, or assumed values, and every price says so. The
 * files are catalog/calibrations, a device type each.
 *
 * A kernel takes max(FLOPs / reached FLOP/s, bytes / reached bytes/s) + kernel_ns. What a phase of
 * a module takes is bound below by its host too, which needs launch_ns from one call to the next,
 * unless they are launched as a graph.
 *
 * Frozen: any number of threads may ask. Asking allocates nothing; a kernel takes well under 100
 * ns, a collective under 1 us. */
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
    const char *source; /* what it was fitted on, or "assumed" */
#define ORR_CALIBRATION_FIELD_(name, text) double name;
    ORR_CALIBRATION_MAP(ORR_CALIBRATION_FIELD_)
#undef ORR_CALIBRATION_FIELD_
    double error_frac; /* mean absolute error of step times on rows not fitted on; NAN        */
    double low_frac, high_frac; /* 90 % of such rows were between (1 + low) and (1 + high) times
                                 * what was said; NAN: not known */
    uint8_t basis;              /* FITTED or ASSUMED */
} orr_calibration;
/* That of the device, or of the one most like it (basis ASSUMED then), in the arena. Errors:
 * NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_calibration_of(const orr_device *device, orr_arena *arena,
                                                     const orr_calibration **ret, orr_error *err);
/* From a file of the same form. Errors: IO; PARSE and INVALID as "file:line:column: what is wrong";
 * NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_calibration_load(const char *path, orr_arena *arena,
                                                       const orr_calibration **ret, orr_error *err);

/* The work of a call on a tape, as `cost/` counts it: family, dims, dtype, FLOPs, bytes. Views and
 * collectives: family OTHER, nothing to do. */
ORR_API void orr_work_of_call(const orr_tape *tape, uint32_t call, orr_work *ret);

typedef struct orr_job_rates { /* what jobs on one cluster are priced with */
    const orr_device *device;
    const orr_cluster *cluster;
    const orr_calibration *calibration;
    orr_network network;                    /* of the cluster, with the calibration applied */
    uint8_t algorithm;                      /* orr_algorithm                                */
    double product_flops_per_s[ORR_DTYPES]; /* of large products; 0: the peak is not known */
    double peak_flops_per_s[ORR_DTYPES];    /* likewise                                    */
    double memory_bytes_per_s;              /* reached; 0: not known                       */
    double sms;                             /* 0: not known                                */
} orr_job_rates;
ORR_API void orr_job_rates_init(const orr_cluster *cluster, const orr_calibration *calibration,
                                uint8_t algorithm, orr_job_rates *ret);
/* A kernel of a job. `eager`: of an eager framework, not of one that fuses. */
ORR_API orr_price orr_job_rates_kernel(const orr_job_rates *rates, const orr_work *work,
                                       bool eager);
/* What computation takes longer, as a factor, because the host has to launch so many kernels in the
 * time in which the device is done with them: both as long as the other alone when far apart,
 * smoothly between (exponent 4: assumed; launches are uneven). `device_ns`: of the phase, with
 * transfers that it waits for; `compute_ns`: what of it can be stretched. */
ORR_API double orr_job_rates_launch_bound(const orr_job_rates *rates, uint32_t kernels,
                                          int64_t device_ns, int64_t compute_ns);
/* A collective; bytes as orr_collective_price() takes them. */
ORR_API orr_price orr_job_rates_collective(const orr_job_rates *rates, const orr_span *span,
                                           orr_collective collective, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* ORR_CALIBRATION_H */
