/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/traces/condition.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/closest.h"
#include "base/units.h"
#include "report/table/cell.h"

#define DEFAULT_TABLE "temporal_breakdown"

/* text[0..len) without blanks at its ends, into word[0..size). False when it does not fit. */
static bool copy_trimmed(char *word, size_t size, const char *text, size_t len)
{
    while (len && *text == ' ')
        text++, len--;
    while (len && text[len - 1] == ' ')
        len--;
    return len && (size_t)snprintf(word, size, "%.*s", (int)len, text) < size;
}

orr_status orr_condition_unknown_analysis(const char *option, const char *word, orr_error *err)
{
    enum { MOST = 64 };
    const char *names[MOST];
    size_t n;
    const orr_analysis *all = orr_analyses(&n);

    for (size_t i = 0; i < n && i < MOST; i++)
        names[i] = all[i].name;
    const char *close = orr_closest_match(word, names, n < MOST ? n : MOST);
    return close ? orr_fail(err, ORR_INVALID, "%s: no analysis '%s'; did you mean '%s'?", option,
                            word, close)
                 : orr_fail(err, ORR_INVALID, "%s: no analysis '%s'; --only list lists them",
                            option, word);
}

orr_status orr_condition_parse(const char *text, orr_condition *ret, orr_error *err)
{
    char name[128], number[sizeof ret->number];

    *ret = (orr_condition){0};
    if (!text)
        return ORR_OK;
    const size_t name_len = strcspn(text, "<>=!");
    const size_t op_len = strspn(text + name_len, "<>=!");
    if (op_len > 2 || strpbrk(text + name_len + op_len, "<>=!") ||
        !copy_trimmed(name, sizeof name, text, name_len) ||
        !copy_trimmed(number, sizeof number, text + name_len + op_len,
                      strlen(text + name_len + op_len)))
        return orr_fail(err, ORR_INVALID, "--fail-if: '%s' is not TABLE.COLUMN OPERATOR NUMBER",
                        text);
    memcpy(ret->op, text + name_len, op_len);
    const char *const known[] = {"<", "<=", ">", ">=", "==", "!="};
    bool is_known = false;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        is_known |= strcmp(ret->op, known[i]) == 0;
    if (!is_known)
        return orr_fail(err, ORR_INVALID, "--fail-if: no operator '%s'", ret->op);
    memcpy(ret->number, number, sizeof ret->number);
    char *dot = strchr(name, '.');
    if (dot)
        *dot = '\0';
    ret->analysis = orr_analysis_find(dot ? name : DEFAULT_TABLE);
    if (!ret->analysis)
        return orr_condition_unknown_analysis("--fail-if", name, err);
    if (!copy_trimmed(ret->column, sizeof ret->column, dot ? dot + 1 : name,
                      strlen(dot ? dot + 1 : name)))
        return orr_fail(err, ORR_INVALID, "--fail-if: no column is named");
    return ORR_OK;
}

/* The number of the condition in the unit of the column. */
static orr_status number_for(const char *number, orr_column_type type, double *ret, orr_error *err)
{
    char *end;
    int64_t ns;
    uint64_t count;

    *ret = strtod(number, &end);
    if (end != number && isfinite(*ret) && (*end == '\0' || strcmp(end, "%") == 0)) {
        *ret /= *end ? 100 : 1;
        return ORR_OK;
    }
    switch (type) {
    case ORR_COLUMN_NS:
    case ORR_COLUMN_NS_MEAN:
        ORR_TRY(orr_parse_duration(number, &ns, err));
        *ret = (double)ns;
        return ORR_OK;
    case ORR_COLUMN_BYTES:
        ORR_TRY(orr_parse_bytes(number, &count, err));
        *ret = (double)count;
        return ORR_OK;
    case ORR_COLUMN_BYTES_PER_S:
        return orr_parse_bandwidth(number, ret, err);
    case ORR_COLUMN_FRAC:
    case ORR_COLUMN_NUMBER:
        return orr_fail(err, ORR_INVALID, "'%s' is not a number", number);
    default:
        ORR_TRY(orr_parse_count(number, &count, err));
        *ret = (double)count;
        return ORR_OK;
    }
}

bool orr_condition_applies_to(const orr_condition *condition, const char *analysis)
{
    return condition->analysis && strcmp(condition->analysis->name, analysis) == 0;
}

static bool holds(const char *op, double a, double b)
{
    switch (op[0]) {
    case '<':
        return op[1] ? a <= b : a < b;
    case '>':
        return op[1] ? a >= b : a > b;
    case '=':
        return a == b;
    default:
        return a != b;
    }
}

static bool cell_number(const orr_cell *cell, double *ret)
{
    switch (cell->kind) {
    case ORR_CELL_BOOL:
        *ret = cell->as.truth;
        return true;
    case ORR_CELL_INT:
        *ret = (double)cell->as.i64;
        return true;
    case ORR_CELL_UINT:
        *ret = (double)cell->as.u64;
        return true;
    case ORR_CELL_DOUBLE:
        *ret = cell->as.number;
        return true;
    default:
        return false;
    }
}

static const orr_column *find_column(const orr_table *table, const char *name)
{
    for (size_t i = 0; i < table->n_columns; i++)
        if (strcmp(table->columns[i].name, name) == 0)
            return &table->columns[i];
    return NULL;
}

/* The column that the condition names, and its number in the unit of that. */
static orr_status resolve(const orr_condition *condition, const orr_table *table,
                          const orr_column **ret_column, double *ret_limit, orr_error *err)
{
    const orr_column *column = find_column(table, condition->column);

    if (!column)
        return orr_fail(err, ORR_INVALID, "%s has no column '%s'", condition->analysis->name,
                        condition->column);
    if (column->type == ORR_COLUMN_TEXT)
        return orr_fail(err, ORR_INVALID, "%s.%s is text", condition->analysis->name,
                        condition->column);
    *ret_column = column;
    return number_for(condition->number, column->type, ret_limit, err);
}

orr_status orr_condition_check(orr_condition *condition, const char *analysis,
                               const orr_table *table, orr_error *err)
{
    const orr_column *column;
    double limit;

    if (!orr_condition_applies_to(condition, analysis))
        return ORR_OK;
    if (resolve(condition, table, &column, &limit, err) != ORR_OK) {
        condition->refused = true;
        orr_error_prefix(err, "--fail-if");
        return ORR_INVALID;
    }
    for (size_t row = 0; row < table->n_rows && !condition->held; row++) {
        const orr_cell cell = orr_table_cell(table, row, column);
        double value;
        if (!cell_number(&cell, &value) || !holds(condition->op, value, limit))
            continue;
        char buf[ORR_HUMAN_MAX];
        condition->held = true;
        snprintf(condition->finding, sizeof condition->finding, "%s.%s is %s in row %zu", analysis,
                 condition->column, orr_cell_human(&cell, column->type, buf), row + 1);
    }
    return ORR_OK;
}
