/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/arguments/machine_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static orr_status make_folder(const char *path, orr_error *err)
{
    return mkdir(path, 0755) == 0 || errno == EEXIST
               ? ORR_OK
               : orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
}

orr_status orr_machine_file_path(const char *said, bool make, orr_arena *arena, const char **ret,
                                 orr_error *err)
{
    const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    *ret = said;
    if (said != NULL)
        return ORR_OK;
    if (cache == NULL || *cache != '/')
        cache = orr_arena_printf(arena, "%s/.cache", home != NULL && *home == '/' ? home : "/tmp");
    const char *folder = cache == NULL ? NULL : orr_arena_printf(arena, "%s/orrery", cache);
    *ret = folder == NULL ? NULL : orr_arena_printf(arena, "%s/machine.yaml", folder);
    if (*ret == NULL)
        return orr_fail_memory(err);
    if (!make)
        return ORR_OK;
    ORR_TRY(make_folder(cache, err));
    return make_folder(folder, err);
}

void orr_machine_progress(void *ctx, const char *what, double done)
{
    enum { PARTS = 1000 };
    (void)what;
    orr_progress_update(ctx, (uint64_t)(done * PARTS), PARTS);
}
