/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_CHECKPOINT_STORED_ROWS_H
#define ORR_ENGINE_CHECKPOINT_STORED_ROWS_H

#include "engine/checkpoint/checkpoint.h"

/* Rows that a store committed with a checkpoint, read as pieces of tables whichever shards they
 * are. The file is only read, so that its owner may have it open, and stays as it is. */
typedef struct orr_stored_rows {
    char path[ORR_CHECKPOINT_PATH];
    orr_tier tier;
    int64_t step;
    uint32_t group;
    uint64_t seed;                 /* of initial values */
    uint32_t n;                    /* shards */
    orr_table_piece *pieces;       /* shape (n) */
    orr_tables_drawing *drawings;  /* shape (n): for initial values */
    orr_store *store;              /* NULL: closed */
    struct orr_stored_rows **open; /* of all files the one that is open */
} orr_stored_rows;
/* Reads of which shards a file is, from its header alone. Opened anew when rows are read, one file
 * at a time. `tables`: the model's, which must outlive this. NOT_FOUND: no such file; PARSE: a
 * damaged header; INVALID: a table that the model does not have, or another seed. */
orr_status orr_stored_rows_find(const orr_checkpoint *checkpoint, uint32_t rank, orr_tier tier,
                                const orr_embedding *tables, uint32_t n_tables,
                                orr_stored_rows *ret, orr_error *err) ORR_MUST_CHECK;
void orr_stored_rows_done(orr_stored_rows *rows);
/* n rows, from the `first` of the shard on, as records: a row, then its state. NOT_FOUND: the file
 * has no commit of the step; PARSE: it is damaged. */
orr_status orr_stored_rows_read(orr_stored_rows *rows, uint32_t shard, int64_t first, int64_t n,
                                char *records, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_CHECKPOINT_STORED_ROWS_H */
