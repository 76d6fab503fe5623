/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/memory_plan.h>

#include "model/memory/memory.h"
#include "op/tape/live_ranges.h"
#include "support/seeds.h"

/* Lives laid out do not overlap, and take at least the peak; plans hold what they must. */
enum { LIVES = 40, STEPS = 30 };

static uint32_t below(orr_random *random, uint32_t n)
{
    return orr_random_u32(random) % n;
}

static void lives_do_not_overlap(void **state)
{
    (void)state;
    const seed_range range = seeds(200);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_random random = orr_random_of(seed, 0);
        orr_live_range lives[LIVES];
        int64_t offset[LIVES], high, peak = 0, sum = 0;
        const uint32_t n = 1 + below(&random, LIVES);
        const int64_t alignment = 1LL << below(&random, 9);
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t first = below(&random, STEPS);
            lives[i] = (orr_live_range){first, first + below(&random, STEPS - first),
                                        (int64_t)below(&random, 5000) * (below(&random, 8) > 0)};
            sum += (lives[i].bytes + alignment - 1) / alignment * alignment;
        }
        if (orr_live_ranges_pack(lives, n, alignment, offset, &high, NULL) != ORR_OK ||
            orr_live_ranges_peak(lives, n, 0, STEPS, &peak, NULL, NULL) != ORR_OK)
            seed_fail(seed, "failed");
        if (high < peak || high > sum)
            seed_fail(seed, "%lld bytes: peak %lld, sum %lld", (long long)high, (long long)peak,
                      (long long)sum);
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t k = 0; k < i; k++) {
                const bool meet =
                    lives[i].first <= lives[k].last && lives[k].first <= lives[i].last;
                const bool apart = offset[i] + lives[i].bytes <= offset[k] ||
                                   offset[k] + lives[k].bytes <= offset[i];
                if (meet && !apart && lives[i].bytes > 0 && lives[k].bytes > 0)
                    seed_fail(seed, "lives %u and %u overlap", k, i);
                if (offset[i] % alignment != 0)
                    seed_fail(seed, "life %u is not aligned", i);
            }
    }
}

typedef struct fixture {
    orr_arena *arena;
    const orr_model *models[3];
} fixture;

static orr_memory_plan plan_of(uint64_t seed, const orr_model *model, orr_plan asked,
                               orr_arena *arena)
{
    const orr_plan plan = orr_plan_with_defaults(&asked);
    const orr_workload workload = {.task = ORR_TASK_PRETRAIN};
    orr_memory_plan made = {0};
    orr_error err;
    if (orr_plan_check(&plan, &err) != ORR_OK ||
        orr_memory_plan_make(model, &plan, &workload, NULL, arena, &made, &err) != ORR_OK)
        seed_fail(seed, "%s", err.text);
    return made;
}

static int64_t worst(const orr_memory_plan *plan)
{
    return plan->stages[plan->worst].allocated_bytes;
}

static orr_plan random_plan(orr_random *random, bool experts)
{
    static const uint8_t schedules[] = {ORR_SCHEDULE_1F1B, ORR_SCHEDULE_GPIPE, ORR_SCHEDULE_ZB_H1,
                                        ORR_SCHEDULE_INTERLEAVED};
    orr_plan p = {
        .tp = 1u << below(random, 3),
        .dp = 1u << (1 + below(random, 3)),
        .pp = 1u << below(random, 3),
        .cp = 1u << below(random, 2),
        .layers = 8,
        .seq = 1024,
        .micro_batch = 1 + below(random, 2),
        .schedule = schedules[below(random, 4)],
    };
    p.micro_batches = p.pp * (1 + below(random, 3));
    if (p.pp == 1)
        p.schedule = ORR_SCHEDULE_1F1B;
    p.vp = p.schedule == ORR_SCHEDULE_INTERLEAVED ? 2 : 1;
    if (experts) {
        p.ep = p.dp;
        p.etp = 1;
    }
    return p;
}

static void assert_sums(uint64_t seed, const orr_memory_plan *plan)
{
    for (uint32_t s = 0; s < plan->n_stages; s++) {
        const orr_stage_memory *m = &plan->stages[s];
        int64_t sum = 0, most = 0;
        for (int kind = 0; kind < ORR_MEMORY_KINDS; kind++)
            sum += m->bytes[kind];
        for (uint32_t t = 0; t < m->n_slots; t++)
            if (m->activations[t] + m->transient[t] > most)
                most = m->activations[t] + m->transient[t];
        if (sum != m->peak_bytes)
            seed_fail(seed, "stage %u: kinds do not add up to the peak", s);
        if (most != m->bytes[ORR_MEMORY_ACTIVATIONS] + m->bytes[ORR_MEMORY_TRANSIENT])
            seed_fail(seed, "stage %u: a turn holds more than the peak", s);
    }
}

/* Sharding more, computing more again, never takes more memory. */
static void less_is_held_where_more_is_shared(void **state)
{
    (void)state;
    static const char *const names[] = {"llama3.1-8b", "gpt3-175b", "mixtral-8x7b"};
    fixture f = {.arena = orr_arena_new(0, 0)};
    orr_error err;
    for (int i = 0; i < 3; i++)
        if (orr_model_load(names[i], f.arena, &f.models[i], &err) != ORR_OK)
            fail_msg("%s", err.text);
    const seed_range range = seeds(25);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_random random = orr_random_of(seed, 1);
        const uint32_t which = below(&random, 3);
        orr_plan plan = random_plan(&random, which == 2);
        const orr_memory_plan none = plan_of(seed, f.models[which], plan, arena);
        assert_sums(seed, &none);
        orr_plan changed = plan;
        changed.zero = 1;
        const orr_memory_plan zero = plan_of(seed, f.models[which], changed, arena);
        if (worst(&zero) > worst(&none))
            seed_fail(seed, "zero=1 holds more");
        changed = plan;
        changed.recompute = ORR_RECOMPUTE_SELECTIVE;
        const orr_memory_plan selective = plan_of(seed, f.models[which], changed, arena);
        changed.recompute = ORR_RECOMPUTE_FULL;
        const orr_memory_plan full = plan_of(seed, f.models[which], changed, arena);
        for (uint32_t s = 0; s < none.n_stages; s++)
            if (selective.stages[s].activations[0] > none.stages[s].activations[0] ||
                full.stages[s].activations[0] > selective.stages[s].activations[0])
                seed_fail(seed, "stage %u keeps more where more is computed again", s);
        orr_arena_free(arena);
    }
    orr_arena_free(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lives_do_not_overlap),
        cmocka_unit_test(less_is_held_where_more_is_shared),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
