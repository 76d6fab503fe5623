/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/data_parallel/replicate.h"

#include <string.h>

/* Degrees of the recording: as recognised, or all of it as replicas of one another. */
static orr_status degrees(orr_replication *s, const orr_recognition *known, orr_error *err)
{
    const uint32_t n = s->job->n_ranks;
    s->from = (orr_plan){.dp = n, .tp = 1, .pp = 1};
    if (known != NULL && known->plan.dp > 0 && known->plan.tp > 0 && known->plan.pp > 0 &&
        orr_plan_ranks(&known->plan) == n)
        s->from = (orr_plan){.dp = known->plan.dp, .tp = known->plan.tp, .pp = known->plan.pp};
    const uint32_t a_replica = s->from.tp * s->from.pp;
    if (s->n_ranks == 0 || s->n_ranks % a_replica != 0)
        return orr_fail(err, ORR_INVALID,
                        "%u ranks do not divide into replicas of %u (tp=%u, pp=%u)", s->n_ranks,
                        a_replica, s->from.tp, s->from.pp);
    s->to = s->from;
    s->to.dp = s->n_ranks / a_replica;
    return ORR_OK;
}

/* A recorded rank for the place: of its own replica, or of another one of the same stage and
 * slice. */
static uint32_t recorded_rank_for(const orr_replication *s, orr_recorded_position at)
{
    for (uint32_t i = 0; i < s->from.dp; i++) {
        const orr_recorded_position other = {at.stage, (at.replica + i) % s->from.dp, at.slice};
        const uint32_t rank = orr_recorded_rank_at(&s->from, other);
        if (s->job->graph_of_rank[rank] != ORR_NONE)
            return rank;
    }
    return ORR_NONE;
}

static orr_status new_ensemble(orr_replication *s, orr_error *err)
{
    uint32_t *graph_of_rank = orr_arena_array(s->arena, uint32_t, s->n_ranks);
    int64_t *start_ns = orr_arena_array(s->arena, int64_t, s->n_ranks);
    s->source = orr_arena_array(s->arena, uint32_t, s->n_ranks);
    s->ensemble = orr_arena_one(s->arena, orr_ensemble);
    if (!graph_of_rank || !start_ns || !s->source || !s->ensemble)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < s->n_ranks; r++) {
        const orr_recorded_position at = orr_recorded_position_of(&s->to, r);
        /* Looked up once for each recorded place: replicas repeat. */
        const bool again = at.replica >= s->from.dp;
        s->source[r] =
            again
                ? s->source[orr_recorded_rank_at(
                      &s->to, (orr_recorded_position){at.stage, at.replica - s->from.dp, at.slice})]
                : recorded_rank_for(s, at);
        const uint32_t source = s->source[r];
        graph_of_rank[r] = source == ORR_NONE ? ORR_NONE : s->job->graph_of_rank[source];
        start_ns[r] =
            source == ORR_NONE || s->base->start_ns == NULL ? 0 : s->base->start_ns[source];
    }
    *s->ensemble = (orr_ensemble){.n_ranks = s->n_ranks,
                                  .n_graphs = s->base->n_graphs,
                                  .graphs = s->base->graphs,
                                  .graph_of_rank = graph_of_rank,
                                  .start_ns = start_ns};
    return ORR_OK;
}

static orr_status report(orr_replication *s, const orr_recognition *known, orr_error *err)
{
    const bool told = s->from.tp * s->from.pp > 1 || (known != NULL && known->plan.dp > 0);
    ORR_TRY(orr_findings_number(&s->findings, "ranks", s->n_ranks, ORR_CONFIDENCE_INFERRED, err,
                                "%u replicas of %u ranks%s", s->to.dp, s->from.tp * s->from.pp,
                                told ? ""
                                     : "; no plan is known, so the recording is one replica, "
                                       "repeated"));
    uint32_t grown = 0;
    for (uint32_t i = 0; i < s->n_sets; i++)
        grown += s->sets[i].grows;
    ORR_TRY(orr_findings_number(&s->findings, "groups that grow", grown, ORR_CONFIDENCE_INFERRED,
                                err, "of %u; those that hold all %u recorded replicas", s->n_sets,
                                s->from.dp));
    if (s->to.dp > s->from.dp && s->from.dp == 1)
        ORR_TRY(orr_findings_add(&s->findings, "gradients", "not reduced", ORR_CONFIDENCE_UNKNOWN,
                                 err,
                                 "one replica was recorded, which reduces no gradients: those "
                                 "of %u replicas are not in this",
                                 s->to.dp));
    return ORR_OK;
}

orr_status orr_rescale_replicas(const orr_job *job, const orr_recognition *recognition,
                                uint32_t n_ranks, orr_arena *arena, orr_rescaled *ret,
                                orr_error *err)
{
    orr_replication s = {
        .job = job, .n_ranks = n_ranks, .arena = arena, .findings = {.arena = arena}};
    enum { RANKS_MAX = 1 << 24 }; /* as many as any job may have */
    orr_status status;
    orr_rescaled made = {0};
    if (n_ranks > RANKS_MAX)
        return orr_fail(err, ORR_LIMIT, "%u ranks are over the limit of %d", n_ranks, RANKS_MAX);
    ORR_TRY_OUT(status, degrees(&s, recognition, err));
    ORR_TRY_OUT(status, orr_ensemble_of_job(job, arena, &s.base, err));
    ORR_TRY_OUT(status, new_ensemble(&s, err));
    ORR_TRY_OUT(status, orr_replication_find_sets(&s, err));
    ORR_TRY_OUT(status, orr_replication_pack(&s, err));
    ORR_TRY_OUT(status, orr_replication_rendezvous(&s, err));
    ORR_TRY_OUT(status, report(&s, recognition, err));
    ORR_TRY_OUT(status, orr_findings_keep(&s.findings, &made.findings, &made.n_findings, err));
    made.ensemble = s.ensemble;
    made.from = recognition != NULL ? recognition->plan : s.from;
    made.to = made.from;
    made.to.dp = s.to.dp;
    made.recorded_ensemble = s.base;
    for (uint32_t d = 0; d < job->n_graphs; d++)
        for (orr_node_id v = 0; v < job->graphs[d]->n_nodes; v++)
            made.recorded +=
                orr_is_kernel(job->graphs[d], v) || orr_is_communication(job->graphs[d], v);
    *ret = made;
out:
    orr_findings_done(&s.findings);
    return status;
}
