/* SPDX-License-Identifier: Apache-2.0 */
#include "model/schedule/schedule.h"

#include <string.h>

/* Pipeline schedules as data: which slots each stage runs in which order, checked and measured. */

typedef struct schedule_rule {
    void (*slots)(const orr_schedule_spec *spec, uint32_t stage, orr_slot_list *ret);
    uint32_t chunks; /* 0: any number is allowed */
    bool split;      /* a backward pass may be split into input gradient and weight gradient */
} schedule_rule;
static const schedule_rule ROWS[ORR_SCHEDULES] = {
    [ORR_SCHEDULE_1F1B] = {orr_slots_1f1b, 1, false},
    [ORR_SCHEDULE_GPIPE] = {orr_slots_gpipe, 1, false},
    [ORR_SCHEDULE_INTERLEAVED] = {orr_slots_interleaved, 0, false},
    [ORR_SCHEDULE_ZB_H1] = {orr_slots_zb_h1, 1, true},
    [ORR_SCHEDULE_ZB_V] = {orr_slots_zb_v, 2, true},
    [ORR_SCHEDULE_DUALPIPE] = {orr_slots_dualpipe, 2, true},
};

/* Limits, above any job. A pass of a micro-batch through a chunk is two or three slots, each of
 * which takes a few KB when it is simulated. */
enum { MOST_STAGES = 1 << 14, MOST_CHUNKS = 1 << 12, MOST_PASSES = 1 << 18 };

static orr_status check_dualpipe(const orr_schedule_spec *s, orr_error *err)
{
    if (s->stages % 2 != 0 || s->micro_batches % 2 != 0 || s->micro_batches < 2 * s->stages)
        return orr_fail(err, ORR_INVALID,
                        "dualpipe needs an even number of stages and at least twice as many "
                        "micro-batches, even as well: not %u and %u",
                        s->stages, s->micro_batches);
    return ORR_OK;
}

/* A last group of micro-batches smaller than the number of stages would deadlock where one forward
 * alternates with one backward: the first stage would wait for a chunk that waits for the first
 * stage. */
static orr_status check_group(const orr_schedule_spec *s, orr_error *err)
{
    const uint32_t p = s->stages, m = s->micro_batches;
    if (s->chunks == 1)
        return ORR_OK;
    if (s->group < 1 || s->group > m)
        return orr_fail(err, ORR_INVALID,
                        "interleaved: group=%u; with %u micro-batches it is 1 to %u", s->group, m,
                        m);
    const uint32_t rest = m % s->group;
    if (rest > 0 && rest < p && !orr_schedule_fills_at_once(s))
        return orr_fail(err, ORR_INVALID,
                        "interleaved: group=%u leaves %u of %u micro-batches to a last group, "
                        "fewer than %u stages: group=%u does not",
                        s->group, rest, m, p, orr_schedule_smallest_group(p, m));
    return ORR_OK;
}

uint32_t orr_schedule_smallest_group(uint32_t stages, uint32_t micro_batches)
{
    uint32_t group = stages;
    while (group < micro_batches && micro_batches % group != 0 && micro_batches % group < stages)
        group++;
    return group < micro_batches ? group : micro_batches;
}

orr_status orr_schedule_spec_check(const orr_schedule_spec *s, orr_error *err)
{
    if (s->schedule == ORR_SCHEDULE_UNKNOWN || s->schedule >= ORR_SCHEDULES)
        return orr_fail(err, ORR_INVALID, "no such schedule");
    const char *name = orr_schedule_name((orr_schedule)s->schedule);
    const uint32_t chunks = ROWS[s->schedule].chunks;
    if (s->stages == 0 || s->chunks == 0 || s->micro_batches == 0)
        return orr_fail(err, ORR_INVALID, "%s of %u stages, %u chunks and %u micro-batches", name,
                        s->stages, s->chunks, s->micro_batches);
    if (s->stages > MOST_STAGES || s->chunks > MOST_CHUNKS ||
        (uint64_t)s->micro_batches * s->chunks > MOST_PASSES / s->stages)
        return orr_fail(err, ORR_INVALID,
                        "%s: %u stages x %u chunks x %u micro-batches are more than 2^18", name,
                        s->stages, s->chunks, s->micro_batches);
    if (chunks != 0 && s->chunks != chunks)
        return orr_fail(err, ORR_INVALID, "%s has %u chunk%s a stage, not vp=%u%s", name, chunks,
                        chunks > 1 ? "s" : "", s->chunks,
                        chunks == 1 ? ": that goes with interleaved" : "");
    if (s->schedule == ORR_SCHEDULE_INTERLEAVED)
        return check_group(s, err);
    return s->schedule == ORR_SCHEDULE_DUALPIPE ? check_dualpipe(s, err) : ORR_OK;
}

static void place_stages(const orr_schedule_spec *s, uint32_t *stage_of, uint32_t *chunk_of)
{
    for (uint32_t stage = 0; stage < s->stages; stage++)
        for (uint32_t chunk = 0; chunk < s->chunks; chunk++) {
            const bool second = s->schedule == ORR_SCHEDULE_DUALPIPE && chunk == 1;
            const uint32_t k =
                orr_schedule_virtual_stage_at(s, stage, chunk) + (second ? s->stages : 0);
            stage_of[k] = stage;
            chunk_of[k] = chunk;
        }
}

/* The largest number of (micro-batch, chunk) pairs in flight: between their forward slot and the
 * last slot that needs their activations. */
static uint32_t most_held(const orr_schedule_slot *slots, uint32_t n)
{
    uint32_t held = 0, most = 0;
    for (uint32_t i = 0; i < n; i++) {
        held += slots[i].phase == ORR_SLOT_FORWARD;
        most = held > most ? held : most;
        held -= slots[i].phase == ORR_SLOT_BACKWARD || slots[i].phase == ORR_SLOT_WEIGHT;
    }
    return most;
}

orr_status orr_schedule_make(const orr_schedule_spec *spec, orr_arena *arena,
                             orr_schedule_plan *ret, orr_error *err)
{
    ORR_TRY(orr_schedule_spec_check(spec, err));
    const schedule_rule *row = &ROWS[spec->schedule];
    const uint32_t p = spec->stages, chunks = p * spec->chunks;
    const uint32_t passes = spec->schedule == ORR_SCHEDULE_DUALPIPE ? 1 : spec->chunks;
    const uint32_t room = spec->micro_batches * passes * (row->split ? 3 : 2);
    uint32_t *first = orr_arena_array(arena, uint32_t, (size_t)p + 1);
    uint32_t *stage_of = orr_arena_array(arena, uint32_t, chunks);
    uint32_t *chunk_of = orr_arena_array(arena, uint32_t, chunks);
    orr_schedule_slot *slots = orr_arena_array(arena, orr_schedule_slot, (size_t)room * p);
    if (first == NULL || stage_of == NULL || chunk_of == NULL || slots == NULL)
        return orr_fail_memory(err);
    uint32_t in_flight = 0;
    for (uint32_t stage = 0; stage < p; stage++) {
        orr_slot_list of_stage = {.at = slots + first[stage]};
        row->slots(spec, stage, &of_stage);
        first[stage + 1] = first[stage] + of_stage.n;
        const uint32_t held = most_held(of_stage.at, of_stage.n);
        in_flight = held > in_flight ? held : in_flight;
    }
    place_stages(spec, stage_of, chunk_of);
    *ret = (orr_schedule_plan){*spec, first, slots, stage_of, chunk_of, in_flight};
    return ORR_OK;
}
