/* SPDX-License-Identifier: Apache-2.0 */
#include "plan/estimate_path.h"

#include <string.h>

/* Turns are numbered as in the schedule. A turn begins when the one before it on its stage has
 * ended and what is owed after that is paid, and what it waits for has arrived; hops in one
 * direction from one stage go one after another. */
enum { FLAG_FIRST = 1, FLAG_LAST = 2, FLAG_PAIRED = 4, FLAG_SECOND = 8, FLAG_LEFT_OUT = 16 };

/* What something waits for: the end of a turn, or of its hop; with what the stage then owes. */
enum { WHY_TURN, WHY_HOP, WHY_PAID, WHY_HOP_PAID, WHYS };
static uint32_t why_of(uint32_t turn, uint32_t kind)
{
    return turn * WHYS + kind;
}

typedef struct stage_clock {
    double   now, lane[4]; /* free from then on */
    uint32_t why, lane_why[4];
} stage_clock;

static bool gives_input(uint8_t phase)
{
    return phase == ORR_TURN_BACKWARD || phase == ORR_TURN_INPUT;
}

typedef struct opening {
    orr_turn_play *y;
    uint32_t *forward, *input; /* shape (virtual stages x micro-batches): turn; ORR_NONE */
    uint32_t *stage_of;        /* shape (turns) */
    uint32_t *at;              /* shape (stages): next turn of each */
    bool     *done;            /* shape (turns) */
} opening;

static size_t pass_of(const orr_schedule_spec *s, uint32_t stage, const orr_turn *turn)
{
    return (size_t)orr_schedule_virtual_at(s, stage, turn->chunk) * s->micro_batches +
           turn->micro_batch;
}

/* Marks the first forward and the last gradient turns of each chunk, and who is left out. */
static void mark(opening *o, uint32_t stage)
{
    const orr_schedule_plan *plan = o->y->schedule;
    const orr_schedule_spec *s = &plan->spec;
    uint32_t last[ORR_CUT_CLASSES * 64];
    const uint32_t chunks = s->chunks < sizeof last / sizeof *last ? s->chunks : 0;
    memset(last, 0xff, sizeof last);
    for (uint32_t i = plan->first[stage]; i < plan->first[stage + 1]; i++) {
        const orr_turn *turn = &plan->turns[i];
        const size_t pass = pass_of(s, stage, turn);
        const bool forward = turn->phase == ORR_TURN_FORWARD;
        o->stage_of[i] = stage;
        o->y->class_of[i] = o->y->cut->class_of[pass / s->micro_batches];
        if (!o->y->trains && !forward) {
            o->y->flags[i] = FLAG_LEFT_OUT;
            continue;
        }
        o->y->n++;
        if (forward)
            o->forward[pass] = i;
        else if (gives_input(turn->phase))
            o->input[pass] = i;
        if (turn->paired && o->y->trains && i + 1 < plan->first[stage + 1]) {
            o->y->flags[i] |= FLAG_PAIRED;
            o->y->flags[i + 1] |= FLAG_SECOND;
        }
        const uint32_t of_direction =
            s->schedule == ORR_SCHEDULE_DUALPIPE && turn->chunk == 1 ? s->micro_batches / 2 : 0;
        if (forward && turn->micro_batch == of_direction)
            o->y->flags[i] |= FLAG_FIRST;
        if ((turn->phase == ORR_TURN_BACKWARD || turn->phase == ORR_TURN_WEIGHT) &&
            turn->chunk < chunks)
            last[turn->chunk] = i;
    }
    for (uint32_t c = 0; c < chunks; c++)
        if (last[c] != ORR_NONE)
            o->y->flags[last[c]] |= FLAG_LAST;
}

/* What the turn gets from another stage. */
static void link(opening *o, uint32_t i)
{
    const orr_schedule_spec *s = &o->y->schedule->spec;
    const orr_turn *turn = &o->y->schedule->turns[i];
    const size_t pass = pass_of(s, o->stage_of[i], turn), m = s->micro_batches;
    uint32_t from = ORR_NONE;
    if (turn->phase == ORR_TURN_FORWARD && pass / m > 0)
        from = o->forward[pass - m];
    else if (gives_input(turn->phase) && pass / m + 1 < orr_schedule_virtual_stages(s))
        from = o->input[pass + m];
    o->y->comes_from[i] = from;
}

/* Where the turn's result goes; ORR_NONE: it stays. */
static uint32_t goes_to(const orr_turn_play *y, uint32_t i)
{
    const orr_schedule_spec *s = &y->schedule->spec;
    const orr_turn *turn = &y->schedule->turns[i];
    const uint32_t stage = y->stage_of[i], k = orr_schedule_virtual_at(s, stage, turn->chunk);
    const bool forward = turn->phase == ORR_TURN_FORWARD;
    if (forward ? k + 1 >= orr_schedule_virtual_stages(s) : !gives_input(turn->phase) || k == 0)
        return ORR_NONE;
    const uint32_t to = orr_schedule_place(s, forward ? k + 1 : k - 1, turn->micro_batch).stage;
    return to != stage ? to : ORR_NONE;
}

/* How the turn's result leaves the stage: on which of its four lanes, over which kind of hop. */
static void find_hop(opening *o, uint32_t i)
{
    const uint32_t to = goes_to(o->y, i), from = o->stage_of[i];
    o->y->hop[i] = (orr_turn_hop){.kind = ORR_TURN_STAYS};
    if (to == ORR_NONE)
        return;
    const bool down = to == (from + 1) % o->y->schedule->spec.stages;
    const bool back = o->y->schedule->turns[i].phase != ORR_TURN_FORWARD;
    const uint8_t kind = o->y->hop_of[down ? from : to];
    o->y->hop[i] = (orr_turn_hop){.kind = (uint8_t)(ORR_FEATURE_HOP + kind),
                                  .lane = (uint8_t)(2 * back + down)};
}

static bool is_ready(const opening *o, uint32_t i)
{
    const uint32_t from = o->y->comes_from[i];
    return from == ORR_NONE || o->done[from];
}

/* Stages go on as far as they can, in turns, until none can. */
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

orr_status orr_turn_play_open(const orr_schedule_plan *schedule, const orr_stage_cut *cut,
                              const uint8_t *hop_of, bool trains, bool blocking, orr_arena *arena,
                              orr_turn_play *ret, orr_error *err)
{
    const orr_schedule_spec *s = &schedule->spec;
    const uint32_t n = schedule->first[s->stages];
    const size_t passes = (size_t)orr_schedule_virtual_stages(s) * s->micro_batches;
    *ret = (orr_turn_play){.schedule = schedule, .cut = cut, .hop_of = hop_of, .trains = trains,
                           .blocking = blocking,
                           .order = orr_arena_array(arena, uint32_t, n),
                           .comes_from = orr_arena_array(arena, uint32_t, n),
                           .class_of = orr_arena_array(arena, uint8_t, n),
                           .flags = orr_arena_array(arena, uint8_t, n),
                           .hop = orr_arena_array(arena, orr_turn_hop, n),
                           .stage_of = orr_arena_array(arena, uint32_t, n),
                           .clocks = orr_arena_array(arena, stage_clock, s->stages),
                           .end = orr_arena_array(arena, double, n),
                           .hop_end = orr_arena_array(arena, double, n),
                           .why = orr_arena_array(arena, uint32_t, n),
                           .hop_why = orr_arena_array(arena, uint32_t, n)};
    opening o = {.y = ret,
                 .forward = orr_arena_array(arena, uint32_t, passes),
                 .input = orr_arena_array(arena, uint32_t, passes),
                 .stage_of = ret->stage_of,
                 .at = orr_arena_array(arena, uint32_t, s->stages),
                 .done = orr_arena_array(arena, bool, n)};
    if (!ret->order || !ret->comes_from || !ret->class_of || !ret->flags || !ret->hop ||
        !ret->end || !ret->hop_end || !ret->why || !ret->hop_why || !o.forward || !o.input ||
        !ret->stage_of || !ret->clocks || !o.at || !o.done)
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
    return ORR_OK;
}

/* --- times ------------------------------------------------------------------------------------- */

static double length_of(const orr_turn_play *y, uint32_t i, const float *lengths)
{
    const float *of_class = lengths + y->class_of[i] * ORR_CLASS_FEATURES;
    return of_class[y->schedule->turns[i].phase] +
           (y->flags[i] & FLAG_FIRST ? of_class[ORR_FEATURE_FIRST] : 0) +
           (y->flags[i] & FLAG_LAST ? of_class[ORR_FEATURE_LAST] : 0);
}

static double owed_by(const orr_turn_play *y, uint32_t i, const float *lengths)
{
    const float *of_class = lengths + y->class_of[i] * ORR_CLASS_FEATURES;
    return of_class[ORR_FEATURE_OWED + y->schedule->turns[i].phase] +
           (y->flags[i] & FLAG_FIRST ? of_class[ORR_FEATURE_OWED_FIRST] : 0) +
           (y->flags[i] & FLAG_LAST ? of_class[ORR_FEATURE_OWED_LAST] : 0);
}

/* Waits until `at`, if it is later than what was waited for so far. */
static void wait_until(double at, uint32_t why, double *start, uint32_t *ret_why)
{
    if (at > *start) {
        *start = at;
        *ret_why = why;
    }
}

static void pass_on(orr_turn_play *y, uint32_t i, stage_clock *clock, const float *lengths)
{
    const orr_turn_hop hop = y->hop[i];
    y->hop_end[i] = y->end[i];
    y->hop_why[i] = ORR_NONE;
    if (hop.kind == ORR_TURN_STAYS)
        return;
    double start = y->end[i];
    uint32_t why = why_of(i, WHY_TURN);
    wait_until(clock->lane[hop.lane], clock->lane_why[hop.lane], &start, &why);
    y->hop_end[i] = clock->lane[hop.lane] = start + lengths[hop.kind];
    y->hop_why[i] = why;
    clock->lane_why[hop.lane] = why_of(i, WHY_HOP);
    if (y->blocking)
        wait_until(y->hop_end[i], why_of(i, WHY_HOP_PAID), &clock->now, &clock->why);
}

void orr_turn_play_run(orr_turn_play *y, const float *lengths)
{
    stage_clock *clocks = y->clocks;
    for (uint32_t s = 0; s < y->schedule->spec.stages; s++) {
        clocks[s] = (stage_clock){.why = ORR_NONE};
        memset(clocks[s].lane_why, 0xff, sizeof clocks[s].lane_why);
    }
    for (uint32_t n = 0; n < y->n; n++) {
        const uint32_t i = y->order[n], both = y->flags[i] & FLAG_PAIRED ? 2 : 1;
        stage_clock *clock = &clocks[y->stage_of[i]];
        double start = clock->now, length = both == 2 ? lengths[ORR_FEATURE_PAIR] : 0;
        uint32_t why = clock->why;
        for (uint32_t k = i; k < i + both; k++) {
            const uint32_t from = y->comes_from[k];
            length += length_of(y, k, lengths);
            if (from != ORR_NONE && y->hop_why[from] != ORR_NONE)
                wait_until(y->hop_end[from], why_of(from, WHY_HOP), &start, &why);
            else if (from != ORR_NONE)
                wait_until(y->end[from], why_of(from, WHY_TURN), &start, &why);
        }
        clock->now = start + length;
        clock->why = why_of(i, WHY_PAID);
        for (uint32_t k = i; k < i + both; k++) {
            y->end[k] = start + length;
            y->why[k] = why;
        }
        for (uint32_t k = i; k < i + both; k++)
            pass_on(y, k, clock, lengths);
        for (uint32_t k = i; k < i + both; k++)
            clock->now += owed_by(y, k, lengths);
        n += both - 1;
    }
}

double orr_turn_play_end(const orr_turn_play *y, uint32_t stage)
{
    return y->clocks[stage].now;
}

double orr_turn_play_after(const orr_turn_play *y, uint32_t stage, uint32_t chunk)
{
    double gives = 0, last = 0;
    for (uint32_t i = y->schedule->first[stage]; i < y->schedule->first[stage + 1]; i++) {
        if (y->flags[i] & FLAG_LEFT_OUT)
            continue;
        last = y->end[i];
        if (y->flags[i] & FLAG_LAST && y->schedule->turns[i].chunk == chunk)
            gives = last;
    }
    return last - gives;
}

static void count_turn(const orr_turn_play *y, uint32_t i, orr_path *path)
{
    float *of_class = path->count + y->class_of[i] * ORR_CLASS_FEATURES;
    of_class[y->schedule->turns[i].phase]++;
    if (y->flags[i] & FLAG_FIRST)
        of_class[ORR_FEATURE_FIRST]++;
    if (y->flags[i] & FLAG_LAST)
        of_class[ORR_FEATURE_LAST]++;
}

static void count_owed(const orr_turn_play *y, uint32_t i, orr_path *path)
{
    float *of_class = path->count + y->class_of[i] * ORR_CLASS_FEATURES;
    of_class[ORR_FEATURE_OWED + y->schedule->turns[i].phase]++;
    if (y->flags[i] & FLAG_FIRST)
        of_class[ORR_FEATURE_OWED_FIRST]++;
    if (y->flags[i] & FLAG_LAST)
        of_class[ORR_FEATURE_OWED_LAST]++;
}

/* Both turns of a pair begin, end and pay at once. */
static uint32_t first_of_pair(const orr_turn_play *y, uint32_t i)
{
    return y->flags[i] & FLAG_SECOND ? i - 1 : i;
}

static void count_at_once(const orr_turn_play *y, uint32_t i, bool owed, orr_path *path)
{
    const uint32_t first = first_of_pair(y, i), both = y->flags[first] & FLAG_PAIRED ? 2 : 1;
    for (uint32_t k = first; k < first + both; k++)
        (owed ? count_owed : count_turn)(y, k, path);
    path->count[ORR_FEATURE_PAIR] += !owed && both == 2;
}

void orr_turn_play_path(const orr_turn_play *y, uint32_t stage, orr_path *ret)
{
    *ret = (orr_path){0};
    for (uint32_t at = y->clocks[stage].why; at != ORR_NONE;) {
        const uint32_t i = at / WHYS, kind = at % WHYS;
        if (kind == WHY_PAID || kind == WHY_HOP_PAID)
            count_at_once(y, i, true, ret);
        if (kind == WHY_HOP || kind == WHY_HOP_PAID) {
            ret->count[y->hop[i].kind]++;
            at = y->hop_why[i];
            continue;
        }
        count_at_once(y, i, false, ret);
        at = y->why[first_of_pair(y, i)];
    }
}
