/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/search/sql_table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/array.h"
#include "io/json/number.h"

enum { CELLS_MAX = 40 * 1000 * 1000 };

/* A value as it came; its first eight bytes are what the table's column finds there in the end. */
typedef struct cell {
    union {
        int64_t i64;
        double number;
        const char *text;
    };
    uint8_t kind; /* orr_value_kind */
} cell;
typedef orr_array(cell) cell_array;

static const int64_t EXACT_IN_A_DOUBLE = INT64_C(1) << 53;

/* --- rows ------------------------------------------------------------------------------------ */

static orr_status read_cell(const orr_query *query, int column, orr_arena *arena, cell *ret,
                            orr_error *err)
{
    *ret = (cell){.kind = (uint8_t)orr_query_kind(query, column)};
    switch (ret->kind) {
    case ORR_VALUE_INT:
        ret->i64 = orr_query_int(query, column);
        return ORR_OK;
    case ORR_VALUE_NUMBER:
        ret->number = orr_query_number(query, column);
        return ORR_OK;
    default:
        return orr_query_text(query, column, arena, &ret->text, err);
    }
}

static orr_status read_rows(orr_query *query, orr_arena *arena, cell_array *cells, orr_error *err)
{
    for (bool row = true;;) {
        ORR_TRY(orr_query_step(query, &row, err));
        if (!row)
            return ORR_OK;
        for (int c = 0; c < orr_query_columns(query); c++) {
            cell value;
            ORR_TRY(read_cell(query, c, arena, &value, err));
            if (cells->n >= CELLS_MAX)
                return orr_fail(err, ORR_LIMIT, "more than %d values: add LIMIT to the query",
                                (int)CELLS_MAX);
            if (!orr_array_push(cells, value))
                return orr_fail_memory(err);
        }
    }
}

/* --- columns --------------------------------------------------------------------------------- */

/* What there is in a column. */
typedef struct contents {
    bool nulls, ints, numbers, texts, large;
} contents;

static contents look(const cell *cells, size_t n_rows, size_t n_columns)
{
    contents are = {0};
    for (size_t r = 0; r < n_rows; r++) {
        const cell *value = &cells[r * n_columns];
        are.nulls |= value->kind == ORR_VALUE_NULL;
        are.ints |= value->kind == ORR_VALUE_INT;
        are.numbers |= value->kind == ORR_VALUE_NUMBER;
        are.texts |= value->kind == ORR_VALUE_TEXT || value->kind == ORR_VALUE_BYTES;
        are.large |= value->kind == ORR_VALUE_INT &&
                     (value->i64 > EXACT_IN_A_DOUBLE || value->i64 < -EXACT_IN_A_DOUBLE);
    }
    return are;
}

static bool ends_in(const char *name, const char *ending)
{
    const size_t n = strlen(name), e = strlen(ending);
    return n > e && strcmp(name + n - e, ending) == 0;
}

static orr_column_type type_of(const char *name, const contents *are)
{
    const bool as_numbers = are->numbers || (are->ints && are->nulls);
    if (are->texts || (!are->ints && !are->numbers) || (as_numbers && are->large))
        return ORR_COLUMN_TEXT;
    if (ends_in(name, "_ns"))
        return as_numbers ? ORR_COLUMN_NS_MEAN : ORR_COLUMN_NS;
    if (ends_in(name, "_frac"))
        return ORR_COLUMN_FRAC;
    if (ends_in(name, "_bytes") && !are->numbers)
        return ORR_COLUMN_BYTES;
    return as_numbers ? ORR_COLUMN_NUMBER : ORR_COLUMN_I64;
}

static const char *text_of(const cell *value, orr_arena *arena)
{
    char digits[ORR_DOUBLE_CHARS];
    switch (value->kind) {
    case ORR_VALUE_NULL:
        return NULL;
    case ORR_VALUE_INT:
        return orr_arena_printf(arena, "%" PRId64, value->i64);
    case ORR_VALUE_NUMBER:
        if (!isfinite(value->number))
            return value->number > 0 ? "inf" : "-inf";
        return orr_arena_strndup(arena, digits, orr_print_double(digits, value->number));
    default:
        return value->text;
    }
}

/* As its column has it. */
static bool convert(cell *value, orr_column_type type, orr_arena *arena)
{
    const bool null = value->kind == ORR_VALUE_NULL, is_int = value->kind == ORR_VALUE_INT;
    switch (type) {
    case ORR_COLUMN_TEXT:
        value->text = text_of(value, arena);
        return value->text != NULL || null;
    case ORR_COLUMN_BYTES:
        value->i64 = null ? -1 : value->i64;
        return true;
    case ORR_COLUMN_NS_MEAN:
    case ORR_COLUMN_FRAC:
    case ORR_COLUMN_NUMBER:
        value->number = null ? NAN : is_int ? (double)value->i64 : value->number;
        return true;
    default:
        return true;
    }
}

/* "plan", and the second of that name "plan_2". */
static const char *name_of(const orr_query *query, const orr_column *columns, size_t c,
                           orr_arena *arena)
{
    const char *given = orr_query_column_name(query, (int)c);
    if (given == NULL)
        return NULL;
    const char *name = orr_arena_printf(arena, "%s", given);
    for (int nth = 2, same = 1; name != NULL && same; nth++) {
        same = 0;
        for (size_t k = 0; k < c; k++)
            same |= strcmp(columns[k].name, name) == 0;
        if (same)
            name = orr_arena_printf(arena, "%s_%d", given, nth);
    }
    return name;
}

static bool make_columns(const orr_query *query, cell *cells, size_t n_rows, orr_column *columns,
                         size_t n, orr_arena *arena)
{
    for (size_t c = 0; c < n; c++) {
        const contents are = look(cells + c, n_rows, n);
        const char *name = name_of(query, columns, c, arena);
        if (name == NULL)
            return false;
        columns[c] =
            (orr_column){.name = name, .type = type_of(name, &are), .offset = c * sizeof(cell)};
        for (size_t r = 0; r < n_rows; r++)
            if (!convert(&cells[r * n + c], columns[c].type, arena))
                return false;
    }
    return true;
}

orr_status orr_sql_table(orr_query *query, orr_arena *arena, orr_table *ret, orr_error *err)
{
    const size_t n = (size_t)orr_query_columns(query);
    cell_array cells = {0};
    orr_column *columns = orr_arena_array(arena, orr_column, n);
    cell *rows = NULL;
    orr_status status =
        columns != NULL ? read_rows(query, arena, &cells, err) : orr_fail_memory(err);
    if (status == ORR_OK && ((rows = orr_arena_array(arena, cell, cells.n)) == NULL ||
                             !make_columns(query, cells.at, cells.n / n, columns, n, arena)))
        status = orr_fail_memory(err);
    if (status == ORR_OK) {
        if (cells.n > 0)
            memcpy(rows, cells.at, cells.n * sizeof *rows);
        *ret = (orr_table){.schema = "orrery.sql/1",
                           .columns = columns,
                           .n_columns = n,
                           .rows = rows,
                           .row_bytes = n * sizeof(cell),
                           .n_rows = cells.n / n};
    }
    orr_array_done(&cells);
    return status;
}
