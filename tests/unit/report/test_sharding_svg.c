/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "report/sharding/svg.h"

static size_t count(const char *text, const char *what)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, what)) != NULL; at++)
        n++;
    return n;
}

/* Two ranks: a table that is named like markup, one by row, one on every rank. */
static orr_sharding_picture small(orr_arena *arena)
{
    static const orr_embedding tables[] = {
        {.name = "<b>t0", .rows = 1000, .columns = 32, .pooling = 1},
        {.name = "t1", .rows = 4096, .columns = 32, .pooling = 1},
        {.name = "t2", .rows = 10, .columns = 32, .pooling = 1},
    };
    static const uint32_t first[] = {0}, both[] = {0, 1};
    static const orr_embedding_placement placements[] = {
        {.sharding = ORR_SHARDING_TABLE, .columns = 1, .ranks = first, .n_ranks = 1},
        {.sharding = ORR_SHARDING_ROW, .columns = 1, .ranks = both, .n_ranks = 2},
        {.sharding = ORR_SHARDING_DATA, .columns = 1},
    };
    static const orr_table_shard_cost costs[] = {
        {4e6, 1 << 20}, {2e6, 1 << 19}, {2e6, 1 << 19}, {1e6, 1 << 10}, {1e6, 1 << 10}};
    orr_embedding_plan *plan = orr_arena_one(arena, orr_embedding_plan);
    *plan = (orr_embedding_plan){.ranks = 2,
                                 .groups = 1,
                                 .synchronize = 1,
                                 .n_tables = 3,
                                 .tables = tables,
                                 .placements = placements};
    assert_int_equal(orr_embedding_plan_shard(plan, arena, NULL), ORR_OK);
    assert_int_equal(plan->n_shards, 5);
    return (orr_sharding_picture){
        .plan = plan, .costs = costs, .bound_ns = 5e6, .room_bytes = 80.0 * (1 << 30)};
}

static void a_block_for_each_shard_as_high_as_its_time(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_sharding_picture picture = small(arena);
    char *text = WRITTEN(
        out, assert_int_equal(orr_svg_sharding(out, &picture, ORR_SHARDING_TIME, arena, NULL), 0));
    (void)state;
    assert_int_equal(count(text, "<rect"), 5);
    assert_non_null(strstr(text, "<title>&lt;b&gt;t0, table, all 1,000 rows, on rank 0: "
                                 "4.000 ms, 1.000 MiB</title>"));
    assert_non_null(strstr(text, "<title>t1, row, rows from 2048 to 4095, on rank 1: "));
    assert_null(strstr(text, "<b>"));
    /* Rank 0 is the fullest with 7 ms and as high as the plot, 430 units: a ms is 61.43. */
    assert_non_null(strstr(text, "height=\"245.11\""));
    assert_int_equal(count(text, "height=\"122.26\""), 2);
    assert_int_equal(count(text, "class=\"overhead\""), 2);
    assert_non_null(strstr(text, "bound 5.000 ms"));
    assert_non_null(strstr(text, "row: 1 table<"));
    free(text);
    orr_arena_free(arena);
}

static void a_room_far_above_all_ranks_is_not_drawn(void **state)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_sharding_picture picture = small(arena);
    (void)state;
    char *text = WRITTEN(
        out,
        assert_int_equal(orr_svg_sharding(out, &picture, ORR_SHARDING_MEMORY, arena, NULL), 0));
    assert_null(strstr(text, "room for tables"));
    free(text);
    picture.room_bytes = 2 << 20;
    text = WRITTEN(out, assert_int_equal(
                            orr_svg_sharding(out, &picture, ORR_SHARDING_MEMORY, arena, NULL), 0));
    assert_non_null(strstr(text, "room for tables 2.000 MiB"));
    free(text);
    orr_arena_free(arena);
}

/* Thousands of tables on a rank, of which nobody would see one. */
static void small_shards_of_a_kind_are_one_block(void **state)
{
    enum { MANY = 4000 };
    orr_arena *arena = orr_arena_new(0, 0);
    orr_embedding *tables = orr_arena_array(arena, orr_embedding, MANY);
    orr_table_shard_cost *costs = orr_arena_array(arena, orr_table_shard_cost, MANY);
    orr_embedding_plan plan;
    (void)state;
    for (uint32_t t = 0; t < MANY; t++) {
        tables[t] = (orr_embedding){
            .name = orr_arena_printf(arena, "t%u", t), .rows = 100, .columns = 16, .pooling = 1};
        costs[t] = (orr_table_shard_cost){1000, 1000};
    }
    costs[17].ns = 1e6;
    assert_int_equal(orr_embedding_plan_default(tables, MANY, 1, arena, &plan, NULL), ORR_OK);
    const orr_sharding_picture picture = {.plan = &plan, .costs = costs};
    char *text = WRITTEN(
        out, assert_int_equal(orr_svg_sharding(out, &picture, ORR_SHARDING_TIME, arena, NULL), 0));
    assert_int_equal(count(text, "<rect"), 2);
    assert_non_null(strstr(text, "<title>t17, "));
    assert_non_null(strstr(text, "3999 small tables, table, on rank 0: 3.999 ms together"));
    assert_null(strstr(text, "bound"));
    free(text);
    orr_arena_free(arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_block_for_each_shard_as_high_as_its_time),
        cmocka_unit_test(a_room_far_above_all_ranks_is_not_drawn),
        cmocka_unit_test(small_shards_of_a_kind_are_one_block),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
