/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TIMELINE_NAME_INDEX_H
#define ORR_REPORT_TIMELINE_NAME_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/array.h"
#include "base/strtab.h"

/* Distinct texts and a small number that goes with each (the kind of what bears the name),
 * counted while they are added and then numbered by use, the most used first. */
typedef struct orr_name_index {
    orr_strtab *texts; /* each with its tag as first byte */
    orr_array(uint32_t) uses;
    orr_array(uint32_t) order;  /* order[new number] = number while adding */
    orr_array(uint32_t) number; /* and the other way round */
    size_t bytes;               /* of all texts */
} orr_name_index;

bool orr_name_index_init(orr_name_index *index); /* false: out of memory */
void orr_name_index_done(orr_name_index *index);

/* Number for the time of adding; ORR_NONE when out of memory. At most 64 KiB of the text count. */
uint32_t orr_name_index_add(orr_name_index *index, uint8_t tag, const char *text, size_t len);
/* No more adding. False when out of memory. */
bool orr_name_index_sort(orr_name_index *index);

static inline uint32_t orr_name_index_count(const orr_name_index *index)
{
    return (uint32_t)index->uses.n;
}
const char *orr_name_index_text(const orr_name_index *index, uint32_t sorted, size_t *ret_len);
uint8_t orr_name_index_tag(const orr_name_index *index, uint32_t sorted);

#endif /* ORR_REPORT_TIMELINE_NAME_INDEX_H */
