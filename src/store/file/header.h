/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_FILE_HEADER_H
#define ORR_STORE_FILE_HEADER_H

#include "store/file/place.h"

/* What a file is of, and where its parts follow from that to be. On disk, little endian: the fixed
 * part, then each shard with its name, padded with zeros to a multiple of 8, and XXH3 of it all.
 *
 *   sectors   header_sectors   the header
 *             2 * log_sectors  the logs
 *             extents          of extent_sectors each: the data region */
#define ORR_ROW_FILE_MAGIC "orrery.rows/1\n"
enum {
    ORR_ROW_FILE_HEADER_FIRST = 4096,    /* bytes that are read first: the fixed part is in them */
    ORR_ROW_FILE_HEADER_BYTES = 1 << 26, /* at most */
    ORR_ROW_FILE_SHARDS = 1 << 16,       /* at most */
    /* Extents that a shape has beside those with its rows: two that are being filled, one for
     * cleaning, and where a commit is under way two that wait for it to be settled. */
    ORR_ROW_FILLING = 5,
};

typedef struct orr_row_layout {
    uint32_t sector;                              /* bytes */
    uint64_t header_sectors, log_at, log_sectors; /* of each of the two */
    uint64_t snapshot_sectors;                    /* of a log, at most */
    uint64_t data_at;                             /* sectors */
    uint64_t extents;
    uint32_t extent_sectors;
    uint64_t rows;         /* of all shards */
    orr_row_shape *shapes; /* shape (n_shapes), by record_bytes */
    uint32_t n_shapes;
    uint32_t *shape_of; /* shape (n_shards) */
} orr_row_layout;

typedef struct orr_row_header {
    uint64_t file_id;
    uint32_t sector;
    uint64_t device_bytes;
    orr_row_file_facts facts;
} orr_row_header;

/* All but `extents`, for which there is orr_row_layout_extents(). INVALID: shards that are none. */
orr_status orr_row_layout_of(const orr_row_file_facts *facts, uint32_t sector, orr_arena *arena,
                             orr_row_layout *ret, orr_error *err) ORR_MUST_CHECK;
/* Extents that all rows need, `spare_frac` of them once more, and those that are being filled. */
uint64_t orr_row_layout_shape_extents(const orr_row_layout *layout, const orr_row_file_facts *facts,
                                      uint32_t shape, double spare_frac);
uint64_t orr_row_layout_extents(const orr_row_layout *layout, const orr_row_file_facts *facts,
                                double spare_frac);

/* Serialised; zeros up to whole sectors. */
orr_status orr_row_header_write(const orr_row_header *header, orr_arena *arena, void **ret,
                                size_t *ret_bytes, orr_error *err) ORR_MUST_CHECK;
/* Bytes of the whole header, of its first ones. PARSE: no header begins here. */
orr_status orr_row_header_bytes(const void *bytes, size_t n, size_t *ret,
                                orr_error *err) ORR_MUST_CHECK;
orr_status orr_row_header_read(const void *bytes, size_t n, orr_arena *arena, orr_row_header *ret,
                               orr_error *err) ORR_MUST_CHECK;
/* INVALID: the first difference, as one line. */
orr_status orr_row_header_check(const orr_row_header *header, const orr_row_file_facts *wanted,
                                orr_error *err) ORR_MUST_CHECK;
/* A copy in the arena. */
orr_status orr_row_facts_copy(const orr_row_file_facts *facts, orr_arena *arena,
                              orr_row_file_facts *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_STORE_FILE_HEADER_H */
