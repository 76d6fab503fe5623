/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_EXPERTS_SKEW_H
#define ORR_MODEL_EXPERTS_SKEW_H

#include <orrery/machine.h>
#include <orrery/model.h>

/* What uneven routing does to the layers of a model: how many rows the fullest rank has, and how
 * many choices of each rank's tokens go to which rank.
 *
 * Letters: R ranks that share the experts (ep), E experts of a layer, K experts of a token, P slots
 * of a rank (E / R, and copies), G groups of requests.
 *
 * Loads are shares, so that they hold for any number of tokens: every micro-batch is taken to be
 * loaded as the recorded tokens were in all, or, of several windows, as the window whose fullest
 * rank is nearest to the mean of theirs. A rank has as many tokens as any other. A choice goes to
 * copies of its expert as orr_experts_slots() sends it.
 *
 * Loads of another number of layers are stretched by position: layer i of n takes the recorded
 * layer floor(i L / n). Loads of fewer experts are those of experts that nobody chose; of more they
 * are another model's, and refused. A placement of R' ranks serves R ranks that divide R': each
 * takes the slots of R' / R neighbours. */
enum { ORR_EXPERT_BUCKETS = 6, ORR_EXPERT_RANKS_PRICED = 3, ORR_LAYER_SKEWS_MAX = 16 };

/* The slots of one rank, the fullest first, in buckets of about equally full ones. */
typedef struct orr_rank_skew {
    double rows; /* of the rank over the mean of ranks */
    uint32_t slots, n;
    struct {
        double slots_frac; /* share of the rank's slots: they sum to 1 */
        double rows;       /* of one of them over the mean of the rank's slots */
    } bucket[ORR_EXPERT_BUCKETS];
} orr_rank_skew;

typedef struct orr_layer_skew {
    double rows;    /* of the fullest rank over the mean of ranks */
    uint32_t slots; /* of the rank that has most */
    uint32_t n_priced;
    orr_rank_skew priced[ORR_EXPERT_RANKS_PRICED]; /* ranks that may take longest: the fullest, the
                                                    * one with most slots, the one with the fullest
                                                    * slot */
    uint32_t ranks, top_k;
    uint32_t senders; /* R; 1: the tokens of all ranks go alike */
    const float *to;  /* shape (senders, R): share of the choices of a rank's tokens; sums to 1 */
} orr_layer_skew;

/* Skews of the layers with experts. Layers that are nearly alike share one: at most
 * ORR_LAYER_SKEWS_MAX, those whose fullest ranks differ least are one. */
typedef struct orr_layer_skews {
    uint32_t n;
    double rows;                /* of the fullest rank over the mean, mean of the layers; 1: even */
    double rows_worst;          /* the same of the layer where it is most */
    uint32_t slots;             /* of the rank and layer that has most; 0: not known */
    const orr_layer_skew *skew; /* shape (n) */
    const uint8_t *of_layer;    /* shape (layers with experts): index + 1; 0: even, experts in
                                 * order */
} orr_layer_skews;
/* n = 0 and of_layer NULL: nothing is known of routing, or one rank has all experts. `plan` is
 * complete. Errors: INVALID: loads or a placement of another model, a placement of ranks that ep
 * does not divide, groups that ranks do not divide; NO_MEMORY; those of orr_experts_place(). */
orr_status orr_layer_skews_of(const orr_model *model, const orr_plan *plan,
                              const orr_workload *workload, orr_arena *arena, orr_layer_skews *ret,
                              orr_error *err) ORR_MUST_CHECK;

/* Rows of an expert under even routing over its share of the tokens: the plan's capacity, where
 * experts are padded to it, or where it is below 1. Tapes have as many. */
double orr_expert_even_rows(const orr_plan *plan);

/* Bytes of an all-to-all of tokens over those of even routing, where R ranks lie `width[0]` to a
 * unit of the lowest level, `width[1]` of these to one of the next...
 *
 * fullest: of the fullest port, by level. sent: all bytes that leave a rank, mean of ranks. With
 * `host_ranks` > 0 a token is sent once to each host (units of so many ranks) that has any of its
 * experts, and there once to each rank; the choices of a token are taken as independent. */
typedef struct orr_port_skew {
    double fullest[ORR_LEVELS_MAX], sent;
} orr_port_skew;
void orr_layer_skew_ports(const orr_layer_skew *skew, const uint32_t *width, uint32_t n_levels,
                          uint32_t host_ranks, orr_port_skew *ret);

#endif /* ORR_MODEL_EXPERTS_SKEW_H */
