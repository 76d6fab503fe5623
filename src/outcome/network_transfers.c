/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/network_check.h"

#include <math.h>
#include <string.h>

#include "model/plan/groups.h"

/* Which transfers of a step cross the levels that are checked, with how many bytes, and out of
 * which units. */

bool orr_network_is_checked(const orr_cluster *cluster, uint32_t level)
{
    const bool cut = cluster->n_sites > 1 && level > cluster->site_level;
    return level > 0 && (cut || cluster->levels[level].transport != NULL);
}

orr_axis orr_checked_axis(const orr_checked_kind *kind)
{
    return kind->grouping == ORR_STEP_MIRROR ? ORR_AXIS_PP : (orr_axis)kind->grouping;
}

/* --- kinds ----------------------------------------------------------------------------------- */

static orr_algorithm algorithm_named(const char *name)
{
    int a = ORR_ALGORITHM_AUTO;
    while (a < ORR_ALGORITHMS && strcmp(orr_algorithm_name((orr_algorithm)a), name) != 0)
        a++;
    return a < ORR_ALGORITHMS ? (orr_algorithm)a : ORR_ALGORITHM_AUTO;
}

static orr_status span_of(const orr_outcome_job *job, const orr_checked_kind *kind, orr_span *ret,
                          orr_error *err)
{
    if (kind->grouping == ORR_AXIS_PP)
        return orr_plan_stage_span(&job->plan, kind->stage, job->cluster, ret, err);
    *ret = kind->grouping == ORR_STEP_MIRROR ? job->step.mirror : job->prices.span[kind->grouping];
    return ORR_OK;
}

/* Bytes and closed form of what a schedule sends over a level. */
static void set_level(const orr_outcome_job *job, uint32_t k, orr_checked_kind *kind)
{
    const orr_network *network = &kind->rates->network;
    const double over = fmax(network->oversubscription[k], 1);
    double bytes = 0;
    for (uint32_t i = 0; i < kind->schedule.n; i++)
        bytes += kind->schedule.phases[i].bytes[k] * fmax(kind->schedule.pieces, 1);
    const orr_rdma_path place = orr_rdma_path_of(job->cluster, network, k);
    const uint8_t setting = orr_step_wire_setting(&job->plan, orr_checked_axis(kind));
    const orr_rdma_transport with =
        orr_rdma_transport_with(job->cluster->levels[k].transport, setting, &place);
    const orr_rdma_effect effect = orr_rdma_effect_of(&with, &place);
    const orr_alpha_beta *bare = network->wired[k] ? &network->bare[k] : &network->levels[k];
    const double port = bare->bytes_per_s[ORR_PROTOCOL_BANDWIDTH];
    kind->way[k] = (orr_checked_way){
        .with = with,
        .sent_bytes = bytes / over,
        .level_ns = bytes * 1e9 / network->levels[k].bytes_per_s[ORR_PROTOCOL_BANDWIDTH],
        .window_bytes = effect.window_bytes,
        .room_ns = orr_rdma_queue_room_ns(&with),
        .round_trip_ns = place.round_trip_ns,
        .port_bytes_per_s = port,
        .share_bytes_per_s = port / over * effect.congestion_frac};
}

static orr_status make_kind(orr_checked_step *step, orr_checked_kind *kind, orr_error *err)
{
    const orr_outcome_job *job = step->outcome->job;
    orr_span span;
    ORR_TRY(span_of(job, kind, &span, err));
    kind->rates =
        orr_step_rates(&job->prices, orr_checked_axis(kind), (orr_collective)kind->collective);
    const orr_price price =
        orr_job_rates_collective(kind->rates, &span, (orr_collective)kind->collective, kind->bytes);
    orr_algorithm algorithm = algorithm_named(price.model);
    kind->schedule.n = 0;
    kind->closed_ns =
        orr_coll_choose(&kind->rates->network, &span, (orr_collective)kind->collective, algorithm,
                        (double)kind->bytes, &algorithm, &kind->schedule);
    for (uint32_t k = 0; k < ORR_LEVELS_MAX && kind->schedule.n > 0; k++)
        if (step->level[k] && span.top >= k)
            set_level(job, k, kind);
    return ORR_OK;
}

static bool is_same(const orr_checked_kind *a, const orr_checked_kind *b)
{
    return a->grouping == b->grouping && a->stage == b->stage && a->collective == b->collective &&
           a->bytes == b->bytes;
}

static orr_status find_kind(orr_checked_step *step, const orr_checked_kind *like, uint32_t *ret,
                            orr_error *err)
{
    orr_checked_kind kind = *like;
    for (*ret = 0; *ret < step->kinds.n; ++*ret)
        if (is_same(&step->kinds.at[*ret], like))
            return ORR_OK;
    ORR_TRY(make_kind(step, &kind, err));
    return orr_array_push(&step->kinds, kind) ? ORR_OK : orr_fail_memory(err);
}

static bool crosses(const orr_checked_kind *kind)
{
    bool any = false;
    for (uint32_t k = 0; k < ORR_LEVELS_MAX; k++)
        any |= kind->way[k].sent_bytes > 0;
    return any && kind->closed_ns > 0 && isfinite(kind->closed_ns);
}

/* --- transfers ------------------------------------------------------------------------------- */

/* The axis, or ORR_STEP_MIRROR, of a grouping of the ensemble; ORR_NONE: another. */
static uint32_t grouping_named(const orr_outcome_job *job, uint32_t grouping)
{
    for (uint32_t k = 0; k < ORR_STEP_WORLD; k++)
        if (job->used[k] && job->grouping_at[k] == grouping)
            return k;
    return ORR_NONE;
}

/* What a member holds, as closed forms take it. */
static int64_t bytes_of(const orr_comm *comm)
{
    return comm->in_bytes > comm->out_bytes ? comm->in_bytes : comm->out_bytes;
}

static orr_status add_transfer(orr_checked_step *step, uint32_t class, orr_node_id v,
                               orr_error *err)
{
    const orr_outcome *o = step->outcome;
    const uint32_t d = o->simulation->timelines[class].graph, stages = o->plan.pp;
    const orr_graph *graph = o->ensemble->graphs[d];
    const orr_comm *comm = orr_graph_comm(graph, v);
    if (comm == NULL || comm->collective == ORR_COLL_RECV)
        return ORR_OK;
    const orr_rendezvous_id *id = &o->ensemble->rendezvous[d][comm - graph->comms];
    orr_checked_transfer t = {.class = class,
                              .graph = d,
                              .stage = o->stage_of_graph[d],
                              .node = v,
                              .ordinal = id->ordinal,
                              .peer = comm->peer,
                              .closed_ns = o->ensemble->duration_ns[d][v]};
    orr_checked_kind like = {.grouping = grouping_named(o->job, id->grouping),
                             .collective = comm->collective,
                             .bytes = bytes_of(comm)};
    if (like.grouping == ORR_NONE || t.closed_ns <= 0)
        return ORR_OK;
    if (like.grouping == ORR_AXIS_PP)
        like.stage =
            (uint32_t)comm->peer == (t.stage + 1) % stages ? t.stage : (uint32_t)comm->peer;
    ORR_TRY(find_kind(step, &like, &t.kind, err));
    t.now_ns = t.closed_ns;
    if (!crosses(&step->kinds.at[t.kind]))
        return ORR_OK;
    return orr_array_push(&step->transfers, t) ? ORR_OK : orr_fail_memory(err);
}

/* --- uplinks --------------------------------------------------------------------------------- */

static bool is_known(const orr_checked_step *step, const orr_checked_uplink *uplink)
{
    bool known = false;
    for (size_t i = 0; i < step->uplinks.n && !known; i++) {
        const orr_checked_uplink *other = &step->uplinks.at[i];
        known = other->level == uplink->level && other->devices == uplink->devices &&
                memcmp(other->ranks, uplink->ranks,
                       step->outcome->plan.pp * sizeof *uplink->ranks) == 0;
    }
    return known;
}

/* Ranks lie on devices of the same number. */
static orr_status add_uplinks(orr_checked_step *step, uint32_t level, orr_error *err)
{
    const orr_outcome_job *job = step->outcome->job;
    const uint32_t stages = job->plan.pp, n = job->n_ranks;
    for (uint32_t first = 0; first < n;) {
        const orr_device_range unit = orr_cluster_unit(job->cluster, level - 1, first);
        const uint32_t end = unit.end < n ? unit.end : n;
        uint32_t *ranks = orr_arena_array(step->arena, uint32_t, stages);
        orr_checked_uplink uplink = {level, end - first, ranks};
        if (ranks == NULL)
            return orr_fail_memory(err);
        for (uint32_t s = 0; s < stages; s++)
            ranks[s] = orr_plan_stage_ranks(&job->plan, s, end) -
                       orr_plan_stage_ranks(&job->plan, s, first);
        if (!is_known(step, &uplink) && !orr_array_push(&step->uplinks, uplink))
            return orr_fail_memory(err);
        first = end;
    }
    return ORR_OK;
}

orr_status orr_checked_step_init(orr_checked_step *step, const orr_outcome *outcome,
                                 orr_arena *arena, orr_error *err)
{
    const orr_simulation *simulation = outcome->simulation;
    *step = (orr_checked_step){.outcome = outcome, .arena = arena};
    for (uint32_t k = 0; k < outcome->cluster->n_levels && k < ORR_LEVELS_MAX; k++)
        step->level[k] = orr_network_is_checked(outcome->cluster, k);
    for (uint32_t c = 0; c < simulation->n_classes; c++) {
        const orr_graph *graph = outcome->ensemble->graphs[simulation->timelines[c].graph];
        for (orr_node_id v = 0; v < graph->n_nodes; v++)
            ORR_TRY(add_transfer(step, c, v, err));
    }
    for (uint32_t k = 0; k < ORR_LEVELS_MAX && step->transfers.n > 0; k++)
        if (step->level[k])
            ORR_TRY(add_uplinks(step, k, err));
    return ORR_OK;
}

void orr_checked_step_done(orr_checked_step *step)
{
    orr_array_done(&step->kinds);
    orr_array_done(&step->transfers);
    orr_array_done(&step->uplinks);
}

double orr_checked_price_frac(const orr_checked_kind *kind, const double *flow_ns)
{
    orr_network network = kind->rates->network;
    for (uint32_t k = 0; k < ORR_LEVELS_MAX; k++) {
        const double slower = flow_ns[k] / kind->way[k].level_ns;
        if (!(kind->way[k].level_ns > 0) || !(flow_ns[k] > 0))
            continue;
        network.window_bytes_per_s[k] = 0; /* both are in the flows */
        network.queue_ns[k] = 0;
        for (int p = 0; p < ORR_PROTOCOLS; p++) {
            network.levels[k].bytes_per_s[p] /= slower;
            network.reduction[k].bytes_per_s[p] /= slower;
        }
    }
    return orr_coll_schedule_ns(&network, &kind->schedule) / kind->closed_ns;
}
