/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/engine/engine.h"

#include <string.h>

#include "base/alloc.h"
#include "sim/engine/contention.h"

/* ns scaled by a slowdown, exactly: quotient and remainder apart, so that nothing overflows
 * before the result does. */
static int64_t slowed_ns(int64_t ns, uint32_t slowdown_ppm)
{
    enum { MILLION = 1000000 };
    int64_t whole;
    if (__builtin_mul_overflow(ns / MILLION, (int64_t)slowdown_ppm, &whole))
        return INT64_MAX;
    return orr_after_ns(whole, ns % MILLION * slowdown_ppm / MILLION);
}

int64_t orr_work_ns(const orr_actor *actor, uint32_t work)
{
    const uint8_t class = actor->prepared->program->works[work].work_class;
    const int64_t ns = actor->prepared->alone_ns[work];
    if (actor->slowdown_ppm == 1000000 || (class != ORR_WORK_COMPUTE && class != ORR_WORK_MEMORY))
        return ns;
    return slowed_ns(ns, actor->slowdown_ppm);
}

/* A member of a rendezvous: its work, and when that started and ended as recorded, by the clock of
 * all ranks. */
typedef struct member {
    uint32_t actor;
    const orr_sim_work *work;
    const orr_graph *graph;
    int64_t start_ns, end_ns, duration_ns; /* start: when it was posted; ORR_TIME_NONE: not
                                            * recorded, or on a device */
} member;

static member member_of(const orr_engine *e, const orr_rendezvous *r, uint32_t i)
{
    const orr_rendezvous_arrival seat = e->rendezvous.seats[r->first_seat + i];
    const orr_actor *actor = &e->actors[seat.actor];
    const orr_sim_work *work = &actor->prepared->program->works[seat.work];
    const orr_graph *g = actor->prepared->program->graph;
    const int64_t start_ns = g->start_ns[work->node], duration_ns = g->duration_ns[work->node];
    member m = {seat.actor, work, g, ORR_TIME_NONE, 0, duration_ns};
    if (work->work_class != ORR_WORK_HOST || start_ns == ORR_TIME_NONE || duration_ns < 0)
        return m;
    m.start_ns = orr_after_ns(actor->start_ns, work->posted_ns);
    m.end_ns = orr_after_ns(orr_after_ns(actor->start_ns, start_ns), duration_ns);
    return m;
}

/* How a rendezvous went as recorded. On threads alone. */
typedef struct recorded_rendezvous {
    int64_t latest_ns; /* when all members had come; ORR_TIME_NONE: nothing shows it */
    int64_t end_ns;    /* when all could have ended */
    bool unchanged;    /* it lasts as it did: not priced, nor scaled */
} recorded_rendezvous;

/* The latest start and, after it, of a collective the shortest call, of a send and its receive the
 * first end: each is posted at a moment, while a call may have waited for a core, or looked on
 * after the data had left. Both ends of a send wait for one another (gloo, of 4 bytes as of 4 MB).
 * In an all-to-all a member may end before others come, who send it nothing; where one does so in
 * another collective, clocks differ. */
static recorded_rendezvous recorded_rendezvous_of(const orr_engine *e, const orr_rendezvous *r)
{
    int64_t latest = INT64_MIN, first_end = INT64_MAX, shortest = INT64_MAX;
    bool waits = true, sends = false;
    for (uint32_t i = 0; i < r->count; i++) {
        const member m = member_of(e, r, i);
        if (m.start_ns == ORR_TIME_NONE)
            return (recorded_rendezvous){.latest_ns = ORR_TIME_NONE};
        const orr_comm *comm = orr_graph_comm(m.graph, m.work->node);
        latest = m.start_ns > latest ? m.start_ns : latest;
        first_end = m.end_ns < first_end ? m.end_ns : first_end;
        shortest = m.duration_ns < shortest ? m.duration_ns : shortest;
        waits &= comm == NULL || comm->collective != ORR_COLL_ALL_TO_ALL;
        sends |= m.graph->kind[m.work->node] == ORR_NODE_SEND;
    }
    if (waits && first_end < latest)
        return (recorded_rendezvous){.latest_ns = ORR_TIME_NONE};
    return (recorded_rendezvous){latest, sends ? first_end : orr_after_ns(latest, shortest),
                                 r->transfer_ns == shortest};
}

/* How long the transfer takes once all have come. */
static int64_t transfer_ns(const orr_engine *e, const orr_rendezvous *r)
{
    const recorded_rendezvous was = recorded_rendezvous_of(e, r);
    return was.latest_ns != ORR_TIME_NONE && was.unchanged ? was.end_ns - was.latest_ns
                                                           : r->transfer_ns;
}

/* Members end together, but for what each took of its own after that: one that waits for a core
 * goes on later than the others. */
void orr_engine_end_rendezvous(orr_engine *e, uint32_t id, int64_t end_ns)
{
    const orr_rendezvous *r = &e->rendezvous.at[id];
    const recorded_rendezvous was = recorded_rendezvous_of(e, r);
    for (uint32_t i = 0; i < r->count; i++) {
        const member m = member_of(e, r, i);
        const bool gone = m.work->duration_ns == 0 && m.duration_ns > 0; /* in a what-if */
        const bool late = was.latest_ns != ORR_TIME_NONE && m.end_ns > was.end_ns && !gone;
        orr_engine_propagate(e, m.actor, m.work->end,
                             orr_after_ns(end_ns, late ? m.end_ns - was.end_ns : 0));
    }
}

static void begin_work(orr_engine *e, uint32_t actor_id, uint32_t work_id, int64_t now_ns)
{
    const orr_actor *actor = &e->actors[actor_id];
    const orr_sim_work *work = &actor->prepared->program->works[work_id];
    const uint32_t call = actor->prepared->call_of_work[work_id];
    const uint32_t id =
        call == ORR_NONE ? ORR_NONE : e->rendezvous.of_call[actor->first_call + call];
    if (id == ORR_NONE) {
        if (e->contention != NULL && orr_contention_takes_work(e, actor_id, work_id, now_ns))
            return;
        orr_engine_propagate(e, actor_id, work->end,
                             orr_after_ns(now_ns, orr_work_ns(actor, work_id)));
        return;
    }
    orr_rendezvous *rendezvous = &e->rendezvous.at[id];
    e->rendezvous.seats[rendezvous->first_seat + rendezvous->arrived++] =
        (orr_rendezvous_arrival){actor_id, work_id};
    if (now_ns > rendezvous->start_ns)
        rendezvous->start_ns = now_ns;
    if (rendezvous->arrived < rendezvous->count)
        return;
    if (e->contention == NULL || !orr_contention_takes_rendezvous(e, id))
        orr_engine_end_rendezvous(e, id,
                                  orr_after_ns(rendezvous->start_ns, transfer_ns(e, rendezvous)));
}

/* Propagates from a settled point, as long as the next point belongs to the same actor. */
static void follow(orr_engine *e, orr_settled_point from)
{
    const orr_actor *actor = &e->actors[from.actor];
    const orr_sim_program *program = actor->prepared->program;
    const orr_edge *edges = actor->prepared->edges;
    int64_t *time_ns = e->time_ns + actor->first_point;
    uint32_t *waits = e->waits + actor->first_point;
    uint64_t n_settled = 0;

    for (orr_point_id p = from.point; p != ORR_NONE;) {
        const int64_t now_ns = time_ns[p];
        orr_point_id next = ORR_NONE;
        n_settled++;
        if (program->work_at[p] != ORR_NONE)
            begin_work(e, from.actor, program->work_at[p], now_ns);
        for (uint32_t i = program->edge_first[p]; i < program->edge_first[p + 1]; i++) {
            const orr_point_id to = edges[i].to;
            const int64_t then_ns = orr_after_ns(now_ns, edges[i].lag_ns);
            if (then_ns > time_ns[to])
                time_ns[to] = then_ns;
            if (--waits[to] > 0)
                continue;
            if (next != ORR_NONE &&
                !orr_array_push(&e->ready, ((orr_settled_point){from.actor, next})))
                e->no_memory = true;
            next = to;
        }
        if (next == ORR_NONE && e->ready.n > 0 && e->ready.at[e->ready.n - 1].actor == from.actor)
            next = e->ready.at[--e->ready.n].point;
        p = next;
    }
    e->n_settled += n_settled;
}

static void drain(orr_engine *e)
{
    while (e->ready.n > 0 && !e->no_memory)
        follow(e, e->ready.at[--e->ready.n]);
}

/* Lists the points without predecessors. All are listed before any is propagated, so that each
 * later point is listed once, by the last of its predecessors. */
static void begin_actor(orr_engine *e, uint32_t a)
{
    const orr_actor *actor = &e->actors[a];
    for (uint32_t p = actor->prepared->program->n_points; p-- > 0;)
        if (actor->prepared->waits[p] == 0 &&
            !orr_array_push(&e->ready, ((orr_settled_point){a, p})))
            e->no_memory = true;
}

enum { STEPS_BETWEEN = 64 }; /* events between two reports of progress */
static bool report_progress(const orr_engine *e)
{
    const orr_sim_options *options = e->options;
    return options->progress == NULL ||
           options->progress(options->progress_ctx, e->n_settled, e->n_points);
}

orr_status orr_engine_run(orr_engine *e, orr_error *err)
{
    for (uint32_t a = 0; a < e->n_actors && !e->no_memory; a++) {
        begin_actor(e, a);
        drain(e);
    }
    for (uint64_t n = 0; e->contention != NULL && !e->no_memory && orr_contention_step(e); n++) {
        drain(e);
        if (n % STEPS_BETWEEN == 0 && !report_progress(e))
            return orr_fail(err, ORR_CANCELED, "stopped while simulating");
    }
    if (e->contention != NULL && e->contention->status != ORR_OK)
        return e->contention->status;
    return e->no_memory ? orr_fail_memory(err) : ORR_OK;
}

static orr_status lay_out(orr_engine *e, const orr_prepared_program *prepared_programs,
                          const orr_fold *fold, orr_error *err)
{
    const orr_ensemble *ensemble = e->ensemble;
    size_t n_calls = 0;
    e->actors = orr_calloc((size_t)fold->n_classes + 1, sizeof *e->actors);
    if (e->actors == NULL)
        return orr_fail_memory(err);
    for (uint32_t c = 0; c < fold->n_classes; c++) {
        const uint32_t rank = fold->first_rank[c], graph = ensemble->graph_of_rank[rank];
        e->actors[c] = (orr_actor){
            .prepared = &prepared_programs[graph],
            .graph = graph,
            .rank = rank,
            .n_ranks = fold->n_ranks[c],
            .slowdown_ppm = ensemble->slowdown_ppm ? ensemble->slowdown_ppm[rank] : 1000000,
            .start_ns = ensemble->start_ns ? ensemble->start_ns[rank] : 0,
            .first_point = e->n_points,
            .first_call = n_calls};
        e->n_points += prepared_programs[graph].program->n_points;
        n_calls += prepared_programs[graph].n_calls;
    }
    e->n_actors = fold->n_classes;
    return ORR_OK;
}

static orr_status fill_points(orr_engine *e, orr_error *err)
{
    e->time_ns = orr_malloc((e->n_points + 1) * sizeof *e->time_ns);
    e->waits = orr_malloc((e->n_points + 1) * sizeof *e->waits);
    if (e->time_ns == NULL || e->waits == NULL)
        return orr_fail_memory(err);
    for (uint32_t a = 0; a < e->n_actors; a++) {
        const orr_actor *actor = &e->actors[a];
        const uint32_t n = actor->prepared->program->n_points;
        int64_t *time_ns = e->time_ns + actor->first_point;
        memcpy(e->waits + actor->first_point, actor->prepared->waits, n * sizeof *e->waits);
        for (uint32_t p = 0; p < n; p++)
            time_ns[p] = orr_after_ns(actor->start_ns, actor->prepared->earliest_ns[p]);
    }
    return ORR_OK;
}

orr_status orr_engine_init(orr_engine *engine, const orr_ensemble *ensemble,
                           const orr_sim_options *options,
                           const orr_prepared_program *prepared_programs, const orr_fold *fold,
                           orr_transfer_pricer *pricer, orr_error *err)
{
    *engine = (orr_engine){
        .ensemble = ensemble, .options = options, .actor_of_rank = fold->class_of_rank};
    ORR_TRY(lay_out(engine, prepared_programs, fold, err));
    ORR_TRY(fill_points(engine, err));
    ORR_TRY(orr_rendezvous_find(ensemble, fold, engine->actors, pricer,
                                options->network == ORR_NETWORK_FLOWS, &engine->rendezvous, err));
    return orr_contention_new(engine, pricer, &engine->contention, err);
}

void orr_engine_done(orr_engine *engine)
{
    orr_free(engine->actors);
    orr_free(engine->time_ns);
    orr_free(engine->waits);
    orr_rendezvous_done(&engine->rendezvous);
    orr_contention_free(engine->contention);
    orr_array_done(&engine->ready);
    *engine = (orr_engine){0};
}
