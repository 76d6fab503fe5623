/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "model/schedule/schedule.h"
#include "support/seeds.h"

/* Schedules of random numbers of stages, chunks and micro-batches, played naively:
 *
 *   - they are complete and free of deadlock;
 *   - the idle time of the stage that idles most is the published one;
 *   - so is what a stage holds at most;
 *   - with two slots exchanged, a slot left out or doubled, the checker says what the naive player
 *     finds. */
enum { SEEDS = 3000, BROKEN_SEEDS = 3000, MOST_STAGES = 9, MOST_MICRO_BATCHES = 24 };

typedef struct scene {
    uint64_t seed;
    orr_random random;
    orr_arena *arena;
    orr_schedule_spec spec;
    orr_slot_times times;
    orr_schedule_plan plan;
} scene;

static uint32_t between(scene *c, uint32_t least, uint32_t most)
{
    return least + (uint32_t)orr_random_below(&c->random, most - least + 1);
}

static void choose_group(scene *c)
{
    orr_schedule_spec *s = &c->spec;
    const uint32_t least = s->stages < s->micro_batches ? s->stages : s->micro_batches;
    s->chunks = between(c, 1, 4);
    s->group = between(c, least, s->micro_batches);
    if (between(c, 0, 2) == 0) /* depth first */
        s->group = least;
    if (between(c, 0, 4) == 0) /* breadth first */
        s->group = s->micro_batches;
    const uint32_t rest = s->micro_batches % s->group;
    if (rest > 0 && rest < s->stages)
        s->group = orr_schedule_smallest_group(s->stages, s->micro_batches);
    if (least > 1 && between(c, 0, 4) == 0) /* fewer than stages: all forwards first */
        s->group = between(c, 1, least - 1);
}

/* Times for which the published form is exact: see orr_schedule_bubble(). */
static void choose_times(scene *c)
{
    const uint32_t forward = between(c, 1, 9), input = between(c, 1, 9), weight = between(c, 1, 9);
    c->times = (orr_slot_times){forward, input, weight};
    if (c->spec.schedule == ORR_SCHEDULE_ZB_H1 || c->spec.schedule == ORR_SCHEDULE_DUALPIPE)
        c->times.weight = between(c, 1, forward);
    if (c->spec.schedule == ORR_SCHEDULE_DUALPIPE)
        c->times.input = forward;
    if (c->spec.schedule == ORR_SCHEDULE_ZB_V)
        c->times.input = c->times.weight = forward;
}

static void begin(scene *c, uint64_t seed)
{
    *c = (scene){.seed = seed, .random = orr_random_of(seed, 0), .arena = orr_arena_new(0, 0)};
    orr_error err = {0};
    c->spec = (orr_schedule_spec){.schedule = (uint8_t)between(c, 1, ORR_SCHEDULES - 1),
                                  .stages = between(c, 1, MOST_STAGES),
                                  .chunks = 1,
                                  .micro_batches = between(c, 1, MOST_MICRO_BATCHES)};
    if (c->spec.schedule == ORR_SCHEDULE_INTERLEAVED)
        choose_group(c);
    if (c->spec.schedule == ORR_SCHEDULE_ZB_V || c->spec.schedule == ORR_SCHEDULE_DUALPIPE)
        c->spec.chunks = 2;
    if (c->spec.schedule == ORR_SCHEDULE_DUALPIPE) {
        c->spec.stages += c->spec.stages % 2;
        c->spec.micro_batches = 2 * (c->spec.stages + between(c, 0, 8));
    }
    choose_times(c);
    if (orr_schedule_make(&c->spec, c->arena, &c->plan, &err) != ORR_OK)
        seed_fail(seed, "%s", err.text);
}

/* The player: end of each forward and each gradient of an input, by virtual stage and micro-batch;
 * -1: not yet. */
enum { MOST_PASSES = 4 * (MOST_STAGES + 1) * 2 * MOST_MICRO_BATCHES };
typedef struct naive {
    double forward[MOST_PASSES], input[MOST_PASSES];
    double idle[MOST_STAGES + 1];
    bool ended;
} naive;

static uint32_t pass_of(const scene *c, uint32_t stage, const orr_schedule_slot *slot)
{
    return orr_schedule_virtual_stage_at(&c->spec, stage, slot->chunk) * c->spec.micro_batches +
           slot->micro_batch;
}

/* When what the slot waits for has ended; -1: it has not. */
static double ready_at(const scene *c, const naive *y, uint32_t stage,
                       const orr_schedule_slot *slot)
{
    const uint32_t m = c->spec.micro_batches, pass = pass_of(c, stage, slot);
    const uint32_t last = orr_schedule_virtual_stages(&c->spec) - 1;
    if (slot->phase == ORR_SLOT_FORWARD)
        return pass / m == 0 ? 0 : y->forward[pass - m];
    if (slot->phase == ORR_SLOT_WEIGHT)
        return y->input[pass];
    if (y->forward[pass] < 0)
        return -1;
    return pass / m == last ? y->forward[pass] : y->input[pass + m];
}

static double length_of(const scene *c, const orr_schedule_slot *slot)
{
    const orr_slot_times *t = &c->times;
    return slot->phase == ORR_SLOT_FORWARD    ? t->forward
           : slot->phase == ORR_SLOT_BACKWARD ? t->input + t->weight
           : slot->phase == ORR_SLOT_INPUT    ? t->input
                                              : t->weight;
}

static void settle(const scene *c, naive *y, uint32_t stage, const orr_schedule_slot *slot,
                   double end)
{
    if (slot->phase == ORR_SLOT_FORWARD)
        y->forward[pass_of(c, stage, slot)] = end;
    else if (slot->phase != ORR_SLOT_WEIGHT)
        y->input[pass_of(c, stage, slot)] = end;
}

/* The slot at *at, with the one that is paired with it; false: it has to wait. */
static bool play_turn(const scene *c, naive *y, uint32_t stage, uint32_t *at, double *now)
{
    const orr_schedule_slot *slot = &c->plan.slots[*at];
    const uint32_t n = slot->paired && *at + 1 < c->plan.first[stage + 1] ? 2 : 1;
    double start = *now < 0 ? 0 : *now, length = 0;
    for (uint32_t i = 0; i < n; i++) {
        const double ready = ready_at(c, y, stage, slot + i);
        if (ready < 0)
            return false;
        start = ready > start ? ready : start;
        length += length_of(c, slot + i);
    }
    for (uint32_t i = 0; i < n; i++)
        settle(c, y, stage, slot + i, start + length);
    if (*now >= 0)
        y->idle[stage] += start - *now;
    *now = start + length;
    *at += n;
    return true;
}

static void play(const scene *c, naive *y)
{
    uint32_t at[MOST_STAGES + 1];
    double now[MOST_STAGES + 1];
    *y = (naive){.ended = true};
    for (uint32_t i = 0; i < MOST_PASSES; i++)
        y->forward[i] = y->input[i] = -1;
    for (uint32_t stage = 0; stage < c->spec.stages; stage++) {
        at[stage] = c->plan.first[stage];
        now[stage] = -1;
    }
    for (bool more = true; more;) {
        more = false;
        for (uint32_t stage = 0; stage < c->spec.stages; stage++)
            while (at[stage] < c->plan.first[stage + 1] &&
                   play_turn(c, y, stage, &at[stage], &now[stage]))
                more = true;
    }
    for (uint32_t stage = 0; stage < c->spec.stages; stage++)
        y->ended &= at[stage] == c->plan.first[stage + 1];
}

static const char *told(const scene *c)
{
    static char text[200];
    snprintf(text, sizeof text, "%s p=%u v=%u m=%u group=%u, %g %g %g",
             orr_schedule_name((orr_schedule)c->spec.schedule), c->spec.stages, c->spec.chunks,
             c->spec.micro_batches, c->spec.group, c->times.forward, c->times.input,
             c->times.weight);
    return text;
}

static void the_bubble_is_as_published(const scene *c, const naive *y)
{
    const double published = orr_schedule_bubble(&c->spec, &c->times);
    const uint32_t passes = c->spec.schedule == ORR_SCHEDULE_DUALPIPE ? 1 : c->spec.chunks;
    const double ideal = (double)c->spec.micro_batches * passes *
                         (c->times.forward + c->times.input + c->times.weight);
    double most = 0;
    for (uint32_t stage = 0; stage < c->spec.stages; stage++)
        most = y->idle[stage] > most ? y->idle[stage] : most;
    if (!isnan(published) && fabs(most - published * ideal) > 1e-9 * ideal)
        seed_fail(c->seed, "%s: idle for %g, published are %g", told(c), most, published * ideal);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Chunks' worth of activations of a stage: one micro-batch for each stage from there on; for
 * interleaving Korthikanti et al. (arXiv 2205.05198), section 4.2, which is stage 0's with
 * group = p; p for all stages of ZB-H1 and, two chunks each, of ZB-V; DualPipe: table 2. */
static uint32_t published_hold(const orr_schedule_spec *s, uint32_t stage)
{
    const uint32_t p = s->stages, m = s->micro_batches;
    switch (s->schedule) {
    case ORR_SCHEDULE_GPIPE:
        return m;
    case ORR_SCHEDULE_INTERLEAVED:
        if (orr_schedule_fills_at_once(s))
            return m * s->chunks;
        if (s->chunks > 1)
            return smaller(m * s->chunks, 2 * (p - 1 - stage) + (s->chunks - 1) * s->group + 1);
        return smaller(m, p - stage);
    case ORR_SCHEDULE_ZB_H1:
        return smaller(m, p);
    case ORR_SCHEDULE_ZB_V:
        return smaller(2 * m, 2 * p);
    case ORR_SCHEDULE_DUALPIPE:
        return p + 1;
    default:
        return smaller(m, p - stage);
    }
}

static void no_stage_holds_more_than_published(const scene *c)
{
    uint32_t most_of_any = 0;
    for (uint32_t stage = 0; stage < c->spec.stages; stage++) {
        int32_t held = 0, most = 0;
        for (uint32_t i = c->plan.first[stage]; i < c->plan.first[stage + 1]; i++) {
            const uint8_t phase = c->plan.slots[i].phase;
            held += phase == ORR_SLOT_FORWARD;
            most = held > most ? held : most;
            held -= phase == ORR_SLOT_BACKWARD || phase == ORR_SLOT_WEIGHT;
        }
        const bool filled = c->spec.schedule != ORR_SCHEDULE_ZB_V ||
                            c->spec.micro_batches >= 2 * c->spec.stages - 1;
        if (filled ? (uint32_t)most != published_hold(&c->spec, stage)
                   : (uint32_t)most > published_hold(&c->spec, stage))
            seed_fail(c->seed, "%s: stage %u holds %d, published are %u", told(c), stage, most,
                      published_hold(&c->spec, stage));
        most_of_any = (uint32_t)most > most_of_any ? (uint32_t)most : most_of_any;
    }
    assert_int_equal(c->plan.in_flight, most_of_any);
}

static void virtual_stages_are_where_the_plan_says(const scene *c)
{
    const uint32_t n = orr_schedule_virtual_stages(&c->spec), m = c->spec.micro_batches;
    for (uint32_t k = 0; k < n; k++)
        for (uint32_t i = 0; i<m; i += m> 1 ? m - 1 : 1) {
            const orr_stage_chunk at = orr_schedule_place(&c->spec, k, i);
            const bool second = c->spec.schedule == ORR_SCHEDULE_DUALPIPE && at.chunk == 1;
            assert_int_equal(orr_schedule_virtual_stage_at(&c->spec, at.stage, at.chunk), k);
            assert_int_equal(c->plan.stage_of[k + (second ? n : 0)], at.stage);
            assert_int_equal(c->plan.chunk_of[k + (second ? n : 0)], at.chunk);
        }
}

static void schedules_are_as_published(void **state)
{
    (void)state;
    const seed_range range = seeds(SEEDS);
    static naive y;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene c;
        orr_error err = {0};
        begin(&c, seed);
        if (orr_schedule_check(&c.plan, &err) != ORR_OK)
            seed_fail(seed, "%s: %.300s", told(&c), err.text);
        play(&c, &y);
        if (!y.ended)
            seed_fail(seed, "%s waits for ever", told(&c));
        the_bubble_is_as_published(&c, &y);
        no_stage_holds_more_than_published(&c);
        virtual_stages_are_where_the_plan_says(&c);
        orr_arena_free(c.arena);
    }
}

static void exchange(scene *c, orr_schedule_slot *slots)
{
    const uint32_t stage = between(c, 0, c->spec.stages - 1), first = c->plan.first[stage];
    const uint32_t last = c->plan.first[stage + 1] - 1;
    for (uint32_t n = between(c, 1, 3); n > 0; n--) {
        const uint32_t a = between(c, first, last), b = between(c, first, last);
        const orr_schedule_slot slot = slots[a];
        slots[a] = slots[b];
        slots[b] = slot;
    }
}

static void broken_schedules_are_found(void **state)
{
    (void)state;
    const seed_range range = seeds(BROKEN_SEEDS);
    static naive y;
    uint32_t deadlocks = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        scene c;
        orr_error err = {0};
        begin(&c, seed);
        const uint32_t n = c.plan.first[c.spec.stages];
        orr_schedule_slot *slots = orr_arena_array(c.arena, orr_schedule_slot, n);
        memcpy(slots, c.plan.slots, n * sizeof *slots);
        c.plan.slots = slots;
        const bool doubled = between(&c, 0, 3) == 0;
        if (doubled)
            slots[between(&c, 0, c.plan.first[1] - 2)] = slots[c.plan.first[1] - 1];
        else
            exchange(&c, slots);
        const orr_status status = orr_schedule_check(&c.plan, &err);
        if (doubled && (status != ORR_INVALID || strstr(err.text, "waits") != NULL))
            seed_fail(seed, "%s with a slot twice: '%.300s'", told(&c), err.text);
        play(&c, &y);
        if (!doubled && (status == ORR_OK) != y.ended)
            seed_fail(seed, "%s exchanged: '%.300s'", told(&c), err.text);
        deadlocks += !doubled && status != ORR_OK;
        orr_arena_free(c.arena);
    }
    if (range.end - range.begin > 1)
        assert_in_range(deadlocks, BROKEN_SEEDS / 4, BROKEN_SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(schedules_are_as_published),
        cmocka_unit_test(broken_schedules_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
