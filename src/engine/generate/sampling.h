/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_GENERATE_SAMPLING_H
#define ORR_ENGINE_GENERATE_SAMPLING_H

#include <orrery/engine.h>

#include "base/philox.h"

/* The next token, out of logits: the most likely one at temperature 0 (the first of equals), else
 * one that is drawn from the best top_k, of which the likeliest that make up top_p (Holtzman et
 * al., arXiv 1904.09751). */
typedef struct orr_token_candidate {
    float logit;
    int32_t token;
} orr_token_candidate;
/* `room`: shape (vocab), scratch. */
int32_t orr_sample_token(const orr_sampling *sampling, orr_random *random, const float *logits,
                         int64_t vocab, orr_token_candidate *room);
/* ln of the probability of a token, at temperature 1. */
double orr_log_probability(const float *logits, int64_t vocab, int32_t token);

#endif /* ORR_ENGINE_GENERATE_SAMPLING_H */
