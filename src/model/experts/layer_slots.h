/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_EXPERTS_LAYER_SLOTS_H
#define ORR_MODEL_EXPERTS_LAYER_SLOTS_H

#include <orrery/experts.h>

/* The slots of one layer on R ranks, and where choices go among the copies of an expert. */
typedef struct orr_layer_slots {
    uint32_t experts, ranks, host_ranks; /* host_ranks 0: all are one host */
    uint32_t n;
    uint32_t *first;  /* shape (R + 1): slots of a rank */
    uint16_t *expert; /* shape (n) */
    double *share;    /* shape (n): of the expert's choices */
    uint32_t *copy;   /* shape (n): slots by expert; those of an expert are */
    uint32_t *begin;  /* shape (E + 1): [begin[e], begin[e + 1]) */
    uint16_t *rank;   /* shape (n): of a slot */
    double *beyond;   /* shape (n): where experts are copied, what a copy may take of other hosts */
    double *of_host;  /* shape (R): part of all tokens that a host's ranks have, by host */
    bool copied;      /* some expert has several slots */
    bool nearest;     /* the placement's */
    uint32_t live;    /* ranks that have slots */
} orr_layer_slots;

/* Most slots of a layer. */
uint32_t orr_layer_slots_most(const orr_expert_placement *placement, uint32_t experts);
/* Room for any layer of the placement; NULL: of neighbouring experts without copies. */
orr_status orr_layer_slots_new(uint32_t experts, uint32_t ranks,
                               const orr_expert_placement *placement, orr_arena *arena,
                               orr_layer_slots *ret, orr_error *err) ORR_MUST_CHECK;
/* Fills in a layer (an index). Ranks of the placement that come to one rank share its slots: of
 * an expert that several of them have, one is left. An expert that one of them has twice (EPLB
 * makes such) takes two slots and uses the first. INVALID: an expert has no slot. */
orr_status orr_layer_slots_set(orr_layer_slots *slots, const orr_expert_placement *placement,
                               uint32_t layer, orr_error *err) ORR_MUST_CHECK;
/* Sends the choices of one rank's tokens, share[E] of them for each expert, to copies as
 * orr_experts_slots() says, in expectation. Adds `weight` times what each
 * slot gets to rows, shape (n); ret_sent, shape (R): what each rank gets. */
void orr_layer_slots_send(const orr_layer_slots *slots, uint32_t rank, const double *share,
                          double weight, double *rows, double *ret_sent);

#endif /* ORR_MODEL_EXPERTS_LAYER_SLOTS_H */
