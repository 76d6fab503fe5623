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
} job_csv;

/* False: no such file, or it is no table. */
bool job_csv_open(const char *path, orr_arena *arena, job_csv *ret);
/* "": no such column, or nothing in it. */
const char *job_csv_text(const job_csv *table, size_t row, const char *column);
/* NAN and 0: nothing, or no number. */
double job_csv_number(const job_csv *table, size_t row, const char *column);
uint32_t job_csv_count(const job_csv *table, size_t row, const char *column);

#endif /* JOB_CSV_H */
