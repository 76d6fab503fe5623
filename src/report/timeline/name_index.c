/* SPDX-License-Identifier: Apache-2.0 */
#include "report/timeline/name_index.h"

#include <orrery/graph.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX_BYTES = 65536 };

bool orr_name_index_init(orr_name_index *index)
{
    *index = (orr_name_index){.texts = orr_strtab_new()};
    return index->texts != NULL;
}

void orr_name_index_done(orr_name_index *index)
{
    orr_strtab_free(index->texts);
    orr_array_done(&index->uses);
    orr_array_done(&index->order);
    orr_array_done(&index->number);
    *index = (orr_name_index){0};
}

uint32_t orr_name_index_add(orr_name_index *index, uint8_t tag, const char *text, size_t len)
{
    char small[1024];
    orr_array(char) large = {0};
    char *key = small;
    if (len > TEXT_MAX_BYTES)
        len = TEXT_MAX_BYTES;
    if (len + 1 > sizeof small) {
        if (!orr_array_reserve(&large, len + 1))
            return ORR_NONE;
        key = large.at;
    }
    key[0] = (char)(tag + 1); /* never empty: number 0 of the table is "" */
    memcpy(key + 1, text, len);
    uint32_t id = orr_strtab_add(index->texts, key, len + 1);
    orr_array_done(&large);
    if (id == UINT32_MAX)
        return ORR_NONE;
    id--;
    if (id == index->uses.n) {
        if (!orr_array_push(&index->uses, 0))
            return ORR_NONE;
        index->bytes += len;
    }
    index->uses.at[id]++;
    return id;
}

typedef struct used {
    uint32_t id, uses;
} used;

static int most_used_first(const void *a, const void *b)
{
    const used *x = a, *y = b;
    if (x->uses != y->uses)
        return x->uses > y->uses ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

bool orr_name_index_sort(orr_name_index *index)
{
    const size_t n = index->uses.n;
    orr_array(used) all = {0};
    const bool room = orr_array_reserve(&all, n) && orr_array_reserve(&index->order, n) &&
                      orr_array_reserve(&index->number, n);
    if (room) {
        for (uint32_t i = 0; i < n; i++)
            all.at[i] = (used){i, index->uses.at[i]};
        if (n > 0)
            qsort(all.at, n, sizeof all.at[0], most_used_first);
        for (uint32_t i = 0; i < n; i++) {
            index->order.at[i] = all.at[i].id;
            index->number.at[all.at[i].id] = i;
        }
        index->order.n = index->number.n = n;
    }
    orr_array_done(&all);
    return room;
}

const char *orr_name_index_text(const orr_name_index *index, uint32_t sorted, size_t *ret_len)
{
    const uint32_t id = index->order.at[sorted] + 1;
    *ret_len = orr_strtab_len(index->texts, id) - 1;
    return orr_strtab_text(index->texts, id) + 1;
}

uint8_t orr_name_index_tag(const orr_name_index *index, uint32_t sorted)
{
    const char first = orr_strtab_text(index->texts, index->order.at[sorted] + 1)[0];
    return (uint8_t)((uint8_t)first - 1);
}
