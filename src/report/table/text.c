/* SPDX-License-Identifier: Apache-2.0 */
#include "report/table/write.h"

#include <string.h>

#include "report/humanize/short_name.h"
#include "report/table/cell.h"

/* Names are shortened before they are measured, so that one wide name does not make a
 * table wide; a text longer than this is cut in the middle even when the width is unlimited. */
enum { GAP = 2, TEXT_MIN_COLUMNS = 12, TEXT_MAX_BYTES = 512, NAME_MAX_BYTES = 4096 };

static bool is_left(const orr_column *column)
{
    return column->type == ORR_COLUMN_TEXT || column->type == ORR_COLUMN_BOOL;
}

/* The cell as people read it, cut to `columns`; returns the columns it takes. */
static size_t cell_text(const orr_table *table, size_t row, const orr_column *column,
                        size_t columns, char text[TEXT_MAX_BYTES])
{
    char buf[ORR_HUMAN_MAX], name[NAME_MAX_BYTES];
    const orr_cell cell = orr_table_cell(table, row, column);
    const char *human = orr_cell_human(&cell, column->type, buf);
    if (cell.kind == ORR_CELL_TEXT) {
        orr_short_name(human, name, sizeof name);
        human = name;
    }
    orr_text_elide(human, columns, text, TEXT_MAX_BYTES);
    return orr_text_display_width(text);
}

static size_t shown_rows(const orr_table *table, const orr_table_style *style)
{
    return style->max_rows > 0 && table->n_rows > style->max_rows ? style->max_rows : table->n_rows;
}

static void measure(const orr_table *table, size_t n_rows, size_t *widths)
{
    for (size_t c = 0; c < table->n_columns; c++) {
        char text[TEXT_MAX_BYTES];
        orr_column_heading(&table->columns[c], text);
        widths[c] = orr_text_display_width(text);
        for (size_t r = 0; r < n_rows; r++) {
            const size_t w = cell_text(table, r, &table->columns[c], TEXT_MAX_BYTES, text);
            if (w > widths[c])
                widths[c] = w;
        }
    }
}

/* Take from the widest text column until the table fits, or nothing is left to take. */
static void squeeze(const orr_table *table, size_t *widths, size_t width)
{
    size_t total = 0;
    for (size_t c = 0; c < table->n_columns; c++)
        total += widths[c] + (c > 0 ? GAP : 0);
    while (total > width) {
        size_t widest = table->n_columns, second = TEXT_MIN_COLUMNS;
        for (size_t c = 0; c < table->n_columns; c++)
            if (table->columns[c].type == ORR_COLUMN_TEXT && widths[c] > TEXT_MIN_COLUMNS &&
                (widest == table->n_columns || widths[c] > widths[widest]))
                widest = c;
        if (widest == table->n_columns)
            return;
        for (size_t c = 0; c < table->n_columns; c++)
            if (c != widest && table->columns[c].type == ORR_COLUMN_TEXT && widths[c] > second)
                second = widths[c];
        size_t take = total - width, spare = widths[widest] - second;
        if (spare == 0)
            spare = 1; /* two of one width: in turn */
        take = take < spare ? take : spare;
        widths[widest] -= take;
        total -= take;
    }
}

static void pad(orr_output *out, size_t n)
{
    static const char spaces[] = "                                ";
    for (; n > 0; n -= n < sizeof spaces - 1 ? n : sizeof spaces - 1)
        orr_output_write(out, spaces, n < sizeof spaces - 1 ? n : sizeof spaces - 1);
}

/* Text in its column; nothing is padded at the end of a line. */
static void put_cell(const char *text, size_t columns, size_t width, bool left, bool first,
                     bool last, orr_output *out)
{
    const size_t fill = width > columns ? width - columns : 0;
    if (!first)
        pad(out, GAP);
    if (!left)
        pad(out, fill);
    orr_output_text(out, text);
    if (left && !last)
        pad(out, fill);
}

static void put_head(const orr_table *table, const size_t *widths, bool color, orr_output *out)
{
    if (color)
        orr_output_text(out, "\x1b[2m");
    for (size_t c = 0; c < table->n_columns; c++) {
        char heading[ORR_HUMAN_MAX];
        orr_column_heading(&table->columns[c], heading);
        put_cell(heading, orr_text_display_width(heading), widths[c], is_left(&table->columns[c]),
                 c == 0, c + 1 == table->n_columns, out);
    }
    orr_output_text(out, color ? "\x1b[0m\n" : "\n");
}

static void put_row(const orr_table *table, size_t row, const size_t *widths, orr_output *out)
{
    size_t last = table->n_columns; /* empty cells at the end of a line are not padded */
    for (char text[TEXT_MAX_BYTES]; last > 1; last--)
        if (cell_text(table, row, &table->columns[last - 1], widths[last - 1], text) > 0)
            break;
    for (size_t c = 0; c < last; c++) {
        char text[TEXT_MAX_BYTES];
        const size_t columns = cell_text(table, row, &table->columns[c], widths[c], text);
        put_cell(text, columns, widths[c], is_left(&table->columns[c]), c == 0, c + 1 == last, out);
    }
    orr_output_write(out, "\n", 1);
}

static void put_title(const orr_table *table, bool color, orr_output *out)
{
    char text[TEXT_MAX_BYTES];
    if (!table->title)
        return;
    orr_text_elide(table->title, TEXT_MAX_BYTES, text, sizeof text);
    orr_output_text(out, color ? "\x1b[1m" : "");
    orr_output_text(out, text);
    orr_output_text(out, color ? "\x1b[0m\n" : "\n");
}

void orr_table_write_text(const orr_table *table, const orr_table_style *style, orr_output *out)
{
    const size_t n_rows = shown_rows(table, style);
    size_t widths[ORR_COLUMNS_MAX];
    orr_column columns[ORR_COLUMNS_MAX];
    put_title(table, style->color, out);
    if (table->n_rows == 0) {
        orr_output_text(out, "(nothing recorded)\n");
        return;
    }
    const orr_table telling = orr_table_without_empty_columns(table, columns);
    measure(&telling, n_rows, widths);
    if (style->width > 0)
        squeeze(&telling, widths, (size_t)style->width);
    put_head(&telling, widths, style->color, out);
    for (size_t r = 0; r < n_rows; r++)
        put_row(&telling, r, widths, out);
    if (n_rows < table->n_rows)
        orr_output_printf(out, "... and %zu more\n", table->n_rows - n_rows);
}
