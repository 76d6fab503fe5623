/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/closest.h"
#include "machine/catalog/entries.h"

static const char *const SECTIONS[] = {"devices", "links",  "memory", "clusters",
                                       "sources", "source", "basis"};
enum { N_SECTIONS = sizeof SECTIONS / sizeof *SECTIONS };

static orr_status check_sections(const orr_yaml *file, orr_error *err)
{
    if (file->kind != ORR_YAML_MAP)
        return orr_yaml_fail(file, ORR_INVALID, err,
                             "a catalogue file is a map of sections: "
                             "devices, links, memory, clusters");
    for (uint32_t i = 0; i < file->n; i++) {
        size_t k = 0;
        while (k < N_SECTIONS && strcmp(file->keys[i]->text, SECTIONS[k]) != 0)
            k++;
        if (k == N_SECTIONS)
            return orr_fail_unknown(file->keys[i], "section of a catalogue file",
                                    file->keys[i]->text, SECTIONS, N_SECTIONS, err);
    }
    return ORR_OK;
}

static orr_status enter_file(const orr_yaml *file, orr_scope *scope, orr_error *err)
{
    ORR_TRY(check_sections(file, err));
    scope->abbreviations = orr_yaml_find(file, "sources");
    if (scope->abbreviations != NULL && scope->abbreviations->kind != ORR_YAML_MAP)
        return orr_yaml_fail(scope->abbreviations, ORR_INVALID, err,
                             "sources: a map of abbreviations: {paper: \"arXiv ...\"}");
    return orr_scope_enter(file, scope, err);
}

/* An empty section has no entries. */
static orr_status section(const orr_yaml *file, const char *name, const orr_yaml **ret,
                          orr_error *err)
{
    static const orr_yaml none = {.kind = ORR_YAML_MAP};
    const orr_yaml *found = orr_yaml_find(file, name);
    if (found == NULL)
        found = &none;
    else if (found->kind != ORR_YAML_MAP)
        return orr_yaml_fail(found, ORR_INVALID, err, "%s: a map of entries by name", name);
    *ret = found;
    return ORR_OK;
}

static orr_status read_devices(const orr_yaml *all, const orr_scope *scope,
                               orr_catalog_builder *shelf, orr_error *err)
{
    for (uint32_t i = 0; i < all->n; i++) {
        const orr_device *device;
        ORR_TRY(orr_device_read(all->keys[i], all->values[i], scope, &device, err));
        if (!orr_array_push(&shelf->devices, device))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static orr_status read_tiers(const orr_yaml *all, const orr_scope *scope,
                             orr_catalog_builder *shelf, orr_error *err)
{
    for (uint32_t i = 0; i < all->n; i++) {
        const orr_memory_tier *tier;
        ORR_TRY(orr_tier_read(all->keys[i], all->values[i], scope, &tier, err));
        if (!orr_array_push(&shelf->tiers, tier))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

static orr_status read_links(const orr_yaml *all, const orr_scope *scope,
                             orr_catalog_builder *shelf, orr_error *err)
{
    for (uint32_t i = 0; i < all->n; i++) {
        const orr_link *link;
        ORR_TRY(orr_link_read(all->keys[i], all->values[i], scope, &link, err));
        if (!orr_array_push(&shelf->links, link))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

orr_status orr_catalog_file_read_parts(const orr_yaml *file, const orr_scope *outer,
                                       orr_catalog_builder *shelf, orr_error *err)
{
    orr_scope scope = *outer;
    const orr_yaml *devices, *tiers, *links;
    ORR_TRY(enter_file(file, &scope, err));
    ORR_TRY(section(file, "devices", &devices, err));
    ORR_TRY(section(file, "memory", &tiers, err));
    ORR_TRY(section(file, "links", &links, err));
    ORR_TRY(read_devices(devices, &scope, shelf, err));
    ORR_TRY(read_tiers(tiers, &scope, shelf, err));
    return read_links(links, &scope, shelf, err);
}

orr_status orr_catalog_file_read_clusters(const orr_yaml *file, const orr_scope *outer,
                                          orr_catalog_builder *shelf, orr_error *err)
{
    orr_scope scope = *outer;
    const orr_yaml *all;
    const orr_catalog *parts;
    ORR_TRY(enter_file(file, &scope, err));
    ORR_TRY(section(file, "clusters", &all, err));
    ORR_TRY(orr_catalog_builder_freeze(shelf, &parts, err));
    for (uint32_t i = 0; i < all->n; i++) {
        const orr_cluster *cluster;
        ORR_TRY(orr_cluster_read(all->keys[i], all->values[i], &scope, parts, &cluster, err));
        if (!orr_array_push(&shelf->clusters, cluster))
            return orr_fail_memory(err);
    }
    return ORR_OK;
}
