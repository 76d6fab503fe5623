/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stddef.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "engine/checkpoint/table_file.h"

/* The layout of files of embedding tables, and their writer. */

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
              "tables are written as they are in memory");
static_assert(sizeof(orr_table_header) == ORR_TABLE_PAGE, "the header is a page");

static const uint8_t ZEROS[ORR_TABLE_PAGE];

static int64_t align_up(int64_t n, int64_t to)
{
    return (n + to - 1) / to * to;
}

/* Bytes of a row's state for each of its columns. */
static int64_t column_state_of(const orr_table_header *h)
{
    const bool has = h->has_state && (h->optimizer == ORR_ROW_OPTIMIZER_ADAGRAD ||
                                      h->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM);
    return has ? (int64_t)sizeof(float) * (h->column_end - h->column_begin) : 0;
}

static int64_t row_state_of(const orr_table_header *h)
{
    const bool has = h->has_state && (h->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAGRAD ||
                                      h->optimizer == ORR_ROW_OPTIMIZER_ROWWISE_ADAM);
    return has ? (int64_t)sizeof(float) : 0;
}

static bool has_shape(const orr_table_header *h)
{
    return h->format < ORR_ROW_FORMATS && h->optimizer < ORR_ROW_OPTIMIZERS && h->rows > 0 &&
           h->row_begin >= 0 && h->row_begin <= h->row_end && h->row_end <= h->rows &&
           h->columns > 0 && h->columns <= INT32_MAX && h->column_begin < h->column_end &&
           h->column_end <= h->columns && h->column_begin % ORR_EMBEDDING_BLOCK == 0 &&
           (h->column_end % ORR_EMBEDDING_BLOCK == 0 || h->column_end == h->columns);
}

orr_status orr_table_layout_of(const orr_table_header *h, orr_table_layout *ret, orr_error *err)
{
    const int64_t most = INT64_C(1) << 62;
    if (!has_shape(h))
        return orr_fail(
            err, ORR_INVALID,
            "rows %lld to %lld of %lld, columns %u to %u of %u, format %u, optimizer %u: "
            "no table is so",
            (long long)h->row_begin, (long long)h->row_end, (long long)h->rows, h->column_begin,
            h->column_end, h->columns, h->format, h->optimizer);
    const int64_t rows = h->row_end - h->row_begin;
    orr_table_layout l = {.row_bytes = orr_row_format_bytes((orr_row_format)h->format,
                                                            h->column_end - h->column_begin),
                          .column_state_bytes = column_state_of(h),
                          .row_state_bytes = row_state_of(h)};
    if (l.row_bytes <= 0)
        return orr_fail(err, ORR_INVALID, "%u columns are no whole number of blocks of %s",
                        h->column_end - h->column_begin,
                        orr_row_format_name((orr_row_format)h->format));
    if (rows > most / (l.row_bytes + l.column_state_bytes + l.row_state_bytes + 64))
        return orr_fail(err, ORR_INVALID, "%lld rows of %lld bytes are too many", (long long)rows,
                        (long long)l.row_bytes);
    l.column_state_at = align_up(rows * l.row_bytes, 64);
    l.row_state_at = l.column_state_at + rows * l.column_state_bytes;
    l.bytes = align_up(l.row_state_at + rows * l.row_state_bytes, 8);
    l.chunks = (l.bytes + ORR_TABLE_CHUNK - 1) / ORR_TABLE_CHUNK;
    l.piece_bytes = align_up(ORR_TABLE_PAGE + l.bytes + (l.chunks + 1) * (int64_t)sizeof(uint64_t),
                             ORR_TABLE_PAGE);
    *ret = l;
    return ORR_OK;
}

orr_status orr_table_header_make(const orr_embedding *table, const int64_t rows[2],
                                 const uint32_t columns[2], bool has_state, int64_t step,
                                 orr_table_header *ret, orr_error *err)
{
    orr_table_layout layout;
    orr_table_header h = {.magic = ORR_TABLE_MAGIC,
                          .step = step,
                          .rows = table->rows,
                          .row_begin = rows[0],
                          .row_end = rows[1],
                          .columns = table->columns,
                          .column_begin = columns[0],
                          .column_end = columns[1],
                          .format = table->format,
                          .optimizer = table->optimizer,
                          .has_state = has_state};
    const size_t n = strlen(table->name);
    if (n == 0 || n >= sizeof h.name)
        return orr_fail(err, ORR_INVALID, "table '%.40s...': a name of %zu characters, of 1 to %zu",
                        table->name, n, sizeof h.name - 1);
    memcpy(h.name, table->name, n);
    ORR_TRY(orr_table_layout_of(&h, &layout, err));
    h.bytes = (uint64_t)layout.piece_bytes;
    *ret = h;
    return ORR_OK;
}

orr_status orr_table_write_begin(orr_output *out, const orr_table_header *header,
                                 orr_table_writer *ret, orr_error *err)
{
    orr_table_writer w = {.out = out};
    orr_table_header h = *header;
    ORR_TRY(orr_table_layout_of(&h, &w.layout, err));
    w.hashes = orr_calloc((size_t)w.layout.chunks + 1, sizeof *w.hashes);
    w.chunk = orr_malloc(ORR_TABLE_CHUNK);
    if (w.hashes == NULL || w.chunk == NULL) {
        orr_free(w.hashes);
        orr_free(w.chunk);
        return orr_fail_memory(err);
    }
    h.hash = XXH3_64bits(&h, offsetof(orr_table_header, hash));
    orr_output_write(out, &h, sizeof h);
    *ret = w;
    return ORR_OK;
}

void orr_table_write_bytes(orr_table_writer *w, const void *bytes, int64_t n)
{
    const char *from = bytes;
    while (n > 0) {
        const int64_t at = w->written % ORR_TABLE_CHUNK, room = ORR_TABLE_CHUNK - at;
        const int64_t part = n < room ? n : room;
        memcpy(w->chunk + at, from, (size_t)part);
        w->written += part;
        from += part;
        n -= part;
        if (part < room && w->written < w->layout.bytes)
            continue;
        w->hashes[(w->written - 1) / ORR_TABLE_CHUNK] = XXH3_64bits(w->chunk, (size_t)(at + part));
        orr_output_write(w->out, w->chunk, (size_t)(at + part));
    }
}

static void write_hashes(orr_table_writer *w)
{
    const int64_t chunks = w->layout.chunks, n = (chunks + 1) * (int64_t)sizeof *w->hashes;
    assert(w->layout.bytes - w->written < 64 + 8);
    orr_table_write_bytes(w, ZEROS, w->layout.bytes - w->written);
    w->hashes[chunks] = XXH3_64bits(w->hashes, (size_t)chunks * sizeof *w->hashes);
    orr_output_write(w->out, w->hashes, (size_t)n);
    orr_output_write(w->out, ZEROS,
                     (size_t)(w->layout.piece_bytes - ORR_TABLE_PAGE - w->layout.bytes - n));
}

void orr_table_write_end(orr_table_writer *w, bool complete)
{
    if (complete)
        write_hashes(w);
    orr_free(w->hashes);
    orr_free(w->chunk);
}
