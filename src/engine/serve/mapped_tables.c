/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/serve/mapped_tables.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "kernel/cpu/embedding/sharded_table.h"
#include "kernel/format/row.h"

typedef struct table {
    orr_table_file *file;
    orr_table_reader reader;
    bool reads;
    void *map; /* of the whole file; NULL: not mapped */
    size_t map_bytes;
    orr_row_store rows;
    orr_embedding_shard whole;
} table;

struct orr_mapped_tables {
    uint32_t n;
    orr_embedding *about; /* shape (n) */
    table *at;            /* shape (n) */
    uint64_t fingerprint;
};

enum { BAG_MAX = 65535 }; /* lookups of a bag, as in training */

static orr_status check_table(const orr_table_file *file, const orr_embedding *of, orr_error *err)
{
    const orr_table_header *h = file->n == 1 ? &file->pieces[0].header : NULL;
    if (h == NULL || h->row_end - h->row_begin != h->rows ||
        h->column_end - h->column_begin != h->columns)
        return orr_fail(err, ORR_INVALID, "%s is not one whole table", file->path);
    if (h->rows != of->rows || h->columns != of->columns || strcmp(h->name, of->name) != 0)
        return orr_fail(err, ORR_INVALID,
                        "%s: table %s of %lld rows and %u columns, and the model's is %s of %lld "
                        "rows and %u columns",
                        file->path, h->name, (long long)h->rows, h->columns, of->name,
                        (long long)of->rows, of->columns);
    return ORR_OK;
}

/* Every row is read once, so that damage is found before anybody is answered. */
static orr_status check_hashes(const table *t, const char *rows, orr_error *err)
{
    const orr_table_piece *piece = t->reader.piece;
    for (int64_t i = 0; i < piece->layout.chunks; i++) {
        const int64_t at = i * ORR_TABLE_CHUNK, left = piece->layout.bytes - at;
        const size_t n = (size_t)(left < ORR_TABLE_CHUNK ? left : ORR_TABLE_CHUNK);
        if (XXH3_64bits(rows + at, n) != t->reader.hashes[i])
            return orr_fail(err, ORR_PARSE, "%s: byte %lld: table %s is damaged: a hash differs",
                            t->file->path, (long long)(at + ORR_TABLE_PAGE), piece->header.name);
    }
    return ORR_OK;
}

static orr_status map_rows(table *t, const orr_embedding *about, orr_error *err)
{
    const orr_table_piece *piece = &t->file->pieces[0];
    t->map_bytes = (size_t)piece->header.bytes;
    void *map = mmap(NULL, t->map_bytes, PROT_READ, MAP_SHARED, t->file->fd, 0);
    if (map == MAP_FAILED)
        return orr_fail(err, ORR_IO, "%s cannot be mapped", t->file->path);
    t->map = map;
    char *rows = (char *)map + ORR_TABLE_PAGE;
    (void)madvise(map, t->map_bytes, MADV_SEQUENTIAL);
    ORR_TRY(check_hashes(t, rows, err));
    (void)madvise(map, t->map_bytes, MADV_RANDOM);
    t->rows = (orr_row_store){.rows = about->rows,
                              .columns = about->columns,
                              .format = about->format,
                              .optimizer = about->optimizer,
                              .record_bytes = piece->layout.row_bytes,
                              .base = rows};
    t->whole =
        (orr_embedding_shard){.range_end = ORR_EMBEDDING_RANGES, .column_end = about->columns};
    return ORR_OK;
}

static orr_status open_table(orr_mapped_tables *m, uint32_t i, const char *folder, bool mapped,
                             orr_error *err)
{
    table *t = &m->at[i];
    orr_embedding *about = &m->about[i];
    char path[4096];
    const int n = snprintf(path, sizeof path, "%s/%s.table", folder, about->name);
    if (n < 0 || (size_t)n >= sizeof path)
        return orr_fail(err, ORR_INVALID, "%s: too long a path", folder);
    ORR_TRY(orr_table_file_open(path, &t->file, err));
    ORR_TRY(check_table(t->file, about, err));
    about->format = t->file->pieces[0].header.format;
    ORR_TRY(orr_table_reader_open(t->file, &t->file->pieces[0], &t->reader, err));
    t->reads = true;
    const int64_t facts[] = {about->rows, about->columns, about->format};
    const uint64_t all = t->reader.hashes[t->file->pieces[0].layout.chunks];
    m->fingerprint = XXH3_64bits_withSeed(facts, sizeof facts, m->fingerprint);
    m->fingerprint = XXH3_64bits_withSeed(&all, sizeof all, m->fingerprint);
    return mapped ? map_rows(t, about, err) : ORR_OK;
}

orr_status orr_mapped_tables_open(const char *folder, const orr_embedding *tables, uint32_t n,
                                  bool mapped, orr_mapped_tables **ret, orr_error *err)
{
    orr_mapped_tables *m = orr_calloc(1, sizeof *m);
    if (m == NULL)
        return orr_fail_memory(err);
    m->about = orr_calloc((size_t)n + 1, sizeof *m->about);
    m->at = orr_calloc((size_t)n + 1, sizeof *m->at);
    orr_status status = m->about != NULL && m->at != NULL ? ORR_OK : orr_fail_memory(err);
    if (status == ORR_OK) {
        m->n = n;
        if (n > 0)
            memcpy(m->about, tables, n * sizeof *tables);
    }
    for (uint32_t i = 0; status == ORR_OK && i < n; i++)
        status = open_table(m, i, folder, mapped, err);
    if (status == ORR_OK)
        *ret = m;
    else
        orr_mapped_tables_close(m);
    return status;
}

void orr_mapped_tables_close(orr_mapped_tables *m)
{
    if (m == NULL)
        return;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->at[i].reads)
            orr_table_reader_close(&m->at[i].reader);
        if (m->at[i].map != NULL)
            (void)munmap(m->at[i].map, m->at[i].map_bytes);
        orr_table_file_close(m->at[i].file);
    }
    orr_free(m->about);
    orr_free(m->at);
    orr_free(m);
}

const orr_embedding *orr_mapped_tables_of(const orr_mapped_tables *m)
{
    return m->about;
}

uint64_t orr_mapped_tables_fingerprint(const orr_mapped_tables *m)
{
    return m->fingerprint;
}

void orr_lookup_space_done(orr_lookup_space *space)
{
    orr_free(space->at);
    *space = (orr_lookup_space){0};
}

orr_status orr_check_bags(const orr_embedding *about, const orr_row_bags *b, orr_error *err)
{
    const int64_t *id = b->ids;
    for (int64_t s = 0; s < b->samples; s++) {
        if (b->lengths[s] < 0 || b->lengths[s] > BAG_MAX)
            return orr_fail(err, ORR_INVALID, "table %s, sample %lld: %d lookups, of %d at most",
                            about->name, (long long)s, b->lengths[s], BAG_MAX);
        for (int32_t k = 0; k < b->lengths[s]; k++, id++)
            if (*id < 0 || *id >= about->rows)
                return orr_fail(err, ORR_INVALID, "table %s, sample %lld: id %lld of %lld rows",
                                about->name, (long long)s, (long long)*id, (long long)about->rows);
    }
    return ORR_OK;
}

static int64_t lookups_of(const orr_row_bags *b)
{
    int64_t n = 0;
    for (int64_t s = 0; s < b->samples; s++)
        n += b->lengths[s];
    return n;
}

orr_status orr_mapped_tables_bags(const orr_mapped_tables *m, const orr_row_bags *bags, uint32_t n,
                                  orr_lookup_space *space, orr_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        const orr_row_bags *b = &bags[i];
        table *t = &m->at[b->table];
        ORR_TRY(orr_check_bags(&m->about[b->table], b, err));
        const orr_shard_lookups lookups = {.store = &t->rows,
                                           .shard = &t->whole,
                                           .table_rows = t->rows.rows,
                                           .samples = b->samples,
                                           .n = lookups_of(b),
                                           .lengths = b->lengths,
                                           .ids = b->ids};
        const size_t bytes = orr_shard_bag_bytes(&lookups, NULL);
        if (bytes > space->bytes) {
            orr_lookup_space_done(space);
            space->at = orr_malloc_aligned(bytes);
            if (space->at == NULL)
                return orr_fail_memory(err);
            space->bytes = bytes;
        }
        ORR_TRY(orr_shard_bag_sums(&lookups, b->ret, b->ret_stride, space->at, NULL, err));
    }
    return ORR_OK;
}

orr_status orr_mapped_tables_read(void *ctx, uint32_t i, int64_t row, int64_t n, void *ret_rows,
                                  orr_error *err)
{
    orr_mapped_tables *m = ctx;
    table *t = &m->at[i];
    const int64_t bytes = t->reader.piece->layout.row_bytes;
    return orr_table_read(&t->reader, row * bytes, n * bytes, ret_rows, err);
}
