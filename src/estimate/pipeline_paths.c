/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>
#include <xxhash.h>

#include "estimate/schedule_timing.h"

/* How slots add up to a step. The end of a stage is the longest path of slots
 * and hops that leads to its last slot: a maximum of sums. Of these sums a
 * dozen are kept, namely those that are the largest for some typical lengths:
 * their maximum is never above the true end, and equal to it wherever one of
 * them is the longest. */

/* Typical lengths, in layers forward (of the pattern's first device; another
 * takes `relative_time` powers of what its peak says): what the first virtual stage has
 * beside its layers (embedding), what the last one has (head), and a hop as a
 * share of a slot of the mean virtual stage; of a backward pass, which takes
 * two forward, what the gradient of the input takes. */
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
    /* where some hops are between sites, or some devices slower: */
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

static void typical_lengths(const orr_stage_partition *cut, uint32_t i, uint32_t far, float *ret)
{
    float places = 0;
    for (uint32_t c = 0; c < cut->n_classes; c++)
        places += (float)(cut->classes[c].n_places * cut->classes[c].n) *
                  powf(cut->relative_time[cut->classes[c].device], TYPICAL[i].relative_time);
    const float mean = places / (float)cut->virtual_stages;
    memset(ret, 0, ORR_FEATURES * sizeof *ret);
    for (uint32_t c = 0; c < cut->n_classes; c++) {
        const orr_stage_class *class = &cut->classes[c];
        const bool first = class->first_place == 0,
                   last = class->virtual_stage + 1 == cut->virtual_stages;
        float *of_class = ret + c * ORR_CLASS_FEATURES;
        const float forward = (float)class->n_places - (float)first - (float)last +
                              (first ? TYPICAL[i].first : 0) + (last ? TYPICAL[i].last : 0);
        const float length = (forward > 0.1F ? forward : 0.1F) *
                             powf(cut->relative_time[class->device], TYPICAL[i].relative_time);
        of_class[ORR_SLOT_FORWARD] = length;
        of_class[ORR_SLOT_BACKWARD] = 2 * length;
        of_class[ORR_SLOT_INPUT] = TYPICAL[i].input * length;
        of_class[ORR_SLOT_WEIGHT] = (2 - TYPICAL[i].input) * length;
        of_class[ORR_FEATURE_FIRST] = of_class[ORR_FEATURE_LAST] = 0.1F * length;
        of_class[ORR_FEATURE_OWED_FIRST] = of_class[ORR_FEATURE_OWED_LAST] = 0.1F * length;
    }
    for (uint32_t k = 0; k < ORR_LEVELS_MAX; k++)
        ret[ORR_FEATURE_HOP + k] =
            fmaxf(TYPICAL[i].hop, TYPICAL[i].far * orr_far_hop(far, k)) * mean;
}

/* One more, unless it is there already. */
static void add_path(orr_schedule_path *paths, uint32_t *n, const orr_schedule_path *path)
{
    for (uint32_t i = 0; i < *n; i++)
        if (memcmp(paths[i].count, path->count, sizeof path->count) == 0 &&
            memcmp(paths[i].after, path->after, sizeof path->after) == 0) {
            paths[i].sure |= path->sure;
            return;
        }
    paths[(*n)++] = *path;
}

/* The slots of a long step repeat: what `more` micro-batches add is `times`
 * what one period of them adds to a short step. Exact where both go the same
 * way; else false. */
typedef struct plays {
    orr_schedule_timing now, shorter; /* shorter: by a period; where `times` > 0 */
    float times;
    uint32_t period; /* micro-batches of one direction */
    bool gives;      /* see ORR_SLOT_EVENT_FIRST_GRADIENT            */
} plays;

static orr_schedule_path difference(const orr_schedule_path *a, const orr_schedule_path *b)
{
    orr_schedule_path d = {0};
    for (int i = 0; i < ORR_FEATURES; i++)
        d.count[i] = a->count[i] - b->count[i];
    for (int i = 0; i < ORR_AFTERS; i++)
        d.after[i] = a->after[i] - b->after[i];
    return d;
}

static bool repeat(const orr_schedule_path *more, float times, orr_schedule_path *path)
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

/* The path of the whole step that ends there; false: what a period adds cannot
 * be told. */
static bool find_path(const plays *y, uint32_t end, uint32_t shorter_end, orr_schedule_path *ret)
{
    orr_schedule_timing_path(&y->now, end, ret);
    ret->sure = y->times <= 0;
    if (y->times <= 0)
        return true;
    orr_schedule_path shorter;
    orr_schedule_timing_path(&y->shorter, shorter_end, &shorter);
    const orr_schedule_path more = difference(ret, &shorter);
    if (!repeat(&more, y->times, ret))
        return false;
    ret->sure = orr_schedule_timing_repeats(&y->now, end, y->period, &more);
    return true;
}

static void find_path_to(const plays *y, uint32_t end, orr_slot_event event, orr_pipeline *p)
{
    orr_schedule_path path;
    const uint32_t slot = orr_schedule_timing_event(&y->now, p->end_stage[end], event);
    if (slot == ORR_NONE)
        return;
    const uint32_t before =
        y->times > 0
            ? orr_schedule_timing_before(
                  &y->shorter, orr_schedule_timing_event(&y->shorter, p->end_stage[end], event))
            : ORR_NONE;
    p->class_at[end][event] = y->now.class_of[slot];
    if (find_path(y, orr_schedule_timing_before(&y->now, slot), before, &path) && path.sure)
        add_path(p->to[end][event], &p->n_to[end][event], &path);
}

static void find_paths_of(const plays *y, orr_pipeline *p)
{
    for (uint32_t end = 0; end < p->n_ends; end++) {
        orr_schedule_path path;
        const uint32_t stage = p->end_stage[end];
        const uint32_t before =
            y->times > 0 ? orr_schedule_timing_last(&y->shorter, stage) : ORR_NONE;
        if (find_path(y, orr_schedule_timing_last(&y->now, stage), before, &path))
            add_path(p->paths[end], &p->n_paths[end], &path);
        if (y->now.schedule->spec.chunks > 1)
            find_path_to(y, end, ORR_SLOT_EVENT_LAST_GRADIENT, p);
        if (y->gives)
            find_path_to(y, end, ORR_SLOT_EVENT_FIRST_GRADIENT, p);
    }
}

static bool is_mixed(const orr_stage_partition *cut)
{
    bool mixed = false;
    for (uint32_t c = 1; c < cut->n_classes; c++)
        mixed |= cut->classes[c].device != cut->classes[0].device;
    return mixed;
}

static void find_paths(plays *y, uint32_t far, orr_pipeline *p)
{
    const bool alike = far == 0 && !is_mixed(y->now.cut);
    const uint32_t n_typical = alike ? N_NEAR : N_TYPICAL;
    float lengths[ORR_FEATURES];
    for (uint32_t i = 0; i < n_typical; i++) {
        typical_lengths(y->now.cut, i, far, lengths);
        orr_schedule_timing_run(&y->now, lengths);
        if (y->times > 0)
            orr_schedule_timing_run(&y->shorter, lengths);
        find_paths_of(y, p);
    }
}

/* What is kept for the gradients of weights may be less than what was kept
 * before, or several times as much: in quarters of that. */
static const uint32_t APART[2] = {3, 12};

/* When a stage has most micro-batches under way at the beginning of slots of a
 * phase, over all of its chunks. */
static void find_held(const orr_schedule_plan *schedule, bool trains, uint32_t stage, uint32_t way,
                      orr_peak_in_flight *now, orr_peak_in_flight *ret)
{
    const uint32_t chunks = schedule->spec.chunks, apart = APART[way % 2];
    uint32_t held = 0, most = 0;
    memset(now, 0, chunks * sizeof *now);
    for (uint32_t i = schedule->first[stage]; i < schedule->first[stage + 1]; i++) {
        const orr_schedule_slot *slot = &schedule->slots[i];
        orr_peak_in_flight *of_chunk = &now[slot->chunk];
        if (slot->phase == ORR_SLOT_FORWARD) {
            of_chunk->kept++;
            held += 4;
        }
        if (held > most && slot->phase == way / 2) {
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

/* Does the schedule have slots of the phase, and is a second way to look at
 * them another one? */
static bool is_needed(const orr_schedule_plan *schedule, uint32_t way)
{
    bool has = false, split = false;
    for (uint32_t i = 0; i < schedule->first[1]; i++) {
        has |= schedule->slots[i].phase == way / 2;
        split |= schedule->slots[i].phase == ORR_SLOT_WEIGHT;
    }
    return has && (split || way % 2 == 0);
}

/* For the typical lengths of a model with a head and fast links. */
static void find_after(orr_schedule_timing *play, orr_pipeline *p)
{
    enum { USUAL = 1 };
    float lengths[ORR_FEATURES];
    typical_lengths(play->cut, USUAL, 0, lengths);
    orr_schedule_timing_run(play, lengths);
    const uint8_t middle = play->cut->class_of[play->cut->virtual_stages / 2];
    const double unit = lengths[middle * ORR_CLASS_FEATURES + ORR_SLOT_BACKWARD];
    for (uint32_t end = 0; end < p->n_ends; end++)
        for (uint32_t c = 0; c < play->schedule->spec.chunks; c++)
            p->after[end][c] =
                (float)(orr_schedule_timing_after(play, p->end_stage[end], c) / unit);
}

typedef struct making {
    orr_estimator *e;
    const orr_plan *plan;
    const orr_stage_partition *cut;
    const orr_placement *place;
    bool trains;
} making;

static orr_status open_play(const making *k, const orr_schedule_spec *spec,
                            orr_schedule_plan *schedule, orr_schedule_timing *ret, orr_error *err)
{
    ORR_TRY(orr_schedule_make(spec, k->e->scratch, schedule, err));
    return orr_schedule_timing_open(schedule, k->cut, k->place->hop_of, k->trains,
                                    k->plan->overlap_pp == ORR_SWITCH_OFF, k->e->scratch, ret, err);
}

/* Micro-batches after which the order of slots repeats. */
static uint32_t period_of(const orr_schedule_spec *s)
{
    return s->schedule == ORR_SCHEDULE_INTERLEAVED && s->chunks > 1 ? s->group : s->stages;
}

static orr_status find_all_paths(const making *k, const orr_schedule_spec *whole,
                                 orr_schedule_plan *schedule, orr_pipeline *p, orr_error *err)
{
    enum { FILLED = 3 }; /* periods in which a pipeline has long filled up */
    const uint32_t period = period_of(whole);
    orr_schedule_spec spec = *whole;
    orr_schedule_plan shorter;
    plays y = {.gives = k->plan->zero == 2};
    if (spec.micro_batches > (FILLED + 1) * period) {
        spec.micro_batches = FILLED * period + whole->micro_batches % period;
        y.times = (float)((whole->micro_batches - spec.micro_batches) / period);
        y.period = spec.schedule == ORR_SCHEDULE_DUALPIPE ? period / 2 : period;
        orr_schedule_spec less = spec;
        less.micro_batches -= period;
        ORR_TRY(open_play(k, &less, &shorter, &y.shorter, err));
    }
    ORR_TRY(open_play(k, &spec, schedule, &y.now, err));
    find_paths(&y, k->place->far_hops, p);
    find_after(&y.now, p);
    for (uint32_t end = 0; end < p->n_ends; end++) {
        orr_schedule_path less;
        p->class_ending[end] =
            orr_schedule_timing_ending(&y.now, p->end_stage[end], &p->ending[end]);
        orr_schedule_timing_busy(&y.now, p->end_stage[end], &p->busy[end]);
        if (y.times > 0) {
            orr_schedule_timing_busy(&y.shorter, p->end_stage[end], &less);
            const orr_schedule_path more = difference(&p->busy[end], &less);
            repeat(&more, y.times, &p->busy[end]);
        }
    }
    return ORR_OK;
}

static orr_status find_all_held(const making *k, const orr_schedule_plan *schedule, orr_pipeline *p,
                                orr_error *err)
{
    const orr_schedule_spec *spec = &schedule->spec;
    const size_t n = (size_t)spec->stages * spec->chunks;
    orr_peak_in_flight *now = orr_arena_array(k->e->scratch, orr_peak_in_flight, spec->chunks);
    for (uint32_t way = 0; way < ORR_PIPELINE_HELD; way++) {
        if (!is_needed(schedule, way))
            continue;
        p->held[way] = orr_arena_array(k->e->arena, orr_peak_in_flight, n);
        if (now == NULL || p->held[way] == NULL)
            return orr_fail_memory(err);
        for (uint32_t s = 0; s < spec->stages; s++)
            find_held(schedule, k->trains, s, way, now, &p->held[way][s * spec->chunks]);
        for (size_t i = 0; i < n && spec->schedule == ORR_SCHEDULE_GPIPE; i++)
            p->held[way][i].kept += k->plan->micro_batches - spec->micro_batches;
    }
    return ORR_OK;
}

static orr_status make_pipeline(const making *k, orr_pipeline *p, orr_error *err)
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
    return find_all_held(k, &schedule, p, err);
}

static orr_schedule_path *kept(orr_arena *arena, const orr_schedule_path *paths, uint32_t n)
{
    orr_schedule_path *copy = orr_arena_array(arena, orr_schedule_path, n);
    if (copy != NULL && n > 0)
        memcpy(copy, paths, n * sizeof *copy);
    return copy;
}

static orr_status keep(orr_estimator *e, const orr_pipeline *made, orr_pipeline **ret,
                       orr_error *err)
{
    orr_pipeline *p = orr_arena_one(e->arena, orr_pipeline);
    if (p == NULL)
        return orr_fail_memory(err);
    *p = *made;
    for (uint32_t i = 0; i < p->n_ends; i++) {
        p->paths[i] = kept(e->arena, p->paths[i], p->n_paths[i]);
        bool all = p->paths[i] != NULL;
        for (uint32_t event = 0; event < ORR_SLOT_EVENTS; event++) {
            p->to[i][event] = kept(e->arena, p->to[i][event], p->n_to[i][event]);
            all &= p->to[i][event] != NULL;
        }
        if (!all)
            return orr_fail_memory(err);
    }
    *ret = p;
    return ORR_OK;
}

orr_status orr_estimate_pipeline(orr_estimator *e, const orr_plan *plan,
                                 const orr_stage_partition *cut, const orr_placement *place,
                                 const orr_pipeline **ret, orr_error *err)
{
    const uint64_t hops = plan->pp > 1 ? XXH3_64bits(place->hop_of, plan->pp) : 0;
    const orr_memo_key key = {{cut->id, plan->schedule, plan->micro_batches, plan->group,
                               plan->overlap_pp, (uint32_t)hops, (uint32_t)(hops >> 32),
                               place->far_hops, plan->zero == 2}};
    orr_pipeline *p = orr_memo_find(&e->pipelines, &key);
    if (p == NULL) {
        orr_pipeline made = {0};
        const making k = {e, plan, cut, place, orr_task_trains(e->options.workload.task)};
        orr_status status = make_pipeline(&k, &made, err);
        if (status == ORR_OK)
            status = keep(e, &made, &p, err);
        orr_arena_reset(e->scratch);
        ORR_TRY(status);
        if (!orr_memo_add(&e->pipelines, &key, p))
            return orr_fail_memory(err);
    }
    *ret = p;
    return ORR_OK;
}
