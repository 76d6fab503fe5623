/* SPDX-License-Identifier: Apache-2.0 */
#include "report/table/write.h"

#include <stdlib.h>
#include <string.h>

#include "report/table/cell.h"

/* RFC 4180 with '\n' between records: quoted where it has to be, quotes doubled. */
static void write_field(const char *text, bool guarded, orr_output *out)
{
    const bool quoted = strpbrk(text, ",\"\r\n") != NULL;
    if (quoted)
        orr_output_write(out, "\"", 1);
    if (guarded)
        orr_output_write(out, "'", 1);
    if (!quoted) {
        orr_output_text(out, text);
        return;
    }
    for (const char *quote; (quote = strchr(text, '"')); text = quote + 1) {
        orr_output_write(out, text, (size_t)(quote - text));
        orr_output_write(out, "\"\"", 2);
    }
    orr_output_text(out, text);
    orr_output_write(out, "\"", 1);
}

/* What spreadsheets take for a formula (OWASP, "CSV Injection"). A number is none. */
static bool is_formula(const orr_cell *cell, const char *text)
{
    char *end;
    if (cell->kind != ORR_CELL_TEXT || text[0] == '\0' || strchr("=+-@\t\r", text[0]) == NULL)
        return false;
    (void)strtod(text, &end);
    return end == text || *end != '\0';
}

void orr_table_write_csv(const orr_table *table, bool no_formulas, orr_output *out)
{
    for (size_t c = 0; c < table->n_columns; c++) {
        if (c > 0)
            orr_output_write(out, ",", 1);
        const orr_cell name = {.kind = ORR_CELL_TEXT, .as.text = table->columns[c].name};
        write_field(name.as.text, no_formulas && is_formula(&name, name.as.text), out);
    }
    orr_output_write(out, "\n", 1);
    for (size_t r = 0; r < table->n_rows; r++) {
        for (size_t c = 0; c < table->n_columns; c++) {
            char buf[ORR_HUMAN_MAX];
            const orr_cell cell = orr_table_cell(table, r, &table->columns[c]);
            if (c > 0)
                orr_output_write(out, ",", 1);
            const char *text = orr_cell_exact(&cell, buf);
            write_field(text, no_formulas && is_formula(&cell, text), out);
        }
        orr_output_write(out, "\n", 1);
    }
}
