/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CSV_H
#define CSV_H

/* A small table as CSV (RFC 4180: quoted fields, doubled quotes), whole in memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/arena.h>

typedef struct csv {
    size_t n_rows, n_columns; /* the header not counted */
    const char **cells;       /* shape (1 + n_rows, n_columns); row 0 is the header */
} csv;

static inline char *csv_read_file(const char *path, orr_arena *arena)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    const long size = ftell(file);
    rewind(file);
    char *text = orr_arena_array(arena, char, (size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, (size_t)size, file), (size_t)size);
    fclose(file);
    return text;
}

/* Take one cell, decoded in place; *at is left behind its comma or newline. True when it was
 * the last of its line. */
static inline bool csv_take(char **at, const char **ret_cell)
{
    char *in = *at, *out = *at;
    bool quoted = false;
    *ret_cell = out;
    for (; *in != '\0'; in++) {
        if (*in == '"') {
            if (quoted && in[1] == '"')
                *out++ = *in++;
            else
                quoted = !quoted;
        } else if (!quoted && (*in == ',' || *in == '\n')) {
            break;
        } else if (quoted || *in != '\r') {
            *out++ = *in;
        }
    }
    const bool last = *in != ',';
    *at = *in == '\0' ? in : in + 1;
    *out = '\0';
    return last;
}

/* False when there is no such file. A file without a header has no columns. */
static inline bool csv_open(const char *path, orr_arena *arena, csv *ret)
{
    char *at = csv_read_file(path, arena);
    if (at == NULL)
        return false;
    *ret = (csv){0};
    size_t n = 0, room = 0, columns = 0;
    while (*at != '\0') {
        if (n == room) {
            const char **cells = orr_arena_array(arena, const char *, 2 * room + 1024);
            assert_non_null(cells);
            if (n > 0)
                memcpy(cells, ret->cells, n * sizeof *cells);
            ret->cells = cells;
            room = 2 * room + 1024;
        }
        if (csv_take(&at, &ret->cells[n++]) && columns == 0)
            columns = n;
    }
    if (columns < 2) /* pandas writes an empty table as one newline */
        return true;
    assert_int_equal(n % columns, 0);
    ret->n_columns = columns;
    ret->n_rows = n / columns - 1;
    return true;
}

static inline const char *csv_text(const csv *table, size_t row, const char *column)
{
    for (size_t c = 0; c < table->n_columns; c++)
        if (strcmp(table->cells[c], column) == 0)
            return table->cells[(row + 1) * table->n_columns + c];
    fail_msg("no column %s", column);
    return NULL;
}

static inline double csv_number(const csv *table, size_t row, const char *column)
{
    const char *text = csv_text(table, row, column);
    char *end;
    const double value = strtod(text, &end);
    if (end == text || *end != '\0')
        fail_msg("row %zu: %s is not a number: '%s'", row, column, text);
    return value;
}

#endif /* CSV_H */
