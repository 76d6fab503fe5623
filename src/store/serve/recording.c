/* SPDX-License-Identifier: Apache-2.0 */
#include "store/serve/recording.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "io/stream/output.h"

enum {
    LEB_MAX = 10,   /* bytes of a number */
    RUN_ROWS = 512, /* of a run, at most */
    RUN_BYTES = LEB_MAX * (RUN_ROWS + 2),
};

struct orr_recording {
    pthread_mutex_t lock;
    orr_output *out;
};

orr_status orr_recording_open(const char *path, uint32_t tables, orr_recording **ret,
                              orr_error *err)
{
    uint8_t header[ORR_LOOKUPS_HEADER] = ORR_LOOKUPS_MAGIC;
    orr_recording *r = orr_calloc(1, sizeof *r);
    if (r == NULL)
        return orr_fail_memory(err);
    const orr_status status = orr_output_open(path, &r->out, err);
    if (status != ORR_OK) {
        orr_free(r);
        return status;
    }
    pthread_mutex_init(&r->lock, NULL);
    memcpy(header + sizeof ORR_LOOKUPS_MAGIC, &tables, sizeof tables);
    const uint64_t hash = XXH3_64bits(header, ORR_LOOKUPS_HEADER - sizeof hash);
    memcpy(header + ORR_LOOKUPS_HEADER - sizeof hash, &hash, sizeof hash);
    orr_output_write(r->out, header, sizeof header);
    *ret = r;
    return ORR_OK;
}

orr_status orr_recording_finish(orr_recording *recording, orr_error *err)
{
    const orr_status status = orr_output_finish(recording->out, err);
    orr_recording_abandon(recording);
    return status;
}

void orr_recording_abandon(orr_recording *recording)
{
    orr_output_close(recording->out);
    pthread_mutex_destroy(&recording->lock);
    orr_free(recording);
}

static uint32_t put_number(uint8_t *to, uint64_t number)
{
    uint32_t n = 0;
    for (; number > 127; number >>= 7)
        to[n++] = (uint8_t)(number | 128);
    to[n++] = (uint8_t)number;
    return n;
}

void orr_recorder_flush(orr_recorder *recorder, orr_recording *recording)
{
    const uint64_t hash = XXH3_64bits(recorder->block, recorder->used);
    if (recorder->used == 0)
        return;
    pthread_mutex_lock(&recording->lock);
    orr_output_write(recording->out, &recorder->used, sizeof recorder->used);
    orr_output_write(recording->out, &hash, sizeof hash);
    orr_output_write(recording->out, recorder->block, recorder->used);
    pthread_mutex_unlock(&recording->lock);
    recorder->used = 0;
}

void orr_recorder_add(orr_recorder *recorder, orr_recording *recording, uint32_t table,
                      const int64_t *rows, int64_t n)
{
    if (recorder->block == NULL)
        recorder->block = orr_malloc(ORR_LOOKUPS_BLOCK);
    if (recorder->block == NULL)
        return;
    for (int64_t at = 0; at < n; at += RUN_ROWS) {
        const int64_t some = n - at < RUN_ROWS ? n - at : RUN_ROWS;
        int64_t before = 0;
        if (recorder->used + RUN_BYTES > ORR_LOOKUPS_BLOCK)
            orr_recorder_flush(recorder, recording);
        recorder->used += put_number(recorder->block + recorder->used, table);
        recorder->used += put_number(recorder->block + recorder->used, (uint64_t)some);
        for (int64_t i = at; i < at + some; i++) {
            const int64_t step = rows[i] - before;
            recorder->used += put_number(recorder->block + recorder->used,
                                         (uint64_t)step << 1 ^ (uint64_t)(step >> 63));
            before = rows[i];
        }
    }
}

void orr_recorder_done(orr_recorder *recorder)
{
    orr_free(recorder->block);
}

/* --- reading --- */

typedef struct lookups_reader {
    const char *path;
    FILE *file;
    uint64_t at; /* of the file: where the block begins */
    uint32_t tables;
    const int64_t *table_rows;
    orr_lookups_run *run;
    void *ctx;
    uint8_t block[ORR_LOOKUPS_BLOCK];
    int64_t rows[RUN_ROWS];
} lookups_reader;

static bool get_number(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
    *ret = 0;
    for (int shift = 0; shift < 64 && *at < end; shift += 7) {
        const uint8_t byte = *(*at)++;
        *ret |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return true;
    }
    return false;
}

static orr_status read_run(lookups_reader *r, const uint8_t **at, const uint8_t *end,
                           orr_error *err)
{
    uint64_t table, n, step;
    int64_t row = 0;
    if (!get_number(at, end, &table) || !get_number(at, end, &n))
        return orr_fail_byte(err, ORR_PARSE, r->at, "%s: byte %llu: a block ends in a number",
                             r->path, (unsigned long long)r->at);
    if (table >= r->tables || n == 0 || n > RUN_ROWS)
        return orr_fail_byte(
            err, ORR_PARSE, r->at, "%s: byte %llu: %llu lookups in table %llu of %u", r->path,
            (unsigned long long)r->at, (unsigned long long)n, (unsigned long long)table, r->tables);
    for (uint64_t i = 0; i < n; i++) {
        if (!get_number(at, end, &step))
            return orr_fail_byte(err, ORR_PARSE, r->at, "%s: byte %llu: a run ends early", r->path,
                                 (unsigned long long)r->at);
        row = (int64_t)((uint64_t)row + (step >> 1 ^ -(step & 1)));
        if (row < 0 || row >= r->table_rows[table])
            return orr_fail_byte(err, ORR_PARSE, r->at, "%s: byte %llu: row %lld of %lld", r->path,
                                 (unsigned long long)r->at, (long long)row,
                                 (long long)r->table_rows[table]);
        r->rows[i] = row;
    }
    r->run(r->ctx, (uint32_t)table, r->rows, (int64_t)n);
    return ORR_OK;
}

static orr_status read_header(lookups_reader *r, orr_error *err)
{
    uint8_t header[ORR_LOOKUPS_HEADER];
    uint64_t hash;
    uint32_t tables;
    if (fread(header, 1, sizeof header, r->file) != sizeof header ||
        memcmp(header, ORR_LOOKUPS_MAGIC, sizeof ORR_LOOKUPS_MAGIC) != 0)
        return orr_fail(err, ORR_PARSE, "%s: not a recording of lookups", r->path);
    memcpy(&hash, header + sizeof header - sizeof hash, sizeof hash);
    memcpy(&tables, header + sizeof ORR_LOOKUPS_MAGIC, sizeof tables);
    if (hash != XXH3_64bits(header, sizeof header - sizeof hash))
        return orr_fail(err, ORR_PARSE, "%s: the header is damaged", r->path);
    if (tables != r->tables)
        return orr_fail(err, ORR_PARSE, "%s: lookups in %u tables, expected %u", r->path, tables,
                        r->tables);
    r->at = sizeof header;
    return ORR_OK;
}

static orr_status read_block(lookups_reader *r, bool *ret_end, bool *ret_cut, orr_error *err)
{
    uint8_t header[ORR_LOOKUPS_BLOCK_HEADER];
    uint32_t bytes;
    uint64_t hash;
    const size_t got = fread(header, 1, sizeof header, r->file);
    *ret_end = got < sizeof header;
    *ret_cut = *ret_end && got > 0;
    if (*ret_end)
        return ORR_OK;
    memcpy(&bytes, header, sizeof bytes);
    memcpy(&hash, header + sizeof bytes, sizeof hash);
    if (bytes > ORR_LOOKUPS_BLOCK)
        return orr_fail_byte(err, ORR_PARSE, r->at, "%s: byte %llu: a block of %u bytes", r->path,
                             (unsigned long long)r->at, bytes);
    *ret_end = *ret_cut = fread(r->block, 1, bytes, r->file) < bytes;
    if (*ret_end)
        return ORR_OK;
    if (hash != XXH3_64bits(r->block, bytes))
        return orr_fail_byte(err, ORR_PARSE, r->at, "%s: byte %llu: a block is damaged", r->path,
                             (unsigned long long)r->at);
    for (const uint8_t *at = r->block; at < r->block + bytes;)
        ORR_TRY(read_run(r, &at, r->block + bytes, err));
    r->at += sizeof header + bytes;
    return ORR_OK;
}

orr_status orr_recording_read(const char *path, uint32_t tables, const int64_t *table_rows,
                              orr_lookups_run *rows, void *ctx, bool *ret_cut, orr_error *err)
{
    lookups_reader *r = orr_malloc(sizeof *r);
    if (r == NULL)
        return orr_fail_memory(err);
    r->path = path;
    r->tables = tables;
    r->table_rows = table_rows;
    r->run = rows;
    r->ctx = ctx;
    r->file = fopen(path, "rbe");
    orr_status status = ORR_OK;
    if (r->file == NULL)
        status = orr_fail(err, errno == ENOENT ? ORR_NOT_FOUND : ORR_IO, "%s: %s", path,
                          strerror(errno));
    bool end = false, cut = false;
    if (status == ORR_OK)
        status = read_header(r, err);
    while (status == ORR_OK && !end)
        status = read_block(r, &end, &cut, err);
    if (r->file != NULL)
        (void)fclose(r->file);
    orr_free(r);
    if (status == ORR_OK)
        *ret_cut = cut;
    return status;
}
