/* SPDX-License-Identifier: Apache-2.0 */
#include "report/table/cell.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "io/json/number.h"

static orr_cell of_int(int64_t value)
{
    return (orr_cell){ORR_CELL_INT, {.i64 = value}};
}

static orr_cell of_uint(uint64_t value)
{
    return (orr_cell){ORR_CELL_UINT, {.u64 = value}};
}

static orr_cell of_double(double value)
{
    return isnan(value) ? (orr_cell){0} : (orr_cell){ORR_CELL_DOUBLE, {.number = value}};
}

orr_cell orr_table_cell(const orr_table *table, size_t row, const orr_column *column)
{
    const void *at = (const char *)table->rows + row * table->row_bytes + column->offset;
    switch (column->type) {
    case ORR_COLUMN_TEXT: {
        const char *text = *(const char *const *)at;
        return text ? (orr_cell){ORR_CELL_TEXT, {.text = text}} : (orr_cell){0};
    }
    case ORR_COLUMN_BOOL:
        return (orr_cell){ORR_CELL_BOOL, {.truth = *(const bool *)at}};
    case ORR_COLUMN_U8:
        return of_uint(*(const uint8_t *)at);
    case ORR_COLUMN_U32: {
        const uint32_t value = *(const uint32_t *)at;
        return value == ORR_NONE ? (orr_cell){0} : of_uint(value);
    }
    case ORR_COLUMN_U64:
        return of_uint(*(const uint64_t *)at);
    case ORR_COLUMN_I32:
        return of_int(*(const int32_t *)at);
    case ORR_COLUMN_BYTES: {
        const int64_t bytes = *(const int64_t *)at;
        return bytes == -1 ? (orr_cell){0} : of_int(bytes);
    }
    case ORR_COLUMN_I64:
    case ORR_COLUMN_NS:
        return of_int(*(const int64_t *)at);
    case ORR_COLUMN_BYTES_PER_S: {
        const double rate = *(const double *)at;
        return rate == 0 ? (orr_cell){0} : of_double(rate);
    }
    case ORR_COLUMN_NUMBER:
    case ORR_COLUMN_NS_MEAN:
    case ORR_COLUMN_FRAC:
        return of_double(*(const double *)at);
    }
    return (orr_cell){0};
}

static void exact_double(char buf[ORR_HUMAN_MAX], double value)
{
    if (isfinite(value))
        buf[orr_print_double(buf, value)] = '\0';
    else
        snprintf(buf, ORR_HUMAN_MAX, "%s", value > 0 ? "inf" : "-inf");
}

const char *orr_cell_exact(const orr_cell *cell, char buf[ORR_HUMAN_MAX])
{
    buf[0] = '\0';
    switch (cell->kind) {
    case ORR_CELL_NONE:
        break;
    case ORR_CELL_TEXT:
        return cell->as.text;
    case ORR_CELL_BOOL:
        return cell->as.truth ? "true" : "false";
    case ORR_CELL_INT:
        snprintf(buf, ORR_HUMAN_MAX, "%" PRId64, cell->as.i64);
        break;
    case ORR_CELL_UINT:
        snprintf(buf, ORR_HUMAN_MAX, "%" PRIu64, cell->as.u64);
        break;
    case ORR_CELL_DOUBLE:
        exact_double(buf, cell->as.number);
        break;
    }
    return buf;
}

double orr_cell_number(orr_cell cell)
{
    switch (cell.kind) {
    case ORR_CELL_INT:
        return (double)cell.as.i64;
    case ORR_CELL_UINT:
        return (double)cell.as.u64;
    case ORR_CELL_DOUBLE:
        return cell.as.number;
    default:
        return 0;
    }
}

const char *orr_cell_human(const orr_cell *cell, orr_column_type type, char buf[ORR_HUMAN_MAX])
{
    if (cell->kind == ORR_CELL_NONE)
        return "";
    if (cell->kind == ORR_CELL_TEXT)
        return cell->as.text;
    if (cell->kind == ORR_CELL_BOOL)
        return cell->as.truth ? "yes" : "no";
    switch (type) {
    case ORR_COLUMN_NS:
    case ORR_COLUMN_NS_MEAN:
        return orr_human_ns(buf, orr_cell_number(*cell));
    case ORR_COLUMN_BYTES:
        return orr_human_bytes(buf, orr_cell_number(*cell));
    case ORR_COLUMN_BYTES_PER_S:
        return orr_human_bytes_per_s(buf, orr_cell_number(*cell));
    case ORR_COLUMN_FRAC:
        return orr_human_frac(buf, orr_cell_number(*cell));
    case ORR_COLUMN_NUMBER:
        return orr_human_number(buf, orr_cell_number(*cell));
    default:
        return orr_cell_exact(cell, buf);
    }
}

void orr_column_heading(const orr_column *column, char buf[ORR_HUMAN_MAX])
{
    static const char *const units[] = {"_bytes_per_s", "_bytes", "_ns"};
    snprintf(buf, ORR_HUMAN_MAX, "%s", column->name);
    size_t n = strlen(buf);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        const size_t u = strlen(units[i]);
        if (n > u && strcmp(buf + n - u, units[i]) == 0) {
            n -= u;
            buf[n] = '\0';
            break;
        }
    }
    if (n >= 10 && strcmp(buf + n - 10, "share_frac") == 0)
        buf[n - 5] = '\0';
    else if (n >= 4 && strcmp(buf + n - 4, "frac") == 0)
        snprintf(buf + n - 4, ORR_HUMAN_MAX - n + 4, "share");
    for (char *c = buf; *c; c++)
        if (*c == '_')
            *c = ' ';
}

static bool is_empty(const orr_table *table, const orr_column *column)
{
    for (size_t r = 0; r < table->n_rows; r++) {
        const orr_cell cell = orr_table_cell(table, r, column);
        if (cell.kind != ORR_CELL_NONE && (cell.kind != ORR_CELL_TEXT || cell.as.text[0]))
            return false;
    }
    return true;
}

orr_table orr_table_without_empty_columns(const orr_table *table,
                                          orr_column columns[ORR_COLUMNS_MAX])
{
    orr_table telling = *table;
    telling.columns = columns;
    telling.n_columns = 0;
    for (size_t c = 0; c < table->n_columns && telling.n_columns < ORR_COLUMNS_MAX; c++)
        if (!is_empty(table, &table->columns[c]))
            columns[telling.n_columns++] = table->columns[c];
    return telling;
}

const char *orr_column_type_name(orr_column_type type)
{
    static const char *const names[] = {"text",  "bool",        "uint",   "uint", "uint",
                                        "int",   "int",         "number", "ns",   "ns",
                                        "bytes", "bytes_per_s", "frac"};
    return (size_t)type < sizeof names / sizeof names[0] ? names[type] : "unknown";
}
