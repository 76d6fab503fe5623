/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_GENERATE_SAMPLING_H
#define ORR_ENGINE_GENERATE_SAMPLING_H

#include <orrery/engine.h>

#include "base/philox.h"

/* Samples the next token from logits: the most likely one at temperature 0 (of equals the first),
 * else one drawn from the best top_k (top-k sampling), restricted to the likeliest that make up
 * top_p (nucleus sampling: Holtzman et al., arXiv 1904.09751). */
typedef struct orr_token_candidate {
    float logit;
    int32_t token;
} orr_token_candidate;
/* `room`: shape (vocab), scratch. */
int32_t orr_sample_token(const orr_sampling *sampling, orr_random *random, const float *logits,
                         int64_t vocab, orr_token_candidate *room);
/* Natural logarithm of a token's probability, at temperature 1. */
double orr_log_probability(const float *logits, int64_t vocab, int32_t token);

#endif /* ORR_ENGINE_GENERATE_SAMPLING_H */
