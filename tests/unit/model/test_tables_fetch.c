/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tables/fetch.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* What a batch reads from storage, against sums done by hand. */
enum { RANKS = 4, SAMPLES = 512, ALL = RANKS * SAMPLES, COLUMNS = 128 };
#define ROWS 1e6

typedef struct scene {
    orr_arena *arena;
    orr_embedding table;
    orr_embedding_placement placement;
    orr_embedding_plan plan;
    orr_tables_demand demand;
    orr_tier_rates tiers[ORR_TIERS];
} scene;

static const uint32_t IN_ORDER[RANKS] = {0, 1, 2, 3};

/* One table of a lookup a sample, on a drive that is bound by its reads: 10 us a row. */
static void open_scene(scene *s, orr_embedding_sharding kind, uint32_t columns, uint32_t n_ranks)
{
    *s = (scene){.arena = orr_arena_new(0, 0)};
    assert_non_null(s->arena);
    s->table = (orr_embedding){.name = "t0", .rows = ROWS, .columns = COLUMNS, .pooling = 1};
    s->placement = (orr_embedding_placement){.sharding = (uint8_t)kind,
                                             .tier = ORR_TIER_BLOCK,
                                             .columns = columns,
                                             .ranks = IN_ORDER,
                                             .n_ranks = n_ranks};
    s->plan = (orr_embedding_plan){.ranks = RANKS,
                                   .groups = 1,
                                   .synchronize = 1,
                                   .n_tables = 1,
                                   .tables = &s->table,
                                   .placements = &s->placement};
    s->demand = (orr_tables_demand){.samples = SAMPLES, .popularity = ORR_POPULARITY_UNIFORM};
    s->tiers[ORR_TIER_BLOCK] = (orr_tier_rates){
        .bytes = 1LL << 40, .sector_bytes = 1024, .read_iops = 1e5, .read_ns = 9e4};
}

static orr_tables_fetch fetch(scene *s)
{
    orr_tables_fetch f;
    orr_error err;
    orr_embedding_plan plan = s->plan;
    assert_int_equal(orr_embedding_plan_shard(&plan, s->arena, &err), ORR_OK);
    if (orr_tables_fetch_of(&plan, &s->demand, s->tiers, &f, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return f;
}

static void assert_within(double is, double should, double frac)
{
    if (!(fabs(is - should) <= frac * fabs(should)))
        fail_msg("%.9g, should be %.9g", is, should);
}

/* Of 2048 lookups in a million rows nearly all are of other rows; with half of the rows in the
 * cache, half are there. */
static void misses_are_read(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, ORR_SHARDING_TABLE, 1, 1);
    const orr_tables_fetch none = fetch(&s);
    assert_within(none.reads, ALL, 0.01);
    assert_within(none.ns, none.reads * 1e4, 1e-9);
    assert_within(none.read_bytes, none.reads * 1024, 1e-9);
    assert_true(none.first_ns == 9e4 && none.ahead == 0);
    s.placement.cached_rows = ROWS / 2;
    assert_within(fetch(&s).reads, ALL / 2.0, 0.01);
    s.placement.cached_rows = ROWS;
    assert_true(fetch(&s).ns < 1e-6 * none.ns);
    s.placement.tier = ORR_TIER_DRAM;
    s.placement.cached_rows = 0;
    assert_true(fetch(&s).ns == 0);
    orr_arena_free(s.arena);
}

/* Row parts share the reads; column parts make them all, each of its own columns. */
static void shards_read_their_own(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, ORR_SHARDING_TABLE, 1, 1);
    s.placement.cached_rows = ROWS / 4;
    const double whole = fetch(&s).ns;
    s.placement.sharding = ORR_SHARDING_ROW;
    s.placement.n_ranks = RANKS;
    assert_within(fetch(&s).ns, whole / RANKS, 0.01);
    s.placement.sharding = ORR_SHARDING_COLUMN;
    s.placement.columns = RANKS;
    s.placement.cached_rows = RANKS * ROWS / 4;
    assert_within(fetch(&s).ns, whole, 1e-6);
    orr_arena_free(s.arena);
}

/* A row that was changed is written back: in place, or in extents where that is faster. */
static void changed_rows_are_written(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, ORR_SHARDING_TABLE, 1, 1);
    const orr_tables_fetch read = fetch(&s);
    s.tiers[ORR_TIER_BLOCK].write_iops = 2e4;
    assert_within(fetch(&s).ns, read.reads * 6e4, 1e-9);
    s.tiers[ORR_TIER_BLOCK].write_bytes_per_s = 1e9;
    assert_true(fetch(&s).ns < read.reads * 1.2e4);
    s.tiers[ORR_TIER_BLOCK].request_ns = 5e4;
    assert_within(fetch(&s).ns, read.reads * 5e4, 1e-9);
    orr_arena_free(s.arena);
}

/* More cached rows, and a faster drive, never take longer; popularity as it was published. */
static void more_is_never_slower(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, ORR_SHARDING_ROW, 1, RANKS);
    s.demand.popularity = ORR_POPULARITY_META_2021;
    for (s.plan.lookahead = 0; s.plan.lookahead < 3; s.plan.lookahead++) {
        double before = INFINITY, first = 0;
        s.tiers[ORR_TIER_BLOCK].read_iops = 1e5;
        for (double rows = 0; rows <= ROWS; rows += ROWS / 50) {
            s.placement.cached_rows = rows;
            const double ns = fetch(&s).ns;
            first = rows == 0 ? ns : first;
            assert_true(ns <= before * (1 + 1e-9));
            before = ns;
        }
        assert_true(before < first / 100);
        s.placement.cached_rows = ROWS / 10;
        const double slow = fetch(&s).ns;
        s.tiers[ORR_TIER_BLOCK].read_iops = 2e5;
        assert_within(fetch(&s).ns, slow / 2, 1e-9);
    }
    orr_arena_free(s.arena);
}

/* Memory of a rank has the cache and the map, not the rows. */
static void memory_has_the_cache(void **state)
{
    (void)state;
    scene s;
    orr_tables_load loads[RANKS];
    orr_error err;
    open_scene(&s, ORR_SHARDING_TABLE, 1, 1);
    s.placement.cached_rows = ROWS / 10;
    assert_int_equal(orr_embedding_plan_shard(&s.plan, s.arena, &err), ORR_OK);
    assert_int_equal(orr_tables_loads(&s.plan, &s.demand, loads, &err), ORR_OK);
    assert_within(loads[0].rows, ROWS / 10 * COLUMNS * 4 + 8 * ROWS, 1e-9);
    orr_arena_free(s.arena);
}

static void tier_that_is_not_there(void **state)
{
    (void)state;
    scene s;
    orr_tables_fetch f;
    orr_error err;
    open_scene(&s, ORR_SHARDING_TABLE, 1, 1);
    s.placement.tier = ORR_TIER_BYTE;
    assert_int_equal(orr_embedding_plan_shard(&s.plan, s.arena, &err), ORR_OK);
    assert_int_equal(orr_tables_fetch_of(&s.plan, &s.demand, s.tiers, &f, &err), ORR_INVALID);
    assert_non_null(strstr(err.text, "'t0' lives on tier byte"));
    orr_arena_free(s.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(misses_are_read),          cmocka_unit_test(shards_read_their_own),
        cmocka_unit_test(changed_rows_are_written), cmocka_unit_test(more_is_never_slower),
        cmocka_unit_test(memory_has_the_cache),     cmocka_unit_test(tier_that_is_not_there),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
