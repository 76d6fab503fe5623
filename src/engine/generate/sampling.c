/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/generate/sampling.h"

#include <math.h>
#include <stdlib.h>

static int32_t most_likely(const float *logits, int64_t vocab)
{
    int64_t best = 0;
    for (int64_t i = 1; i < vocab; i++)
        if (logits[i] > logits[best])
            best = i;
    return (int32_t)best;
}

double orr_log_probability(const float *logits, int64_t vocab, int32_t token)
{
    const float most = logits[most_likely(logits, vocab)];
    double sum = 0;
    for (int64_t i = 0; i < vocab; i++)
        sum += exp((double)(logits[i] - most));
    return (double)(logits[token] - most) - log(sum);
}

/* Largest first, ties by the lower token, so that the order is total. */
static int by_logit(const void *a, const void *b)
{
    const orr_token_candidate *x = a, *y = b;
    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return (x->token > y->token) - (x->token < y->token);
}

/* Candidates for sampling: tokens that are e^-32 times less likely than the best are left out,
 * since a draw of 32 bits cannot reach them. */
#define NEGLIGIBLE 32.0
static int64_t collect(const orr_sampling *s, const float *logits, int64_t vocab,
                       orr_token_candidate *room)
{
    const float most = logits[most_likely(logits, vocab)];
    int64_t n = 0;
    for (int64_t i = 0; i < vocab; i++)
        if ((double)(most - logits[i]) < NEGLIGIBLE * s->temperature)
            room[n++] = (orr_token_candidate){logits[i], (int32_t)i};
    qsort(room, (size_t)n, sizeof *room, by_logit);
    return s->top_k > 0 && n > (int64_t)s->top_k ? (int64_t)s->top_k : n;
}

static double weight(const orr_sampling *s, const orr_token_candidate *room, int64_t i)
{
    return exp((double)(room[i].logit - room[0].logit) / s->temperature);
}

int32_t orr_sample_token(const orr_sampling *s, orr_random *random, const float *logits,
                         int64_t vocab, orr_token_candidate *room)
{
    if (s->temperature <= 0)
        return most_likely(logits, vocab);
    int64_t n = collect(s, logits, vocab, room);
    if (n == 0) /* all logits are NaN */
        return most_likely(logits, vocab);
    double all = 0, kept = 0;
    for (int64_t i = 0; i < n; i++)
        all += weight(s, room, i);
    const double wanted = s->top_p > 0 && s->top_p < 1 ? s->top_p * all : all;
    int64_t some = 0;
    while (some < n && kept < wanted)
        kept += weight(s, room, some++);
    const double at = kept * orr_random_unit(random);
    double sum = 0;
    for (int64_t i = 0; i < some; i++)
        if ((sum += weight(s, room, i)) > at)
            return room[i].token;
    return room[some - 1].token;
}
