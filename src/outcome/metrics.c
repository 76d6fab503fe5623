/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "outcome/outcome.h"

#include "model/memory/memory.h"
#include "model/plan/plan.h"
#include "model/spec/spec.h"
#include "model/tables/load.h"
#include "outcome/heterogeneous.h"

/* Metrics of a simulated step: waterfall, MFU, tokens, use of each axis, energy, error interval. */

/* FLOPs of the model for a sample, of attention within its documents alone: forward, and twice that
 * backward. With adapters (LoRA) the gradients of frozen weights are left out. */
static double flops_of_sample(const orr_outcome_job *job)
{
    const orr_workload *w = &job->workload;
    uint32_t tokens = w->seq;
    double passes = 3;
    if (w->task == ORR_TASK_LORA)
        passes = 2;
    if (!orr_task_trains(w->task))
        passes = 1;
    if (w->task == ORR_TASK_PREFILL && w->prompt > 0)
        tokens = w->prompt;
    if (w->task == ORR_TASK_DECODE) /* one token, attending to the cache */
        return orr_model_flops(job->model, w->prompt + 1, false) -
               orr_model_flops(job->model, w->prompt, false);
    return passes *
           orr_model_packed_flops(job->model, tokens, &job->row.packed[0], &job->row.packed[1]);
}

/* NAN: the model has no tokens. */
static double tokens_of_sample(const orr_model *model, const orr_workload *w)
{
    if (model->kind != ORR_MODEL_TRANSFORMER)
        return NAN;
    if (w->task == ORR_TASK_DECODE)
        return 1;
    return w->task == ORR_TASK_PREFILL && w->prompt > 0 ? w->prompt : w->seq;
}

static double samples_of(const orr_plan *plan)
{
    return (double)orr_plan_step_micro_batches(plan) * plan->micro_batch;
}

/* Peak of a device; the mean where sites have different ones. */
static double peak_flops(const orr_outcome_job *job)
{
    const orr_dtype dtype = orr_precision_dtype(job->plan.precision);
    const orr_rank_kinds *kinds = job->kinds;
    const double usual = orr_fact_or(&job->cluster->device->peak_flops[dtype], NAN);
    double sum = 0;
    if (job->cluster->n_sites < 2 || kinds->n_variants == 1)
        return usual;
    for (uint32_t k = 0; k < kinds->n; k++) {
        const orr_device *device = kinds->variants[kinds->kinds[k].variant].device;
        sum += kinds->kinds[k].n_ranks *
               (device != NULL ? orr_fact_or(&device->peak_flops[dtype], NAN) : usual);
    }
    return sum / job->n_ranks;
}

static void fill_rates(const orr_outcome_job *job, orr_outcome *o)
{
    const double seconds = 1e-9 * (double)o->step_ns, samples = samples_of(&job->plan);
    const double peak = peak_flops(job);
    o->model_flops = samples * flops_of_sample(job);
    o->samples_per_s = samples / seconds;
    o->tokens_per_s = o->samples_per_s * tokens_of_sample(job->model, &job->workload);
    o->tokens_per_s_per_device = o->tokens_per_s / o->n_ranks;
    o->flops_per_s_per_device = o->model_flops / seconds / o->n_ranks;
    o->mfu_frac = o->flops_per_s_per_device / peak;
    o->hfu_frac = o->hardware_flops / seconds / o->n_ranks / peak;
}

static int64_t mean(__int128 sum, uint32_t n)
{
    return (int64_t)(sum / n);
}

/* IDEAL is the time that the model's FLOPs take at the peak; the rest of computation is KERNELS.
 * Jitter counts as overhead, and the rounding of means as computation: the parts add up to the
 * step. */
static void fill_waterfall(const orr_outcome_job *job, const orr_time_breakdown *breakdown,
                           orr_outcome *o)
{
    const double per_ns = o->model_flops / ((double)o->step_ns * o->n_ranks);
    const double ideal = o->mfu_frac > 0 ? o->model_flops / o->n_ranks / (per_ns / o->mfu_frac) : 0;
    const double stretch = job->prices.stretch;
    int64_t rest_ns = o->step_ns, jitter_ns = 0;
    for (int part = 0; part < ORR_WATERFALLS; part++) {
        if (part == ORR_WATERFALL_IDEAL || part == ORR_WATERFALL_KERNELS)
            continue;
        const int64_t ns = mean(breakdown->part_ns[part], job->n_ranks);
        const bool stretched = part != ORR_WATERFALL_BUBBLE && part != ORR_WATERFALL_OVERHEAD;
        o->waterfall_ns[part] = stretched ? (int64_t)((double)ns / stretch) : ns;
        jitter_ns += ns - o->waterfall_ns[part];
        rest_ns -= ns;
    }
    const int64_t computed_ns = (int64_t)((double)rest_ns / stretch);
    o->waterfall_ns[ORR_WATERFALL_OVERHEAD] += jitter_ns + rest_ns - computed_ns;
    rest_ns = computed_ns;
    const int64_t ideal_ns = ideal < (double)rest_ns ? (int64_t)ideal : rest_ns;
    o->waterfall_ns[ORR_WATERFALL_IDEAL] = ideal_ns > 0 ? ideal_ns : 0;
    o->waterfall_ns[ORR_WATERFALL_KERNELS] = rest_ns - o->waterfall_ns[ORR_WATERFALL_IDEAL];
    const int64_t bubble_ns = o->waterfall_ns[ORR_WATERFALL_BUBBLE];
    o->bubble_frac =
        o->step_ns > bubble_ns ? (double)bubble_ns / (double)(o->step_ns - bubble_ns) : 0;
}

/* Layers of global attention, where there are any. */
static void tell_documents(const orr_outcome_job *job, orr_outcome *o)
{
    const orr_packed_pairs *packed =
        &job->row.packed[orr_model_global_layers(job->model) > 0 ? 0 : 1];
    o->document_seen_frac = job->workload.documents != NULL ? packed->seen_frac : 0;
    o->document_imbalance = packed->uneven;
}

static void tell_experts(const orr_outcome_job *job, orr_outcome *o)
{
    const orr_module_sequence *row = &job->row;
    o->expert_slots = row->expert_slots;
    o->expert_imbalance[0] = row->imbalance;
    o->expert_imbalance[1] = row->imbalance_worst;
}

/* Share of an axis' bytes that crosses the highest level of its groups: a ring crosses it once for
 * all members of a unit; tokens of experts, and sums of embedding tables, go to all members; a send
 * has one peer. */
static double share_across(orr_axis axis, const orr_span *span)
{
    double below = 1;
    for (uint32_t l = 0; l < span->top; l++)
        below *= span->width[l];
    if (axis == ORR_AXIS_PP || axis == ORR_AXIS_TIED || below <= 1)
        return 1;
    if (axis == ORR_AXIS_EP || axis == ORR_AXIS_DP)
        return span->n_ranks > below ? (span->n_ranks - below) / (span->n_ranks - 1.0) : 1;
    return 1 / below;
}

static orr_status fill_axes(const orr_outcome_job *job, const orr_time_breakdown *breakdown,
                            orr_arena *arena, orr_outcome *o, orr_error *err)
{
    orr_axis_use *axes = orr_arena_array(arena, orr_axis_use, ORR_AXES);
    uint32_t n = 0;
    if (axes == NULL)
        return orr_fail_memory(err);
    for (int axis = 0; axis < ORR_AXES; axis++) {
        if (breakdown->busy_ns[axis] <= 0)
            continue;
        const uint32_t level = job->prices.span[axis].top;
        const orr_level *l = &job->cluster->levels[level];
        const double bytes = breakdown->sent_bytes[axis] / job->n_ranks;
        const double bytes_per_s =
            orr_fact_or(&l->bytes_per_s, NAN) / orr_fact_or(&l->oversubscription, 1);
        axes[n++] = (orr_axis_use){
            .axis = (uint8_t)axis,
            .members = job->prices.members[axis],
            .level = level,
            .bytes = bytes,
            .busy_ns = mean(breakdown->busy_ns[axis], job->n_ranks),
            .exposed_ns = mean(breakdown->exposed_ns[axis], job->n_ranks),
            .utilisation_frac = bytes * share_across((orr_axis)axis, &job->prices.span[axis]) /
                                bytes_per_s / (1e-9 * (double)o->step_ns)};
    }
    o->axes = axes;
    o->n_axes = n;
    return ORR_OK;
}

static orr_status fill_tables(const orr_outcome_job *job, orr_arena *arena, orr_outcome *o,
                              orr_error *err)
{
    const orr_tables_work *work = NULL;
    for (uint32_t m = 0; m < job->row.n_modules && work == NULL; m++)
        work = job->row.modules[m].tables;
    if (work == NULL)
        return ORR_OK;
    const orr_table_use all[] = {
#define USE_(name, text) {text, work->most.name, work->mean.name},
        ORR_TABLES_LOAD_MAP(USE_)
#undef USE_
    };
    orr_table_use *used = orr_arena_array(arena, orr_table_use, sizeof all / sizeof *all);
    if (used == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].most_bytes > 0)
            used[o->n_tables++] = all[i];
    o->tables = used;
    return ORR_OK;
}

/* Interval that held nine of ten measured jobs of the kind, relative to their predictions. */
static void fill_interval(const orr_calibration *c, orr_outcome *o)
{
    const bool known = !isnan(c->low_frac) && !isnan(c->high_frac);
    o->low_ns = o->high_ns = -1;
    o->error_frac = known ? c->error_frac : NAN;
    if (!known)
        return;
    o->low_ns = (int64_t)((double)o->step_ns * (1 + c->low_frac));
    o->high_ns = (int64_t)((double)o->step_ns * (1 + c->high_frac));
}

static void fill_energy(const orr_simulation *s, orr_outcome *o)
{
    o->energy_j = 0;
    for (uint32_t c = 0; c < s->n_classes; c++)
        o->energy_j += s->timelines[c].energy_j * s->timelines[c].n_ranks;
}

orr_status orr_outcome_metrics(const orr_outcome_job *job, const orr_outcome_layout *layout,
                               orr_arena *arena, orr_outcome *o, orr_error *err)
{
    const orr_simulation *s = o->simulation;
    orr_time_breakdown breakdown;
    orr_outcome_time_breakdown(layout, s, &breakdown);
    o->step_ns = s->end_ns - s->begin_ns;
    if (o->step_ns <= 0)
        return orr_fail(err, ORR_INVALID, "a step in which nothing takes any time");
    o->hardware_flops = breakdown.flops;
    fill_rates(job, o);
    fill_waterfall(job, &breakdown, o);
    fill_interval(job->calibration, o);
    fill_energy(s, o);
    tell_experts(job, o);
    tell_documents(job, o);
    for (int b = 0; b < ORR_BASES; b++)
        o->basis_ns[b] = s->basis_ns[b];
    ORR_TRY(fill_axes(job, &breakdown, arena, o, err));
    ORR_TRY(fill_tables(job, arena, o, err));
    return orr_outcome_site_links(job, layout, arena, o, err);
}
