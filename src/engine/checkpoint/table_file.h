/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_CHECKPOINT_TABLE_FILE_H
#define ORR_ENGINE_CHECKPOINT_TABLE_FILE_H

#include <orrery/embedding.h>
#include <orrery/kernel.h>

#include "io/stream/output.h"

/* Files of embedding tables: pieces one behind another, each of them rows and columns of one table,
 * with optimizer state in checkpoints and without in exports, where a file is one whole table. All
 * numbers are little endian. A piece is
 *
 *   header          4,096 bytes: orr_table_header
 *   rows            without state, as orr_row_format has them, one behind another; so rows of a
 *                   mapped file begin at a page. Zeros up to a multiple of 64
 *   column state    fp32, shape (rows, columns): sums of squares of Adagrad, first moments of
 *                   row-wise Adam
 *   row state       fp32, shape (rows): mean squares of row-wise Adagrad, second moments of
 *                   row-wise Adam. Zeros up to a multiple of 8
 *   hashes          uint64, one for each 2^20 bytes from the rows on (the last may be shorter), and
 *                   one of these hashes: XXH3 with 64 bits. Zeros up to a multiple of 4,096 */
enum {
    ORR_TABLE_PAGE = 4096,
    ORR_TABLE_CHUNK = 1 << 20, /* bytes that have a hash */
    ORR_TABLE_NAME_CHARS = 256,
};
#define ORR_TABLE_MAGIC "orrery.table/1\n"

typedef struct orr_table_header {
    char magic[16];
    uint64_t bytes;                   /* of the piece; the next one begins behind it */
    int64_t step;                     /* after which this was the table */
    int64_t rows, row_begin, row_end; /* of the table; of the piece */
    uint32_t columns, column_begin, column_end;
    uint32_t group; /* of ranks that have copies of their own (orr_embedding_plan.groups) */
    uint8_t format, optimizer, has_state, reserved[5];
    char name[ORR_TABLE_NAME_CHARS];
    uint8_t zeros[ORR_TABLE_PAGE - 88 - ORR_TABLE_NAME_CHARS];
    uint64_t hash; /* XXH3 of the bytes before */
} orr_table_header;

/* Where the parts of a piece are. Offsets: from the rows on. */
typedef struct orr_table_layout {
    int64_t row_bytes, column_state_bytes, row_state_bytes; /* of a row */
    int64_t column_state_at, row_state_at;
    int64_t bytes;  /* of rows and state */
    int64_t chunks; /* with a hash */
    int64_t piece_bytes;
} orr_table_layout;
/* INVALID: what no table is: rows or columns out of order or not in blocks of ORR_EMBEDDING_BLOCK,
 * a size over 2^62 bytes. */
orr_status orr_table_layout_of(const orr_table_header *header, orr_table_layout *ret,
                               orr_error *err) ORR_MUST_CHECK;
/* The header of rows row_begin .. row_end - 1 and columns column_begin .. column_end - 1 of a
 * table. INVALID: a name that is too long; as above. */
orr_status orr_table_header_make(const orr_embedding *table, const int64_t rows[2],
                                 const uint32_t columns[2], bool has_state, int64_t step,
                                 orr_table_header *ret, orr_error *err) ORR_MUST_CHECK;

/* Writes a piece behind what was written. */
typedef struct orr_table_writer {
    orr_output *out;
    orr_table_layout layout;
    int64_t written;  /* of rows and state */
    uint64_t *hashes; /* shape (chunks + 1) */
    uint8_t *chunk;   /* shape (ORR_TABLE_CHUNK) */
} orr_table_writer;
orr_status orr_table_write_begin(orr_output *out, const orr_table_header *header,
                                 orr_table_writer *ret, orr_error *err) ORR_MUST_CHECK;
/* The next bytes of rows and state, with the zeros between them. */
void orr_table_write_bytes(orr_table_writer *writer, const void *bytes, int64_t n);
/* After the last row or state, or, not `complete`, after an error. Errors of writing are told by
 * orr_output_finish(). */
void orr_table_write_end(orr_table_writer *writer, bool complete);

/* An open file. Headers have been checked, and that all pieces are there in full; hashes of rows
 * and state are checked as they are read. Threads: any, each with readers of its own. */
typedef struct orr_table_piece {
    orr_table_header header;
    orr_table_layout layout;
    uint64_t at; /* its header, in the file */
} orr_table_piece;
typedef struct orr_table_file {
    char *path;
    int fd;
    orr_table_piece *pieces; /* shape (n) */
    uint32_t n;
} orr_table_file;
/* Errors: IO; NOT_FOUND: no such file; PARSE as "file: byte N: what is wrong": no such header, a
 * hash that differs, a file that ends within a piece. */
orr_status orr_table_file_open(const char *path, orr_table_file **ret,
                               orr_error *err) ORR_MUST_CHECK;
void orr_table_file_close(orr_table_file *file); /* NULL is allowed */

typedef struct orr_table_reader {
    const orr_table_file *file;
    const orr_table_piece *piece;
    uint64_t *hashes;
    uint8_t *chunk; /* the last one that was read */
    int64_t number; /* of it; -1: none */
} orr_table_reader;
orr_status orr_table_reader_open(const orr_table_file *file, const orr_table_piece *piece,
                                 orr_table_reader *ret, orr_error *err) ORR_MUST_CHECK;
void orr_table_reader_close(orr_table_reader *reader);
/* Bytes of rows and state. PARSE: their hash differs. */
orr_status orr_table_read(orr_table_reader *reader, int64_t at, int64_t n, void *ret,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_CHECKPOINT_TABLE_FILE_H */
