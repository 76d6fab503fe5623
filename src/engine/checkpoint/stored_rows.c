/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/checkpoint/stored_rows.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum { READ_CACHE_BYTES = 1 << 24 };

static void initial_row(void *ctx, uint32_t shard, int64_t row, void *ret_record)
{
    const orr_stored_rows *rows = ctx;
    orr_tables_draw_record(&rows->drawings[shard], row, ret_record);
}

static orr_status open_device(const orr_stored_rows *rows, orr_block_device **ret, orr_error *err)
{
    const orr_block_open open = {.path = rows->path, .read_only = true};
    const orr_block_map map = {
        .path = rows->path, .node = -1, .read_only = true, .sector = ORR_TABLES_GRANULE};
    if (access(rows->path, F_OK) != 0)
        return orr_fail(err, ORR_NOT_FOUND,
                        "rows of the checkpoint are in %s, which is not there: --%s says where",
                        rows->path, rows->tier == ORR_TIER_BYTE ? "byte-store" : "store");
    return rows->tier == ORR_TIER_BYTE ? orr_block_device_map(&map, ret, err)
                                       : orr_block_device_open(&open, ret, err);
}

static uint32_t number_of(const char *name, const orr_embedding *tables, uint32_t n)
{
    uint32_t t = 0;
    while (t < n && strcmp(tables[t].name, name) != 0)
        t++;
    return t;
}

/* A shard as a piece of a file of tables. */
static orr_status add_shard(orr_stored_rows *rows, const orr_row_shard *s,
                            const orr_embedding *tables, uint32_t n_tables, orr_error *err)
{
    const int64_t bounds[2] = {s->first_row, s->first_row + s->rows};
    const uint32_t columns[2] = {s->column_begin, s->column_end};
    const uint32_t number = number_of(s->table, tables, n_tables);
    const orr_embedding table = {.name = s->table,
                                 .rows = s->table_rows,
                                 .columns = s->table_columns,
                                 .format = s->format,
                                 .optimizer = s->optimizer};
    orr_table_piece *p = &rows->pieces[rows->n];
    if (s->column_end - s->column_begin > ORR_SHARD_UPDATE_COLUMNS)
        return orr_fail(err, ORR_INVALID, "table %s: rows of %u numbers", s->table,
                        s->column_end - s->column_begin);
    if (number == n_tables)
        return orr_fail(err, ORR_INVALID,
                        "the checkpoint is of another model: it has a table %s, which the model "
                        "has not",
                        s->table);
    ORR_TRY(orr_table_header_make(&table, bounds, columns, true, rows->step, &p->header, err));
    ORR_TRY(orr_table_layout_of(&p->header, &p->layout, err));
    p->header.group = rows->group;
    rows->drawings[rows->n++] = orr_tables_drawing_of(
        &tables[number], number, s->first_row, s->column_begin, s->column_end, true, rows->seed);
    return ORR_OK;
}

static orr_status add_shards(orr_stored_rows *rows, const orr_row_file_facts *facts,
                             const orr_embedding *tables, uint32_t n_tables, orr_error *err)
{
    rows->pieces = orr_calloc((size_t)facts->n_shards + 1, sizeof *rows->pieces);
    rows->drawings = orr_calloc((size_t)facts->n_shards + 1, sizeof *rows->drawings);
    if (rows->pieces == NULL || rows->drawings == NULL)
        return orr_fail_memory(err);
    if (facts->seed != rows->seed)
        return orr_fail(err, ORR_INVALID, "its rows were drawn from seed %llu, not %llu",
                        (unsigned long long)facts->seed, (unsigned long long)rows->seed);
    for (uint32_t i = 0; i < facts->n_shards; i++)
        ORR_TRY(add_shard(rows, &facts->shards[i], tables, n_tables, err));
    return ORR_OK;
}

orr_status orr_stored_rows_find(const orr_checkpoint *c, uint32_t rank, orr_tier tier,
                                const orr_embedding *tables, uint32_t n_tables,
                                orr_stored_rows *ret, orr_error *err)
{
    orr_stored_rows rows = {
        .tier = tier, .step = c->step, .group = orr_checkpoint_group(c, rank), .seed = c->seed};
    orr_row_file_facts facts;
    orr_block_device *device;
    if (!orr_checkpoint_rows_path(c, rank, tier, rows.path))
        return orr_fail(err, ORR_NOT_FOUND, "rank %u has no rows of tier %s", rank,
                        orr_tier_name(tier));
    ORR_TRY(open_device(&rows, &device, err));
    orr_arena *arena = orr_arena_new(0, 0);
    orr_status status =
        arena != NULL ? orr_row_file_read_facts(device, arena, &facts, err) : orr_fail_memory(err);
    device->close(device);
    if (status == ORR_OK)
        status = add_shards(&rows, &facts, tables, n_tables, err);
    orr_arena_free(arena);
    if (status == ORR_OK) {
        *ret = rows;
        return ORR_OK;
    }
    orr_error_prefix(err, rows.path);
    orr_stored_rows_done(&rows);
    return status;
}

static void close_store(orr_stored_rows *rows)
{
    orr_store_close(rows->store);
    rows->store = NULL;
}

void orr_stored_rows_done(orr_stored_rows *rows)
{
    close_store(rows);
    orr_free(rows->pieces);
    orr_free(rows->drawings);
}

static orr_status open_store(orr_stored_rows *rows, orr_error *err)
{
    const orr_store_options options = {
        .cache_bytes = READ_CACHE_BYTES, .window = 1, .initial = initial_row, .ctx = rows};
    orr_block_device *device;
    if (*rows->open != NULL)
        close_store(*rows->open);
    *rows->open = NULL;
    ORR_TRY(open_device(rows, &device, err));
    const orr_status status = orr_store_open(device, NULL, rows->step, &options, &rows->store, err);
    if (status != ORR_OK)
        device->close(device);
    else
        *rows->open = rows;
    return status;
}

orr_status orr_stored_rows_read(orr_stored_rows *rows, uint32_t shard, int64_t first, int64_t n,
                                char *records, orr_error *err)
{
    const orr_store_scan scan = {shard, first, n, records};
    orr_status status = rows->store == NULL ? open_store(rows, err) : ORR_OK;
    if (status == ORR_OK)
        status = orr_store_read(rows->store, &scan, err);
    if (status != ORR_OK)
        orr_error_prefix(err, rows->path);
    return status;
}
