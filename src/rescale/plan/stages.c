/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/plan/stages.h"

#include <string.h>

orr_status orr_stages_new(const orr_plan *plan, orr_arena *arena, orr_stages *ret, orr_error *err)
{
    const uint32_t p = plan->pp, n_ranks = (uint32_t)orr_plan_ranks(plan);
    orr_stages s = {.ensemble = orr_arena_one(arena, orr_ensemble),
                    .graphs = orr_arena_array(arena, const orr_graph *, p),
                    .rendezvous = orr_arena_array(arena, const orr_rendezvous_id *, p),
                    .duration_ns = orr_arena_array(arena, const int64_t *, p),
                    .basis = orr_arena_array(arena, const uint8_t *, p)};
    uint32_t *graph_of_rank = orr_arena_array(arena, uint32_t, n_ranks);
    if (!s.ensemble || !s.graphs || !s.rendezvous || !s.duration_ns || !s.basis || !graph_of_rank)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < n_ranks; r++)
        graph_of_rank[r] = orr_recorded_position_of(plan, r).stage;
    *s.ensemble = (orr_ensemble){.n_ranks = n_ranks,
                                 .n_graphs = p,
                                 .n_groupings = ORR_PLAN_GROUPINGS,
                                 .graphs = s.graphs,
                                 .graph_of_rank = graph_of_rank,
                                 .rendezvous = s.rendezvous,
                                 .duration_ns = s.duration_ns,
                                 .basis = s.basis};
    *ret = s;
    return orr_plan_groupings(plan, arena, &s.ensemble->groupings, err);
}

orr_status orr_stages_add(orr_stages *s, uint32_t stage, const orr_rendezvous_ids *rendezvous,
                          orr_arena *arena, int64_t **ret_duration_ns, uint8_t **ret_basis,
                          orr_error *err)
{
    const uint32_t n_nodes = s->graphs[stage]->n_nodes;
    orr_rendezvous_id *kept = orr_arena_array(arena, orr_rendezvous_id, rendezvous->n);
    int64_t *duration_ns = orr_arena_array(arena, int64_t, n_nodes);
    uint8_t *basis = orr_arena_array(arena, uint8_t, n_nodes);
    if (kept == NULL || duration_ns == NULL || basis == NULL)
        return orr_fail_memory(err);
    if (rendezvous->n > 0)
        memcpy(kept, rendezvous->at, rendezvous->n * sizeof *kept);
    s->rendezvous[stage] = kept;
    s->duration_ns[stage] = *ret_duration_ns = duration_ns;
    s->basis[stage] = *ret_basis = basis;
    return ORR_OK;
}

void orr_stages_free_graphs(orr_stages *s)
{
    for (uint32_t stage = 0; stage < s->ensemble->n_graphs; stage++)
        orr_graph_free(s->graphs[stage]);
}
