/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <orrery/orrery.h>

/* What single shards take, and searches that are ended early, on the tables of a model of the
 * catalogue. */
static orr_table_planner_options options_of(orr_arena *arena)
{
    orr_table_planner_options o;
    const orr_model *model;
    assert_int_equal(orr_model_load("dlrm-dcnv2", arena, &model, NULL), ORR_OK);
    orr_table_planner_options_init(&o);
    o.tables = model->dlrm.tables;
    o.n_tables = model->dlrm.n_tables;
    o.ranks = 8;
    o.samples = 1024;
    o.costs = (orr_table_costs){.memory_bytes_per_s = 1e12,
                                .cache_bytes_per_s = 3e12,
                                .exchange_ns = 1e4,
                                .exchange_bytes_per_s = 1e11,
                                .gather_ns = 1e4,
                                .gather_bytes_per_s = 1e11,
                                .source = "test"};
    return o;
}

/* All that a rank takes beside its shards is the same on every rank. */
static void shards_add_up_to_ranks(void **state)
{
    static const uint8_t mixes[] = {0x3f, 1U << ORR_SHARDING_ROW, 1U << ORR_SHARDING_DATA,
                                    1U << ORR_SHARDING_COLUMN};
    (void)state;
    for (size_t m = 0; m < sizeof mixes; m++)
        for (uint8_t pricing = 0; pricing < ORR_TABLE_PRICINGS; pricing++) {
            orr_arena *arena = orr_arena_new(0, 0);
            orr_table_planner_options o = options_of(arena);
            orr_table_planning best;
            uint8_t kinds[ORR_TABLES_MAX];
            for (uint32_t t = 0; t < o.n_tables; t++)
                kinds[t] = mixes[m];
            kinds[3] = 1U << ORR_SHARDING_DATA;
            o.kinds = kinds;
            o.pricing = pricing;
            assert_int_equal(orr_plan_tables(&o, arena, &best, NULL), ORR_OK);
            orr_table_shard_cost *costs =
                orr_arena_array(arena, orr_table_shard_cost, best.plan.n_shards);
            double *rest = orr_arena_array(arena, double, o.ranks);
            orr_price_table_shards(&o, &best.plan, costs);
            for (uint32_t r = 0; r < o.ranks; r++)
                rest[r] = best.ranks[r].ns;
            for (uint32_t i = 0; i < best.plan.n_shards; i++) {
                assert_true(costs[i].ns > 0);
                rest[best.plan.shards[i].rank] -= costs[i].ns;
            }
            for (uint32_t r = 0; r < o.ranks; r++) {
                assert_true(rest[r] >= -1e-9 * best.ns);
                assert_true(fabs(rest[r] - rest[0]) <= 1e-9 * best.ns);
            }
            orr_arena_free(arena);
        }
}

/* A search that nobody would wait for has a plan as soon as it is asked to stop. */
static void a_search_that_is_stopped_has_a_plan(void **state)
{
    static const volatile bool stop = true;
    (void)state;
    for (int by_time = 0; by_time < 2; by_time++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_table_planner_options o = options_of(arena);
        orr_table_planning best;
        o.nodes = UINT64_MAX;
        o.gap_frac = 0;
        o.stop = by_time ? NULL : &stop;
        o.limit_ns = by_time ? 1 : 0;
        assert_int_equal(orr_plan_tables(&o, arena, &best, NULL), ORR_OK);
        assert_null(best.infeasible);
        assert_false(best.optimal);
        assert_true(best.ns > 0 && best.bound_ns <= best.ns);
        assert_int_equal(best.plan.n_tables, o.n_tables);
        orr_arena_free(arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shards_add_up_to_ranks),
        cmocka_unit_test(a_search_that_is_stopped_has_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
