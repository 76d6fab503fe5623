/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_MOVES_LAYER_STATE_H
#define ORR_EXPERTS_MOVES_LAYER_STATE_H

#include "experts/placement/build.h"

/* One layer on its way from the placement that runs: slots keep their ranks, experts change. Its
 * cost, in ns of a step, is rows through the fullest rank plus rows over links, as a mean of the
 * ranks. Rows over links are expectations: requests of a group come from any of its ranks, and each
 * choice goes to the copy on its own rank, else on its own host, else elsewhere. Letters: E
 * experts, R ranks, H hosts, P slots of the layer. */
typedef struct orr_layer_links {
    double host_ns, network_ns; /* of a row that leaves its rank, and its host too; over R */
    double *from_rank;          /* shape (E, R): rows of an expert from a rank */
    double *from_host;          /* shape (E, H) */
} orr_layer_links;

typedef struct orr_layer_state {
    orr_expert_placement layer; /* of one layer, whose arrays are `expert` and `share` */
    uint32_t slots, hosts;
    uint16_t *expert;             /* shape (P) */
    float *share;                 /* shape (P) */
    const uint16_t *rank;         /* shape (P) */
    const uint16_t *began;        /* shape (P): the experts that run */
    double *load;                 /* shape (E): rows of a step */
    double row_ns;                /* of the fullest rank */
    const orr_layer_links *links; /* NULL: load alone counts */
    void *room;                   /* of orr_experts_split() */
    /* Kept up to date by orr_layer_measure(): */
    uint16_t *copies;      /* shape (E) */
    uint16_t *host_copies; /* shape (E, H) */
    double *rank_load;     /* shape (R) */
    double fullest;        /* rows of the fullest rank */
    bool *tight;           /* shape (R), and */
    double *falls;         /* shape (P): of orr_layer_search() */
} orr_layer_state;

/* Splits loads over copies, counts copies and sums the layer up; returns its cost. */
double orr_layer_measure(orr_layer_state *state);
/* What a copy on a rank that has none takes off the cost of links, >= 0; and what the links cost
 * more without the copy in a slot. */
double orr_layer_copy_saves(const orr_layer_state *state, uint32_t expert, uint32_t rank);
double orr_layer_copy_saved(const orr_layer_state *state, uint32_t slot);
/* Whether a rank has an expert. */
bool orr_layer_has(const orr_layer_state *state, uint32_t rank, uint32_t expert);
/* Copies that the layer has and that did not run when it began: what is to be moved. */
uint32_t orr_layer_moved(const orr_layer_state *state);

/* Changes experts until the cost is at most `target`, taking the changes that bring most for each
 * copy moved; none that brings less than `least_gain_ns` a copy. level: rows of a rank that are not
 * too many. within_hosts: experts stay on their hosts. Returns the cost. */
double orr_layer_search(orr_layer_state *state, double target, double level, double least_gain_ns,
                        bool within_hosts);

#endif /* ORR_EXPERTS_MOVES_LAYER_STATE_H */
