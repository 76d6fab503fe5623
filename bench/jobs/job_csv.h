/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOB_CSV_H
#define JOB_CSV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <orrery/arena.h>

/* A table as CSV (RFC 4180: quoted fields, doubled quotes), whole in memory. */
typedef struct job_csv {
    size_t n_rows, n_columns; /* the header not counted */
    const char **cells;       /* shape (1 + n_rows, n_columns); row 0 is the header */
    struct job_csv_asked *asked;
} job_csv;

/* What was asked of a table, and what it could not answer: so that no reader has to look twice. */
typedef struct job_csv_asked {
    bool *columns;      /* shape (n_columns): somebody asked for it */
    const char *absent; /* the first column asked for that the table does not have; NULL */
    size_t row;         /* of the last cell that is no number */
    const char *column; /* its column; NULL: none */
    const char *cell;
} job_csv_asked;

/* False: no such file, or it is no table. */
bool job_csv_open(const char *path, orr_arena *arena, job_csv *ret);
bool job_csv_has(const job_csv *table, const char *column);
/* "": no such column (which is noted as absent), or nothing in it. */
const char *job_csv_text(const job_csv *table, size_t row, const char *column);
/* NAN: nothing, or no number (which is noted, unless the cell is empty). */
double job_csv_number(const job_csv *table, size_t row, const char *column);
/* 0: nothing, or "none", "n/a", "-"; other cells that are no whole number are noted. */
uint32_t job_csv_count(const job_csv *table, size_t row, const char *column);

#endif /* JOB_CSV_H */
