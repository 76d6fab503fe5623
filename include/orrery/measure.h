/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_H
#define ORR_MEASURE_H

#include <orrery/cost.h>
#include <orrery/engine.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What this machine does: measured kernels, memory and collectives, as a file that predictions
 * read. */
/* A call of an operator as it was timed. What was timed warm found its operands in the caches, what
 * was timed cold in memory. */
typedef struct orr_measured_kernel {
    uint8_t op, dtype; /* orr_op, orr_dtype */
    uint8_t form;      /* products: 0 x w, 1 x w', 2 x' w; else 0 */
    bool cold;
    uint32_t threads;
    int64_t dim[3]; /* products: M, N, K; attention: heads of all samples, tokens, columns; others:
                     * rows, columns, 0 */
    double flops, bytes; /* of a call, each operand once */
    int64_t ns;          /* median */
    double spread;       /* half of what the middle half of the runs spans, over the median */
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
    int64_t cache_bytes;                       /* of the last level, that a core reaches */
    int64_t base_bytes;                 /* resident memory of a process before it runs a model */
    const orr_measured_kernel *kernels; /* shape (n_kernels) */
    uint32_t n_kernels;
    const orr_measured_collective *transfers; /* shape (n_transfers) */
    uint32_t n_transfers;
    const char *when; /* date */
} orr_measured;
typedef struct orr_measure_options {
    int threads;
    uint32_t ranks; /* collectives among up to so many; 0: 4 */
    bool quick;     /* seconds, coarser */
    bool gpu;
    void (*told)(void *ctx, const char *what, double done);
    void *ctx;
} orr_measure_options;
/* In the arena. Call it where no threads stand. */
ORR_API ORR_MUST_CHECK orr_status orr_measure(const orr_measure_options *options, orr_arena *arena,
                                              orr_measured *ret, orr_error *err);
/* YAML, atomically replaced; and back. Errors: IO, PARSE, INVALID with the position. */
ORR_API ORR_MUST_CHECK orr_status orr_measured_save(const orr_measured *measured, const char *path,
                                                    orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_measured_load(const char *path, orr_arena *arena,
                                                    orr_measured *ret, orr_error *err);
/* A training step before it is run: the very calls of the step's program, each priced from
 * measurements, played over lanes and ranks. */
typedef struct orr_predicted_op {
    const char *name;
    uint8_t op, pass, basis;
    double calls;
    int64_t ns;
} orr_predicted_op;
typedef struct orr_predicted_step {
    int64_t step_ns, peak_bytes;
    const orr_predicted_op *ops; /* shape (n_ops), the longest first: a step of rank 0 */
    uint32_t n_ops;
} orr_predicted_step;
ORR_API ORR_MUST_CHECK orr_status orr_predict_step(const orr_measured *measured,
                                                   const orr_train_options *job, orr_arena *arena,
                                                   orr_predicted_step *ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_MEASURE_H */
