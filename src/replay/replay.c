/* SPDX-License-Identifier: Apache-2.0 */
/* Runs a replay: warm-up, measured iterations, and results beside the recorded times. */
#include <orrery/replay.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/parallel_for.h"
#include "engine/ranks/launch.h"
#include "replay/counters.h"
#include "replay/program.h"

enum { ITERATIONS_DEFAULT = 3, SCRATCH_BYTES = 4 << 20 };
#define DEADLINE_NS 120000000000 /* timeout of a silent rank: recordings of minutes are emulated   \
                                  */

typedef struct replaying {
    const orr_replay_options *options;
    const orr_graph *graph; /* this rank's */
    orr_arena *arena;
    orr_replay_result *ret; /* of rank 0 */
    orr_error *err;
    orr_replay_selection selection;
    orr_replay_program program;
    orr_backend *backend;
    orr_workers *workers;
    orr_communicator *world;  /* NULL: alone */
    int64_t *spans, *unit_ns; /* shape (iterations), (units): sums */
    uint32_t iterations;
} replaying;

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void add_times(replaying *r)
{
    const orr_replay_program *p = &r->program;
    for (uint32_t c = 0; c < p->builder.tape.n_calls; c++)
        if (p->start_ns[c] >= 0)
            r->unit_ns[p->builder.calls.at[c].tag] += p->end_ns[c] - p->start_ns[c];
}

static orr_status run_once(replaying *r, bool counts, uint32_t i)
{
    const orr_program_run run = {.start_ns = r->program.start_ns, .end_ns = r->program.end_ns};
    if (r->world != NULL)
        ORR_TRY(orr_barrier(r->world, r->err));
    const int64_t began = orr_clock_now_ns(&orr_clock_monotonic);
    ORR_TRY(orr_program_execute(r->program.program, &run, r->err));
    if (counts) {
        r->spans[i] = orr_clock_now_ns(&orr_clock_monotonic) - began;
        add_times(r);
    }
    return ORR_OK;
}

static orr_status run_all(replaying *r)
{
    const uint32_t warm = r->options->warm_up > 0 ? r->options->warm_up : 1;
    orr_counter_set counters = {{-1, -1, -1}};
    int64_t seen[ORR_COUNTERS] = {-1, -1, -1};
    orr_status status = ORR_OK;
    for (uint32_t i = 0; i < warm; i++)
        ORR_TRY(run_once(r, false, 0));
    if (r->options->counters)
        orr_counters_open(&counters);
    orr_counters_start(&counters);
    for (uint32_t i = 0; status == ORR_OK && i < r->iterations; i++)
        status = run_once(r, true, i);
    orr_counters_stop(&counters, seen);
    orr_counters_close(&counters);
    int64_t *const to[ORR_COUNTERS] = {&r->ret->cache_misses, &r->ret->instructions,
                                       &r->ret->cycles};
    for (int i = 0; i < ORR_COUNTERS; i++)
        *to[i] = seen[i] < 0 ? -1 : seen[i] / r->iterations;
    return status;
}

/* The class of an operator: same name, run the same way for the same reason. */
static orr_replay_op *class_of(replaying *r, const orr_replay_unit *u, orr_replay_op *ops,
                               uint32_t *n)
{
    const char *recorded = orr_graph_str(r->graph, r->graph->name[u->node]);
    const char *name = u->rule != NULL && u->rule->build == NULL && u->how != ORR_REPLAY_VIEW
                           ? u->rule->name /* our own recordings: by operator, not by layer */
                           : recorded;
    const char *how = orr_replay_method_name((orr_replay_method)u->how);
    for (uint32_t i = 0; i < *n; i++)
        if (strcmp(ops[i].name, name) == 0 && ops[i].how == how && strcmp(ops[i].why, u->why) == 0)
            return &ops[i];
    ops[*n] = (orr_replay_op){.name = name, .how = how, .why = u->why};
    return &ops[(*n)++];
}

static int by_recorded(const void *a, const void *b)
{
    const orr_replay_op *x = a, *y = b;
    if (x->recorded_ns != y->recorded_ns)
        return x->recorded_ns < y->recorded_ns ? 1 : -1;
    if (x->replayed_ns != y->replayed_ns)
        return x->replayed_ns < y->replayed_ns ? 1 : -1;
    return strcmp(x->name, y->name);
}

static orr_status sum_up(replaying *r)
{
    orr_replay_result *ret = r->ret;
    orr_replay_op *ops = orr_arena_array(r->arena, orr_replay_op, r->selection.n);
    uint32_t n = 0;
    if (ops == NULL)
        return orr_fail_memory(r->err);
    for (uint32_t i = 0; i < r->selection.n; i++) {
        const orr_replay_unit *u = &r->selection.units[i];
        orr_replay_op *op = class_of(r, u, ops, &n);
        op->count++;
        op->recorded_ns += u->recorded_ns;
        op->replayed_ns += r->unit_ns[i] / r->iterations;
        op->flops += u->flops;
        op->bytes += u->bytes;
        ret->flops += u->flops;
        ret->bytes += u->bytes;
        if (u->how == ORR_REPLAY_SKIPPED)
            continue;
        ret->operators++;
        ret->operator_ns += u->recorded_ns;
        ret->covered += u->how != ORR_REPLAY_EMULATED;
        ret->covered_ns += u->how != ORR_REPLAY_EMULATED ? u->recorded_ns : 0;
    }
    qsort(ops, n, sizeof *ops, by_recorded);
    qsort(r->spans, r->iterations, sizeof *r->spans, by_number);
    ret->ops = ops;
    ret->n_ops = n;
    ret->recorded_ns = r->selection.span_ns;
    ret->replayed_ns = r->spans[r->iterations / 2];
    ret->fastest_ns = r->spans[0];
    ret->slowest_ns = r->spans[r->iterations - 1];
    ret->memory_bytes = r->program.memory_bytes;
    return ORR_OK;
}

/* Cores are shared by the ranks on this machine. */
static int threads_of(const orr_replay_options *options)
{
    const int each = orr_core_count() / (int)options->n_graphs;
    return options->threads > 0 ? options->threads : each > 0 ? each : 1;
}

static orr_status replay_rank(replaying *r)
{
    r->iterations = r->options->iterations > 0 ? r->options->iterations : ITERATIONS_DEFAULT;
    ORR_TRY(orr_replay_select(r->graph, r->options, r->arena, &r->selection, r->err));
    r->spans = orr_arena_array(r->arena, int64_t, r->iterations);
    r->unit_ns = orr_arena_array(r->arena, int64_t, r->selection.n);
    if (r->spans == NULL || r->unit_ns == NULL)
        return orr_fail_memory(r->err);
    ORR_TRY(orr_backend_cpu(&r->backend, r->err));
    ORR_TRY(orr_workers_new(threads_of(r->options), &r->workers, r->err));
    orr_status status =
        orr_replay_program_open(r->graph, r->options, &r->selection, r->world, r->backend,
                                r->workers, r->arena, &r->program, r->err);
    if (status == ORR_OK)
        status = run_all(r);
    if (status == ORR_OK)
        status = sum_up(r);
    orr_replay_program_close(&r->program);
    orr_workers_free(r->workers);
    return status;
}

/* Runs in the process of one rank; the first is the caller's. */
static orr_status replay_in_process(void *ctx, orr_transport *transport, orr_error *err)
{
    replaying *r = ctx;
    uint32_t *members = orr_arena_array(r->arena, uint32_t, transport->ranks);
    if (members == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < transport->ranks; i++)
        members[i] = i;
    r->err = err;
    r->graph = r->options->graphs[transport->rank];
    ORR_TRY(orr_communicator_make(transport, members, transport->ranks, 0, SCRATCH_BYTES, r->arena,
                                  &r->world, err));
    return replay_rank(r);
}

orr_status orr_replay(const orr_replay_options *options, orr_arena *arena, orr_replay_result *ret,
                      orr_error *err)
{
    orr_replay_result result = {.cache_misses = -1, .instructions = -1, .cycles = -1};
    replaying r = {.options = options, .arena = arena, .ret = &result, .err = err};
    if (options->n_graphs == 0)
        return orr_fail(err, ORR_INVALID, "there is no recording to replay");
    r.graph = options->graphs[0];
    ORR_TRY(options->n_graphs == 1 ? replay_rank(&r)
                                   : orr_ranks_run(options->n_graphs, ORR_RANKS_AUTO, DEADLINE_NS,
                                                   replay_in_process, &r, err));
    *ret = result;
    return ORR_OK;
}
