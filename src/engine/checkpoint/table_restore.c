/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/checkpoint/table_image.h"

/* Restores shards of embedding tables from whichever pieces the files of a checkpoint have: rows
 * and columns that overlap are copied. */

typedef struct found {
    const orr_table_file *file;
    const orr_table_piece *piece;
} found;

/* Rows and columns of a table. */
typedef struct rectangle {
    int64_t row_begin, row_end;
    uint32_t column_begin, column_end;
} rectangle;

/* Pieces of all files, by table, then first row. */
typedef struct table_index {
    found *at;
    uint32_t n;
} table_index;

static int by_name_and_row(const void *a_, const void *b_)
{
    const orr_table_header *a = &((const found *)a_)->piece->header,
                           *b = &((const found *)b_)->piece->header;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->row_begin > b->row_begin) - (a->row_begin < b->row_begin);
}

static orr_status make_index(const orr_checkpoint *c, table_index *ret, orr_error *err)
{
    uint32_t n = 0;
    for (uint32_t r = 0; r < c->ranks; r++)
        n += c->tables[r] != NULL ? c->tables[r]->n : 0;
    table_index index = {.at = orr_calloc((size_t)n + 1, sizeof *index.at)};
    if (index.at == NULL)
        return orr_fail_memory(err);
    for (uint32_t r = 0; r < c->ranks; r++)
        for (uint32_t i = 0; c->tables[r] != NULL && i < c->tables[r]->n; i++)
            index.at[index.n++] = (found){c->tables[r], &c->tables[r]->pieces[i]};
    qsort(index.at, index.n, sizeof *index.at, by_name_and_row);
    *ret = index;
    return ORR_OK;
}

/* The pieces of one table. */
static table_index pieces_of(const table_index *index, const char *name)
{
    uint32_t low = 0, n = 0;
    for (uint32_t high = index->n; low < high;) {
        const uint32_t mid = low + (high - low) / 2;
        if (strcmp(index->at[mid].piece->header.name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    while (low + n < index->n && strcmp(index->at[low + n].piece->header.name, name) == 0)
        n++;
    return (table_index){index->at + low, n};
}

enum { SHAPE_CHARS = 96 };

static const char *shape_text(int64_t rows, uint32_t columns, uint8_t format, uint8_t optimizer,
                              char ret[SHAPE_CHARS])
{
    snprintf(ret, SHAPE_CHARS, "%lld x %u in %s with %s", (long long)rows, columns,
             orr_row_format_name((orr_row_format)format),
             orr_row_optimizer_name((orr_row_optimizer)optimizer));
    return ret;
}

static orr_status check_table(const orr_embedding *t, const table_index *of, orr_error *err)
{
    char is[SHAPE_CHARS], should[SHAPE_CHARS];
    shape_text(t->rows, t->columns, t->format, t->optimizer, should);
    if (of->n == 0)
        return orr_fail(err, ORR_INVALID,
                        "the checkpoint is of another model: it has no table %s (%s)", t->name,
                        should);
    for (uint32_t i = 0; i < of->n; i++) {
        const orr_table_header *h = &of->at[i].piece->header;
        if (h->rows == t->rows && h->columns == t->columns && h->format == t->format &&
            h->optimizer == t->optimizer && h->has_state)
            continue;
        return orr_fail(err, ORR_INVALID,
                        "the checkpoint is of another model: its table %s is %s%s, and should be "
                        "%s",
                        t->name, shape_text(h->rows, h->columns, h->format, h->optimizer, is),
                        h->has_state ? "" : " without its state", should);
    }
    return ORR_OK;
}

/* A table of the checkpoint that the model does not have. */
static orr_status fail_unknown(const table_index *index, const orr_embedding *tables,
                               uint32_t n_tables, orr_error *err)
{
    char shape[SHAPE_CHARS];
    for (uint32_t i = 0; i < index->n; i++) {
        const orr_table_header *h = &index->at[i].piece->header;
        uint32_t t = 0;
        while (t < n_tables && strcmp(tables[t].name, h->name) != 0)
            t++;
        if (t == n_tables)
            return orr_fail(err, ORR_INVALID,
                            "the checkpoint is of another model: it has a table %s (%s), which the "
                            "model has not",
                            h->name,
                            shape_text(h->rows, h->columns, h->format, h->optimizer, shape));
    }
    return ORR_OK;
}

static orr_status check_tables(const table_index *index, const orr_embedding *tables,
                               uint32_t n_tables, orr_error *err)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < n_tables; t++) {
        const table_index of = pieces_of(index, tables[t].name);
        ORR_TRY(check_table(&tables[t], &of, err));
        n += of.n;
    }
    return n == index->n ? ORR_OK : fail_unknown(index, tables, n_tables, err);
}

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

static orr_status copy_rows(copying *c, orr_error *err)
{
    orr_row_store *store = c->part->store;
    orr_record_block block;
    for (int64_t first = c->both.row_begin; first < c->both.row_end; first += block.n) {
        const int64_t left = c->both.row_end - first;
        orr_status status = ORR_OK;
        ORR_TRY(orr_record_block_fetch(store, first - c->own.row_begin,
                                       left < ORR_TABLE_BLOCK_ROWS ? left : ORR_TABLE_BLOCK_ROWS,
                                       &block, err));
        for (int64_t i = 0; i < block.n && status == ORR_OK; i++)
            status = copy_row(
                c, first + i, block.record[i],
                orr_row_store_state(store, block.record[i], first + i - c->own.row_begin), err);
        orr_record_block_release(&block, true);
        ORR_TRY(status);
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
    orr_status status;
    (void)intersect(own, rectangle_of(&from->piece->header), &c.both);
    ORR_TRY(check_columns(&c, err));
    ORR_TRY_OUT(status, orr_table_reader_open(from->file, from->piece, &c.rows, err));
    ORR_TRY_OUT(status, orr_table_reader_open(from->file, from->piece, &c.column_state, err));
    ORR_TRY_OUT(status, orr_table_reader_open(from->file, from->piece, &c.row_state, err));
    status = copy_rows(&c, err);
out:
    orr_table_reader_close(&c.rows);
    orr_table_reader_close(&c.column_state);
    orr_table_reader_close(&c.row_state);
    return status;
}

static orr_status restore_part(const table_index *index, const orr_table_part *part, orr_error *err)
{
    const int64_t rows = part->table->rows;
    const rectangle own = {orr_embedding_range_begin(rows, part->shard->range_begin),
                           orr_embedding_range_begin(rows, part->shard->range_end),
                           part->shard->column_begin, part->shard->column_end};
    const table_index all = pieces_of(index, part->table->name);
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
    table_index index;
    ORR_TRY(make_index(c, &index, err));
    orr_status status = check_tables(&index, tables, n_tables, err);
    for (uint32_t i = 0; i < n && status == ORR_OK; i++)
        status = restore_part(&index, &parts[i], err);
    orr_free(index.at);
    return status;
}
