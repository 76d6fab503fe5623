/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "engine/checkpoint/table_image.h"
#include "engine/checkpoint/table_index.h"

/* Restores shards of embedding tables from whichever pieces the files of a checkpoint have: rows
 * and columns that overlap are copied. */

typedef orr_found_piece found;
typedef orr_table_index table_index;

/* Rows and columns of a table. */
typedef struct rectangle {
    int64_t row_begin, row_end;
    uint32_t column_begin, column_end;
} rectangle;

static bool intersect(rectangle a, rectangle b, rectangle *ret)
{
    *ret = (rectangle){
        a.row_begin > b.row_begin ? a.row_begin : b.row_begin,
        a.row_end < b.row_end ? a.row_end : b.row_end,
        a.column_begin > b.column_begin ? a.column_begin : b.column_begin,
        a.column_end < b.column_end ? a.column_end : b.column_end,
    };
    return ret->row_begin < ret->row_end && ret->column_begin < ret->column_end;
}

static rectangle rectangle_of(const orr_table_header *h)
{
    return (rectangle){h->row_begin, h->row_end, h->column_begin, h->column_end};
}

/* Checks that pieces cover a part. `of`: those that overlap it, by first row. For each block of
 * columns the rows are counted that are covered from the first on. */
static orr_status check_cover(const table_index *of, const char *name, rectangle all,
                              orr_error *err)
{
    const uint32_t blocks =
        (all.column_end - all.column_begin + ORR_EMBEDDING_BLOCK - 1) / ORR_EMBEDDING_BLOCK;
    int64_t *covered = orr_malloc((size_t)blocks * sizeof *covered);
    orr_status status = covered != NULL ? ORR_OK : orr_fail_memory(err);
    for (uint32_t b = 0; b < blocks && status == ORR_OK; b++)
        covered[b] = all.row_begin;
    for (uint32_t i = 0; i < of->n && status == ORR_OK; i++) {
        rectangle both;
        (void)intersect(all, rectangle_of(&of->at[i].piece->header), &both);
        uint32_t b = (both.column_begin - all.column_begin) / ORR_EMBEDDING_BLOCK;
        for (; all.column_begin + b * ORR_EMBEDDING_BLOCK < both.column_end; b++)
            if (both.row_begin <= covered[b] && both.row_end > covered[b])
                covered[b] = both.row_end;
    }
    for (uint32_t b = 0; b < blocks && status == ORR_OK; b++)
        if (covered[b] < all.row_end)
            status =
                orr_fail(err, ORR_INVALID,
                         "the checkpoint is not complete: table %s, row %lld, column %u is in "
                         "none of its files",
                         name, (long long)covered[b], all.column_begin + b * ORR_EMBEDDING_BLOCK);
    orr_free(covered);
    return status;
}

/* Pieces that have some of a rectangle, of the group whose copy is wanted; in place. With another
 * number of groups the copies of group 0 are taken. */
static void select_pieces(table_index *of, rectangle all, uint32_t group)
{
    uint32_t groups = 1, n = 0;
    for (uint32_t i = 0; i < of->n; i++)
        if (of->at[i].piece->header.group >= groups)
            groups = of->at[i].piece->header.group + 1;
    for (uint32_t i = 0; i < of->n; i++) {
        rectangle both;
        const orr_table_header *h = &of->at[i].piece->header;
        if (h->group == (group < groups ? group : 0) && intersect(all, rectangle_of(h), &both))
            of->at[n++] = of->at[i];
    }
    of->n = n;
}

/* Copies what a piece has of a part. A reader for each section, since each keeps its last chunk. */
typedef struct copying {
    const orr_table_part *part;
    const orr_table_piece *piece;
    rectangle own, both;
    orr_table_reader rows, column_state, row_state;
} copying;

/* Offset and bytes of the columns that both have, in a section whose rows have `bytes` for
 * `columns` columns. */
static int64_t columns_bytes(int64_t bytes, uint32_t columns, uint32_t n)
{
    return bytes / columns * n;
}

static orr_status copy_row(copying *c, int64_t row, char *record, char *state, orr_error *err)
{
    const orr_table_header *h = &c->piece->header;
    const orr_table_layout *l = &c->piece->layout;
    const uint32_t width = h->column_end - h->column_begin;
    const uint32_t n = c->both.column_end - c->both.column_begin,
                   from = c->both.column_begin - h->column_begin,
                   to = c->both.column_begin - c->own.column_begin;
    const int64_t at = row - h->row_begin, number = l->row_bytes,
                  state_bytes = l->column_state_bytes;
    /* Rows that are not plain numbers are copied whole, see check_columns(). */
    const int64_t bytes = n == width ? number : columns_bytes(number, width, n);
    ORR_TRY(orr_table_read(&c->rows, at * number + columns_bytes(number, width, from), bytes,
                           record + columns_bytes(number, width, to), err));
    if (state_bytes > 0)
        ORR_TRY(orr_table_read(&c->column_state,
                               l->column_state_at + at * state_bytes +
                                   columns_bytes(state_bytes, width, from),
                               columns_bytes(state_bytes, width, n),
                               state + columns_bytes(state_bytes, width, to), err));
    const uint32_t own_width = c->own.column_end - c->own.column_begin;
    return orr_table_read(&c->row_state, l->row_state_at + at * l->row_state_bytes,
                          l->row_state_bytes, state + columns_bytes(state_bytes, width, own_width),
                          err);
}

/* `records`: room for a block of them. */
static orr_status copy_rows(copying *c, char *records, orr_error *err)
{
    orr_row_store *store = c->part->store;
    const int64_t bytes = orr_row_store_bytes(store);
    for (int64_t first = c->both.row_begin, n; first < c->both.row_end; first += n) {
        const int64_t left = c->both.row_end - first, at = first - c->own.row_begin;
        n = left < ORR_TABLE_BLOCK_ROWS ? left : ORR_TABLE_BLOCK_ROWS;
        ORR_TRY(orr_row_store_read(store, at, n, records, err));
        for (int64_t i = 0; i < n; i++)
            ORR_TRY(copy_row(c, first + i, records + i * bytes,
                             records + i * bytes + store->record_bytes, err));
        ORR_TRY(orr_row_store_write(store, at, n, records, err));
    }
    return ORR_OK;
}

/* Only numbers of whole bytes can be divided by columns. */
static orr_status check_columns(const copying *c, orr_error *err)
{
    const orr_table_header *h = &c->piece->header;
    const bool whole =
        c->both.column_end - c->both.column_begin == h->column_end - h->column_begin &&
        c->both.column_end - c->both.column_begin == c->own.column_end - c->own.column_begin;
    if (whole || h->format <= ORR_ROW_FORMAT_BF16)
        return ORR_OK;
    return orr_fail(err, ORR_UNSUPPORTED, "table %s: rows in %s are not divided by columns",
                    h->name, orr_row_format_name((orr_row_format)h->format));
}

static orr_status copy_piece(const found *from, const orr_table_part *part, rectangle own,
                             orr_error *err)
{
    copying c = {.part = part, .piece = from->piece, .own = own};
    char *records = orr_malloc((size_t)(ORR_TABLE_BLOCK_ROWS * orr_row_store_bytes(part->store)));
    orr_status status;
    if (records == NULL)
        return orr_fail_memory(err);
    (void)intersect(own, rectangle_of(&from->piece->header), &c.both);
    ORR_TRY_OUT(status, check_columns(&c, err));
    ORR_TRY_OUT(status, orr_table_reader_open(from->file, from->piece, &c.rows, err));
    ORR_TRY_OUT(status, orr_table_reader_open(from->file, from->piece, &c.column_state, err));
    ORR_TRY_OUT(status, orr_table_reader_open(from->file, from->piece, &c.row_state, err));
    status = copy_rows(&c, records, err);
out:
    orr_free(records);
    orr_table_reader_close(&c.rows);
    orr_table_reader_close(&c.column_state);
    orr_table_reader_close(&c.row_state);
    return status;
}

orr_status orr_table_index_restore(const orr_table_index *index, const orr_table_part *part,
                                   orr_error *err)
{
    const int64_t rows = part->table->rows;
    const rectangle own = {orr_embedding_range_begin(rows, part->shard->range_begin),
                           orr_embedding_range_begin(rows, part->shard->range_end),
                           part->shard->column_begin, part->shard->column_end};
    const table_index all = orr_table_index_of(index, part->table->name);
    table_index of = {.at = orr_malloc(((size_t)all.n + 1) * sizeof *of.at), .n = all.n};
    if (of.at == NULL)
        return orr_fail_memory(err);
    memcpy(of.at, all.at, all.n * sizeof *of.at);
    select_pieces(&of, own, part->group);
    orr_status status = check_cover(&of, part->table->name, own, err);
    for (uint32_t i = 0; i < of.n && status == ORR_OK; i++)
        status = copy_piece(&of.at[i], part, own, err);
    orr_free(of.at);
    return status;
}

orr_status orr_checkpoint_restore_tables(const orr_checkpoint *c, const orr_embedding *tables,
                                         uint32_t n_tables, const orr_table_part *parts, uint32_t n,
                                         orr_error *err)
{
    orr_table_index index;
    ORR_TRY(orr_table_index_make(c->tables, c->ranks, &index, err));
    orr_status status = orr_table_index_check(&index, tables, n_tables, true, err);
    for (uint32_t i = 0; i < n && status == ORR_OK; i++)
        status = orr_table_index_restore(&index, &parts[i], err);
    orr_table_index_done(&index);
    return status;
}
