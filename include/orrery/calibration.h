/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_CALIBRATION_H
#define ORR_CALIBRATION_H

#include <orrery/cost.h>
#include <orrery/op.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calibration: effective efficiencies of a device type, with its usual software, in whole jobs. The
 * parameters of all device types and of the technologies of links are one hierarchical model
 * (partial pooling: Gelman and Hill, Data Analysis Using Regression and Multilevel Models, 2007,
 * chapter 12): physical prior + deviation of the architecture and the device + change per year of
 * software, in logarithms, fitted at once to published measurements of whole steps, kernels and
 * collectives, each deviation shrunk to 0. The files are in catalog/calibrations, one for each
 * device type, one for links, one for intervals; a device without a file takes that of the nearest,
 * and every price says so.
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
    X(attention_half, "keys a query sees in it at which half of that is reached")                  \
    X(attention_narrow, "columns of a head at which half is reached; shares above are of 128")     \
    X(attention_eager, "of both, where kernels are those of an eager framework")                   \
    X(memory, "of the memory's bandwidth, that other kernels reach")                               \
    X(stream, "of the memory's bandwidth, that products and attention bound by it reach")          \
    X(kernel_ns, "a kernel beside its work: ramp, gap to the next")                                \
    X(launch_ns, "from one call of an operator to the next, by the host")                          \
    X(scale_up, "of the bandwidth between neighbours, that collectives reach")                     \
    X(scale_up_ns, "a collective between neighbours beside its bytes")                             \
    X(scale_out, "of the bandwidth of a network port, that collectives reach")                     \
    X(scale_out_ns, "a collective over the network beside its bytes")                              \
    X(collective_ns, "a collective of training beside its link: its call, ranks that are late")    \
    X(compute_slowdown, "times as long, computation beside communication")                         \
    X(dp_exposed, "of what could be hidden of the gradients' transfer, that is not")               \
    X(micro_batch_ns, "a micro-batch on a stage, beside its kernels")                              \
    X(step_ns, "a step, beside all else: data, logging, clipping")                                 \
    X(serving_ns, "a pass of a serving loop, beside its kernels: scheduling, sampling")            \
    X(engine_launch_ns, "from one call of an operator to the next, by a serving or other engine")  \
    X(recommendation_ns, "a step of a recommender, beside its kernels")                            \
    X(jitter_frac, "of its time, standard deviation of a rank's step: jitter")
typedef enum orr_calibration_field {
#define ORR_CALIBRATION_ENUM_(name, text) ORR_CALIBRATION_##name,
    ORR_CALIBRATION_MAP(ORR_CALIBRATION_ENUM_)
#undef ORR_CALIBRATION_ENUM_
        ORR_CALIBRATION_FIELDS
} orr_calibration_field;
ORR_API const char *orr_calibration_field_name(orr_calibration_field field);
ORR_API const char *orr_calibration_field_about(orr_calibration_field field);

/* Years of software that calibrations know. A year outside is taken as the nearest of them. */
#define ORR_SOFTWARE_OLDEST 2020
#define ORR_SOFTWARE_NEWEST 2026

/* A parameter, and how well it is determined. In a file it is a number alone, or a map of these. */
typedef struct orr_calibration_parameter {
    double value;     /* with software of ORR_SOFTWARE_NEWEST */
    double low, high; /* 90 % profile interval, all else refitted; NAN: unknown */
    double prior;     /* what was believed before the fit; NAN: unknown */
    double yearly;    /* change of the logarithm in a year of software, forward; 0: none */
    double until;     /* year of software after which it changes no more */
    const char *prior_source, *rests_on; /* "": not said */
    uint8_t basis;                       /* FITTED: the data moved it; ASSUMED: the prior stands */
    bool at_bound;                       /* of what is physically possible */
} orr_calibration_parameter;

/* A technology of links: the same on every device that has it. */
typedef struct orr_link_rates {
    const char *technology;              /* of catalog/links: "NVLink4" */
    orr_calibration_parameter frac;      /* of its bandwidth, that collectives reach */
    orr_calibration_parameter base_ns;   /* a collective beside its bytes */
    orr_calibration_parameter reduction; /* of that bandwidth, while switches reduce; value 0: as
                                          * assumed for all */
} orr_link_rates;

/* Kinds of jobs whose errors and overheads are different. */
#define ORR_JOB_KIND_MAP(X)                                                                        \
    X(DENSE, "dense training")                                                                     \
    X(MIXTURE, "training of mixtures of experts")                                                  \
    X(TUNING, "training of adapters")                                                              \
    X(PREFILL, "prefill") X(DECODE, "decode") X(RECOMMENDATION, "recommendation")
typedef enum orr_job_kind {
#define ORR_JOB_KIND_ENUM_(name, text) ORR_JOB_KIND_##name,
    ORR_JOB_KIND_MAP(ORR_JOB_KIND_ENUM_)
#undef ORR_JOB_KIND_ENUM_
        ORR_JOB_KINDS
} orr_job_kind;
ORR_API const char *orr_job_kind_name(orr_job_kind kind);

/* Measured over predicted, pooled over devices: 90 % of rows were between 1 + low and 1 + high. */
typedef struct orr_error_interval {
    double low_frac, high_frac;
    double error_frac; /* mean absolute error */
    uint32_t rows;     /* 0: unknown, the others are NAN */
} orr_error_interval;

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
    double software_year;       /* that the numbers above are of */
    double widening;            /* of intervals in logarithms, where few rows are of this device */
    const orr_calibration_parameter *parameters; /* shape (ORR_CALIBRATION_FIELDS), or NULL */
    const orr_link_rates *links;                 /* shape (n_links) */
    uint32_t n_links;
    const orr_error_interval *intervals; /* shape (ORR_JOB_KINDS), or NULL */
} orr_calibration;
/* Calibration of a device, or of the nearest one (then basis ASSUMED), with software of a year (0:
 * the newest), in the arena. Errors: NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_calibration_of(const orr_device *device, double software_year,
                                                     orr_arena *arena, const orr_calibration **ret,
                                                     orr_error *err);
/* Loads a calibration from a file of the same form. Errors: IO; PARSE and INVALID as
 * "file:line:column: what is wrong"; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_calibration_load(const char *path, double software_year,
                                                       orr_arena *arena,
                                                       const orr_calibration **ret, orr_error *err);
/* The same calibration with software of another year, where its parameters say how they change. */
ORR_API orr_calibration orr_calibration_in_year(const orr_calibration *calibration,
                                                double software_year);
/* The calibration as jobs of a kind have it: step_ns is that of the kind, and so are error and
 * interval. In the arena. Errors: NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_calibration_for_kind(const orr_calibration *calibration,
                                                           orr_job_kind kind, orr_arena *arena,
                                                           const orr_calibration **ret,
                                                           orr_error *err);
/* Rates of a technology of links, or NULL. */
ORR_API const orr_link_rates *orr_calibration_link(const orr_calibration *calibration,
                                                   const char *technology);

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
/* Time of a phase, with exposed transfers, beyond the device's own `device_ns`, because the host
 * has to launch so many kernels meanwhile: the phase takes the longer of both when they are far
 * apart, smooth in between (L4 norm: exponent 4 is assumed; launches are uneven). */
ORR_API int64_t orr_job_rates_launch_wait(const orr_job_rates *rates, uint32_t kernels,
                                          int64_t device_ns);
/* Factor by which a step of n synchronised ranks takes longer than one rank's: they wait for the
 * slowest. 1 + jitter_frac E(n), with E(n) the expected maximum of n independent standard normal
 * variables, by Blom's scores (Statistical Estimates and Transformed Beta-Variables, 1958): normal
 * quantile of (n - 3/8) / (n + 1/4), 5 % off at n = 2 and 0.1 % at 1,000. E(1) = 0, E(8) = 1.4,
 * E(256) = 2.8, E(10^4) = 3.8; it grows as sqrt(2 ln n). Never less for more ranks.
 *
 * Measured: devices of a kind differ by 8 % from fastest to slowest, over some hundreds of them
 * (Sinha et al., "Not all GPUs are created equal", SC 2022), which is 6 standard deviations, so
 * 1.3 %; the throughput of a job of 16,384 varies by 1 to 2 % over a day (Llama 3, arXiv
 * 2407.21783, 3.3.4). */
ORR_API double orr_job_jitter(const orr_calibration *calibration, double ranks);
/* Price of a collective in a job; bytes as orr_collective_price() takes them. */
ORR_API orr_price orr_job_rates_collective(const orr_job_rates *rates, const orr_span *span,
                                           orr_collective collective, int64_t bytes);

#ifdef __cplusplus
}
#endif

#endif /* ORR_CALIBRATION_H */
