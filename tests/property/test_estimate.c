/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <string.h>

#include <cmocka.h>

#include "estimate/schedule_timing.h"
#include "support/seeds.h"

/* Turns of random schedules, with random lengths:
 *
 *   - each comes after what it waits for, and no stage does two things at once;
 *   - the path that leads to the end of a stage is as long as the end is late;
 *   - with other lengths it is never longer than the end is late: that is why the longest of a
 *     few paths is a bound;
 *   - a path that goes round in a short step is one of a longer step, when it goes round more
 * often. */
enum { SEEDS = 600 };

typedef struct scene {
    uint64_t seed;
    orr_random random;
    orr_arena *arena;
    orr_schedule_plan schedule;
    orr_stage_partition cut;
    uint8_t class_of[64], hop_of[16];
    orr_schedule_timing play;
} scene;

static uint32_t between(scene *c, uint32_t least, uint32_t most)
{
    return least + (uint32_t)orr_random_below(&c->random, most - least + 1);
}

static orr_schedule_spec choose_schedule(scene *c)
{
    orr_schedule_spec s = {.schedule = (uint8_t)between(c, 1, ORR_SCHEDULES - 1),
                           .stages = between(c, 1, 8),
                           .chunks = 1,
                           .micro_batches = between(c, 1, 20)};
    if (s.schedule == ORR_SCHEDULE_INTERLEAVED) {
        s.chunks = between(c, 1, 4);
        s.group = orr_schedule_smallest_group(s.stages, s.micro_batches);
    }
    if (s.schedule == ORR_SCHEDULE_ZB_V || s.schedule == ORR_SCHEDULE_DUALPIPE)
        s.chunks = 2;
    if (s.schedule == ORR_SCHEDULE_DUALPIPE) {
        s.stages += s.stages % 2;
        s.micro_batches = 2 * (s.stages + between(c, 0, 6));
    }
    return s;
}

static void open_play(scene *c, const orr_schedule_spec *s, bool trains, bool blocking,
                      orr_schedule_plan *schedule, orr_schedule_timing *play)
{
    orr_error err = {0};
    if (orr_schedule_make(s, c->arena, schedule, &err) != ORR_OK ||
        orr_schedule_timing_open(schedule, &c->cut, c->hop_of, trains, blocking, c->arena, play,
                                 &err) != ORR_OK)
        seed_fail(c->seed, "%s", err.text);
}

static orr_schedule_spec begin(scene *c, uint64_t seed)
{
    memset(c, 0, sizeof *c);
    c->seed = seed;
    c->random = orr_random_of(seed, 0);
    c->arena = orr_arena_new(0, 0);
    const orr_schedule_spec s = choose_schedule(c);
    c->cut = (orr_stage_partition){.stages = s.stages,
                                   .chunks = s.chunks,
                                   .n_classes = 3,
                                   .virtual_stages = orr_schedule_virtual_stages(&s),
                                   .class_of = c->class_of};
    for (uint32_t k = 0; k < c->cut.virtual_stages; k++)
        c->class_of[k] = (uint8_t)between(c, 0, 2);
    for (uint32_t i = 0; i < s.stages; i++)
        c->hop_of[i] = (uint8_t)between(c, 0, 1);
    return s;
}

static void choose_lengths(scene *c, float *lengths)
{
    memset(lengths, 0, ORR_FEATURES * sizeof *lengths);
    for (uint32_t i = 0; i < 3 * ORR_CLASS_FEATURES; i++)
        lengths[i] = (float)between(c, 1, 40);
    for (uint32_t i = 0; i < 2; i++)
        lengths[ORR_FEATURE_HOP + i] = (float)between(c, 0, 30);
    lengths[ORR_FEATURE_PAIR] = -(float)between(c, 0, 1);
}

static double length_of(const orr_schedule_path *path, const float *lengths)
{
    double sum = 0;
    for (uint32_t i = 0; i < ORR_FEATURES; i++)
        sum += (double)path->count[i] * lengths[i];
    return sum;
}

static void turns_come_after_what_they_wait_for(const scene *c)
{
    const orr_schedule_timing *y = &c->play;
    uint32_t n = 0;
    for (uint32_t s = 0; s < c->cut.stages; s++) {
        double before = 0;
        for (uint32_t i = c->schedule.first[s]; i < c->schedule.first[s + 1]; i++) {
            const bool forward = c->schedule.slots[i].phase == ORR_SLOT_FORWARD;
            if (!y->trains && !forward)
                continue;
            n++;
            if (y->at[i].end < before ||
                (y->comes_from[i] != ORR_NONE && y->at[i].end <= y->at[y->comes_from[i]].hop_end))
                seed_fail(c->seed, "turn %u of stage %u ends at %g", i, s, y->at[i].end);
            before = y->at[i].end;
        }
    }
    assert_int_equal(n, y->n);
}

static void paths_are_bounds(void **state)
{
    (void)state;
    const seed_range range = seeds(SEEDS);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        static scene c;
        float lengths[ORR_FEATURES], others[ORR_FEATURES];
        orr_schedule_path paths[8];
        const orr_schedule_spec spec = begin(&c, seed);
        open_play(&c, &spec, between(&c, 0, 5) > 0, between(&c, 0, 1) == 1, &c.schedule, &c.play);
        choose_lengths(&c, lengths);
        choose_lengths(&c, others);
        orr_schedule_timing_run(&c.play, lengths);
        turns_come_after_what_they_wait_for(&c);
        for (uint32_t s = 0; s < c.cut.stages; s++) {
            orr_schedule_timing_path(&c.play, orr_schedule_timing_last(&c.play, s), &paths[s]);
            const double end = orr_schedule_timing_end(&c.play, s),
                         long_ = length_of(&paths[s], lengths);
            if (fabs(end - long_) > 1e-6 * end)
                seed_fail(seed, "stage %u ends at %g, its path is %g long", s, end, long_);
        }
        orr_schedule_timing_run(&c.play, others);
        for (uint32_t s = 0; s < c.cut.stages; s++)
            if (length_of(&paths[s], others) > orr_schedule_timing_end(&c.play, s) * (1 + 1e-6))
                seed_fail(seed, "stage %u ends at %g, before a path of %g", s,
                          orr_schedule_timing_end(&c.play, s), length_of(&paths[s], others));
        orr_arena_free(c.arena);
    }
}

/* What a period adds to a path, as often as it does in a step of so many periods more. */
static bool prolong(const orr_schedule_timing *now, const orr_schedule_timing *shorter,
                    uint32_t stage, uint32_t period, float times, orr_schedule_path *ret)
{
    orr_schedule_path less, more = {0};
    const uint32_t end = orr_schedule_timing_last(now, stage);
    orr_schedule_timing_path(now, end, ret);
    orr_schedule_timing_path(shorter, orr_schedule_timing_last(shorter, stage), &less);
    for (int i = 0; i < ORR_FEATURES; i++)
        more.count[i] = ret->count[i] - less.count[i];
    for (int i = 0; i < ORR_AFTERS; i++)
        more.after[i] = ret->after[i] - less.after[i];
    if (!orr_schedule_timing_repeats(now, end, period, &more))
        return false;
    for (int i = 0; i < ORR_FEATURES; i++)
        ret->count[i] += times * more.count[i];
    return true;
}

static void rounds_may_be_repeated(void **state)
{
    (void)state;
    const seed_range range = seeds(SEEDS);
    uint32_t found = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        static scene c;
        orr_schedule_spec spec = begin(&c, seed);
        orr_schedule_plan schedules[3];
        orr_schedule_timing plays[3]; /* shorter by a period; now; longer by some */
        float lengths[ORR_FEATURES], others[ORR_FEATURES];
        const bool both = spec.schedule == ORR_SCHEDULE_DUALPIPE, blocking = between(&c, 0, 1);
        const uint32_t period = spec.schedule == ORR_SCHEDULE_INTERLEAVED && spec.chunks > 1
                                    ? (spec.group = spec.stages)
                                    : spec.stages;
        const uint32_t times = between(&c, 1, 5);
        const uint32_t rest =
            both ? 2 * between(&c, 0, period / 2 - 1) : between(&c, 0, period - 1);
        for (uint32_t i = 0; i < 3; i++) {
            spec.micro_batches = (i == 2 ? 3 + times : 2 + i) * period;
            if (spec.schedule != ORR_SCHEDULE_INTERLEAVED)
                spec.micro_batches += rest;
            open_play(&c, &spec, true, blocking, &schedules[i], &plays[i]);
        }
        choose_lengths(&c, lengths);
        choose_lengths(&c, others);
        for (uint32_t i = 0; i < 2; i++)
            orr_schedule_timing_run(&plays[i], lengths);
        orr_schedule_timing_run(&plays[2], others);
        for (uint32_t s = 0; s < spec.stages; s++) {
            orr_schedule_path path;
            if (!prolong(&plays[1], &plays[0], s, both ? period / 2 : period, (float)times, &path))
                continue;
            found++;
            if (length_of(&path, others) > orr_schedule_timing_end(&plays[2], s) * (1 + 1e-6))
                seed_fail(seed, "stage %u of a longer step ends at %g, before a path of %g", s,
                          orr_schedule_timing_end(&plays[2], s), length_of(&path, others));
        }
        orr_arena_free(c.arena);
    }
    print_message("%u paths go round\n", found);
    if (range.end - range.begin == SEEDS)
        assert_true(found > SEEDS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_are_bounds),
        cmocka_unit_test(rounds_may_be_repeated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
