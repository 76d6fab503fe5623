/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "machine/catalog/entries.h"

/* The entry that a name means. */
static orr_status find(const orr_entry_list *list, const char *what, const char *name,
                       orr_arena *arena, const void **ret, orr_error *err)
{
    const void *fit[ORR_ENTRY_FITS];
    char none[32];
    if (orr_entry_search(list, name, true, fit) == 1) {
        *ret = fit[0];
        return ORR_OK;
    }
    (void)snprintf(none, sizeof none, "no %s", what);
    return orr_entry_fail(none, name, list,
                          "`orrery hw` lists what there is, and a name with a slash or ending in "
                          ".yaml is a file",
                          arena, err);
}

/* The catalogue with a user's file added. In a user's file each number is an assumption of that
 * file unless it says otherwise. */
static orr_status add_file(const orr_catalog *catalog, const orr_yaml *file, const char *path,
                           orr_arena *arena, const orr_catalog **ret, orr_error *err)
{
    const orr_scope scope = {.basis = ORR_FACT_ASSUMED, .source = path, .arena = arena};
    orr_catalog_builder shelf = {.arena = arena};
    orr_status status;
    ORR_TRY_OUT(status, orr_catalog_builder_add_all(&shelf, catalog, err));
    ORR_TRY_OUT(status, orr_catalog_file_read_parts(file, &scope, &shelf, err));
    ORR_TRY_OUT(status, orr_catalog_file_read_clusters(file, &scope, &shelf, err));
    status = orr_catalog_builder_freeze(&shelf, ret, err);
out:
    orr_catalog_builder_done(&shelf);
    return status;
}

static orr_status read_file(const orr_catalog *catalog, const char *path, orr_arena *arena,
                            const orr_catalog **ret, orr_error *err)
{
    const orr_yaml *file;
    ORR_TRY(orr_yaml_load(path, arena, &file, err));
    return add_file(catalog, file, path, arena, ret, err);
}

static orr_status check_one(const char *path, const char *what, uint32_t n, orr_error *err)
{
    return n == 1 ? ORR_OK
                  : orr_fail(err, ORR_INVALID, "%s:1:1: has %u %ss where one is needed", path, n,
                             what);
}

orr_status orr_cluster_read_text(const orr_catalog *catalog, const char *text, size_t n,
                                 const char *path, orr_arena *arena, const orr_cluster **ret,
                                 orr_error *err)
{
    const orr_catalog *all;
    const orr_yaml *file;
    ORR_TRY(orr_yaml_parse(text, n, path, arena, &file, err));
    ORR_TRY(add_file(catalog, file, path, arena, &all, err));
    ORR_TRY(check_one(path, "cluster", all->n_clusters - catalog->n_clusters, err));
    *ret = all->clusters[all->n_clusters - 1];
    return ORR_OK;
}

orr_status orr_cluster_load(const orr_catalog *catalog, const char *name, orr_arena *arena,
                            const orr_cluster **ret, orr_error *err)
{
    const orr_catalog *all;
    if (!orr_entry_is_file(name)) {
        const orr_entry_list list = orr_cluster_list(catalog);
        const void *found;
        ORR_TRY(find(&list, "cluster", name, arena, &found, err));
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
        const orr_entry_list list = orr_device_list(catalog);
        const void *found;
        ORR_TRY(find(&list, "device", name, arena, &found, err));
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
