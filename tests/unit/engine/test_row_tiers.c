/* SPDX-License-Identifier: Apache-2.0 */
#include "small_clicks.h"

#include "base/clock.h"
#include "engine/train/row_files.h"
#include "engine/train/trainer.h"

/* Where rows live that are not in memory: files, shares of memory, limits of devices. Whole
 * trainings stand in e2e/store.py. */
enum { BATCH = 64 };
#define SLOW_NS INT64_C(200000000)

/* The rows of t1 and t3 on a block device, those of t2 in byte-addressable storage. */
static const orr_tier TIERS[SMALL_TABLES] = {ORR_TIER_DRAM, ORR_TIER_BLOCK, ORR_TIER_BYTE,
                                             ORR_TIER_BLOCK};

static orr_embedding_plan plan_of(const orr_tier tiers[SMALL_TABLES], uint32_t ranks,
                                  orr_arena *arena)
{
    orr_embedding_plan plan;
    assert_int_equal(
        orr_embedding_plan_default(SMALL_EMBEDDINGS, SMALL_TABLES, ranks, arena, &plan, NULL),
        ORR_OK);
    for (uint32_t i = 0; i < SMALL_TABLES; i++)
        ((orr_embedding_placement *)(uintptr_t)plan.placements)[i].tier = (uint8_t)tiers[i];
    plan.lookahead = 1;
    return plan;
}

typedef struct placing {
    orr_arena *arena;
    orr_model model;
    orr_embedding_plan plan;
    orr_train_options options;
    orr_train_job job;
    orr_transport transport;
    orr_trainer trainer;
} placing;

/* Rank 0 of so many, before its tables are opened. */
static void begin(placing *p, const orr_train_store *store, uint32_t ranks)
{
    *p = (placing){.arena = orr_arena_new(0, 0), .model = small_clicks_model(SMALL_EMBEDDINGS)};
    p->plan = plan_of(TIERS, ranks, p->arena);
    p->options = (orr_train_options){.tables = &p->plan, .store = store};
    p->job = (orr_train_job){.options = &p->options, .model = &p->model};
    p->transport = (orr_transport){.ranks = ranks};
    p->trainer = (orr_trainer){.training = &p->job, .transport = &p->transport, .arena = p->arena};
}

static int64_t bytes_of(uint32_t table)
{
    return orr_embedding_bytes(&SMALL_EMBEDDINGS[table]);
}

static void memory_that_is_left_is_shared_by_bytes(void **state)
{
    const int64_t block = bytes_of(1) + bytes_of(3), byte = bytes_of(2), left = 40000;
    orr_train_store store = {.folder = in_folder(state, "rows"),
                             .byte_node = -1,
                             .holes = true,
                             .memory_bytes = bytes_of(0) + left};
    placing p;
    orr_error err = {0};
    begin(&p, &store, 1);
    assert_int_equal(orr_train_place_rows(&p.trainer, NULL, &err), ORR_OK);
    const orr_tables_tier *tiers = p.trainer.rows.tiers;
    assert_int_equal(tiers[ORR_TIER_BLOCK].cache_bytes, left * block / (block + byte));
    assert_int_equal(tiers[ORR_TIER_BYTE].cache_bytes, left * byte / (block + byte));
    assert_true(tiers[ORR_TIER_BLOCK].create && tiers[ORR_TIER_BYTE].create);
    assert_null(tiers[ORR_TIER_BYTE].path);
    assert_int_equal(tiers[ORR_TIER_BLOCK].writes, ORR_ROW_WRITES_HOLES);
    assert_int_equal(tiers[ORR_TIER_BYTE].writes, ORR_ROW_WRITES_EXTENTS);
    store.memory_bytes = bytes_of(0);
    assert_int_equal(orr_train_place_rows(&p.trainer, NULL, &err), ORR_LIMIT);
    assert_non_null(strstr(err.text, "--table-memory"));
    orr_arena_free(p.arena);
}

/* Without checkpoints nothing is committed; with them one tier commits the rows in memory, too. */
static void one_tier_commits_what_is_in_memory(void **state)
{
    char rows[4200], bytes[4200];
    snprintf(rows, sizeof rows, "%s", in_folder(state, "rows"));
    snprintf(bytes, sizeof bytes, "%s", in_folder(state, "bytes"));
    for (int way = 0; way < 4; way++) {
        const bool saves = way > 0, block = way != 2, byte = way != 1;
        const orr_train_store store = {.folder = block ? rows : NULL,
                                       .byte_folder = byte ? bytes : NULL,
                                       .byte_node = byte ? -1 : -2,
                                       .memory_bytes = 1 << 20};
        placing p;
        orr_error err = {0};
        begin(&p, &store, 1);
        p.options.save = saves ? "kept" : NULL;
        assert_int_equal(orr_train_place_rows(&p.trainer, NULL, &err), ORR_OK);
        const orr_trainer_rows *r = &p.trainer.rows;
        assert_int_equal(r->tiers[ORR_TIER_BLOCK].durable, saves && block);
        assert_int_equal(r->tiers[ORR_TIER_BYTE].durable, saves && byte);
        assert_int_equal(r->tiers[ORR_TIER_BLOCK].dram, saves && block);
        assert_int_equal(r->tiers[ORR_TIER_BYTE].dram, saves && !block);
        assert_int_equal(r->committed[ORR_TIER_DRAM], saves);
        assert_int_equal(r->generation, 1);
        orr_arena_free(p.arena);
    }
}

static void make_file(void **state, const char *name)
{
    FILE *file = fopen(in_folder(state, name), "w");
    assert_non_null(file);
    assert_int_equal(fclose(file), 0);
}

static void older_files_of_ones_own_go(void **state)
{
    static const char *const gone[] = {"rank-00000.rows", "rank-00002.rows", "rank-00004.2.rows"};
    static const char *const kept[] = {"rank-00000.3.rows", "rank-00001.rows",   "rank-00000.bytes",
                                       "rank-.rows",        "rank-00000.x.rows", "rank-00000.rows~",
                                       "xrank-00000.rows"};
    orr_error err = {0};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        make_file(state, gone[i]);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        make_file(state, kept[i]);
    const char *folder = *state;
    assert_int_equal(orr_row_files_check_unused(folder, ORR_TIER_BLOCK, 0, 2, &err), ORR_OK);
    orr_row_files_remove_older(folder, ORR_TIER_BLOCK, 0, 2, 3);
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        assert_int_equal(access(in_folder(state, gone[i]), F_OK), -1);
    for (size_t i = 0; i < sizeof kept / sizeof *kept; i++)
        assert_int_equal(access(in_folder(state, kept[i]), F_OK), 0);
    orr_row_files_remove_older(in_folder(state, "none"), ORR_TIER_BLOCK, 0, 2, 3);
}

static void a_folder_that_is_none_is_refused(void **state)
{
    make_file(state, "rows");
    const orr_train_store store = {.folder = in_folder(state, "rows/inside"), .byte_node = -2};
    placing p;
    orr_error err = {0};
    begin(&p, &store, 1);
    assert_int_equal(orr_train_place_rows(&p.trainer, NULL, &err), ORR_IO);
    assert_non_null(strstr(err.text, "rows/inside"));
    orr_arena_free(p.arena);
}

static orr_train_result train(const orr_embedding_plan *tables, const orr_train_store *store,
                              const char *save, int64_t steps, orr_arena *arena)
{
    const orr_model model = small_clicks_model(SMALL_EMBEDDINGS);
    const orr_workload workload = {.task = ORR_TASK_PRETRAIN};
    const orr_plan plan = {.dp = tables->ranks, .batch = BATCH};
    const orr_train_options options = {.model = &model,
                                       .plan = &plan,
                                       .workload = &workload,
                                       .tables = tables,
                                       .store = store,
                                       .save = save,
                                       .resume = save != NULL && access(save, F_OK) == 0,
                                       .steps = steps,
                                       .rate = 0.05,
                                       .seed = 5,
                                       .threads = 1,
                                       .rate_schedule = ORR_LEARNING_RATE_CONSTANT};
    orr_train_result result;
    orr_error err = {0};
    if (orr_train(&options, arena, &result, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return result;
}

/* A training that begins with rows on a device which takes a fifth of a second to read one waits.
 */
static void a_slow_device_changes_no_bit(void **state)
{
    static const orr_tier memory[SMALL_TABLES] = {0}, byte[SMALL_TABLES] = {ORR_TIER_BYTE};
    const orr_device_limits limits = {.read_ns = SLOW_NS};
    char rows[4200], save[4200];
    snprintf(rows, sizeof rows, "%s", in_folder(state, "rows"));
    snprintf(save, sizeof save, "%s", in_folder(state, "kept"));
    const orr_train_store store = {
        .byte_folder = rows, .byte_node = -1, .memory_bytes = 1 << 20, .byte_limits = &limits};
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_embedding_plan in_memory = plan_of(memory, 1, arena),
                             stored = plan_of(byte, 1, arena);
    const orr_train_result whole = train(&in_memory, NULL, NULL, 3, arena);
    (void)train(&stored, &store, save, 1, arena);
    const int64_t begin_ns = orr_clock_now_ns(&orr_clock_monotonic);
    const orr_train_result r = train(&stored, &store, save, 3, arena);
    assert_true(orr_clock_now_ns(&orr_clock_monotonic) - begin_ns >= SLOW_NS);
    assert_true(r.state_digest == whole.state_digest);
    assert_true(r.tiers[ORR_TIER_BYTE] && !r.tiers[ORR_TIER_BLOCK]);
    assert_true(r.rows[ORR_TIER_BYTE].reads > 0);
    assert_true(r.rows[ORR_TIER_BYTE].stall_ns > 0);
    orr_arena_free(arena);
}

/* Whatever ranks the rows are on, lookups are those of all samples. */
static void counts_are_those_of_all_ranks(void **state)
{
    const orr_train_store store = {
        .folder = in_folder(state, "rows"), .byte_node = -1, .memory_bytes = 1 << 20};
    const int64_t steps = 4;
    for (uint32_t ranks = 1; ranks <= 4; ranks *= 2) {
        orr_arena *arena = orr_arena_new(0, 0);
        const orr_embedding_plan plan = plan_of(TIERS, ranks, arena);
        const orr_train_result r = train(&plan, &store, NULL, steps, arena);
        const orr_train_rows *byte = &r.rows[ORR_TIER_BYTE];
        assert_int_equal(byte->lookups, steps * BATCH * 2);
        assert_true(byte->hits <= byte->lookups && byte->row_hits <= byte->rows);
        assert_true(byte->rows <= steps * 7 * ranks && byte->rows >= steps);
        assert_int_equal(r.rows[ORR_TIER_DRAM].lookups, 0);
        orr_arena_free(arena);
    }
}

int main(void)
{
#define IN_FOLDER(test) cmocka_unit_test_setup_teardown(test, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {IN_FOLDER(memory_that_is_left_is_shared_by_bytes),
                                       IN_FOLDER(one_tier_commits_what_is_in_memory),
                                       IN_FOLDER(older_files_of_ones_own_go),
                                       IN_FOLDER(a_folder_that_is_none_is_refused),
                                       IN_FOLDER(a_slow_device_changes_no_bit),
                                       IN_FOLDER(counts_are_those_of_all_ranks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
