/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search/experts.h"

/* From what runs to the chosen placement, and whether loads have drifted from window to window. */

static orr_status plan_moves(orr_experts_request *r)
{
    orr_expert_moves_options options;
    const orr_experts_plan *plan = &r->report.plans[0];
    if (!r->has_running || plan->refused != NULL)
        return ORR_OK;
    orr_expert_moves_options_init(&options);
    options.costs = r->options.costs;
    options.step_bytes = r->step_bytes;
    ORR_TRY(orr_expert_moves_plan(&r->running, &plan->result.placement, &options, r->session.arena,
                                  &r->moves, &r->session.err));
    r->moves.fresh_bytes = r->approach.fresh_bytes; /* those of the fresh placement at hand */
    r->report.moves = &r->moves;
    return ORR_OK;
}

/* One window's loads, as loads of their own. */
static orr_expert_windows window_of(const orr_expert_windows *all, uint32_t window)
{
    orr_expert_windows one = *all;
    one.windows = 1;
    one.load += (size_t)window * all->layers * all->experts;
    return one;
}

/* Whether each window has drifted from the one before, for the chosen placement. */
static orr_status find_drift(orr_experts_request *r)
{
    const orr_experts_plan *plan = &r->report.plans[0];
    const uint32_t n = r->has_windows ? r->windows.windows : 0;
    orr_expert_drift *drift = orr_arena_array(r->session.arena, orr_expert_drift, n);
    if (drift == NULL)
        return orr_fail_memory(&r->session.err);
    if (plan->refused != NULL || n < 2)
        return ORR_OK;
    for (uint32_t w = 1; w < n; w++) {
        const orr_expert_windows before = window_of(&r->windows, w - 1),
                                 now = window_of(&r->windows, w);
        ORR_TRY(orr_experts_drift(&plan->result.placement, &before, &now, r->session.arena,
                                  &drift[w - 1], &r->session.err));
    }
    r->report.drift = drift;
    return ORR_OK;
}

orr_status orr_experts_request_moves(orr_experts_request *r)
{
    ORR_TRY(plan_moves(r));
    return find_drift(r);
}
