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
/* The lookups of a step in one embedding table, ids uniformly distributed: bags summed, or rows
 * updated from the gradients of bags. */
typedef struct orr_measured_table {
    bool update;               /* else sums */
    uint8_t format, optimizer; /* orr_row_format, orr_row_optimizer */
    uint32_t threads, columns;
    int64_t rows, samples, lookups;
    int64_t ns; /* median */
    double spread;
} orr_measured_table;
/* What a step of a recommendation model does with its embedding tables, a call of its program
 * each. */
#define ORR_TABLE_WORK_MAP(X)                                                                      \
    X(READ, "read")                                                                                \
    X(IDS, "ids")                                                                                  \
    X(FETCH, "fetch") X(SUM, "sum") X(BAGS, "bags") X(GRADIENTS, "gradients") X(UPDATE, "update")
typedef enum orr_table_work {
#define ORR_TABLE_WORK_ENUM_(name, text) ORR_TABLE_WORK_##name,
    ORR_TABLE_WORK_MAP(ORR_TABLE_WORK_ENUM_)
#undef ORR_TABLE_WORK_ENUM_
        ORR_TABLE_WORKS
} orr_table_work;
/* Parts of one job's step, measured at its own sizes: see orr_measure_step(). */
typedef struct orr_measured_step {
    uint32_t ranks;                   /* 0: nothing */
    const orr_measured_kernel *calls; /* shape (n_calls): known by op, dtype, form, FLOPs and
                                         bytes */
    uint32_t n_calls;
    const orr_measured_collective *transfers; /* shape (n_transfers) */
    uint32_t n_transfers;
    const int64_t (*table_ns)[ORR_TABLE_WORKS]; /* shape (ranks) */
    int64_t meeting_ns; /* what a transfer takes more because ranks come to it at different times */
    int64_t rest_bytes; /* resident memory of a rank beside what its plan counts: tapes, transports,
                           code */
} orr_measured_step;
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
    const orr_measured_table *tables; /* shape (n_tables) */
    uint32_t n_tables;
    const char *when;       /* date */
    orr_measured_step step; /* of one job; not saved */
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
/* Adds what the step of a recommendation model is made of, measured at its own sizes on as many
 * ranks as it has: the calls of a micro-batch, transfers, and each thing that is done with its
 * embedding tables, by itself. Other models are left as they are. Takes the memory of the tables
 * and a few seconds. Must be called before any thread is started. */
ORR_API ORR_MUST_CHECK orr_status orr_measure_step(const orr_train_options *job, orr_arena *arena,
                                                   orr_measured *measured, orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_predict_step(const orr_measured *measured,
                                                   const orr_train_options *job, orr_arena *arena,
                                                   orr_predicted_step *ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_MEASURE_H */
