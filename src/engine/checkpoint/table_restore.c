/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/checkpoint/table_image.h"
#include "engine/checkpoint/table_index.h"

/* Restores shards of embedding tables from whichever pieces the files of a checkpoint have: rows
 * and columns that overlap are copied. */

typedef orr_found_piece found;

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

/* Some of a part that a piece has. */
typedef struct overlap {
    const orr_table_part *part;
    const found *piece;
    rectangle own, both;
} overlap;
typedef struct overlaps {
    overlap *at;
    size_t n, room;
} overlaps;

/* Checks that pieces cover a part. `of`: what they have of it, by first row; shape (n). For each
 * block of columns the rows are counted that are covered from the first on. */
static orr_status check_cover(const overlap *of, size_t n, const char *name, rectangle all,
                              orr_error *err)
{
    const uint32_t blocks =
        (all.column_end - all.column_begin + ORR_EMBEDDING_BLOCK - 1) / ORR_EMBEDDING_BLOCK;
    int64_t *covered = orr_malloc((size_t)blocks * sizeof *covered);
    orr_status status = covered != NULL ? ORR_OK : orr_fail_memory(err);
    for (uint32_t b = 0; b < blocks && status == ORR_OK; b++)
        covered[b] = all.row_begin;
    for (size_t i = 0; i < n && status == ORR_OK; i++) {
        const rectangle both = of[i].both;
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

static orr_status add_overlap(overlaps *o, const overlap *one, orr_error *err)
{
    if (o->n == o->room) {
        const size_t room = o->room + o->room / 2 + 16;
        overlap *larger = orr_realloc(o->at, room * sizeof *larger);
        if (larger == NULL)
            return orr_fail_memory(err);
        o->at = larger;
        o->room = room;
    }
    o->at[o->n++] = *one;
    return ORR_OK;
}

/* Groups of ranks that have copies of their own. */
static uint32_t groups_of(const orr_table_index *of)
{
    uint32_t groups = 1;
    for (uint32_t i = 0; i < of->n; i++)
        if (of->at[i].header->group >= groups)
            groups = of->at[i].header->group + 1;
    return groups;
}

static bool is_same(rectangle a, rectangle b)
{
    return a.row_begin == b.row_begin && a.row_end == b.row_end &&
           a.column_begin == b.column_begin && a.column_end == b.column_end;
}

/* Adds what pieces have of a part, of the group whose copy is wanted; with another number of groups
 * the copies of group 0 are taken. What is on every rank is taken once. */
static orr_status find_overlaps(const orr_table_index *index, const orr_table_part *part,
                                overlaps *ret, orr_error *err)
{
    const int64_t rows = part->table->rows;
    const rectangle own = {orr_embedding_range_begin(rows, part->shard->range_begin),
                           orr_embedding_range_begin(rows, part->shard->range_end),
                           part->shard->column_begin, part->shard->column_end};
    const orr_table_index of = orr_table_index_of(index, part->table->name);
    const uint32_t group = part->group < groups_of(&of) ? part->group : 0;
    const size_t before = ret->n;
    for (uint32_t i = 0; i < of.n; i++) {
        overlap one = {.part = part, .piece = &of.at[i], .own = own};
        if (of.at[i].header->group != group ||
            !intersect(own, rectangle_of(of.at[i].header), &one.both) ||
            (ret->n > before && is_same(ret->at[ret->n - 1].both, one.both)))
            continue;
        ORR_TRY(add_overlap(ret, &one, err));
    }
    return ret->n == before
               ? check_cover(NULL, 0, part->table->name, own, err)
               : check_cover(ret->at + before, ret->n - before, part->table->name, own, err);
}

/* Copies what a piece has of a part, a block of rows at a time. */
typedef struct copying {
    const overlap *o;
    orr_piece_reader reader;
    int64_t from_bytes, to_bytes; /* of a record */
    char *from, *to, *before;     /* blocks of records: of the piece, of the part, as it was */
} copying;

/* Bytes of n columns, of a section whose rows have `bytes` for `columns` columns. */
static int64_t columns_bytes(int64_t bytes, uint32_t columns, uint32_t n)
{
    return bytes / columns * n;
}

/* Rows that are not plain numbers are copied whole, see check_columns(). */
static void copy_record(const copying *c, const char *from, char *to)
{
    const orr_table_header *h = c->o->piece->header;
    const orr_table_layout *l = c->o->piece->layout;
    const uint32_t width = h->column_end - h->column_begin,
                   own_width = c->o->own.column_end - c->o->own.column_begin,
                   n = c->o->both.column_end - c->o->both.column_begin,
                   at = c->o->both.column_begin - h->column_begin,
                   to_at = c->o->both.column_begin - c->o->own.column_begin;
    const int64_t row = l->row_bytes, state = l->column_state_bytes;
    const int64_t bytes = n == width ? row : columns_bytes(row, width, n);
    memcpy(to + columns_bytes(row, width, to_at), from + columns_bytes(row, width, at),
           (size_t)bytes);
    from += row;
    to += c->o->part->store->record_bytes;
    memcpy(to + columns_bytes(state, width, to_at), from + columns_bytes(state, width, at),
           (size_t)columns_bytes(state, width, n));
    memcpy(to + columns_bytes(state, width, own_width), from + state, (size_t)l->row_state_bytes);
}

/* Rows that have their initial values in storage need not be written there. */
static orr_status write_changed(const copying *c, int64_t first, int64_t n, orr_error *err)
{
    const size_t bytes = (size_t)c->to_bytes;
    for (int64_t i = 0, run; i < n; i += run) {
        bool changed = false;
        for (run = 0; i + run < n; run++) {
            const size_t at = (size_t)(i + run) * bytes;
            const bool differs = memcmp(c->to + at, c->before + at, bytes) != 0;
            if (run > 0 && differs != changed)
                break;
            changed = differs;
        }
        if (changed)
            ORR_TRY(orr_row_store_write(c->o->part->store, first + i, run,
                                        c->to + (size_t)i * bytes, err));
    }
    return ORR_OK;
}

static orr_status copy_rows(copying *c, orr_error *err)
{
    const overlap *o = c->o;
    orr_row_store *store = o->part->store;
    for (int64_t first = o->both.row_begin, n; first < o->both.row_end; first += n) {
        const int64_t left = o->both.row_end - first, at = first - o->own.row_begin;
        n = left < ORR_TABLE_BLOCK_ROWS ? left : ORR_TABLE_BLOCK_ROWS;
        ORR_TRY(orr_piece_read(&c->reader, first - o->piece->header->row_begin, n, c->from, err));
        ORR_TRY(orr_row_store_read(store, at, n, c->to, err));
        memcpy(c->before, c->to, (size_t)(n * c->to_bytes));
        for (int64_t i = 0; i < n; i++)
            copy_record(c, c->from + i * c->from_bytes, c->to + i * c->to_bytes);
        ORR_TRY(write_changed(c, at, n, err));
    }
    return ORR_OK;
}

/* Only numbers of whole bytes can be divided by columns. */
static orr_status check_columns(const overlap *o, orr_error *err)
{
    const orr_table_header *h = o->piece->header;
    const uint32_t n = o->both.column_end - o->both.column_begin;
    if ((n == h->column_end - h->column_begin && n == o->own.column_end - o->own.column_begin) ||
        h->format <= ORR_ROW_FORMAT_BF16)
        return ORR_OK;
    return orr_fail(err, ORR_UNSUPPORTED, "table %s: rows in %s are not divided by columns",
                    h->name, orr_row_format_name((orr_row_format)h->format));
}

static orr_status copy_overlap(const overlap *o, orr_error *err)
{
    copying c = {.o = o,
                 .from_bytes = orr_piece_record_bytes(o->piece),
                 .to_bytes = orr_row_store_bytes(o->part->store)};
    orr_status status;
    ORR_TRY(check_columns(o, err));
    ORR_TRY(orr_piece_reader_open(o->piece, &c.reader, err));
    c.from = orr_malloc((size_t)(ORR_TABLE_BLOCK_ROWS * c.from_bytes));
    c.to = orr_malloc((size_t)(ORR_TABLE_BLOCK_ROWS * c.to_bytes));
    c.before = orr_malloc((size_t)(ORR_TABLE_BLOCK_ROWS * c.to_bytes));
    status = c.from != NULL && c.to != NULL && c.before != NULL ? copy_rows(&c, err)
                                                                : orr_fail_memory(err);
    orr_free(c.from);
    orr_free(c.to);
    orr_free(c.before);
    orr_piece_reader_close(&c.reader);
    return status;
}

static int by_source(const void *a_, const void *b_)
{
    const overlap *a = a_, *b = b_;
    if (a->piece->source != b->piece->source)
        return a->piece->source < b->piece->source ? -1 : 1;
    return (a->piece > b->piece) - (a->piece < b->piece);
}

orr_status orr_table_index_restore(const orr_table_index *index, const orr_table_part *parts,
                                   uint32_t n, orr_error *err)
{
    overlaps all = {0};
    orr_status status = ORR_OK;
    for (uint32_t i = 0; i < n && status == ORR_OK; i++)
        status = find_overlaps(index, &parts[i], &all, err);
    if (status == ORR_OK && all.n > 0)
        qsort(all.at, all.n, sizeof *all.at, by_source);
    for (size_t i = 0; i < all.n && status == ORR_OK; i++)
        status = copy_overlap(&all.at[i], err);
    orr_free(all.at);
    return status;
}

orr_status orr_checkpoint_restore_tables(const orr_checkpoint *c, const orr_embedding *tables,
                                         uint32_t n_tables, const orr_table_part *parts, uint32_t n,
                                         orr_error *err)
{
    orr_checkpoint_tables all;
    ORR_TRY(orr_checkpoint_tables_open(c, tables, n_tables, &all, err));
    orr_status status = orr_table_index_check(&all.index, tables, n_tables, true, err);
    if (status == ORR_OK)
        status = orr_table_index_restore(&all.index, parts, n, err);
    orr_checkpoint_tables_close(&all);
    return status;
}

orr_status orr_checkpoint_restore_table_files(const orr_checkpoint *c, const orr_embedding *tables,
                                              uint32_t n_tables, const orr_table_part *parts,
                                              uint32_t n, orr_error *err)
{
    orr_table_index index;
    ORR_TRY(orr_table_index_make(c->tables, c->ranks, NULL, 0, &index, err));
    orr_status status = orr_table_index_check(&index, tables, n_tables, true, err);
    if (status == ORR_OK)
        status = orr_table_index_restore(&index, parts, n, err);
    orr_table_index_done(&index);
    return status;
}
