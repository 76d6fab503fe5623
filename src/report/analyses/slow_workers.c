/* SPDX-License-Identifier: Apache-2.0 */
#include "report/analyses/registry.h"

#include <stdio.h>
#include <string.h>

#include <orrery/whatif.h>

#include "sim/stragglers.h"

/* Which worker slows all: what the job would take if a rank, a stage, or all were like their peers
 * (arXiv 2505.05713), each by a simulation. */
enum { MOST = 16 }; /* ranks, and stages, that are simulated: those with the largest excess */

typedef struct slow_worker {
    const char *part; /* "rank", "stage", "all" */
    uint32_t number, ranks;
    uint64_t operations;
    int64_t excess_ns, replayed_ns, without_ns, gain_ns;
    double slowdown; /* replayed over without */
} slow_worker;

#define C(field, type) ORR_COL_(slow_worker, field, type)
static const orr_column columns_slow_workers[] = {
    C(part, TEXT),      C(number, U32),    C(ranks, U32),  C(operations, U64),  C(excess_ns, NS),
    C(replayed_ns, NS), C(without_ns, NS), C(gain_ns, NS), C(slowdown, NUMBER),
};
#undef C

static orr_status simulated_ns(const orr_job *job, const orr_slow_part *part,
                               const orr_sim_options *options, int64_t *ret_ns, orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_ensemble *ensemble;
    orr_simulation simulation;
    orr_whatif what;
    orr_whatif_report report;
    orr_status status = arena ? ORR_OK : orr_fail_memory(err);
    ORR_TRY_OUT(status, status);
    orr_whatif_init(&what);
    what.without_stragglers = part ? part->ranks : NULL;
    what.n_without_stragglers = part ? part->n_ranks : 0;
    ORR_TRY_OUT(status, orr_ensemble_of_job(job, arena, &ensemble, err));
    ORR_TRY_OUT(status, orr_whatif_apply(ensemble, &what, arena, &ensemble, &report, err));
    ORR_TRY_OUT(status, orr_simulate(ensemble, options, arena, &simulation, err));
    *ret_ns = simulation.end_ns - simulation.begin_ns;
out:
    orr_arena_free(arena);
    return status;
}

static orr_status find_slow_workers(const orr_job *job, const orr_analysis_options *options,
                                    orr_arena *arena, const slow_worker **ret_rows, size_t *ret_n,
                                    orr_error *err)
{
    const orr_slow_part *parts;
    orr_sim_options sim;
    size_t n;
    int64_t replayed_ns = 0;
    (void)options; /* of the whole recording */
    orr_sim_options_init(&sim);
    ORR_TRY(orr_slow_parts_find(job, MOST, arena, &parts, &n, err));
    slow_worker *rows = orr_arena_array(arena, slow_worker, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    if (n > 0) {
        ORR_TRY(orr_sim_latencies_measure(job->graphs, job->n_graphs, &sim.constants, NULL, err));
        ORR_TRY(simulated_ns(job, NULL, &sim, &replayed_ns, err));
    }
    for (size_t i = 0; i < n; i++) {
        int64_t ns = 0;
        ORR_TRY(simulated_ns(job, &parts[i], &sim, &ns, err));
        rows[i] = (slow_worker){orr_slow_kind_name((orr_slow_kind)parts[i].kind),
                                parts[i].number,
                                parts[i].n_ranks,
                                parts[i].excess.operations,
                                parts[i].excess.ns,
                                replayed_ns,
                                ns,
                                replayed_ns - ns,
                                ns > 0 ? (double)replayed_ns / (double)ns : 1};
    }
    *ret_rows = rows;
    *ret_n = n;
    return ORR_OK;
}
ORR_RUN_(slow_workers, slow_worker, find_slow_workers,
         "What the job would take if a rank, a stage or all were like their peers")
