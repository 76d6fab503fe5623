/* SPDX-License-Identifier: Apache-2.0 */
#include "model_text.h"

#include "model/tables/tables.h"

/* Sharding plans of embedding tables: what the file says, what shards come of it, what is refused.
 */
static const orr_embedding three[] = {
    {.name = "t0", .rows = 1000, .columns = 64, .pooling = 1},
    {.name = "user", .rows = 5000, .columns = 32, .pooling = 20},
    {.name = "item 3", .rows = 300, .columns = 40, .pooling = 1},
};

static orr_status read_plan(const char *text, orr_embedding_plan *ret, orr_error *err)
{
    const orr_yaml *file;
    const orr_status status = orr_yaml_parse(text, strlen(text), "p.yaml", arena, &file, err);
    return status == ORR_OK ? orr_embedding_plan_parse(file, three, 3, arena, ret, err) : status;
}

static orr_embedding_plan plan_of(const char *text)
{
    orr_embedding_plan plan = {0};
    orr_error err = {0};
    if (read_plan(text, &plan, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return plan;
}

static void must_shard(const orr_embedding_plan *plan, uint32_t i, orr_embedding_shard want)
{
    assert_in_range(i, 0, plan->n_shards - 1);
    assert_memory_equal(&plan->shards[i], &want, sizeof want);
}

#define MIXED                                                                                      \
    "ranks: 8\n"                                                                                   \
    "host_ranks: 4\n"                                                                              \
    "forward: fp16\n"                                                                              \
    "pipeline: 2\n"                                                                                \
    "tables:\n"                                                                                    \
    "  t0: {kind: grid, columns: 2, ranks: [0, 1, 6, 7]}\n"                                        \
    "  user: {kind: row, ranks: [3-6]}\n"                                                          \
    "  \"item 3\": {kind: data}\n"

static void a_file_makes_shards(void **state)
{
    (void)state;
    const orr_embedding_plan plan = plan_of(MIXED);
    assert_int_equal(plan.ranks, 8);
    assert_int_equal(plan.host_ranks, 4);
    assert_int_equal(plan.groups, 1);
    assert_int_equal(plan.synchronize, 1);
    assert_int_equal(plan.forward, ORR_EMBEDDING_CODEC_FP16);
    assert_int_equal(plan.backward, ORR_EMBEDDING_CODEC_FP32);
    assert_int_equal(plan.pipeline, 2);
    assert_int_equal(plan.n_shards, 4 + 4 + 8);
    must_shard(&plan, 0, (orr_embedding_shard){0, 0, 0, 128, 0, 32});
    must_shard(&plan, 1, (orr_embedding_shard){0, 1, 128, 256, 0, 32});
    must_shard(&plan, 2, (orr_embedding_shard){0, 6, 0, 128, 32, 64});
    must_shard(&plan, 3, (orr_embedding_shard){0, 7, 128, 256, 32, 64});
    must_shard(&plan, 4, (orr_embedding_shard){1, 3, 0, 64, 0, 32});
    must_shard(&plan, 7, (orr_embedding_shard){1, 6, 192, 256, 0, 32});
    for (uint32_t rank = 0; rank < 8; rank++)
        must_shard(&plan, 8 + rank, (orr_embedding_shard){2, rank, 0, 256, 0, 40});
    assert_int_equal(plan.placements[1].first_shard, 4);
    assert_int_equal(plan.placements[2].n_shards, 8);
}

static void the_text_reads_back(void **state)
{
    (void)state;
    const orr_embedding_plan plan = plan_of(MIXED);
    const char *text = orr_embedding_plan_text(&plan, arena);
    assert_string_equal(text, MIXED);
    const orr_embedding_plan other =
        plan_of("tables: {user: {ranks: 1, kind: table}, t0: {kind: column, columns: 3, ranks: "
                "[2, 1, 0]}, \"item 3\": {kind: table_row, ranks: [0, 1]}}\n"
                "groups: 4\nsynchronize: 16\nbackward: int8\nranks: 3\n");
    assert_string_equal(orr_embedding_plan_text(&other, arena),
                        "ranks: 3\ngroups: 4\nsynchronize: 16\nbackward: int8\ntables:\n"
                        "  t0: {kind: column, columns: 3, ranks: [2, 1, 0]}\n"
                        "  user: {kind: table, ranks: [1]}\n"
                        "  \"item 3\": {kind: table_row, ranks: [0, 1]}\n");
}

#define TIERED                                                                                     \
    "ranks: 2\n"                                                                                   \
    "lookahead: 6\n"                                                                               \
    "tables:\n"                                                                                    \
    "  t0: {kind: row, ranks: [0, 1], tier: block, cached_rows: 250}\n"                            \
    "  user: {kind: table, ranks: [1], tier: byte}\n"                                              \
    "  \"item 3\": {kind: data}\n"

static void tiers_of_tables(void **state)
{
    (void)state;
    const orr_embedding_plan plan = plan_of(TIERED), plain = plan_of(MIXED);
    assert_int_equal(plan.lookahead, 6);
    assert_int_equal(plan.placements[0].tier, ORR_TIER_BLOCK);
    assert_true(plan.placements[0].cached_rows == 250);
    assert_int_equal(plan.placements[1].tier, ORR_TIER_BYTE);
    assert_true(plan.placements[1].cached_rows == 0);
    assert_int_equal(plan.placements[2].tier, ORR_TIER_DRAM);
    assert_string_equal(orr_embedding_plan_text(&plan, arena), TIERED);
    assert_int_equal(plain.lookahead, 0);
    const orr_embedding_plan told =
        plan_of("ranks: 1\ntables: {t0: {tier: dram, kind: data}, user: {kind: data}, item 3: "
                "{kind: data, tier: block}}\n");
    assert_string_equal(orr_embedding_plan_text(&told, arena),
                        "ranks: 1\ntables:\n  t0: {kind: data}\n  user: {kind: data}\n"
                        "  \"item 3\": {kind: data, tier: block}\n");
}

/* A plan of three ranks, the line of t0 given and the other two fine. */
static void assert_t0_refused(const char *t0, const char *message)
{
    orr_embedding_plan plan = {0};
    orr_error err = {0};
    char text[400];
    (void)snprintf(text, sizeof text,
                   "ranks: 4\nhost_ranks: 2\ntables:\n  user: {kind: table, ranks: [0]}\n"
                   "  item 3: {kind: data}\n  t0: %s\n",
                   t0);
    assert_int_equal(read_plan(text, &plan, &err), ORR_INVALID);
    assert_string_equal(err.text, message);
    assert_int_equal(plan.n_tables, 0);
}

static void tables_that_cannot_be(void **state)
{
    (void)state;
    assert_t0_refused("{kind: rows, ranks: [0]}",
                      "p.yaml:6:14: 'rows' is no kind of sharding; did you mean 'row'?");
    assert_t0_refused("{ranks: [0]}",
                      "p.yaml:6:7: table 't0' needs its kind: {kind: table, ranks: [0]}");
    assert_t0_refused("row", "p.yaml:6:7: table 't0' needs its kind: {kind: table, ranks: [0]}");
    assert_t0_refused("{kind: row, rank: [0]}",
                      "p.yaml:6:19: a table of a plan has no 'rank'; did you mean 'ranks'?");
    assert_t0_refused("{kind: row, ranks: [1, 4]}", "p.yaml:6:30: rank 4 is none of the 4");
    assert_t0_refused("{kind: row, ranks: [1, -1]}",
                      "p.yaml:6:30: '-1' is no rank: write 3, or 4-7 for several");
    assert_t0_refused("{kind: row, ranks: [3-1]}",
                      "p.yaml:6:27: ranks 3-1: the first is above the last");
    assert_t0_refused("{kind: row, ranks: [1-2-3]}",
                      "p.yaml:6:27: '1-2-3' is no rank: write 3, or 4-7 for several");
    assert_t0_refused("{kind: row, ranks: [0-3, 0]}",
                      "p.yaml:6:26: 5 ranks are named, and there are 4");
    assert_t0_refused("{kind: row, ranks: [1, 0, 1]}",
                      "p.yaml:6:7: table 't0': rank 1 is named twice");
    assert_t0_refused("{kind: row}", "p.yaml:6:7: table 't0': 0 ranks for 1 parts of columns");
    assert_t0_refused("{kind: table, ranks: [0, 1]}",
                      "p.yaml:6:7: table 't0': table needs 1 rank, not 2");
    assert_t0_refused("{kind: column, columns: 2, ranks: [0-3]}",
                      "p.yaml:6:7: table 't0': column needs 2 ranks, not 4");
    assert_t0_refused("{kind: row, columns: 2, ranks: [0, 1]}",
                      "p.yaml:6:7: table 't0': 2 parts of columns, where row has one");
    assert_t0_refused("{kind: grid, columns: 5, ranks: [0-3]}",
                      "p.yaml:6:7: table 't0': 5 parts of 64 columns, which are blocks of 16: at "
                      "most 4");
    assert_t0_refused("{kind: grid, columns: 3, ranks: [0-3]}",
                      "p.yaml:6:7: table 't0': 4 ranks for 3 parts of columns");
    assert_t0_refused("{kind: table_row, ranks: [1, 2]}",
                      "p.yaml:6:7: table 't0': table_row keeps rows within a host of 2 ranks, and "
                      "ranks 1 and 2 are of two");
    assert_t0_refused("{kind: grid, columns: 2, ranks: [0, 1, 3, 1]}",
                      "p.yaml:6:7: table 't0': rank 1 is named twice");
    assert_t0_refused("{kind: grid, columns: 2, ranks: [0, 2, 1, 3]}",
                      "p.yaml:6:7: table 't0': grid keeps rows within a host of 2 ranks, and ranks "
                      "0 and 2 are of two");
    assert_t0_refused("{kind: data, ranks: [0]}",
                      "p.yaml:6:7: table 't0': data puts it whole on every rank: name none");
    assert_t0_refused("{kind: data, tier: ssd}",
                      "p.yaml:6:26: 'ssd' is no tier of memory: there are dram, byte and block");
    assert_t0_refused("{kind: data, tier: [block]}",
                      "p.yaml:6:26: '' is no tier of memory: there are dram, byte and block");
    assert_t0_refused("{kind: data, tier: block, cached_rows: 0}",
                      "p.yaml:6:46: cached_rows: 0 is not from 1 to 2^53");
    assert_t0_refused("{kind: data, tier: block, cached_rows: 1e17}",
                      "p.yaml:6:46: cached_rows: 1e+17 is not from 1 to 2^53");
    assert_t0_refused("{kind: data, cached_rows: 7}",
                      "p.yaml:6:7: table 't0': its rows are all in memory: cached_rows is for "
                      "tiers byte and block");
    assert_t0_refused("{kind: grid, columns: 0, ranks: [0]}",
                      "p.yaml:6:29: columns: 0 is not from 1 to 65535");
}

static void assert_plan_refused(const char *text, orr_status status, const char *message)
{
    orr_embedding_plan plan = {0};
    orr_error err = {0};
    assert_int_equal(read_plan(text, &plan, &err), status);
    assert_string_equal(err.text, message);
    assert_int_equal(plan.n_tables, 0);
}

#define DATA "{kind: data}\n"
static void plans_that_cannot_be(void **state)
{
    (void)state;
    assert_plan_refused("tables: {}\n", ORR_INVALID,
                        "p.yaml:1:1: a plan of tables says over how many ranks they are sharded: "
                        "ranks: 8");
    assert_plan_refused("- ranks\n", ORR_INVALID,
                        "p.yaml:1:1: a plan of tables says over how many ranks they are sharded: "
                        "ranks: 8");
    assert_plan_refused("ranks: 2\n", ORR_INVALID,
                        "p.yaml:1:1: a plan of tables has a line for each: tables: {t0: {kind: "
                        "...}}");
    assert_plan_refused("ranks: 0\ntables: {}\n", ORR_INVALID,
                        "p.yaml:1:8: ranks: 0 is not from 1 to 65536");
    assert_plan_refused("ranks: 4\nhost_ranks: 3\ntables: {}\n", ORR_INVALID,
                        "p.yaml:1:1: 4 ranks are not whole hosts of 3");
    assert_plan_refused("ranks: 4\ngroups: 20000\ntables: {}\n", ORR_INVALID,
                        "p.yaml:1:1: 20000 groups of 4 ranks are more than 65536 ranks");
    assert_plan_refused("ranks: 4\nforward: fp8\ntables: {}\n", ORR_INVALID,
                        "p.yaml:2:10: 'fp8' is no codec: there are fp32, fp16, bf16 and int8");
    assert_plan_refused("ranks: 4\nlookahead: 1025\ntables: {}\n", ORR_INVALID,
                        "p.yaml:2:12: lookahead: 1025 is not from 1 to 1024");
    assert_plan_refused(
        "ranks: 4\nhost_rank: 2\ntables: {}\n", ORR_INVALID,
        "p.yaml:2:1: a plan of tables has no 'host_rank'; did you mean 'host_ranks'?");
    assert_plan_refused("ranks: 2\ntables:\n  t0: " DATA "  usr: " DATA, ORR_INVALID,
                        "p.yaml:4:3: the model has no 'usr'; did you mean 'user'?");
    assert_plan_refused("ranks: 2\ntables:\n  t0: " DATA "  user: " DATA, ORR_INVALID,
                        "p.yaml:3:3: table 'item 3' of the model is missing: 2 of 3 are here");
    assert_plan_refused("ranks: 2\ntables:\n  t0: " DATA "  t0: " DATA, ORR_PARSE,
                        "p.yaml:4:3: 't0' was said in line 3 already");
}

static void two_tables_of_one_name(void **state)
{
    (void)state;
    const orr_embedding twins[2] = {three[0], three[0]};
    const char *text = "ranks: 1\ntables: {t0: {kind: data}}\n";
    const orr_yaml *file;
    orr_embedding_plan plan;
    orr_error err = {0};
    assert_int_equal(orr_yaml_parse(text, strlen(text), "p.yaml", arena, &file, NULL), ORR_OK);
    assert_int_equal(orr_embedding_plan_parse(file, twins, 2, arena, &plan, &err), ORR_INVALID);
    assert_string_equal(err.text, "the model has two tables 't0'");
}

/* More than 256 ranks can share the rows of a grid, not those of a table. */
static void parts_are_bounded(void **state)
{
    (void)state;
    uint32_t ranks[512];
    orr_error err = {0};
    for (uint32_t r = 0; r < 512; r++)
        ranks[r] = r;
    const orr_embedding_placement row = {
        .sharding = ORR_SHARDING_ROW, .columns = 1, .ranks = ranks, .n_ranks = 257};
    orr_embedding_plan plan = {
        .ranks = 512, .groups = 1, .n_tables = 1, .tables = three, .placements = &row};
    assert_int_equal(orr_embedding_plan_shard(&plan, arena, &err), ORR_INVALID);
    assert_string_equal(err.text, "table 't0': rows over 257 ranks: at most 256");
    const orr_embedding_placement grid = {
        .sharding = ORR_SHARDING_GRID, .columns = 2, .ranks = ranks, .n_ranks = 512};
    plan.placements = &grid;
    assert_int_equal(orr_embedding_plan_shard(&plan, arena, NULL), ORR_OK);
    assert_int_equal(plan.n_shards, 512);
    must_shard(&plan, 511, (orr_embedding_shard){0, 511, 255, 256, 32, 64});
}

/* Bytes with optimizer state: t0 260 kB, user 660 kB, item 3 49 kB. */
static void whole_tables_go_to_the_emptiest_rank(void **state)
{
    (void)state;
    orr_embedding_plan plan;
    orr_error err = {0};
    assert_int_equal(orr_embedding_plan_default(three, 3, 2, arena, &plan, NULL), ORR_OK);
    assert_string_equal(orr_embedding_plan_text(&plan, arena),
                        "ranks: 2\ntables:\n  t0: {kind: table, ranks: [1]}\n"
                        "  user: {kind: table, ranks: [0]}\n"
                        "  \"item 3\": {kind: table, ranks: [1]}\n");
    must_shard(&plan, 1, (orr_embedding_shard){1, 0, 0, 256, 0, 32});
    assert_int_equal(orr_embedding_plan_default(three, 3, 9, arena, &plan, NULL), ORR_OK);
    assert_int_equal(plan.n_shards, 3);
    assert_int_equal(orr_embedding_plan_default(three, 3, 0, arena, &plan, &err), ORR_INVALID);
    assert_string_equal(err.text, "tables over 0 ranks: there may be from 1 to 65536");
    assert_int_equal(orr_embedding_plan_default(three, 0, 1, arena, &plan, &err), ORR_INVALID);
    assert_string_equal(err.text, "0 tables: there may be from 1 to 4096");
}

/* Bytes with optimizer state: t0 260 kB, user 660 kB, item 3 49.2 kB. */
static void small_tables_stay_in_memory(void **state)
{
    (void)state;
    enum { ITEM = 300 * 164, T0 = 1000 * 260, USER = 5000 * 132 };
    static const struct {
        int64_t memory;
        uint32_t stored;
        uint8_t tier[3];
    } cases[] = {
        {ITEM + T0 + USER, 0, {0, 0, 0}},
        {ITEM + T0 + USER - 1, 1, {0, ORR_TIER_BLOCK, 0}},
        {2 * (ITEM + T0) - 1, 2, {ORR_TIER_BLOCK, ORR_TIER_BLOCK, 0}},
        {2 * ITEM, 2, {ORR_TIER_BLOCK, ORR_TIER_BLOCK, 0}},
        {2 * ITEM - 1, 3, {ORR_TIER_BLOCK, ORR_TIER_BLOCK, ORR_TIER_BLOCK}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        orr_embedding_plan plan =
            plan_of("ranks: 1\ntables: {t0: {kind: data}, user: {kind: data}, item 3: {kind: "
                    "data}}\n");
        uint32_t n = 99;
        assert_int_equal(
            orr_embedding_plan_place_rows(&plan, ORR_TIER_BLOCK, cases[i].memory, arena, &n, NULL),
            ORR_OK);
        assert_int_equal(n, cases[i].stored);
        for (uint32_t t = 0; t < 3; t++)
            assert_int_equal(plan.placements[t].tier, cases[i].tier[t]);
    }
    /* Halves of user on two ranks beside t0: the fullest rank decides. */
    orr_embedding_plan plan = plan_of("ranks: 2\ntables: {t0: {kind: table, ranks: 0}, user: "
                                      "{kind: row, ranks: 0-1}, item 3: {kind: data}}\n");
    uint32_t n;
    assert_int_equal(orr_embedding_shard_bytes(&plan, &plan.shards[1]), USER / 2);
    assert_int_equal(
        orr_embedding_plan_place_rows(&plan, ORR_TIER_BYTE, ITEM + T0 + USER / 2, arena, &n, NULL),
        ORR_OK);
    assert_int_equal(n, 0);
    assert_int_equal(orr_embedding_plan_place_rows(&plan, ORR_TIER_BYTE, ITEM + T0 + USER / 2 - 1,
                                                   arena, &n, NULL),
                     ORR_OK);
    assert_int_equal(n, 1);
    assert_int_equal(plan.placements[1].tier, ORR_TIER_BYTE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_makes_shards),
        cmocka_unit_test(the_text_reads_back),
        cmocka_unit_test(tiers_of_tables),
        cmocka_unit_test(small_tables_stay_in_memory),
        cmocka_unit_test(tables_that_cannot_be),
        cmocka_unit_test(plans_that_cannot_be),
        cmocka_unit_test(two_tables_of_one_name),
        cmocka_unit_test(parts_are_bounded),
        cmocka_unit_test(whole_tables_go_to_the_emptiest_rank),
    };
    return cmocka_run_group_tests(tests, new_arena, free_arena);
}
