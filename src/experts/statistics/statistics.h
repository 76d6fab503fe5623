/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_STATISTICS_STATISTICS_H
#define ORR_EXPERTS_STATISTICS_STATISTICS_H

#include <orrery/experts.h>

/* What routes say of a model's experts before anybody places them. Letters as in
 * <orrery/experts.h>. A figure that routes do not give (of one phase, one kind, K = 1, the last
 * layer) is NAN. Loads are shares of a layer's choices. The distance of two loads is their total
 * variation: half the sum of absolute differences, 0 (equal) to 1 (no expert in common). */

/* A layer is concentrated where one expert is chosen by more than this share of its tokens. Such a
 * layer decides every worst-of figure, so these are told with and without it. */
#define ORR_EXPERT_CONCENTRATED_FRAC 0.9

typedef struct orr_expert_layer_statistics {
    uint32_t layer; /* the layer's number in the model */
    uint32_t top_expert;
    double top_frac; /* of the tokens, that chose it */
    bool concentrated;
    uint32_t unused;          /* experts that no token chose */
    double effective_experts; /* exp of the entropy of the load: E where it is even */
    double phase_correlation; /* Pearson's, over experts, of the loads of prefill and decode */
    double kind_distance;     /* of the loads of two kinds of requests, mean over pairs of kinds */
    /* Co-activation: pairs of experts that a token chose together, against pairs drawn
     * independently by the same loads. */
    double pair_distance; /* of both distributions of pairs */
    double pair_noise;    /* what their distance would be by chance, were choices independent */
    uint32_t pair[2];     /* the pair with the largest excess; ORR_NONE: none */
    double pair_frac;     /* of the tokens, that chose it */
    double pair_lift;     /* times as often as independent choices would */
    /* The next layer's choices, of one half of the requests as learnt from the other half: NAN
     * where there is one request. */
    double next_accuracy_frac; /* among the K experts that follow this one's expert most often */
    double next_baseline_frac; /* among the K experts that are chosen most often at all */
    double mutual_bits; /* information that this layer's expert has of the next layer's, less the
                         * bias of finite samples (Miller and Madow) */
    double next_bits;   /* entropy of the next layer's load */
} orr_expert_layer_statistics;

/* A figure over layers. `tail` is the 95th percentile (nearest rank), of figures whose small
 * values are bad the 5th; `worst` likewise is the largest or the smallest. */
typedef struct orr_expert_spread {
    double mean, tail, worst;
    uint32_t worst_layer; /* number; ORR_NONE: no layer has the figure */
} orr_expert_spread;

/* Imbalance where `ranks` ranks hold neighbouring experts, the first ranks one more where ranks do
 * not divide them: the load of the fullest rank over the mean. */
typedef struct orr_expert_linear_imbalance {
    uint32_t ranks;
    orr_expert_spread all, without; /* without the concentrated layers */
} orr_expert_linear_imbalance;

/* Two kinds of requests, or the two halves of one kind's requests (a = b): what chance does. */
typedef struct orr_expert_kind_shift {
    uint32_t a, b;
    orr_expert_spread all, without; /* of distances over layers */
} orr_expert_kind_shift;

/* How well the prefill of a request tells its decode: Pearson's correlation of their counts over
 * experts, mean over layers that are not concentrated; over requests that have both phases. */
typedef struct orr_expert_request_statistics {
    uint32_t requests, without_prefill, without_decode;
    double own, own_low; /* mean and 5th percentile, with the request's own decode */
    double other;        /* mean, with the decode of another request */
} orr_expert_request_statistics;

enum { ORR_EXPERT_KINDS_MAX = 64 }; /* kinds beyond are not compared */

typedef struct orr_expert_statistics {
    uint64_t tokens, prefill_tokens;
    uint32_t layers, experts, top_k;
    const orr_expert_layer_statistics *of_layer;  /* shape (L) */
    const double *load;                           /* shape (L, E) */
    uint32_t concentrated;                        /* layers */
    const orr_expert_linear_imbalance *imbalance; /* shape (n_imbalance): of 2, 4, 8, ... ranks up
                                                   * to E, and of the ranks asked for */
    uint32_t n_imbalance;
    const uint64_t *kind_tokens;        /* shape (kinds of the routes, at most KINDS_MAX) */
    const orr_expert_kind_shift *shift; /* shape (n_shift): a <= b; none where there is one kind */
    uint32_t n_shift, kinds;            /* kinds compared */
    orr_expert_request_statistics request;
} orr_expert_statistics;

/* One pass over the columns of each layer, one over requests. `ranks`: 0, or of one more row of
 * `imbalance`. `threads`: 0: one per core; the result does not depend on it. LIMIT: 2^32 tokens or
 * more. */
orr_status orr_expert_statistics_of_routes(const orr_routes *routes, uint32_t ranks, int threads,
                                           orr_arena *arena, orr_expert_statistics *ret,
                                           orr_error *err) ORR_MUST_CHECK;
/* Of loads alone, summed over windows: what routes say beside loads is NAN, and none of `shift`.
 * `top_frac` is then a share of choices. */
orr_status orr_expert_statistics_of_windows(const orr_expert_windows *windows, uint32_t ranks,
                                            orr_arena *arena, orr_expert_statistics *ret,
                                            orr_error *err) ORR_MUST_CHECK;

/* Of one layer's load, shape (E), as in orr_expert_linear_imbalance. */
double orr_expert_linear_imbalance_of(const double *load, uint32_t experts, uint32_t ranks);
/* A figure by layer, value: shape (L), over the layers that have it; `concentrated` false: without
 * those. room: shape (L), is overwritten. */
orr_expert_spread orr_expert_spread_of(const orr_expert_statistics *statistics, const double *value,
                                       bool low_is_bad, bool concentrated, double *room);

#endif /* ORR_EXPERTS_STATISTICS_STATISTICS_H */
