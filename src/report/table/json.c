/* SPDX-License-Identifier: Apache-2.0 */
#include "report/table/write.h"

#include "io/json/writer.h"
#include "report/table/cell.h"
#include "report/table/renamed.h"

static void write_cell(orr_json_writer *w, const orr_cell *cell)
{
    switch (cell->kind) {
    case ORR_CELL_NONE:
        orr_json_write_null(w);
        break;
    case ORR_CELL_TEXT:
        orr_json_write_cstr(w, cell->as.text);
        break;
    case ORR_CELL_BOOL:
        orr_json_write_bool(w, cell->as.truth);
        break;
    case ORR_CELL_INT:
        orr_json_write_int(w, cell->as.i64);
        break;
    case ORR_CELL_UINT:
        orr_json_write_uint(w, cell->as.u64);
        break;
    case ORR_CELL_DOUBLE:
        orr_json_write_double(w, cell->as.number);
        break;
    }
}

static void write_column(orr_json_writer *w, const orr_column *column, const char *name,
                         const char *replaced_by)
{
    orr_json_write_object(w);
    orr_json_write_key(w, "name");
    orr_json_write_cstr(w, name);
    orr_json_write_key(w, "type");
    orr_json_write_cstr(w, orr_column_type_name(column->type));
    if (replaced_by != NULL)
        orr_json_member_text(w, "replaced_by", replaced_by);
    orr_json_write_object_end(w);
}

static void write_columns(orr_json_writer *w, const orr_table *table)
{
    orr_json_write_array(w);
    for (size_t c = 0; c < table->n_columns; c++) {
        const orr_column *column = &table->columns[c];
        const char *before = orr_renamed_column_before(table->schema, column->name);
        write_column(w, column, column->name, NULL);
        if (before != NULL)
            write_column(w, column, before, column->name);
    }
    orr_json_write_array_end(w);
}

static void write_row(orr_json_writer *w, const orr_table *table, size_t row,
                      const char *const *before)
{
    orr_json_write_newline(w);
    orr_json_write_object(w);
    for (size_t c = 0; c < table->n_columns; c++) {
        const orr_cell cell = orr_table_cell(table, row, &table->columns[c]);
        orr_json_write_key(w, table->columns[c].name);
        write_cell(w, &cell);
        if (c < ORR_COLUMNS_MAX && before[c] != NULL) {
            orr_json_write_key(w, before[c]);
            write_cell(w, &cell);
        }
    }
    orr_json_write_object_end(w);
}

void orr_table_write_json(const orr_table *table, orr_output *out)
{
    orr_json_writer w;
    orr_json_write_init(&w, out);
    orr_json_write_object(&w);
    orr_json_write_key(&w, "schema");
    orr_json_write_cstr(&w, table->schema);
    orr_json_write_key(&w, "title");
    orr_json_write_cstr(&w, table->title);
    orr_json_write_key(&w, "columns");
    write_columns(&w, table);
    orr_json_write_key(&w, "rows");
    orr_json_write_array(&w);
    const char *before[ORR_COLUMNS_MAX] = {0};
    for (size_t c = 0; c < table->n_columns && c < ORR_COLUMNS_MAX; c++)
        before[c] = orr_renamed_column_before(table->schema, table->columns[c].name);
    for (size_t r = 0; r < table->n_rows; r++)
        write_row(&w, table, r, before);
    orr_json_write_newline(&w);
    orr_json_write_array_end(&w);
    orr_json_write_object_end(&w);
    orr_output_text(out, "\n");
}

void orr_named_tables_write_json(const orr_named_table *tables, size_t n, orr_output *out)
{
    for (size_t i = 0; i < n; i++) {
        const char *before = orr_renamed_table_before(tables[i].name);
        orr_output_printf(out, "%s\n\"%s\":", i > 0 ? "," : "", tables[i].name);
        orr_table_write_json(&tables[i].table, out);
        if (before != NULL) {
            orr_output_printf(out, ",\n\"%s\":", before);
            orr_table_write_json(&tables[i].table, out);
        }
    }
}
