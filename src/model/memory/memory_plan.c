/* SPDX-License-Identifier: Apache-2.0 */
#include "model/memory/memory.h"
#include "model/plan/groups.h"
#include "model/schedule/schedule.h"

/* Limit of places, so that sums stay within 63 bits. */
enum { PLACES_MAX = 1 << 15 };

/* Layers of the model on the places before `place`. */
static uint32_t layers_before(const orr_module_sequence *row, uint32_t place)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < place; i++)
        n += orr_module_is_layer(row->modules[row->module_of[i]].kind);
    return n;
}

static void add_module(const orr_stage_memory_input *parts, const orr_module_memory *m,
                       orr_stage_memory *s)
{
    const orr_state_bytes states = orr_state_bytes_of(m, parts->plan, parts->task);
    s->bytes[ORR_MEMORY_WEIGHTS] += states.weights;
    s->bytes[ORR_MEMORY_GRADIENTS] += states.gradients;
    s->bytes[ORR_MEMORY_OPTIMIZER] += states.optimizer;
    s->host_bytes += states.host;
    if (parts->plan->zero < 3) /* with ZeRO 3 they count as gathered weights */
        s->bytes[ORR_MEMORY_WEIGHTS] += m->derived_bytes;
}

/* Model states of the stage's chunks. Weights that two modules of the stage share count once. */
static void add_states(const orr_stage_memory_input *parts, orr_stage_memory *s)
{
    bool tied = false;
    for (uint32_t c = 0; c < parts->schedule->spec.chunks; c++) {
        const uint32_t k = orr_schedule_virtual_stage_at(&parts->schedule->spec, parts->stage, c);
        for (uint32_t i = parts->map->first[k]; i < parts->map->first[k + 1]; i++) {
            const orr_module_memory *m = &parts->memory[orr_module_at(parts, k, i)];
            const orr_module_memory rest = orr_module_memory_untied(m);
            add_module(parts, tied && m->tied_parameters > 0 ? &rest : m, s);
            tied |= m->tied_parameters > 0;
        }
    }
    s->bytes[ORR_MEMORY_WEIGHTS] += orr_stage_gathered_bytes(parts);
}

/* Tokens of a sample before generation starts. */
static uint32_t prompt_tokens(const orr_model *model, const orr_plan *plan,
                              const orr_workload *workload)
{
    if (workload->prompt > 0)
        return workload->prompt;
    if (workload->seq > 0)
        return workload->seq;
    if (plan->seq > 0)
        return plan->seq;
    return model->context < 8192 ? model->context : 8192;
}

/* Tokens of a sample that the KV cache has room for; 0: the task has no cache. */
static uint64_t cached_tokens(const orr_model *model, const orr_plan *plan,
                              const orr_workload *workload)
{
    const uint64_t prompt = prompt_tokens(model, plan, workload);
    switch (workload->task) {
    case ORR_TASK_PREFILL:
    case ORR_TASK_RL:
        return prompt + workload->generated;
    case ORR_TASK_DECODE:
        return prompt + (workload->generated > 0 ? workload->generated : 1);
    default:
        return 0;
    }
}

static orr_status cache_bytes(const orr_stage_memory_input *parts, const orr_model *model,
                              const orr_workload *workload, int64_t *ret, orr_error *err)
{
    const uint64_t tokens = cached_tokens(model, parts->plan, workload);
    const uint64_t samples = (uint64_t)parts->plan->micro_batch * parts->plan->micro_batches;
    double bytes = 0;
    for (uint32_t c = 0; c < parts->schedule->spec.chunks && tokens > 0; c++) {
        const uint32_t k = orr_schedule_virtual_stage_at(&parts->schedule->spec, parts->stage, c);
        uint32_t layer = layers_before(parts->row, parts->map->first[k]);
        for (uint32_t i = parts->map->first[k]; i < parts->map->first[k + 1]; i++)
            if (orr_module_is_layer(parts->row->modules[parts->row->module_of[i]].kind))
                bytes += orr_kv_cache_bytes(model, parts->plan, layer++, tokens, samples);
    }
    if (bytes > 0x1p53)
        return orr_fail(err, ORR_LIMIT, "a key-value cache of %.3g bytes on one rank", bytes);
    *ret = (int64_t)bytes;
    return ORR_OK;
}

/* All weights of the stage that are not gathered anyway: FSDP gathers them once before
 * generation. */
static int64_t whole_weights(const orr_stage_memory_input *parts)
{
    int64_t bytes = 0;
    for (uint32_t c = 0; c < parts->schedule->spec.chunks && parts->plan->zero >= 3; c++) {
        const uint32_t k = orr_schedule_virtual_stage_at(&parts->schedule->spec, parts->stage, c);
        for (uint32_t i = parts->map->first[k]; i < parts->map->first[k + 1]; i++)
            bytes += parts->memory[parts->row->module_of[i]].gather_bytes;
    }
    return bytes - orr_stage_gathered_bytes(parts);
}

/* KV cache. Reinforcement learning generates, then trains: each phase can use the memory of the
 * other. */
static void add_cache(const orr_stage_memory_input *parts, int64_t bytes, orr_stage_memory *s)
{
    int64_t *activations = &s->bytes[ORR_MEMORY_ACTIVATIONS],
            *transient = &s->bytes[ORR_MEMORY_TRANSIENT];
    if (parts->task == ORR_TASK_RL) {
        const int64_t weights = whole_weights(parts);
        if (bytes + weights <= *activations + *transient)
            return;
        *activations = 0;
        *transient = weights;
        s->in_flight = 0;
    }
    s->bytes[ORR_MEMORY_CACHE] = bytes;
}

static orr_status plan_stage(const orr_stage_memory_input *parts, const orr_model *model,
                             const orr_workload *workload, orr_arena *arena, orr_stage_memory *ret,
                             orr_error *err)
{
    orr_stage_memory s = {0};
    orr_buffer_bytes buffers;
    int64_t cache;
    ORR_TRY(cache_bytes(parts, model, workload, &cache, err));
    ORR_TRY(orr_stage_activations(parts, arena, &s, err));
    ORR_TRY(orr_stage_buffers(parts, &buffers, err));
    const int64_t unsharded_gradients = s.bytes[ORR_MEMORY_GRADIENTS];
    add_states(parts, &s);
    add_cache(parts, cache, &s);
    for (int kind = 0; kind < ORR_MEMORY_BUFFERS; kind++)
        s.allocated_bytes += s.bytes[kind];
    s.allocated_bytes += buffers.visible;
    s.bytes[ORR_MEMORY_BUFFERS] = buffers.visible + buffers.hidden;
    const int64_t come_and_go = s.bytes[ORR_MEMORY_ACTIVATIONS] + s.bytes[ORR_MEMORY_TRANSIENT] +
                                unsharded_gradients + orr_stage_gathered_bytes(parts);
    const int64_t usable = orr_usable_bytes(parts->device);
    s.bytes[ORR_MEMORY_FRAGMENTATION] = orr_fragmentation_bytes(come_and_go);
    s.reserved_bytes = orr_reserved_bytes(
        s.allocated_bytes, come_and_go, usable < buffers.hidden ? usable : usable - buffers.hidden);
    s.peak_bytes = s.allocated_bytes + buffers.hidden + s.bytes[ORR_MEMORY_FRAGMENTATION];
    *ret = s;
    return ORR_OK;
}

static const orr_device *device_of(const orr_memory_plan_input *job, uint32_t stage)
{
    return job->stage_devices != NULL ? job->stage_devices[stage] : job->device;
}

/* Bytes over the device's capacity; negative: free. An unknown capacity counts as unlimited. */
static int64_t over_bytes(const orr_memory_plan_input *job, const orr_stage_memory *stages,
                          uint32_t stage)
{
    const int64_t usable = orr_usable_bytes(device_of(job, stage));
    return stages[stage].peak_bytes - (usable >= 0 ? usable : INT64_MAX / 2);
}

static void find_worst(const orr_memory_plan_input *job, orr_memory_plan *plan)
{
    int64_t worst = over_bytes(job, plan->stages, 0);
    for (uint32_t i = 1; i < plan->n_stages; i++) {
        const int64_t over = over_bytes(job, plan->stages, i);
        if (over > worst) {
            plan->worst = i;
            worst = over;
        }
    }
    plan->capacity_bytes = orr_usable_bytes(device_of(job, plan->worst));
    plan->fits = plan->capacity_bytes < 0 || worst <= 0;
    plan->missing_bytes = plan->fits ? 0 : worst;
}

/* Samples and tokens that would fill a stage's device; the least of all stages. What comes and goes
 * grows with the samples, and in a prefill with the tokens. */
static void find_most(const orr_memory_plan_input *job, orr_memory_plan *plan)
{
    const bool prefill = job->workload->task == ORR_TASK_PREFILL;
    const double samples = (double)job->plan->batch,
                 tokens = (double)cached_tokens(job->model, job->plan, job->workload);
    double most = 0, longest = 0;
    if (orr_task_trains(job->workload->task))
        return;
    for (uint32_t i = 0; i < plan->n_stages; i++) {
        const orr_stage_memory *s = &plan->stages[i];
        const int64_t usable = orr_usable_bytes(device_of(job, i));
        const double cache = (double)s->bytes[ORR_MEMORY_CACHE],
                     comes = (double)(s->bytes[ORR_MEMORY_ACTIVATIONS] +
                                      s->bytes[ORR_MEMORY_TRANSIENT] +
                                      s->bytes[ORR_MEMORY_FRAGMENTATION]);
        const double of_tokens = cache + (prefill ? comes : 0);
        const double free_bytes = (double)(usable - s->peak_bytes);
        if (usable < 0 || cache <= 0)
            continue;
        const double more = samples * (1 + free_bytes / (cache + comes)),
                     longer = tokens * (1 + free_bytes / of_tokens);
        most = most == 0 || more < most ? more : most;
        longest = longest == 0 || longer < longest ? longer : longest;
    }
    plan->most_samples = most > 0 ? (int64_t)most : 0;
    plan->most_tokens = longest > 0 ? (int64_t)longest : 0;
}

static orr_status plan_stages(orr_stage_memory_input *parts, const orr_memory_plan_input *job,
                              orr_arena *arena, orr_memory_plan *ret, orr_error *err)
{
    const uint32_t n = parts->schedule->spec.stages;
    orr_stage_memory *stages = orr_arena_array(arena, orr_stage_memory, n);
    if (stages == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < n; s++) {
        parts->stage = s;
        parts->device = device_of(job, s);
        ORR_TRY(plan_stage(parts, job->model, job->workload, arena, &stages[s], err));
    }
    orr_memory_plan plan = {.n_stages = n, .stages = stages};
    find_worst(job, &plan);
    find_most(job, &plan);
    *ret = plan;
    return ORR_OK;
}

static const orr_device *smaller(const orr_device *a, const orr_device *b)
{
    return a == NULL || orr_usable_bytes(b) < orr_usable_bytes(a) ? b : a;
}

static void find_devices(const orr_plan *plan, const orr_cluster *cluster,
                         const orr_device **devices)
{
    const uint32_t n_ranks = (uint32_t)orr_plan_ranks(plan);
    for (uint32_t first = 0, end; first < n_ranks; first = end) {
        const orr_site *site = &cluster->sites[orr_cluster_site(cluster, first)];
        end = orr_cluster_unit(cluster, cluster->site_level, first).end;
        end = end < n_ranks ? end : n_ranks;
        for (uint32_t s = 0; s < plan->pp; s++)
            if (orr_plan_stage_ranks(plan, s, first) < orr_plan_stage_ranks(plan, s, end))
                devices[s] = smaller(devices[s], site->device);
    }
}

orr_status orr_stage_devices(const orr_plan *plan, const orr_cluster *cluster, orr_arena *arena,
                             const orr_device *const **ret, orr_error *err)
{
    const orr_device **devices = orr_arena_array(arena, const orr_device *, plan->pp);
    if (devices == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < plan->pp && cluster->n_sites < 2; s++)
        devices[s] = cluster->device;
    if (cluster->n_sites >= 2)
        find_devices(plan, cluster, devices);
    *ret = devices;
    return ORR_OK;
}

/* DualPipe has as many virtual stages as stages, and holds each of them twice. */
static orr_status map_of(const orr_module_sequence *row, const orr_plan *plan, orr_arena *arena,
                         orr_stage_map *ret, orr_error *err)
{
    orr_plan dealt = *plan;
    if (plan->schedule == ORR_SCHEDULE_DUALPIPE)
        dealt.vp = 1;
    return orr_stage_map_make(row, &dealt, arena, ret, err);
}

orr_status orr_memory_plan_of_job(const orr_memory_plan_input *job, orr_arena *arena,
                                  orr_memory_plan *ret, orr_error *err)
{
    const orr_module_sequence *row = job->row;
    if (row->n > PLACES_MAX)
        return orr_fail(err, ORR_LIMIT, "%u layers are more than %d", row->n, PLACES_MAX);
    orr_module_memory *memory = orr_arena_array(arena, orr_module_memory, row->n_modules);
    if (memory == NULL)
        return orr_fail_memory(err);
    for (uint32_t m = 0; m < row->n_modules; m++)
        ORR_TRY(orr_module_memory_of_plan(&row->modules[m], job->plan, &memory[m], err));
    orr_stage_memory_input parts = {
        .plan = job->plan,
        .task = job->workload->task,
        .device = job->device,
        .row = row,
        .memory = memory,
        .map = job->map,
        .schedule = job->schedule,
    };
    return plan_stages(&parts, job, arena, ret, err);
}

/* Both answers of a sample go through in one micro-batch. */
orr_plan orr_plan_with_dpo_pairs(const orr_plan *plan)
{
    orr_plan pairs = *plan;
    pairs.micro_batch *= 2;
    pairs.batch *= 2;
    return pairs;
}

/* Builds the modules of the task's pass that needs the most memory: its training step. */
static orr_status build_row(const orr_model *model, const orr_plan *plan,
                            const orr_workload *workload, orr_arena *arena,
                            orr_module_sequence *ret, orr_error *err)
{
    orr_plan pass = *plan;
    orr_workload update = *workload;
    if (workload->task == ORR_TASK_DPO || workload->task == ORR_TASK_RL)
        update.task = ORR_TASK_PRETRAIN;
    if (workload->task == ORR_TASK_DPO)
        pass = orr_plan_with_dpo_pairs(plan);
    if (workload->task == ORR_TASK_RL)
        pass.seq = update.seq = prompt_tokens(model, plan, workload) + workload->generated;
    return orr_modules_build(model, &pass, &update, arena, ret, err);
}

orr_status orr_memory_plan_estimate(const orr_model *model, const orr_plan *plan,
                                    const orr_workload *workload, const orr_device *device,
                                    orr_arena *arena, orr_memory_plan *ret, orr_error *err)
{
    const orr_schedule_spec spec = orr_plan_schedule(plan);
    orr_module_sequence row;
    orr_stage_map map;
    orr_schedule_plan schedule;
    const orr_model *changed;
    ORR_TRY(orr_model_override(model, plan, arena, &changed, err));
    ORR_TRY(build_row(changed, plan, workload, arena, &row, err));
    ORR_TRY(map_of(&row, plan, arena, &map, err));
    ORR_TRY(orr_schedule_make(&spec, arena, &schedule, err));
    const orr_memory_plan_input job = {.model = changed,
                                       .plan = plan,
                                       .workload = workload,
                                       .device = device,
                                       .row = &row,
                                       .map = &map,
                                       .schedule = &schedule};
    return orr_memory_plan_of_job(&job, arena, ret, err);
}

orr_status orr_memory_plan_make(const orr_model *model, const orr_plan *plan,
                                const orr_workload *workload, const orr_device *device,
                                orr_arena *arena, orr_memory_plan *ret, orr_error *err)
{
    orr_memory_plan made;
    ORR_TRY(orr_memory_plan_estimate(model, plan, workload, device, arena, &made, err));
    if (!made.fits)
        ORR_TRY(orr_memory_plan_options(model, plan, workload, device, &made, arena, &made.options,
                                        &made.n_options, err));
    *ret = made;
    return ORR_OK;
}
