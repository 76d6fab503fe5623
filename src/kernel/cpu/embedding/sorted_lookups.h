/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_KERNEL_CPU_EMBEDDING_SORTED_LOOKUPS_H
#define ORR_KERNEL_CPU_EMBEDDING_SORTED_LOOKUPS_H

#include "kernel/cpu/embedding/bags.h"

/* Lookups sorted by table row, equal rows in the order of their samples, so that the gradients of a
 * row are summed in the same order for any number of threads. Lookups are first partitioned into
 * ranges of 2^shift rows, then each range is sorted on its own. */
enum { ORR_LOOKUP_CHUNKS = 64 };
typedef struct orr_sorted_lookups {
    const orr_indices *ids;
    const uint32_t *slots;  /* shape (ids): sorted by these instead, which are below `rows`; NULL */
    const int64_t *wide;    /* the same ids, where they are dense and of 64 bits; else NULL */
    const int32_t *lengths; /* shape (samples); NULL: `each` */
    int64_t each, rows;
    int shift; /* rows of a range: 2^shift */
    int64_t ranges, chunks, chunk_ids;
    orr_lookup *lookup, *other;        /* shapes (ids)                                     */
    uint32_t *begin;                   /* shape (ranges + 1), into `lookup`, after the partition */
    uint32_t *place;                   /* shape (chunks, ranges)                           */
    int64_t sample[ORR_LOOKUP_CHUNKS]; /* of the first id of each chunk */
    int64_t end[ORR_LOOKUP_CHUNKS];    /* of the bag of that sample */
    orr_invalid_id stray;
} orr_sorted_lookups;

size_t orr_sorted_lookups_bytes(int64_t ids, int64_t rows);
int64_t orr_sorted_lookups_ranges(int64_t ids, int64_t rows);
/* Partitions lookups into ranges. `sparse` has ids, lengths and rows. `room`:
 * orr_sorted_lookups_bytes() bytes, aligned to 64. Invalid ids are recorded and left out.
 * UNSUPPORTED: 2^32 ids or more. */
orr_status orr_sorted_lookups_partition(orr_sorted_lookups *sparse, void *room,
                                        orr_workers *workers, orr_error *err) ORR_MUST_CHECK;
/* Sorts the lookups of a range by row, then by sample; `ret_n` of them. Threads: one per range. */
const orr_lookup *orr_sorted_lookups_sort_range(const orr_sorted_lookups *sparse, int64_t range,
                                                int64_t *ret_n);
/* Those of a range that was sorted. */
const orr_lookup *orr_sorted_lookups_of_range(const orr_sorted_lookups *sparse, int64_t range,
                                              int64_t *ret_n);

#endif /* ORR_KERNEL_CPU_EMBEDDING_SORTED_LOOKUPS_H */
