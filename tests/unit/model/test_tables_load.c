/* SPDX-License-Identifier: Apache-2.0 */
#include "model/tables/load.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

/* What tables ask of ranks, against sums done by hand; and the plan by rule. */
enum { RANKS = 8, SAMPLES = 512, ALL = RANKS * SAMPLES, COLUMNS = 64 };

typedef struct scene {
    orr_arena *arena;
    orr_embedding table;
    orr_embedding_placement placement;
    orr_embedding_plan plan;
    orr_tables_demand demand;
    orr_tables_load load[RANKS], sum;
} scene;

static const uint32_t IN_ORDER[RANKS] = {0, 1, 2, 3, 4, 5, 6, 7};

static void load_all(scene *s)
{
    orr_error err;
    assert_int_equal(orr_embedding_plan_shard(&s->plan, s->arena, &err), ORR_OK);
    assert_int_equal(orr_tables_loads(&s->plan, &s->demand, s->load, &err), ORR_OK);
    s->sum = (orr_tables_load){0};
    for (int r = 0; r < RANKS; r++) {
#define ADD_(name, text) s->sum.name += s->load[r].name;
        ORR_TABLES_LOAD_MAP(ADD_)
#undef ADD_
    }
}

/* One table of 100,000 rows on so many ranks. */
static void open_scene(scene *s, orr_embedding_sharding kind, uint32_t columns, uint32_t n_ranks,
                       double pooling)
{
    *s = (scene){.arena = orr_arena_new(0, 0)};
    assert_non_null(s->arena);
    s->table =
        (orr_embedding){.name = "t0", .rows = 100000, .columns = COLUMNS, .pooling = pooling};
    s->placement = (orr_embedding_placement){
        .sharding = (uint8_t)kind, .columns = columns, .ranks = IN_ORDER, .n_ranks = n_ranks};
    s->plan = (orr_embedding_plan){.ranks = RANKS,
                                   .groups = 1,
                                   .synchronize = 1,
                                   .n_tables = 1,
                                   .tables = &s->table,
                                   .placements = &s->placement};
    s->demand = (orr_tables_demand){.samples = SAMPLES, .popularity = ORR_POPULARITY_UNIFORM};
    load_all(s);
}

static void close_scene(scene *s)
{
    orr_arena_free(s->arena);
}

static void assert_near(double is, double should)
{
    if (!(fabs(is - should) <= 1e-6 * fabs(should)))
        fail_msg("%.9g, should be %.9g", is, should);
}

static void whole_tables(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, ORR_SHARDING_TABLE, 1, 1, 20);
    const double distinct = 1e5 * -expm1(20.0 * ALL * log1p(-1e-5));
    assert_near(s.load[0].rows, 1e5 * COLUMNS * 4);
    assert_near(s.load[0].state, 1e5 * 4);
    assert_near(s.load[0].sorted, 20.0 * ALL * 16);
    assert_near(s.load[0].read, 20.0 * ALL * 256);
    assert_near(s.load[0].touched, distinct * 256);
    assert_near(s.load[0].update, 2 * distinct * (256 + 32));
    assert_near(s.load[0].gradients, 20.0 * ALL * 256);
    assert_near(s.load[0].bags, 256.0 * ALL);
    assert_near(s.load[0].ids, ALL * (20.0 * 8 + 4));
    assert_near(s.sum.bags, s.load[0].bags);
    assert_true(s.sum.gathered == 0 && s.sum.squares == 0 && s.sum.host_bags == 0);
    close_scene(&s);
}

/* Rows and lookups are divided; row parts send a sum of every bag for each subtree of ranges,
 * column parts a part of it. */
static void rows_and_columns(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, ORR_SHARDING_ROW, 1, RANKS, 1);
    assert_near(s.sum.rows, 1e5 * COLUMNS * 4);
    assert_near(s.sum.sorted, ALL * 16);
    assert_near(s.sum.bags, RANKS * 256.0 * ALL);
    assert_near(s.sum.bag_gradients, RANKS * 256.0 * ALL);
    close_scene(&s);
    open_scene(&s, ORR_SHARDING_ROW, 1, 3, 1);
    double subtrees = 0;
    for (uint32_t i = 0; i < 3; i++)
        subtrees += orr_embedding_subtrees(orr_embedding_range_split(3, i),
                                           orr_embedding_range_split(3, i + 1));
    assert_true(subtrees > 3);
    assert_near(s.sum.bags, subtrees * 256.0 * ALL);
    assert_near(s.sum.bag_gradients, 3 * 256.0 * ALL);
    close_scene(&s);
    open_scene(&s, ORR_SHARDING_COLUMN, 4, 4, 20);
    assert_near(s.sum.bags, 256.0 * ALL);
    assert_near(s.sum.ids, 4 * ALL * (20.0 * 8 + 4));
    assert_near(s.sum.state, 4 * 1e5 * 4);
    assert_true(s.load[0].squares > 0);
    assert_near(s.load[3].read, 20.0 * ALL * 64);
    close_scene(&s);
}

static void within_hosts(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, ORR_SHARDING_TABLE_ROW, 1, 4, 20);
    assert_near(s.load[0].host_bags, 256.0 * ALL);
    assert_near(s.load[0].bags, 64.0 * ALL);
    assert_near(s.load[3].host_gradients, 256.0 * ALL);
    close_scene(&s);
}

static void copies(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, ORR_SHARDING_DATA, 1, 0, 20);
    for (int r = 0; r < RANKS; r++) {
        assert_near(s.load[r].rows, 1e5 * COLUMNS * 4);
        assert_near(s.load[r].sorted, 20.0 * ALL * 16);
        assert_near(s.load[r].read, 20.0 * SAMPLES * 256);
        assert_near(s.load[r].gradients, 20.0 * ALL * 256);
        assert_near(s.load[r].gathered, ALL * (20.0 * 8 + 4 + 256));
        assert_true(s.load[r].bags == 0 && s.load[r].ids == 0);
    }
    close_scene(&s);
}

/* Skewed lookups touch fewer rows; padded bags have more ids; narrow transfers fewer bytes. */
static void skew_padding_codecs(void **state)
{
    (void)state;
    scene s;
    open_scene(&s, ORR_SHARDING_ROW, 1, RANKS, 20);
    const orr_tables_load even = s.sum;
    s.demand.popularity = ORR_POPULARITY_META_2021;
    load_all(&s);
    assert_true(s.sum.touched < 0.9 * even.touched && s.sum.update < 0.9 * even.update);
    assert_near(s.sum.sorted, even.sorted);
    s.demand.popularity = ORR_POPULARITY_UNIFORM;
    s.table.length = ORR_BAG_LENGTH_GEOMETRIC;
    load_all(&s);
    assert_near(s.sum.sorted, even.sorted);
    const orr_tables_load varied = s.sum;
    s.demand.padded = true;
    load_all(&s);
    assert_true(s.sum.ids > 3 * varied.ids && s.sum.read > 3 * varied.read);
    assert_near(s.sum.touched, varied.touched);
    s.plan.forward = ORR_EMBEDDING_CODEC_FP16;
    s.plan.backward = ORR_EMBEDDING_CODEC_BF16;
    load_all(&s);
    assert_near(s.sum.bags, varied.bags / 2);
    assert_near(s.sum.bag_gradients, varied.bag_gradients / 2);
    close_scene(&s);
}

static void subtrees_of_ranges(void **state)
{
    (void)state;
    assert_int_equal(orr_embedding_subtrees(0, 256), 1);
    assert_int_equal(orr_embedding_subtrees(128, 192), 1);
    assert_int_equal(orr_embedding_subtrees(0, 96), 2);
    assert_int_equal(orr_embedding_subtrees(1, 255), 14);
}

static void fewer_lookups(void **state)
{
    (void)state;
    for (int kind = 0; kind < ORR_SHARDINGS; kind++) {
        const uint32_t n = kind == ORR_SHARDING_TABLE  ? 1
                           : kind == ORR_SHARDING_DATA ? 0
                                                       : 4,
                       columns = kind == ORR_SHARDING_COLUMN ? 4
                                 : kind == ORR_SHARDING_GRID ? 2
                                                             : 1;
        scene s;
        open_scene(&s, (orr_embedding_sharding)kind, columns, n, 0.25);
        for (double pooling = 0.5; pooling < 300; pooling *= 2) {
            const orr_tables_load fewer = s.load[0];
            s.table.pooling = pooling;
            load_all(&s);
#define NOT_LESS_(name, text) assert_true(s.load[0].name >= fewer.name);
            ORR_TABLES_LOAD_MAP(NOT_LESS_)
#undef NOT_LESS_
        }
        close_scene(&s);
    }
}

/* Tables of a hundred sizes on fewer and on more ranks: all are placed once, and no rank has much
 * more than the mean. */
static void by_rule(void **state)
{
    (void)state;
    enum { TABLES = 100, MOST = 512 };
    orr_arena *arena = orr_arena_new(0, 0);
    orr_embedding *tables = orr_arena_array(arena, orr_embedding, TABLES);
    orr_error err;
    for (uint32_t t = 0; t < TABLES; t++)
        tables[t] = (orr_embedding){.name = orr_arena_printf(arena, "t%u", t),
                                    .rows = 1000 + (int64_t)t * t * t * 300,
                                    .columns = 128,
                                    .pooling = 1 + t % 30};
    for (uint32_t ranks = 1; ranks <= MOST; ranks *= 2) {
        const orr_tables_demand demand = {.samples = 128};
        orr_embedding_plan plan;
        orr_tables_work work;
        assert_int_equal(orr_embedding_plan_rule(tables, TABLES, ranks, arena, &plan, &err),
                         ORR_OK);
        assert_int_equal(orr_tables_work_of(&plan, &demand, &work, &err), ORR_OK);
        double rows = 0;
        for (uint32_t t = 0; t < TABLES; t++)
            rows += (double)tables[t].rows * 512;
        assert_near(work.mean.rows * ranks, rows);
        if (ranks <= TABLES &&
            !(work.most.rows < 2 * work.mean.rows && work.most.bags < 2 * work.mean.bags))
            fail_msg("%u ranks: %.3g bytes of %.3g, sums %.3g of %.3g", ranks, work.most.rows,
                     work.mean.rows, work.most.bags, work.mean.bags);
    }
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_tables),
        cmocka_unit_test(rows_and_columns),
        cmocka_unit_test(within_hosts),
        cmocka_unit_test(copies),
        cmocka_unit_test(skew_padding_codecs),
        cmocka_unit_test(fewer_lookups),
        cmocka_unit_test(by_rule),
        cmocka_unit_test(subtrees_of_ranges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
