/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPERTS_PLACEMENT_EVALUATE_H
#define ORR_EXPERTS_PLACEMENT_EVALUATE_H

#include <orrery/experts.h>

enum { ORR_EXPERT_LEVELS = 2 }; /* within hosts, beyond */

/* What a layer comes to: the parts of orr_expert_quality. Without routes only `imbalance` and `ns`
 * are known. */
typedef struct orr_layer_quality {
    double imbalance, served, ns; /* ns: of a step, 0 without costs */
    uint32_t doubled;
    uint64_t distinct, choices; /* (token, rank that it goes to); choices that have a slot */
    uint64_t sent[ORR_EXPERT_LEVELS], returned[ORR_EXPERT_LEVELS]; /* rows between ranks */
} orr_layer_quality;

/* Whether options suit a placement: its ranks, loads, routes and costs. INVALID. */
orr_status orr_evaluation_check(const orr_expert_placement *placement,
                                const orr_expert_options *options, orr_error *err) ORR_MUST_CHECK;

/* orr_experts_evaluate() over the layers that are not in `skip`, shape (L), NULL: over all; and
 * each layer for itself. ret_layer: shape (L), of all layers; NULL: nobody asks. INVALID also: all
 * are skipped. */
orr_status orr_experts_evaluate_layers(const orr_expert_placement *placement,
                                       const orr_expert_options *options, const bool *skip,
                                       orr_arena *arena, orr_layer_quality *ret_layer,
                                       orr_expert_quality *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPERTS_PLACEMENT_EVALUATE_H */
