/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_PLAN_STAGES_H
#define ORR_RESCALE_PLAN_STAGES_H

#include "rescale/emit/communication.h"
#include "model/plan/plan.h"

/* An ensemble of a plan in the making: a graph for each stage, shared by all its ranks. */
typedef struct orr_stages {
    orr_ensemble *ensemble;
    const orr_graph **graphs; /* shape (stages), the maker's to free on failure */
    const orr_rendezvous_id **rendezvous;
    const int64_t **duration_ns;
    const uint8_t **basis;
} orr_stages;
orr_status orr_stages_new(const orr_plan *plan, orr_arena *arena, orr_stages *ret,
                          orr_error *err) ORR_MUST_CHECK;
/* A stage's graph is there: keeps its rendezvous and makes room for its durations. */
orr_status orr_stages_add(orr_stages *stages, uint32_t stage, const orr_rendezvous_ids *rendezvous,
                          orr_arena *arena, int64_t **ret_duration_ns, uint8_t **ret_basis,
                          orr_error *err) ORR_MUST_CHECK;
void orr_stages_free_graphs(orr_stages *stages);

#endif /* ORR_RESCALE_PLAN_STAGES_H */
