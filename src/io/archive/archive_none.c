/* SPDX-License-Identifier: Apache-2.0 */
#include "io/archive/archive.h"

/* Built without libarchive: archives are recognised, so that the user is told, and not read. */

orr_status orr_archive_open(const char *path, orr_archive **ret, orr_error *err)
{
    (void)path, (void)ret;
    return orr_fail(err, ORR_UNSUPPORTED,
                    "archives need libarchive, and this build has none: unpack the archive and "
                    "name the folder");
}

void orr_archive_close(orr_archive *archive)
{
    (void)archive;
}

orr_status orr_archive_next(orr_archive *archive, orr_archive_member *ret, bool *ret_end,
                            orr_error *err)
{
    (void)archive, (void)ret, (void)ret_end;
    return orr_fail(err, ORR_UNSUPPORTED, "this build has no libarchive");
}

orr_status orr_archive_read(orr_archive *archive, void *to, size_t room, size_t *ret_n,
                            orr_error *err)
{
    (void)archive, (void)to, (void)room, (void)ret_n;
    return orr_fail(err, ORR_UNSUPPORTED, "this build has no libarchive");
}

bool orr_archive_is_sequential(const orr_archive *archive)
{
    (void)archive;
    return false;
}
