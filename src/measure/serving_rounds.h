/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MEASURE_SERVING_ROUNDS_H
#define ORR_MEASURE_SERVING_ROUNDS_H

#include <orrery/measure.h>

/* The rounds of serving over ranks, one after another, from the routes of the prompts: continuous
 * batching as src/engine/generate/answer.c does it. */
typedef struct orr_serving_rounds orr_serving_rounds;

/* What a rank does in a round. */
typedef struct orr_serving_pass {
    uint32_t samples, tokens; /* tokens of each sample; samples 0: experts alone */
    uint32_t logits;          /* sequences of which a token is sampled */
    bool prefills;
    double cached;       /* tokens before those of a sample, mean */
    const uint64_t *row; /* shape (samples * tokens): rows of the routes */
} orr_serving_pass;

/* `ranks` and everything of the job must outlive the rounds, which are in the arena. INVALID:
 * routes that are not those of the prompts. */
orr_status orr_serving_rounds_open(const orr_serving_job *job, uint32_t ranks, orr_arena *arena,
                                   orr_serving_rounds **ret, orr_error *err) ORR_MUST_CHECK;
/* The passes of the next round, shape (ranks); NULL: there is none. */
const orr_serving_pass *orr_serving_rounds_next(orr_serving_rounds *rounds);
/* The number of the prompt that a row of the routes is of. */
uint32_t orr_serving_prompt(const orr_serving_rounds *rounds, uint64_t row);

#endif /* ORR_MEASURE_SERVING_ROUNDS_H */
