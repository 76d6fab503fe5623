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

/* Chooses classes of ranks. Flows share links, so that a rank's position decides whom it
 * disturbs: with flows no two ranks are equivalent. */
static orr_status fold_ranks(const orr_ensemble *ensemble,
                             const orr_prepared_program *prepared_programs,
                             const orr_sim_options *options, orr_arena *arena, orr_fold *ret,
                             orr_error *err)
{
    if (!options->fold || options->network == ORR_NETWORK_FLOWS)
        return orr_fold_none(ensemble, arena, ret, err);
    const orr_cluster *cluster =
        placement_matters(ensemble, prepared_programs) ? options->cluster : NULL;
    return orr_fold_equivalent(ensemble, prepared_programs, cluster, NULL, arena, ret, err);
}

orr_status orr_simulate_programs(const orr_ensemble *ensemble, const orr_sim_program *programs,
                                 const orr_sim_options *options, orr_arena *arena,
                                 orr_simulation *ret, orr_error *err)
{
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_transfer_pricer *pricer = orr_malloc(sizeof *pricer);
    orr_engine engine = {0};
    orr_fold fold;
    const orr_prepared_program *prepared_programs = NULL;
    orr_simulation simulation = {.ensemble = ensemble, .constants = options->constants};
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
                                     &prepared_programs, err));
    ORR_TRY_OUT(status, fold_ranks(ensemble, prepared_programs, options, arena, &fold, err));
    ORR_TRY_OUT(status,
                orr_engine_init(&engine, ensemble, options, prepared_programs, &fold, pricer, err));
    ORR_TRY_OUT(status, orr_engine_run(&engine, err));
    ORR_TRY_OUT(status, orr_engine_check(&engine, &fold, err));
    ORR_TRY_OUT(status, orr_timelines_of(&engine, &fold, arena, &simulation, err));
    ORR_TRY_OUT(status,
                orr_contention_link_use(&engine, simulation.begin_ns, arena, &simulation, err));
    *ret = simulation;
out:
    orr_engine_done(&engine);
    orr_free(pricer);
    orr_arena_free(scratch);
    return status;
}
