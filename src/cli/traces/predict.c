/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/traces/predict.h"

#include <math.h>
#include <string.h>

#include "cli/command/simulation_meter.h"
#include "report/humanize/human.h"

/* The recorded job, or what becomes of it in another plan. */
static orr_status make_ensemble(orr_predict *p)
{
    orr_session *session = &p->session;
    const orr_pricing pricing = {
        .chain = p->chain,
        .device = p->what.from,
        .recorded = p->what.recorded_network,
        .cluster = p->network,
        .algorithm = p->what.algorithm,
    };
    if (!p->rescales)
        return orr_ensemble_of_job(session->job, session->arena, &p->ensemble, &session->err);
    ORR_TRY(orr_recognise(session->job, session->settings->traced ? &p->traced : NULL,
                          session->arena, &p->recognition, &session->err));
    if (p->ranks)
        ORR_TRY(orr_rescale_replicas(session->job, &p->recognition, p->ranks, session->arena,
                                     &p->rescaled, &session->err));
    else
        ORR_TRY(orr_rescale(session->job, &p->recognition, &p->plan, &pricing, session->arena,
                            &p->rescaled, &session->err));
    p->ensemble = p->rescaled.ensemble;
    return ORR_OK;
}

/* A job composed anew has priced its communication itself. */
static orr_status change_ensemble(orr_predict *p)
{
    orr_session *session = &p->session;
    if (p->rescaled.n_made > 0)
        p->what.network = NULL;
    p->what.recorded = p->rescaled.recorded_ensemble;
    ORR_TRY(orr_whatif_apply(p->ensemble, &p->what, session->arena, &p->ensemble, &p->report,
                             &session->err));
    if (p->report.unused_scale != ORR_NONE)
        return orr_fail(&session->err, ORR_NOT_FOUND, "nothing that was recorded is called '%s'",
                        p->what.scales[p->report.unused_scale].name);
    if (p->report.idle_straggler != ORR_NONE)
        orr_session_remark(session,
                           "rank %u did nothing on a device: there is nothing to slow down",
                           p->report.idle_straggler);
    if (p->report.unpriced > 0)
        orr_session_remark(session,
                           "%llu kernels are left as recorded: the catalogue knows too "
                           "little of the devices",
                           (unsigned long long)p->report.unpriced);
    return ORR_OK;
}

/* What the allocator held at most has to fit the other device, where the recording says it. */
static orr_status check_memory(orr_predict *p)
{
    orr_session *session = &p->session;
    const orr_memory_summary *rows;
    size_t n;
    if (p->what.to == NULL)
        return ORR_OK;
    const double room = orr_fact_or(&p->what.to->memory_bytes, INFINITY);
    ORR_TRY(orr_analyze_memory(session->job, NULL, session->arena, &rows, &n, &session->err));
    for (size_t i = 0; i < n; i++) {
        const int64_t peak = rows[i].peak_allocated_bytes;
        char held[ORR_HUMAN_MAX], has[ORR_HUMAN_MAX];
        if (strncmp(rows[i].device, "cpu", 3) != 0 && (double)peak > room)
            return orr_fail(&session->err, ORR_INVALID,
                            "out of memory: rank %u held %s at its peak, and %s has %s",
                            rows[i].rank, orr_human_bytes(held, (double)peak), p->what.to->name,
                            orr_human_bytes(has, room));
    }
    return ORR_OK;
}

/* What changes a job rests on its replay: how far that is off is known. */
static orr_status replay_unchanged(orr_predict *p)
{
    orr_session *session = &p->session;
    orr_sim_options options;
    orr_simulation simulation;
    const orr_ensemble *ensemble;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_status status = arena ? ORR_OK : orr_fail_memory(&session->err);
    orr_sim_options_init(&options);
    options.threads = p->sim.threads;
    ORR_TRY_OUT(status, status);
    ORR_TRY_OUT(status, orr_ensemble_of_job(session->job, arena, &ensemble, &session->err));
    ORR_TRY_OUT(status, orr_simulate(ensemble, &options, arena, &simulation, &session->err));
    p->replayed_ns = simulation.end_ns - simulation.begin_ns;
    status = orr_read_time_table(session->job, &simulation, options.queue_depth, arena,
                                 &p->read_time, &p->read_frac, &session->err);
    p->read_time = (orr_table){0};
out:
    orr_arena_free(arena);
    return status;
}

static orr_status simulate(orr_predict *p)
{
    orr_session *session = &p->session;
    const orr_job *job = session->job;
    if (p->changes && p->replayed_ns == 0)
        ORR_TRY(replay_unchanged(p));
    ORR_TRY(orr_sim_latencies_measure(job->graphs, job->n_graphs, &p->sim.constants, &p->seen,
                                      &session->err));
    orr_simulation_meter meter;
    orr_simulation_meter_begin(&meter, session);
    p->sim.progress = orr_simulation_meter_update;
    p->sim.progress_ctx = &meter;
    const orr_status status =
        orr_simulate(p->ensemble, &p->sim, session->arena, &p->simulation, &session->err);
    orr_simulation_meter_done(&meter);
    ORR_TRY(status);
    if (!p->changes && p->replayed_ns == 0) {
        p->replayed_ns = p->simulation.end_ns - p->simulation.begin_ns;
        ORR_TRY(orr_read_time_table(job, &p->simulation, p->sim.queue_depth, session->arena,
                                    &p->read_time, &p->read_frac, &session->err));
    }
    return ORR_OK;
}

orr_status orr_predict_run(orr_predict *p)
{
    ORR_TRY(check_memory(p));
    ORR_TRY(make_ensemble(p));
    ORR_TRY(change_ensemble(p));
    return simulate(p);
}

static int finish(orr_predict *p, int code)
{
    orr_job_free(p->simulated);
    orr_rescaled_free(&p->rescaled);
    orr_session_done(&p->session);
    return code;
}

/* What was typed is a matter of usage; what cannot be, of the job. */
static int fail(orr_predict *p, int code_of_invalid)
{
    const int code = orr_session_fail(&p->session);
    return finish(p, p->session.err.status == ORR_INVALID ? code_of_invalid : code);
}

int orr_command_predict(const orr_settings *settings)
{
    orr_predict p = {0};
    if (orr_session_init(&p.session, settings) != ORR_OK ||
        orr_session_analysis(&p.session) != ORR_OK || orr_predict_options(&p) != ORR_OK)
        return fail(&p, EXIT_USAGE);
    if (orr_session_load(&p.session, settings->args, settings->n_args) != ORR_OK ||
        orr_predict_unprofiled(&p) != ORR_OK || orr_predict_devices(&p) != ORR_OK)
        return fail(&p, EXIT_INPUT);
    if (orr_predict_run(&p) != ORR_OK ||
        orr_simulation_job(&p.simulation, p.rescales ? NULL : p.session.job, &p.simulated,
                           &p.session.err) != ORR_OK)
        return fail(&p, EXIT_INFEASIBLE);
    if (orr_predict_print(&p) != ORR_OK)
        return fail(&p, EXIT_INPUT);
    return finish(&p, EXIT_DONE);
}
