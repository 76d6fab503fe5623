/* SPDX-License-Identifier: Apache-2.0 */
#include "job_csv.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, orr_arena *arena)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL)
        return NULL;
    char *text = NULL;
    long size = -1;
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0) {
        rewind(file);
        text = orr_arena_array(arena, char, (size_t)size + 1);
    }
    if (text != NULL && fread(text, 1, (size_t)size, file) != (size_t)size)
        text = NULL;
    if (text != NULL)
        text[size] = '\0';
    fclose(file);
    return text;
}

/* Take one cell, decoded in place; *at is left behind its comma or newline. True when it was the
 * last of its line. */
static bool take(char **at, const char **ret_cell)
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

static size_t count_separators(const char *text)
{
    size_t n = 2;
    for (; *text != '\0'; text++)
        n += *text == ',' || *text == '\n';
    return n;
}

bool job_csv_open(const char *path, orr_arena *arena, job_csv *ret)
{
    char *at = read_file(path, arena);
    if (at == NULL)
        return false;
    job_csv table = {.cells = orr_arena_array(arena, const char *, count_separators(at))};
    size_t n = 0;
    if (table.cells == NULL)
        return false;
    while (*at != '\0')
        if (take(&at, &table.cells[n++]) && table.n_columns == 0)
            table.n_columns = n;
    if (table.n_columns == 0 || n % table.n_columns != 0)
        return false;
    table.n_rows = n / table.n_columns - 1;
    table.asked = orr_arena_one(arena, job_csv_asked);
    bool *columns = orr_arena_array(arena, bool, table.n_columns);
    if (table.asked == NULL || columns == NULL)
        return false;
    memset(columns, 0, table.n_columns * sizeof *columns);
    *table.asked = (job_csv_asked){.columns = columns};
    *ret = table;
    return true;
}

bool job_csv_has(const job_csv *table, const char *column)
{
    for (size_t c = 0; c < table->n_columns; c++)
        if (strcmp(table->cells[c], column) == 0)
            return true;
    return false;
}

const char *job_csv_text(const job_csv *table, size_t row, const char *column)
{
    for (size_t c = 0; c < table->n_columns; c++)
        if (strcmp(table->cells[c], column) == 0) {
            table->asked->columns[c] = true;
            return table->cells[(row + 1) * table->n_columns + c];
        }
    if (table->asked->absent == NULL)
        table->asked->absent = column;
    return "";
}

static void note(const job_csv *table, size_t row, const char *column, const char *cell)
{
    table->asked->row = row;
    table->asked->column = column;
    table->asked->cell = cell;
}

double job_csv_number(const job_csv *table, size_t row, const char *column)
{
    const char *text = job_csv_text(table, row, column);
    char *end;
    const double value = strtod(text, &end);
    if (end != text && *end == '\0')
        return value;
    if (*text != '\0')
        note(table, row, column, text);
    return NAN;
}

uint32_t job_csv_count(const job_csv *table, size_t row, const char *column)
{
    static const char *const NOTHING[] = {"", "-", "none", "None", "n/a", "N/A", "NA", "nan"};
    const char *text = job_csv_text(table, row, column);
    char *end;
    const double value = strtod(text, &end);
    if (end != text && *end == '\0' && value >= 0 && value <= UINT32_MAX &&
        value == (double)(uint32_t)value)
        return (uint32_t)value;
    for (size_t i = 0; i < sizeof NOTHING / sizeof *NOTHING; i++)
        if (strcmp(text, NOTHING[i]) == 0)
            return 0;
    note(table, row, column, text);
    return 0;
}
