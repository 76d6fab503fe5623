/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_CHECKPOINT_TABLE_INDEX_H
#define ORR_ENGINE_CHECKPOINT_TABLE_INDEX_H

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/table_piece.h"

/* Pieces of all files, by name of table, then first row. */
typedef struct orr_table_index {
    orr_found_piece *at; /* shape (n) */
    uint32_t n;
} orr_table_index;
/* `files`: shape (n_files), NULL: none; `stored`: shape (n_stored). */
orr_status orr_table_index_make(orr_table_file *const *files, uint32_t n_files,
                                orr_stored_rows *stored, uint32_t n_stored, orr_table_index *ret,
                                orr_error *err) ORR_MUST_CHECK;
void orr_table_index_done(orr_table_index *index);
/* All pieces of a checkpoint: those in its files of tables, and those that stores have. */
typedef struct orr_checkpoint_tables {
    orr_table_index index;
    orr_stored_rows *stored, *open; /* shape (n_stored); the one that is open */
    uint32_t n_stored;
} orr_checkpoint_tables;
/* `ret` stays where it is until it is closed. Errors: those of orr_stored_rows_find(). */
orr_status orr_checkpoint_tables_open(const orr_checkpoint *checkpoint, const orr_embedding *tables,
                                      uint32_t n_tables, orr_checkpoint_tables *ret,
                                      orr_error *err) ORR_MUST_CHECK;
void orr_checkpoint_tables_close(orr_checkpoint_tables *tables);
/* The pieces of one table; belongs to the index. */
orr_table_index orr_table_index_of(const orr_table_index *index, const char *name);
/* INVALID: tables of another model. */
orr_status orr_table_index_check(const orr_table_index *index, const orr_embedding *tables,
                                 uint32_t n_tables, bool has_state, orr_error *err) ORR_MUST_CHECK;
/* Reads n shards, and their state where pieces have it. INVALID: rows that no piece has. */
orr_status orr_table_index_restore(const orr_table_index *index, const orr_table_part *parts,
                                   uint32_t n, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_CHECKPOINT_TABLE_INDEX_H */
