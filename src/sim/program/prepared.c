/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/program/prepared.h"

#include <math.h>
#include <stdlib.h>

/* Host time at another speed, rounded half up, and the same on every machine: a single division
 * of doubles. */
static int64_t host_ns(int64_t ns, double host_speed)
{
    const double scaled = floor((double)ns / host_speed + 0.5);
    return scaled < 0x1p62 ? (int64_t)scaled : INT64_MAX;
}

static const orr_edge *scaled_edges(const orr_sim_program *program, double host_speed,
                                    orr_arena *arena)
{
    if (host_speed == 1)
        return program->edges;
    orr_edge *edges = orr_arena_array(arena, orr_edge, program->n_edges);
    for (uint32_t i = 0; edges != NULL && i < program->n_edges; i++) {
        edges[i] = program->edges[i];
        if (orr_edge_is_host(edges[i].kind))
            edges[i].lag_ns = host_ns(edges[i].lag_ns, host_speed);
    }
    return edges;
}

static orr_status fail_without_duration(const orr_sim_program *program, const orr_sim_work *work,
                                        orr_error *err)
{
    return orr_fail(err, ORR_INVALID,
                    "node %u '%s' has no duration, and is no communication that a network could "
                    "price",
                    work->node, orr_graph_str(program->graph, program->graph->name[work->node]));
}

/* Lengths of works without partners. Works with partners are priced with all members; where a
 * rank is in no group of the grouping there is nothing to transfer. */
static orr_status find_durations(const orr_sim_program *program,
                                 const orr_prepared_program *prepared, orr_transfer_pricer *pricer,
                                 int64_t *alone_ns, uint8_t *basis, orr_error *err)
{
    for (uint32_t w = 0; w < program->n_works; w++) {
        const orr_sim_work *work = &program->works[w];
        const orr_comm *comm = orr_graph_comm(program->graph, work->node);
        const bool communicates =
            work->work_class == ORR_WORK_COMM || work->work_class == ORR_WORK_HOST;
        alone_ns[w] = work->duration_ns;
        basis[w] = ORR_BASES;
        if (comm == NULL || !communicates) {
            if (work->duration_ns < 0)
                return fail_without_duration(program, work, err);
            continue;
        }
        if (prepared->call_of_work[w] != ORR_NONE) {
            alone_ns[w] = work->duration_ns < 0 ? 0 : work->duration_ns;
            continue;
        }
        if (work->duration_ns >= 0)
            continue;
        orr_price price;
        ORR_TRY(orr_transfer_price_alone(pricer, program->graph, work->node, comm, &price, err));
        alone_ns[w] = price.ns;
        basis[w] = price.basis;
    }
    return ORR_OK;
}

static int compare_calls(const void *a_, const void *b_)
{
    const orr_comm_work *a = a_, *b = b_;
    if (a->grouping != b->grouping)
        return a->grouping < b->grouping ? -1 : 1;
    if (a->ordinal != b->ordinal)
        return a->ordinal < b->ordinal ? -1 : 1;
    return (a->work > b->work) - (a->work < b->work);
}

static uint32_t find_calls(const orr_sim_program *program, const orr_rendezvous_id *rendezvous,
                           orr_comm_work *calls)
{
    uint32_t n = 0;
    for (uint32_t w = 0; rendezvous != NULL && w < program->n_works; w++) {
        const uint32_t row = program->works[w].comm;
        if (row == ORR_NONE || rendezvous[row].grouping == ORR_NONE)
            continue;
        calls[n++] = (orr_comm_work){rendezvous[row].grouping, rendezvous[row].ordinal, w};
    }
    if (n > 0)
        qsort(calls, n, sizeof *calls, compare_calls);
    return n;
}

static orr_status check_calls(const orr_sim_program *program, const orr_comm_work *calls,
                              uint32_t n, orr_error *err)
{
    for (uint32_t i = 1; i < n; i++)
        if (calls[i].grouping == calls[i - 1].grouping && calls[i].ordinal == calls[i - 1].ordinal)
            return orr_fail(
                err, ORR_INVALID,
                "nodes %u and %u of one graph take part in the same rendezvous (grouping "
                "%u, ordinal %u)",
                program->works[calls[i - 1].work].node, program->works[calls[i].work].node,
                calls[i].grouping, calls[i].ordinal);
    return ORR_OK;
}

orr_status orr_prepared_program_make(const orr_sim_program *program,
                                     const orr_rendezvous_id *rendezvous, double host_speed,
                                     orr_transfer_pricer *pricer, orr_arena *arena,
                                     orr_prepared_program *ret, orr_error *err)
{
    const orr_edge *edges = scaled_edges(program, host_speed, arena);
    int64_t *earliest_ns = orr_arena_array(arena, int64_t, program->n_points);
    uint32_t *waits = orr_arena_array(arena, uint32_t, program->n_points);
    int64_t *alone_ns = orr_arena_array(arena, int64_t, program->n_works);
    uint8_t *alone_basis = orr_arena_array(arena, uint8_t, program->n_works);
    uint32_t *call_of_work = orr_arena_array(arena, uint32_t, program->n_works);
    orr_comm_work *calls = orr_arena_array(arena, orr_comm_work, program->n_works);
    if (!edges || !earliest_ns || !waits || !alone_ns || !alone_basis || !call_of_work || !calls)
        return orr_fail_memory(err);

    const uint32_t n_calls = find_calls(program, rendezvous, calls);
    ORR_TRY(check_calls(program, calls, n_calls, err));
    for (uint32_t p = 0; p < program->n_points; p++)
        earliest_ns[p] = program->floor_ns[p] > 0 ? program->floor_ns[p] : 0;
    for (uint32_t i = 0; i < program->n_edges; i++)
        waits[program->edges[i].to]++;
    for (uint32_t w = 0; w < program->n_works; w++) {
        waits[program->works[w].end]++;
        call_of_work[w] = ORR_NONE;
    }
    for (uint32_t i = 0; i < n_calls; i++)
        call_of_work[calls[i].work] = i;
    const orr_prepared_program prepared = {program,     edges,        earliest_ns, waits,  alone_ns,
                                           alone_basis, call_of_work, calls,       n_calls};
    ORR_TRY(find_durations(program, &prepared, pricer, alone_ns, alone_basis, err));
    *ret = prepared;
    return ORR_OK;
}

/* The first call that is not before (grouping, ordinal). */
static uint32_t lower_bound(const orr_prepared_program *prepared, uint32_t grouping,
                            uint32_t ordinal)
{
    const orr_comm_work wanted = {.grouping = grouping, .ordinal = ordinal};
    uint32_t low = 0, high = prepared->n_calls;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (compare_calls(&prepared->calls[middle], &wanted) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void orr_prepared_calls_of(const orr_prepared_program *prepared, uint32_t grouping,
                           uint32_t *ret_begin, uint32_t *ret_end)
{
    *ret_begin = lower_bound(prepared, grouping, 0);
    *ret_end = lower_bound(prepared, grouping + 1, 0); /* a grouping is never ORR_NONE here */
}

uint32_t orr_prepared_call(const orr_prepared_program *prepared, uint32_t grouping,
                           uint32_t ordinal)
{
    const uint32_t i = lower_bound(prepared, grouping, ordinal);
    const bool found = i < prepared->n_calls && prepared->calls[i].grouping == grouping &&
                       prepared->calls[i].ordinal == ordinal;
    return found ? i : ORR_NONE;
}
