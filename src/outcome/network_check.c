/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/network_check.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* A step replayed with flows: starts of transfers from the simulation of the step, their times from
 * that of the flows, and round again until both agree. */

enum { ROUNDS = 8, FREE_ROUNDS = 4 };      /* at most, for a draw */
static const double SETTLED_FRAC = 0.0005; /* of the step: nearer is as good as equal */

typedef struct check {
    const orr_network_check_options *options;
    orr_checked_step step;
    orr_job_options how; /* the simulation is made as the outcome's was */
    orr_network_cause without;
    orr_array(orr_path_traffic) traffic;
    orr_array(orr_path_transfer) sent;
    orr_array(uint32_t) order;   /* transfers of the step that are sent over the uplink */
    orr_array(uint64_t) names;   /* of traffic */
    int64_t *start_ns, *took_ns; /* shape (transfers) */
    int64_t **duration_ns;       /* shape (graphs)(nodes) */
    int64_t *of_ordinal;         /* shape (ordinals): of stages' transfers, in the last round */
    uint32_t n_ordinals;
    orr_path_room room;
    orr_error *err;
} check;

static const char *const CAUSES[ORR_NETWORK_CAUSES] = {
#define CAUSE_(name, text) [ORR_NETWORK_CAUSE_##name] = text,
    ORR_NETWORK_CAUSE_MAP(CAUSE_)
#undef CAUSE_
};

const char *orr_network_cause_name(orr_network_cause cause)
{
    return cause < ORR_NETWORK_CAUSES ? CAUSES[cause] : "";
}

void orr_network_check_options_init(orr_network_check_options *options)
{
    *options = (orr_network_check_options){.struct_bytes = sizeof *options, .draws = 16, .seed = 1};
}

/* --- flows of an uplink ---------------------------------------------------------------------- */

/* Connections that a transfer opens out of a unit: those of the class's ranks there. */
static uint32_t connections_of(const check *c, const orr_checked_transfer *t,
                               const orr_checked_uplink *uplink)
{
    const orr_outcome *o = c->step.outcome;
    const double ranks = (double)o->n_ranks / o->plan.pp;
    const double here =
        uplink->ranks[t->stage] * (double)o->simulation->timelines[t->class].n_ranks / ranks;
    return here > 0 ? (uint32_t)fmax(1, round(here)) : 0;
}

static orr_path_traffic traffic_of(const check *c, const orr_checked_transfer *t,
                                   const orr_checked_uplink *uplink)
{
    const orr_checked_kind *kind = &c->step.kinds.at[t->kind];
    const orr_checked_way *way = &kind->way[uplink->level];
    const bool collide = c->without != ORR_NETWORK_CAUSE_COLLISIONS;
    const bool bounded = c->without != ORR_NETWORK_CAUSE_WINDOWS;
    return (orr_path_traffic){.connections = connections_of(c, t, uplink),
                              .queue_pairs = way->with.queue_pairs,
                              .segments = way->with.outstanding,
                              .port_bytes_per_s = way->port_bytes_per_s,
                              .window_bytes = bounded ? way->window_bytes : 0,
                              .balance = collide ? way->with.balance : ORR_BALANCE_ADAPTIVE,
                              .priority = c->options->priority[orr_checked_axis(kind)]};
}

/* Paths and losses are the network's own; what a setting assumes of them counts, too. */
static void widen(const orr_checked_way *way, const orr_checked_uplink *uplink,
                  orr_path_network *network)
{
    const double bytes_per_s = way->share_bytes_per_s * uplink->devices;
    if (!(network->bytes_per_s > 0) || bytes_per_s < network->bytes_per_s)
        network->bytes_per_s = bytes_per_s;
    network->paths = way->with.paths > network->paths ? way->with.paths : network->paths;
    network->failed = way->with.failed > network->failed ? way->with.failed : network->failed;
    network->loss_frac = fmax(network->loss_frac, way->with.loss_frac);
    network->room_ns = fmax(network->room_ns, way->room_ns);
    network->round_trip_ns = way->round_trip_ns;
    const double each = way->share_bytes_per_s / fmax(1, way->with.queue_pairs);
    if (!(network->others_port > 0) || each < network->others_port)
        network->others_port = each;
}

/* No path is slower than a port (as in rdma_transport.h): of an uplink that is narrower than as
 * many ports as it has paths, fewer are there; those that fail then take their share of each. */
static void narrow(const check *c, double port_bytes_per_s, orr_path_network *network)
{
    const double ports = fmax(1, floor(network->bytes_per_s / port_bytes_per_s + 1e-6));
    if (network->paths == 0)
        network->paths = 1;
    if (network->failed >= network->paths)
        network->failed = network->paths - 1;
    if (c->without == ORR_NETWORK_CAUSE_FAILED)
        network->failed = 0;
    if (ports >= network->paths)
        return;
    network->bytes_per_s *= (double)(network->paths - network->failed) / network->paths;
    network->paths = (uint32_t)ports;
    network->failed = 0;
}

static void leave_out(const check *c, orr_path_network *network)
{
    network->selective = c->options->selective;
    network->others_frac = c->without == ORR_NETWORK_CAUSE_OTHERS ? 0 : c->options->others_frac;
    for (int axis = 0; axis < ORR_AXES; axis++)
        if (c->options->priority[axis] > network->others_class)
            network->others_class = c->options->priority[axis];
    if (c->without == ORR_NETWORK_CAUSE_LOSS)
        network->loss_frac = 0;
    if (c->without == ORR_NETWORK_CAUSE_QUEUES)
        network->room_ns = 0;
}

/* Connections have a name: who sends along which axis to which stage. */
static orr_status find_traffic(check *c, const orr_checked_transfer *t,
                               const orr_checked_uplink *uplink, uint32_t *ret)
{
    const uint64_t name = (uint64_t)t->class << 32 |
                          (uint64_t)c->step.kinds.at[t->kind].grouping << 24 |
                          ((uint32_t)(t->peer + 1) & 0xffffff);
    for (*ret = 0; *ret < c->names.n; ++*ret)
        if (c->names.at[*ret] == name)
            return ORR_OK;
    const orr_path_traffic traffic = traffic_of(c, t, uplink);
    return orr_array_push(&c->names, name) && orr_array_push(&c->traffic, traffic)
               ? ORR_OK
               : orr_fail_memory(c->err);
}

static int by_start(const void *a_, const void *b_, void *ctx)
{
    const check *c = ctx;
    const uint32_t a = *(const uint32_t *)a_, b = *(const uint32_t *)b_;
    const int64_t at = c->start_ns[a], other = c->start_ns[b];
    return at != other ? (at > other) - (at < other) : (a > b) - (a < b);
}

/* Transfers that leave by an uplink, in order of time. */
static orr_status list_sent(check *c, const orr_checked_uplink *uplink, orr_path_network *network)
{
    c->order.n = c->traffic.n = c->names.n = c->sent.n = 0;
    for (uint32_t i = 0; i < c->step.transfers.n; i++) {
        const orr_checked_transfer *t = &c->step.transfers.at[i];
        if (!(c->step.kinds.at[t->kind].way[uplink->level].sent_bytes > 0) ||
            connections_of(c, t, uplink) == 0)
            continue;
        widen(&c->step.kinds.at[t->kind].way[uplink->level], uplink, network);
        if (!orr_array_push(&c->order, i))
            return orr_fail_memory(c->err);
    }
    if (c->order.n > 0)
        qsort_r(c->order.at, c->order.n, sizeof *c->order.at, by_start, c);
    for (size_t k = 0; k < c->order.n; k++) {
        const orr_checked_transfer *t = &c->step.transfers.at[c->order.at[k]];
        orr_path_transfer sent = {.start_ns = c->start_ns[c->order.at[k]],
                                  .bytes = c->step.kinds.at[t->kind].way[uplink->level].sent_bytes};
        ORR_TRY(find_traffic(c, t, uplink, &sent.traffic));
        if (!orr_array_push(&c->sent, sent))
            return orr_fail_memory(c->err);
    }
    return ORR_OK;
}

/* Without sharing, each transfer has as much of the uplink as its closed form gives it: it starts
 * when no other is under way, and its ports let no more through. */
static void keep_apart(check *c, const orr_path_network *network, double devices)
{
    static const int64_t APART_NS = INT64_C(1) << 44; /* five hours */
    for (size_t k = 0; k < c->sent.n; k++)
        c->sent.at[k].start_ns = (int64_t)k * APART_NS;
    const double left = (double)(network->paths - network->failed) / network->paths;
    for (size_t k = 0; k < c->traffic.n; k++)
        c->traffic.at[k].port_bytes_per_s = network->bytes_per_s * left / devices;
}

static orr_status run_uplink(check *c, uint32_t number, uint64_t draw)
{
    const orr_checked_uplink *uplink = &c->step.uplinks.at[number];
    orr_path_network network = {0};
    ORR_TRY(list_sent(c, uplink, &network));
    if (c->sent.n == 0)
        return ORR_OK;
    leave_out(c, &network);
    narrow(c, c->traffic.at[0].port_bytes_per_s, &network);
    if (c->without == ORR_NETWORK_CAUSE_SHARING)
        keep_apart(c, &network, uplink->devices);
    const orr_path_job job = {.network = network,
                              .traffic = c->traffic.at,
                              .transfers = c->sent.at,
                              .n_traffic = (uint32_t)c->traffic.n,
                              .n = (uint32_t)c->sent.n,
                              .seed = c->options->seed + number};
    ORR_TRY(orr_path_flows_simulate(&job, draw, &c->room, c->took_ns, c->err));
    for (size_t k = 0; k < c->sent.n; k++) {
        orr_checked_transfer *t = &c->step.transfers.at[c->order.at[k]];
        t->flow_ns[uplink->level] = fmax(t->flow_ns[uplink->level], (double)c->took_ns[k]);
    }
    return ORR_OK;
}

/* --- replay ---------------------------------------------------------------------------------- */

/* A transfer starts when its last member has arrived: its own time before its end. */
static void set_starts(check *c, const orr_simulation *simulation)
{
    for (size_t i = 0; i < c->step.transfers.n; i++) {
        const orr_checked_transfer *t = &c->step.transfers.at[i];
        const orr_timeline *line = &simulation->timelines[t->class];
        c->start_ns[i] = line->start_ns[t->node] + line->duration_ns[t->node] - t->now_ns;
    }
}

/* What flows say of each transfer; later (not `whole`) half way from what it took before, so that
 * starts and times settle that would go to and fro. */
static void set_times(check *c, bool whole)
{
    memset(c->of_ordinal, 0, c->n_ordinals * sizeof *c->of_ordinal);
    for (size_t i = 0; i < c->step.transfers.n; i++) {
        orr_checked_transfer *t = &c->step.transfers.at[i];
        const orr_checked_kind *kind = &c->step.kinds.at[t->kind];
        const int64_t flow_ns =
            (int64_t)((double)t->closed_ns * orr_checked_price_frac(kind, t->flow_ns) + 0.5);
        t->now_ns = whole ? flow_ns : (t->now_ns + flow_ns) / 2;
        if (kind->grouping == ORR_AXIS_PP && t->ordinal < c->n_ordinals &&
            t->now_ns > c->of_ordinal[t->ordinal])
            c->of_ordinal[t->ordinal] = t->now_ns;
        c->duration_ns[t->graph][t->node] = t->now_ns;
    }
}

/* A send and its receive take as long as each other: a rendezvous takes the shorter. */
static void pair_stages(check *c)
{
    const orr_outcome *o = c->step.outcome;
    const uint32_t grouping = o->job->grouping_at[ORR_AXIS_PP];
    for (uint32_t d = 0; d < o->ensemble->n_graphs && o->job->used[ORR_AXIS_PP]; d++) {
        const orr_graph *graph = o->ensemble->graphs[d];
        for (orr_node_id v = 0; v < graph->n_nodes; v++) {
            const orr_comm *comm = orr_graph_comm(graph, v);
            if (comm == NULL)
                continue;
            const orr_rendezvous_id *id = &o->ensemble->rendezvous[d][comm - graph->comms];
            if (id->grouping == grouping && id->ordinal < c->n_ordinals &&
                c->of_ordinal[id->ordinal] > 0)
                c->duration_ns[d][v] = c->of_ordinal[id->ordinal];
        }
    }
}

/* What computation loses beside transfers of gradients and weights is a node after them, in
 * proportion to their time (orr_step_exposed_frac()): it grows and shrinks with them. */
static void scale_beside(check *c)
{
    const orr_outcome *o = c->step.outcome;
    for (uint32_t d = 0; d < o->ensemble->n_graphs; d++) {
        const orr_graph *graph = o->ensemble->graphs[d];
        const int64_t *closed = o->ensemble->duration_ns[d];
        double closed_ns = 0, now_ns = 0;
        for (orr_node_id v = 0; v < graph->n_nodes; v++) {
            const bool sent = orr_graph_comm(graph, v) != NULL;
            if (sent && o->nodes[d][v].part == ORR_WATERFALL_DP) {
                closed_ns += (double)closed[v];
                now_ns += (double)c->duration_ns[d][v];
            } else if (!sent && closed_ns > 0 &&
                       strcmp(orr_graph_str(graph, graph->name[v]), "beside a transfer") == 0) {
                c->duration_ns[d][v] = (int64_t)((double)closed[v] * now_ns / closed_ns + 0.5);
                closed_ns = now_ns = 0;
            }
        }
    }
}

static orr_status simulate_again(check *c, orr_arena *arena, const orr_simulation **ret)
{
    orr_ensemble ensemble = *c->step.outcome->ensemble;
    ensemble.duration_ns = (const int64_t *const *)c->duration_ns;
    return orr_outcome_simulate(c->step.outcome->job, &c->how, &ensemble, arena, ret, c->err);
}

static void reset(check *c)
{
    const orr_ensemble *e = c->step.outcome->ensemble;
    for (uint32_t d = 0; d < e->n_graphs; d++)
        memcpy(c->duration_ns[d], e->duration_ns[d],
               e->graphs[d]->n_nodes * sizeof **c->duration_ns);
    for (size_t i = 0; i < c->step.transfers.n; i++)
        c->step.transfers.at[i].now_ns = c->step.transfers.at[i].closed_ns;
    set_starts(c, c->step.outcome->simulation);
}

/* One draw of the hash. */
static orr_status run_draw(check *c, uint64_t draw, int64_t *ret_step_ns, int64_t *ret_settled_ns)
{
    int64_t step_ns = c->step.outcome->step_ns, off_ns = INT64_MAX;
    const double settled_ns = SETTLED_FRAC * (double)step_ns;
    orr_status status = ORR_OK;
    reset(c);
    for (int round = 0; round < ROUNDS && (double)off_ns > settled_ns; round++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const orr_simulation *simulation;
        if (arena == NULL)
            return orr_fail_memory(c->err);
        for (size_t i = 0; i < c->step.transfers.n; i++)
            memset(c->step.transfers.at[i].flow_ns, 0, sizeof c->step.transfers.at[i].flow_ns);
        for (uint32_t i = 0; i < c->step.uplinks.n && status == ORR_OK; i++)
            status = run_uplink(c, i, draw);
        if (status == ORR_OK) {
            set_times(c, round < FREE_ROUNDS);
            pair_stages(c);
            scale_beside(c);
            status = simulate_again(c, arena, &simulation);
        }
        if (status == ORR_OK) {
            const int64_t now_ns = simulation->end_ns - simulation->begin_ns;
            off_ns = now_ns > step_ns ? now_ns - step_ns : step_ns - now_ns;
            step_ns = now_ns;
            set_starts(c, simulation);
        }
        orr_arena_free(arena);
        if (status != ORR_OK)
            return status;
    }
    *ret_step_ns = step_ns;
    *ret_settled_ns = off_ns;
    return ORR_OK;
}

/* --- what it comes to ------------------------------------------------------------------------ */

/* The axis and level whose flows differ most from their closed forms, in time of all ranks. */
static void set_axis(const check *c, orr_network_check *ret)
{
    double off_ns[ORR_AXES][ORR_LEVELS_MAX] = {{0}}, closed_ns[ORR_AXES][ORR_LEVELS_MAX] = {{0}};
    double most_ns = 0;
    for (size_t i = 0; i < c->step.transfers.n; i++) {
        const orr_checked_transfer *t = &c->step.transfers.at[i];
        const orr_checked_kind *kind = &c->step.kinds.at[t->kind];
        const double ranks = c->step.outcome->simulation->timelines[t->class].n_ranks;
        for (uint32_t k = 0; k < ORR_LEVELS_MAX; k++) {
            if (!(kind->way[k].sent_bytes > 0) || !(t->flow_ns[k] > 0))
                continue;
            off_ns[orr_checked_axis(kind)][k] += ranks * (double)(t->now_ns - t->closed_ns);
            closed_ns[orr_checked_axis(kind)][k] += ranks * (double)t->closed_ns;
        }
    }
    for (uint32_t axis = 0; axis < ORR_AXES; axis++)
        for (uint32_t k = 0; k < ORR_LEVELS_MAX; k++)
            if (fabs(off_ns[axis][k]) > most_ns) {
                most_ns = fabs(off_ns[axis][k]);
                ret->axis = (uint8_t)axis;
                ret->level = k;
                ret->excess_frac = off_ns[axis][k] / closed_ns[axis][k];
            }
}

/* The first draw without each cause in turn. */
static orr_status find_cause(check *c, orr_network_check *ret)
{
    int64_t with_ns, without_ns, off_ns, most_ns = 0;
    ORR_TRY(run_draw(c, 0, &with_ns, &off_ns));
    set_axis(c, ret);
    for (int cause = ORR_NETWORK_CAUSE_NONE + 1; cause < ORR_NETWORK_CAUSE_ASSUMED; cause++) {
        c->without = (orr_network_cause)cause;
        ORR_TRY(run_draw(c, 0, &without_ns, &off_ns));
        const int64_t changed_ns =
            with_ns > without_ns ? with_ns - without_ns : without_ns - with_ns;
        if (changed_ns > most_ns) {
            most_ns = changed_ns;
            ret->cause = (uint8_t)cause;
        }
    }
    c->without = ORR_NETWORK_CAUSE_NONE;
    if (fabs((double)(with_ns - ret->closed_ns)) > 1.1 * (double)most_ns)
        ret->cause = ORR_NETWORK_CAUSE_ASSUMED;
    return ORR_OK;
}

static int by_time(const void *a_, const void *b_)
{
    const int64_t a = *(const int64_t *)a_, b = *(const int64_t *)b_;
    return (a > b) - (a < b);
}

static orr_status run_draws(check *c, orr_arena *arena, orr_network_check *ret)
{
    const uint32_t n = c->options->draws;
    int64_t *steps_ns = orr_arena_array(arena, int64_t, n);
    __int128 sum_ns = 0;
    if (steps_ns == NULL)
        return orr_fail_memory(c->err);
    for (uint32_t draw = 0; draw < n; draw++) {
        int64_t off_ns;
        ORR_TRY(run_draw(c, draw, &steps_ns[draw], &off_ns));
        sum_ns += steps_ns[draw];
        ret->settled_ns = off_ns > ret->settled_ns ? off_ns : ret->settled_ns;
    }
    qsort(steps_ns, n, sizeof *steps_ns, by_time);
    ret->mean_ns = (int64_t)(sum_ns / n);
    ret->p95_ns = steps_ns[(19 * (uint64_t)n + 19) / 20 - 1];
    return find_cause(c, ret);
}

static orr_status make_room(check *c, orr_arena *arena)
{
    const orr_ensemble *e = c->step.outcome->ensemble;
    const size_t n = c->step.transfers.n;
    for (size_t i = 0; i < n; i++)
        if (c->step.kinds.at[c->step.transfers.at[i].kind].grouping == ORR_AXIS_PP &&
            c->step.transfers.at[i].ordinal >= c->n_ordinals)
            c->n_ordinals = c->step.transfers.at[i].ordinal + 1;
    c->start_ns = orr_arena_array(arena, int64_t, n);
    c->took_ns = orr_arena_array(arena, int64_t, n);
    c->of_ordinal = orr_arena_array(arena, int64_t, c->n_ordinals + 1);
    c->duration_ns = orr_arena_array(arena, int64_t *, e->n_graphs);
    bool fits = c->start_ns != NULL && c->took_ns != NULL && c->of_ordinal != NULL &&
                c->duration_ns != NULL;
    for (uint32_t d = 0; d < e->n_graphs && fits; d++)
        fits = (c->duration_ns[d] = orr_arena_array(arena, int64_t, e->graphs[d]->n_nodes)) != NULL;
    return fits ? ORR_OK : orr_fail_memory(c->err);
}

static orr_status run_check(check *c, const orr_outcome *outcome, orr_arena *arena,
                            orr_network_check *ret)
{
    ORR_TRY(orr_checked_step_init(&c->step, outcome, arena, c->err));
    ret->n_transfers = (uint32_t)c->step.transfers.n;
    if (ret->n_transfers == 0)
        return ORR_OK;
    ORR_TRY(make_room(c, arena));
    return run_draws(c, arena, ret);
}

orr_status orr_outcome_network(const orr_outcome *outcome, const orr_network_check_options *options,
                               orr_network_check *ret, orr_error *err)
{
    check c = {.options = options, .err = err};
    orr_network_check found = {.closed_ns = outcome->step_ns,
                               .mean_ns = outcome->step_ns,
                               .p95_ns = outcome->step_ns,
                               .axis = ORR_AXIS_NONE};
    if (options->draws == 0 || !(options->others_frac >= 0 && options->others_frac <= 1))
        return orr_fail(err, ORR_INVALID, "a network check has draws, and others a share to 1");
    if (outcome->job == NULL || outcome->ensemble == NULL)
        return orr_fail(err, ORR_UNSUPPORTED, "flows need the graphs of a step in one pass");
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    orr_job_options_init(&c.how);
    const orr_status status = run_check(&c, outcome, arena, &found);
    orr_checked_step_done(&c.step);
    orr_path_room_done(&c.room);
    orr_array_done(&c.traffic);
    orr_array_done(&c.sent);
    orr_array_done(&c.order);
    orr_array_done(&c.names);
    orr_arena_free(arena);
    if (status == ORR_OK)
        *ret = found;
    return status;
}
