/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "machine/catalog/entries.h"
#include "machine/catalog/sites.h"

static const orr_field FIELDS[] = {
    {.key = "name", .kind = ORR_FIELD_TEXT, .offset = offsetof(orr_site, name), .required = true},
    {.key = "region", .kind = ORR_FIELD_TEXT, .offset = offsetof(orr_site, region)},
    {.key = "devices", .kind = ORR_FIELD_OTHER, .required = true},
    {.key = "device", .kind = ORR_FIELD_OTHER},
    {.key = "price",
     .kind = ORR_FIELD_FACT,
     .quantity = ORR_QUANTITY_USD,
     .offset = offsetof(orr_site, price_per_hour)},
};
enum { N_FIELDS = sizeof FIELDS / sizeof *FIELDS };

const orr_field *orr_site_fields(size_t *ret_n)
{
    *ret_n = N_FIELDS;
    return FIELDS;
}

/* Devices of a site: whole hosts, where sites are larger than hosts. */
static orr_status read_devices(const orr_yaml *value, const orr_cluster *cluster, orr_site *site,
                               orr_error *err)
{
    const orr_level *largest = &cluster->levels[cluster->n_levels - 1];
    const uint32_t host = cluster->n_levels > 1 ? cluster->levels[0].devices : 1;
    double devices;
    ORR_TRY(orr_quantity_read(value, "devices", ORR_QUANTITY_COUNT, &devices, err));
    if (devices < 1)
        return orr_yaml_fail(value, ORR_INVALID, err, "devices: a site has at least one");
    if (devices > largest->devices)
        return orr_yaml_fail(value, ORR_INVALID, err,
                             "devices: %.0f, where level '%.80s', the last one, holds %u", devices,
                             largest->name, largest->devices);
    site->devices = (uint32_t)devices;
    if (site->devices % host != 0)
        return orr_yaml_fail(value, ORR_INVALID, err,
                             "devices: %u is no multiple of %u, the devices of a unit of level "
                             "'%.80s'",
                             site->devices, host, cluster->levels[0].name);
    return ORR_OK;
}

static orr_status read_site(const orr_yaml *map, const orr_scope *scope, const orr_catalog *parts,
                            const orr_cluster *cluster, orr_site *ret, orr_error *err)
{
    orr_scope inner = *scope;
    ORR_TRY(orr_schema_read(map, "a site", FIELDS, N_FIELDS, &inner, ret, err));
    const orr_yaml *device = orr_yaml_find(map, "device");
    ret->device = cluster->device;
    if (device != NULL)
        ORR_TRY(orr_device_ref_read(device, parts, scope->arena, &ret->device, err));
    return read_devices(orr_yaml_find(map, "devices"), cluster, ret, err);
}

/* Names are unique, and sites of a region are consecutive. */
static orr_status check_site(const orr_yaml *map, const orr_site *sites, uint32_t s, orr_error *err)
{
    const orr_site *site = &sites[s];
    for (uint32_t i = 0; i < s; i++) {
        if (strcmp(sites[i].name, site->name) == 0)
            return orr_yaml_fail(orr_yaml_find(map, "name"), ORR_INVALID, err,
                                 "two sites are called '%.80s'", site->name);
        if (strcmp(sites[i].region, site->region) == 0 &&
            strcmp(sites[s - 1].region, site->region) != 0)
            return orr_yaml_fail(
                map, ORR_INVALID, err,
                "site '%.80s' stands apart from '%.80s' of the same region '%.80s': "
                "put the sites of a region together",
                site->name, sites[i].name, site->region);
    }
    return ORR_OK;
}

static orr_status read_list(const orr_yaml *list, const orr_scope *scope, const orr_catalog *parts,
                            orr_cluster *cluster, orr_error *err)
{
    if (list->kind != ORR_YAML_LIST || list->n < 2)
        return orr_yaml_fail(list, ORR_INVALID, err,
                             "sites: a list of two or more: {name: north, devices: 24576}");
    if (list->n > ORR_SITES_MAX)
        return orr_yaml_fail(list, ORR_LIMIT, err, "sites: more than %d", ORR_SITES_MAX);
    orr_site *sites = orr_arena_array(scope->arena, orr_site, list->n);
    uint64_t devices = 0;
    if (sites == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < list->n; s++) {
        ORR_TRY(read_site(list->values[s], scope, parts, cluster, &sites[s], err));
        ORR_TRY(check_site(list->values[s], sites, s, err));
        devices += sites[s].devices;
        if (devices > INT32_MAX)
            return orr_yaml_fail(list->values[s], ORR_LIMIT, err,
                                 "sites: more than 2,147,483,647 devices");
    }
    cluster->sites = sites;
    cluster->n_sites = list->n;
    cluster->device = orr_sites_device(cluster);
    return ORR_OK;
}

/* Levels are identified by their names, which must differ. */
static orr_status check_names(const orr_yaml *list, const orr_site_levels *levels, orr_error *err)
{
    for (uint32_t l = 0; l < levels->n_inner; l++) {
        const char *name = levels->inner[l].name;
        if (strcmp(name, levels->region.name) == 0 || strcmp(name, levels->wan.name) == 0)
            return orr_yaml_fail(list->values[l], ORR_INVALID, err,
                                 "level '%.80s' is called as what cuts make: give one of them "
                                 "another name",
                                 name);
    }
    return ORR_OK;
}

orr_status orr_sites_read(const orr_yaml *map, const orr_scope *scope, const orr_catalog *parts,
                          orr_cluster *cluster, orr_error *err)
{
    const orr_yaml *list = orr_yaml_find(map, "sites");
    orr_site_levels levels = {
        .inner = cluster->levels,
        .n_inner = cluster->n_levels,
        .region = {.name = "region", .technology = ""},
        .wan = {.name = "wan", .technology = ""},
    };
    ORR_TRY(read_list(list, scope, parts, cluster, err));
    ORR_TRY(
        orr_site_links_read(map, orr_yaml_find(map, "cuts"), scope, parts, cluster, &levels, err));
    if (levels.n_inner + 2 > ORR_LEVELS_MAX)
        return orr_yaml_fail(orr_yaml_find(map, "levels"), ORR_LIMIT, err,
                             "levels: more than %d inside of a site", ORR_LEVELS_MAX - 2);
    ORR_TRY(check_names(orr_yaml_find(map, "levels"), &levels, err));
    return orr_sites_build_levels(cluster, &levels, scope->arena, err);
}

static bool find_buildings(const orr_cluster *cluster, uint32_t *ret_level)
{
    for (uint32_t l = 0; l + 1 < cluster->n_levels; l++) {
        const uint32_t n = cluster->n_devices / cluster->levels[l].devices;
        if (strcmp(cluster->levels[l].name, "building") == 0 && n >= 2 && n <= ORR_SITES_MAX) {
            *ret_level = l;
            return true;
        }
    }
    return false;
}

/* Buildings within one unit of the level above are of one region. */
static orr_status name_regions(const orr_cluster *cluster, uint32_t level, orr_site *sites,
                               uint32_t n, orr_arena *arena, orr_error *err)
{
    const orr_level *above = &cluster->levels[level + 1];
    for (uint32_t s = 0; s < n; s++) {
        sites[s].region = "";
        if (level + 2 == cluster->n_levels)
            continue;
        sites[s].region = s % above->size > 0
                              ? sites[s - 1].region
                              : orr_arena_printf(arena, "%s %u", above->name, s / above->size + 1);
        if (sites[s].region == NULL)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

/* The link between two buildings: the facts of the lowest level that joins both. */
static orr_site_link cut_of_level(const orr_cluster *cluster, uint32_t building, uint32_t a,
                                  uint32_t b)
{
    const uint32_t devices = cluster->levels[building].devices;
    uint32_t l = building + 1;
    while (a * devices / cluster->levels[l].devices != b * devices / cluster->levels[l].devices)
        l++;
    const orr_level *level = &cluster->levels[l];
    return (orr_site_link){.a = a,
                           .b = b,
                           .km = orr_fact_unknown(),
                           .bytes_per_s = level->bytes_per_s,
                           .latency_ns = level->latency_ns,
                           .oversubscription = level->oversubscription,
                           .price_per_gb = orr_fact_unknown(),
                           .transport = level->transport,
                           .technology = level->technology};
}

orr_status orr_sites_of_buildings(orr_cluster *cluster, orr_arena *arena, orr_error *err)
{
    uint32_t level;
    if (!find_buildings(cluster, &level))
        return ORR_OK;
    const uint32_t n = cluster->n_devices / cluster->levels[level].devices;
    orr_site *sites = orr_arena_array(arena, orr_site, n);
    orr_site_link *cuts = orr_arena_array(arena, orr_site_link, n * (n - 1) / 2);
    if (sites == NULL || cuts == NULL)
        return orr_fail_memory(err);
    for (uint32_t s = 0; s < n; s++)
        sites[s] = (orr_site){.name = "",
                              .device = cluster->device,
                              .devices = cluster->levels[level].devices,
                              .price_per_hour = orr_fact_unknown()};
    ORR_TRY(name_regions(cluster, level, sites, n, arena, err));
    cluster->n_cuts = 0;
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            cuts[cluster->n_cuts++] = cut_of_level(cluster, level, a, b);
    cluster->sites = sites;
    cluster->n_sites = n;
    cluster->cuts = cuts;
    cluster->site_level = level;
    return ORR_OK;
}
