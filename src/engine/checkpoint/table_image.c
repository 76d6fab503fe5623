/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/checkpoint/table_image.h"

#include <string.h>

#include "base/alloc.h"

/* Copies shards of embedding tables, and writes the copy. */

typedef struct piece {
    orr_table_header header;
    orr_table_layout layout;
    orr_row_store *store;
    char *copy; /* shape (layout.bytes) */
} piece;

struct orr_table_image {
    piece *pieces; /* shape (n) */
    uint32_t n;
    char *copy;
    int64_t bytes;
};

void orr_table_parts_of(const orr_tables *tables, const orr_embedding_plan *plan, uint32_t rank,
                        orr_table_part *ret)
{
    const uint32_t n = orr_tables_n_shards(tables), own = rank % plan->ranks;
    for (uint32_t i = 0; i < n; i++) {
        orr_table_part *p = &ret[i];
        p->shard = orr_tables_shard(tables, i, &p->store);
        p->table = &plan->tables[p->shard->table];
        p->group = rank / plan->ranks;
        p->saved = plan->placements[p->shard->table].sharding != ORR_SHARDING_DATA ||
                   p->shard->table % plan->ranks == own;
    }
}

static orr_status add_piece(orr_table_image *image, const orr_table_part *part, orr_error *err)
{
    const int64_t table_rows = part->table->rows;
    const int64_t rows[2] = {orr_embedding_range_begin(table_rows, part->shard->range_begin),
                             orr_embedding_range_begin(table_rows, part->shard->range_end)};
    const uint32_t columns[2] = {part->shard->column_begin, part->shard->column_end};
    piece *p = &image->pieces[image->n];
    ORR_TRY(orr_table_header_make(part->table, rows, columns, true, 0, &p->header, err));
    p->header.group = part->group;
    ORR_TRY(orr_table_layout_of(&p->header, &p->layout, err));
    p->store = part->store;
    if (__builtin_add_overflow(image->bytes, p->layout.bytes, &image->bytes))
        return orr_fail_memory(err);
    image->n++;
    return ORR_OK;
}

orr_status orr_table_image_new(const orr_table_part *parts, uint32_t n, orr_table_image **ret,
                               orr_error *err)
{
    orr_table_image *image = orr_calloc(1, sizeof *image);
    orr_status status = ORR_OK;
    if (image == NULL)
        return orr_fail_memory(err);
    image->pieces = orr_calloc((size_t)n + 1, sizeof *image->pieces);
    status = image->pieces != NULL ? ORR_OK : orr_fail_memory(err);
    for (uint32_t i = 0; i < n && status == ORR_OK; i++)
        if (parts[i].saved)
            status = add_piece(image, &parts[i], err);
    if (status == ORR_OK) {
        image->copy = orr_calloc((size_t)image->bytes + 1, 1); /* zeros between rows and state */
        status = image->copy != NULL ? ORR_OK : orr_fail_memory(err);
    }
    char *at = image->copy;
    for (uint32_t i = 0; i < image->n && status == ORR_OK; i++) {
        image->pieces[i].copy = at;
        at += image->pieces[i].layout.bytes;
    }
    if (status == ORR_OK)
        *ret = image;
    else
        orr_table_image_free(image);
    return status;
}

void orr_table_image_free(orr_table_image *image)
{
    if (image == NULL)
        return;
    orr_free(image->copy);
    orr_free(image->pieces);
    orr_free(image);
}

int64_t orr_table_image_bytes(const orr_table_image *image)
{
    return image != NULL ? image->bytes : 0;
}

static void copy_block(const piece *p, int64_t first, int64_t n, const char *record)
{
    const orr_table_layout *l = &p->layout;
    for (int64_t row = first; row < first + n; row++, record += orr_row_store_bytes(p->store)) {
        const char *state = record + p->store->record_bytes;
        memcpy(p->copy + row * l->row_bytes, record, (size_t)l->row_bytes);
        memcpy(p->copy + l->column_state_at + row * l->column_state_bytes, state,
               (size_t)l->column_state_bytes);
        memcpy(p->copy + l->row_state_at + row * l->row_state_bytes, state + l->column_state_bytes,
               (size_t)l->row_state_bytes);
    }
}

static orr_status copy_piece(const piece *p, orr_error *err)
{
    const int64_t rows = p->header.row_end - p->header.row_begin;
    char *records = orr_malloc((size_t)(ORR_TABLE_BLOCK_ROWS * orr_row_store_bytes(p->store)));
    orr_status status = records != NULL ? ORR_OK : orr_fail_memory(err);
    for (int64_t first = 0; first < rows && status == ORR_OK; first += ORR_TABLE_BLOCK_ROWS) {
        const int64_t left = rows - first,
                      n = left < ORR_TABLE_BLOCK_ROWS ? left : ORR_TABLE_BLOCK_ROWS;
        status = orr_row_store_read(p->store, first, n, records, err);
        if (status == ORR_OK)
            copy_block(p, first, n, records);
    }
    orr_free(records);
    return status;
}

orr_status orr_table_image_copy(orr_table_image *image, orr_error *err)
{
    for (uint32_t i = 0; i < image->n; i++)
        ORR_TRY(copy_piece(&image->pieces[i], err));
    return ORR_OK;
}

orr_status orr_table_image_write(const orr_table_image *image, int64_t step, const char *path,
                                 orr_error *err)
{
    orr_output *out;
    ORR_TRY(orr_output_open(path, &out, err));
    orr_status status = ORR_OK;
    for (uint32_t i = 0; i < image->n && status == ORR_OK; i++) {
        const piece *p = &image->pieces[i];
        orr_table_header header = p->header;
        orr_table_writer writer;
        header.step = step;
        status = orr_table_write_begin(out, &header, &writer, err);
        if (status != ORR_OK)
            break;
        orr_table_write_bytes(&writer, p->copy, p->layout.bytes);
        orr_table_write_end(&writer, true);
    }
    if (status == ORR_OK)
        status = orr_output_finish(out, err);
    orr_output_close(out);
    return status;
}
