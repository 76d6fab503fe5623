/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_SERVED_TABLES_H
#define TESTS_SERVED_TABLES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/philox.h"
#include "kernel/cpu/embedding/sharded_table.h"
#include "kernel/format/row.h"
#include "store/serve/row_server.h"

/* Tables in memory, packed into a snapshot: what a server must give. */
enum { SERVED_TABLES_MAX = 8 };

typedef struct served_tables {
    uint32_t n;
    orr_row_shard shard[SERVED_TABLES_MAX];
    char *rows[SERVED_TABLES_MAX]; /* as stored */
    char name[SERVED_TABLES_MAX][8];
    orr_row_file_facts facts;
} served_tables;

static inline void served_table_add(served_tables *t, orr_row_format format, int64_t rows,
                                    uint32_t columns)
{
    const uint32_t i = t->n++;
    snprintf(t->name[i], sizeof t->name[i], "t%u", i);
    t->shard[i] = (orr_row_shard){.table = t->name[i],
                                  .table_rows = rows,
                                  .rows = rows,
                                  .table_columns = columns,
                                  .column_end = columns,
                                  .format = (uint8_t)format,
                                  .row_bytes = (uint32_t)orr_row_format_bytes(format, columns)};
    t->rows[i] = orr_calloc((size_t)rows, t->shard[i].row_bytes);
    t->facts = (orr_row_file_facts){
        .model = 17, .seed = 4, .ranks = 1, .n_shards = t->n, .shards = t->shard};
}

/* Numbers of a row. */
static inline void served_row_set(served_tables *t, uint32_t table, int64_t row,
                                  const float *numbers)
{
    const orr_row_shard *s = &t->shard[table];
    orr_row_from_fp32((orr_row_format)s->format, numbers, s->table_columns,
                      t->rows[table] + row * s->row_bytes);
}

static inline void served_tables_fill(served_tables *t, orr_random *random)
{
    for (uint32_t i = 0; i < t->n; i++)
        for (int64_t r = 0; r < t->shard[i].rows; r++) {
            float numbers[1024];
            for (uint32_t j = 0; j < t->shard[i].table_columns; j++)
                numbers[j] = (float)(2 * orr_random_unit(random) - 1);
            served_row_set(t, i, r, numbers);
        }
}

static inline void served_tables_done(served_tables *t)
{
    for (uint32_t i = 0; i < t->n; i++)
        orr_free(t->rows[i]);
}

static inline orr_status served_rows(void *ctx, uint32_t table, int64_t row, int64_t n, void *ret,
                                     orr_error *err)
{
    const served_tables *t = ctx;
    (void)err;
    memcpy(ret, t->rows[table] + row * t->shard[table].row_bytes,
           (size_t)n * t->shard[table].row_bytes);
    return ORR_OK;
}

/* A path for a snapshot: in memory, where there is such a folder. */
static inline void served_path(char *to, size_t room, const char *name)
{
    const char *folder = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(to, room, "%s/%s.%d.rows", folder, name, (int)getpid());
}

/* The sums that training makes of the same lookups in memory. */
static inline orr_status served_sums(const served_tables *t, const orr_row_bags *bags, float *ret,
                                     orr_error *err)
{
    const orr_row_shard *s = &t->shard[bags->table];
    orr_row_store store = {.rows = s->rows,
                           .columns = s->table_columns,
                           .format = s->format,
                           .record_bytes = s->row_bytes,
                           .base = t->rows[bags->table],
                           .slots = s->rows};
    const orr_embedding_shard whole = {.range_end = ORR_EMBEDDING_RANGES,
                                       .column_end = s->table_columns};
    orr_shard_lookups lookups = {.store = &store,
                                 .shard = &whole,
                                 .table_rows = s->rows,
                                 .samples = bags->samples,
                                 .lengths = bags->lengths,
                                 .ids = bags->ids};
    for (int64_t i = 0; i < bags->samples; i++)
        lookups.n += bags->lengths[i];
    void *workspace = orr_malloc_aligned(orr_shard_bag_bytes(&lookups, NULL));
    const orr_status status =
        orr_shard_bag_sums(&lookups, ret, s->table_columns, workspace, NULL, err);
    orr_free(workspace);
    return status;
}

#endif /* TESTS_SERVED_TABLES_H */
