/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/models/hw.h"

#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/closest.h"
#include "cli/command/session.h"
#include "cli/models/hw_new.h"

typedef enum hw_kind { HW_DEVICES, HW_LINKS, HW_MEMORY, HW_CLUSTERS, HW_KINDS } hw_kind;
static const char *const KINDS[HW_KINDS] = {"devices", "links", "memory", "clusters"};

typedef struct hw {
    orr_session session;
    const orr_catalog *catalog;
    orr_table_style style;
    hw_kind kind;
    orr_array(orr_hw_entry) entries;
    orr_array(const orr_cluster *) clusters;
    size_t n_printed;
} hw;

static orr_entry_list list_of(const orr_catalog *catalog, hw_kind kind)
{
    static orr_entry_list (*const lists[HW_KINDS])(const orr_catalog *) = {
        orr_device_list, orr_link_list, orr_tier_list, orr_cluster_list};
    return lists[kind](catalog);
}

static orr_status parse_kind(const char *text, hw_kind *ret, orr_error *err)
{
    for (hw_kind kind = 0; kind < HW_KINDS; kind++) {
        if (strcmp(text, KINDS[kind]) == 0) {
            *ret = kind;
            return ORR_OK;
        }
    }
    const char *close = orr_closest_match(text, KINDS, HW_KINDS);
    return close != NULL
               ? orr_fail(err, ORR_INVALID, "--kind: no kind '%s'; did you mean %s?", text, close)
               : orr_fail(err, ORR_INVALID,
                          "--kind: no kind '%s': devices, links, memory or clusters", text);
}

static orr_status fail_name(hw *h, const char *name, hw_kind first, hw_kind last)
{
    static const char *const what = "hw: nothing is called";
    orr_array(const void *) entries = {0};
    orr_arena *arena = h->session.arena;
    orr_error *err = &h->session.err;
    orr_status status = ORR_OK;
    for (hw_kind kind = first; kind <= last && status == ORR_OK; kind++) {
        const orr_entry_list list = list_of(h->catalog, kind);
        const void *fit[ORR_ENTRY_FITS];
        if (orr_entry_search(&list, name, true, fit) > 1)
            status = orr_entry_fail(what, name, &list, "", arena, err);
        for (size_t i = 0; i < list.n && status == ORR_OK; i++)
            if (!orr_array_push(&entries, ((const void *const *)list.entries)[i]))
                status = orr_fail_memory(err);
    }
    if (status == ORR_OK) {
        const orr_entry_list all = {entries.at, entries.n, SIZE_MAX, SIZE_MAX, SIZE_MAX};
        status = orr_entry_fail(what, name, &all,
                                "orrery hw --kind devices|links|memory|clusters lists what there "
                                "is",
                                arena, err);
    }
    orr_array_done(&entries);
    return status;
}

/* Without --kind the first name says which: a device, or what else is called so; a file is a
 * cluster. */
static orr_status find_kind(hw *h)
{
    const orr_settings *settings = h->session.settings;
    if (settings->kind != NULL)
        return ORR_OK; /* parsed before */
    h->kind = HW_DEVICES;
    if (settings->n_args == 0)
        return ORR_OK;
    const char *name = settings->args[0];
    if (orr_entry_is_file(name)) {
        h->kind = HW_CLUSTERS;
        return ORR_OK;
    }
    for (int by_words = 0; by_words < 2; by_words++)
        for (h->kind = 0; h->kind < HW_KINDS; h->kind++) {
            const orr_entry_list list = list_of(h->catalog, h->kind);
            const void *fit[ORR_ENTRY_FITS];
            const size_t n = orr_entry_search(&list, name, by_words, fit);
            if (n > 0)
                return n == 1 ? ORR_OK : fail_name(h, name, h->kind, h->kind);
        }
    return fail_name(h, name, 0, HW_KINDS - 1);
}

static orr_status add_entry(hw *h, const char *name, const void *object,
                            const orr_field *(*fields)(size_t *))
{
    orr_hw_entry entry = {.name = name, .object = object};
    entry.fields = fields(&entry.n_fields);
    return orr_array_push(&h->entries, entry) ? ORR_OK : orr_fail_memory(&h->session.err);
}

/* A part of a cluster: "h100_24k pod". */
static orr_status add_part(hw *h, const orr_cluster *cluster, const char *part, const void *object,
                           const orr_field *(*fields)(size_t *))
{
    const char *name =
        part != NULL ? orr_arena_printf(h->session.arena, "%s %s", cluster->name, part) : NULL;
    return name != NULL ? add_entry(h, name, object, fields) : orr_fail_memory(&h->session.err);
}

/* What levels above sites say is what cuts say. */
static orr_status add_cluster(hw *h, const orr_cluster *c)
{
    const bool sites = orr_hw_has_sites(c);
    const uint32_t n_levels = sites ? c->site_level + 1 : c->n_levels;
    if (!orr_array_push(&h->clusters, c))
        return orr_fail_memory(&h->session.err);
    ORR_TRY(add_entry(h, c->name, c, orr_cluster_fields));
    for (uint32_t l = 0; l < n_levels; l++)
        ORR_TRY(add_part(h, c, c->levels[l].name, &c->levels[l], orr_level_fields));
    for (uint32_t s = 0; s < c->n_sites && sites; s++)
        ORR_TRY(add_part(h, c, c->sites[s].name, &c->sites[s], orr_site_fields));
    for (uint32_t i = 0; i < c->n_cuts && sites; i++)
        ORR_TRY(add_part(h, c, orr_hw_cut_name(c, &c->cuts[i], h->session.arena), &c->cuts[i],
                         orr_site_link_fields));
    return ORR_OK;
}

static orr_status add_object(hw *h, const void *object)
{
    switch (h->kind) {
    case HW_DEVICES:
        return add_entry(h, ((const orr_device *)object)->name, object, orr_device_fields);
    case HW_LINKS:
        return add_entry(h, ((const orr_link *)object)->name, object, orr_link_fields);
    case HW_MEMORY:
        return add_entry(h, ((const orr_memory_tier *)object)->name, object, orr_tier_fields);
    default:
        return add_cluster(h, object);
    }
}

static orr_status add_file(hw *h, const char *path)
{
    orr_error *err = &h->session.err;
    const orr_device *device;
    const orr_cluster *cluster;
    if (h->kind == HW_DEVICES) {
        ORR_TRY(orr_device_load(h->catalog, path, h->session.arena, &device, err));
        return add_object(h, device);
    }
    if (h->kind == HW_CLUSTERS) {
        ORR_TRY(orr_cluster_load(h->catalog, path, h->session.arena, &cluster, err));
        return add_object(h, cluster);
    }
    return orr_fail(err, ORR_INVALID,
                    "hw: %s: a file is read as a device or a cluster; say "
                    "--kind devices or --kind clusters",
                    path);
}

static orr_status add_named(hw *h)
{
    const orr_entry_list list = list_of(h->catalog, h->kind);
    for (size_t i = 0; i < h->session.settings->n_args; i++) {
        const char *name = h->session.settings->args[i];
        const void *fit[ORR_ENTRY_FITS];
        const size_t n = orr_entry_search(&list, name, !orr_entry_is_file(name), fit);
        if (n == 1)
            ORR_TRY(add_object(h, fit[0]));
        else if (n == 0 && orr_entry_is_file(name))
            ORR_TRY(add_file(h, name));
        else
            return fail_name(h, name, h->kind, h->kind);
    }
    return ORR_OK;
}

static orr_status add_all(hw *h)
{
    const orr_entry_list list = list_of(h->catalog, h->kind);
    for (size_t i = 0; i < list.n; i++)
        ORR_TRY(add_object(h, ((const void *const *)list.entries)[i]));
    return ORR_OK;
}

static void print(hw *h, const char *name, const orr_table *table)
{
    if (h->style.format == ORR_TABLE_JSON)
        orr_output_printf(h->session.out, "%s\n\"%s\":", h->n_printed ? "," : "", name);
    else if (h->n_printed)
        orr_output_text(h->session.out, "\n");
    orr_table_write(table, &h->style, h->session.out);
    h->n_printed++;
}

static orr_status print_list(hw *h)
{
    static orr_status (*const lists[HW_KINDS])(const orr_catalog *, orr_arena *, orr_table *,
                                               orr_error *) = {
        orr_hw_list_devices, orr_hw_list_links, orr_hw_list_memory, orr_hw_list_clusters};
    orr_table table;
    ORR_TRY(lists[h->kind](h->catalog, h->session.arena, &table, &h->session.err));
    print(h, KINDS[h->kind], &table);
    return ORR_OK;
}

/* Levels, and what else some of the clusters have. */
static orr_status print_clusters(hw *h)
{
    static const struct {
        const char *name;
        orr_status (*list)(const orr_cluster *const *, size_t, orr_arena *, orr_table *,
                           orr_error *);
    } tables[] = {
        {"levels", orr_hw_list_levels},        {"tiers", orr_hw_list_host_tiers},
        {"sites", orr_hw_list_sites},          {"cuts", orr_hw_list_cuts},
        {"transport", orr_hw_list_transports},
    };
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        orr_table table;
        ORR_TRY(tables[t].list(h->clusters.at, h->clusters.n, h->session.arena, &table,
                               &h->session.err));
        if (table.n_rows > 0)
            print(h, tables[t].name, &table);
    }
    return ORR_OK;
}

/* For people the entries side by side, and for everybody each fact with where it is from. */
static orr_status print_entries(hw *h, bool side_by_side)
{
    orr_arena *arena = h->session.arena;
    orr_error *err = &h->session.err;
    const bool for_people =
        h->style.format == ORR_TABLE_TEXT || h->style.format == ORR_TABLE_MARKDOWN;
    orr_table table;
    if (h->clusters.n > 0) {
        ORR_TRY(print_clusters(h));
    } else if (side_by_side && for_people && h->entries.n <= ORR_HW_COMPARED) {
        ORR_TRY(orr_hw_comparison(h->entries.at, h->entries.n, arena, &table, err));
        print(h, "comparison", &table);
    }
    ORR_TRY(
        orr_hw_facts(h->entries.at, h->entries.n, for_people && side_by_side, arena, &table, err));
    print(h, "facts", &table);
    return ORR_OK;
}

static orr_status print_calibrations(hw *h)
{
    const orr_settings *settings = h->session.settings;
    orr_error *err = &h->session.err;
    orr_table table;
    if (settings->n_args == 0 || h->kind != HW_DEVICES)
        return orr_fail(err, ORR_INVALID, "hw: --calibration is of devices: name one or more");
    const orr_device **devices =
        orr_arena_array(h->session.arena, const orr_device *, h->entries.n + 1);
    if (devices == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < h->entries.n; i++)
        devices[i] = h->entries.at[i].object;
    ORR_TRY(orr_hw_calibration(h->catalog, devices, h->entries.n, (double)settings->software,
                               h->session.arena, &table, err));
    print(h, "calibration", &table);
    ORR_TRY(orr_hw_intervals(devices[0], h->session.arena, &table, err));
    print(h, "intervals", &table);
    return ORR_OK;
}

static orr_status print_all(hw *h)
{
    const orr_settings *settings = h->session.settings;
    ORR_TRY(orr_session_output(&h->session, &h->style));
    h->style.max_rows = 0;
    if (h->style.format == ORR_TABLE_JSON)
        orr_output_printf(h->session.out,
                          "{\"schema\":\"orrery.hw/1\",\"version\":\"%s\",\"tables\":{",
                          orr_version());
    if (settings->of_jobs)
        ORR_TRY(print_calibrations(h));
    else if (settings->n_args > 0 || settings->all)
        ORR_TRY(print_entries(h, settings->n_args > 0));
    else
        ORR_TRY(print_list(h));
    if (h->style.format == ORR_TABLE_JSON)
        orr_output_text(h->session.out, "}}\n");
    return orr_output_finish(h->session.out, &h->session.err);
}

static orr_status run(hw *h)
{
    const orr_settings *settings = h->session.settings;
    ORR_TRY(orr_catalog_open(h->session.arena, &h->catalog, &h->session.err));
    if (settings->new_file)
        return orr_hw_new_run(&h->session, h->catalog);
    ORR_TRY(find_kind(h));
    if (settings->n_args > 0)
        ORR_TRY(add_named(h));
    else if (settings->all)
        ORR_TRY(add_all(h));
    return print_all(h);
}

/* What describes a new cluster is nothing else, and the other way round. */
static orr_status check_use(const orr_settings *s, orr_error *err)
{
    const char *only_new = s->device != NULL      ? "device"
                           : s->gpus != NULL      ? "gpus"
                           : s->per_host != NULL  ? "per-host"
                           : s->link != NULL      ? "link"
                           : s->network != NULL   ? "network"
                           : s->buildings != NULL ? "buildings"
                           : s->distance != NULL  ? "distance"
                           : s->force             ? "force"
                                                  : NULL;
    if (!s->new_file && only_new != NULL)
        return orr_fail(err, ORR_INVALID, "hw: --%s goes with --new", only_new);
    if (s->new_file && (s->kind != NULL || s->of_jobs || s->all))
        return orr_fail(err, ORR_INVALID, "hw: --new prints no tables");
    return ORR_OK;
}

int orr_command_hw(const orr_settings *settings)
{
    hw h = {0};
    int code = EXIT_DONE;

    if (orr_session_init(&h.session, settings) != ORR_OK) {
        code = orr_session_fail(&h.session);
    } else if (check_use(settings, &h.session.err) != ORR_OK) {
        orr_session_fail(&h.session);
        code = EXIT_USAGE;
    } else if (settings->kind && parse_kind(settings->kind, &h.kind, &h.session.err) != ORR_OK) {
        orr_session_fail(&h.session);
        code = EXIT_USAGE;
    } else if (run(&h) != ORR_OK) {
        code = orr_session_fail(&h.session);
    }
    orr_array_done(&h.entries);
    orr_array_done(&h.clusters);
    orr_session_done(&h.session);
    return code;
}
