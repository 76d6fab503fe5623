/* SPDX-License-Identifier: Apache-2.0 */
#include "base/array.h"

#include "base/alloc.h"

enum { FIRST_ROOM_BYTES = 64 };

/* Above a few hundred KiB the C library moves pages, not bytes, so that growing a large
 * array costs neither a copy nor a second array's memory. */
bool orr_array_grow_(void **at, size_t *room, size_t n, size_t more, size_t element_bytes)
{
    size_t wanted, bytes;
    if (!orr_add_size(n, more, &wanted))
        return false;
    size_t next = *room + *room / 2;
    if (next < *room || next < wanted)
        next = wanted;
    if (next < FIRST_ROOM_BYTES / element_bytes)
        next = FIRST_ROOM_BYTES / element_bytes;
    if (!orr_mul_size(next, element_bytes, &bytes))
        return false;
    void *grown = orr_realloc(*at, bytes);
    if (grown == NULL)
        return false;
    *at = grown;
    *room = next;
    return true;
}

void orr_array_free_(void **at)
{
    orr_free(*at);
    *at = NULL;
}
