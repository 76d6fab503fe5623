/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FIT_H
#define ORR_FIT_H

#include <orrery/cost.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Fitting of cost models: from measurements of kernels to a model, with its errors on held-out
 * shapes.
 *
 * Samples are split by shape group: all measurements of one family and shape, on any device and
 * in any dtype, are on one side. Hyper-parameters are chosen on the validation set; the test set
 * is used once, for the errors that are reported and stored, and a model with such an error
 * holds no test row. A table that makes no claim beyond the measured shapes holds all. */

/* One measurement. */
typedef struct orr_cost_sample {
    const orr_device *device;
    orr_work work; /* completed; op and kernel are never NULL */
    double ns;     /* > 0 */
} orr_cost_sample;

/* A growing set of samples. Devices are borrowed, texts are copied. Threads: one. */
typedef struct orr_samples orr_samples;
ORR_API orr_samples *orr_samples_new(void);          /* NULL: out of memory */
ORR_API void orr_samples_free(orr_samples *samples); /* may be NULL */
/* All rows, in the order in which they were added; valid until the next one is added. */
ORR_API const orr_cost_sample *orr_samples_rows(const orr_samples *samples, size_t *ret_n);

/* What became of the rows of one input. */
typedef struct orr_samples_report {
    uint64_t taken;
    uint64_t without_work; /* unknown work: no shapes, an unknown kernel */
    uint64_t without_time; /* no duration was recorded */
} orr_samples_report;

/* Adds every kernel, memcpy and memset of a recording. `device`: that it ran on, or NULL: as
 * each graph says, recognised by the catalogue. `source`: a name for the stored model, of which
 * the last part of a path is kept. Errors: NOT_FOUND: a device that the catalogue does not have;
 * NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_samples_add_job(orr_samples *samples, const orr_job *job,
                                                      const orr_catalog *catalog,
                                                      const orr_device *device, const char *source,
                                                      orr_samples_report *ret, orr_error *err);
/* Measurements as CSV (plain, gzip or zstd), the first line names the columns, in any order:
 *   device  name of the catalogue, or what a recording calls it ("NVIDIA H100 80GB HBM3"); may be
 *           missing when `device` is given, which goes before it
 *   family  orr_kernel_family_name(): "gemm"
 *   dtype   orr_dtype_name(): "fp16"
 *   dims    sizes joined by "x", in the family's order: "1x4096x4096x1024"; "" for "other"
 *   ns      median or single time of the kernel, > 0
 * and where they matter
 *   op, kernel             names as recorded
 *   flops, bytes           where the family and dims do not say; bytes are read and written in all
 *   read_bytes, write_bytes instead of bytes
 *   backward               0 or 1
 *   copy                   htod, dtoh or dtod
 * Other columns are passed over; "#" begins a comment line. Errors: IO; PARSE and INVALID as
 * "path:line: what is wrong"; NOT_FOUND: device. */
ORR_API ORR_MUST_CHECK orr_status orr_samples_add_csv(orr_samples *samples, const char *path,
                                                      const orr_catalog *catalog,
                                                      const orr_device *device,
                                                      orr_samples_report *ret, orr_error *err);

typedef enum orr_fit_subset {
    ORR_SUBSET_TRAIN,
    ORR_SUBSET_VALIDATION,
    ORR_SUBSET_TEST,
    ORR_SUBSETS
} orr_fit_subset;

/* How the samples of a family were split. */
typedef struct orr_fit_split {
    uint8_t family; /* orr_kernel_family */
    uint64_t samples[ORR_SUBSETS];
    uint32_t groups[ORR_SUBSETS]; /* shape groups */
} orr_fit_split;

/* Errors over rows, of err = predicted / measured - 1; NAN where there is no row.
 * gmae: exp(mean(ln(|err| + 4e-4))), the geometric mean that the performance model for DLRM
 * training reports (owensgroup/ml_perf_model); it hides tails, so mape = mean(|err|) and the 90th
 * percentile of |err| stand beside it. */
typedef struct orr_fit_score {
    double gmae, mape, p90;
} orr_fit_score;

/* The result for a family: what was fitted, and its errors on the test set. */
typedef struct orr_fit_result {
    uint8_t family;                 /* orr_kernel_family */
    uint8_t basis;                  /* ORR_BASIS_TABLE or _LEARNED */
    uint64_t rows, answered;        /* test rows, and those that it answers */
    orr_fit_score fitted, roofline; /* both over the answered rows */
    const char *remark;             /* what was chosen, or why there is no model */
} orr_fit_result;

typedef struct orr_fit_options {
    size_t struct_bytes;
    bool table, learned;
    uint64_t seed; /* of the split */
    /* Called now and then; false cancels: CANCELED. */
    bool (*progress)(void *ctx, uint64_t done, uint64_t total);
    void *progress_ctx;
} orr_fit_options;

typedef struct orr_fit {
    const orr_cost_model *model; /* table, then trees; NULL: nothing could be fitted */
    const orr_fit_split *splits; /* shape (n_splits), the families that were measured */
    size_t n_splits;
    const orr_fit_result *results; /* shape (n_results), by family, then basis */
    size_t n_results;
} orr_fit;

/* Are boosted trees built in, and is XGBoost installed? If not, *ret_why (may be NULL) is one
 * line. Evaluating a stored model never needs XGBoost. */
ORR_API bool orr_fit_learned_available(const char **ret_why);

/* Fits. Everything is in the arena; devices of the samples are borrowed. The same samples,
 * options and version of XGBoost give the same result. Errors: INVALID: no sample; UNSUPPORTED:
 * options->learned, and no XGBoost; CANCELED; NO_MEMORY. Seconds for a thousand shapes. */
ORR_API ORR_MUST_CHECK orr_status orr_fit_run(const orr_samples *samples,
                                              const orr_fit_options *options, orr_arena *arena,
                                              orr_fit *ret, orr_error *err);
/* Writes what orr_cost_model_load() reads: JSON, "orrery.cost/1"; atomically. Errors: IO;
 * INVALID: nothing was fitted. */
ORR_API ORR_MUST_CHECK orr_status orr_fit_write(const orr_fit *fit, const char *path,
                                                orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_FIT_H */
