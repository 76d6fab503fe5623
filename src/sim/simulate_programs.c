/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/simulate_programs.h"

#include "base/alloc.h"
#include "sim/engine/contention.h"
#include "sim/results/timeline.h"

static orr_status make_scripts(const orr_ensemble *ensemble, const orr_sim_program *programs,
                               const orr_sim_options *options, orr_transfer_pricer *pricer,
                               orr_arena *scratch, const orr_prepared_program **ret, orr_error *err)
{
    orr_prepared_program *prepared_programs =
        orr_arena_array(scratch, orr_prepared_program, ensemble->n_graphs);
    if (prepared_programs == NULL)
        return orr_fail_memory(err);
    for (uint32_t d = 0; d < ensemble->n_graphs; d++) {
        ORR_TRY(orr_prepared_program_make(
            &programs[d], ensemble->rendezvous ? ensemble->rendezvous[d] : NULL,
            options->host_speed, pricer, scratch, &prepared_programs[d], err));
        for (uint32_t i = 0; i < prepared_programs[d].n_calls; i++)
            if (prepared_programs[d].calls[i].grouping >= ensemble->n_groupings)
                return orr_fail(err, ORR_INVALID, "graph %u: a rendezvous in grouping %u of %u", d,
                                prepared_programs[d].calls[i].grouping, ensemble->n_groupings);
    }
    *ret = prepared_programs;
    return ORR_OK;
}

/* Do prices depend on the ranks' positions on the cluster? */
static bool placement_matters(const orr_ensemble *ensemble,
                              const orr_prepared_program *prepared_programs)
{
    for (uint32_t d = 0; d < ensemble->n_graphs; d++)
        for (uint32_t i = 0; i < prepared_programs[d].n_calls; i++)
            if (prepared_programs[d]
                    .program->works[prepared_programs[d].calls[i].work]
                    .duration_ns < 0)
                return true;
    return false;
}

/* A simulation while its ranks are folded. */
typedef struct attempt {
    const orr_ensemble *ensemble;
    const orr_sim_options *options;
    const orr_prepared_program *prepared_programs;
    orr_transfer_pricer *pricer;
    orr_arena *arena;
    orr_fold fold;
    orr_engine engine;
    orr_flow_classes *classes; /* NULL: flows are not folded */
} attempt;

static orr_status begin(attempt *a, orr_error *err)
{
    orr_engine_done(&a->engine);
    return orr_engine_init(&a->engine, a->ensemble, a->options, a->prepared_programs, &a->fold,
                           a->pricer, err);
}

static uint32_t ranks_with_graphs(const orr_ensemble *ensemble)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < ensemble->n_ranks; r++)
        n += ensemble->graph_of_rank[r] != ORR_NONE;
    return n;
}

/* Chooses classes of ranks where links are not shared, or each rank by itself. */
static orr_status fold_ranks(attempt *a, bool fold, orr_error *err)
{
    const orr_cluster *cluster = a->options->network == ORR_NETWORK_FLOWS ||
                                         placement_matters(a->ensemble, a->prepared_programs)
                                     ? a->options->cluster
                                     : NULL;
    ORR_TRY(fold ? orr_fold_equivalent(a->ensemble, a->prepared_programs, cluster, NULL, a->arena,
                                       &a->fold, err)
                 : orr_fold_none(a->ensemble, a->arena, &a->fold, err));
    return begin(a, err);
}

/* Simulates with classes of flows until what met was foreseen. Sets *ret_done if so; else every
 * rank is to be simulated by itself. */
static orr_status run_folded_flows(attempt *a, bool *ret_done, orr_error *err)
{
    *ret_done = false;
    ORR_TRY(fold_ranks(a, true, err));
    if (a->fold.n_classes == ranks_with_graphs(a->ensemble))
        return ORR_OK;
    ORR_TRY(orr_flow_classes_new(&a->engine, &a->fold, &a->classes, err));
    while (a->classes != NULL) {
        orr_flows *flows = a->engine.contention->flows;
        ORR_TRY(orr_flow_classes_fold(a->classes, orr_flows_fabric(flows), a->prepared_programs,
                                      a->options->cluster, a->arena, &a->fold, err));
        ORR_TRY(begin(a, err));
        flows = a->engine.contention->flows;
        ORR_TRY(orr_flows_fold(flows, orr_flow_classes_links(a->classes), err));
        a->engine.contention->classes = a->classes;
        const orr_status status = orr_engine_run(&a->engine, err);
        const orr_flow_verdict verdict = orr_flow_classes_verdict(a->classes);
        if (verdict == ORR_FLOWS_STRANGE)
            return ORR_OK;
        if (status != ORR_OK || verdict == ORR_FLOWS_RIGHT) {
            *ret_done = true;
            return status;
        }
    }
    return ORR_OK;
}

static orr_status run(attempt *a, orr_error *err)
{
    const bool flows = a->options->network == ORR_NETWORK_FLOWS;
    bool done = false;
    if (flows && a->options->fold)
        ORR_TRY(run_folded_flows(a, &done, err));
    if (done)
        return ORR_OK;
    ORR_TRY(fold_ranks(a, a->options->fold && !flows, err));
    return orr_engine_run(&a->engine, err);
}

orr_status orr_simulate_programs(const orr_ensemble *ensemble, const orr_sim_program *programs,
                                 const orr_sim_options *options, orr_arena *arena,
                                 orr_simulation *ret, orr_error *err)
{
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_transfer_pricer *pricer = orr_malloc(sizeof *pricer);
    attempt a = {.ensemble = ensemble, .options = options, .pricer = pricer, .arena = arena};
    orr_simulation simulation = {.ensemble = ensemble,
                                 .constants = options->constants,
                                 .recording_costs = options->recording_costs};
    orr_status status = ORR_OK;

    if (scratch == NULL || pricer == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    if (options->cluster != NULL && options->cluster->n_devices < ensemble->n_ranks) {
        status = orr_fail(err, ORR_INVALID, "%u ranks: cluster '%s' has %u devices",
                          ensemble->n_ranks, options->cluster->name, options->cluster->n_devices);
        goto out;
    }
    orr_transfer_pricer_init(pricer, options->cluster, options->algorithm);
    ORR_TRY_OUT(status, make_scripts(ensemble, programs, options, pricer, scratch,
                                     &a.prepared_programs, err));
    ORR_TRY_OUT(status, run(&a, err));
    ORR_TRY_OUT(status, orr_engine_check(&a.engine, &a.fold, err));
    ORR_TRY_OUT(status, orr_timelines_of(&a.engine, &a.fold, arena, &simulation, err));
    ORR_TRY_OUT(status,
                orr_contention_link_use(&a.engine, simulation.begin_ns, arena, &simulation, err));
    *ret = simulation;
out:
    orr_engine_done(&a.engine);
    orr_flow_classes_free(a.classes);
    orr_free(pricer);
    orr_arena_free(scratch);
    return status;
}
