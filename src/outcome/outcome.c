/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/outcome.h"

#include <string.h>

#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "outcome/heterogeneous.h"
#include "outcome/multi_pass.h"

void orr_job_options_init(orr_job_options *options)
{
    *options = (orr_job_options){.struct_bytes = sizeof *options,
                                 .detail = ORR_DETAIL_LAYER,
                                 .network = ORR_NETWORK_ALPHA_BETA,
                                 .algorithm = ORR_ALGORITHM_AUTO,
                                 .fold = true,
                                 .threads = 1};
}

static orr_status complete(const orr_job_options *given, orr_job_options *ret, orr_error *err)
{
    orr_job_options_init(ret);
    if (given != NULL) {
        /* A caller built with an older header has a shorter struct. */
        memcpy(ret, given, given->struct_bytes < sizeof *ret ? given->struct_bytes : sizeof *ret);
        ret->struct_bytes = sizeof *ret;
    }
    if (ret->detail > ORR_DETAIL_OPERATOR || ret->network > ORR_NETWORK_FLOWS ||
        ret->algorithm >= ORR_ALGORITHMS || ret->workload.task >= ORR_TASKS)
        return orr_fail(err, ORR_INVALID, "no such detail, network, algorithm or task");
    return ORR_OK;
}

/* Models without tokens can be trained or run forward once. */
static orr_status check_task(const orr_model *model, const orr_workload *workload, orr_error *err)
{
    const uint8_t task = workload->task;
    if (model->kind != ORR_MODEL_TRANSFORMER && task != ORR_TASK_PRETRAIN && task != ORR_TASK_SFT &&
        task != ORR_TASK_PREFILL)
        return orr_fail(err, ORR_UNSUPPORTED, "%s is no language model: there is no task %s of it",
                        model->name, orr_task_name((orr_task)task));
    if (workload->images > 0 && model->vision.layers == 0)
        return orr_fail(err, ORR_INVALID, "%s does not look at pictures", model->name);
    return ORR_OK;
}

/* An emitted step has no host threads and no gaps of a recording: launches are in the prices. */
static const orr_sim_latencies none = {0};

/* Energy is counted by device; ranks with another device on request keep the cluster's. */
static orr_status devices_of_graphs(const orr_outcome_job *job, orr_arena *arena,
                                    const orr_device *const **ret, orr_error *err)
{
    const orr_rank_kinds *kinds = job->kinds;
    const orr_device **devices = orr_arena_array(arena, const orr_device *, kinds->n);
    if (devices == NULL)
        return orr_fail_memory(err);
    for (uint32_t k = 0; k < kinds->n && job->cluster->n_sites > 1; k++)
        devices[k] = kinds->variants[kinds->kinds[k].variant].device;
    *ret = devices;
    return ORR_OK;
}

/* A representative rank is named after the first that it stands for. */
static void name_ranks(const orr_outcome_job *job, const orr_ensemble *ensemble,
                       const orr_simulation *simulation)
{
    orr_timeline *timelines = (orr_timeline *)(uintptr_t)simulation->timelines;
    for (uint32_t c = 0; c < simulation->n_classes; c++)
        timelines[c].rank =
            job->kinds->kinds[ensemble->graph_of_rank[timelines[c].rank]].first_rank;
}

orr_status orr_outcome_simulate(const orr_outcome_job *job, const orr_job_options *options,
                                const orr_ensemble *ensemble, orr_arena *arena,
                                const orr_simulation **ret, orr_error *err)
{
    orr_sim_options sim;
    orr_simulation *simulation = orr_arena_one(arena, orr_simulation);
    if (simulation == NULL)
        return orr_fail_memory(err);
    orr_sim_options_init(&sim);
    sim.constants = none;
    sim.network = options->network == ORR_NETWORK_FLOWS ? ORR_NETWORK_FLOWS : ORR_NETWORK_RECORDED;
    sim.algorithm = options->algorithm;
    sim.cluster = job->cluster;
    sim.fold = options->fold;
    sim.threads = options->threads;
    sim.progress = options->progress;
    sim.progress_ctx = options->progress_ctx;
    ORR_TRY(devices_of_graphs(job, arena, &sim.device_of_graph, err));
    ORR_TRY(orr_simulate(ensemble, &sim, arena, simulation, err));
    if (ensemble->multiplicity != NULL)
        name_ranks(job, ensemble, simulation);
    *ret = simulation;
    return ORR_OK;
}

/* Nodes of one representative of each class of ranks; without folding, of every rank. */
static uint64_t count_nodes(const orr_outcome *o)
{
    uint64_t n = 0;
    for (uint32_t c = 0; c < o->simulation->n_classes; c++)
        n += o->ensemble->graphs[o->simulation->timelines[c].graph]->n_nodes;
    return n;
}

static orr_status fill(const orr_outcome_job *job, const orr_outcome_layout *laid, orr_arena *arena,
                       orr_outcome *o, orr_error *err)
{
    const uint32_t n = laid->ensemble.n_graphs;
    orr_ensemble *ensemble = orr_arena_one(arena, orr_ensemble);
    const orr_step_node **nodes = orr_arena_array(arena, const orr_step_node *, n);
    if (ensemble == NULL || nodes == NULL)
        return orr_fail_memory(err);
    *ensemble = laid->ensemble;
    for (uint32_t d = 0; d < n; d++)
        nodes[d] = laid->graphs[d].nodes;
    o->model = job->model;
    o->plan = job->plan;
    o->workload = job->workload;
    o->cluster = job->cluster;
    o->n_ranks = job->n_ranks;
    o->ensemble = ensemble;
    o->nodes = nodes;
    o->stage_of_graph = laid->stage_of;
    o->job = job;
    return ORR_OK;
}

/* Bytes that the worst stage has more than its device; less than 0: free. */
static int64_t over_bytes(const orr_memory_plan *plan)
{
    const int64_t usable = plan->capacity_bytes >= 0 ? plan->capacity_bytes : INT64_MAX / 2;
    return plan->stages[plan->worst].peak_bytes - usable;
}

/* Memory of the replicas of a site that have fewer micro-batches, where its devices have less left.
 */
static orr_status plan_memory_of_site(const orr_memory_plan_input *all, const orr_outcome_job *job,
                                      uint32_t site, orr_arena *arena, orr_memory_plan *worst,
                                      const orr_device *const **devices, orr_error *err)
{
    const orr_plan plan =
        orr_plan_with_micro_batches(&job->plan, job->plan.site_micro_batches[site]);
    const orr_schedule_spec spec = orr_plan_schedule(&plan);
    const orr_device **of_stage = orr_arena_array(arena, const orr_device *, plan.pp);
    orr_memory_plan_input memory = *all;
    orr_schedule_plan schedule;
    orr_memory_plan made;
    uint32_t replica = 0;
    if (of_stage == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < site; i++)
        replica += plan.sites[i];
    const orr_coordinates first = {.at = {[ORR_AXIS_DP] = replica}};
    const uint32_t rank = orr_plan_rank_at(&job->plan, &first);
    for (uint32_t s = 0; s < plan.pp; s++)
        of_stage[s] = job->cluster->sites[orr_cluster_site(job->cluster, rank)].device;
    ORR_TRY(orr_schedule_make(&spec, arena, &schedule, err));
    memory.plan = &plan;
    memory.schedule = &schedule;
    memory.stage_devices = of_stage;
    ORR_TRY(orr_memory_plan_of_job(&memory, arena, &made, err));
    if (worst->n_stages == 0 || over_bytes(&made) > over_bytes(worst)) {
        *worst = made;
        *devices = of_stage;
    }
    return ORR_OK;
}

/* Memory of the modules, stages and schedule that were simulated; where replicas have unequally
 * many micro-batches, of those that have least left. */
static orr_status plan_memory(const orr_outcome_job *job, orr_arena *arena, orr_memory_plan *ret,
                              orr_error *err)
{
    const orr_device *const *devices;
    orr_memory_plan worst = {0};
    ORR_TRY(orr_stage_devices(&job->plan, job->cluster, arena, &devices, err));
    const orr_memory_plan_input memory = {.model = job->model,
                                          .plan = &job->plan,
                                          .workload = &job->workload,
                                          .stage_devices = devices,
                                          .row = &job->row,
                                          .map = &job->map,
                                          .schedule = &job->schedule};
    for (uint32_t i = 0; i < ORR_PLAN_PARTS; i++)
        if (job->plan.site_micro_batches[i] > 0)
            ORR_TRY(plan_memory_of_site(&memory, job, i, arena, &worst, &devices, err));
    if (worst.n_stages == 0)
        ORR_TRY(orr_memory_plan_of_job(&memory, arena, &worst, err));
    *ret = worst;
    return ret->fits ? ORR_OK
                     : orr_memory_plan_options(job->model, &job->unsplit, &job->workload,
                                               devices[ret->worst], ret, arena, &ret->options,
                                               &ret->n_options, err);
}

static orr_status run(orr_outcome_job *job, const orr_job_options *options,
                      const orr_outcome_layout *laid, orr_arena *arena, orr_outcome *o,
                      orr_error *err)
{
    ORR_TRY(fill(job, laid, arena, o, err));
    ORR_TRY(orr_outcome_simulate(job, options, o->ensemble, arena, &o->simulation, err));
    o->n_nodes = count_nodes(o);
    ORR_TRY(orr_outcome_metrics(job, laid, arena, o, err));
    return plan_memory(job, arena, &o->memory, err);
}

orr_status orr_outcome_of(const orr_model *model, const orr_plan *plan, const orr_cluster *cluster,
                          const orr_job_options *given, orr_arena *arena, orr_outcome *ret,
                          orr_error *err)
{
    orr_job_options options;
    orr_outcome outcome = {0};
    orr_outcome_layout laid = {0};
    orr_outcome_job *job = orr_arena_one(arena, orr_outcome_job);
    if (job == NULL)
        return orr_fail_memory(err);
    ORR_TRY(complete(given, &options, err));
    ORR_TRY(check_task(model, &options.workload, err));
    if (orr_task_is_multi_pass(options.workload.task))
        return orr_multi_pass_outcome_of(model, plan, cluster, &options, arena, ret, err);
    ORR_TRY(orr_outcome_prepare(model, plan, cluster, &options, arena, job, err));
    ORR_TRY(orr_outcome_layout_build(job, &options, arena, &laid, err));
    const orr_status status = run(job, &options, &laid, arena, &outcome, err);
    if (status == ORR_OK)
        *ret = outcome;
    else
        orr_outcome_layout_free(&laid);
    return status;
}

void orr_outcome_free(orr_outcome *outcome)
{
    const orr_ensemble *e = outcome->ensemble;
    for (uint32_t d = 0; e != NULL && d < e->n_graphs; d++)
        orr_graph_free(e->graphs[d]);
    *outcome = (orr_outcome){0};
}
