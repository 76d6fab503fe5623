/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_DATA_CLICKS_H
#define ORR_ENGINE_DATA_CLICKS_H

#include "engine/step/step.h"

/* What recommendation learns from: a row of samples, each the same on every rank that asks for it.
 * Step s of batches of B has samples (s - 1) B .. s B - 1; behind the last comes the first again.
 */
typedef struct orr_click { /* shapes (dense features), (lookups, one table's after another's) */
    float *dense;
    int64_t *ids;
    float label;
} orr_click;

typedef struct orr_click_data orr_click_data;
struct orr_click_data {
    const char *name; /* "criteo", "synthetic" */
    const orr_dlrm *dlrm;
    uint64_t n; /* 0: endless            */
    uint64_t seed;
    orr_arena *arena;
    void *ctx;
    /* Sample `index` of the data. Errors: PARSE, with the line. */
    orr_status (*fill)(const orr_click_data *self, uint64_t index, orr_click *ret, orr_error *err);
    void (*close)(void *ctx); /* or NULL */
};
void orr_click_data_free(orr_click_data *clicks); /* NULL is allowed */

/* A file of Criteo's: a line a sample, with tabs between: label, 13 integers, 26 values in hex; a
 * missing one is empty. Integers become log(1 + x), negative ones 0; a value's row is its number
 * modulo the rows of its table, 0 where it is missing (facebookresearch/dlrm, data_utils.py). Where
 * a table has several lookups, a value stands for as many rows, always the same (as the multi-hot
 * data of MLPerf are made). The file is mapped. Errors: IO; PARSE; INVALID: another number of
 * tables. */
orr_status orr_click_data_criteo(const char *path, const orr_dlrm *dlrm, orr_click_data **ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* Rows are asked for as often as published batches do (see the file's head), and labels follow a
 * rule with chance in it, so that there is something to learn. */
orr_status orr_click_data_synthetic(const orr_dlrm *dlrm, uint64_t seed, orr_click_data **ret,
                                    orr_error *err) ORR_MUST_CHECK;
orr_status orr_click_data_new(const char *name, const orr_dlrm *dlrm, uint64_t seed,
                              orr_click_data **ret, orr_error *err) ORR_MUST_CHECK;

/* Inputs of a step from samples `first` on: on each rank the dense features and labels of its own
 * samples, and of its tables what all samples of a micro-batch ask for. `labels`: shape
 * (micro-batches, samples of the rank). */
orr_status orr_click_data_feed(const orr_click_data *clicks, orr_engine_step *step,
                               const orr_plan *plan, uint32_t rank, uint64_t first, float *labels,
                               orr_error *err) ORR_MUST_CHECK;

/* Area under the curve of hits over false alarms: the share of pairs of a positive and a negative
 * whose scores stand in the right order, ties counting half (Hanley and McNeil, Radiology 143
 * (1982)); NAN where all labels are the same. `samples`, shape (n), are sorted. */
typedef struct orr_scored {
    float score, label;
} orr_scored;
double orr_auc(orr_scored *samples, size_t n);

#endif /* ORR_ENGINE_DATA_CLICKS_H */
