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

orr_status orr_record_block_fetch(orr_row_store *store, int64_t first, int64_t n,
                                  orr_record_block *ret, orr_error *err)
{
    ret->store = store;
    ret->first = first;
    ret->n = n;
    for (int64_t i = 0; i < n; i++) {
        ret->row[i] = first + i;
        ret->record[i] =
            store->base != NULL ? store->base + (first + i) * store->record_bytes : NULL;
    }
    return store->base != NULL ? ORR_OK : store->fetch(store, ret->row, n, ret->record, err);
}

void orr_record_block_release(orr_record_block *block, bool changed)
{
    if (block->store->base == NULL)
        block->store->release(block->store, block->row, block->n, changed);
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

static void copy_block(const piece *p, const orr_record_block *block)
{
    const orr_table_layout *l = &p->layout;
    for (int64_t i = 0; i < block->n; i++) {
        const int64_t row = block->first + i;
        const char *state = orr_row_store_state(p->store, block->record[i], row);
        memcpy(p->copy + row * l->row_bytes, block->record[i], (size_t)l->row_bytes);
        memcpy(p->copy + l->column_state_at + row * l->column_state_bytes, state,
               (size_t)l->column_state_bytes);
        memcpy(p->copy + l->row_state_at + row * l->row_state_bytes, state + l->column_state_bytes,
               (size_t)l->row_state_bytes);
    }
}

orr_status orr_table_image_copy(orr_table_image *image, orr_error *err)
{
    for (uint32_t i = 0; i < image->n; i++) {
        const piece *p = &image->pieces[i];
        const int64_t rows = p->header.row_end - p->header.row_begin;
        for (int64_t first = 0; first < rows; first += ORR_TABLE_BLOCK_ROWS) {
            const int64_t left = rows - first;
            orr_record_block block;
            ORR_TRY(orr_record_block_fetch(
                p->store, first, left < ORR_TABLE_BLOCK_ROWS ? left : ORR_TABLE_BLOCK_ROWS, &block,
                err));
            copy_block(p, &block);
            orr_record_block_release(&block, false);
        }
    }
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
