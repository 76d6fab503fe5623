/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_EXPERTS_MAKER_H
#define ORR_MODEL_EXPERTS_MAKER_H

#include "model/experts/layer_slots.h"
#include "model/experts/skew.h"

/* Skews in the making. */

/* Sums in another order differ by no more, and decide nothing. */
#define ORR_SKEW_ROUNDING 1e-11

/* What is known of the routing of a model. W windows of G groups each. */
typedef struct orr_skew_loads {
    uint32_t layers, experts, windows, groups;
    const double *load; /* shape (W, G, layers, experts); sums of any size */
    const uint32_t *number;
    const char *source;
} orr_skew_loads;

/* One layer while its skew is found. */
typedef struct orr_skew_scratch {
    orr_layer_slots slots;
    double *share; /* shape (G, E): of one window, sums to 1 each */
    double *rows;  /* shape (slots): of all choices of all ranks */
    double *sent;  /* shape (senders, R): of the choices of a rank */
    double *order; /* shape (slots of a rank) */
    uint32_t senders;
} orr_skew_scratch;

typedef struct orr_skew_maker {
    const orr_model *model;
    const orr_plan *plan;
    const orr_expert_placement *placement; /* NULL: neighbouring experts */
    const orr_routes *routes;              /* that the loads are of; NULL: not known */
    orr_skew_loads loads;
    uint32_t ranks, n_layers;
    uint32_t *layer_of; /* shape (n_layers): of the model, with experts */
    orr_skew_scratch at;
    orr_error *err;
} orr_skew_maker;

/* loads.c: what a workload knows. No layers: nothing. */
orr_skew_loads orr_skew_loads_of(const orr_workload *workload);
orr_status orr_skew_check(const orr_skew_maker *maker) ORR_MUST_CHECK;
/* The recorded layer for the i-th of n layers with experts: that of its number where all layers of
 * the model are recorded by number, else the one at the same part of the depth. */
uint32_t orr_skew_recorded_layer(const orr_skew_maker *maker, uint32_t i, uint32_t layers,
                                 const uint32_t *number);
/* Parts of the ranks whose tokens are of different groups: of several groups on one rank one. */
uint32_t orr_skew_parts(const orr_skew_maker *maker);
/* Shares of a recorded layer in a window, by part. */
void orr_skew_set_shares(orr_skew_maker *maker, uint32_t layer, uint32_t window);

/* layer_skew.c: the skew of the i-th layer with experts, but for `to`, which is in maker->at.sent.
 * ranks 0: it is even. */
orr_status orr_skew_make_layer(orr_skew_maker *maker, uint32_t i,
                               orr_layer_skew *ret) ORR_MUST_CHECK;

#endif /* ORR_MODEL_EXPERTS_MAKER_H */
