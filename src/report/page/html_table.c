/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page/html.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/humanize/short_name.h"
#include "report/table/cell.h"

enum { NAME_MAX_BYTES = 4096, NARROW_COLUMNS = 5, LONG_BYTES = 56 };

void orr_html_text(orr_output *out, const char *text)
{
    for (size_t plain; *text; text += plain + 1) {
        plain = strcspn(text, "&<>\"'");
        orr_output_write(out, text, plain);
        switch (text[plain]) {
        case '&':
            orr_output_text(out, "&amp;");
            break;
        case '<':
            orr_output_text(out, "&lt;");
            break;
        case '>':
            orr_output_text(out, "&gt;");
            break;
        case '"':
            orr_output_text(out, "&quot;");
            break;
        case '\'':
            orr_output_text(out, "&#39;");
            break;
        default:
            return;
        }
    }
}

void orr_html_printf(orr_output *out, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    orr_html_text(out, text);
}

/* What is not a quantity stands on the left: a rank is a name. */
static bool is_text(const orr_column *column)
{
    return column->type == ORR_COLUMN_TEXT || column->type == ORR_COLUMN_BOOL ||
           strcmp(column->name, "rank") == 0;
}

static void put_head(orr_output *out, const orr_table *table)
{
    orr_output_text(out, "<thead><tr>");
    for (size_t c = 0; c < table->n_columns; c++) {
        char heading[ORR_HUMAN_MAX];
        orr_column_heading(&table->columns[c], heading);
        orr_output_printf(out, "<th scope=\"col\" data-col=\"%s\"%s>", table->columns[c].name,
                          is_text(&table->columns[c]) ? "" : " class=\"num\"");
        orr_html_text(out, heading);
        orr_output_text(out, "</th>");
    }
    orr_output_text(out, "</tr></thead>\n");
}

/* `link` may be NULL. Without scripts it leads to the timeline, with them to its events. */
static void put_text_cell(orr_output *out, const char *text, const orr_html_cell_link *link)
{
    char brief[NAME_MAX_BYTES], fit[NAME_MAX_BYTES];
    orr_short_name(text, brief, sizeof brief);
    orr_text_elide(brief, 90, fit, sizeof fit);
    orr_output_printf(out, "<td%s", strlen(fit) > LONG_BYTES ? " class=\"long\"" : "");
    if (strcmp(fit, text) != 0) {
        orr_output_text(out, " title=\"");
        orr_html_text(out, text);
        orr_output_text(out, "\"");
    }
    orr_output_text(out, ">");
    if (link != NULL)
        orr_output_printf(out, "<a href=\"#timeline\" data-events=\"%s\"", link->events);
    if (link != NULL && link->node != NULL)
        orr_output_printf(out, " data-node=\"%s\"", link->node);
    if (link != NULL)
        orr_output_text(out, ">");
    orr_html_text(out, fit);
    orr_output_text(out, link != NULL ? "</a></td>" : "</td>");
}

static void put_value(orr_output *out, const orr_cell *cell, const orr_column *column,
                      const orr_html_cell_link *link)
{
    char exact[ORR_HUMAN_MAX], human[ORR_HUMAN_MAX];
    const orr_column_type type = column->type;
    const bool share = type == ORR_COLUMN_FRAC;
    if (cell->kind == ORR_CELL_TEXT) {
        put_text_cell(out, cell->as.text, link);
    } else if (cell->kind == ORR_CELL_BOOL) {
        orr_output_text(out, cell->as.truth ? "<td>yes</td>" : "<td class=\"faint\">no</td>");
    } else if (cell->kind == ORR_CELL_NONE) {
        orr_output_text(out, is_text(column) ? "<td></td>" : "<td class=\"num\"></td>");
    } else {
        orr_output_printf(out, "<td%s data-v=\"%s\"",
                          is_text(column) ? ""
                          : share         ? " class=\"num share\""
                                          : " class=\"num\"",
                          orr_cell_exact(cell, exact));
        if (share && cell->as.number >= 0 && cell->as.number <= 1)
            orr_output_printf(out, " style=\"--f:%.3f\"", cell->as.number);
        orr_output_printf(out, ">%s</td>", orr_cell_human(cell, type, human));
    }
}

static void put_row(orr_output *out, const orr_table *table, size_t row,
                    const orr_html_cell_link *link)
{
    orr_output_text(out, "<tr>");
    for (size_t c = 0; c < table->n_columns; c++) {
        const orr_cell cell = orr_table_cell(table, row, &table->columns[c]);
        const bool linked = link && link->column && !strcmp(link->column, table->columns[c].name);
        put_value(out, &cell, &table->columns[c], linked ? link : NULL);
    }
    orr_output_text(out, "</tr>\n");
}

static void put_rest(orr_output *out, const orr_table *table, const orr_html_table_options *options)
{
    if (options->max_rows >= table->n_rows)
        return;
    orr_output_printf(out, "<p class=\"note\">The first %zu of %zu rows", options->max_rows,
                      table->n_rows);
    if (options->analysis != NULL)
        orr_output_printf(out, "; all of them: <code>orrery analyze --only %s</code>",
                          options->analysis);
    orr_output_text(out, "</p>");
}

void orr_html_table(orr_output *out, const orr_table *table, const orr_html_table_options *options)
{
    const size_t n = table->n_rows < options->max_rows ? table->n_rows : options->max_rows;
    orr_column columns[ORR_COLUMNS_MAX];
    const orr_table telling = orr_table_without_empty_columns(table, columns);
    orr_output_printf(out, "<article class=\"card%s\"",
                      telling.n_columns > NARROW_COLUMNS ? " wide" : "");
    if (options->id != NULL)
        orr_output_printf(out, " id=\"%s\"", options->id);
    orr_output_text(out, "><header><h3>");
    orr_html_text(out, table->title);
    orr_output_text(out, "</h3>");
    if (options->about != NULL) {
        orr_output_text(out, "<p>");
        orr_html_text(out, options->about);
        orr_output_text(out, "</p>");
    }
    orr_output_text(out,
                    "</header>\n<div class=\"scroll\" tabindex=\"0\" role=\"group\" aria-label=\"");
    orr_html_text(out, table->title);
    orr_output_printf(out, "\"><table data-schema=\"%s\">", table->schema);
    put_head(out, &telling);
    orr_output_text(out, "<tbody>\n");
    for (size_t r = 0; r < n; r++) {
        const size_t row = options->order ? options->order[r] : r;
        put_row(out, &telling, row, options->links ? &options->links[row] : NULL);
    }
    orr_output_text(out, "</tbody></table></div>");
    put_rest(out, table, options);
    orr_output_text(out, "</article>\n");
}
