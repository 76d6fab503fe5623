/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/checkpoint/table_index.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* Pieces of embedding tables in all files of a checkpoint, and whether they are those of a model.
 */

static int by_name_and_row(const void *a_, const void *b_)
{
    const orr_table_header *a = ((const orr_found_piece *)a_)->header,
                           *b = ((const orr_found_piece *)b_)->header;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->row_begin > b->row_begin) - (a->row_begin < b->row_begin);
}

orr_status orr_table_index_make(orr_table_file *const *files, uint32_t n_files,
                                orr_stored_rows *stored, uint32_t n_stored, orr_table_index *ret,
                                orr_error *err)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < n_files; f++)
        n += files[f] != NULL ? files[f]->n : 0;
    for (uint32_t s = 0; s < n_stored; s++)
        n += stored[s].n;
    orr_table_index index = {.at = orr_calloc((size_t)n + 1, sizeof *index.at)};
    if (index.at == NULL)
        return orr_fail_memory(err);
    for (uint32_t f = 0; f < n_files; f++)
        for (uint32_t i = 0; files[f] != NULL && i < files[f]->n; i++)
            index.at[index.n++] = (orr_found_piece){.header = &files[f]->pieces[i].header,
                                                    .layout = &files[f]->pieces[i].layout,
                                                    .source = f,
                                                    .file = files[f],
                                                    .piece = &files[f]->pieces[i]};
    for (uint32_t s = 0; s < n_stored; s++)
        for (uint32_t i = 0; i < stored[s].n; i++)
            index.at[index.n++] = (orr_found_piece){.header = &stored[s].pieces[i].header,
                                                    .layout = &stored[s].pieces[i].layout,
                                                    .source = n_files + s,
                                                    .stored = &stored[s],
                                                    .shard = i};
    qsort(index.at, index.n, sizeof *index.at, by_name_and_row);
    *ret = index;
    return ORR_OK;
}

void orr_table_index_done(orr_table_index *index)
{
    orr_free(index->at);
}

orr_status orr_checkpoint_tables_open(const orr_checkpoint *c, const orr_embedding *tables,
                                      uint32_t n_tables, orr_checkpoint_tables *ret, orr_error *err)
{
    char path[ORR_CHECKPOINT_PATH];
    orr_status status = ORR_OK;
    *ret = (orr_checkpoint_tables){
        .stored = orr_calloc((size_t)c->ranks * ORR_TIERS + 1, sizeof *ret->stored)};
    if (ret->stored == NULL)
        return orr_fail_memory(err);
    for (uint32_t rank = 0; rank < c->ranks; rank++)
        for (int tier = 0; tier < ORR_TIERS && status == ORR_OK; tier++) {
            orr_stored_rows *rows = &ret->stored[ret->n_stored];
            if (!orr_checkpoint_rows_path(c, rank, (orr_tier)tier, path))
                continue;
            status = orr_stored_rows_find(c, rank, (orr_tier)tier, tables, n_tables, rows, err);
            rows->open = &ret->open;
            ret->n_stored += status == ORR_OK;
        }
    if (status == ORR_OK)
        status =
            orr_table_index_make(c->tables, c->ranks, ret->stored, ret->n_stored, &ret->index, err);
    if (status != ORR_OK)
        orr_checkpoint_tables_close(ret);
    return status;
}

void orr_checkpoint_tables_close(orr_checkpoint_tables *tables)
{
    orr_table_index_done(&tables->index);
    for (uint32_t i = 0; i < tables->n_stored; i++)
        orr_stored_rows_done(&tables->stored[i]);
    orr_free(tables->stored);
}

orr_table_index orr_table_index_of(const orr_table_index *index, const char *name)
{
    uint32_t low = 0, n = 0;
    for (uint32_t high = index->n; low < high;) {
        const uint32_t mid = low + (high - low) / 2;
        if (strcmp(index->at[mid].header->name, name) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    while (low + n < index->n && strcmp(index->at[low + n].header->name, name) == 0)
        n++;
    return (orr_table_index){index->at + low, n};
}

enum { SHAPE_CHARS = 96 };

static const char *shape_text(int64_t rows, uint32_t columns, uint8_t format, uint8_t optimizer,
                              char ret[SHAPE_CHARS])
{
    snprintf(ret, SHAPE_CHARS, "%lld x %u in %s with %s", (long long)rows, columns,
             orr_row_format_name((orr_row_format)format),
             orr_row_optimizer_name((orr_row_optimizer)optimizer));
    return ret;
}

static orr_status check_table(const orr_embedding *t, const orr_table_index *of, bool has_state,
                              orr_error *err)
{
    char is[SHAPE_CHARS], should[SHAPE_CHARS];
    shape_text(t->rows, t->columns, t->format, t->optimizer, should);
    if (of->n == 0)
        return orr_fail(err, ORR_INVALID,
                        "the checkpoint is of another model: it has no table %s (%s)", t->name,
                        should);
    for (uint32_t i = 0; i < of->n; i++) {
        const orr_table_header *h = of->at[i].header;
        if (h->rows == t->rows && h->columns == t->columns && h->format == t->format &&
            (!has_state || (h->has_state && h->optimizer == t->optimizer)))
            continue;
        return orr_fail(err, ORR_INVALID,
                        "the checkpoint is of another model: its table %s is %s%s, and should be "
                        "%s",
                        t->name, shape_text(h->rows, h->columns, h->format, h->optimizer, is),
                        has_state && !h->has_state ? " without its state" : "", should);
    }
    return ORR_OK;
}

/* A table of the checkpoint that the model does not have. */
static orr_status fail_unknown(const orr_table_index *index, const orr_embedding *tables,
                               uint32_t n_tables, orr_error *err)
{
    char shape[SHAPE_CHARS];
    for (uint32_t i = 0; i < index->n; i++) {
        const orr_table_header *h = index->at[i].header;
        uint32_t t = 0;
        while (t < n_tables && strcmp(tables[t].name, h->name) != 0)
            t++;
        if (t == n_tables)
            return orr_fail(err, ORR_INVALID,
                            "the checkpoint is of another model: it has a table %s (%s), which the "
                            "model has not",
                            h->name,
                            shape_text(h->rows, h->columns, h->format, h->optimizer, shape));
    }
    return ORR_OK;
}

orr_status orr_table_index_check(const orr_table_index *index, const orr_embedding *tables,
                                 uint32_t n_tables, bool has_state, orr_error *err)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < n_tables; t++) {
        const orr_table_index of = orr_table_index_of(index, tables[t].name);
        ORR_TRY(check_table(&tables[t], &of, has_state, err));
        n += of.n;
    }
    return n == index->n ? ORR_OK : fail_unknown(index, tables, n_tables, err);
}
