/* SPDX-License-Identifier: Apache-2.0 */
#include "report/table/write.h"

#include "io/json/writer.h"
#include "report/table/cell.h"

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

static void write_columns(orr_json_writer *w, const orr_table *table)
{
    orr_json_write_array(w);
    for (size_t c = 0; c < table->n_columns; c++) {
        orr_json_write_object(w);
        orr_json_write_key(w, "name");
        orr_json_write_cstr(w, table->columns[c].name);
        orr_json_write_key(w, "type");
        orr_json_write_cstr(w, orr_column_type_name(table->columns[c].type));
        orr_json_write_object_end(w);
    }
    orr_json_write_array_end(w);
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
    for (size_t r = 0; r < table->n_rows; r++) {
        orr_json_write_newline(&w);
        orr_json_write_object(&w);
        for (size_t c = 0; c < table->n_columns; c++) {
            const orr_cell cell = orr_table_cell(table, r, &table->columns[c]);
            orr_json_write_key(&w, table->columns[c].name);
            write_cell(&w, &cell);
        }
        orr_json_write_object_end(&w);
    }
    orr_json_write_newline(&w);
    orr_json_write_array_end(&w);
    orr_json_write_object_end(&w);
    orr_output_text(out, "\n");
}
