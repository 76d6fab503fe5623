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
    const orr_table_header *a = &((const orr_found_piece *)a_)->piece->header,
                           *b = ((const orr_found_piece *)b_)->header;
    const int order = strcmp(a->name, b->name);
    return order != 0 ? order : (a->row_begin > b->row_begin) - (a->row_begin < b->row_begin);
}

orr_status orr_table_index_make(orr_table_file *const *files, uint32_t n_files,
                                orr_table_index *ret, orr_error *err)
{
    uint32_t n = 0;
    for (uint32_t f = 0; f < n_files; f++)
        n += files[f] != NULL ? files[f]->n : 0;
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
    qsort(index.at, index.n, sizeof *index.at, by_name_and_row);
    *ret = index;
    return ORR_OK;
}

void orr_table_index_done(orr_table_index *index)
{
    orr_free(index->at);
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
