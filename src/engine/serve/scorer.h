/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_SCORER_H
#define ORR_ENGINE_SERVE_SCORER_H

#include <orrery/model.h>

#include "io/stream/output.h"
#include "store/serve/row_server.h"

/* A recommendation model that answers: pooled embeddings for lookups, probabilities for samples.
 * Its weights are a folder that training exported. The probability of a sample is that which
 * training evaluates with the same weights: bags are summed in the same order, the dense layers are
 * the same program.
 *
 * Threads: any number of orr_score_thread, each for one thread at a time; another may exchange the
 * weights meanwhile. */
typedef struct orr_scorer_options {
    const orr_model *model; /* DLRM; outlives the scorer */
    const char *weights;    /* FOLDER/dense.safetensors, FOLDER/NAME.table */
    int64_t block;          /* samples of a run of the dense layers, at most; 0: 128 */
    /* Tables are served from a snapshot in this folder (snapshot.h); NULL: they are mapped. */
    const char *store;
    orr_row_server_options rows;    /* of the snapshot */
    double endurance_bytes_per_day; /* what its drive takes; 0: not known */
} orr_scorer_options;
enum { ORR_SCORER_BLOCK = 128, ORR_SCORER_BLOCK_MAX = 1 << 14 };

typedef struct orr_scorer orr_scorer;
/* UNSUPPORTED: no recommendation model; INVALID: weights of another model; PARSE: damaged ones. */
orr_status orr_scorer_open(const orr_scorer_options *options, orr_scorer **ret,
                           orr_error *err) ORR_MUST_CHECK;
void orr_scorer_close(orr_scorer *scorer); /* after its threads; NULL is allowed */
/* From now on weights are those of another folder, of the same model. They are opened and checked
 * while threads go on; each answer is of the old weights or of the new ones. Errors: as on opening;
 * the old ones stay. One caller at a time. */
orr_status orr_scorer_swap(orr_scorer *scorer, const char *weights, orr_error *err) ORR_MUST_CHECK;
/* New numbers of n rows, shape (n, columns): rounded to the format of the table. UNSUPPORTED:
 * tables are mapped. */
orr_status orr_scorer_update(orr_scorer *scorer, uint32_t table, const int64_t *rows, int64_t n,
                             const float *values, orr_error *err) ORR_MUST_CHECK;
/* Hit rates and reads, as Prometheus' text. Any thread. */
void orr_scorer_metrics(orr_scorer *scorer, orr_output *out);
const orr_dlrm *orr_scorer_model(const orr_scorer *scorer);
/* Where rows are served from storage; NULL: they are mapped. Good until a swap. */
orr_row_server *orr_scorer_rows(const orr_scorer *scorer);
/* What became of the snapshot when it was opened last: "packed", "packed in place of one of other
 * weights", "opened"; NULL: there is none. */
const char *orr_scorer_snapshot_text(const orr_scorer *scorer);

typedef struct orr_score_thread orr_score_thread;
orr_status orr_score_thread_open(orr_scorer *scorer, orr_score_thread **ret,
                                 orr_error *err) ORR_MUST_CHECK;
void orr_score_thread_close(orr_score_thread *thread); /* NULL is allowed */

/* Whole samples, as training reads them. */
typedef struct orr_score_batch {
    int64_t samples;
    const float *dense;     /* shape (samples, dense features) */
    const int32_t *lengths; /* shape (tables, samples) */
    const int64_t *ids;     /* by table, then sample */
} orr_score_batch;
/* ret, shape (samples): logits. INVALID: "table t3, sample 17: id 12 of 10 rows". */
orr_status orr_score_logits(orr_score_thread *thread, const orr_score_batch *batch, float *ret,
                            orr_error *err) ORR_MUST_CHECK;
/* The probability that a logit stands for. */
float orr_score_probability(float logit);
/* Pooled embeddings: lookups of n tables. INVALID as above. */
orr_status orr_score_bags(orr_score_thread *thread, const orr_row_bags *bags, uint32_t n,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_SERVE_SCORER_H */
