/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_DENSE_H
#define ORR_ENGINE_SERVE_DENSE_H

#include "engine/run/program.h"
#include "model/module/module.h"

/* The dense part of a recommendation model (DLRM): from dense features and pooled embeddings to
 * logits, by the program that training runs forward. */

/* Its weights, as training exports them (dense.safetensors). Immutable; any number of runners. */
typedef struct orr_dense orr_dense;
/* UNSUPPORTED: no recommendation model; INVALID: weights of another model. */
orr_status orr_dense_open(const orr_model *model, const char *path, orr_dense **ret,
                          orr_error *err) ORR_MUST_CHECK;
void orr_dense_close(orr_dense *dense); /* NULL is allowed */

/* What one thread computes with: programs for 32, 64, ... samples, made when they are first needed.
 * Fewer samples are filled up, so that a logit has the same bits in any company: products of a few
 * rows are summed in another order. Where `most` is less than 32 that is the only program. */
typedef struct orr_dense_runner {
    int64_t most; /* samples of a run */
    int64_t columns;
    float *features, *bags; /* in, shapes (most, features), (most, columns of all tables) */
    float *logits;          /* out, shape (most) */
    struct orr_dense_programs *programs;
} orr_dense_runner;
orr_status orr_dense_runner_open(const orr_dense *dense, int64_t most, orr_dense_runner *ret,
                                 orr_error *err) ORR_MUST_CHECK;
void orr_dense_runner_close(orr_dense_runner *runner);
/* Logits of the first n samples, 1 <= n <= most. */
orr_status orr_dense_run(orr_dense_runner *runner, int64_t n, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_SERVE_DENSE_H */
