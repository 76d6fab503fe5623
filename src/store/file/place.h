/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_FILE_PLACE_H
#define ORR_STORE_FILE_PLACE_H

#include "store/file/row_file.h"

/* How records lie in sectors, and the numbers of their places.
 *
 * A sector is `payload` bytes, then their hash. Payloads of the sectors of a group follow one
 * another; record j of a group begins at byte j * R of sector j * (n - 1), where n sectors hold one
 * record at least and R is what the record has of the last of them. So no record touches more than
 * n sectors: with n = 1 a sector has payload / R of them, with n = 2 and 20 bytes in the second
 * sector the next record begins behind these 20 bytes, and so on until a sector is full. */
enum {
    ORR_ROW_HASH_BYTES = 8,
    ORR_ROW_ID_BYTES = 8,
    ORR_ROW_GROUP_RECORDS = 128, /* what 7 bits of a place number */
    ORR_ROW_PLACE_BITS = 43,
    ORR_ROW_GENERATIONS = 1 << 12,
};

typedef struct orr_row_shape {
    uint32_t record_bytes;  /* number, row and state */
    uint32_t sectors;       /* n: that a record touches */
    uint32_t last_bytes;    /* R: of it in the last sector */
    uint32_t per_group;     /* records */
    uint32_t group_sectors; /* per_group * (n - 1) + 1 */
} orr_row_shape;
/* LIMIT: a record of more than 2^20 bytes. INVALID: a sector that is no power of two of 64 to
 * 65,536 bytes. */
orr_status orr_row_shape_of(uint64_t row_bytes, uint64_t state_bytes, uint32_t sector,
                            orr_row_shape *ret, orr_error *err) ORR_MUST_CHECK;

/* A row's number in the file: that of its shard in the high 16 bits. */
enum { ORR_ROW_NUMBER_BITS = 48 };
static inline uint64_t orr_row_id(uint32_t shard, int64_t row)
{
    return (uint64_t)shard << ORR_ROW_NUMBER_BITS | (uint64_t)row;
}

/* Homes: the sector where a record begins, its number in the group, and the generation. */
static inline orr_row_entry orr_row_home(uint64_t sector, uint32_t record, uint32_t generation)
{
    return ((sector << 7 | record) + 1) | (uint64_t)generation << ORR_ROW_PLACE_BITS;
}
static inline uint64_t orr_row_home_sector(orr_row_entry home)
{
    return ((home & ((UINT64_C(1) << ORR_ROW_PLACE_BITS) - 1)) - 1) >> 7;
}
static inline uint32_t orr_row_home_record(orr_row_entry home)
{
    return (uint32_t)((home - 1) & 127);
}
static inline uint32_t orr_row_home_generation(orr_row_entry home)
{
    return (uint32_t)(home >> ORR_ROW_PLACE_BITS) & (ORR_ROW_GENERATIONS - 1);
}
/* First sector of the group that a record is in. Wraps where the home is none of this shape. */
static inline uint64_t orr_row_home_group(const orr_row_shape *shape, orr_row_entry home)
{
    return orr_row_home_sector(home) - (uint64_t)orr_row_home_record(home) * (shape->sectors - 1);
}

/* The hash of a sector: XXH3 of its payload, seeded with the file, the sector's number on the
 * device and a generation. */
typedef struct orr_sector_key {
    uint64_t file_id, sector;
    uint64_t generation;
} orr_sector_key;
void orr_sector_seal(void *bytes, uint32_t sector_bytes, orr_sector_key key);
bool orr_sector_is_whole(const void *bytes, uint32_t sector_bytes, orr_sector_key key);

/* `n` bytes to or from the payloads of consecutive sectors, from byte `at` of these payloads. */
void orr_sector_put(void *sectors, uint32_t sector_bytes, uint64_t at, const void *from, size_t n);
void orr_sector_get(const void *sectors, uint32_t sector_bytes, uint64_t at, void *ret, size_t n);

#endif /* ORR_STORE_FILE_PLACE_H */
