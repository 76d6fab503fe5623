/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <xxhash.h>

#include "base/alloc.h"
#include "store/file/place.h"

enum { LARGEST_RECORD = 1 << 20 };

/* Bytes of records in a thousand bytes of payload. */
static uint64_t fill_of(const orr_row_shape *s, uint32_t payload)
{
    return (uint64_t)s->per_group * s->record_bytes * 1000 / ((uint64_t)s->group_sectors * payload);
}

static void set_group(orr_row_shape *s, uint32_t records)
{
    s->per_group = records;
    s->group_sectors = records * (s->sectors - 1) + 1;
}

orr_status orr_row_shape_of(uint64_t row_bytes, uint64_t state_bytes, uint32_t sector,
                            orr_row_shape *ret, orr_error *err)
{
    if (sector < 64 || sector > 1 << 16 || (sector & (sector - 1)) != 0)
        return orr_fail(err, ORR_INVALID,
                        "sectors of %u bytes: must be a power of two of 64 to "
                        "65536",
                        sector);
    if (row_bytes == 0 || row_bytes > LARGEST_RECORD || state_bytes > LARGEST_RECORD ||
        ORR_ROW_ID_BYTES + row_bytes + state_bytes > LARGEST_RECORD)
        return orr_fail(err, ORR_LIMIT,
                        "rows of %llu bytes with %llu bytes of state: must be 1 to "
                        "%d bytes",
                        (unsigned long long)row_bytes, (unsigned long long)state_bytes,
                        LARGEST_RECORD - ORR_ROW_ID_BYTES);
    const uint32_t payload = sector - ORR_ROW_HASH_BYTES;
    orr_row_shape s = {.record_bytes = (uint32_t)(ORR_ROW_ID_BYTES + row_bytes + state_bytes)};
    s.sectors = (s.record_bytes + payload - 1) / payload;
    s.last_bytes = s.record_bytes - (s.sectors - 1) * payload;
    const uint32_t most = (uint32_t)orr_min_size(payload / s.last_bytes, ORR_ROW_GROUP_RECORDS);
    set_group(&s, most);
    /* Groups are what becomes free and is written again, so they are short: the shortest that waste
     * hardly more than the longest. */
    const uint64_t best = fill_of(&s, payload);
    for (uint32_t records = 1; s.sectors > 1 && records <= most; records++) {
        set_group(&s, records);
        if (fill_of(&s, payload) * 10 >= best * 9)
            break;
    }
    *ret = s;
    return ORR_OK;
}

static uint64_t hash_of(const void *bytes, uint32_t sector_bytes, orr_sector_key key)
{
    const uint64_t seed = (key.file_id ^ key.sector * UINT64_C(0x9e3779b97f4a7c15)) +
                          key.generation * UINT64_C(0xc2b2ae3d27d4eb4f);
    return XXH3_64bits_withSeed(bytes, sector_bytes - ORR_ROW_HASH_BYTES, seed);
}

void orr_sector_seal(void *bytes, uint32_t sector_bytes, orr_sector_key key)
{
    const uint64_t hash = hash_of(bytes, sector_bytes, key);
    memcpy((char *)bytes + sector_bytes - ORR_ROW_HASH_BYTES, &hash, sizeof hash);
}

bool orr_sector_is_whole(const void *bytes, uint32_t sector_bytes, orr_sector_key key)
{
    uint64_t hash;
    memcpy(&hash, (const char *)bytes + sector_bytes - ORR_ROW_HASH_BYTES, sizeof hash);
    return hash == hash_of(bytes, sector_bytes, key);
}

void orr_sector_put(void *sectors, uint32_t sector_bytes, uint64_t at, const void *from, size_t n)
{
    const uint32_t payload = sector_bytes - ORR_ROW_HASH_BYTES;
    for (size_t done = 0; done < n;) {
        const uint64_t in = (at + done) % payload;
        const size_t part = orr_min_size(payload - in, n - done);
        memcpy((char *)sectors + (at + done) / payload * sector_bytes + in,
               (const char *)from + done, part);
        done += part;
    }
}

void orr_sector_get(const void *sectors, uint32_t sector_bytes, uint64_t at, void *ret, size_t n)
{
    const uint32_t payload = sector_bytes - ORR_ROW_HASH_BYTES;
    for (size_t done = 0; done < n;) {
        const uint64_t in = (at + done) % payload;
        const size_t part = orr_min_size(payload - in, n - done);
        memcpy((char *)ret + done,
               (const char *)sectors + (at + done) / payload * sector_bytes + in, part);
        done += part;
    }
}
