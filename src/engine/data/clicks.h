/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_DATA_CLICKS_H
#define ORR_ENGINE_DATA_CLICKS_H

#include "base/array.h"
#include "base/philox.h"
#include "engine/step/step.h"

/* Click-through data for recommendation models: a sequence of samples, the same on every rank. Step
 * s of batches of B has samples (s - 1) B .. s B - 1; after the last one the sequence repeats. */

/* A range of samples with their lookups in all tables. {0} before the first read; buffers grow as
 * needed and are used again by the next one. */
typedef struct orr_click_batch {
    int64_t samples;
    orr_array(float) dense;     /* shape (samples, dense features) */
    orr_array(float) labels;    /* shape (samples): 0 or 1 */
    orr_array(int32_t) lengths; /* of bags, shape (tables, samples) */
    orr_array(int64_t) ids;     /* by table, then sample */
    orr_array(int64_t) first;   /* of each table's ids, shape (tables + 1) */
} orr_click_batch;
void orr_click_batch_done(orr_click_batch *batch);

typedef struct orr_click_data orr_click_data;
struct orr_click_data {
    const char *name; /* "criteo", "synthetic" */
    const orr_dlrm *dlrm;
    uint64_t n; /* samples; 0: endless */
    uint64_t seed;
    orr_arena *arena;
    void *ctx;
    /* Fills in dense features, labels and ids of ret->samples samples, of which sample i is
     * orr_click_number(self, first + i); lengths and buffers are there. Errors: PARSE, with the
     * line. */
    orr_status (*read)(const orr_click_data *self, uint64_t first, orr_click_batch *ret,
                       orr_error *err);
    void (*close)(void *ctx); /* or NULL */
};
/* The sample of the data that stands at a place of the sequence. */
static inline uint64_t orr_click_number(const orr_click_data *clicks, uint64_t place)
{
    return clicks->n > 0 ? place % clicks->n : place;
}
/* Reads n samples from `first` on, in the sequence that repeats. Threads: any, each with a batch of
 * its own. */
orr_status orr_click_data_read(const orr_click_data *clicks, uint64_t first, int64_t n,
                               orr_click_batch *ret, orr_error *err) ORR_MUST_CHECK;
/* 128 random bits of seed, sample, what they are for, and a number. */
static inline void orr_click_bits(const orr_click_data *clicks, uint64_t sample, uint32_t what,
                                  uint32_t number, uint32_t ret[4])
{
    const uint32_t counter[4] = {(uint32_t)sample, (uint32_t)(sample >> 32), what, number};
    const uint32_t key[2] = {(uint32_t)clicks->seed, (uint32_t)(clicks->seed >> 32)};
    orr_philox4x32(counter, key, ret);
}
/* How many lookups a sample makes in a table: drawn as the table's `length` says. */
int32_t orr_click_bag_length(const orr_click_data *clicks, uint32_t table, uint64_t sample);
void orr_click_data_free(orr_click_data *clicks); /* NULL is allowed */

/* Criteo's format: a sample per line, separated by tabs: label, 13 integers, 26 values in hex;
 * missing ones are empty. Integers become log(1 + x), negative ones 0; a value's row is its number
 * modulo the rows of its table, 0 if missing (facebookresearch/dlrm, data_utils.py). Where a table
 * has several lookups, a value stands for as many fixed rows (like MLPerf's multi-hot data). The
 * file is mapped. Errors: IO; PARSE; INVALID: another number of tables. */
orr_status orr_click_data_criteo(const char *path, const orr_dlrm *dlrm, orr_click_data **ret,
                                 orr_error *err) ORR_MUST_CHECK;
/* Synthetic data: rows are looked up with the frequencies of published batches (see
 * clicks_synthetic.c), and labels follow a noisy rule, so that there is something to learn.
 * `options`: words with commas between; NULL or empty: the defaults. One of 2021 (default), 2022,
 * zipf, uniform (orr_popularity_kind); locality=P: so many of the lookups repeat a lookup of one of
 * the last samples, of which window=N says how many (default 1024). INVALID: another word. */
orr_status orr_click_data_synthetic(const char *options, const orr_dlrm *dlrm, uint64_t seed,
                                    orr_click_data **ret, orr_error *err) ORR_MUST_CHECK;
/* The data that --data names: NULL, "synthetic" or "synthetic:OPTIONS", else a file of Criteo's. */
orr_status orr_click_data_open(const char *text, const orr_dlrm *dlrm, uint64_t seed,
                               orr_click_data **ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_click_data_new(const char *name, const orr_dlrm *dlrm, uint64_t seed,
                              orr_click_data **ret, orr_error *err) ORR_MUST_CHECK;

/* Reads batches for a step (orr_step_reader): of batch k the rank has `samples` samples, from k *
 * batch + first on. */
typedef struct orr_click_reader {
    const orr_click_data *clicks;
    uint64_t batch, first;
    int64_t samples;
    uint32_t kept; /* batches, the newest: orr_tables_steps() of the plan; 0: ORR_TABLES_AHEAD */
    orr_click_batch batches[ORR_TABLES_AHEAD];
} orr_click_reader;
orr_status orr_click_reader_read(void *ctx, uint64_t batch, orr_step_batch *ret,
                                 orr_error *err) ORR_MUST_CHECK;
void orr_click_reader_done(orr_click_reader *reader);
/* What it takes after so many batches, of bags of the mean length. */
int64_t orr_click_reader_bytes(const orr_click_reader *reader, const orr_dlrm *dlrm,
                               int64_t batches);

/* Area under the ROC curve: the share of (positive, negative) pairs whose scores are in the right
 * order, ties counting half (Hanley and McNeil, Radiology 143 (1982)); NAN where all labels are
 * equal. `samples`, shape (n), are sorted. */
typedef struct orr_scored {
    float score, label;
} orr_scored;
double orr_auc(orr_scored *samples, size_t n);

#endif /* ORR_ENGINE_DATA_CLICKS_H */
