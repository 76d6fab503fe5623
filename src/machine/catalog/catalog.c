/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "machine/catalog/embedded_files.h"
#include "machine/catalog/entries.h"

void orr_catalog_builder_done(orr_catalog_builder *shelf)
{
    orr_array_done(&shelf->devices);
    orr_array_done(&shelf->tiers);
    orr_array_done(&shelf->links);
    orr_array_done(&shelf->clusters);
}

orr_status orr_catalog_builder_add_all(orr_catalog_builder *shelf, const orr_catalog *catalog,
                                       orr_error *err)
{
    bool good = true;
    for (uint32_t i = 0; i < catalog->n_devices; i++)
        good &= orr_array_push(&shelf->devices, catalog->devices[i]);
    for (uint32_t i = 0; i < catalog->n_tiers; i++)
        good &= orr_array_push(&shelf->tiers, catalog->tiers[i]);
    for (uint32_t i = 0; i < catalog->n_links; i++)
        good &= orr_array_push(&shelf->links, catalog->links[i]);
    for (uint32_t i = 0; i < catalog->n_clusters; i++)
        good &= orr_array_push(&shelf->clusters, catalog->clusters[i]);
    return good ? ORR_OK : orr_fail_memory(err);
}

/* Each array copied into the arena, a pointer wide. */
static const void *copy_pointers(orr_arena *arena, const void *from, size_t n)
{
    const void **to = orr_arena_array(arena, const void *, n);
    if (to != NULL && n > 0)
        memcpy(to, from, n * sizeof *to);
    return to;
}

orr_status orr_catalog_builder_freeze(const orr_catalog_builder *shelf, const orr_catalog **ret,
                                      orr_error *err)
{
    orr_catalog *catalog = orr_arena_one(shelf->arena, orr_catalog);
    if (catalog == NULL)
        return orr_fail_memory(err);
    *catalog = (orr_catalog){
        .n_devices = (uint32_t)shelf->devices.n,
        .n_tiers = (uint32_t)shelf->tiers.n,
        .n_links = (uint32_t)shelf->links.n,
        .n_clusters = (uint32_t)shelf->clusters.n,
        .devices = copy_pointers(shelf->arena, shelf->devices.at, shelf->devices.n),
        .tiers = copy_pointers(shelf->arena, shelf->tiers.at, shelf->tiers.n),
        .links = copy_pointers(shelf->arena, shelf->links.at, shelf->links.n),
        .clusters = copy_pointers(shelf->arena, shelf->clusters.at, shelf->clusters.n),
    };
    if (catalog->devices == NULL || catalog->tiers == NULL || catalog->links == NULL ||
        catalog->clusters == NULL)
        return orr_fail_memory(err);
    *ret = catalog;
    return ORR_OK;
}

static orr_status parse_files(const orr_yaml **files, orr_arena *arena, orr_error *err)
{
    for (size_t i = 0; i < orr_n_catalog_files; i++) {
        const orr_catalog_file *file = &orr_catalog_files[i];
        ORR_TRY(
            orr_yaml_parse((const char *)file->bytes, file->n, file->name, arena, &files[i], err));
    }
    return ORR_OK;
}

orr_status orr_catalog_open(orr_arena *arena, const orr_catalog **ret, orr_error *err)
{
    const orr_scope scope = {.arena = arena};
    orr_catalog_builder shelf = {.arena = arena};
    orr_status status;
    const orr_yaml **files = orr_arena_array(arena, const orr_yaml *, orr_n_catalog_files);
    if (files == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, parse_files(files, arena, err));
    for (size_t i = 0; i < orr_n_catalog_files; i++)
        ORR_TRY_OUT(status, orr_catalog_file_read_parts(files[i], &scope, &shelf, err));
    for (size_t i = 0; i < orr_n_catalog_files; i++)
        ORR_TRY_OUT(status, orr_catalog_file_read_clusters(files[i], &scope, &shelf, err));
    status = orr_catalog_builder_freeze(&shelf, ret, err);
out:
    orr_catalog_builder_done(&shelf);
    return status;
}

const orr_device *orr_catalog_device(const orr_catalog *catalog, const char *name)
{
    return orr_entry_find(catalog->devices, catalog->n_devices, name);
}

const orr_cluster *orr_catalog_cluster(const orr_catalog *catalog, const char *name)
{
    return orr_entry_find(catalog->clusters, catalog->n_clusters, name);
}

const orr_memory_tier *orr_catalog_tier(const orr_catalog *catalog, const char *name)
{
    return orr_entry_find(catalog->tiers, catalog->n_tiers, name);
}

const orr_link *orr_catalog_link(const orr_catalog *catalog, const char *name)
{
    const orr_entry_list list = orr_link_list(catalog);
    const void *fit[ORR_ENTRY_FITS];
    return orr_entry_search(&list, name, false, fit) == 1 ? fit[0] : NULL;
}
