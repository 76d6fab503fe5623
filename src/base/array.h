/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_BASE_ARRAY_H
#define ORR_BASE_ARRAY_H

#include <stdbool.h>
#include <stddef.h>

/* Growable array of any type, as an anonymous struct:
 *
 *   orr_array(int64_t) starts = {0};
 *   if (!orr_array_push(&starts, 42)) return orr_fail_memory(err);
 *   starts.at[0], starts.n ... orr_array_done(&starts);
 *
 * Growth is by half again, in place where the system can. Threads: none. */
#define orr_array(T)                                                                               \
    struct {                                                                                       \
        T *at;                                                                                     \
        size_t n, room;                                                                            \
    }

/* Room for `count` more; false when out of memory, the array unchanged. */
#define orr_array_reserve(a, count)                                                                \
    ((a)->room - (a)->n >= (count) ||                                                              \
     orr_array_grow_((void **)&(a)->at, &(a)->room, (a)->n, (count), sizeof *(a)->at))
#define orr_array_push(a, value) (orr_array_reserve((a), 1) && ((a)->at[(a)->n++] = (value), true))
#define orr_array_done(a)        (orr_array_free_((void **)&(a)->at), (a)->n = (a)->room = 0)

bool orr_array_grow_(void **at, size_t *room, size_t n, size_t more, size_t element_bytes);
void orr_array_free_(void **at);

#endif /* ORR_BASE_ARRAY_H */
