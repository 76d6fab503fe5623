/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_STORE_FILE_LOG_H
#define ORR_STORE_FILE_LOG_H

#include "store/file/file.h"

/* The two regions of the log, on disk. Numbers are little endian; each sector ends in its hash.
 *
 *   sector 0              orr_row_region: zeros, or what makes the region valid. Key: generation 0
 *   1 ..                  its snapshot: homes of all rows, shard by shard, 8 bytes each; none where
 *                         no row has been written. Key: the region's sequence, like all below
 *   then each commit      one sector orr_row_mark, which is zeros until the commit is durable, then
 *                         its changes: orr_row_change
 *   then                  a sector of zeros, where the mark of the next commit goes
 *
 * A commit writes its changes and the zeros behind them, syncs them along with its rows, and then
 * writes its mark, one sector, which no crash tears, and syncs that. So whatever stands where a
 * mark is looked for is zeros or a mark: all else is damage, and is never taken for the end of the
 * log. The same holds for a snapshot, whose mark is the sector before it; it goes to the region
 * that is not in use. */
#define ORR_ROW_REGION_MAGIC UINT64_C(0x006e6f6967657272) /* "rregion" */
#define ORR_ROW_MARK_MAGIC   UINT64_C(0x0074696d6d6f6372) /* "rcommit" */

typedef struct orr_row_region {
    uint64_t magic, sequence;
    int64_t step, settled;
    uint64_t rows; /* of the snapshot: all or 0 */
    uint64_t hash; /* of the hashes of the snapshot's sectors */
} orr_row_region;

typedef struct orr_row_mark {
    uint64_t magic, number; /* counts from 0 in a region */
    int64_t step, settled;
    uint64_t changes;
    uint64_t hash; /* of the hashes of the sectors with changes */
} orr_row_mark;

typedef struct orr_row_change {
    uint64_t id; /* orr_row_id() */
    orr_row_entry home;
} orr_row_change;

static inline uint64_t orr_row_log_sector(const orr_row_file *file, uint32_t region, uint64_t at)
{
    return file->layout.log_at + region * file->layout.log_sectors + at;
}
static inline uint64_t orr_row_log_sectors(const orr_row_file *file, uint64_t bytes)
{
    const uint32_t payload = file->layout.sector - ORR_ROW_HASH_BYTES;
    return (bytes + payload - 1) / payload;
}
/* The hash of the hashes so far and of one more sector. */
static inline uint64_t orr_row_log_hash(uint64_t hash, const char *sector, uint32_t sector_bytes)
{
    uint64_t of_sector;
    __builtin_memcpy(&of_sector, sector + sector_bytes - ORR_ROW_HASH_BYTES, sizeof of_sector);
    return (hash ^ of_sector) * UINT64_C(0x9fb21c651e98df25) + 1;
}
bool orr_row_is_zeros(const void *bytes, size_t n);
/* A sector with a region's head or a mark: written, waited for. */
orr_status orr_row_log_put(orr_row_file *file, uint32_t region, uint64_t at, uint64_t generation,
                           const void *bytes, size_t n, orr_row_others others,
                           orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_STORE_FILE_LOG_H */
