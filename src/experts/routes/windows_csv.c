/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "experts/routes/lines.h"
#include "experts/routes/windows.h"

/* Reader of loads as CSV: a row for each window and layer, a column "layer", then a column an
 * expert, named by its number (0, E0, expert_0). The layers of a window follow one another; the
 * first of them begins the next window. */
enum { MOST_LINE_BYTES = 1 << 20, COLUMN_OTHER = -1, COLUMN_LAYER = -2 };

typedef struct reader {
    orr_windows_reading *to;
    orr_csv_lines lines;
    orr_array(int32_t) columns; /* an expert, or what it is else */
    uint64_t rows;
    orr_error *err;
} reader;

#define fail_at(r, column, status, ...)                                                            \
    orr_csv_at(&(r)->lines, (column), orr_fail((r)->err, (status), __VA_ARGS__), (r)->err)

static int32_t column_of(orr_text name)
{
    size_t at = 0;
    uint64_t expert;
    while (at < name.n && !isdigit((unsigned char)name.at[at]))
        at++;
    const orr_text word = {name.at, at};
    if (orr_text_is(name, "layer"))
        return COLUMN_LAYER;
    return (at == 0 || orr_text_is(word, "E") || orr_text_is(word, "expert_")) &&
                   orr_text_uint64((orr_text){name.at + at, name.n - at}, &expert) &&
                   expert < ORR_EXPERTS_MAX
               ? (int32_t)expert
               : COLUMN_OTHER;
}

static orr_status read_header(reader *r, orr_text line)
{
    orr_text field;
    bool layer = false;
    while (orr_csv_next_field(&line, &field)) {
        const int32_t column = column_of(field);
        if (column >= 0 && (uint32_t)column != r->to->experts)
            return fail_at(r, 1, ORR_PARSE, "expert %d stands where %u is wanted", column,
                           r->to->experts);
        r->to->experts += column >= 0;
        layer |= column == COLUMN_LAYER;
        if (!orr_array_push(&r->columns, column))
            return orr_fail_memory(r->err);
    }
    return layer && r->to->experts > 0
               ? ORR_OK
               : fail_at(r, 1, ORR_PARSE,
                         "loads have a column 'layer' and one an expert: 0, 1, ..");
}

static orr_status take_layer(reader *r, orr_text field, size_t at)
{
    orr_windows_reading *to = r->to;
    uint64_t number;
    if (!orr_text_uint64(field, &number) || number > UINT32_MAX / 2)
        return fail_at(r, at, ORR_PARSE, "'%.*s' is no layer", field.n < 40 ? (int)field.n : 40,
                       field.at);
    if (to->layers == 0 && (to->number.n == 0 || to->number.at[0] != number))
        return orr_array_push(&to->number, (uint32_t)number) ? ORR_OK : orr_fail_memory(r->err);
    to->layers = (uint32_t)to->number.n;
    const uint32_t wanted = to->number.at[r->rows % to->layers];
    return number == wanted ? ORR_OK
                            : fail_at(r, at, ORR_PARSE, "layer %llu, where layer %u is wanted",
                                      (unsigned long long)number, wanted);
}

static orr_status take_load(reader *r, orr_text field, size_t at)
{
    double load;
    if (!orr_text_double(field, &load))
        return fail_at(r, at, ORR_PARSE, "'%.*s' is no load", field.n < 40 ? (int)field.n : 40,
                       field.at);
    return orr_array_push(&r->to->load, load) ? ORR_OK : orr_fail_memory(r->err);
}

static orr_status read_row(reader *r, orr_text line)
{
    const char *begin = line.at;
    orr_text field;
    size_t c = 0;
    if (line.n == 0)
        return ORR_OK;
    for (; orr_csv_next_field(&line, &field); c++) {
        const size_t at = (size_t)(field.at - begin) + 1;
        if (c >= r->columns.n || r->columns.at[c] == COLUMN_OTHER)
            continue;
        ORR_TRY(r->columns.at[c] == COLUMN_LAYER ? take_layer(r, field, at)
                                                 : take_load(r, field, at));
    }
    r->rows++;
    return c == r->columns.n ? ORR_OK
                             : fail_at(r, 1, ORR_PARSE, "%zu fields where the first line names %zu",
                                       c, r->columns.n);
}

orr_status orr_windows_read_csv(orr_windows_reading *to, orr_error *err)
{
    reader r = {.to = to, .lines = {.stream = to->stream, .path = to->path}, .err = err};
    orr_status status = ORR_OK;
    orr_text line;
    size_t used = 0;
    orr_stream_set_limit(to->stream, MOST_LINE_BYTES);
    while (status == ORR_OK && orr_csv_next_line(&r.lines, &line, &used, &status, err)) {
        status = r.lines.line == 1 ? read_header(&r, line) : read_row(&r, line);
        orr_stream_consume(to->stream, used);
    }
    to->layers = to->layers == 0 ? (uint32_t)to->number.n : to->layers;
    if (status == ORR_OK && to->layers > 0 && r.rows % to->layers != 0)
        status = orr_fail(err, ORR_PARSE, "%s: the last window has %llu of %u layers", to->path,
                          (unsigned long long)(r.rows % to->layers), to->layers);
    orr_array_done(&r.columns);
    return status;
}
