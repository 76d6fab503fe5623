/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/engine/engine.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

/* Explanation of a deadlock: a cycle in the wait-for graph. From a rank that is blocked, the
 * walk goes to the rendezvous in which it waits, to a member that has not arrived, to the
 * rendezvous in which that one waits, and so on until a rank comes again. The message names real
 * ranks, also where the simulation was folded. */
typedef struct step {
    uint32_t rank, work; /* is blocked in this work */
    uint32_t waits_for;  /* a rank */
    uint32_t previous;   /* earlier step of the same rank, or ORR_NONE */
} step;

typedef struct search {
    const orr_engine *engine;
    const orr_fold *fold;
    orr_array(step) steps;
    uint32_t *last_step; /* by rank: shape (R) */
    uint32_t *first;     /* incoming edges by point, of the current program */
    orr_point_id *from;
    const orr_sim_program *program;
} search;

static const orr_actor *actor_of(const search *q, uint32_t rank)
{
    return &q->engine->actors[q->fold->class_of_rank[rank]];
}

static bool settled(const search *q, const orr_actor *actor, orr_point_id p)
{
    return q->engine->waits[actor->first_point + p] == 0;
}

/* Incoming edges and works of every point: the program's edges, reversed. */
static bool turn_round(search *q, const orr_sim_program *program)
{
    if (q->program == program)
        return true;
    const size_t n = (size_t)program->n_edges + program->n_works;
    orr_free(q->first);
    orr_free(q->from);
    q->first = orr_calloc((size_t)program->n_points + 2, sizeof *q->first);
    q->from = orr_calloc(n + 1, sizeof *q->from);
    q->program = q->first && q->from ? program : NULL;
    if (q->program == NULL)
        return false;
    uint32_t *next = q->first + 1; /* rows are shifted by one, so that each next[p] ends as
                                    * first[p] */
    for (uint32_t i = 0; i < program->n_edges; i++)
        next[program->edges[i].to + 1]++;
    for (uint32_t w = 0; w < program->n_works; w++)
        next[program->works[w].end + 1]++;
    for (uint32_t p = 0; p < program->n_points; p++)
        next[p + 1] += next[p];
    for (uint32_t w = 0; w < program->n_works; w++)
        q->from[next[program->works[w].end]++] = program->works[w].start;
    for (uint32_t p = 0; p < program->n_points; p++)
        for (uint32_t i = program->edge_first[p]; i < program->edge_first[p + 1]; i++)
            q->from[next[program->edges[i].to]++] = p;
    return true;
}

/* A work that starts at p, has not ended, and ends at `end`. */
static uint32_t work_between(const orr_sim_program *program, orr_point_id p, orr_point_id end)
{
    const uint32_t w = program->work_at[p];
    return w != ORR_NONE && program->works[w].end == end ? w : ORR_NONE;
}

/* Searches backward from an unsettled point for the work in which the rank is blocked. ORR_NONE:
 * its points wait for one another. */
static uint32_t where_it_waits(search *q, const orr_actor *actor, orr_point_id p)
{
    const orr_sim_program *program = actor->prepared->program;
    for (uint32_t n = 0; n <= program->n_points; n++) {
        orr_point_id before = ORR_NONE;
        for (uint32_t i = q->first[p]; i < q->first[p + 1]; i++) {
            const orr_point_id from = q->from[i];
            const uint32_t w = work_between(program, from, p);
            if (!settled(q, actor, from))
                before = from;
            else if (w != ORR_NONE && actor->prepared->call_of_work[w] != ORR_NONE) {
                const uint32_t id =
                    q->engine->rendezvous
                        .of_call[actor->first_call + actor->prepared->call_of_work[w]];
                if (id != ORR_NONE &&
                    q->engine->rendezvous.at[id].arrived < q->engine->rendezvous.at[id].count)
                    return w;
            }
        }
        if (before == ORR_NONE)
            return ORR_NONE;
        p = before;
    }
    return ORR_NONE;
}

/* Is the rank a member of the rendezvous that has not arrived? `ret_work`: the work with which
 * it would. */
static bool is_missing(const search *q, uint32_t rank, const orr_comm_work *rendezvous,
                       uint32_t *ret_work)
{
    if (q->fold->class_of_rank[rank] == ORR_NONE)
        return false;
    const orr_actor *actor = actor_of(q, rank);
    const uint32_t call =
        orr_prepared_call(actor->prepared, rendezvous->grouping, rendezvous->ordinal);
    if (call == ORR_NONE)
        return false;
    *ret_work = actor->prepared->calls[call].work;
    return !settled(q, actor, actor->prepared->program->works[*ret_work].start);
}

/* A member that has not arrived, and its work; preferably one that the walk has visited. */
static uint32_t missing_member(const search *q, uint32_t rank, uint32_t work, uint32_t *ret_work)
{
    const orr_prepared_program *prepared = actor_of(q, rank)->prepared;
    const orr_comm_work *call = &prepared->calls[prepared->call_of_work[work]];
    const orr_grouping *grouping = &q->engine->ensemble->groupings[call->grouping];
    const uint32_t group = grouping->group_of[rank];
    uint32_t found = ORR_NONE;
    for (uint32_t i = grouping->first[group]; i < grouping->first[group + 1]; i++) {
        const uint32_t member = grouping->members[i];
        const bool met = q->last_step[member] != ORR_NONE;
        uint32_t part;
        if ((found != ORR_NONE && !met) || !is_missing(q, member, call, &part))
            continue;
        found = member;
        *ret_work = part;
        if (met)
            break;
    }
    return found;
}

static uint32_t find_step(const search *q, uint32_t rank, uint32_t work)
{
    uint32_t s = q->last_step[rank];
    while (s != ORR_NONE && q->steps.at[s].work != work)
        s = q->steps.at[s].previous;
    return s;
}

/* "'all_reduce' (node 12) of group dp" */
enum { PLACE_BYTES = 160 };
static void describe_place(const search *q, const step *s, char place[PLACE_BYTES])
{
    const orr_prepared_program *prepared = actor_of(q, s->rank)->prepared;
    const orr_graph *graph = prepared->program->graph;
    const orr_node_id node = prepared->program->works[s->work].node;
    const uint32_t grouping = prepared->calls[prepared->call_of_work[s->work]].grouping;
    const char *name = q->engine->ensemble->groupings[grouping].name;
    snprintf(place, PLACE_BYTES, "'%.48s' (node %u) of group %.40s",
             orr_graph_str(graph, graph->name[node]), node, name && *name ? name : "(no name)");
}

static orr_status fail_with_cycle(const search *q, uint32_t from, orr_error *err)
{
    enum { TOLD = 3 };
    const step *cycle = &q->steps.at[from];
    const size_t n = q->steps.n - from;
    char text[480], place[PLACE_BYTES];
    describe_place(q, cycle, place);
    int len = snprintf(text, sizeof text, "rank %u %s waits for rank %u", cycle->rank, place,
                       cycle->waits_for);
    for (size_t i = 1; i < n && i < TOLD; i++) {
        describe_place(q, &cycle[i], place);
        len += snprintf(text + len, sizeof text - (size_t)len, ", which waits for rank %u at %s",
                        cycle[i].waits_for, place);
    }
    if (n > TOLD)
        return orr_fail(err, ORR_INVALID, "deadlock: %s, and so on, %zu in all, to rank %u", text,
                        n, cycle->rank);
    return orr_fail(err, ORR_INVALID, "deadlock: %s", text);
}

static orr_status investigate(search *q, uint32_t rank, orr_point_id point, orr_error *err)
{
    for (;;) {
        const orr_actor *actor = actor_of(q, rank);
        if (!turn_round(q, actor->prepared->program))
            return orr_fail_memory(err);
        const uint32_t work = where_it_waits(q, actor, point);
        if (work == ORR_NONE)
            return orr_fail(err, ORR_INVALID, "deadlock: rank %u waits for itself", rank);
        const uint32_t seen = find_step(q, rank, work);
        if (seen != ORR_NONE)
            return fail_with_cycle(q, seen, err);
        uint32_t part = ORR_NONE;
        const uint32_t member = missing_member(q, rank, work, &part);
        if (member == ORR_NONE)
            return orr_fail(err, ORR_INVALID, "deadlock: rank %u waits for nobody", rank);
        const step s = {rank, work, member, q->last_step[rank]};
        q->last_step[rank] = (uint32_t)q->steps.n;
        if (!orr_array_push(&q->steps, s))
            return orr_fail_memory(err);
        rank = member;
        point = actor_of(q, member)->prepared->program->works[part].start;
    }
}

static orr_status first_stuck(const orr_engine *engine, const orr_fold *fold, search *q,
                              orr_error *err)
{
    for (uint32_t a = 0; a < engine->n_actors; a++) {
        const orr_actor *actor = &engine->actors[a];
        for (uint32_t p = 0; p < actor->prepared->program->n_points; p++)
            if (engine->waits[actor->first_point + p] > 0)
                return investigate(q, fold->first_rank[a], p, err);
    }
    return ORR_OK;
}

orr_status orr_engine_check(const orr_engine *engine, const orr_fold *fold, orr_error *err)
{
    if (engine->n_settled == engine->n_points)
        return ORR_OK;
    const uint32_t n_ranks = engine->ensemble->n_ranks;
    search q = {
        .engine = engine, .fold = fold, .last_step = orr_malloc(n_ranks * sizeof *q.last_step)};
    orr_status status = ORR_OK;
    if (q.last_step == NULL) {
        status = orr_fail_memory(err);
    } else {
        memset(q.last_step, 0xff, n_ranks * sizeof *q.last_step);
        status = first_stuck(engine, fold, &q, err);
    }
    orr_array_done(&q.steps);
    orr_free(q.last_step);
    orr_free(q.first);
    orr_free(q.from);
    return status;
}
