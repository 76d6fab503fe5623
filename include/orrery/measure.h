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
/* One kind of access to a storage device, with `depth` requests in flight all the time: transfers
 * of `bytes`, at random places or one after the other; or a sync after the write of a sector. */
#define ORR_STORAGE_ACCESS_MAP(X)                                                                  \
    X(RANDOM_READ, "random_read")                                                                  \
    X(RANDOM_WRITE, "random_write")                                                                \
    X(READ, "read") X(WRITE, "write") X(SYNC, "sync")
typedef enum orr_storage_access {
#define ORR_STORAGE_ACCESS_ENUM_(name, text) ORR_STORAGE_##name,
    ORR_STORAGE_ACCESS_MAP(ORR_STORAGE_ACCESS_ENUM_)
#undef ORR_STORAGE_ACCESS_ENUM_
        ORR_STORAGE_ACCESSES
} orr_storage_access;
ORR_API const char *orr_storage_access_name(orr_storage_access access);
typedef struct orr_measured_access {
    uint8_t access; /* orr_storage_access */
    uint32_t bytes, depth;
    double per_s;           /* requests */
    int64_t p50_ns, p99_ns; /* from submission to completion */
    double cpu_ns;          /* of this process for a request, user and system */
} orr_measured_access;
/* What is under a folder, as a store of rows reaches it. */
typedef struct orr_measured_storage {
    const char *path;   /* the folder */
    const char *engine; /* "io_uring", "pread" */
    uint32_t sector;
    int64_t bytes;                       /* of the file that was read and written */
    const orr_measured_access *accesses; /* shape (n_accesses) */
    uint32_t n_accesses;
} orr_measured_storage;
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
    const orr_measured_storage *storage; /* shape (n_storage) */
    uint32_t n_storage;
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
/* Measures the device under a folder, through a file of `bytes` there (0: 4 GiB, quick: 1 GiB, at
 * most a quarter of what is free), which is gone afterwards. Errors: IO with the path; LIMIT: less
 * than 64 MiB can be had. The result is in the arena. */
ORR_API ORR_MUST_CHECK orr_status orr_measure_storage(const char *folder, int64_t bytes, bool quick,
                                                      orr_arena *arena, orr_measured_storage *ret,
                                                      orr_error *err);
/* What it costs the device to write a row that has changed, in time that it has for nothing else:
 * in whole extents, one after the other, cleaned when they are mostly empty; or in single free
 * sectors ("holes").
 *
 * Extents: with a share u of the places in use, random updates leave an extent that is cleaned the
 * share c of its rows, u = (c - 1) / ln c (Desnoyers, Analytic modeling of SSD write performance,
 * SYSTOR 2012, first-in first-out); for 1 - c extents of new rows one is read and one is written
 * (Rosenblum, Ousterhout, TOCS 1992). Holes: a sector of r rows is free once all of them have
 * moved, so that at most 1 / (1 + 1/2 + ... + 1/r) of all places can be in use: above that they are
 * no choice. Neighbouring holes are written together. */
typedef struct orr_write_costs {
    double extents_ns, holes_ns; /* of a row; holes infinite: no choice */
    bool holes;                  /* they are cheaper */
    char reason[192];            /* one sentence for a person */
} orr_write_costs;
/* `record_bytes`: row and optimizer state. NOT_FOUND: it was not measured how fast the device
 * writes. INVALID: used_frac is not between 0 and 1. */
ORR_API ORR_MUST_CHECK orr_status orr_storage_write_costs(const orr_measured_storage *storage,
                                                          uint32_t record_bytes, double used_frac,
                                                          orr_write_costs *ret, orr_error *err);
/* The storage whose folder the path is in, the deepest; NULL: none was measured there. */
ORR_API const orr_measured_storage *orr_measured_storage_of(const orr_measured *measured,
                                                            const char *path);
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

/* Serving a mixture of experts over ranks, before it is run: the rounds that
 * orr_generate_over_ranks() makes of these prompts, what each layer sends, and how long that takes.
 */
typedef struct orr_serving_job {
    const orr_generator_options *options;
    const orr_generator_ranks *ranks;
    const orr_prompt *prompts;
    uint32_t n;
    const orr_routes *routes; /* of these prompts, by their numbers, with every token */
} orr_serving_job;
/* Time over a size, linear between what was measured; beyond the last it goes on as between the
 * last two, before the first it stays. */
enum { ORR_SERVING_POINTS = 20 };
typedef struct orr_serving_curve {
    uint32_t n;
    double at[ORR_SERVING_POINTS], ns[ORR_SERVING_POINTS]; /* ascending */
} orr_serving_curve;
/* What a model's passes take on one rank here. */
typedef struct orr_measured_serving {
    double at_once; /* ranks for which there are cores; more share them */
    /* A pass without its experts, over sequences and over tokens: the first of a cache, the second
     * after so many tokens. */
    orr_serving_curve decode[2], prefill[2];
    double decode_cached, prefill_cached;
    double new_ns; /* more than that where no pass of as many sequences and tokens was recently */
    orr_serving_curve head;   /* logits and sampling, over sequences */
    orr_serving_curve expert; /* an expert of a layer and the exchange of its rows with nobody else,
                               * over rows */
    double experts_ns;        /* of a layer besides */
    orr_serving_curve transfer; /* to one rank and from another at once, over bytes */
    int64_t row_bytes, choice_bytes, result_bytes; /* as in orr_generated_bytes */
} orr_measured_serving;
/* Measures them on the job's own model, with as many ranks at once as there are cores for. Each
 * holds all experts. Takes seconds. Must be called before any thread is started. UNSUPPORTED: a
 * model without experts; requests or experts that move. */
ORR_API ORR_MUST_CHECK orr_status orr_measure_serving(const orr_serving_job *job, orr_arena *arena,
                                                      orr_measured_serving *ret, orr_error *err);
typedef struct orr_predicted_round {
    int64_t ns, exchange_ns; /* all; of it on the way between ranks */
    bool prefills;           /* some rank does */
} orr_predicted_round;
typedef struct orr_predicted_serving {
    const orr_predicted_round *round; /* shape (rounds) */
    uint32_t rounds, layers;
    const uint32_t *number;                 /* shape (layers): of the model */
    uint64_t (*dispatch)[2], (*combine)[2]; /* as in orr_generated_bytes, to the byte */
} orr_predicted_serving;
/* In each layer all ranks wait for the slowest, twice: their tokens go to experts, results come
 * back. INVALID: routes of other prompts, layers or experts. */
ORR_API ORR_MUST_CHECK orr_status orr_predict_serving(const orr_serving_job *job,
                                                      const orr_measured_serving *measured,
                                                      orr_arena *arena, orr_predicted_serving *ret,
                                                      orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_MEASURE_H */
