/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sim/astra/run.h"

/* Explanation of a job that never ends: a walk along the wait-for graph, from a rank that has
 * not finished to the one that it waits for, until one comes again or is itself at fault. */

typedef struct wait {
    uint32_t node; /* unfinished node of the rank; ORR_NONE: it has finished */
    uint32_t on;   /* rank that it waits for */
} wait;

/* First member that has not arrived. */
static uint32_t absent_member(const orr_astra_run *run, const orr_collective_task *task)
{
    const orr_message_group *members = task->plan->members;
    for (uint32_t m = 0; m < members->n; m++)
        if (!orr_astra_has_joined(run, task, m))
            return orr_communicator_rank(members, m);
    return ORR_NONE;
}

/* All members have arrived, yet their chunks wait for one another: on their way up and down they
 * share the queue of a dimension, and ranks that arrived at different times have them in
 * different orders (a known property of the original). */
typedef struct crossing {
    uint32_t rank, chunk, phase, other, other_chunk, other_phase, dim;
} crossing;

static bool is_at(const orr_chunk *chunk, uint32_t phase, uint32_t n_phases)
{
    return chunk->phase > phase || (chunk->phase == phase && chunk->state != 0) ||
           (chunk->phase + 1u == n_phases && phase + 1 == n_phases);
}

/* Finds a member of the line that is not where the chunk needs it, and the chunk that is there
 * instead. */
static bool crossing_at(const orr_astra_run *run, const orr_collective_task *task, uint32_t member,
                        uint32_t chunk, crossing *ret)
{
    const orr_collective_plan *plan = task->plan;
    const uint32_t phase = orr_collective_task_chunk(task, member, chunk)->phase;
    const orr_line *line = &plan->lines[plan->phases[phase].line];
    const uint32_t first = member - orr_line_place(line, member) * line->stride;
    bool way;
    for (uint32_t place = 0; place < line->n; place++) {
        const uint32_t other = first + place * line->stride;
        if (is_at(orr_collective_task_chunk(task, other, chunk), phase, plan->n_phases))
            continue;
        for (uint32_t c = 0; c < plan->n_chunks; c++) {
            const orr_chunk *there = orr_collective_task_chunk(task, other, c);
            if (there->state != 0 && plan->phases[there->phase].line == plan->phases[phase].line &&
                orr_chunk_queue(&run->messages, task, other, c, there->phase, &way) ==
                    orr_chunk_queue(&run->messages, task, other, chunk, phase, &way)) {
                *ret = (crossing){orr_communicator_rank(plan->members, member),
                                  chunk,
                                  phase,
                                  orr_communicator_rank(plan->members, other),
                                  c,
                                  there->phase,
                                  plan->phases[phase].line};
                return true;
            }
        }
    }
    return false;
}

static bool find_crossing(const orr_astra_run *run, const orr_collective_task *task, crossing *ret)
{
    const orr_collective_plan *plan = task->plan;
    for (uint32_t member = 0; run->mode != ORR_ASTRA_MODEL && member < task->n_members; member++)
        for (uint32_t chunk = 0; chunk < plan->n_chunks; chunk++)
            if (orr_collective_task_chunk(task, member, chunk)->state != 0 &&
                crossing_at(run, task, member, chunk, ret))
                return true;
    return false;
}

static wait wait_of(const orr_astra_run *run, uint32_t rank)
{
    const orr_astra_state *state = &run->ranks[rank];
    if (state->finished)
        return (wait){ORR_NONE, ORR_NONE};
    if (state->task != NULL)
        return (wait){state->comm_node, absent_member(run, state->task)};
    for (uint32_t i = 0; i < state->program->n; i++)
        if (state->start_ns[i] != ORR_TIME_NONE && state->end_ns[i] == ORR_TIME_NONE)
            return (wait){i, state->program->nodes[i].collective == ORR_COLL_RECV
                                 ? state->program->nodes[i].peer
                                 : ORR_NONE};
    return (wait){ORR_NONE, ORR_NONE};
}

static void add(char *text, size_t size, const char *more)
{
    const size_t len = strlen(text);
    snprintf(text + len, size - len, "%s", more);
}

static void describe(const orr_astra_run *run, uint32_t rank, uint32_t node, char *text,
                     size_t size)
{
    const orr_graph *graph = run->job->graphs[rank];
    const orr_node_id id = run->ranks[rank].program->nodes[node].id;
    snprintf(text, size, "'%.40s' (node %" PRIu64 ")", orr_graph_str(graph, graph->name[id]),
             graph->source_id[id]);
}

static void tell(const orr_astra_run *run, uint32_t first, char *text, size_t size)
{
    enum { MOST = 4 };
    uint32_t rank = first;
    char what[96], link[192];
    *text = '\0';
    for (int step = 0; step < MOST; step++) {
        const wait w = wait_of(run, rank);
        if (w.node == ORR_NONE) {
            add(text, size,
                run->ranks[rank].finished ? ", which has finished without it"
                                          : ", which is not there");
            return;
        }
        describe(run, rank, w.node, what, sizeof what);
        if (step == 0)
            snprintf(link, sizeof link, "rank %u %s waits for rank %u", rank, what, w.on);
        else
            snprintf(link, sizeof link, ", which is in %s and waits for rank %u", what, w.on);
        add(text, size, link);
        if (w.on == ORR_NONE || w.on == first)
            return;
        rank = w.on;
    }
    add(text, size, " ...");
}

/* A rank on the cycle, if there is one. */
static uint32_t on_cycle(const orr_astra_run *run, uint32_t rank)
{
    for (uint32_t i = 0; i < run->n_ranks; i++) {
        const wait w = wait_of(run, rank);
        if (w.on == ORR_NONE)
            return ORR_NONE;
        rank = w.on;
    }
    return rank;
}

orr_status orr_astra_explain_deadlock(const orr_astra_run *run, orr_error *err)
{
    uint32_t rank = 0, unfinished = 0;
    char text[440];
    for (uint32_t r = run->n_ranks; r-- > 0;)
        if (!run->ranks[r].finished) {
            rank = r;
            unfinished++;
        }
    if (unfinished == 0)
        return ORR_OK;
    const orr_collective_task *task = run->ranks[rank].task;
    crossing x;
    if (task != NULL && absent_member(run, task) == ORR_NONE && find_crossing(run, task, &x)) {
        char what[96];
        describe(run, rank, run->ranks[rank].comm_node, what, sizeof what);
        return orr_fail(
            err, ORR_CANCELED,
            "deadlock: in %s rank %u has chunk %u in dimension %u, phase %u, and waits "
            "for rank %u, which has chunk %u there, in phase %u: on their way up and down "
            "they share one queue",
            what, x.rank, x.chunk, x.dim, x.phase, x.other, x.other_chunk, x.other_phase);
    }
    uint32_t start = on_cycle(run, rank);
    if (start == ORR_NONE)
        start = rank;
    else /* from its lowest rank, so that the text does not depend on where the walk began */
        for (uint32_t r = wait_of(run, start).on, begin = start; r != begin; r = wait_of(run, r).on)
            start = r < start ? r : start;
    tell(run, start, text, sizeof text);
    return orr_fail(err, ORR_CANCELED, "deadlock: %s", text);
}
