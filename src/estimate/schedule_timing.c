/* SPDX-License-Identifier: Apache-2.0 */
#include "estimate/schedule_timing.h"

#include <string.h>

/* Turns are numbered as in the schedule. A slot begins when the one before it
 * on its stage has ended and what is owed after that is paid, and what it waits
 * for has arrived; hops in one direction from one stage go one after another.
 */
enum { FLAG_FIRST = 1, FLAG_LAST = 2, FLAG_PAIRED = 4, FLAG_SECOND = 8, FLAG_LEFT_OUT = 16 };

/* What something waits for: the end of a slot, or of its hop; with what the
 * stage then owes. */
enum { WHY_TURN, WHY_HOP, WHY_PAID, WHY_HOP_PAID, WHYS };
static uint32_t why_of(uint32_t slot, uint32_t kind)
{
    return slot * WHYS + kind;
}

typedef struct stage_clock {
    double now, lane[4]; /* free from then on */
    uint32_t why, lane_why[4];
} stage_clock;

static bool gives_input(uint8_t phase)
{
    return phase == ORR_SLOT_BACKWARD || phase == ORR_SLOT_INPUT;
}

typedef struct opening {
    orr_schedule_timing *y;
    uint32_t *forward, *input; /* shape (virtual stages x micro-batches): slot; ORR_NONE */
    uint32_t *stage_of;        /* shape (slots) */
    uint32_t *at;              /* shape (stages): next slot of each */
    bool *done;                /* shape (slots) */
} opening;

static size_t pass_of(const orr_schedule_spec *s, uint32_t stage, const orr_schedule_slot *slot)
{
    return (size_t)orr_schedule_virtual_stage_at(s, stage, slot->chunk) * s->micro_batches +
           slot->micro_batch;
}

/* Marks the first forward and the last gradient slots of each chunk, and who is
 * left out. */
static void mark(opening *o, uint32_t stage)
{
    const orr_schedule_plan *plan = o->y->schedule;
    const orr_schedule_spec *s = &plan->spec;
    uint32_t last[ORR_STAGE_CLASSES * 64];
    const uint32_t chunks = s->chunks < sizeof last / sizeof *last ? s->chunks : 0;
    memset(last, 0xff, sizeof last);
    for (uint32_t i = plan->first[stage]; i < plan->first[stage + 1]; i++) {
        const orr_schedule_slot *slot = &plan->slots[i];
        const size_t pass = pass_of(s, stage, slot);
        const bool forward = slot->phase == ORR_SLOT_FORWARD;
        o->stage_of[i] = stage;
        o->y->class_of[i] = o->y->cut->class_of[pass / s->micro_batches];
        if (!o->y->trains && !forward) {
            o->y->flags[i] = FLAG_LEFT_OUT;
            continue;
        }
        o->y->n++;
        if (forward)
            o->forward[pass] = i;
        else if (gives_input(slot->phase))
            o->input[pass] = i;
        if (slot->paired && o->y->trains && i + 1 < plan->first[stage + 1]) {
            o->y->flags[i] |= FLAG_PAIRED;
            o->y->flags[i + 1] |= FLAG_SECOND;
        }
        const uint32_t of_direction =
            s->schedule == ORR_SCHEDULE_DUALPIPE && slot->chunk == 1 ? s->micro_batches / 2 : 0;
        if (forward && slot->micro_batch == of_direction)
            o->y->flags[i] |= FLAG_FIRST;
        if ((slot->phase == ORR_SLOT_BACKWARD || slot->phase == ORR_SLOT_WEIGHT) &&
            slot->chunk < chunks)
            last[slot->chunk] = i;
    }
    for (uint32_t c = 0; c < chunks; c++)
        if (last[c] != ORR_NONE)
            o->y->flags[last[c]] |= FLAG_LAST;
}

/* What the slot gets from another stage. */
static void link(opening *o, uint32_t i)
{
    const orr_schedule_spec *s = &o->y->schedule->spec;
    const orr_schedule_slot *slot = &o->y->schedule->slots[i];
    const size_t pass = pass_of(s, o->stage_of[i], slot), m = s->micro_batches;
    uint32_t from = ORR_NONE;
    if (slot->phase == ORR_SLOT_FORWARD && pass / m > 0)
        from = o->forward[pass - m];
    else if (gives_input(slot->phase) && pass / m + 1 < orr_schedule_virtual_stages(s))
        from = o->input[pass + m];
    o->y->comes_from[i] = from;
}

/* Where the slot's result goes; ORR_NONE: it stays. */
static uint32_t goes_to(const orr_schedule_timing *y, uint32_t i)
{
    const orr_schedule_spec *s = &y->schedule->spec;
    const orr_schedule_slot *slot = &y->schedule->slots[i];
    const uint32_t stage = y->stage_of[i], k = orr_schedule_virtual_stage_at(s, stage, slot->chunk);
    const bool forward = slot->phase == ORR_SLOT_FORWARD;
    if (forward ? k + 1 >= orr_schedule_virtual_stages(s) : !gives_input(slot->phase) || k == 0)
        return ORR_NONE;
    const uint32_t to = orr_schedule_place(s, forward ? k + 1 : k - 1, slot->micro_batch).stage;
    return to != stage ? to : ORR_NONE;
}

/* How the slot's result leaves the stage: on which of its four lanes, over
 * which kind of hop. */
static void find_hop(opening *o, uint32_t i)
{
    const uint32_t to = goes_to(o->y, i), from = o->stage_of[i];
    o->y->hop[i] = (orr_slot_hop){.kind = ORR_SLOT_STAYS};
    if (to == ORR_NONE)
        return;
    const bool down = to == (from + 1) % o->y->schedule->spec.stages;
    const bool back = o->y->schedule->slots[i].phase != ORR_SLOT_FORWARD;
    const uint8_t kind = o->y->hop_of[down ? from : to];
    o->y->hop[i] = (orr_slot_hop){.kind = (uint8_t)(ORR_FEATURE_HOP + kind),
                                  .lane = (uint8_t)(2 * back + down)};
}

static bool is_ready(const opening *o, uint32_t i)
{
    const uint32_t from = o->y->comes_from[i];
    return from == ORR_NONE || o->done[from];
}

/* Stages go on as far as they can, in slots, until none can. */
static void put_in_order(opening *o)
{
    const orr_schedule_plan *plan = o->y->schedule;
    uint32_t n = 0;
    bool more = true;
    for (uint32_t s = 0; s < plan->spec.stages; s++)
        o->at[s] = plan->first[s];
    while (more) {
        more = false;
        for (uint32_t s = 0; s < plan->spec.stages; s++)
            for (uint32_t *i = &o->at[s]; *i < plan->first[s + 1];) {
                const uint32_t both = o->y->flags[*i] & FLAG_PAIRED ? 2 : 1;
                if (o->y->flags[*i] & FLAG_LEFT_OUT) {
                    ++*i;
                    continue;
                }
                if (!is_ready(o, *i) || (both == 2 && !is_ready(o, *i + 1)))
                    break;
                for (uint32_t k = 0; k < both; k++) {
                    o->done[*i] = true;
                    o->y->order[n++] = (*i)++;
                }
                more = true;
            }
    }
    o->y->n = n;
}

/* All that a run asks of a slot, in the order of runs. */
static void list_steps(orr_schedule_timing *y)
{
    for (uint32_t n = 0; n < y->n; n++) {
        const uint32_t i = y->order[n], from = y->comes_from[i];
        const uint32_t phase = y->schedule->slots[i].phase;
        y->steps[n] =
            (orr_timed_slot){.slot = i,
                             .from = from,
                             .stage = y->stage_of[i],
                             .kind = (uint8_t)((y->class_of[i] * ORR_SLOT_PHASES + phase) * 4 +
                                               (y->flags[i] & (FLAG_FIRST | FLAG_LAST))),
                             .hop = y->hop[i].kind,
                             .lane = y->hop[i].lane,
                             .arrives = from != ORR_NONE && y->hop[from].kind != ORR_SLOT_STAYS,
                             .paired = (y->flags[i] & FLAG_PAIRED) != 0};
    }
}

orr_status orr_schedule_timing_open(const orr_schedule_plan *schedule,
                                    const orr_stage_partition *cut, const uint8_t *hop_of,
                                    bool trains, bool blocking, orr_arena *arena,
                                    orr_schedule_timing *ret, orr_error *err)
{
    const orr_schedule_spec *s = &schedule->spec;
    const uint32_t n = schedule->first[s->stages];
    const size_t passes = (size_t)orr_schedule_virtual_stages(s) * s->micro_batches;
    *ret = (orr_schedule_timing){.schedule = schedule,
                                 .cut = cut,
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
    opening o = {.y = ret,
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
        mark(&o, stage);
    for (uint32_t i = 0; i < n; i++)
        if (!(ret->flags[i] & FLAG_LEFT_OUT)) {
            link(&o, i);
            find_hop(&o, i);
        }
    put_in_order(&o);
    list_steps(ret);
    return ORR_OK;
}

/* --- times ------------------------------------------------------------------------------------ */

/* What slots of each class and phase take and owe, with what the first and the
 * last of them take longer. */
enum { TURN_KINDS = ORR_STAGE_CLASSES * ORR_SLOT_PHASES * 4 };
typedef struct turn_lengths {
    float length[TURN_KINDS], owed[TURN_KINDS];
} turn_lengths;

static turn_lengths lengths_of(const float *lengths)
{
    turn_lengths t;
    for (uint32_t i = 0; i < TURN_KINDS; i++) {
        const float *of_class = lengths + i / 4 / ORR_SLOT_PHASES * ORR_CLASS_FEATURES;
        const uint32_t phase = i / 4 % ORR_SLOT_PHASES;
        t.length[i] = of_class[phase] + (i & FLAG_FIRST ? of_class[ORR_FEATURE_FIRST] : 0) +
                      (i & FLAG_LAST ? of_class[ORR_FEATURE_LAST] : 0);
        t.owed[i] = of_class[ORR_FEATURE_OWED + phase] +
                    (i & FLAG_FIRST ? of_class[ORR_FEATURE_OWED_FIRST] : 0) +
                    (i & FLAG_LAST ? of_class[ORR_FEATURE_OWED_LAST] : 0);
    }
    return t;
}

/* Waits until `at`, if it is later than what was waited for so far. */
static inline void wait_until(double at, uint32_t why, double *start, uint32_t *ret_why)
{
    if (at > *start) {
        *start = at;
        *ret_why = why;
    }
}

static inline void wait_for_input(const orr_schedule_timing *y, const orr_timed_slot *step,
                                  double *start, uint32_t *why)
{
    if (step->from == ORR_NONE)
        return;
    const orr_slot_end *from = &y->at[step->from];
    wait_until(step->arrives ? from->hop_end : from->end,
               why_of(step->from, step->arrives ? WHY_HOP : WHY_TURN), start, why);
}

static inline void pass_on(orr_schedule_timing *y, const orr_timed_slot *step, stage_clock *clock,
                           const float *lengths)
{
    if (step->hop == ORR_SLOT_STAYS)
        return;
    orr_slot_end *at = &y->at[step->slot];
    double start = at->end;
    uint32_t why = why_of(step->slot, WHY_TURN);
    wait_until(clock->lane[step->lane], clock->lane_why[step->lane], &start, &why);
    at->hop_end = clock->lane[step->lane] = start + lengths[step->hop];
    at->hop_why = why;
    clock->lane_why[step->lane] = why_of(step->slot, WHY_HOP);
    if (y->blocking)
        wait_until(at->hop_end, why_of(step->slot, WHY_HOP_PAID), &clock->now, &clock->why);
}

static void run_pair(orr_schedule_timing *y, const orr_timed_slot *pair, const turn_lengths *of,
                     const float *lengths)
{
    stage_clock *clock = &y->clocks[pair->stage];
    double start = clock->now, length = lengths[ORR_FEATURE_PAIR];
    uint32_t why = clock->why;
    for (int k = 0; k < 2; k++) {
        length += of->length[pair[k].kind];
        wait_for_input(y, &pair[k], &start, &why);
    }
    const double end = start + length;
    clock->now = end;
    clock->why = why_of(pair->slot, WHY_PAID);
    for (int k = 0; k < 2; k++)
        y->at[pair[k].slot] = (orr_slot_end){end, end, why, ORR_NONE};
    for (int k = 0; k < 2; k++)
        pass_on(y, &pair[k], clock, lengths);
    for (int k = 0; k < 2; k++)
        clock->now += of->owed[pair[k].kind];
}

void orr_schedule_timing_run(orr_schedule_timing *y, const float *lengths)
{
    const turn_lengths of = lengths_of(lengths);
    for (uint32_t s = 0; s < y->schedule->spec.stages; s++) {
        y->clocks[s] = (stage_clock){.why = ORR_NONE};
        memset(y->clocks[s].lane_why, 0xff, sizeof y->clocks[s].lane_why);
    }
    for (const orr_timed_slot *step = y->steps; step < y->steps + y->n; step++) {
        if (step->paired) {
            run_pair(y, step++, &of, lengths);
            continue;
        }
        stage_clock *clock = &y->clocks[step->stage];
        double start = clock->now;
        uint32_t why = clock->why;
        wait_for_input(y, step, &start, &why);
        const double end = start + (double)of.length[step->kind];
        y->at[step->slot] = (orr_slot_end){end, end, why, ORR_NONE};
        clock->now = end;
        clock->why = why_of(step->slot, WHY_PAID);
        pass_on(y, step, clock, lengths);
        clock->now += of.owed[step->kind];
    }
}

double orr_schedule_timing_end(const orr_schedule_timing *y, uint32_t stage)
{
    return y->clocks[stage].now;
}

double orr_schedule_timing_after(const orr_schedule_timing *y, uint32_t stage, uint32_t chunk)
{
    double gives = 0, last = 0;
    for (uint32_t i = y->schedule->first[stage]; i < y->schedule->first[stage + 1]; i++) {
        if (y->flags[i] & FLAG_LEFT_OUT)
            continue;
        last = y->at[i].end;
        if (y->flags[i] & FLAG_LAST && y->schedule->slots[i].chunk == chunk)
            gives = last;
    }
    return last - gives;
}

static void count_turn(const orr_schedule_timing *y, uint32_t i, orr_schedule_path *path)
{
    float *of_class = path->count + y->class_of[i] * ORR_CLASS_FEATURES;
    of_class[y->schedule->slots[i].phase]++;
    if (y->flags[i] & FLAG_FIRST)
        of_class[ORR_FEATURE_FIRST]++;
    if (y->flags[i] & FLAG_LAST)
        of_class[ORR_FEATURE_LAST]++;
}

static void count_owed(const orr_schedule_timing *y, uint32_t i, orr_schedule_path *path)
{
    float *of_class = path->count + y->class_of[i] * ORR_CLASS_FEATURES;
    of_class[ORR_FEATURE_OWED + y->schedule->slots[i].phase]++;
    if (y->flags[i] & FLAG_FIRST)
        of_class[ORR_FEATURE_OWED_FIRST]++;
    if (y->flags[i] & FLAG_LAST)
        of_class[ORR_FEATURE_OWED_LAST]++;
}

/* Both slots of a pair begin, end and pay at once. */
static uint32_t first_of_pair(const orr_schedule_timing *y, uint32_t i)
{
    return y->flags[i] & FLAG_SECOND ? i - 1 : i;
}

static void count_at_once(const orr_schedule_timing *y, uint32_t i, bool owed,
                          orr_schedule_path *path)
{
    const uint32_t first = first_of_pair(y, i), both = y->flags[first] & FLAG_PAIRED ? 2 : 1;
    for (uint32_t k = first; k < first + both; k++)
        (owed ? count_owed : count_turn)(y, k, path);
    path->count[ORR_FEATURE_PAIR] += !owed && both == 2;
}

/* Turns that could begin when the one before them on their stage was paid:
 * those that a stage begins with, too. */
static void count_after(const orr_schedule_timing *y, uint32_t i, orr_schedule_path *path)
{
    const uint32_t first = first_of_pair(y, i), both = y->flags[first] & FLAG_PAIRED ? 2 : 1;
    for (uint32_t k = first; k < first + both; k++)
        path->after[y->class_of[k] * ORR_SLOT_PHASES + y->schedule->slots[k].phase]++;
}

static bool is_own(const orr_schedule_timing *y, uint32_t i)
{
    const uint32_t why = y->at[first_of_pair(y, i)].why;
    return why == ORR_NONE || why % WHYS == WHY_PAID || why % WHYS == WHY_HOP_PAID;
}

/* One step back along a path: adds what lies between. */
static uint32_t back(const orr_schedule_timing *y, uint32_t at, orr_schedule_path *path)
{
    const uint32_t i = at / WHYS, kind = at % WHYS;
    if (kind == WHY_PAID || kind == WHY_HOP_PAID)
        count_at_once(y, i, true, path);
    if (kind == WHY_HOP || kind == WHY_HOP_PAID) {
        path->count[y->hop[i].kind]++;
        return y->at[i].hop_why;
    }
    count_at_once(y, i, false, path);
    if (is_own(y, i))
        count_after(y, i, path);
    return y->at[first_of_pair(y, i)].why;
}

uint32_t orr_schedule_timing_last(const orr_schedule_timing *y, uint32_t stage)
{
    return y->clocks[stage].why;
}

uint32_t orr_schedule_timing_before(const orr_schedule_timing *y, uint32_t slot)
{
    return y->at[first_of_pair(y, slot)].why;
}

void orr_schedule_timing_path(const orr_schedule_timing *y, uint32_t at, orr_schedule_path *ret)
{
    *ret = (orr_schedule_path){0};
    while (at != ORR_NONE)
        at = back(y, at, ret);
}

static bool is_round(const orr_schedule_timing *y, uint32_t at, uint32_t from, uint32_t period)
{
    const orr_schedule_slot *a = &y->schedule->slots[at / WHYS],
                            *b = &y->schedule->slots[from / WHYS];
    return at % WHYS == from % WHYS && y->stage_of[at / WHYS] == y->stage_of[from / WHYS] &&
           a->chunk == b->chunk && a->phase == b->phase &&
           (a->micro_batch + period == b->micro_batch || b->micro_batch + period == a->micro_batch);
}

/* What lies between a place and the same place a period before; false: the path
 * does not go there. */
static bool go_round(const orr_schedule_timing *y, uint32_t from, uint32_t period,
                     orr_schedule_path *ret)
{
    uint32_t at = from;
    *ret = (orr_schedule_path){0};
    do {
        at = back(y, at, ret);
    } while (at != ORR_NONE && !is_round(y, at, from, period));
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

bool orr_schedule_timing_repeats(const orr_schedule_timing *y, uint32_t end, uint32_t period,
                                 const orr_schedule_path *more)
{
    enum { TRIES = 8 };
    const bool twice = y->schedule->spec.schedule == ORR_SCHEDULE_GPIPE;
    orr_schedule_path unused = {0}, rounds[TRIES + 1];
    uint32_t length = 0, n = 1, at = end;
    rounds[0] = (orr_schedule_path){0};
    for (uint32_t i = end; i != ORR_NONE; i = back(y, i, &unused))
        length++;
    for (uint32_t i = 0; i < length; i++, at = back(y, at, &unused)) {
        if (i != (uint64_t)length * n / (TRIES + 1) || n > TRIES)
            continue;
        if (!go_round(y, at, period, &rounds[n]))
            rounds[n] = (orr_schedule_path){0};
        for (uint32_t other = 0; other < (twice ? n : 1); other++)
            if (is_sum(more, &rounds[n], &rounds[other]))
                return true;
        n++;
    }
    return false;
}

uint8_t orr_schedule_timing_ending(const orr_schedule_timing *y, uint32_t stage,
                                   orr_schedule_path *ret)
{
    const uint32_t last = y->clocks[stage].why / WHYS;
    *ret = (orr_schedule_path){0};
    count_at_once(y, last, false, ret);
    count_at_once(y, last, true, ret);
    if (y->blocking && y->hop[last].kind != ORR_SLOT_STAYS)
        ret->count[y->hop[last].kind]++;
    return y->class_of[last];
}

void orr_schedule_timing_busy(const orr_schedule_timing *y, uint32_t stage, orr_schedule_path *ret)
{
    uint32_t first = ORR_NONE;
    *ret = (orr_schedule_path){0};
    for (uint32_t i = y->schedule->first[stage]; i < y->schedule->first[stage + 1]; i++) {
        if (y->flags[i] & FLAG_LEFT_OUT)
            continue;
        first = first == ORR_NONE ? i : first;
        count_turn(y, i, ret);
        count_owed(y, i, ret);
        ret->count[ORR_FEATURE_PAIR] += y->flags[i] & FLAG_PAIRED ? 1 : 0;
        if (y->blocking && y->hop[i].kind != ORR_SLOT_STAYS && !(y->flags[i] & FLAG_SECOND))
            ret->count[y->hop[i].kind]++;
        if (i != first || y->comes_from[i] == ORR_NONE)
            ret->after[y->class_of[i] * ORR_SLOT_PHASES + y->schedule->slots[i].phase]++;
    }
    for (uint32_t i = first; i != ORR_NONE && y->comes_from[i] != ORR_NONE;) {
        i = y->comes_from[i];
        if (y->hop[i].kind != ORR_SLOT_STAYS)
            ret->count[y->hop[i].kind]++;
        count_turn(y, i, ret);
    }
}

uint32_t orr_schedule_timing_event(const orr_schedule_timing *y, uint32_t stage,
                                   orr_slot_event event)
{
    for (uint32_t i = y->schedule->first[stage]; i < y->schedule->first[stage + 1]; i++) {
        const uint8_t phase = y->schedule->slots[i].phase;
        const bool gives = phase == ORR_SLOT_BACKWARD || phase == ORR_SLOT_WEIGHT;
        if (y->flags[i] & FLAG_LEFT_OUT || !gives)
            continue;
        if (event == ORR_SLOT_EVENT_FIRST_GRADIENT || y->flags[i] & FLAG_LAST)
            return i;
    }
    return ORR_NONE;
}
