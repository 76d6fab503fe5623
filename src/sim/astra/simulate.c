/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "sim/astra/run.h"

/* orr_astra_simulate() runs a job in one of three ways. Folded: all programs are equal and
 * communicate with all ranks only, so one rank is simulated for all; given up afterwards if a
 * tie or an asymmetric collective could have told ranks apart. Unfolded: every rank, with
 * shortcuts where no message can delay another. Reference: every rank and every message step,
 * for tests. */

typedef enum way_to_run { FOLDED, UNFOLDED, LITERAL } way_to_run;

static orr_status check_job(const orr_astra_job *job, orr_error *err)
{
    const orr_astra_network *network = job->network;
    for (uint32_t rank = 0; rank < network->n_ranks; rank++)
        if (job->graphs[rank] == NULL)
            return orr_fail(err, ORR_INVALID, "rank %u has no trace; the network has %u ranks",
                            rank, network->n_ranks);
    if (job->system->roofline && job->system->peak_flops <= 0)
        return orr_fail(err, ORR_INVALID, "roofline-enabled needs peak-perf in the system file");
    return ORR_OK;
}

/* Compiles the programs of all ranks; equal programs are stored once, found through a hash
 * table. */
static orr_status compile_all(const orr_astra_job *job, orr_arena *arena,
                              const orr_astra_program **programs, bool *ret_foldable,
                              orr_error *err)
{
    const uint32_t n = job->network->n_ranks;
    uint32_t mask = 63;
    while (mask < 2 * n)
        mask = 2 * mask + 1;
    const orr_astra_program **table = orr_calloc((size_t)mask + 1, sizeof *table);
    orr_status status = ORR_OK;
    if (table == NULL)
        return orr_fail_memory(err);
    *ret_foldable = true;
    for (uint32_t rank = 0; rank < n && status == ORR_OK; rank++) {
        const orr_arena_mark mark = orr_arena_get_mark(arena);
        orr_astra_program *program = orr_arena_one(arena, orr_astra_program);
        if (program == NULL) {
            status = orr_fail_memory(err);
            break;
        }
        status = orr_astra_compile(job, rank, arena, program, err);
        if (status != ORR_OK)
            break;
        uint32_t slot = (uint32_t)program->hash & mask;
        while (table[slot] != NULL && !orr_astra_same_program(table[slot], program))
            slot = (slot + 1) & mask;
        if (table[slot] != NULL)
            orr_arena_rewind(arena, mark);
        else
            table[slot] = program;
        programs[rank] = table[slot];
        *ret_foldable &= programs[rank] == programs[0] && programs[rank]->alone;
    }
    orr_free(table);
    return status;
}

static orr_status state_init(orr_astra_state *state, const orr_astra_program *program,
                             orr_error *err)
{
    const size_t n = program->n;
    *state = (orr_astra_state){.program = program, .unfinished = program->n};
    state->waits = orr_malloc((n > 0 ? n : 1) * sizeof *state->waits);
    state->start_ns = orr_malloc((n > 0 ? n : 1) * sizeof *state->start_ns);
    state->end_ns = orr_malloc((n > 0 ? n : 1) * sizeof *state->end_ns);
    if (state->waits == NULL || state->start_ns == NULL || state->end_ns == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < program->n; i++) {
        state->waits[i] = program->nodes[i].n_waits;
        state->start_ns[i] = state->end_ns[i] = ORR_TIME_NONE;
    }
    return ORR_OK;
}

static void on_event(void *ctx, orr_message_event event)
{
    orr_astra_run *run = ctx;
    switch ((orr_message_event_kind)orr_what_kind(event.what)) {
    case ORR_MESSAGE_NODE: {
        const orr_collective_task *task = run->ranks[event.who].task;
        const bool of_task = run->mode == ORR_ASTRA_MODEL && task != NULL &&
                             run->ranks[event.who].comm_node == event.index;
        if (of_task)
            orr_astra_collective_end(
                run, task, orr_communicator_member(&run->planner, task->plan->members, event.who));
        else
            orr_astra_node_done(run, event.who, event.index);
        break;
    }
    case ORR_MESSAGE_PASSED:
        orr_astra_message_delivered(run, event.who, event.index);
        break;
    case ORR_MESSAGE_RECV:
        orr_astra_node_done(run, event.who, event.index);
        break;
    default:
        break;
    }
}

static orr_status run_init(orr_astra_run *run, const orr_astra_program *const *programs,
                           way_to_run how, orr_error *err)
{
    uint32_t n_heads = 64;
    while (n_heads < 2 * run->n_ranks)
        n_heads *= 2;
    run->err = err;
    run->task_mask = n_heads - 1;
    run->task_heads = orr_malloc(n_heads * sizeof *run->task_heads);
    run->ranks = orr_calloc(run->n_ranks, sizeof *run->ranks);
    if (run->task_heads == NULL || run->ranks == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n_heads; i++)
        run->task_heads[i] = ORR_NONE;
    for (uint32_t rank = 0; rank < run->n_ranks; rank++)
        ORR_TRY(state_init(&run->ranks[rank], programs[rank], err));
    ORR_TRY(orr_planner_init(&run->planner, run->job, run->arena, err));
    ORR_TRY(orr_messages_init(&run->messages, run->job, run->mode, how == FOLDED, err));
    run->messages.literal = how == LITERAL;
    run->messages.ctx = run;
    run->messages.on_end = orr_astra_collective_end;
    run->messages.on_event = on_event;
    orr_astra_network_model(run->job->network, &run->model);
    return ORR_OK;
}

static void run_done(orr_astra_run *run)
{
    for (uint32_t rank = 0; run->ranks != NULL && rank < run->n_ranks; rank++) {
        orr_astra_state *state = &run->ranks[rank];
        orr_free(state->waits);
        orr_free(state->start_ns);
        orr_free(state->end_ns);
        orr_array_done(&state->pending);
        for (int slot = 0; slot < ORR_ASTRA_RESOURCES; slot++)
            orr_array_done(&state->ready[slot]);
    }
    orr_free(run->ranks);
    orr_messages_done(&run->messages);
    orr_planner_done(&run->planner);
    orr_astra_collectives_done(run);
    orr_array_done(&run->pairs);
    orr_array_done(&run->receives);
    orr_free(run->pair_table);
}

/* Was folding valid? Known only afterwards: it depends on the collectives that ran and on
 * whether two messages came to a link at once. */
static bool fold_holds(const orr_astra_run *run)
{
    if (run->messages.links.tied || run->messages.tied)
        return false;
    if (run->mode == ORR_ASTRA_MODEL)
        return true;
    for (size_t i = 0; i < run->planner.communicators.n; i++)
        for (const orr_collective_plan *plan = run->planner.communicators.at[i]->plans;
             plan != NULL; plan = plan->next)
            if (run->mode == ORR_ASTRA_AWARE ? !plan->symmetric_links : !plan->symmetric)
                return false;
    return true;
}

/* Times by node of the graph, not of the program. */
static orr_status give_times(const orr_astra_state *state, orr_arena *arena, orr_astra_rank *ret,
                             orr_error *err)
{
    const uint32_t n = state->program->n;
    int64_t *start = orr_arena_array(arena, int64_t, n), *end = orr_arena_array(arena, int64_t, n);
    if (start == NULL || end == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        start[state->program->nodes[i].id] = state->start_ns[i];
        end[state->program->nodes[i].id] = state->end_ns[i];
    }
    *ret = (orr_astra_rank){state->finish_ns, state->compute_ns,
                            state->finish_ns - state->compute_ns, start, end};
    return ORR_OK;
}

static orr_status give_result(const orr_astra_run *run, orr_astra_result *ret, orr_error *err)
{
    const uint32_t n = run->job->network->n_ranks;
    orr_astra_rank *ranks = orr_arena_array(run->arena, orr_astra_rank, n);
    orr_astra_collective *collectives =
        orr_arena_array(run->arena, orr_astra_collective, run->records.n);
    if (ranks == NULL || collectives == NULL)
        return orr_fail_memory(err);
    for (uint32_t rank = 0; rank < n; rank++) {
        if (rank < run->n_ranks)
            ORR_TRY(give_times(&run->ranks[rank], run->arena, &ranks[rank], err));
        else
            ranks[rank] = ranks[0];
    }
    if (run->records.n > 0)
        memcpy(collectives, run->records.at, run->records.n * sizeof *collectives);
    *ret = (orr_astra_result){.n_ranks = n,
                              .ranks = ranks,
                              .collectives = collectives,
                              .n_collectives = (uint32_t)run->records.n,
                              .n_messages = run->n_messages,
                              .n_events = run->messages.n_events,
                              .n_simulated = run->n_ranks};
    return ORR_OK;
}

/* *ret_holds false: the fold was not valid, and *ret is not set. */
static orr_status simulate(const orr_astra_job *job, orr_astra_mode mode, way_to_run how,
                           const orr_astra_program *const *programs, orr_arena *arena,
                           orr_astra_result *ret, bool *ret_holds, orr_error *err)
{
    orr_astra_run run = {.job = job,
                         .mode = mode,
                         .arena = arena,
                         .n_ranks = how == FOLDED ? 1 : job->network->n_ranks};
    orr_status status;
    *ret_holds = true;
    ORR_TRY_OUT(status, run_init(&run, programs, how, err));
    for (uint32_t rank = 0; rank < run.n_ranks; rank++)
        orr_astra_start_rank(&run, rank);
    status = run.status != ORR_OK ? run.status : orr_messages_run(&run.messages, err);
    if (run.status != ORR_OK)
        status = run.status;
    if (status != ORR_OK)
        goto out;
    *ret_holds = how != FOLDED || fold_holds(&run);
    if (!*ret_holds)
        goto out;
    ORR_TRY_OUT(status, orr_astra_explain_deadlock(&run, err));
    status = give_result(&run, ret, err);
out:
    run_done(&run);
    return status;
}

static orr_status simulate_job(const orr_astra_job *job, orr_astra_mode mode, way_to_run how,
                               orr_arena *arena, orr_astra_result *ret, orr_error *err)
{
    const uint32_t n = job->network->n_ranks;
    bool foldable, holds = false;
    ORR_TRY(check_job(job, err));
    const orr_astra_program **programs = orr_arena_array(arena, const orr_astra_program *, n);
    if (programs == NULL)
        return orr_fail_memory(err);
    ORR_TRY(compile_all(job, arena, programs, &foldable, err));
    if (how == FOLDED && foldable)
        ORR_TRY(simulate(job, mode, FOLDED, programs, arena, ret, &holds, err));
    if (holds)
        return ORR_OK;
    return simulate(job, mode, how == FOLDED ? UNFOLDED : how, programs, arena, ret, &holds, err);
}

orr_status orr_astra_simulate(const orr_astra_job *job, orr_astra_mode mode, bool fold,
                              orr_arena *arena, orr_astra_result *ret, orr_error *err)
{
    return simulate_job(job, mode, fold ? FOLDED : UNFOLDED, arena, ret, err);
}

orr_status orr_astra_simulate_reference(const orr_astra_job *job, orr_astra_mode mode,
                                        orr_arena *arena, orr_astra_result *ret, orr_error *err)
{
    return simulate_job(job, mode, LITERAL, arena, ret, err);
}
