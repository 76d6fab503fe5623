/* SPDX-License-Identifier: Apache-2.0 */
#include "estimate/schedule_timing.h"

#include <string.h>

/* A pipeline schedule executed in time, and its critical path.
 *
 * The schedule is a DAG whose nodes are slots and hops (transfers of activations or gradients
 * between stages). A slot begins when the slot before it on its stage has ended and the stall after
 * that is over, and when its input has arrived. Hops of a direction and pass from one stage use one
 * lane, in order. With blocking sends, a hop also holds up the next slot. Since lengths enter only
 * here, slots are sorted topologically once (put_in_order()), and a run is one pass over them.
 *
 * Each end records its cause, the predecessor that came last: a slot, a hop, or either with the
 * stall after it. Following causes back from the last slot of a stage visits the critical path, the
 * longest path in the DAG; orr_schedule_timing_path() counts the features on it. A path repeats if
 * it passes a slot and, one period of micro-batches later, the same slot: a longer schedule has the
 * cycle between the two any number of times (orr_schedule_timing_repeats()). */
enum { FLAG_FIRST = 1, FLAG_LAST = 2, FLAG_PAIRED = 4, FLAG_SECOND = 8, FLAG_SKIPPED = 16 };

/* A cause: the end of a slot or of its hop, without or with the stall that follows on the stage. */
enum { CAUSE_SLOT, CAUSE_HOP, CAUSE_STALL, CAUSE_HOP_STALL, CAUSES };
static uint32_t cause_of(uint32_t slot, uint32_t kind)
{
    return slot * CAUSES + kind;
}

typedef struct stage_clock {
    double now, lane[4]; /* when the stage and its four lanes are free */
    uint32_t cause, lane_cause[4];
} stage_clock;

static bool gives_input_gradient(uint8_t phase)
{
    return phase == ORR_SLOT_BACKWARD || phase == ORR_SLOT_INPUT;
}

typedef struct builder {
    orr_schedule_timing *timing;
    uint32_t *forward, *input; /* shape (virtual stages x micro-batches): slot; ORR_NONE */
    uint32_t *stage_of;        /* shape (slots) */
    uint32_t *at;              /* shape (stages): next slot of each */
    bool *done;                /* shape (slots) */
} builder;

static size_t pass_of(const orr_schedule_spec *s, uint32_t stage, const orr_schedule_slot *slot)
{
    return (size_t)orr_schedule_virtual_stage_at(s, stage, slot->chunk) * s->micro_batches +
           slot->micro_batch;
}

/* Flags the first forward slot and the last gradient slot of each chunk, and slots to skip. */
static void flag_slots(builder *o, uint32_t stage)
{
    const orr_schedule_plan *plan = o->timing->schedule;
    const orr_schedule_spec *s = &plan->spec;
    uint32_t last[ORR_STAGE_CLASSES * 64];
    const uint32_t chunks = s->chunks < sizeof last / sizeof *last ? s->chunks : 0;
    memset(last, 0xff, sizeof last);
    for (uint32_t i = plan->first[stage]; i < plan->first[stage + 1]; i++) {
        const orr_schedule_slot *slot = &plan->slots[i];
        const size_t pass = pass_of(s, stage, slot);
        const bool forward = slot->phase == ORR_SLOT_FORWARD;
        o->stage_of[i] = stage;
        o->timing->class_of[i] = o->timing->partition->class_of[pass / s->micro_batches];
        if (!o->timing->trains && !forward) {
            o->timing->flags[i] = FLAG_SKIPPED;
            continue;
        }
        o->timing->n++;
        if (forward)
            o->forward[pass] = i;
        else if (gives_input_gradient(slot->phase))
            o->input[pass] = i;
        if (slot->paired && o->timing->trains && i + 1 < plan->first[stage + 1]) {
            o->timing->flags[i] |= FLAG_PAIRED;
            o->timing->flags[i + 1] |= FLAG_SECOND;
        }
        const uint32_t of_direction =
            s->schedule == ORR_SCHEDULE_DUALPIPE && slot->chunk == 1 ? s->micro_batches / 2 : 0;
        if (forward && slot->micro_batch == of_direction)
            o->timing->flags[i] |= FLAG_FIRST;
        if ((slot->phase == ORR_SLOT_BACKWARD || slot->phase == ORR_SLOT_WEIGHT) &&
            slot->chunk < chunks)
            last[slot->chunk] = i;
    }
    for (uint32_t c = 0; c < chunks; c++)
        if (last[c] != ORR_NONE)
            o->timing->flags[last[c]] |= FLAG_LAST;
}

/* Finds the slot on another stage that gives slot i its input. */
static void find_input(builder *o, uint32_t i)
{
    const orr_schedule_spec *s = &o->timing->schedule->spec;
    const orr_schedule_slot *slot = &o->timing->schedule->slots[i];
    const size_t pass = pass_of(s, o->stage_of[i], slot), m = s->micro_batches;
    uint32_t from = ORR_NONE;
    if (slot->phase == ORR_SLOT_FORWARD && pass / m > 0)
        from = o->forward[pass - m];
    else if (gives_input_gradient(slot->phase) && pass / m + 1 < orr_schedule_virtual_stages(s))
        from = o->input[pass + m];
    o->timing->comes_from[i] = from;
}

/* The stage that gets the slot's result; ORR_NONE: it stays. */
static uint32_t receiver_of(const orr_schedule_timing *timing, uint32_t i)
{
    const orr_schedule_spec *s = &timing->schedule->spec;
    const orr_schedule_slot *slot = &timing->schedule->slots[i];
    const uint32_t stage = timing->stage_of[i],
                   k = orr_schedule_virtual_stage_at(s, stage, slot->chunk);
    const bool forward = slot->phase == ORR_SLOT_FORWARD;
    if (forward ? k + 1 >= orr_schedule_virtual_stages(s)
                : !gives_input_gradient(slot->phase) || k == 0)
        return ORR_NONE;
    const uint32_t to = orr_schedule_place(s, forward ? k + 1 : k - 1, slot->micro_batch).stage;
    return to != stage ? to : ORR_NONE;
}

/* Finds the lane and the kind of hop by which the slot's result leaves the stage. */
static void find_hop(builder *o, uint32_t i)
{
    const uint32_t to = receiver_of(o->timing, i), from = o->stage_of[i];
    o->timing->hop[i] = (orr_slot_hop){.kind = ORR_SLOT_STAYS};
    if (to == ORR_NONE)
        return;
    const bool down = to == (from + 1) % o->timing->schedule->spec.stages;
    const bool backward = o->timing->schedule->slots[i].phase != ORR_SLOT_FORWARD;
    const uint8_t kind = o->timing->hop_of[down ? from : to];
    o->timing->hop[i] = (orr_slot_hop){.kind = (uint8_t)(ORR_FEATURE_HOP + kind),
                                       .lane = (uint8_t)(2 * backward + down)};
}

static bool is_ready(const builder *o, uint32_t i)
{
    const uint32_t from = o->timing->comes_from[i];
    return from == ORR_NONE || o->done[from];
}

/* Topological order of the slots: stages advance round robin, each as far as its inputs are there.
 */
static void sort_slots(builder *o)
{
    const orr_schedule_plan *plan = o->timing->schedule;
    uint32_t n = 0;
    bool more = true;
    for (uint32_t s = 0; s < plan->spec.stages; s++)
        o->at[s] = plan->first[s];
    while (more) {
        more = false;
        for (uint32_t s = 0; s < plan->spec.stages; s++)
            for (uint32_t *i = &o->at[s]; *i < plan->first[s + 1];) {
                const uint32_t both = o->timing->flags[*i] & FLAG_PAIRED ? 2 : 1;
                if (o->timing->flags[*i] & FLAG_SKIPPED) {
                    ++*i;
                    continue;
                }
                if (!is_ready(o, *i) || (both == 2 && !is_ready(o, *i + 1)))
                    break;
                for (uint32_t k = 0; k < both; k++) {
                    o->done[*i] = true;
                    o->timing->order[n++] = (*i)++;
                }
                more = true;
            }
    }
    o->timing->n = n;
}

/* Packs what a run needs of each slot, in topological order. */
static void pack_slots(orr_schedule_timing *timing)
{
    for (uint32_t n = 0; n < timing->n; n++) {
        const uint32_t i = timing->order[n], from = timing->comes_from[i];
        const uint32_t phase = timing->schedule->slots[i].phase;
        timing->steps[n] = (orr_timed_slot){
            .slot = i,
            .from = from,
            .stage = timing->stage_of[i],
            .kind = (uint8_t)((timing->class_of[i] * ORR_SLOT_PHASES + phase) * 4 +
                              (timing->flags[i] & (FLAG_FIRST | FLAG_LAST))),
            .hop = timing->hop[i].kind,
            .lane = timing->hop[i].lane,
            .arrives = from != ORR_NONE && timing->hop[from].kind != ORR_SLOT_STAYS,
            .paired = (timing->flags[i] & FLAG_PAIRED) != 0};
    }
}

orr_status orr_schedule_timing_open(const orr_schedule_plan *schedule,
                                    const orr_stage_partition *partition, const uint8_t *hop_of,
                                    bool trains, bool blocking, orr_arena *arena,
                                    orr_schedule_timing *ret, orr_error *err)
{
    const orr_schedule_spec *s = &schedule->spec;
    const uint32_t n = schedule->first[s->stages];
    const size_t passes = (size_t)orr_schedule_virtual_stages(s) * s->micro_batches;
    *ret = (orr_schedule_timing){.schedule = schedule,
                                 .partition = partition,
                                 .hop_of = hop_of,
                                 .trains = trains,
                                 .blocking = blocking,
                                 .order = orr_arena_array(arena, uint32_t, n),
                                 .steps = orr_arena_array(arena, orr_timed_slot, n),
                                 .comes_from = orr_arena_array(arena, uint32_t, n),
                                 .class_of = orr_arena_array(arena, uint8_t, n),
                                 .flags = orr_arena_array(arena, uint8_t, n),
                                 .hop = orr_arena_array(arena, orr_slot_hop, n),
                                 .stage_of = orr_arena_array(arena, uint32_t, n),
                                 .clocks = orr_arena_array(arena, stage_clock, s->stages),
                                 .at = orr_arena_array(arena, orr_slot_end, n)};
    builder o = {.timing = ret,
                 .forward = orr_arena_array(arena, uint32_t, passes),
                 .input = orr_arena_array(arena, uint32_t, passes),
                 .stage_of = ret->stage_of,
                 .at = orr_arena_array(arena, uint32_t, s->stages),
                 .done = orr_arena_array(arena, bool, n)};
    if (!ret->order || !ret->steps || !ret->comes_from || !ret->class_of || !ret->flags ||
        !ret->hop || !ret->at || !o.forward || !o.input || !ret->stage_of || !ret->clocks ||
        !o.at || !o.done)
        return orr_fail_memory(err);
    memset(o.forward, 0xff, passes * sizeof *o.forward);
    memset(o.input, 0xff, passes * sizeof *o.input);
    for (uint32_t stage = 0; stage < s->stages; stage++)
        flag_slots(&o, stage);
    for (uint32_t i = 0; i < n; i++)
        if (!(ret->flags[i] & FLAG_SKIPPED)) {
            find_input(&o, i);
            find_hop(&o, i);
        }
    sort_slots(&o);
    pack_slots(ret);
    return ORR_OK;
}

/* --- times ------------------------------------------------------------------------------------ */

/* Length and stall of a slot by class, phase, and whether it is the first forward or last gradient
 * slot. */
enum { SLOT_KINDS = ORR_STAGE_CLASSES * ORR_SLOT_PHASES * 4 };
typedef struct slot_lengths {
    float length[SLOT_KINDS], stall[SLOT_KINDS];
} slot_lengths;

static slot_lengths lengths_of(const float *lengths)
{
    slot_lengths t;
    for (uint32_t i = 0; i < SLOT_KINDS; i++) {
        const float *of_class = lengths + i / 4 / ORR_SLOT_PHASES * ORR_CLASS_FEATURES;
        const uint32_t phase = i / 4 % ORR_SLOT_PHASES;
        t.length[i] = of_class[phase] + (i & FLAG_FIRST ? of_class[ORR_FEATURE_FIRST] : 0) +
                      (i & FLAG_LAST ? of_class[ORR_FEATURE_LAST] : 0);
        t.stall[i] = of_class[ORR_FEATURE_STALL + phase] +
                     (i & FLAG_FIRST ? of_class[ORR_FEATURE_STALL_FIRST] : 0) +
                     (i & FLAG_LAST ? of_class[ORR_FEATURE_STALL_LAST] : 0);
    }
    return t;
}

/* Waits until `at`, and records the cause if it is the latest so far. */
static inline void wait_until(double at, uint32_t cause, double *start, uint32_t *ret_cause)
{
    if (at > *start) {
        *start = at;
        *ret_cause = cause;
    }
}

static inline void wait_for_input(const orr_schedule_timing *timing, const orr_timed_slot *step,
                                  double *start, uint32_t *cause)
{
    if (step->from == ORR_NONE)
        return;
    const orr_slot_end *from = &timing->at[step->from];
    wait_until(step->arrives ? from->hop_end : from->end,
               cause_of(step->from, step->arrives ? CAUSE_HOP : CAUSE_SLOT), start, cause);
}

static inline void send_result(orr_schedule_timing *timing, const orr_timed_slot *step,
                               stage_clock *clock, const float *lengths)
{
    if (step->hop == ORR_SLOT_STAYS)
        return;
    orr_slot_end *at = &timing->at[step->slot];
    double start = at->end;
    uint32_t cause = cause_of(step->slot, CAUSE_SLOT);
    wait_until(clock->lane[step->lane], clock->lane_cause[step->lane], &start, &cause);
    at->hop_end = clock->lane[step->lane] = start + lengths[step->hop];
    at->hop_cause = cause;
    clock->lane_cause[step->lane] = cause_of(step->slot, CAUSE_HOP);
    if (timing->blocking)
        wait_until(at->hop_end, cause_of(step->slot, CAUSE_HOP_STALL), &clock->now, &clock->cause);
}

static void run_pair(orr_schedule_timing *timing, const orr_timed_slot *pair,
                     const slot_lengths *of, const float *lengths)
{
    stage_clock *clock = &timing->clocks[pair->stage];
    double start = clock->now, length = lengths[ORR_FEATURE_PAIR];
    uint32_t cause = clock->cause;
    for (int k = 0; k < 2; k++) {
        length += of->length[pair[k].kind];
        wait_for_input(timing, &pair[k], &start, &cause);
    }
    const double end = start + length;
    clock->now = end;
    clock->cause = cause_of(pair->slot, CAUSE_STALL);
    for (int k = 0; k < 2; k++)
        timing->at[pair[k].slot] = (orr_slot_end){end, end, cause, ORR_NONE};
    for (int k = 0; k < 2; k++)
        send_result(timing, &pair[k], clock, lengths);
    for (int k = 0; k < 2; k++)
        clock->now += of->stall[pair[k].kind];
}

void orr_schedule_timing_run(orr_schedule_timing *timing, const float *lengths)
{
    const slot_lengths of = lengths_of(lengths);
    for (uint32_t s = 0; s < timing->schedule->spec.stages; s++) {
        timing->clocks[s] = (stage_clock){.cause = ORR_NONE};
        memset(timing->clocks[s].lane_cause, 0xff, sizeof timing->clocks[s].lane_cause);
    }
    for (const orr_timed_slot *step = timing->steps; step < timing->steps + timing->n; step++) {
        if (step->paired) {
            run_pair(timing, step++, &of, lengths);
            continue;
        }
        stage_clock *clock = &timing->clocks[step->stage];
        double start = clock->now;
        uint32_t cause = clock->cause;
        wait_for_input(timing, step, &start, &cause);
        const double end = start + (double)of.length[step->kind];
        timing->at[step->slot] = (orr_slot_end){end, end, cause, ORR_NONE};
        clock->now = end;
        clock->cause = cause_of(step->slot, CAUSE_STALL);
        send_result(timing, step, clock, lengths);
        clock->now += of.stall[step->kind];
    }
}

double orr_schedule_timing_end(const orr_schedule_timing *timing, uint32_t stage)
{
    return timing->clocks[stage].now;
}

double orr_schedule_timing_after(const orr_schedule_timing *timing, uint32_t stage, uint32_t chunk)
{
    double gradient = 0, last = 0;
    for (uint32_t i = timing->schedule->first[stage]; i < timing->schedule->first[stage + 1]; i++) {
        if (timing->flags[i] & FLAG_SKIPPED)
            continue;
        last = timing->at[i].end;
        if (timing->flags[i] & FLAG_LAST && timing->schedule->slots[i].chunk == chunk)
            gradient = last;
    }
    return last - gradient;
}

static void count_slot(const orr_schedule_timing *timing, uint32_t i, orr_schedule_path *path)
{
    float *of_class = path->count + timing->class_of[i] * ORR_CLASS_FEATURES;
    of_class[timing->schedule->slots[i].phase]++;
    if (timing->flags[i] & FLAG_FIRST)
        of_class[ORR_FEATURE_FIRST]++;
    if (timing->flags[i] & FLAG_LAST)
        of_class[ORR_FEATURE_LAST]++;
}

static void count_stall(const orr_schedule_timing *timing, uint32_t i, orr_schedule_path *path)
{
    float *of_class = path->count + timing->class_of[i] * ORR_CLASS_FEATURES;
    of_class[ORR_FEATURE_STALL + timing->schedule->slots[i].phase]++;
    if (timing->flags[i] & FLAG_FIRST)
        of_class[ORR_FEATURE_STALL_FIRST]++;
    if (timing->flags[i] & FLAG_LAST)
        of_class[ORR_FEATURE_STALL_LAST]++;
}

/* Both slots of a pair begin, end and stall together. */
static uint32_t first_of_pair(const orr_schedule_timing *timing, uint32_t i)
{
    return timing->flags[i] & FLAG_SECOND ? i - 1 : i;
}

static void count_pair(const orr_schedule_timing *timing, uint32_t i, bool stall,
                       orr_schedule_path *path)
{
    const uint32_t first = first_of_pair(timing, i),
                   both = timing->flags[first] & FLAG_PAIRED ? 2 : 1;
    for (uint32_t k = first; k < first + both; k++)
        (stall ? count_stall : count_slot)(timing, k, path);
    path->count[ORR_FEATURE_PAIR] += !stall && both == 2;
}

/* Counts slots that begin when their stage is free, the first slot of a stage included. */
static void count_followers(const orr_schedule_timing *timing, uint32_t i, orr_schedule_path *path)
{
    const uint32_t first = first_of_pair(timing, i),
                   both = timing->flags[first] & FLAG_PAIRED ? 2 : 1;
    for (uint32_t k = first; k < first + both; k++)
        path->after[timing->class_of[k] * ORR_SLOT_PHASES + timing->schedule->slots[k].phase]++;
}

static bool waited_for_stage(const orr_schedule_timing *timing, uint32_t i)
{
    const uint32_t cause = timing->at[first_of_pair(timing, i)].cause;
    return cause == ORR_NONE || cause % CAUSES == CAUSE_STALL || cause % CAUSES == CAUSE_HOP_STALL;
}

/* One step back along the critical path; adds the features passed. */
static uint32_t step_back(const orr_schedule_timing *timing, uint32_t at, orr_schedule_path *path)
{
    const uint32_t i = at / CAUSES, kind = at % CAUSES;
    if (kind == CAUSE_STALL || kind == CAUSE_HOP_STALL)
        count_pair(timing, i, true, path);
    if (kind == CAUSE_HOP || kind == CAUSE_HOP_STALL) {
        path->count[timing->hop[i].kind]++;
        return timing->at[i].hop_cause;
    }
    count_pair(timing, i, false, path);
    if (waited_for_stage(timing, i))
        count_followers(timing, i, path);
    return timing->at[first_of_pair(timing, i)].cause;
}

uint32_t orr_schedule_timing_last(const orr_schedule_timing *timing, uint32_t stage)
{
    return timing->clocks[stage].cause;
}

uint32_t orr_schedule_timing_before(const orr_schedule_timing *timing, uint32_t slot)
{
    return timing->at[first_of_pair(timing, slot)].cause;
}

void orr_schedule_timing_path(const orr_schedule_timing *timing, uint32_t at,
                              orr_schedule_path *ret)
{
    *ret = (orr_schedule_path){0};
    while (at != ORR_NONE)
        at = step_back(timing, at, ret);
}

static bool is_period_apart(const orr_schedule_timing *timing, uint32_t at, uint32_t from,
                            uint32_t period)
{
    const orr_schedule_slot *a = &timing->schedule->slots[at / CAUSES],
                            *b = &timing->schedule->slots[from / CAUSES];
    return at % CAUSES == from % CAUSES &&
           timing->stage_of[at / CAUSES] == timing->stage_of[from / CAUSES] &&
           a->chunk == b->chunk && a->phase == b->phase &&
           (a->micro_batch + period == b->micro_batch || b->micro_batch + period == a->micro_batch);
}

/* The path from a slot back to the same slot one period earlier. False: it does not pass there. */
static bool find_cycle(const orr_schedule_timing *timing, uint32_t from, uint32_t period,
                       orr_schedule_path *ret)
{
    uint32_t at = from;
    *ret = (orr_schedule_path){0};
    do {
        at = step_back(timing, at, ret);
    } while (at != ORR_NONE && !is_period_apart(timing, at, from, period));
    return at != ORR_NONE;
}

static bool is_sum(const orr_schedule_path *whole, const orr_schedule_path *a,
                   const orr_schedule_path *b)
{
    for (int i = 0; i < ORR_FEATURES; i++)
        if (whole->count[i] != a->count[i] + b->count[i])
            return false;
    for (int i = 0; i < ORR_AFTERS; i++)
        if (whole->after[i] != a->after[i] + b->after[i])
            return false;
    return true;
}

bool orr_schedule_timing_repeats(const orr_schedule_timing *timing, uint32_t end, uint32_t period,
                                 const orr_schedule_path *more)
{
    enum { TRIES = 8 };
    const bool twice = timing->schedule->spec.schedule == ORR_SCHEDULE_GPIPE;
    orr_schedule_path unused = {0}, cycles[TRIES + 1];
    uint32_t length = 0, n = 1, at = end;
    cycles[0] = (orr_schedule_path){0};
    for (uint32_t i = end; i != ORR_NONE; i = step_back(timing, i, &unused))
        length++;
    for (uint32_t i = 0; i < length; i++, at = step_back(timing, at, &unused)) {
        if (i != (uint64_t)length * n / (TRIES + 1) || n > TRIES)
            continue;
        if (!find_cycle(timing, at, period, &cycles[n]))
            cycles[n] = (orr_schedule_path){0};
        for (uint32_t other = 0; other < (twice ? n : 1); other++)
            if (is_sum(more, &cycles[n], &cycles[other]))
                return true;
        n++;
    }
    return false;
}

uint8_t orr_schedule_timing_ending(const orr_schedule_timing *timing, uint32_t stage,
                                   orr_schedule_path *ret)
{
    const uint32_t last = timing->clocks[stage].cause / CAUSES;
    *ret = (orr_schedule_path){0};
    count_pair(timing, last, false, ret);
    count_pair(timing, last, true, ret);
    if (timing->blocking && timing->hop[last].kind != ORR_SLOT_STAYS)
        ret->count[timing->hop[last].kind]++;
    return timing->class_of[last];
}

void orr_schedule_timing_busy(const orr_schedule_timing *timing, uint32_t stage,
                              orr_schedule_path *ret)
{
    uint32_t first = ORR_NONE;
    *ret = (orr_schedule_path){0};
    for (uint32_t i = timing->schedule->first[stage]; i < timing->schedule->first[stage + 1]; i++) {
        if (timing->flags[i] & FLAG_SKIPPED)
            continue;
        first = first == ORR_NONE ? i : first;
        count_slot(timing, i, ret);
        count_stall(timing, i, ret);
        ret->count[ORR_FEATURE_PAIR] += timing->flags[i] & FLAG_PAIRED ? 1 : 0;
        if (timing->blocking && timing->hop[i].kind != ORR_SLOT_STAYS &&
            !(timing->flags[i] & FLAG_SECOND))
            ret->count[timing->hop[i].kind]++;
        if (i != first || timing->comes_from[i] == ORR_NONE)
            ret->after[timing->class_of[i] * ORR_SLOT_PHASES + timing->schedule->slots[i].phase]++;
    }
    for (uint32_t i = first; i != ORR_NONE && timing->comes_from[i] != ORR_NONE;) {
        i = timing->comes_from[i];
        if (timing->hop[i].kind != ORR_SLOT_STAYS)
            ret->count[timing->hop[i].kind]++;
        count_slot(timing, i, ret);
    }
}

uint32_t orr_schedule_timing_event(const orr_schedule_timing *timing, uint32_t stage,
                                   orr_slot_event event)
{
    for (uint32_t i = timing->schedule->first[stage]; i < timing->schedule->first[stage + 1]; i++) {
        const uint8_t phase = timing->schedule->slots[i].phase;
        const bool gradient = phase == ORR_SLOT_BACKWARD || phase == ORR_SLOT_WEIGHT;
        if (timing->flags[i] & FLAG_SKIPPED || !gradient)
            continue;
        if (event == ORR_SLOT_EVENT_FIRST_GRADIENT || timing->flags[i] & FLAG_LAST)
            return i;
    }
    return ORR_NONE;
}
