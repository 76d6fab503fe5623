/* SPDX-License-Identifier: Apache-2.0 */
#include "small_training.h"

#include <dirent.h>

#include "base/philox.h"
#include "engine/checkpoint/checkpoint.h"

/* Embedding tables in checkpoints: whatever shards were saved, whatever shards are restored, rows
 * and state have the same bits. Every number is random bits of its table, row and column. */

enum { TABLES = 5, RANKS_MAX = 7, PARTS_MAX = TABLES * RANKS_MAX * 2 };
static const orr_embedding MODEL[TABLES] = {
    {.name = "a", .rows = 700, .columns = 40, .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD},
    {.name = "b",
     .rows = 3,
     .columns = 16,
     .format = ORR_ROW_FORMAT_BF16,
     .optimizer = ORR_ROW_OPTIMIZER_SGD},
    {.name = "c", .rows = 5000, .columns = 64, .optimizer = ORR_ROW_OPTIMIZER_ADAGRAD},
    {.name = "d",
     .rows = 1023,
     .columns = 129,
     .format = ORR_ROW_FORMAT_FP16,
     .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAM},
    {.name = "user id", .rows = 256, .columns = 1, .optimizer = ORR_ROW_OPTIMIZER_ROWWISE_ADAM},
};

/* A store whose rows are in memory, or given on request alone. */
typedef struct shard_store {
    orr_row_store store;
    const orr_embedding_shard *shard;
    const orr_embedding *table;
    int64_t first_row;
    uint32_t group; /* of ranks; its numbers are other ones */
    char *rows, *states;
} shard_store;

typedef struct saved_rank {
    shard_store stores[PARTS_MAX];
    orr_table_part parts[PARTS_MAX];
    uint32_t n;
} saved_rank;

static orr_status read_rows(orr_row_store *self, int64_t first, int64_t n, char *records,
                            orr_error *err)
{
    shard_store *s = self->ctx;
    orr_row_store all = *self;
    all.read = NULL;
    all.base = s->rows;
    all.states = s->states;
    return orr_row_store_read(&all, first, n, records, err);
}

static orr_status write_rows(orr_row_store *self, int64_t first, int64_t n, const char *records,
                             orr_error *err)
{
    shard_store *s = self->ctx;
    orr_row_store all = *self;
    all.write = NULL;
    all.base = s->rows;
    all.states = s->states;
    return orr_row_store_write(&all, first, n, records, err);
}

static void open_store(shard_store *s, const orr_embedding *table, const orr_embedding_shard *shard,
                       bool in_memory)
{
    const int64_t columns = shard->column_end - shard->column_begin;
    s->shard = shard;
    s->table = table;
    s->first_row = orr_embedding_range_begin(table->rows, shard->range_begin);
    s->store = (orr_row_store){
        .rows = orr_embedding_range_begin(table->rows, shard->range_end) - s->first_row,
        .columns = columns,
        .format = table->format,
        .optimizer = table->optimizer,
        .record_bytes = orr_row_format_bytes((orr_row_format)table->format, columns),
        .state_bytes = orr_row_optimizer_bytes((orr_row_optimizer)table->optimizer, columns),
        .ctx = s};
    s->rows = calloc((size_t)s->store.rows + 1, (size_t)s->store.record_bytes);
    s->states = calloc((size_t)s->store.rows + 1, (size_t)s->store.state_bytes + 1);
    assert_non_null(s->rows);
    assert_non_null(s->states);
    if (in_memory) {
        s->store.base = s->rows;
        s->store.states = s->states;
    } else {
        s->store.read = read_rows;
        s->store.write = write_rows;
    }
}

/* 32 bits of a number of a row; `column` -1: of the state that rows have. */
static uint32_t bits_of(const orr_embedding *table, int64_t row, int64_t column, uint32_t what)
{
    const uint32_t counter[4] = {(uint32_t)row, (uint32_t)column, what, (uint32_t)table->rows};
    const uint32_t key[2] = {3, 5};
    uint32_t bits[4];
    orr_philox4x32(counter, key, bits);
    return bits[0];
}

/* Fills in, or compares, one number. */
static void visit_number(char *at, uint32_t bits, size_t bytes, bool fill)
{
    if (fill)
        memcpy(at, &bits, bytes);
    else
        assert_memory_equal(at, &bits, bytes);
}

static void visit_store(shard_store *s, bool fill)
{
    const size_t bytes = s->table->format == ORR_ROW_FORMAT_FP32 ? 4 : 2;
    const bool by_column = s->table->optimizer == ORR_ROW_OPTIMIZER_ADAGRAD ||
                           s->table->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM;
    const bool by_row = s->table->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD ||
                        s->table->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM;
    for (int64_t i = 0; i < s->store.rows; i++) {
        const int64_t row = s->first_row + i;
        char *record = s->rows + i * s->store.record_bytes,
             *state = s->states + i * s->store.state_bytes;
        for (int64_t k = 0; k < s->store.columns; k++) {
            const int64_t column = s->shard->column_begin + k;
            visit_number(record + k * (int64_t)bytes, bits_of(s->table, row, column, 3 * s->group),
                         bytes, fill);
            if (by_column)
                visit_number(state + 4 * k, bits_of(s->table, row, column, 3 * s->group + 1), 4,
                             fill);
        }
        if (by_row)
            visit_number(state + (by_column ? 4 * s->store.columns : 0),
                         bits_of(s->table, row, -1, 3 * s->group + 2), 4, fill);
    }
}

static void open_rank(saved_rank *r, const orr_embedding_plan *plan, uint32_t rank,
                      orr_random *random)
{
    r->n = 0;
    for (uint32_t i = 0; i < plan->n_shards; i++) {
        const orr_embedding_shard *shard = &plan->shards[i];
        if (shard->rank != rank % plan->ranks)
            continue;
        assert_true(r->n < PARTS_MAX);
        shard_store *s = &r->stores[r->n];
        *s = (shard_store){.group = rank / plan->ranks};
        open_store(s, &plan->tables[shard->table], shard, orr_random_below(random, 3) > 0);
        r->parts[r->n++] = (orr_table_part){.table = s->table,
                                            .shard = shard,
                                            .store = &s->store,
                                            .group = s->group,
                                            .saved = plan->placements[shard->table].sharding !=
                                                         ORR_SHARDING_DATA ||
                                                     shard->table % plan->ranks == shard->rank};
    }
}

static void close_rank(saved_rank *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        free(r->stores[i].rows);
        free(r->stores[i].states);
    }
}

static orr_embedding_placement random_placement(const orr_embedding *table, uint32_t ranks,
                                                orr_arena *arena, orr_random *random)
{
    orr_embedding_placement p = {.sharding = (uint8_t)orr_random_below(random, ORR_SHARDINGS),
                                 .columns = 1};
    const uint32_t blocks = (table->columns + ORR_EMBEDDING_BLOCK - 1) / ORR_EMBEDDING_BLOCK;
    p.n_ranks = 1 + (uint32_t)orr_random_below(random, ranks);
    if (p.sharding == ORR_SHARDING_GRID) {
        p.columns = 1 + (uint32_t)orr_random_below(random, p.n_ranks < blocks ? p.n_ranks : blocks);
        p.n_ranks -= p.n_ranks % p.columns;
    }
    if (p.sharding == ORR_SHARDING_TABLE)
        p.n_ranks = 1;
    if (p.sharding == ORR_SHARDING_COLUMN)
        p.columns = p.n_ranks = p.n_ranks < blocks ? p.n_ranks : blocks;
    if (p.sharding == ORR_SHARDING_DATA)
        p.n_ranks = 0;
    uint32_t *own = orr_arena_array(arena, uint32_t, RANKS_MAX);
    assert_non_null(own);
    for (uint32_t i = 0; i < ranks; i++)
        own[i] = i;
    for (uint32_t i = 0; i < ranks; i++) {
        const uint32_t k = i + (uint32_t)orr_random_below(random, ranks - i), at = own[i];
        own[i] = own[k];
        own[k] = at;
    }
    p.ranks = own;
    return p;
}

static orr_embedding_plan random_plan(const orr_embedding *tables, uint32_t n, orr_arena *arena,
                                      orr_random *random)
{
    orr_error err = {.text = ""};
    orr_embedding_placement *placements = orr_arena_array(arena, orr_embedding_placement, TABLES);
    orr_embedding_plan plan = {.ranks = 1 + (uint32_t)orr_random_below(random, RANKS_MAX),
                               .groups = 1,
                               .synchronize = 1,
                               .tables = tables,
                               .n_tables = n,
                               .placements = placements};
    assert_non_null(placements);
    for (uint32_t t = 0; t < n; t++)
        placements[t] = random_placement(&tables[t], plan.ranks, arena, random);
    if (orr_embedding_plan_shard(&plan, arena, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return plan;
}

static saved_rank one; /* too large for the stack */

static void save_all(const char *folder, const orr_embedding_plan *plan, int64_t step,
                     orr_random *random)
{
    const orr_team_data_cursor position = {.next = (uint64_t)step};
    orr_error err = {.text = ""};
    for (uint32_t rank = 0; rank < plan->ranks * plan->groups; rank++) {
        const orr_checkpoint_metadata facts = {.model = "m",
                                               .plan = "p",
                                               .seed = 1,
                                               .rank = rank,
                                               .ranks = plan->ranks * plan->groups};
        orr_checkpointer *c = NULL;
        open_rank(&one, plan, rank, random);
        for (uint32_t i = 0; i < one.n; i++)
            visit_store(&one.stores[i], true);
        if (orr_checkpointer_new(folder, &facts, NULL, 0, &c, &err) != ORR_OK ||
            orr_checkpointer_add_tables(c, one.parts, one.n, &err) != ORR_OK ||
            orr_checkpointer_save(c, step, &position, &err) != ORR_OK ||
            orr_checkpointer_wait(c, &err) != ORR_OK)
            fail_msg("%s", err.text);
        orr_checkpointer_free(c);
        close_rank(&one);
    }
    assert_int_equal(orr_checkpoint_commit(folder, step, &err), ORR_OK);
}

/* Restores every rank of a plan; compares where that went well. */
static orr_status restore_all(const char *folder, const orr_embedding_plan *plan,
                              orr_random *random, orr_error *err)
{
    orr_checkpoint *c;
    orr_status status = orr_checkpoint_open(folder, &c, err);
    if (status != ORR_OK)
        return status;
    for (uint32_t rank = 0; rank < plan->ranks * plan->groups && status == ORR_OK; rank++) {
        open_rank(&one, plan, rank, random);
        status =
            orr_checkpoint_restore_tables(c, plan->tables, plan->n_tables, one.parts, one.n, err);
        for (uint32_t i = 0; i < one.n && status == ORR_OK; i++)
            visit_store(&one.stores[i], false);
        close_rank(&one);
    }
    orr_checkpoint_close(c);
    return status;
}

static void any_sharding_restores_any_other(void **state)
{
    orr_error err = {.text = ""};
    for (uint64_t seed = 0; seed < 25; seed++) {
        orr_arena *arena = orr_arena_new(0, 0);
        orr_random random = orr_random_of(17, seed);
        const orr_embedding_plan from = random_plan(MODEL, TABLES, arena, &random);
        const orr_embedding_plan to = random_plan(MODEL, TABLES, arena, &random);
        save_all(*state, &from, (int64_t)seed + 1, &random);
        if (restore_all(*state, &to, &random, &err) != ORR_OK)
            fail_msg("seed %llu: %s", (unsigned long long)seed, err.text);
        orr_arena_free(arena);
    }
}

/* Groups of ranks have copies of their own; another number of groups begins with the first. */
static void groups_restore_their_own_copies(void **state)
{
    orr_error err = {.text = ""};
    orr_arena *arena = orr_arena_new(0, 0);
    orr_random random = orr_random_of(19, 1);
    orr_embedding_plan from = random_plan(MODEL, TABLES, arena, &random);
    orr_embedding_plan to = random_plan(MODEL, TABLES, arena, &random);
    from.groups = to.groups = 2;
    save_all(*state, &from, 1, &random);
    if (restore_all(*state, &to, &random, &err) != ORR_OK)
        fail_msg("%s", err.text);
    to.groups = 1;
    if (restore_all(*state, &to, &random, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_arena_free(arena);
}

typedef struct fixture {
    orr_arena *arena;
    orr_random random;
    orr_embedding_plan plan;
    orr_embedding_placement placements[TABLES];
    orr_error err;
} fixture;

/* Table c by rows over three ranks, the others whole on rank 0. */
static void save_fixture(fixture *f, const char *folder)
{
    static const uint32_t all[] = {0, 1, 2};
    *f = (fixture){.arena = orr_arena_new(0, 0), .random = orr_random_of(1, 1)};
    for (int t = 0; t < TABLES; t++)
        f->placements[t] =
            (orr_embedding_placement){.sharding = t == 2 ? ORR_SHARDING_ROW : ORR_SHARDING_TABLE,
                                      .columns = 1,
                                      .ranks = all,
                                      .n_ranks = t == 2 ? 3 : 1};
    f->plan = (orr_embedding_plan){.ranks = 3,
                                   .groups = 1,
                                   .synchronize = 1,
                                   .tables = MODEL,
                                   .n_tables = TABLES,
                                   .placements = f->placements};
    assert_int_equal(orr_embedding_plan_shard(&f->plan, f->arena, &f->err), ORR_OK);
    save_all(folder, &f->plan, 5, &f->random);
}

static void assert_refused(fixture *f, const char *folder, orr_status want, const char *text)
{
    f->err.text[0] = '\0';
    assert_int_equal(restore_all(folder, &f->plan, &f->random, &f->err), want);
    if (strstr(f->err.text, text) == NULL)
        fail_msg("'%s' says nothing of '%s'", f->err.text, text);
}

static void another_model_is_refused(void **state)
{
    fixture f;
    orr_embedding other[TABLES];
    save_fixture(&f, *state);
    memcpy(other, MODEL, sizeof other);
    f.plan.tables = other;
    other[3].rows = 1024;
    assert_refused(&f, *state, ORR_INVALID,
                   "table d is 1023 x 129 in fp16 with rowwise_adam, and should be 1024 x 129 in "
                   "fp16 with rowwise_adam");
    other[3].rows = 1023;
    other[2].optimizer = ORR_ROW_OPTIMIZER_SGD;
    assert_refused(&f, *state, ORR_INVALID, "5000 x 64 in fp32 with adagrad");
    other[2].optimizer = MODEL[2].optimizer;
    other[4].name = "item";
    assert_refused(&f, *state, ORR_INVALID, "it has no table item (256 x 1 in fp32");
    f.plan.n_tables = TABLES - 1;
    f.plan.n_shards -= 1;
    assert_refused(&f, *state, ORR_INVALID, "it has a table user id (256 x 1 in fp32");
    orr_arena_free(f.arena);
}

static void path_of(const char *folder, int rank, char ret[256])
{
    (void)snprintf(ret, 256, "%s/step-00000005/rank-%05d.tables", folder, rank);
}

/* Rows 1680 to 3320 or so of table c are on rank 1 alone. */
static void missing_rows_are_named(void **state)
{
    fixture f;
    char path[256];
    save_fixture(&f, *state);
    path_of(*state, 1, path);
    assert_int_equal(unlink(path), 0);
    assert_refused(&f, *state, ORR_PARSE, "rank-00001.tables is not there");
    assert_int_equal(orr_checkpoint_commit(*state, 5, &f.err), ORR_OK); /* as if it never was */
    const int64_t row = orr_embedding_range_begin(5000, orr_embedding_range_split(3, 1));
    char text[96];
    (void)snprintf(text, sizeof text, "table c, row %lld, column 0 is in none", (long long)row);
    assert_refused(&f, *state, ORR_INVALID, text);
    orr_arena_free(f.arena);
}

static long size_of(const char *path)
{
    struct stat about;
    assert_int_equal(stat(path, &about), 0);
    return (long)about.st_size;
}

static void truncated_files_are_refused(void **state)
{
    fixture f;
    char path[256];
    save_fixture(&f, *state);
    path_of(*state, 0, path);
    const long size = size_of(path);
    for (long n = size - 1; n > 0; n -= 2 * (1 + size / 80)) { /* odd: not between pieces */
        assert_int_equal(truncate(path, n), 0);
        assert_refused(&f, *state, ORR_PARSE, "rank-00000.tables: byte ");
    }
    assert_int_equal(truncate(path, 0), 0);
    assert_refused(&f, *state, ORR_PARSE, "rank-00000.tables: it ends in its header");
    orr_arena_free(f.arena);
}

/* A byte that is another one is found, wherever it is. */
static void damage_is_found(void **state)
{
    fixture f;
    char path[256];
    save_fixture(&f, *state);
    path_of(*state, 0, path);
    const long size = size_of(path);
    for (long at = 0; at < size; at += 1 + size / 150) {
        FILE *file = fopen(path, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        const int byte = fgetc(file);
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        (void)fputc(byte ^ 0x10, file);
        assert_int_equal(fclose(file), 0);
        assert_refused(&f, *state, ORR_PARSE, "rank-00000.tables: byte ");
        file = fopen(path, "r+b");
        assert_non_null(file);
        assert_int_equal(fseek(file, at, SEEK_SET), 0);
        (void)fputc(byte, file);
        assert_int_equal(fclose(file), 0);
    }
    assert_int_equal(restore_all(*state, &f.plan, &f.random, &f.err), ORR_OK);
    orr_arena_free(f.arena);
}

/* Rows of the export are one behind another from the second page on, as others map them. */
static void check_mapped(const char *folder)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/d.table", folder);
    FILE *file = fopen(path, "rb");
    uint16_t number;
    assert_non_null(file);
    for (int64_t row = 0; row < 1023; row += 341)
        for (int64_t column = 0; column < 129; column += 64) {
            assert_int_equal(
                fseek(file, (long)(ORR_TABLE_PAGE + 2 * (129 * row + column)), SEEK_SET), 0);
            assert_int_equal(fread(&number, sizeof number, 1, file), 1);
            assert_int_equal(number, (uint16_t)bits_of(&MODEL[3], row, column, 0));
        }
    assert_int_equal(fclose(file), 0);
}

/* Shards of another plan get the rows of the exported tables, and keep their state. */
static void exported_tables_are_imported(void **state)
{
    fixture f;
    orr_checkpoint *c;
    orr_random random = orr_random_of(23, 1);
    save_fixture(&f, *state);
    assert_int_equal(orr_checkpoint_open(*state, &c, &f.err), ORR_OK);
    if (orr_checkpoint_export_tables(c, MODEL, TABLES, *state, &f.err) != ORR_OK)
        fail_msg("%s", f.err.text);
    orr_checkpoint_close(c);
    check_mapped(*state);
    const orr_embedding_plan to = random_plan(MODEL, TABLES, f.arena, &random);
    for (uint32_t rank = 0; rank < to.ranks; rank++) {
        open_rank(&one, &to, rank, &random);
        for (uint32_t i = 0; i < one.n; i++) {
            shard_store *s = &one.stores[i];
            visit_store(s, true); /* state; then rows are lost */
            for (int64_t row = 0; row < s->store.rows; row++)
                memset(s->rows + row * s->store.record_bytes, 0x55,
                       (size_t)orr_row_format_bytes((orr_row_format)s->table->format,
                                                    s->store.columns));
        }
        if (orr_tables_import(*state, MODEL, TABLES, one.parts, one.n, &f.err) != ORR_OK)
            fail_msg("%s", f.err.text);
        for (uint32_t i = 0; i < one.n; i++)
            visit_store(&one.stores[i], false);
        close_rank(&one);
    }
    orr_embedding other[TABLES];
    memcpy(other, MODEL, sizeof other);
    other[0].format = ORR_ROW_FORMAT_BF16;
    assert_int_equal(orr_tables_import(*state, other, TABLES, NULL, 0, &f.err), ORR_INVALID);
    assert_non_null(strstr(f.err.text, "its table a is 700 x 40 in fp32"));
    orr_arena_free(f.arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(any_sharding_restores_any_other, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(groups_restore_their_own_copies, make_folder,
                                        remove_folder),
        cmocka_unit_test_setup_teardown(another_model_is_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(missing_rows_are_named, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(truncated_files_are_refused, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(damage_is_found, make_folder, remove_folder),
        cmocka_unit_test_setup_teardown(exported_tables_are_imported, make_folder, remove_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
