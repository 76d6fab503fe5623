/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "machine/catalog/entries.h"
#include "machine/catalog/sites.h"

static const orr_field CLUSTER_FIELDS[] = {
    {.key = "device", .kind = ORR_FIELD_OTHER, .required = true},
    {.key = "levels", .kind = ORR_FIELD_OTHER, .required = true},
    {.key = "sites", .kind = ORR_FIELD_OTHER},
    {.key = "cuts", .kind = ORR_FIELD_OTHER},
    {.key = "tiers", .kind = ORR_FIELD_OTHER},
    {.key = "aliases",
     .kind = ORR_FIELD_TEXTS,
     .offset = offsetof(orr_cluster, aliases),
     .count = offsetof(orr_cluster, n_aliases)},
    {.key = "notes", .kind = ORR_FIELD_TEXT, .offset = offsetof(orr_cluster, notes)},
};

static const orr_field LEVEL_FIELDS[] = {
    {.key = "name", .kind = ORR_FIELD_TEXT, .offset = offsetof(orr_level, name), .required = true},
    {.key = "size", .kind = ORR_FIELD_OTHER, .required = true},
    {.key = "topology", .kind = ORR_FIELD_OTHER},
    {.key = "kind", .kind = ORR_FIELD_OTHER},
    {.key = "technology", .kind = ORR_FIELD_TEXT, .offset = offsetof(orr_level, technology)},
    {.key = "bandwidth",
     .kind = ORR_FIELD_FACT,
     .quantity = ORR_QUANTITY_BANDWIDTH,
     .offset = offsetof(orr_level, bytes_per_s)},
    {.key = "latency",
     .kind = ORR_FIELD_FACT,
     .quantity = ORR_QUANTITY_NS,
     .offset = offsetof(orr_level, latency_ns)},
    {.key = "oversubscription",
     .kind = ORR_FIELD_FACT,
     .quantity = ORR_QUANTITY_RATIO,
     .offset = offsetof(orr_level, oversubscription)},
    {.key = "in_network_reduction", .kind = ORR_FIELD_OTHER},
    {.key = "transport", .kind = ORR_FIELD_OTHER},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

const orr_field *orr_cluster_fields(size_t *ret_n)
{
    *ret_n = COUNT(CLUSTER_FIELDS);
    return CLUSTER_FIELDS;
}

const orr_field *orr_level_fields(size_t *ret_n)
{
    *ret_n = COUNT(LEVEL_FIELDS);
    return LEVEL_FIELDS;
}

#define NAME_(name, text) text,
static const char *const TOPOLOGIES[] = {ORR_TOPOLOGY_MAP(NAME_)};
static const char *const KINDS[] = {ORR_LEVEL_KIND_MAP(NAME_)};
#undef NAME_

/* Reads one of the names as its index. A key that is not there leaves `ret` as it is. */
static orr_status read_name(const orr_yaml *map, const char *key, const char *const *names,
                            size_t n, uint8_t *ret, orr_error *err)
{
    const orr_yaml *value = orr_yaml_find(map, key);
    const char *text;
    if (value == NULL)
        return ORR_OK;
    ORR_TRY(orr_text_read(value, key, &text, err));
    for (uint8_t i = 0; i < n; i++) {
        if (strcmp(text, names[i]) == 0) {
            *ret = i;
            return ORR_OK;
        }
    }
    return orr_fail_unknown(value, key, text, names, n, err);
}

/* What a link of the catalogue says of a level's kind; "host" is PCIe. */
static uint8_t kind_of(const orr_link *link)
{
    static const struct {
        const char *link;
        uint8_t level;
    } RULES[] = {{"scale-up", ORR_LEVEL_SCALE_UP},
                 {"host", ORR_LEVEL_SCALE_UP},
                 {"scale-out", ORR_LEVEL_SCALE_OUT},
                 {"long-haul", ORR_LEVEL_SCALE_OUT}};
    for (size_t i = 0; i < COUNT(RULES); i++)
        if (strcmp(link->kind, RULES[i].link) == 0)
            return RULES[i].level;
    return ORR_LEVEL_UNKNOWN;
}

static orr_status read_size(const orr_yaml *value, uint32_t devices_below, orr_level *level,
                            orr_error *err)
{
    double size;
    ORR_TRY(orr_quantity_read(value, "size", ORR_QUANTITY_COUNT, &size, err));
    if (size < 1)
        return orr_yaml_fail(value, ORR_INVALID, err, "size: a level holds at least one unit");
    if (size * devices_below > INT32_MAX)
        return orr_yaml_fail(value, ORR_LIMIT, err, "size: more than 2,147,483,647 devices");
    level->size = (uint32_t)size;
    level->devices = (uint32_t)(size * devices_below);
    return ORR_OK;
}

/* Facts that a level does not give come from its link. */
static orr_status complete_level(const orr_yaml *map, const orr_catalog *parts, orr_level *level,
                                 orr_error *err)
{
    const orr_link *link = orr_catalog_link(parts, level->technology);
    if (link != NULL)
        level->technology = link->name; /* what calibrations know it by */
    if (orr_yaml_find(map, "bandwidth") == NULL && link != NULL)
        level->bytes_per_s = link->bytes_per_s;
    if (orr_yaml_find(map, "latency") == NULL && link != NULL)
        level->latency_ns = link->latency_ns;
    if (level->kind == ORR_LEVEL_UNKNOWN && link != NULL)
        level->kind = kind_of(link);
    if (level->bytes_per_s.basis == ORR_FACT_UNKNOWN)
        return orr_yaml_fail(map, ORR_INVALID, err,
                             "level '%.80s' needs a bandwidth, or as its "
                             "technology a link that has one",
                             level->name);
    if (level->bytes_per_s.value <= 0)
        return orr_yaml_fail(map, ORR_INVALID, err, "level '%.80s' needs a bandwidth above 0",
                             level->name);
    if (level->oversubscription.basis == ORR_FACT_UNKNOWN)
        level->oversubscription = (orr_fact){
            .value = 1, .basis = ORR_FACT_ASSUMED, .source = "not said: none", .note = ""};
    return ORR_OK;
}

static orr_status read_transport(const orr_yaml *map, const orr_scope *scope, orr_level *level,
                                 orr_error *err)
{
    orr_rdma_transport *transport = orr_arena_one(scope->arena, orr_rdma_transport);
    if (transport == NULL)
        return orr_fail_memory(err);
    level->transport = transport;
    return orr_rdma_transport_read(map, scope, transport, err);
}

static orr_status read_level(const orr_yaml *map, const orr_scope *scope, const orr_catalog *parts,
                             uint32_t devices_below, orr_level *ret, orr_error *err)
{
    orr_scope inner = *scope;
    ORR_TRY(orr_schema_read(map, "a level", LEVEL_FIELDS, COUNT(LEVEL_FIELDS), &inner, ret, err));
    const orr_yaml *reduction = orr_yaml_find(map, "in_network_reduction");
    const orr_yaml *transport = orr_yaml_find(map, "transport");
    ORR_TRY(read_size(orr_yaml_find(map, "size"), devices_below, ret, err));
    ORR_TRY(read_name(map, "topology", TOPOLOGIES, COUNT(TOPOLOGIES), &ret->topology, err));
    ORR_TRY(read_name(map, "kind", KINDS, COUNT(KINDS), &ret->kind, err));
    if (reduction != NULL)
        ORR_TRY(orr_yaml_bool(reduction, &ret->in_network_reduction, err));
    if (transport != NULL)
        ORR_TRY(read_transport(transport, &inner, ret, err));
    return complete_level(map, parts, ret, err);
}

static orr_status read_levels(const orr_yaml *list, const orr_scope *scope,
                              const orr_catalog *parts, orr_cluster *cluster, orr_error *err)
{
    if (list->kind != ORR_YAML_LIST || list->n == 0)
        return orr_yaml_fail(list, ORR_INVALID, err,
                             "levels: a list, from the level that joins devices outwards");
    if (list->n > ORR_LEVELS_MAX)
        return orr_yaml_fail(list, ORR_LIMIT, err, "levels: more than %d", ORR_LEVELS_MAX);
    orr_level *levels = orr_arena_array(scope->arena, orr_level, list->n);
    if (levels == NULL)
        return orr_fail_memory(err);
    uint32_t devices = 1;
    for (uint32_t i = 0; i < list->n; i++) {
        ORR_TRY(read_level(list->values[i], scope, parts, devices, &levels[i], err));
        devices = levels[i].devices;
    }
    cluster->levels = levels;
    cluster->n_levels = list->n;
    cluster->n_devices = devices;
    return ORR_OK;
}

/* "...: 'h10' is no device of the catalogue; did you mean 'h100'?" */
static orr_status fail_no_entry(const orr_yaml *at, const char *what, const void *entries, size_t n,
                                orr_arena *arena, orr_error *err)
{
    const char *const *names = orr_entry_names(entries, n, arena);
    return names != NULL ? orr_fail_unknown(at, what, at->text, names, n, err)
                         : orr_fail_memory(err);
}

orr_status orr_device_ref_read(const orr_yaml *value, const orr_catalog *parts, orr_arena *arena,
                               const orr_device **ret, orr_error *err)
{
    const char *name;
    ORR_TRY(orr_text_read(value, "device", &name, err));
    const orr_entry_list list = orr_device_list(parts);
    const void *fit[ORR_ENTRY_FITS];
    if (orr_entry_search(&list, name, true, fit) != 1)
        return fail_no_entry(value, "device of the catalogue", parts->devices, parts->n_devices,
                             arena, err);
    *ret = fit[0];
    return ORR_OK;
}

/* A name of memory, or {memory: NAME, count: N} where a host has several. */
static orr_status read_tier(const orr_yaml *value, const orr_scope *scope, const orr_catalog *parts,
                            const orr_memory_tier **ret, uint32_t *ret_count, orr_error *err)
{
    const orr_yaml *named = value;
    const char *name;
    double count = 0;
    for (uint32_t i = 0; value->kind == ORR_YAML_MAP && i < value->n; i++) {
        static const char *const keys[] = {"memory", "count"};
        const char *key = value->keys[i]->text;
        if (strcmp(key, "count") == 0)
            ORR_TRY(orr_quantity_read(value->values[i], "count", ORR_QUANTITY_COUNT, &count, err));
        else if (strcmp(key, "memory") == 0)
            named = value->values[i];
        else
            return orr_fail_unknown(value->keys[i], "key of a tier", key, keys, COUNT(keys), err);
        if (strcmp(key, "count") == 0 && (count < 1 || count > 1 << 16))
            return orr_yaml_fail(value->values[i], ORR_INVALID, err, "count: 1 to 65536");
    }
    ORR_TRY(orr_text_read(named, "tiers", &name, err));
    *ret = orr_catalog_tier(parts, name);
    *ret_count = (uint32_t)count;
    return *ret != NULL ? ORR_OK
                        : fail_no_entry(named, "memory of the catalogue", parts->tiers,
                                        parts->n_tiers, scope->arena, err);
}

static orr_status read_tiers(const orr_yaml *list, const orr_scope *scope, const orr_catalog *parts,
                             orr_cluster *cluster, orr_error *err)
{
    if (list->kind != ORR_YAML_LIST)
        return orr_yaml_fail(list, ORR_INVALID, err,
                             "tiers: a list of names of memory, or {memory: NAME, count: N}");
    const orr_memory_tier **tiers = orr_arena_array(scope->arena, const orr_memory_tier *, list->n);
    uint32_t *counts = orr_arena_array(scope->arena, uint32_t, list->n);
    if (tiers == NULL || counts == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < list->n; i++)
        ORR_TRY(read_tier(list->values[i], scope, parts, &tiers[i], &counts[i], err));
    cluster->tiers = tiers;
    cluster->tier_counts = counts;
    cluster->n_tiers = list->n;
    return ORR_OK;
}

orr_status orr_cluster_read(const orr_yaml *name, const orr_yaml *map, const orr_scope *scope,
                            const orr_catalog *parts, const orr_cluster **ret, orr_error *err)
{
    orr_cluster *cluster = orr_arena_one(scope->arena, orr_cluster);
    orr_scope inner = *scope;
    char what[128];
    if (cluster == NULL)
        return orr_fail_memory(err);
    (void)snprintf(what, sizeof what, "cluster '%.80s'", name->text);
    ORR_TRY(
        orr_schema_read(map, what, CLUSTER_FIELDS, COUNT(CLUSTER_FIELDS), &inner, cluster, err));
    const orr_yaml *tiers = orr_yaml_find(map, "tiers"), *cuts = orr_yaml_find(map, "cuts");
    ORR_TRY(orr_device_ref_read(orr_yaml_find(map, "device"), parts, scope->arena, &cluster->device,
                                err));
    ORR_TRY(read_levels(orr_yaml_find(map, "levels"), &inner, parts, cluster, err));
    if (tiers != NULL)
        ORR_TRY(read_tiers(tiers, &inner, parts, cluster, err));
    cluster->name = name->text;
    if (orr_yaml_find(map, "sites") != NULL)
        ORR_TRY(orr_sites_read(map, &inner, parts, cluster, err));
    else if (cuts != NULL)
        return orr_yaml_fail(cuts, ORR_INVALID, err, "cuts: between which sites? say sites, too");
    else
        ORR_TRY(orr_sites_of_buildings(cluster, scope->arena, err));
    cluster->source = inner.source != NULL ? inner.source : "";
    *ret = cluster;
    return ORR_OK;
}
