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
/* `files`: shape (n_files); NULL: none. */
orr_status orr_table_index_make(orr_table_file *const *files, uint32_t n_files,
                                orr_table_index *ret, orr_error *err) ORR_MUST_CHECK;
void orr_table_index_done(orr_table_index *index);
/* The pieces of one table; belongs to the index. */
orr_table_index orr_table_index_of(const orr_table_index *index, const char *name);
/* INVALID: tables of another model. */
orr_status orr_table_index_check(const orr_table_index *index, const orr_embedding *tables,
                                 uint32_t n_tables, bool has_state, orr_error *err) ORR_MUST_CHECK;
/* Reads n shards, and their state where pieces have it. INVALID: rows that no piece has. */
orr_status orr_table_index_restore(const orr_table_index *index, const orr_table_part *parts,
                                   uint32_t n, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_CHECKPOINT_TABLE_INDEX_H */
