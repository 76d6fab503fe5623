/* SPDX-License-Identifier: Apache-2.0 */
#include <orrery/sim.h>

#include "base/alloc.h"
#include "base/parallel_for.h"
#include "sim/engine/options.h"
#include "sim/simulate_programs.h"

/* orr_simulate(): compiles graphs to programs in parallel, each in an arena of its own; then
 * simulates on one thread. */
typedef struct compiler {
    const orr_ensemble *ensemble;
    const orr_sim_options *options;
    orr_sim_program *programs; /* shape (D) */
    orr_arena **arenas;        /* shape (D) */
} compiler;

static orr_status compile_one(void *ctx, size_t d, orr_error *err)
{
    enum { BYTES_A_NODE = 128, LEAST = 4096, MOST = 1 << 20 };
    const compiler *c = ctx;
    const orr_graph *graph = c->ensemble->graphs[d];
    const size_t bytes = (size_t)graph->n_nodes * BYTES_A_NODE;
    c->arenas[d] = orr_arena_new(bytes < LEAST ? LEAST : bytes > MOST ? MOST : bytes, 0);
    if (c->arenas[d] == NULL)
        return orr_fail_memory(err);
    return orr_sim_program_compile(graph,
                                   c->ensemble->duration_ns ? c->ensemble->duration_ns[d] : NULL,
                                   &c->options->constants, c->options->recording_costs,
                                   c->options->queue_depth, c->arenas[d], &c->programs[d], err);
}

static orr_status measure_constants(const orr_ensemble *ensemble, orr_sim_options *options,
                                    orr_error *err)
{
    const orr_sim_latencies *c = &options->constants;
    if (c->launch_latency_ns >= 0 && c->kernel_gap_ns >= 0 && c->sync_return_ns >= 0 &&
        c->handoff_ns >= 0 && c->event_latency_ns >= 0 && c->resume_ns >= 0 &&
        c->copy_launch_ns >= 0 && c->copy_gap_ns >= 0)
        return ORR_OK;
    return orr_sim_latencies_measure(ensemble->graphs, ensemble->n_graphs, &options->constants,
                                     NULL, err);
}

orr_status orr_simulate(const orr_ensemble *ensemble, const orr_sim_options *options,
                        orr_arena *arena, orr_simulation *ret, orr_error *err)
{
    const uint32_t n = ensemble->n_graphs;
    orr_sim_options complete;
    compiler c = {.ensemble = ensemble,
                  .options = &complete,
                  .programs = orr_calloc((size_t)n + 1, sizeof *c.programs),
                  .arenas = orr_calloc((size_t)n + 1, sizeof(orr_arena *))};
    orr_status status = ORR_OK;

    if (c.programs == NULL || c.arenas == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, orr_sim_options_complete(options, &complete, err));
    ORR_TRY_OUT(status, measure_constants(ensemble, &complete, err));
    ORR_TRY_OUT(status, orr_parallel_for(n, (int)complete.threads, compile_one, &c, err));
    ORR_TRY_OUT(status, orr_simulate_programs(ensemble, c.programs, &complete, arena, ret, err));
out:
    for (uint32_t d = 0; c.arenas != NULL && d < n; d++)
        orr_arena_free(c.arenas[d]);
    orr_free(c.arenas);
    orr_free(c.programs);
    return status;
}
