/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/closest.h"
#include "machine/catalog/entries.h"

static orr_status fail_no_entry(const char *what, const char *name, const void *entries, size_t n,
                                orr_arena *arena, orr_error *err)
{
    const char *const *names = orr_entry_names(entries, n, arena);
    if (names == NULL)
        return orr_fail_memory(err);
    const char *close = orr_closest_match(name, names, n);
    return close != NULL ? orr_fail(err, ORR_NOT_FOUND, "no %s '%.80s'; did you mean '%s'?", what,
                                    name, close)
                         : orr_fail(err, ORR_NOT_FOUND,
                                    "no %s '%.80s'; `orrery hw` lists what there is, and "
                                    "a name with a slash or ending in .yaml is a file",
                                    what, name);
}

/* The catalogue with a user's file added. In a user's file each number is an assumption of that
 * file unless it says otherwise. */
static orr_status read_file(const orr_catalog *catalog, const char *path, orr_arena *arena,
                            const orr_catalog **ret, orr_error *err)
{
    const orr_scope scope = {.basis = ORR_FACT_ASSUMED, .source = path, .arena = arena};
    orr_catalog_builder shelf = {.arena = arena};
    const orr_yaml *file;
    orr_status status;
    ORR_TRY(orr_yaml_load(path, arena, &file, err));
    ORR_TRY_OUT(status, orr_catalog_builder_add_all(&shelf, catalog, err));
    ORR_TRY_OUT(status, orr_catalog_file_read_parts(file, &scope, &shelf, err));
    ORR_TRY_OUT(status, orr_catalog_file_read_clusters(file, &scope, &shelf, err));
    status = orr_catalog_builder_freeze(&shelf, ret, err);
out:
    orr_catalog_builder_done(&shelf);
    return status;
}

static orr_status check_one(const char *path, const char *what, uint32_t n, orr_error *err)
{
    return n == 1 ? ORR_OK
                  : orr_fail(err, ORR_INVALID, "%s:1:1: has %u %ss where one is needed", path, n,
                             what);
}

orr_status orr_cluster_load(const orr_catalog *catalog, const char *name, orr_arena *arena,
                            const orr_cluster **ret, orr_error *err)
{
    const orr_catalog *all;
    if (!orr_entry_is_file(name)) {
        const orr_cluster *found = orr_catalog_cluster(catalog, name);
        if (found == NULL)
            return fail_no_entry("cluster", name, catalog->clusters, catalog->n_clusters, arena,
                                 err);
        *ret = found;
        return ORR_OK;
    }
    name = orr_arena_strndup(arena, name, strlen(name));
    if (name == NULL)
        return orr_fail_memory(err);
    ORR_TRY(read_file(catalog, name, arena, &all, err));
    ORR_TRY(check_one(name, "cluster", all->n_clusters - catalog->n_clusters, err));
    *ret = all->clusters[all->n_clusters - 1];
    return ORR_OK;
}

orr_status orr_device_load(const orr_catalog *catalog, const char *name, orr_arena *arena,
                           const orr_device **ret, orr_error *err)
{
    const orr_catalog *all;
    if (!orr_entry_is_file(name)) {
        const orr_device *found = orr_catalog_device(catalog, name);
        if (found == NULL)
            return fail_no_entry("device", name, catalog->devices, catalog->n_devices, arena, err);
        *ret = found;
        return ORR_OK;
    }
    name = orr_arena_strndup(arena, name, strlen(name));
    if (name == NULL)
        return orr_fail_memory(err);
    ORR_TRY(read_file(catalog, name, arena, &all, err));
    ORR_TRY(check_one(name, "device", all->n_devices - catalog->n_devices, err));
    *ret = all->devices[all->n_devices - 1];
    return ORR_OK;
}
