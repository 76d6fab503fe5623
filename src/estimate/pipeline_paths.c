/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "estimate/schedule_timing.h"

/* The pipeline as a maximum of sums. A stage ends at the length of the longest path of slots and
 * hops to its last slot. Which path is longest depends on the lengths of slots and hops, so the
 * schedule is executed (schedule_timing.c) for a dozen or two of typical lengths, and the critical
 * path of each run is kept as a count of features: so many forward slots of a class, so many
 * hops... For a plan, the end of a stage is then the maximum of a few dot products of counts and
 * lengths. Since every kept path exists in the schedule, the maximum is never above the true end,
 * and it equals it if the true critical path is among them.
 *
 * Many micro-batches: the middle of a schedule repeats with a period (pp micro-batches, or the
 * group of an interleaved schedule). Only a short schedule of about four periods and one a period
 * shorter are executed. The difference of their critical paths is what one period adds, and it is
 * counted as often as the full schedule has more periods. The result is exact, and the path proven
 * to exist in the full schedule, if the short critical path passes some slot and the same slot one
 * period later with just this difference in between: it can then go round that cycle any number of
 * times. Paths that are not proven serve the estimate but no lower bound. */

/* Typical lengths, in units of a layer's forward pass: what the first virtual stage has besides
 * layers (embedding), the last one (head), a hop as a share of a mean forward slot, the
 * input-gradient part of a backward slot (which takes 2 in all), a hop between sites, and the power
 * of `relative_time` by which other devices are slower. */
static const struct {
    float first, last, hop, input, far, relative_time;
} TYPICAL[] = {
    {0, 0, 0, 1, 0, 1},
    {0.1F, 1, 0.004F, 1.2F, 0.004F, 1},
    {0.1F, 3, 0.004F, 1.2F, 0.004F, 1},
    {0.1F, 1, 0.02F, 1.2F, 0.02F, 1},
    {0.1F, 0.3F, 0.1F, 1, 0.1F, 1},
    {0.1F, 6, 0.02F, 1, 0.02F, 1},
    {0.1F, 1, 0.4F, 1, 0.4F, 1},
    {2, 0.1F, 0.02F, 1, 0.02F, 1},
    {0.1F, 0.1F, 2, 1, 2, 1},
    {0.1F, 2, 0.01F, 0.8F, 0.01F, 1},
    {0.1F, 0.5F, 0.01F, 1.5F, 0.01F, 1},
    /* for hops between sites, or slower devices: */
    {0.1F, 1, 0.004F, 1.2F, 0.3F, 0.8F},
    {0.1F, 1, 0.01F, 1, 1, 1},
    {0.1F, 1, 0.01F, 1, 2.5F, 0.5F},
    {0.1F, 1, 0.02F, 1, 6, 1},
    {0.1F, 1, 0.02F, 1, 20, 1},
    {0.1F, 1, 0.01F, 1.2F, 0.05F, 0},
    {0.1F, 1, 0.01F, 1.2F, 0.05F, 0.5F},
    {0.1F, 1, 0.02F, 1, 0.3F, -0.5F},
};
enum { N_TYPICAL = sizeof TYPICAL / sizeof *TYPICAL, N_NEAR = 11 };

static void typical_lengths(const orr_stage_partition *partition, uint32_t i, uint32_t far,
                            float *ret)
{
    float places = 0;
    for (uint32_t c = 0; c < partition->n_classes; c++)
        places +=
            (float)(partition->classes[c].n_places * partition->classes[c].n) *
            powf(partition->relative_time[partition->classes[c].device], TYPICAL[i].relative_time);
    const float mean = places / (float)partition->virtual_stages;
    memset(ret, 0, ORR_FEATURES * sizeof *ret);
    for (uint32_t c = 0; c < partition->n_classes; c++) {
        const orr_stage_class *class = &partition->classes[c];
        const bool first = class->first_place == 0,
                   last = class->virtual_stage + 1 == partition->virtual_stages;
        float *of_class = ret + c * ORR_CLASS_FEATURES;
        const float forward = (float)class->n_places - (float)first - (float)last +
                              (first ? TYPICAL[i].first : 0) + (last ? TYPICAL[i].last : 0);
        const float length =
            (forward > 0.1F ? forward : 0.1F) *
            powf(partition->relative_time[class->device], TYPICAL[i].relative_time);
        of_class[ORR_SLOT_FORWARD] = length;
        of_class[ORR_SLOT_BACKWARD] = 2 * length;
        of_class[ORR_SLOT_INPUT] = TYPICAL[i].input * length;
        of_class[ORR_SLOT_WEIGHT] = (2 - TYPICAL[i].input) * length;
        of_class[ORR_FEATURE_FIRST] = of_class[ORR_FEATURE_LAST] = 0.1F * length;
        of_class[ORR_FEATURE_STALL_FIRST] = of_class[ORR_FEATURE_STALL_LAST] = 0.1F * length;
    }
    for (uint32_t k = 0; k < ORR_LEVELS_MAX; k++)
        ret[ORR_FEATURE_HOP + k] =
            fmaxf(TYPICAL[i].hop, TYPICAL[i].far * orr_far_hop(far, k)) * mean;
}

/* Adds the path unless it is there already. */
static void add_path(orr_schedule_path *paths, uint32_t *n, const orr_schedule_path *path)
{
    for (uint32_t i = 0; i < *n; i++)
        if (memcmp(paths[i].count, path->count, sizeof path->count) == 0 &&
            memcmp(paths[i].after, path->after, sizeof path->after) == 0) {
            paths[i].proven |= path->proven;
            return;
        }
    paths[(*n)++] = *path;
}

/* The short schedule, and the one shorter by a period. `times`: how often the difference is added
 * to reach the full schedule; 0: the schedule is complete. */
typedef struct two_timings {
    orr_schedule_timing shortened, shorter; /* `shorter` is used where `times` > 0 */
    float times;
    uint32_t period;        /* micro-batches of one direction */
    bool to_first_gradient; /* paths to ORR_SLOT_EVENT_FIRST_GRADIENT are kept */
} two_timings;

static orr_schedule_path difference(const orr_schedule_path *a, const orr_schedule_path *b)
{
    orr_schedule_path d = {0};
    for (int i = 0; i < ORR_FEATURES; i++)
        d.count[i] = a->count[i] - b->count[i];
    for (int i = 0; i < ORR_AFTERS; i++)
        d.after[i] = a->after[i] - b->after[i];
    return d;
}

static bool add_repeated(const orr_schedule_path *more, float times, orr_schedule_path *path)
{
    for (int i = 0; i < ORR_FEATURES; i++) {
        if (more->count[i] < 0)
            return false;
        path->count[i] += times * more->count[i];
    }
    for (int i = 0; i < ORR_AFTERS; i++)
        path->after[i] += times * more->after[i];
    return true;
}

/* Extends the critical path of the short schedule to the full one. False: the difference is not a
 * path. */
static bool find_path(const two_timings *timings, uint32_t end, uint32_t shorter_end,
                      orr_schedule_path *ret)
{
    orr_schedule_timing_path(&timings->shortened, end, ret);
    ret->proven = timings->times <= 0;
    if (timings->times <= 0)
        return true;
    orr_schedule_path shorter;
    orr_schedule_timing_path(&timings->shorter, shorter_end, &shorter);
    const orr_schedule_path more = difference(ret, &shorter);
    if (!add_repeated(&more, timings->times, ret))
        return false;
    ret->proven = orr_schedule_timing_repeats(&timings->shortened, end, timings->period, &more);
    return true;
}

static void find_path_to(const two_timings *timings, uint32_t end, orr_slot_event event,
                         orr_pipeline *p)
{
    orr_schedule_path path;
    const uint32_t slot = orr_schedule_timing_event(&timings->shortened, p->end_stage[end], event);
    if (slot == ORR_NONE)
        return;
    const uint32_t before =
        timings->times > 0
            ? orr_schedule_timing_before(
                  &timings->shorter,
                  orr_schedule_timing_event(&timings->shorter, p->end_stage[end], event))
            : ORR_NONE;
    p->class_at[end][event] = timings->shortened.class_of[slot];
    if (find_path(timings, orr_schedule_timing_before(&timings->shortened, slot), before, &path) &&
        path.proven)
        add_path(p->to[end][event], &p->n_to[end][event], &path);
}

static void find_paths_of(const two_timings *timings, orr_pipeline *p)
{
    for (uint32_t end = 0; end < p->n_ends; end++) {
        orr_schedule_path path;
        const uint32_t stage = p->end_stage[end];
        const uint32_t before =
            timings->times > 0 ? orr_schedule_timing_last(&timings->shorter, stage) : ORR_NONE;
        if (find_path(timings, orr_schedule_timing_last(&timings->shortened, stage), before, &path))
            add_path(p->paths[end], &p->n_paths[end], &path);
        if (timings->shortened.schedule->spec.chunks > 1)
            find_path_to(timings, end, ORR_SLOT_EVENT_LAST_GRADIENT, p);
        if (timings->to_first_gradient)
            find_path_to(timings, end, ORR_SLOT_EVENT_FIRST_GRADIENT, p);
    }
}

static bool is_mixed(const orr_stage_partition *partition)
{
    bool mixed = false;
    for (uint32_t c = 1; c < partition->n_classes; c++)
        mixed |= partition->classes[c].device != partition->classes[0].device;
    return mixed;
}

static void find_paths(two_timings *timings, uint32_t far, orr_pipeline *p)
{
    const bool uniform = far == 0 && !is_mixed(timings->shortened.partition);
    const uint32_t n_typical = uniform ? N_NEAR : N_TYPICAL;
    float lengths[ORR_FEATURES];
    for (uint32_t i = 0; i < n_typical; i++) {
        typical_lengths(timings->shortened.partition, i, far, lengths);
        orr_schedule_timing_run(&timings->shortened, lengths);
        if (timings->times > 0)
            orr_schedule_timing_run(&timings->shorter, lengths);
        find_paths_of(timings, p);
    }
}

/* Memory kept for weight gradients relative to that kept before, in quarters: less, or several
 * times as much. */
static const uint32_t WEIGHT_GRADIENT_QUARTERS[2] = {3, 12};

/* Finds the slot of a phase at which most micro-batches are in flight, over all chunks of the
 * stage. */
static void find_in_flight(const orr_schedule_plan *schedule, bool trains, uint32_t stage,
                           uint32_t phase_and_ratio, orr_peak_in_flight *now,
                           orr_peak_in_flight *ret)
{
    const uint32_t chunks = schedule->spec.chunks,
                   apart = WEIGHT_GRADIENT_QUARTERS[phase_and_ratio % 2];
    uint32_t held = 0, most = 0;
    memset(now, 0, chunks * sizeof *now);
    for (uint32_t i = schedule->first[stage]; i < schedule->first[stage + 1]; i++) {
        const orr_schedule_slot *slot = &schedule->slots[i];
        orr_peak_in_flight *of_chunk = &now[slot->chunk];
        if (slot->phase == ORR_SLOT_FORWARD) {
            of_chunk->kept++;
            held += 4;
        }
        if (held > most && slot->phase == phase_and_ratio / 2) {
            most = held;
            memcpy(ret, now, chunks * sizeof *now);
        }
        if (!trains || slot->phase == ORR_SLOT_BACKWARD || slot->phase == ORR_SLOT_INPUT) {
            of_chunk->kept--;
            held -= 4;
        }
        if (trains && slot->phase == ORR_SLOT_INPUT) {
            of_chunk->apart++;
            held += apart;
        }
        if (trains && slot->phase == ORR_SLOT_WEIGHT) {
            of_chunk->apart--;
            held -= apart;
        }
    }
}

/* Whether the schedule has slots of the phase, and whether the second ratio makes a difference. */
static bool is_needed(const orr_schedule_plan *schedule, uint32_t phase_and_ratio)
{
    bool has = false, split = false;
    for (uint32_t i = 0; i < schedule->first[1]; i++) {
        has |= schedule->slots[i].phase == phase_and_ratio / 2;
        split |= schedule->slots[i].phase == ORR_SLOT_WEIGHT;
    }
    return has && (split || phase_and_ratio % 2 == 0);
}

/* Uses the typical lengths of a model with a head and fast links. */
static void find_after(orr_schedule_timing *timing, orr_pipeline *p)
{
    enum { WITH_HEAD = 1 };
    float lengths[ORR_FEATURES];
    typical_lengths(timing->partition, WITH_HEAD, 0, lengths);
    orr_schedule_timing_run(timing, lengths);
    const uint8_t middle = timing->partition->class_of[timing->partition->virtual_stages / 2];
    const double unit = lengths[middle * ORR_CLASS_FEATURES + ORR_SLOT_BACKWARD];
    for (uint32_t end = 0; end < p->n_ends; end++)
        for (uint32_t c = 0; c < timing->schedule->spec.chunks; c++)
            p->after[end][c] =
                (float)(orr_schedule_timing_after(timing, p->end_stage[end], c) / unit);
}

typedef struct builder {
    orr_estimator *e;
    const orr_plan *plan;
    const orr_stage_partition *partition;
    const orr_placement *place;
    bool trains;
} builder;

static orr_status open_timing(const builder *k, const orr_schedule_spec *spec,
                              orr_schedule_plan *schedule, orr_schedule_timing *ret, orr_error *err)
{
    ORR_TRY(orr_schedule_make(spec, k->e->scratch, schedule, err));
    return orr_schedule_timing_open(schedule, k->partition, k->place->hop_of, k->trains,
                                    k->plan->overlap_pp == ORR_SWITCH_OFF, k->e->scratch, ret, err);
}

/* The number of micro-batches after which the order of slots repeats. */
static uint32_t period_of(const orr_schedule_spec *s)
{
    if (orr_schedule_fills_at_once(s))
        return s->micro_batches;
    return s->schedule == ORR_SCHEDULE_INTERLEAVED && s->chunks > 1 ? s->group : s->stages;
}

static orr_status find_all_paths(const builder *k, const orr_schedule_spec *whole,
                                 orr_schedule_plan *schedule, orr_pipeline *p, orr_error *err)
{
    enum { FILLED = 3 }; /* periods after which the pipeline is in its steady state */
    const uint32_t period = period_of(whole);
    orr_schedule_spec spec = *whole;
    orr_schedule_plan shorter;
    two_timings timings = {.to_first_gradient = k->plan->zero == 2};
    if (spec.micro_batches > (FILLED + 1) * period) {
        spec.micro_batches = FILLED * period + whole->micro_batches % period;
        timings.times = (float)((whole->micro_batches - spec.micro_batches) / period);
        timings.period = spec.schedule == ORR_SCHEDULE_DUALPIPE ? period / 2 : period;
        orr_schedule_spec less = spec;
        less.micro_batches -= period;
        ORR_TRY(open_timing(k, &less, &shorter, &timings.shorter, err));
    }
    ORR_TRY(open_timing(k, &spec, schedule, &timings.shortened, err));
    find_paths(&timings, k->place->far_hops, p);
    find_after(&timings.shortened, p);
    for (uint32_t end = 0; end < p->n_ends; end++) {
        orr_schedule_path less;
        p->class_ending[end] =
            orr_schedule_timing_ending(&timings.shortened, p->end_stage[end], &p->ending[end]);
        orr_schedule_timing_busy(&timings.shortened, p->end_stage[end], &p->busy[end]);
        if (timings.times > 0) {
            orr_schedule_timing_busy(&timings.shorter, p->end_stage[end], &less);
            const orr_schedule_path more = difference(&p->busy[end], &less);
            add_repeated(&more, timings.times, &p->busy[end]);
        }
    }
    return ORR_OK;
}

static orr_status find_all_in_flight(const builder *k, const orr_schedule_plan *schedule,
                                     orr_pipeline *p, orr_error *err)
{
    const orr_schedule_spec *spec = &schedule->spec;
    const size_t n = (size_t)spec->stages * spec->chunks;
    orr_peak_in_flight *now = orr_arena_array(k->e->scratch, orr_peak_in_flight, spec->chunks);
    for (uint32_t phase_and_ratio = 0; phase_and_ratio < ORR_PIPELINE_HELD; phase_and_ratio++) {
        if (!is_needed(schedule, phase_and_ratio))
            continue;
        p->held[phase_and_ratio] = orr_arena_array(k->e->arena, orr_peak_in_flight, n);
        if (now == NULL || p->held[phase_and_ratio] == NULL)
            return orr_fail_memory(err);
        for (uint32_t s = 0; s < spec->stages; s++)
            find_in_flight(schedule, k->trains, s, phase_and_ratio, now,
                           &p->held[phase_and_ratio][s * spec->chunks]);
        for (size_t i = 0; i < n && spec->schedule == ORR_SCHEDULE_GPIPE; i++)
            p->held[phase_and_ratio][i].kept += k->plan->micro_batches - spec->micro_batches;
    }
    return ORR_OK;
}

static orr_status make_pipeline(const builder *k, orr_pipeline *p, orr_error *err)
{
    const orr_schedule_spec spec = orr_plan_schedule(k->plan);
    const uint32_t ends[ORR_PIPELINE_ENDS] = {0, spec.stages - 1, 1};
    orr_schedule_plan schedule;
    p->n_ends = spec.stages < ORR_PIPELINE_ENDS ? spec.stages : ORR_PIPELINE_ENDS;
    p->busy = orr_arena_array(k->e->arena, orr_schedule_path, ORR_PIPELINE_ENDS);
    p->ending = orr_arena_array(k->e->arena, orr_schedule_path, ORR_PIPELINE_ENDS);
    if (p->busy == NULL || p->ending == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < p->n_ends; i++) {
        p->end_stage[i] = ends[i];
        p->paths[i] = orr_arena_array(k->e->scratch, orr_schedule_path, N_TYPICAL);
        for (uint32_t event = 0; event < ORR_SLOT_EVENTS; event++)
            if ((p->to[i][event] = orr_arena_array(k->e->scratch, orr_schedule_path, N_TYPICAL)) ==
                NULL)
                return orr_fail_memory(err);
        p->after[i] = orr_arena_array(k->e->arena, float, spec.chunks);
        if (p->paths[i] == NULL || p->after[i] == NULL)
            return orr_fail_memory(err);
    }
    ORR_TRY(find_all_paths(k, &spec, &schedule, p, err));
    return find_all_in_flight(k, &schedule, p, err);
}

static orr_schedule_path *copy_paths(orr_arena *arena, const orr_schedule_path *paths, uint32_t n)
{
    orr_schedule_path *copy = orr_arena_array(arena, orr_schedule_path, n);
    if (copy != NULL && n > 0)
        memcpy(copy, paths, n * sizeof *copy);
    return copy;
}

static orr_status keep_pipeline(orr_estimator *e, const orr_pipeline *made, orr_pipeline **ret,
                                orr_error *err)
{
    orr_pipeline *p = orr_arena_one(e->arena, orr_pipeline);
    if (p == NULL)
        return orr_fail_memory(err);
    *p = *made;
    for (uint32_t i = 0; i < p->n_ends; i++) {
        p->paths[i] = copy_paths(e->arena, p->paths[i], p->n_paths[i]);
        bool all = p->paths[i] != NULL;
        for (uint32_t event = 0; event < ORR_SLOT_EVENTS; event++) {
            p->to[i][event] = copy_paths(e->arena, p->to[i][event], p->n_to[i][event]);
            all &= p->to[i][event] != NULL;
        }
        if (!all)
            return orr_fail_memory(err);
    }
    *ret = p;
    return ORR_OK;
}

orr_status orr_estimate_pipeline(orr_estimator *e, const orr_plan *plan,
                                 const orr_stage_partition *partition, const orr_placement *place,
                                 const orr_pipeline **ret, orr_error *err)
{
    const uint64_t hops = plan->pp > 1 ? XXH3_64bits(place->hop_of, plan->pp) : 0;
    const orr_memo_key key = {{partition->id, plan->schedule, plan->micro_batches, plan->group,
                               plan->overlap_pp, (uint32_t)hops, (uint32_t)(hops >> 32),
                               place->far_hops,
                               (plan->zero == 2) | (uint32_t)orr_plan_overlaps_slots(plan) << 1}};
    orr_pipeline *p = orr_memo_find(&e->pipelines, &key);
    if (p == NULL) {
        orr_pipeline made = {0};
        const builder k = {e, plan, partition, place, orr_task_trains(e->options.workload.task)};
        orr_status status = make_pipeline(&k, &made, err);
        if (status == ORR_OK)
            status = keep_pipeline(e, &made, &p, err);
        orr_arena_reset(e->scratch);
        ORR_TRY(status);
        if (!orr_memo_add(&e->pipelines, &key, p))
            return orr_fail_memory(err);
    }
    *ret = p;
    return ORR_OK;
}
