/* SPDX-License-Identifier: Apache-2.0 */
#include "support/simulated/disk.h"

#include <string.h>

#include "base/alloc.h"

void orr_sim_disk_done(orr_sim_disk *disk)
{
    orr_free(disk->record);
    *disk = (orr_sim_disk){0};
}

orr_status orr_sim_disk_load(const orr_sim_disk *disk, uint64_t *ret_version, void *ret,
                             size_t room, size_t *ret_bytes, orr_error *err)
{
    if (!disk->holds)
        return orr_fail(err, ORR_NOT_FOUND, "there is no record on the disk");
    if (disk->unreadable)
        return orr_fail(err, ORR_PARSE, "the record on the disk cannot be read");
    if (disk->bytes > room)
        return orr_fail(err, ORR_LIMIT, "a record of %zu bytes is longer than %zu", disk->bytes,
                        room);
    if (disk->bytes > 0)
        memcpy(ret, disk->record, disk->bytes);
    *ret_bytes = disk->bytes;
    *ret_version = disk->version;
    return ORR_OK;
}

static bool replace(orr_sim_disk *disk, uint64_t version, const void *record, size_t bytes)
{
    uint8_t *copy = orr_malloc(bytes > 0 ? bytes : 1);
    if (copy == NULL)
        return false;
    if (bytes > 0)
        memcpy(copy, record, bytes);
    orr_free(disk->record);
    disk->record = copy;
    disk->bytes = bytes;
    disk->version = version;
    disk->holds = true;
    disk->unreadable = false;
    disk->saves++;
    return true;
}

orr_status orr_sim_disk_save(orr_sim_disk *disk, uint64_t version, const void *record, size_t bytes,
                             orr_error *err)
{
    const bool crashes = disk->crash_save > 0 && --disk->crash_save == 0;
    if ((!crashes || disk->crash_kept) && !replace(disk, version, record, bytes))
        return orr_fail_memory(err);
    if (!crashes)
        return ORR_OK;
    if (disk->crash != NULL)
        disk->crash(disk->ctx);
    return orr_fail(err, ORR_IO, "the host died while it wrote");
}

void orr_sim_disk_wipe(orr_sim_disk *disk)
{
    orr_free(disk->record);
    disk->record = NULL;
    disk->bytes = 0;
    disk->version = 0;
    disk->holds = disk->unreadable = false;
}

void orr_sim_disk_spoil(orr_sim_disk *disk)
{
    disk->unreadable = true;
}
