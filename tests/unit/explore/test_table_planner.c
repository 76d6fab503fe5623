/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "explore/tables/planner.h"

/* The planner of embedding tables: prices by hand, reasons, refusals. Its plans are held against
 * exhaustive search in tests/property/tables/test_plans.c. */

#define MIB ((int64_t)1 << 20)
#define GIB ((int64_t)1 << 30)

static orr_arena *arena;

static int new_arena(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena != NULL ? 0 : -1;
}

static int free_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

/* Round rates: 1 GB/s of memory and links, 4 GB/s of caches. */
static orr_table_planner_options options_of(const orr_embedding *tables, uint32_t n, uint32_t ranks)
{
    orr_table_planner_options o;
    orr_table_planner_options_init(&o);
    o.tables = tables;
    o.n_tables = n;
    o.ranks = ranks;
    o.samples = 100;
    o.costs = (orr_table_costs){.memory_bytes_per_s = 1e9,
                                .cache_bytes_per_s = 4e9,
                                .lookup_ns = 2,
                                .row_ns = 3,
                                .shard_ns = 10,
                                .exchange_ns = 1000,
                                .exchange_bytes_per_s = 1e9,
                                .gather_ns = 1000,
                                .gather_bytes_per_s = 0.5e9,
                                .source = "a test's"};
    return o;
}

static orr_table_planning planning_of(const orr_table_planner_options *o)
{
    orr_table_planning planning = {0};
    orr_error err = {0};
    if (orr_plan_tables(o, arena, &planning, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return planning;
}

static void must_be_near(double ours, double want)
{
    if (!(fabs(ours - want) <= 1e-9 * fabs(want)))
        fail_msg("%.17g, and %.17g is right", ours, want);
}

static const orr_embedding one = {.name = "t",
                                  .rows = 1000,
                                  .columns = 32,
                                  .pooling = 10,
                                  .optimizer = ORR_ROW_OPTIMIZER_ADAGRAD};

/* Two ranks, 200 samples, 2,000 lookups, 400 distinct rows. A shard of half of the rows. */
static void price_of_a_row_shard(void **state)
{
    (void)state;
    const double distinct = 400;
    orr_table_planner_options o = options_of(&one, 1, 2);
    const orr_table_split split = {.kind = ORR_SHARDING_ROW, .columns = 1, .rows = 2};
    orr_table_price price;
    o.distinct = &distinct;
    o.forward = ORR_EMBEDDING_CODEC_FP16;
    orr_table_shard_price(&o, 0, &split, 0, &price);
    must_be_near(price.stage_ns[ORR_TABLE_STAGE_IDS], 8 * 1000);
    must_be_near(price.stage_ns[ORR_TABLE_STAGE_LOOKUP],
                 10 + 1000 * 2 + 200 * 128 + 800 * 128 / 4.0 + 200 * 128);
    must_be_near(price.stage_ns[ORR_TABLE_STAGE_BAGS], 200 * 64);
    must_be_near(price.stage_ns[ORR_TABLE_STAGE_GRADIENTS], 200 * 128);
    must_be_near(price.stage_ns[ORR_TABLE_STAGE_UPDATE],
                 10 + 200 * 3 + 2 * 200 * 256 + 1000 * 128 / 4.0);
    must_be_near(price.bytes, 500 * 256 + 8 * 1000 + 200 * 2 * 128);
    orr_table_shared_price(&o, 0, &split, &price);
    must_be_near(price.stage_ns[ORR_TABLE_STAGE_BAGS], 3 * 100 * 128 / 4.0);
    must_be_near(price.bytes, 2 * 100 * 128);
    o.pipeline = 2;
    orr_table_shard_price(&o, 0, &split, 0, &price);
    assert_true(price.stage_ns[ORR_TABLE_STAGE_IDS] == 0);
}

/* Three parts of the ranges are unaligned: each part sends several subtrees of every bag. */
static void vectors_are_those_of_subtrees(void **state)
{
    (void)state;
    const orr_table_planner_options o = options_of(&one, 1, 3);
    const orr_table_split split = {.kind = ORR_SHARDING_ROW, .columns = 1, .rows = 3};
    orr_table_price first, second;
    orr_table_shard_price(&o, 0, &split, 0, &first); /* ranges 0 to 80: 64, 16 */
    must_be_near(first.stage_ns[ORR_TABLE_STAGE_BAGS], 300 * 2 * 128);
    orr_table_shard_price(&o, 0, &split, 1, &second); /* 80 to 176: 16, 32, 32, 16 */
    must_be_near(second.stage_ns[ORR_TABLE_STAGE_BAGS], 300 * 4 * 128);
}

/* Hot ranges of rows make their shard dearer. */
static void lookups_follow_the_shares_of_ranges(void **state)
{
    (void)state;
    static float share[ORR_EMBEDDING_RANGES] = {[0] = 0.75f, [200] = 0.25f};
    orr_table_planner_options o = options_of(&one, 1, 2);
    const orr_table_split split = {.kind = ORR_SHARDING_ROW, .columns = 1, .rows = 2};
    orr_table_price hot, cold;
    o.range_share = share;
    orr_table_shard_price(&o, 0, &split, 0, &hot);
    orr_table_shard_price(&o, 0, &split, 1, &cold);
    must_be_near(hot.stage_ns[ORR_TABLE_STAGE_IDS], 8 * 1500);
    must_be_near(cold.stage_ns[ORR_TABLE_STAGE_IDS], 8 * 500);
}

/* With a joining host only the sum of its shards goes to other hosts. */
static void hosts_join_their_sums(void **state)
{
    (void)state;
    orr_table_planner_options o = options_of(&one, 1, 8);
    const orr_table_split split = {.kind = ORR_SHARDING_TABLE_ROW, .columns = 1, .rows = 4};
    orr_table_price apart, joined;
    o.host_ranks = 4;
    orr_table_shard_price(&o, 0, &split, 0, &apart);
    o.costs.host_bytes_per_s = 100e9;
    orr_table_shard_price(&o, 0, &split, 0, &joined);
    must_be_near(apart.stage_ns[ORR_TABLE_STAGE_GRADIENTS], 800 * 128);
    must_be_near(joined.stage_ns[ORR_TABLE_STAGE_GRADIENTS], 800 * 128 / 100.0 + 200 * 128);
}

static const orr_embedding uneven[] = {
    {.name = "hot", .rows = 100000, .columns = 64, .pooling = 200},
    {.name = "a", .rows = 1000, .columns = 64, .pooling = 2},
    {.name = "b", .rows = 1000, .columns = 64, .pooling = 2},
};

/* The hot table would keep one rank busy alone, and is divided. */
static void a_table_is_divided_for_balance(void **state)
{
    (void)state;
    const orr_table_planner_options o = options_of(uneven, 3, 4);
    const orr_table_planning p = planning_of(&o);
    assert_null(p.infeasible);
    assert_true(p.plan.placements[0].n_ranks > 1);
    assert_int_equal(p.choices[0].reason, ORR_TABLE_REASON_BALANCE);
    assert_true(p.choices[0].has_other);
    assert_int_equal(p.choices[0].other, ORR_SHARDING_TABLE);
    assert_true(p.choices[0].other_largest_shard_ns > p.ns);
    assert_true(p.bound_ns <= p.ns && p.ns <= 1.2 * p.bound_ns);
    must_be_near(p.gap_frac, (p.ns - p.bound_ns) / p.ns);
    assert_true(p.memory_ns_per_gib == 0);
}

/* Whole it needs 25.8 MB and a rank has 16. With room for all of it, no rank would be less busy. */
static void a_table_is_divided_for_memory(void **state)
{
    (void)state;
    orr_table_planner_options o = options_of(uneven, 3, 4);
    const uint8_t kinds[] = {1 << ORR_SHARDING_TABLE | 1 << ORR_SHARDING_ROW, 63, 63};
    o.kinds = kinds;
    o.memory_bytes = 16 * MIB;
    const orr_table_planning p = planning_of(&o);
    assert_null(p.infeasible);
    assert_int_equal(p.plan.placements[0].sharding, ORR_SHARDING_ROW);
    assert_int_equal(p.choices[0].reason, ORR_TABLE_REASON_MEMORY);
    assert_non_null(strstr(p.choices[0].why, "table needs 0.03 GiB on one rank"));
    for (uint32_t r = 0; r < 4; r++)
        assert_in_range(p.ranks[r].memory_bytes, 0, 16 * MIB);
}

static void kinds_may_be_required(void **state)
{
    (void)state;
    orr_table_planner_options o = options_of(uneven, 3, 4);
    const uint8_t kinds[] = {1 << ORR_SHARDING_COLUMN, 1 << ORR_SHARDING_DATA, 63};
    o.kinds = kinds;
    const orr_table_planning p = planning_of(&o);
    assert_int_equal(p.plan.placements[0].sharding, ORR_SHARDING_COLUMN);
    assert_int_equal(p.plan.placements[1].sharding, ORR_SHARDING_DATA);
    assert_int_equal(p.choices[0].reason, ORR_TABLE_REASON_REQUIRED);
    assert_int_equal(p.choices[1].reason, ORR_TABLE_REASON_REQUIRED);
    assert_false(p.choices[1].has_other);
    const uint8_t none[] = {1 << ORR_SHARDING_GRID, 63, 63};
    orr_table_planning refused;
    orr_error err;
    o.kinds = none;
    assert_int_equal(orr_plan_tables(&o, arena, &refused, &err), ORR_INVALID);
    assert_string_equal(err.text,
                        "table 'hot': none of the kinds that it may have can be on 4 ranks");
}

/* 1.56 TB whole, 390 GB of rows in four parts. */
static void a_table_that_fits_nowhere_is_named(void **state)
{
    (void)state;
    const orr_embedding tables[] = {
        one, {.name = "vast", .rows = 6000000000, .columns = 64, .pooling = 1}};
    orr_table_planner_options o = options_of(tables, 2, 4);
    o.memory_bytes = 80 * GIB;
    orr_table_planning p = planning_of(&o);
    assert_int_equal(p.infeasible_table, 1);
    assert_string_equal(p.infeasible, "table 'vast' fits nowhere: a rank needs 363.216 GiB for it "
                                      "at least, and has 80.000 GiB for tables");
    o.memory_bytes = p.infeasible_bytes + 1 * MIB;
    p = planning_of(&o);
    assert_null(p.infeasible);
    o.tables = &tables[1];
    o.n_tables = 1;
    o.memory_bytes = p.ranks[0].memory_bytes; /* as much as it took: found again */
    assert_null(planning_of(&o).infeasible);
}

static void tables_that_do_not_fit_together(void **state)
{
    (void)state;
    orr_embedding tables[6];
    for (int t = 0; t < 6; t++)
        tables[t] = (orr_embedding){.name = t == 3 ? "largest" : "t",
                                    .rows = t == 3 ? 5000000 : 4000000,
                                    .columns = 64,
                                    .pooling = 1};
    orr_table_planner_options o = options_of(tables, 6, 2);
    o.memory_bytes = 2 * GIB;
    const orr_table_planning p = planning_of(&o);
    assert_non_null(p.infeasible);
    assert_int_equal(p.infeasible_table, 3);
    assert_non_null(strstr(p.infeasible, "on each of 2 ranks, and there are 2.000 GiB; the largest "
                                         "is 'largest' with 1.2"));
    o.memory_bytes = p.infeasible_bytes + 16 * MIB;
    assert_null(planning_of(&o).infeasible);
}

/* Whole tables are cheapest, and no rank has room for a whole one. */
static void a_gib_has_its_price(void **state)
{
    (void)state;
    const orr_embedding tables[] = {
        {.name = "a", .rows = 5000000, .columns = 64, .pooling = 1},
        {.name = "b", .rows = 5000000, .columns = 64, .pooling = 1},
    };
    orr_table_planner_options o = options_of(tables, 2, 2);
    o.memory_bytes = 5 * GIB / 4 + 50 * MIB;
    const orr_table_planning roomy = planning_of(&o);
    assert_true(roomy.memory_ns_per_gib == 0);
    o.memory_bytes = GIB;
    assert_non_null(planning_of(&o).infeasible);
    o.ranks = 8;
    const orr_table_planning tight = planning_of(&o);
    assert_true(tight.memory_ns_per_gib >= 0);
    assert_int_not_equal(tight.plan.placements[0].sharding, ORR_SHARDING_TABLE);
}

static void equal_questions_have_equal_answers(void **state)
{
    (void)state;
    orr_embedding tables[40];
    for (int t = 0; t < 40; t++)
        tables[t] = (orr_embedding){.name = orr_arena_printf(arena, "t%d", t),
                                    .rows = 1000 + 977 * t * t,
                                    .columns = 16 << t % 4,
                                    .pooling = 1 + t * 7 % 31};
    orr_table_planner_options o = options_of(tables, 40, 8);
    o.host_ranks = 4;
    const orr_table_planning a = planning_of(&o), b = planning_of(&o);
    assert_string_equal(orr_embedding_plan_text(&a.plan, arena),
                        orr_embedding_plan_text(&b.plan, arena));
    assert_true(a.ns == b.ns && a.bound_ns == b.bound_ns);
}

static void must_refuse(const orr_table_planner_options *o, const char *message)
{
    orr_table_planning p;
    orr_error err = {0};
    assert_int_equal(orr_plan_tables(o, arena, &p, &err), ORR_INVALID);
    assert_string_equal(err.text, message);
}

static void questions_that_contradict_themselves(void **state)
{
    (void)state;
    orr_table_planner_options o = options_of(uneven, 3, 4);
    o.host_ranks = 3;
    must_refuse(&o, "4 ranks are not whole hosts of 3");
    o = options_of(uneven, 0, 4);
    must_refuse(&o, "0 tables: there may be from 1 to 4096");
    o = options_of(uneven, 3, 4);
    o.samples = 0;
    must_refuse(&o, "4 ranks with 0 samples each: there may be from 1 to 65536 ranks, with a sample "
                    "or more");
    o = options_of(uneven, 3, 4);
    o.costs.exchange_bytes_per_s = 0;
    must_refuse(&o, "the machine's rates of memory, caches and links have to be above 0");
    o = options_of(uneven, 3, 4);
    o.costs.lookup_ns = NAN;
    must_refuse(&o, "a cost of the machine is below 0, or no number");
    const orr_embedding empty = {.name = "none", .rows = 0, .columns = 64, .pooling = 1};
    o = options_of(&empty, 1, 4);
    must_refuse(&o, "table 'none': 0 rows of 64 columns, 1 lookups a sample");
}

static void a_plan_of_other_ranks_has_no_price(void **state)
{
    (void)state;
    const orr_table_planner_options o = options_of(uneven, 3, 4);
    orr_embedding_plan plan;
    orr_table_planning p;
    orr_error err = {0};
    assert_int_equal(orr_embedding_plan_default(uneven, 3, 2, arena, &plan, NULL), ORR_OK);
    assert_int_equal(orr_price_table_plan(&o, &plan, arena, &p, &err), ORR_INVALID);
    assert_string_equal(err.text, "a plan of 3 tables on 2 ranks, where there are 3 on 4");
}

/* Links between hosts are slower than those within one; a part of a host is a host. */
static void costs_come_of_a_cluster(void **state)
{
    (void)state;
    const orr_catalog *catalog;
    const orr_cluster *cluster;
    const orr_calibration *calibration;
    orr_table_costs host, pod;
    uint32_t host_ranks, pod_ranks;
    orr_error err = {0};
    assert_int_equal(orr_catalog_open(arena, &catalog, NULL), ORR_OK);
    assert_int_equal(orr_cluster_load(catalog, "dgx_h100_pod", arena, &cluster, NULL), ORR_OK);
    assert_int_equal(orr_calibration_of(cluster->device, 0, arena, &calibration, NULL), ORR_OK);
    assert_int_equal(
        orr_table_costs_of_cluster(cluster, calibration, 8, arena, &host, &host_ranks, NULL),
        ORR_OK);
    assert_int_equal(
        orr_table_costs_of_cluster(cluster, calibration, 32, arena, &pod, &pod_ranks, NULL),
        ORR_OK);
    assert_int_equal(host_ranks, 8);
    assert_int_equal(pod_ranks, 8);
    assert_true(host.host_bytes_per_s > 0 && pod.host_bytes_per_s > pod.exchange_bytes_per_s);
    assert_true(host.exchange_bytes_per_s > 2 * pod.exchange_bytes_per_s);
    assert_true(pod.exchange_bytes_per_s > 10e9 && pod.exchange_bytes_per_s < 100e9);
    assert_true(pod.memory_bytes_per_s > 1e12 && pod.cache_bytes_per_s > pod.memory_bytes_per_s);
    assert_non_null(strstr(pod.source, "dgx_h100_pod"));
    assert_int_equal(
        orr_table_costs_of_cluster(cluster, calibration, 1 << 20, arena, &pod, &pod_ranks, &err),
        ORR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(price_of_a_row_shard),
        cmocka_unit_test(vectors_are_those_of_subtrees),
        cmocka_unit_test(lookups_follow_the_shares_of_ranges),
        cmocka_unit_test(hosts_join_their_sums),
        cmocka_unit_test(a_table_is_divided_for_balance),
        cmocka_unit_test(a_table_is_divided_for_memory),
        cmocka_unit_test(kinds_may_be_required),
        cmocka_unit_test(a_table_that_fits_nowhere_is_named),
        cmocka_unit_test(tables_that_do_not_fit_together),
        cmocka_unit_test(a_gib_has_its_price),
        cmocka_unit_test(equal_questions_have_equal_answers),
        cmocka_unit_test(questions_that_contradict_themselves),
        cmocka_unit_test(a_plan_of_other_ranks_has_no_price),
        cmocka_unit_test(costs_come_of_a_cluster),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
