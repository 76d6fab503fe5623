/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_GENERATE_ANSWER_H
#define ORR_ENGINE_GENERATE_ANSWER_H

#include "base/philox.h"
#include "engine/generate/experts.h"
#include "engine/generate/sampling.h"

/* The prompts that a rank answers, while it does. */

/* A sequence in a slot of the cache. */
typedef struct orr_sequence {
    uint32_t prompt;
    int64_t cached; /* tokens in the cache */
    int32_t next;   /* the next input token */
    orr_random random;
} orr_sequence;

typedef struct orr_answering {
    orr_generator *g;
    const orr_answer_job *job;
    orr_generation_times times;
    orr_sequence *slots; /* shape (batch) */
    uint32_t n, taken;   /* active slots are 0 .. n - 1; of the job's prompts begun */
    bool prefilling;     /* slot n has a prompt, of which slots[n].cached tokens are in the cache */
    orr_token_candidate *room;
    bool *ended; /* shape (batch): ended in this round */
    bool over;
    uint32_t group; /* where the sequence of slot n - 1, just prefilled, should go on; ORR_NONE:
                     * here */
    int64_t began_ns;
    orr_error *err;
} orr_answering;

/* Copies the caches of a slot to another. */
void orr_answering_copy_slot(orr_answering *a, uint32_t to, uint32_t from);
/* Moves the last sequence, and a prompt that is being prefilled behind it, into a slot that has
 * ended. */
void orr_answering_release_slot(orr_answering *a, uint32_t slot);

/* grouping.c: sequences that go on elsewhere change ranks, on all ranks between rounds. */
orr_status orr_answering_move(orr_answering *a) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_GENERATE_ANSWER_H */
