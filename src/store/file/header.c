/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "store/file/header.h"

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "headers are written as in memory");

typedef struct disk_header {
    char magic[16];
    uint32_t bytes, sector; /* of the header with its hash; of the device */
    uint64_t file_id, model, seed;
    uint32_t rank, ranks, n_shards, zero;
    uint64_t device_bytes;
} disk_header;
static_assert(sizeof(disk_header) == 72, "no padding");

typedef struct disk_shard {
    int64_t table_rows, first_row, rows;
    uint32_t columns, column_begin, column_end;
    uint8_t format, optimizer, zeros[2];
    uint32_t row_bytes, state_bytes;
    uint32_t name_bytes, zero;
} disk_shard;
static_assert(sizeof(disk_shard) == 56, "no padding");

static size_t padded(size_t n)
{
    return (n + 7) & ~(size_t)7;
}

orr_status orr_row_header_write(const orr_row_header *header, orr_arena *arena, void **ret,
                                size_t *ret_bytes, orr_error *err)
{
    const orr_row_file_facts *f = &header->facts;
    size_t n = sizeof(disk_header) + ORR_ROW_HASH_BYTES;
    for (uint32_t i = 0; i < f->n_shards; i++)
        n += sizeof(disk_shard) + padded(strlen(f->shards[i].table));
    const size_t bytes = (n + header->sector - 1) / header->sector * header->sector;
    if (bytes > ORR_ROW_FILE_HEADER_BYTES)
        return orr_fail(err, ORR_LIMIT, "%u shards are too many for a header", f->n_shards);
    char *out = orr_arena_array(arena, char, bytes);
    if (out == NULL)
        return orr_fail_memory(err);
    disk_header h = {.magic = ORR_ROW_FILE_MAGIC,
                     .bytes = (uint32_t)n,
                     .sector = header->sector,
                     .file_id = header->file_id,
                     .model = f->model,
                     .seed = f->seed,
                     .rank = f->rank,
                     .ranks = f->ranks,
                     .n_shards = f->n_shards,
                     .device_bytes = header->device_bytes};
    memcpy(out, &h, sizeof h);
    size_t at = sizeof h;
    for (uint32_t i = 0; i < f->n_shards; i++) {
        const orr_row_shard *s = &f->shards[i];
        const disk_shard d = {.table_rows = s->table_rows,
                              .first_row = s->first_row,
                              .rows = s->rows,
                              .columns = s->table_columns,
                              .column_begin = s->column_begin,
                              .column_end = s->column_end,
                              .format = s->format,
                              .optimizer = s->optimizer,
                              .row_bytes = s->row_bytes,
                              .state_bytes = s->state_bytes,
                              .name_bytes = (uint32_t)strlen(s->table)};
        memcpy(out + at, &d, sizeof d);
        memcpy(out + at + sizeof d, s->table, d.name_bytes);
        at += sizeof d + padded(d.name_bytes);
    }
    const uint64_t hash = XXH3_64bits(out, at);
    memcpy(out + at, &hash, sizeof hash);
    *ret = out;
    *ret_bytes = bytes;
    return ORR_OK;
}

orr_status orr_row_header_bytes(const void *bytes, size_t n, size_t *ret, orr_error *err)
{
    disk_header h;
    if (n < sizeof h || memcmp(bytes, ORR_ROW_FILE_MAGIC, sizeof ORR_ROW_FILE_MAGIC) != 0)
        return orr_fail_byte(err, ORR_PARSE, 0, "byte 0: no file of embedding rows begins here");
    memcpy(&h, bytes, sizeof h);
    if (h.bytes < sizeof h + ORR_ROW_HASH_BYTES || h.bytes > ORR_ROW_FILE_HEADER_BYTES)
        return orr_fail_byte(err, ORR_PARSE, 16, "byte 16: the header of the rows is damaged");
    *ret = h.bytes;
    return ORR_OK;
}

static orr_status read_shards(const char *bytes, size_t end, const disk_header *h, orr_arena *arena,
                              orr_row_shard *ret, orr_error *err)
{
    size_t at = sizeof *h;
    for (uint32_t i = 0; i < h->n_shards; i++) {
        disk_shard d;
        if (end - at < sizeof d)
            break;
        memcpy(&d, bytes + at, sizeof d);
        at += sizeof d;
        if (d.name_bytes > end - at || padded(d.name_bytes) > end - at ||
            memchr(bytes + at, '\0', d.name_bytes) != NULL)
            return orr_fail_byte(err, ORR_PARSE, at, "byte %zu: shard %u has no name", at, i);
        const char *name = orr_arena_strndup(arena, bytes + at, d.name_bytes);
        if (name == NULL)
            return orr_fail_memory(err);
        at += padded(d.name_bytes);
        ret[i] = (orr_row_shard){.table = name,
                                 .table_rows = d.table_rows,
                                 .first_row = d.first_row,
                                 .rows = d.rows,
                                 .table_columns = d.columns,
                                 .column_begin = d.column_begin,
                                 .column_end = d.column_end,
                                 .format = d.format,
                                 .optimizer = d.optimizer,
                                 .row_bytes = d.row_bytes,
                                 .state_bytes = d.state_bytes};
    }
    if (at != end)
        return orr_fail_byte(err, ORR_PARSE, at, "byte %zu: the header has not %u shards", at,
                             h->n_shards);
    return ORR_OK;
}

orr_status orr_row_header_read(const void *bytes, size_t n, orr_arena *arena, orr_row_header *ret,
                               orr_error *err)
{
    disk_header h;
    size_t need;
    uint64_t hash;
    ORR_TRY(orr_row_header_bytes(bytes, n, &need, err));
    memcpy(&h, bytes, sizeof h);
    if (need <= n)
        memcpy(&hash, (const char *)bytes + need - sizeof hash, sizeof hash);
    if (need > n || hash != XXH3_64bits(bytes, need - sizeof hash))
        return orr_fail_byte(err, ORR_PARSE, 0,
                             "byte 0: the header of the rows is damaged: its hash differs");
    if (h.n_shards == 0 || h.n_shards > need / sizeof(disk_shard))
        return orr_fail_byte(err, ORR_PARSE, 56, "byte 56: the header has not %u shards",
                             h.n_shards);
    orr_row_shard *shards = orr_arena_array(arena, orr_row_shard, h.n_shards);
    if (shards == NULL)
        return orr_fail_memory(err);
    ORR_TRY(read_shards(bytes, need - sizeof hash, &h, arena, shards, err));
    *ret = (orr_row_header){.file_id = h.file_id,
                            .sector = h.sector,
                            .device_bytes = h.device_bytes,
                            .facts = {.model = h.model,
                                      .seed = h.seed,
                                      .rank = h.rank,
                                      .ranks = h.ranks,
                                      .n_shards = h.n_shards,
                                      .shards = shards}};
    return ORR_OK;
}

static orr_status check_shard(const orr_row_shard *is, const orr_row_shard *want, uint32_t i,
                              orr_error *err)
{
    if (strcmp(is->table, want->table) != 0)
        return orr_fail(err, ORR_INVALID,
                        "shard %u of the rows is of table %.100s, and %.100s is wanted", i,
                        is->table, want->table);
    if (is->format != want->format || is->row_bytes != want->row_bytes)
        return orr_fail(err, ORR_INVALID,
                        "table %.100s: rows of format %u with %u bytes, and format %u with %u "
                        "bytes is wanted",
                        is->table, is->format, is->row_bytes, want->format, want->row_bytes);
    if (is->optimizer != want->optimizer || is->state_bytes != want->state_bytes)
        return orr_fail(err, ORR_INVALID,
                        "table %.100s: state of optimizer %u with %u bytes, and %u with %u bytes "
                        "is wanted",
                        is->table, is->optimizer, is->state_bytes, want->optimizer,
                        want->state_bytes);
    if (is->table_rows != want->table_rows || is->first_row != want->first_row ||
        is->rows != want->rows || is->table_columns != want->table_columns ||
        is->column_begin != want->column_begin || is->column_end != want->column_end)
        return orr_fail(err, ORR_INVALID,
                        "table %.100s: %lld rows from %lld of %lld, columns %u to %u of %u; wanted "
                        "are %lld rows from %lld of %lld, columns %u to %u of %u",
                        is->table, (long long)is->rows, (long long)is->first_row,
                        (long long)is->table_rows, is->column_begin, is->column_end,
                        is->table_columns, (long long)want->rows, (long long)want->first_row,
                        (long long)want->table_rows, want->column_begin, want->column_end,
                        want->table_columns);
    return ORR_OK;
}

orr_status orr_row_header_check(const orr_row_header *header, const orr_row_file_facts *wanted,
                                orr_error *err)
{
    const orr_row_file_facts *is = &header->facts;
    if (is->model != wanted->model)
        return orr_fail(err, ORR_INVALID,
                        "the rows are of another model: fingerprint %016llx, and %016llx is wanted",
                        (unsigned long long)is->model, (unsigned long long)wanted->model);
    if (is->seed != wanted->seed)
        return orr_fail(err, ORR_INVALID, "the rows began with seed %llu, and %llu is wanted",
                        (unsigned long long)is->seed, (unsigned long long)wanted->seed);
    if (is->rank != wanted->rank || is->ranks != wanted->ranks)
        return orr_fail(err, ORR_INVALID,
                        "the rows are those of rank %u of %u, and %u of %u is "
                        "wanted",
                        is->rank, is->ranks, wanted->rank, wanted->ranks);
    if (is->n_shards != wanted->n_shards)
        return orr_fail(err, ORR_INVALID, "the rows are in %u shards, and %u are wanted",
                        is->n_shards, wanted->n_shards);
    for (uint32_t i = 0; i < is->n_shards; i++)
        ORR_TRY(check_shard(&is->shards[i], &wanted->shards[i], i, err));
    return ORR_OK;
}

orr_status orr_row_facts_copy(const orr_row_file_facts *facts, orr_arena *arena,
                              orr_row_file_facts *ret, orr_error *err)
{
    orr_row_shard *shards = orr_arena_array(arena, orr_row_shard, facts->n_shards);
    if (shards == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < facts->n_shards; i++) {
        shards[i] = facts->shards[i];
        shards[i].table =
            orr_arena_strndup(arena, facts->shards[i].table, strlen(facts->shards[i].table));
        if (shards[i].table == NULL)
            return orr_fail_memory(err);
    }
    *ret = *facts;
    ret->shards = shards;
    return ORR_OK;
}
