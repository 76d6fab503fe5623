/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "engine/tables/tables_state.h"

/* Tables whose rows live on a tier: what is refused, what is given up, what it takes. What is
 * computed stands in property/test_table_tiers.c. */
enum { SAMPLES = 4, LENGTH = 3, N_TABLES = 2, LOOKUPS = N_TABLES * SAMPLES * LENGTH, COLUMNS = 56 };

static const orr_embedding TABLES[N_TABLES] = {
    {.name = "t0",
     .rows = 1000,
     .columns = 40,
     .pooling = LENGTH,
     .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD},
    {.name = "t1",
     .rows = 100,
     .columns = 16,
     .pooling = LENGTH,
     .format = ORR_ROW_FORMAT_BF16,
     .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAM},
};

static orr_embedding_plan plan_of(orr_tier first, orr_tier second, orr_arena *arena)
{
    static const uint32_t RANK[] = {0};
    const orr_embedding_placement p[N_TABLES] = {
        {.tier = (uint8_t)first, .columns = 1, .ranks = RANK, .n_ranks = 1},
        {.tier = (uint8_t)second, .columns = 1, .ranks = RANK, .n_ranks = 1}};
    orr_embedding_plan plan = {.ranks = 1,
                               .groups = 1,
                               .pipeline = 3,
                               .lookahead = 4,
                               .n_tables = N_TABLES,
                               .tables = TABLES,
                               .placements = p};
    orr_error err = {0};
    assert_int_equal(orr_embedding_plan_shard(&plan, arena, &err), ORR_OK);
    return plan;
}

/* Memory of any node, slots for some rows. */
static const orr_tables_tier MEMORY[ORR_TIERS] = {
    [ORR_TIER_BYTE] = {.node = -1, .create = true, .cache_bytes = 40000}};

static orr_tables_source source_of(const orr_embedding_plan *plan, const orr_tables_tier *tiers)
{
    return (orr_tables_source){.plan = plan,
                               .transport = orr_transport_self(),
                               .channels = {2, 3},
                               .samples = SAMPLES,
                               .seed = 7,
                               .trained = true,
                               .tiers = tiers};
}

typedef struct step_data {
    int32_t lengths[N_TABLES * SAMPLES];
    int64_t ids[LOOKUPS];
    float bags[SAMPLES * COLUMNS], gradient[SAMPLES * COLUMNS];
} step_data;

static step_data lookups_of(int64_t number)
{
    step_data d = {0};
    for (int i = 0; i < N_TABLES * SAMPLES; i++)
        d.lengths[i] = LENGTH;
    for (int i = 0; i < LOOKUPS; i++)
        d.ids[i] = (number * 7 + i * i) % 100;
    for (int i = 0; i < SAMPLES * COLUMNS; i++)
        d.gradient[i] = 0.01f * (float)i;
    return d;
}

static void ask(orr_tables *t, const step_data *d, int64_t number)
{
    const orr_tables_batch batch = {d->lengths, d->ids};
    const uint32_t slot = (uint32_t)(number % ORR_TABLES_AHEAD);
    orr_error err = {0};
    assert_int_equal(orr_tables_exchange_ids(t, slot, &batch, &err), ORR_OK);
    assert_int_equal(orr_tables_fetch(t, slot, &err), ORR_OK);
}

static orr_status compute(orr_tables *t, step_data *d, int64_t number, orr_error *err)
{
    const orr_update by = {
        .rate = 0.1, .beta1 = 0.9, .beta2 = 0.9, .step = number + 1, .gradient_scale = 1};
    const uint32_t slot = (uint32_t)(number % ORR_TABLES_AHEAD);
    ORR_TRY(orr_tables_sum(t, slot, d->bags, err));
    ORR_TRY(orr_tables_exchange_bags(t, slot, d->bags, err));
    ORR_TRY(orr_tables_exchange_gradients(t, slot, d->gradient, err));
    return orr_tables_update(t, slot, &by, err);
}

static void assert_refused(const orr_embedding_plan *plan, const orr_tables_tier *tiers,
                           orr_status status, const char *text)
{
    const orr_tables_source source = source_of(plan, tiers);
    orr_tables *t = NULL;
    orr_error err = {0};
    assert_int_equal(orr_tables_open(&source, &t, &err), status);
    assert_null(t);
    if (strncmp(err.text, text, strlen(text)) != 0)
        fail_msg("\"%s\", not \"%s\"", err.text, text);
}

static void what_is_not_there_is_refused(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_embedding_plan block = plan_of(ORR_TIER_DRAM, ORR_TIER_BLOCK, arena),
                             byte = plan_of(ORR_TIER_BYTE, ORR_TIER_DRAM, arena);
    orr_tables_tier tiers[ORR_TIERS];
    memcpy(tiers, MEMORY, sizeof tiers);
    assert_refused(&block, NULL, ORR_INVALID, "table t1 is placed on tier block, which is not");
    assert_refused(&block, tiers, ORR_INVALID, "table t1 is placed on tier block, which is not");
    tiers[ORR_TIER_BLOCK].path = "/nowhere/rows";
    tiers[ORR_TIER_BLOCK].create = true;
    assert_refused(&block, tiers, ORR_IO, "/nowhere/rows");
    tiers[ORR_TIER_BYTE].cache_bytes = 100;
    assert_refused(&byte, tiers, ORR_LIMIT, "");
    orr_arena_free(arena);
}

/* Steps that were asked for and are not computed leave nothing, in whatever state they are. */
static void what_is_given_up_leaves_nothing(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_embedding_plan dram = plan_of(ORR_TIER_DRAM, ORR_TIER_DRAM, arena),
                             byte = plan_of(ORR_TIER_BYTE, ORR_TIER_BYTE, arena);
    const orr_tables_source sources[2] = {source_of(&dram, NULL), source_of(&byte, MEMORY)};
    step_data done[2][3], asked[8];
    for (int k = 0; k < 2; k++) {
        orr_tables *t = NULL;
        orr_error err = {0};
        assert_int_equal(orr_tables_open(&sources[k], &t, &err), ORR_OK);
        for (int64_t i = 0; i < 3; i++) {
            const int64_t ahead = 5;
            for (int64_t a = 0; k == 1 && a < ahead; a++) {
                asked[a] = lookups_of(i * 10 + a);
                ask(t, &asked[a], a);
            }
            for (uint32_t a = 0; k == 1 && a < ahead; a++)
                orr_tables_skip(t, a);
            done[k][i] = lookups_of(i);
            ask(t, &done[k][i], i);
            assert_int_equal(compute(t, &done[k][i], i, &err), ORR_OK);
        }
        for (int64_t a = 0; a < 5; a++) { /* and the tables are closed */
            asked[a] = lookups_of(a);
            ask(t, &asked[a], a);
        }
        orr_tables_close(t);
    }
    assert_memory_equal(done[0], done[1], sizeof done[0]);
    orr_arena_free(arena);
}

/* A step whose rows do not fit is refused, and so is every one after it. */
static void a_step_that_does_not_fit_is_refused(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_embedding_plan plan = plan_of(ORR_TIER_BYTE, ORR_TIER_DRAM, arena);
    orr_tables_tier tiers[ORR_TIERS];
    memcpy(tiers, MEMORY, sizeof tiers);
    orr_tables_source source = source_of(&plan, tiers);
    orr_error err = {0};
    orr_tables *t = NULL;
    for (tiers[ORR_TIER_BYTE].cache_bytes = 200;; tiers[ORR_TIER_BYTE].cache_bytes += 200) {
        const orr_status status = orr_tables_open(&source, &t, &err);
        if (status == ORR_OK)
            break;
        assert_int_equal(status, ORR_LIMIT);
    }
    step_data d[2] = {lookups_of(1), lookups_of(2)};
    ask(t, &d[0], 0);
    ask(t, &d[1], 1);
    assert_int_equal(compute(t, &d[0], 0, &err), ORR_LIMIT);
    assert_non_null(strstr(err.text, "the cache has "));
    assert_int_equal(compute(t, &d[1], 1, &err), ORR_LIMIT);
    orr_tables_close(t);
    orr_arena_free(arena);
}

static void memory_is_as_measured(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_embedding_plan plan = plan_of(ORR_TIER_BYTE, ORR_TIER_DRAM, arena);
    const orr_tables_source source = source_of(&plan, MEMORY);
    orr_tables *t = NULL;
    orr_error err = {0};
    orr_tables_memory memory;
    assert_int_equal(orr_tables_measure(&source, &memory, &err), ORR_OK);
    assert_int_equal(orr_tables_open(&source, &t, &err), ORR_OK);
    assert_int_equal(memory.rows, 100 * 32);
    assert_int_equal(memory.state, 100 * (16 + 1) * 4);
    assert_int_equal(memory.cache, 40000 + 1000 * 8);
    assert_int_equal(memory.buffers, orr_tables_held_bytes(t));
    assert_null(orr_tables_store(t, ORR_TIER_BLOCK));
    assert_non_null(orr_tables_store(t, ORR_TIER_BYTE));
    orr_tables_close(t);
    orr_arena_free(arena);
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_embedding_plan plan = plan_of(ORR_TIER_BYTE, ORR_TIER_BYTE, arena);
    const orr_tables_source source = source_of(&plan, MEMORY);
    orr_tables *t = NULL;
    orr_status status = ORR_NO_MEMORY;
    uint64_t nth = 0;
    for (; status == ORR_NO_MEMORY; nth++) {
        orr_error err = {0};
        orr_alloc_fail_from(nth + 1);
        status = orr_tables_open(&source, &t, &err);
        orr_alloc_fail_from(0);
    }
    assert_int_equal(status, ORR_OK);
    assert_true(nth > 10);
    orr_tables_close(t);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_not_there_is_refused),
        cmocka_unit_test(what_is_given_up_leaves_nothing),
        cmocka_unit_test(a_step_that_does_not_fit_is_refused),
        cmocka_unit_test(memory_is_as_measured),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
