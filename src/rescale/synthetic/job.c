/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/plan/check.h"
#include "rescale/plan/price.h"
#include "rescale/plan/stages.h"
#include "rescale/synthetic/synthesis.h"

/* Ranks of a synthetic job, and all of it. */

static orr_plan complete(const orr_plan *given)
{
    orr_plan plan = *given;
    plan.dp = orr_plan_degree(plan.dp);
    plan.tp = orr_plan_degree(plan.tp);
    plan.pp = orr_plan_degree(plan.pp);
    plan.micro_batches = orr_plan_degree(plan.micro_batches);
    plan.micro_batch = orr_plan_degree(plan.micro_batch);
    if (plan.ffn == 0)
        plan.ffn = 4 * plan.hidden;
    if (plan.vocab == 0)
        plan.vocab = 32 * plan.hidden;
    if (plan.schedule == ORR_SCHEDULE_UNKNOWN)
        plan.schedule = ORR_SCHEDULE_1F1B;
    return plan;
}

static orr_status check(const orr_plan *plan, orr_error *err)
{
    if (plan->layers == 0 || plan->hidden == 0 || plan->heads == 0 || plan->seq == 0)
        return orr_fail(err, ORR_INVALID, "a synthetic job needs layers, hidden, heads and seq");
    const uint64_t tokens = (uint64_t)plan->micro_batch * plan->seq;
    if (tokens > (1 << 24) || plan->hidden > (1 << 20) || plan->ffn > (1 << 22) ||
        plan->vocab > (1 << 24) || plan->layers > 4096 || plan->micro_batches > 4096)
        return orr_fail(err, ORR_LIMIT,
                        "a synthetic job of more than 2^24 tokens a micro-batch, "
                        "2^20 hidden columns or 4096 layers");
    return orr_rescale_check(plan, err);
}

orr_status orr_synthetic_rank(const orr_synthetic *spec, uint32_t rank, const orr_graph **ret,
                              orr_error *err)
{
    const orr_plan plan = complete(&spec->plan);
    ORR_TRY(check(&plan, err));
    if (rank >= orr_plan_ranks(&plan))
        return orr_fail(err, ORR_INVALID, "rank %u of a plan of %llu ranks", rank,
                        (unsigned long long)orr_plan_ranks(&plan));
    orr_rendezvous_ids rendezvous = {0};
    const orr_status status = orr_synthesis_build(
        spec, &plan, orr_recorded_position_of(&plan, rank).stage, rank, ret, &rendezvous, err);
    orr_array_done(&rendezvous);
    return status;
}

/* Durations of one stage's graph: shapes price its kernels, its place on the cluster the rest. */
static orr_status price_stage(const orr_plan *plan, uint32_t stage, const orr_graph *g,
                              const orr_rendezvous_id *rendezvous, const orr_pricing *pricing,
                              orr_transfer_pricer *pricer, orr_arena *arena, int64_t *duration_ns,
                              uint8_t *basis, orr_error *err)
{
    const uint32_t rank = orr_recorded_rank_at(plan, (orr_recorded_position){.stage = stage});
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        orr_price price = {.ns = g->duration_ns[v], .basis = ORR_BASIS_ASSUMED};
        if (orr_is_communication(g, v)) {
            const orr_comm *comm = orr_graph_comm(g, v);
            uint32_t pair[2];
            const orr_members members =
                orr_plan_members(plan, rendezvous[g->detail[v]].grouping, rank, g, v, pair);
            const orr_transfer transfer = orr_transfer_of(comm);
            const orr_arena_mark mark = orr_arena_get_mark(arena);
            const uint32_t *ranks = orr_members_ranks(&members, arena);
            if (ranks == NULL)
                return orr_fail_memory(err);
            if (pricer->cluster != NULL)
                ORR_TRY(orr_transfer_price(pricer, &transfer, ranks, members.n, g, v, &price, err));
            orr_arena_rewind(arena, mark);
            if (pricing->network_says || pricer->cluster == NULL)
                price = (orr_price){.ns = -1, .basis = ORR_BASIS_NONE};
        } else if (orr_is_kernel(g, v) && !orr_kernel_price(pricing, g, v, &price)) {
            return orr_fail(err, ORR_INVALID, "nobody can price kernel '%s': name a device",
                            orr_graph_str(g, g->name[v]));
        }
        duration_ns[v] = price.ns;
        basis[v] = price.basis;
    }
    return ORR_OK;
}

static orr_status add_stage(const orr_synthetic *spec, const orr_plan *plan, uint32_t stage,
                            const orr_pricing *pricing, orr_transfer_pricer *pricer,
                            orr_arena *arena, orr_stages *s, orr_error *err)
{
    orr_rendezvous_ids found = {0};
    int64_t *duration_ns;
    uint8_t *basis;
    orr_status status;
    ORR_TRY_OUT(status,
                orr_synthesis_build(spec, plan, stage, ORR_NONE, &s->graphs[stage], &found, err));
    ORR_TRY_OUT(status, orr_stages_add(s, stage, &found, arena, &duration_ns, &basis, err));
    status = price_stage(plan, stage, s->graphs[stage], s->rendezvous[stage], pricing, pricer,
                         arena, duration_ns, basis, err);
out:
    orr_array_done(&found);
    return status;
}

static uint64_t count_device_nodes(const orr_ensemble *e)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < e->n_graphs; i++)
        for (orr_node_id v = 0; v < e->graphs[i]->n_nodes; v++)
            n += orr_is_kernel(e->graphs[i], v) || orr_is_communication(e->graphs[i], v);
    return n;
}

orr_status orr_synthetic_build(const orr_synthetic *spec, const orr_pricing *pricing,
                               orr_arena *arena, orr_rescaled *ret, orr_error *err)
{
    const orr_plan plan = complete(&spec->plan);
    orr_transfer_pricer *pricer = orr_arena_one(arena, orr_transfer_pricer);
    orr_stages s;
    orr_status status;
    if (pricer == NULL)
        return orr_fail_memory(err);
    ORR_TRY(check(&plan, err));
    ORR_TRY(orr_stages_new(&plan, arena, &s, err));
    orr_transfer_pricer_init(pricer, pricing->cluster, pricing->algorithm);
    for (uint32_t stage = 0; stage < plan.pp; stage++)
        ORR_TRY_OUT(status, add_stage(spec, &plan, stage, pricing, pricer, arena, &s, err));
    *ret = (orr_rescaled){.ensemble = s.ensemble,
                          .from = plan,
                          .to = plan,
                          .made = s.graphs,
                          .n_made = plan.pp,
                          .priced = count_device_nodes(s.ensemble)};
    return ORR_OK;
out:
    orr_stages_free_graphs(&s);
    return status;
}

void orr_rescaled_free(orr_rescaled *rescaled)
{
    for (uint32_t i = 0; i < rescaled->n_made; i++)
        orr_graph_free(rescaled->made[i]);
    rescaled->made = NULL;
    rescaled->n_made = 0;
}
