/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/checkpoint/table_folder.h"
#include "engine/checkpoint/table_index.h"

/* Exports of embedding tables: a file of each whole table without its state. A table is put
 * together from the files of a checkpoint in windows of a few row ranges, so that none is in memory
 * whole. */

enum { WINDOW_BYTES = 1 << 26 };

static bool is_file_name(const char *name)
{
    const char *const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.";
    return name[0] != '.' && name[strspn(name, plain)] == '\0';
}

/* Consecutive rows of a table. */
typedef struct window {
    orr_table_part part;
    orr_embedding_shard shard;
    orr_row_store store;
    char *rows, *states;
} window;

static orr_status open_window(const orr_embedding *table, window *ret, orr_error *err)
{
    const int64_t row_bytes = orr_row_format_bytes((orr_row_format)table->format, table->columns);
    const int64_t state_bytes =
        orr_row_optimizer_bytes((orr_row_optimizer)table->optimizer, table->columns);
    const int64_t range_rows = table->rows / ORR_EMBEDDING_RANGES + 1;
    const int64_t ranges = WINDOW_BYTES / (range_rows * (row_bytes + state_bytes)) + 1;
    const uint32_t n = ranges < ORR_EMBEDDING_RANGES ? (uint32_t)ranges : ORR_EMBEDDING_RANGES;
    const size_t rows = (size_t)(n * range_rows);
    *ret = (window){.shard = {.range_end = n, .column_end = table->columns},
                    .store = {.columns = table->columns,
                              .format = table->format,
                              .optimizer = table->optimizer,
                              .record_bytes = row_bytes,
                              .state_bytes = state_bytes},
                    .rows = orr_malloc(rows * (size_t)row_bytes),
                    .states = orr_malloc(rows * (size_t)state_bytes + 1)};
    ret->part = (orr_table_part){.table = table};
    if (ret->rows != NULL && ret->states != NULL)
        return ORR_OK;
    orr_free(ret->rows);
    orr_free(ret->states);
    return orr_fail_memory(err);
}

static orr_status write_windows(const orr_table_index *index, window *w, orr_table_writer *writer,
                                orr_error *err)
{
    const int64_t table_rows = w->part.table->rows;
    const uint32_t n = w->shard.range_end;
    w->store.base = w->rows;
    w->store.states = w->states;
    w->part.shard = &w->shard;
    w->part.store = &w->store;
    for (uint32_t begin = 0; begin < ORR_EMBEDDING_RANGES; begin += n) {
        w->shard.range_begin = begin;
        w->shard.range_end = begin + n < ORR_EMBEDDING_RANGES ? begin + n : ORR_EMBEDDING_RANGES;
        w->store.rows = orr_embedding_range_begin(table_rows, w->shard.range_end) -
                        orr_embedding_range_begin(table_rows, begin);
        ORR_TRY(orr_table_index_restore(index, &w->part, 1, err));
        orr_table_write_bytes(writer, w->rows, w->store.rows * w->store.record_bytes);
    }
    return ORR_OK;
}

static orr_status write_table(const orr_table_index *index, const orr_embedding *table,
                              int64_t step, orr_output *out, orr_error *err)
{
    orr_table_header header;
    orr_table_writer writer;
    window w;
    ORR_TRY(orr_table_header_make(table, (const int64_t[]){0, table->rows},
                                  (const uint32_t[]){0, table->columns}, false, step, &header,
                                  err));
    ORR_TRY(open_window(table, &w, err));
    orr_status status = orr_table_write_begin(out, &header, &writer, err);
    if (status == ORR_OK) {
        status = write_windows(index, &w, &writer, err);
        orr_table_write_end(&writer, status == ORR_OK);
    }
    orr_free(w.rows);
    orr_free(w.states);
    return status;
}

static orr_status export_table(const orr_table_index *index, const orr_embedding *table,
                               uint32_t number, int64_t step, const char *folder, orr_error *err)
{
    char path[4096];
    orr_output *out;
    if (is_file_name(table->name))
        snprintf(path, sizeof path, "%s/%s.table", folder, table->name);
    else
        snprintf(path, sizeof path, "%s/number-%u.table", folder, number);
    ORR_TRY(orr_output_open(path, &out, err));
    orr_status status = write_table(index, table, step, out, err);
    if (status == ORR_OK)
        status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}

orr_status orr_checkpoint_export_tables(const orr_checkpoint *c, const orr_embedding *tables,
                                        uint32_t n_tables, const char *folder, orr_error *err)
{
    orr_checkpoint_tables all;
    ORR_TRY(orr_checkpoint_tables_open(c, tables, n_tables, &all, err));
    const orr_table_index *index = &all.index;
    orr_status status = orr_table_index_check(index, tables, n_tables, true, err);
    for (uint32_t t = 0; t < n_tables && status == ORR_OK; t++)
        status = export_table(index, &tables[t], t, c->step, folder, err);
    orr_checkpoint_tables_close(&all);
    return status;
}

orr_status orr_tables_import(const char *folder, const orr_embedding *tables, uint32_t n_tables,
                             const orr_table_part *parts, uint32_t n, orr_error *err)
{
    orr_table_folder files;
    orr_table_index index = {0};
    ORR_TRY(orr_table_folder_open(folder, &files, err));
    orr_status status = orr_table_index_make(files.at, files.n, NULL, 0, &index, err);
    if (status == ORR_OK)
        status = orr_table_index_check(&index, tables, n_tables, false, err);
    if (status == ORR_OK)
        status = orr_table_index_restore(&index, parts, n, err);
    orr_table_index_done(&index);
    orr_table_folder_close(&files);
    return status;
}
