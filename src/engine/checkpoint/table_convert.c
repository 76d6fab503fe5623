/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "engine/checkpoint/table_folder.h"
#include "kernel/format/row.h"

/* Exported tables in another format of rows, to serve. */

typedef struct conversion {
    const orr_table_header *from, *to;
    char *read, *written; /* a row */
    float *numbers;
} conversion;

static orr_status convert_rows(conversion *c, orr_table_reader *reader, orr_table_writer *writer,
                               orr_error *err)
{
    const int64_t rows = c->from->rows, columns = c->from->columns;
    const int64_t row_bytes = reader->piece->layout.row_bytes;
    c->read = orr_malloc((size_t)row_bytes);
    c->written = orr_malloc((size_t)writer->layout.row_bytes);
    c->numbers = orr_malloc((size_t)columns * sizeof *c->numbers);
    if (c->read == NULL || c->written == NULL || c->numbers == NULL)
        return orr_fail_memory(err);
    for (int64_t row = 0; row < rows; row++) {
        ORR_TRY(orr_table_read(reader, row * row_bytes, row_bytes, c->read, err));
        orr_row_to_fp32((orr_row_format)c->from->format, c->read, columns, c->numbers);
        orr_row_from_fp32((orr_row_format)c->to->format, c->numbers, columns, c->written);
        orr_table_write_bytes(writer, c->written, writer->layout.row_bytes);
    }
    return ORR_OK;
}

static orr_status convert_piece(const orr_table_file *file, const orr_table_header *to,
                                orr_output *out, orr_error *err)
{
    conversion c = {.from = &file->pieces[0].header, .to = to};
    orr_table_reader reader;
    orr_table_writer writer;
    ORR_TRY(orr_table_reader_open(file, &file->pieces[0], &reader, err));
    orr_status status = orr_table_write_begin(out, to, &writer, err);
    if (status == ORR_OK) {
        status = convert_rows(&c, &reader, &writer, err);
        orr_table_write_end(&writer, status == ORR_OK);
    }
    orr_table_reader_close(&reader);
    orr_free(c.read);
    orr_free(c.written);
    orr_free(c.numbers);
    return status;
}

static orr_status convert_file(const orr_table_file *file, orr_row_format format, const char *path,
                               orr_error *err)
{
    const orr_table_header *from = file->n == 1 ? &file->pieces[0].header : NULL;
    orr_table_header to;
    orr_output *out;
    if (from == NULL || from->row_end - from->row_begin != from->rows ||
        from->column_end - from->column_begin != from->columns)
        return orr_fail(err, ORR_INVALID, "is not one whole table");
    const orr_embedding table = {.name = from->name,
                                 .rows = from->rows,
                                 .columns = from->columns,
                                 .format = (uint8_t)format,
                                 .optimizer = from->optimizer};
    ORR_TRY(orr_table_header_make(&table, (const int64_t[]){0, from->rows},
                                  (const uint32_t[]){0, from->columns}, false, from->step, &to,
                                  err));
    ORR_TRY(orr_output_open(path, &out, err));
    orr_status status = convert_piece(file, &to, out, err);
    if (status == ORR_OK)
        status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}

orr_status orr_tables_convert(const char *folder, orr_row_format format, const char *to,
                              orr_error *err)
{
    orr_table_folder files;
    orr_status status = ORR_OK;
    if (mkdir(to, 0777) != 0 && errno != EEXIST)
        return orr_fail(err, ORR_IO, "%s: %s", to, strerror(errno));
    ORR_TRY(orr_table_folder_open(folder, &files, err));
    for (uint32_t i = 0; i < files.n && status == ORR_OK; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", to, strrchr(files.at[i]->path, '/') + 1);
        status = convert_file(files.at[i], format, path, err);
        if (status == ORR_INVALID)
            orr_error_prefix(err, files.at[i]->path);
    }
    orr_table_folder_close(&files);
    return status;
}
