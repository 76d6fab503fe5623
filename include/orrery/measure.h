/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_H
#define ORR_MEASURE_H

#include <orrery/cost.h>
#include <orrery/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Measurements of this machine (kernels, memory, collectives) as a file, and predictions of
 * training steps from them. */
/* A timed call of an operator: warm, its operands are in the caches; cold, in memory. */
typedef struct orr_measured_kernel {
    uint8_t op, dtype; /* orr_op, orr_dtype */
    uint8_t form;      /* products: 0 x w, 1 x w', 2 x' w; else 0 */
    bool cold;
    uint32_t threads;
    int64_t dim[3]; /* products: M, N, K; attention: heads of all samples, tokens, columns; others:
                       rows, columns, 0 */
    double flops, bytes; /* of a call, each operand counted once */
    int64_t ns;          /* median */
    double spread;       /* half the interquartile range of the runs over the median */
} orr_measured_kernel;
typedef struct orr_measured_collective {
    uint8_t collective; /* orr_collective */
    uint32_t ranks;
    int64_t bytes, ns;
} orr_measured_collective;
typedef struct orr_measured {
    const char *cpu, *isa;
    uint32_t cores;
    double read_bytes_per_s, copy_bytes_per_s; /* all cores, beyond the caches */
    double flops_fp32, flops_bf16;             /* of the largest product */
    int64_t cache_bytes;                       /* of the last-level cache that a core reaches */
    int64_t base_bytes;                 /* resident memory of a process that runs no model yet */
    const orr_measured_kernel *kernels; /* shape (n_kernels) */
    uint32_t n_kernels;
    const orr_measured_collective *transfers; /* shape (n_transfers) */
    uint32_t n_transfers;
    const char *when; /* date */
} orr_measured;
typedef struct orr_measure_options {
    int threads;
    uint32_t ranks; /* largest number of ranks in collectives; 0: 4 */
    bool quick;     /* takes seconds, on a coarser grid */
    bool gpu;
    void (*told)(void *ctx, const char *what, double done);
    void *ctx;
} orr_measure_options;
/* Measures the machine; the result is in the arena. Must be called before any thread is started. */
ORR_API ORR_MUST_CHECK orr_status orr_measure(const orr_measure_options *options, orr_arena *arena,
                                              orr_measured *ret, orr_error *err);
/* Saves as YAML, replacing the file atomically; loads it. Errors: IO, PARSE, INVALID with the
 * position. */
ORR_API ORR_MUST_CHECK orr_status orr_measured_save(const orr_measured *measured, const char *path,
                                                    orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_measured_load(const char *path, orr_arena *arena,
                                                    orr_measured *ret, orr_error *err);
/* A predicted training step: the calls of the step's program, each priced from measurements,
 * simulated over lanes and ranks. */
typedef struct orr_predicted_op {
    const char *name;
    uint8_t op, pass, basis;
    double calls;
    int64_t ns;
} orr_predicted_op;
typedef struct orr_predicted_step {
    int64_t step_ns, peak_bytes;
    const orr_predicted_op *ops; /* shape (n_ops), longest first: a step of rank 0 */
    uint32_t n_ops;
} orr_predicted_step;
ORR_API ORR_MUST_CHECK orr_status orr_predict_step(const orr_measured *measured,
                                                   const orr_train_options *job, orr_arena *arena,
                                                   orr_predicted_step *ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_MEASURE_H */
