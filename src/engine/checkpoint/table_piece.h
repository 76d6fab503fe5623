/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_CHECKPOINT_TABLE_PIECE_H
#define ORR_ENGINE_CHECKPOINT_TABLE_PIECE_H

#include "engine/checkpoint/stored_rows.h"

/* A piece of an embedding table that a checkpoint or an export has: some rows and columns. */
typedef struct orr_found_piece {
    const orr_table_header *header;
    const orr_table_layout *layout;
    uint32_t source; /* number of the file that has it: pieces of one are read together */
    const orr_table_file *file;
    const orr_table_piece *piece;
    orr_stored_rows *stored; /* NULL: in `file`; else a shard of rows that a store has */
    uint32_t shard;
} orr_found_piece;

/* Reads rows of a piece as records: a row of all columns of the piece, then its optimizer state
 * where the piece has it. */
typedef struct orr_piece_reader {
    const orr_found_piece *from;
    orr_table_reader rows, column_state,
        row_state; /* of a file: each keeps the chunk that it read last */
} orr_piece_reader;
orr_status orr_piece_reader_open(const orr_found_piece *piece, orr_piece_reader *ret,
                                 orr_error *err) ORR_MUST_CHECK;
void orr_piece_reader_close(orr_piece_reader *reader);
int64_t orr_piece_record_bytes(const orr_found_piece *piece);
/* n rows, from the `first` of the piece on. `records`: shape (n, orr_piece_record_bytes()). PARSE:
 * a hash differs. */
orr_status orr_piece_read(orr_piece_reader *reader, int64_t first, int64_t n, char *records,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_CHECKPOINT_TABLE_PIECE_H */
