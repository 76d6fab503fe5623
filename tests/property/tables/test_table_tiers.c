/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <unistd.h>

#include "../support/table_ranks.h"

/* Rows that do not live in memory have, step by step, the bits of rows that do: any mix of tiers,
 * kinds of sharding, formats and optimizers, row caches of any size that holds a step, policies and
 * look-aheads. */
enum { TIER_STEPS = 10, LOOKAHEAD_MOST = 8, CACHE_MOST = 1 << 26, ROOMY_BYTES = 1 << 25 };

static void remove_files(const table_run *run)
{
    for (uint32_t rank = 0; rank < RANKS_MOST; rank++)
        for (int tier = 0; tier < ORR_TIERS; tier++) {
            char path[300];
            snprintf(path, sizeof path, "%s/rank-%u.%d", run->folder, rank, tier);
            (void)unlink(path);
        }
}

/* Runs it with caches of so many bytes; false: they are too small. */
static bool fits(table_run *run, uint64_t cache_bytes, orr_arena *arena)
{
    for (int tier = 0; tier < ORR_TIERS; tier++)
        run->tiers[tier].cache_bytes = cache_bytes;
    run->refused = ORR_LIMIT;
    memset(run->stats, 0, sizeof run->stats);
    run_tables(run, arena);
    remove_files(run);
    return run->refused == ORR_OK;
}

/* With caches that are as small as they can be within a factor of 4, or of 1.4. */
static void run_tight(table_run *run, bool tighter, orr_arena *arena)
{
    uint64_t bytes = 20000;
    while (!fits(run, bytes, arena)) {
        bytes *= 4;
        if (bytes > CACHE_MOST)
            seed_fail(run->c->seed, "%s", run->why);
    }
    for (int i = 0; tighter && i < 2; i++)
        if (fits(run, bytes * 7 / 10, arena))
            bytes = bytes * 7 / 10;
    if (tighter)
        assert_true(fits(run, bytes, arena));
}

static void random_tiers(table_run *run, orr_random *r, orr_embedding_plan *plan)
{
    orr_embedding_placement *p = (orr_embedding_placement *)(uintptr_t)plan->placements;
    const bool dram = orr_random_below(r, 4) == 0;
    for (uint32_t t = 0; t < plan->n_tables; t++)
        p[t].tier = (uint8_t)orr_random_below(r, ORR_TIERS);
    plan->lookahead = (uint32_t)orr_random_below(r, LOOKAHEAD_MOST + 1);
    for (int tier = 0; tier < ORR_TIERS; tier++)
        run->tiers[tier] =
            (orr_tables_tier){.node = -1,
                              .create = true,
                              .policy = (uint8_t)orr_random_below(r, ORR_CACHE_POLICIES),
                              .writes = (uint8_t)orr_random_below(r, 2),
                              .plain = orr_random_below(r, 2) == 0,
                              .durable = orr_random_below(r, 2) == 0,
                              .dram = dram && tier == ORR_TIER_BLOCK,
                              /* Averages over groups write all rows at once. */
                              .bytes = plan->groups > 1 ? ROOMY_BYTES : 0};
    const uint32_t most = orr_tables_steps(plan) - 1;
    run->ahead = (uint32_t)orr_random_below(r, most + 1);
    run->fetch_ahead = (uint32_t)orr_random_below(r, run->ahead + 1);
    run->ids_in_thread = orr_random_below(r, 2) == 0;
    run->threads = (int)draw(r, 1, 2);
    run->visits = orr_random_below(r, 2) == 0;
    run->steps = TIER_STEPS;
}

static void hold_bits(const table_run *want, const table_run *got)
{
    const table_case *c = want->c;
    const size_t bags = (size_t)((int64_t)want->steps * c->batch * c->columns);
    if (memcmp(want->bags, got->bags, bags * sizeof(float)) != 0)
        seed_fail(c->seed, "%u ranks: bags differ", got->plan->ranks);
    for (uint32_t t = 0; t < c->n_tables * got->plan->groups; t++) {
        const orr_embedding *table = &c->tables[t % c->n_tables];
        const whole_table *x = &want->tables[t], *y = &got->tables[t];
        const size_t rows = (size_t)table->rows, numbers = rows * table->columns;
        if (memcmp(x->numbers, y->numbers, rows * (size_t)x->row_bytes) != 0 ||
            memcmp(x->of_number, y->of_number, numbers * sizeof(float)) != 0 ||
            memcmp(x->of_row, y->of_row, rows * sizeof(float)) != 0)
            seed_fail(c->seed, "%u ranks: rows or state of %s differ", got->plan->ranks,
                      table->name);
    }
}

static void every_tier_has_the_bits_of_memory(void **state)
{
    static const struct {
        uint32_t ranks, groups;
    } SHAPES[] = {{1, 1}, {2, 1}, {3, 1}, {4, 1}, {1, 2}, {2, 2}};
    const seed_range range = seeds(18);
    uint64_t evictions = 0;
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        const table_case c = table_case_of(seed);
        orr_random r = orr_random_of(seed, 9);
        orr_embedding_plan plan = random_table_plan(&c, SHAPES[seed % 6].ranks, &r, arena);
        plan.groups = SHAPES[seed % 6].groups;
        plan.synchronize = 3;
        table_run memory = {.c = &c, .plan = &plan, .threads = 1, .steps = TIER_STEPS};
        run_tables(&memory, arena);
        table_run tiers = {.c = &c, .plan = &plan, .folder = *state};
        random_tiers(&tiers, &r, &plan);
        run_tight(&tiers, seed % 3 == 0, arena);
        hold_bits(&memory, &tiers);
        for (int tier = 0; tier < ORR_TIERS; tier++)
            evictions += tiers.stats[tier].evictions;
        orr_arena_free(arena);
    }
    if (range.end - range.begin > 1)
        assert_true(evictions > 0);
}

/* The look-ahead is as long as the cache allows: with a cache that holds one step to the byte no
 * step waits for another for ever. */
static void a_cache_of_one_step_is_enough(void **state)
{
    const seed_range range = seeds(3);
    for (uint64_t seed = range.begin; seed < range.end; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        table_case c = table_case_of(seed);
        orr_random r = orr_random_of(seed, 10);
        c.n_tables = 1;
        c.columns = c.tables[0].columns;
        c.tables[0].rows += 100;
        orr_embedding_plan plan = random_table_plan(&c, 1, &r, arena);
        table_run memory = {.c = &c, .plan = &plan, .threads = 1, .steps = TIER_STEPS};
        run_tables(&memory, arena);
        table_run tiers = {.c = &c, .plan = &plan, .folder = *state};
        random_tiers(&tiers, &r, &plan);
        ((orr_embedding_placement *)(uintptr_t)plan.placements)[0].tier = ORR_TIER_BLOCK;
        plan.lookahead = LOOKAHEAD_MOST;
        tiers.ahead = tiers.fetch_ahead = LOOKAHEAD_MOST;
        uint64_t less = 1, more = 1 << 22;
        assert_true(fits(&tiers, more, arena) && !fits(&tiers, less, arena));
        while (more - less > 200) {
            const uint64_t middle = less + (more - less) / 2;
            *(fits(&tiers, middle, arena) ? &more : &less) = middle;
        }
        assert_true(fits(&tiers, more, arena));
        hold_bits(&memory, &tiers);
        orr_arena_free(arena);
    }
}

static int make_folder(void **state)
{
    static char name[] = "/tmp/orrery-tiers-XXXXXX";
    *state = mkdtemp(name);
    return *state != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    return rmdir(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_tier_has_the_bits_of_memory),
        cmocka_unit_test(a_cache_of_one_step_is_enough),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
