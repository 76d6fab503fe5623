/* SPDX-License-Identifier: Apache-2.0 */
#include "report/table/write.h"

#include <ctype.h>
#include <string.h>

#include "report/table/cell.h"

/* An underscore inside a word is no markup. */
static bool is_markup(const char *text, const char *at)
{
    if (*at == '_')
        return at == text || !isalnum((unsigned char)at[-1]) || !isalnum((unsigned char)at[1]);
    return strchr("\\`*[]|~", *at) != NULL;
}

/* Names of kernels are full of what Markdown and HTML would take for their own. */
static void write_escaped(const char *text, orr_output *out)
{
    for (const char *begin = text; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7F)
            orr_output_write(out, " ", 1);
        else if (c == '<' || c == '&')
            orr_output_text(out, c == '<' ? "&lt;" : "&amp;");
        else {
            if (is_markup(begin, text))
                orr_output_write(out, "\\", 1);
            orr_output_write(out, text, 1);
        }
    }
}

void orr_table_write_markdown(const orr_table *table, orr_output *out)
{
    for (size_t c = 0; c < table->n_columns; c++) {
        orr_output_text(out, c == 0 ? "| " : " | ");
        write_escaped(table->columns[c].name, out);
    }
    orr_output_text(out, " |\n");
    for (size_t c = 0; c < table->n_columns; c++) {
        const orr_column_type type = table->columns[c].type;
        orr_output_text(out,
                        type == ORR_COLUMN_TEXT || type == ORR_COLUMN_BOOL ? "| --- " : "| ---: ");
    }
    orr_output_text(out, "|\n");
    for (size_t r = 0; r < table->n_rows; r++) {
        for (size_t c = 0; c < table->n_columns; c++) {
            char buf[ORR_HUMAN_MAX];
            const orr_cell cell = orr_table_cell(table, r, &table->columns[c]);
            orr_output_text(out, c == 0 ? "| " : " | ");
            write_escaped(orr_cell_exact(&cell, buf), out);
        }
        orr_output_text(out, " |\n");
    }
}
