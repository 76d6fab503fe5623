/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/dataset.h"

#include <math.h>

#include "base/philox.h"

/* Token t is followed by 3 t + 1 (modulo the vocabulary) in nine of ten cases, else by a random
 * one. */
#define FOLLOWS 0.9

static void fill(const orr_dataset *self, uint64_t index, const orr_dataset_sample *ret)
{
    const uint64_t vocab = *(const uint32_t *)self->ctx;
    orr_random random = orr_random_of(self->seed, index);
    uint64_t token = orr_random_below(&random, vocab);
    for (int64_t i = 0; i < self->tokens; i++) {
        ret->tokens[i] = (int64_t)token;
        token = orr_random_unit(&random) < FOLLOWS ? (3 * token + 1) % vocab
                                                   : orr_random_below(&random, vocab);
        ret->targets[i] = (int64_t)token;
        ret->weights[i] = 1;
    }
}

static int64_t counted(const orr_dataset *self, uint64_t index)
{
    (void)index;
    return self->tokens;
}

orr_status orr_dataset_synthetic(const orr_dataset_options *options, orr_dataset **ret,
                                 orr_error *err)
{
    orr_dataset *b;
    ORR_TRY(orr_dataset_new("synthetic", options, &b, err));
    uint32_t *vocab = orr_arena_one(b->arena, uint32_t);
    if (vocab == NULL) {
        orr_dataset_free(b);
        return orr_fail_memory(err);
    }
    *vocab = options->vocab;
    b->ctx = vocab;
    b->fill = fill;
    b->counted = counted;
    *ret = b;
    return ORR_OK;
}

/* Entropy of the next token: one has probability FOLLOWS and its share of the rest, all others
 * share equally. */
double orr_dataset_synthetic_entropy(uint32_t vocab)
{
    const double rest = (1 - FOLLOWS) / vocab, first = FOLLOWS + rest;
    return -first * log(first) - (vocab - 1) * rest * log(rest);
}
