/* SPDX-License-Identifier: Apache-2.0 */
#include "outcome/outcome.h"

#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "outcome/heterogeneous.h"

/* Preparation of a job: the plan completed and checked, its modules built and priced, its schedule
 * made. */

static uint32_t sequence_of(const orr_workload *workload, const orr_plan *plan,
                            const orr_model *model)
{
    enum { USUAL = 8192 };
    if (workload->seq > 0)
        return workload->seq;
    if (plan->seq > 0)
        return plan->seq;
    return model->context > 0 && model->context < USUAL ? model->context : USUAL;
}

static orr_status complete(const orr_model *model, const orr_plan *plan, const orr_cluster *cluster,
                           const orr_job_options *options, orr_arena *arena, orr_outcome_job *job,
                           orr_error *err)
{
    if (model->incomplete)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s: its shape is not published, so that nothing can be said of a step",
                        model->name);
    if (model->moe.experts == 0 && plan->ep > 1)
        return orr_fail(err, ORR_INVALID, "ep=%u: %s has no experts", plan->ep, model->name);
    job->plan = orr_plan_with_job_defaults(plan, model, options->workload.task, cluster);
    ORR_TRY(orr_plan_check(&job->plan, err));
    ORR_TRY(orr_model_override(model, &job->plan, arena, &job->model, err));
    if (orr_plan_has_site_micro_batches(&job->plan) && !orr_task_trains(options->workload.task))
        return orr_fail(err, ORR_INVALID, "site_micro_batches go with training");
    job->workload = options->workload;
    job->workload.seq = job->plan.seq = sequence_of(&options->workload, plan, job->model);
    const uint64_t ranks = orr_plan_ranks(&job->plan);
    if (ranks > 1u << 24)
        return orr_fail(err, ORR_LIMIT, "%llu ranks: at most 2^24", (unsigned long long)ranks);
    job->n_ranks = (uint32_t)ranks;
    return ORR_OK;
}

static orr_status price_rows(const orr_outcome_job *job, const orr_step_prices *prices,
                             orr_arena *arena, orr_step_job *step, orr_error *err)
{
    orr_module_cost *costs = orr_arena_array(arena, orr_module_cost, job->row.n_modules);
    if (costs == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < job->row.n_modules; i++)
        ORR_TRY(
            orr_module_cost_at(&job->row.modules[i], &job->plan, prices, arena, &costs[i], err));
    step->costs = costs;
    return ORR_OK;
}

/* Hops from each stage to the next, and from the last stage to the first for the next chunk. */
static orr_status price_hops(const orr_outcome_job *job, const orr_step_prices *prices,
                             orr_arena *arena, orr_step_job *step, orr_error *err)
{
    const uint32_t p = job->plan.pp;
    orr_price *hops = orr_arena_array(arena, orr_price, p);
    if (hops == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < p && p > 1; s++) {
        orr_span span;
        ORR_TRY(orr_plan_stage_span(&job->plan, s, job->cluster, &span, err));
        hops[s] = orr_job_rates_collective(prices->transfers[ORR_AXIS_PP], &span, ORR_COLL_SEND,
                                           job->row.boundary_bytes);
        hops[s].ns = orr_step_jittered_ns(prices, hops[s].ns);
        if (s == 0)
            step->mirror = span;
    }
    step->hops = hops;
    return ORR_OK;
}

static void price_world(const orr_outcome_job *job, const orr_step_prices *prices,
                        orr_step_job *step)
{
    const orr_span span = orr_plan_world_span(&job->plan, job->cluster);
    step->world = orr_job_rates_collective(prices->kernels, &span, ORR_COLL_ALL_REDUCE, 4);
    step->world.ns = orr_step_jittered_ns(prices, step->world.ns);
}

/* Measured copy bandwidth where known, else the link's, else PCIe 4 x16 (assumed). */
static double copy_bytes_per_s(const orr_device *device)
{
    return orr_fact_or(&device->achievable_pcie_bytes_per_s,
                       orr_fact_or(&device->pcie_bytes_per_s, 32e9));
}

orr_status orr_outcome_price(const orr_outcome_job *job, const orr_step_prices *prices,
                             orr_arena *arena, orr_step_job *ret, orr_error *err)
{
    orr_step_job step = job->step;
    ORR_TRY(price_rows(job, prices, arena, &step, err));
    ORR_TRY(price_hops(job, prices, arena, &step, err));
    if (job->cluster->n_sites > 1)
        step.copy_bytes_per_s = copy_bytes_per_s(prices->kernels->device);
    price_world(job, prices, &step);
    step.prices = prices;
    *ret = step;
    return ORR_OK;
}

static orr_status weigh(const orr_outcome_job *job, orr_arena *arena, orr_step_job *step,
                        orr_error *err)
{
    const uint32_t n = job->row.n_modules;
    const uint8_t offload = job->plan.offload;
    const bool offloads = offload == ORR_OFFLOAD_ACTIVATIONS || offload == ORR_OFFLOAD_BOTH;
    orr_module_weights *weights = orr_arena_array(arena, orr_module_weights, n);
    int64_t *kept = offloads ? orr_arena_array(arena, int64_t, n) : NULL;
    if (weights == NULL || (offloads && kept == NULL))
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        orr_module_memory memory;
        orr_module_weights_of(&job->row.modules[i], &weights[i]);
        if (!offloads)
            continue;
        ORR_TRY(orr_module_memory_of(&job->row.modules[i], &memory, err));
        kept[i] = memory.kept_bytes;
    }
    step->weights = weights;
    step->kept_bytes = kept;
    return ORR_OK;
}

static orr_status make_step(orr_outcome_job *job, const orr_job_options *options, orr_arena *arena,
                            orr_error *err)
{
    job->step = (orr_step_job){.plan = &job->plan,
                               .task = job->workload.task,
                               .detail = options->detail,
                               .row = &job->row,
                               .map = &job->map,
                               .schedule = &job->schedule,
                               .copy_bytes_per_s = copy_bytes_per_s(job->cluster->device)};
    const bool trains = orr_task_trains(job->workload.task);
    ORR_TRY(orr_step_stage_transfers(&job->schedule, trains, arena, &job->step.passes, err));
    ORR_TRY(weigh(job, arena, &job->step, err));
    return orr_outcome_price(job, &job->prices, arena, &job->step, err);
}

static bool has_one_device(const orr_cluster *c)
{
    bool one = true;
    for (uint32_t s = 1; s < c->n_sites; s++)
        one &= c->sites[s].device == c->sites[0].device;
    return one;
}

/* Devices of the cluster's sites, and what modules cost on them, without jitter: as the estimator
 * has it, to the bit. */
typedef struct site_costs {
    double *module_ns, chunk_ns[ORR_SITES_MAX];
    const orr_device *device[ORR_SITES_MAX];
    uint32_t n;
} site_costs;

static orr_status add_device(const orr_outcome_job *job, const orr_device *device, orr_arena *arena,
                             site_costs *to, orr_error *err)
{
    const uint32_t n = job->row.n_modules;
    orr_step_prices prices = job->prices;
    prices.stretch = 1;
    if (device != NULL && device != job->cluster->device)
        ORR_TRY(orr_outcome_device_rates(job, device, arena, &prices.kernels, err));
    to->chunk_ns[to->n] = prices.kernels->calibration->micro_batch_ns;
    for (uint32_t m = 0; m < n; m++) {
        orr_module_cost cost;
        const orr_arena_mark mark = orr_arena_get_mark(arena);
        ORR_TRY(orr_module_cost_at(&job->row.modules[m], &job->plan, &prices, arena, &cost, err));
        to->module_ns[to->n * n + m] = (double)(float)cost.phase[ORR_SLOT_FORWARD].span_ns +
                                       (double)(float)cost.phase[ORR_SLOT_BACKWARD].span_ns;
        orr_arena_rewind(arena, mark);
    }
    to->device[to->n++] = device;
    return ORR_OK;
}

static double row_ns(const orr_outcome_job *job, const site_costs *costs, uint32_t device)
{
    double sum = 0;
    for (uint32_t i = 0; i < job->row.n; i++)
        sum += costs->module_ns[device * job->row.n_modules + job->row.module_of[i]];
    return sum;
}

/* Index of a site's device. */
static orr_status device_index(const orr_outcome_job *job, uint32_t site, orr_arena *arena,
                               site_costs *costs, uint32_t *ret, orr_error *err)
{
    const orr_cluster *c = job->cluster;
    const orr_device *on = c->n_sites > 0 ? c->sites[site].device : NULL;
    const orr_device *device = on != NULL ? on : c->device;
    *ret = 0;
    while (*ret < costs->n && costs->device[*ret] != device)
        (*ret)++;
    return *ret < costs->n ? ORR_OK : add_device(job, device, arena, costs, err);
}

/* The device of each stage; of several the one on which the whole model takes longest. */
static orr_status split_by_cost(orr_outcome_job *job, orr_arena *arena, orr_error *err)
{
    const uint32_t pp = job->plan.pp, sites = job->cluster->n_sites > 1 ? job->cluster->n_sites : 1;
    site_costs costs = {
        .module_ns = orr_arena_array(arena, double, (size_t)ORR_SITES_MAX * job->row.n_modules)};
    uint8_t *of_stage = orr_arena_array(arena, uint8_t, pp);
    double *slowest = orr_arena_array(arena, double, pp);
    if (costs.module_ns == NULL || of_stage == NULL || slowest == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0, first = 0, end; i < sites; i++, first = end) {
        uint32_t device;
        end = sites > 1 ? first + job->cluster->sites[i].devices : job->n_ranks;
        ORR_TRY(device_index(job, i, arena, &costs, &device, err));
        const double ns = row_ns(job, &costs, device);
        for (uint32_t s = 0; s < pp; s++) {
            const bool here = orr_plan_stage_ranks(&job->plan, s, first) <
                              orr_plan_stage_ranks(&job->plan, s, end);
            if (here && ns > slowest[s]) {
                slowest[s] = ns;
                of_stage[s] = (uint8_t)device;
            }
        }
    }
    const orr_stage_costs input = {costs.n, costs.module_ns, costs.chunk_ns, of_stage};
    return orr_stages_split_by_cost(&job->row, &input, arena, &job->plan, err);
}

/* The split of layers over stages, by cost unless the plan says otherwise. Where stages are on
 * several kinds of devices it stays even, but with sections=balanced. The estimator does the same.
 */
static orr_status split_layers(orr_outcome_job *job, orr_arena *arena, orr_error *err)
{
    orr_module_time *time = orr_arena_array(arena, orr_module_time, job->row.n_modules);
    if (time == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < job->row.n_modules; i++)
        time[i] = orr_module_nominal_time(&job->row.modules[i]);
    job->unsplit = job->plan;
    if (orr_plan_balances_sections(&job->plan))
        ORR_TRY(split_by_cost(job, arena, err));
    if (has_one_device(job->cluster))
        ORR_TRY(orr_stages_balance(&job->row, time, arena, &job->plan, err));
    return orr_stage_map_make(&job->row, &job->plan, arena, &job->map, err);
}

orr_job_kind orr_outcome_kind(const orr_model *model, uint8_t task)
{
    if (model->kind == ORR_MODEL_DLRM)
        return ORR_JOB_KIND_RECOMMENDATION;
    switch (task) {
    case ORR_TASK_PREFILL:
        return ORR_JOB_KIND_PREFILL;
    case ORR_TASK_DECODE:
        return ORR_JOB_KIND_DECODE;
    case ORR_TASK_LORA:
        return ORR_JOB_KIND_TUNING;
    default:
        return model->moe.experts > 0 ? ORR_JOB_KIND_MIXTURE : ORR_JOB_KIND_DENSE;
    }
}

orr_status orr_outcome_calibration(orr_job_kind kind, const orr_calibration *given,
                                   const orr_device *device, double software_year, orr_arena *arena,
                                   const orr_calibration **ret, orr_error *err)
{
    if (given == NULL)
        ORR_TRY(orr_calibration_of(device, software_year, arena, &given, err));
    return orr_calibration_for_kind(given, kind, arena, ret, err);
}

orr_status orr_outcome_set_hosts(const orr_job_options *options, const orr_cluster *cluster,
                                 orr_arena *arena, orr_workload *workload, orr_error *err)
{
    workload->cluster = cluster;
    workload->calibration = options->calibration;
    return options->calibration != NULL
               ? ORR_OK
               : orr_calibration_of(cluster->device, options->software_year, arena,
                                    &workload->calibration, err);
}

orr_status orr_outcome_prepare(const orr_model *model, const orr_plan *plan,
                               const orr_cluster *cluster, const orr_job_options *options,
                               orr_arena *arena, orr_outcome_job *job, orr_error *err)
{
    *job = (orr_outcome_job){0};
    ORR_TRY(complete(model, plan, cluster, options, arena, job, err));
    ORR_TRY(orr_plan_cluster(&job->plan, cluster, arena, &job->cluster, err));
    job->on_sites = orr_plan_on_sites(&job->plan, job->cluster);
    ORR_TRY(orr_outcome_calibration(orr_outcome_kind(job->model, job->workload.task),
                                    options->calibration, job->cluster->device,
                                    options->software_year, arena, &job->calibration, err));
    orr_job_rates_init(job->cluster, job->calibration, options->algorithm, &job->rates);
    if (job->model->moe.experts > 0)
        ORR_TRY(orr_outcome_set_hosts(options, cluster, arena, &job->workload, err));
    ORR_TRY(orr_modules_build(job->model, &job->plan, &job->workload, arena, &job->row, err));
    const orr_schedule_spec spec = orr_plan_schedule(&job->plan);
    ORR_TRY(orr_schedule_make(&spec, arena, &job->schedule, err));
    ORR_TRY(orr_step_prices_of(&job->plan, &job->rates, &job->prices, err));
    ORR_TRY(orr_step_prices_wire(&job->plan, &job->rates, arena, &job->prices, err));
    ORR_TRY(make_step(job, options, arena, err));
    return split_layers(job, arena, err);
}
