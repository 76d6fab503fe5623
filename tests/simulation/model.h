/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_SIMULATION_MODEL_H
#define ORR_TESTS_SIMULATION_MODEL_H

#include "team/catchup/catchup.h"
#include "team/ring/ring.h"

/* The model that is trained in simulation: its state is numbers that depend on everything that ever
 * entered them, so that a deviation by one bit is seen at once.
 *
 * Gradients are small integers, so that sums are exact in any order, and they depend on the
 * state that they were made from: a gradient of stale state, or of another slot, does not add
 * up. */
enum { MODEL_OPS = 4, MODEL_SPANS = 2 };
typedef struct model_shape {
    uint32_t n_ops;
    uint32_t n[MODEL_OPS]; /* numbers of a reduction */
    orr_team_dtype dtype[MODEL_OPS];
    uint32_t words; /* of the state, at least 2 */
} model_shape;

typedef struct model {
    const model_shape *shape;
    uint32_t rank;   /* of its replica: each rank holds another part of the model */
    uint64_t *state; /* shape (words); [0] is the step */
    void *in[MODEL_OPS], *out[MODEL_OPS];
    orr_team_span spans[MODEL_SPANS];
} model;

void model_init(model *m, const model_shape *shape, uint32_t rank); /* state after step 0 */
void model_done(model *m);
size_t model_op_bytes(const model_shape *shape, uint32_t op);

/* Computes the gradient of a slot into in[op]. */
void model_compute(model *m, uint32_t op, uint64_t slot);
/* Overwrites memory that nobody may read any more. */
void model_scribble(model *m);
/* Applies the update from the sums in out, in two halves: between them the state is neither the
 * old nor the new one. */
void model_update(model *m, uint64_t step, uint64_t contributors, int half);
uint64_t model_digest(const model *m);
/* Computes the expected sum over slots into out[op]. */
void model_sum(model *m, uint32_t op, const uint64_t *slots, uint32_t n);

#endif /* ORR_TESTS_SIMULATION_MODEL_H */
