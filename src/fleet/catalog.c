/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "base/closest.h"
#include "machine/catalog/schema.h"
#include "fleet/fleet.h"

/* Reader of the failure catalog: failure tables and recovery times in YAML, each number with basis
 * and source. */

typedef struct catalog_builder {
    orr_array(const orr_failures *) failures;
    orr_array(const orr_fleet_timing *) timings;
    orr_arena *arena;
} catalog_builder;

#define FACT(type, key_, field)                                                                    \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_FACT, .quantity = ORR_QUANTITY_NUMBER,                    \
        .offset = offsetof(type, field)                                                            \
    }
#define TEXT(type, field)                                                                          \
    {                                                                                              \
        .key = #field, .kind = ORR_FIELD_TEXT, .offset = offsetof(type, field)                     \
    }
#define OTHER(key_)                                                                                \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_OTHER                                                     \
    }

static const orr_field FAILURES[] = {
    OTHER("like"),
    TEXT(orr_failures, title),
    FACT(orr_failures, "rate", rate),
    FACT(orr_failures, "planned", planned),
    FACT(orr_failures, "lemons", lemons),
    FACT(orr_failures, "lemon_factor", lemon_factor),
    FACT(orr_failures, "racks", racks),
    FACT(orr_failures, "buildings", buildings),
    FACT(orr_failures, "gpus", gpus),
    FACT(orr_failures, "gpus_per_node", gpus_per_node),
    FACT(orr_failures, "days", days),
    FACT(orr_failures, "unexpected", unexpected),
    FACT(orr_failures, "planned_count", planned_count),
    FACT(orr_failures, "effective", effective),
    OTHER("categories"),
    TEXT(orr_failures, notes),
};
static const orr_field TIMING[] = {
#define TIME_(name, word, about) OTHER(word),
    ORR_FLEET_TIME_MAP(TIME_)
#undef TIME_
        OTHER("like"),
    TEXT(orr_fleet_timing, title),
    FACT(orr_fleet_timing, "slowdown", slowdown),
    FACT(orr_fleet_timing, "retried", retried),
    TEXT(orr_fleet_timing, notes),
};
static const orr_field CATEGORY[] = {
    {.key = "name",
     .kind = ORR_FIELD_TEXT,
     .offset = offsetof(orr_failure_category, name),
     .required = true},
    {.key = "layer",
     .kind = ORR_FIELD_TEXT,
     .offset = offsetof(orr_failure_category, layer),
     .required = true},
    {.key = "count",
     .kind = ORR_FIELD_FACT,
     .quantity = ORR_QUANTITY_NUMBER,
     .offset = offsetof(orr_failure_category, count),
     .required = true},
    OTHER("kind"),
    OTHER("replace"),
};
#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const KINDS[] = {
#define NAME_(name, text) text,
    ORR_FAILURE_KIND_MAP(NAME_)
#undef NAME_
};

const char *orr_failure_kind_name(orr_failure_kind kind)
{
    return KINDS[kind];
}

/* --- one entry -------------------------------------------------------------------------------- */

/* Hardware failures replace the node; failures of software, the network or of unknown origin
 * restart in place. Assumed: no source of the catalog says which. */
static bool is_replaced(const char *layer)
{
    static const char *const hardware[] = {"gpu", "host", "facility"};
    for (size_t i = 0; i < COUNT(hardware); i++)
        if (strcmp(layer, hardware[i]) == 0)
            return true;
    return false;
}

static orr_status read_category(const orr_yaml *map, const orr_scope *outer,
                                orr_failure_category *ret, orr_error *err)
{
    orr_scope scope = *outer;
    ORR_TRY(orr_schema_read(map, "a category", CATEGORY, COUNT(CATEGORY), &scope, ret, err));
    const orr_yaml *kind = orr_yaml_find(map, "kind"), *replace = orr_yaml_find(map, "replace");
    if (!(orr_fact_or(&ret->count, -1) >= 0))
        return orr_yaml_fail(map, ORR_INVALID, err, "count: how many, or what share?");
    if (kind != NULL) {
        const char *text;
        ORR_TRY(orr_text_read(kind, "kind", &text, err));
        while (ret->kind < COUNT(KINDS) && strcmp(KINDS[ret->kind], text) != 0)
            ret->kind++;
        if (ret->kind == COUNT(KINDS))
            return orr_fail_unknown(kind, "kind of failure", text, KINDS, COUNT(KINDS), err);
    }
    ret->replace = is_replaced(ret->layer);
    return replace == NULL ? ORR_OK : orr_yaml_bool(replace, &ret->replace, err);
}

static orr_status read_categories(const orr_yaml *list, const orr_scope *scope, orr_failures *ret,
                                  orr_error *err)
{
    if (list->kind != ORR_YAML_LIST)
        return orr_yaml_fail(list, ORR_INVALID, err, "categories: a list of {name, layer, count}");
    if (list->n > ORR_FLEET_CATEGORIES)
        return orr_yaml_fail(list, ORR_INVALID, err, "categories: %u, where at most %d are kept",
                             list->n, ORR_FLEET_CATEGORIES);
    orr_failure_category *all = orr_arena_array(scope->arena, orr_failure_category, list->n);
    double sum = 0;
    if (all == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < list->n; i++) {
        ORR_TRY(read_category(list->values[i], scope, &all[i], err));
        sum += all[i].count.value;
    }
    if (!(sum > 0))
        return orr_yaml_fail(list, ORR_INVALID, err, "categories: none has a count above 0");
    ret->categories = all;
    ret->n_categories = list->n;
    return ORR_OK;
}

/* Copies the fields that an entry lacks from the entry that it is `like`. */
static void inherit(void *entry, const void *base, const orr_field *fields, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        orr_fact *fact = (orr_fact *)((char *)entry + fields[i].offset);
        if (fields[i].kind == ORR_FIELD_FACT && fact->basis == ORR_FACT_UNKNOWN)
            *fact = *(const orr_fact *)((const char *)base + fields[i].offset);
    }
}

/* Searches from the end: entries of the user's file override built-in ones. */
static const void *find(const void *entries, size_t n, const char *name)
{
    const char *const *const *named = entries;
    while (n-- > 0)
        if (strcmp(named[n][0], name) == 0)
            return named[n];
    return NULL;
}

static const char *closest(const void *entries, size_t n, const char *name)
{
    const char *const *const *named = entries;
    const char *names[64];
    size_t k = 0;
    while (n-- > 0 && k < COUNT(names))
        names[k++] = named[n][0];
    return orr_closest_match(name, names, k);
}

/* Finds the earlier entry named by `like`, if there is one. */
static orr_status find_base(const orr_yaml *map, const void *entries, size_t n, const void **ret,
                            orr_error *err)
{
    const orr_yaml *like = orr_yaml_find(map, "like");
    const char *name;
    *ret = NULL;
    if (like == NULL)
        return ORR_OK;
    ORR_TRY(orr_text_read(like, "like", &name, err));
    *ret = find(entries, n, name);
    if (*ret != NULL)
        return ORR_OK;
    const char *close = closest(entries, n, name);
    return orr_yaml_fail(like, ORR_INVALID, err, "no entry '%.80s' before this one%s%s%s", name,
                         close ? "; did you mean '" : "", close ? close : "", close ? "'?" : "");
}

static orr_status read_failures(const orr_yaml *name, const orr_yaml *map, const orr_scope *outer,
                                catalog_builder *s, orr_error *err)
{
    orr_failures *ret = orr_arena_one(s->arena, orr_failures);
    orr_scope scope = *outer;
    const void *base;
    char what[128];
    if (ret == NULL)
        return orr_fail_memory(err);
    snprintf(what, sizeof what, "failures '%.80s'", name->text);
    ORR_TRY(orr_schema_read(map, what, FAILURES, COUNT(FAILURES), &scope, ret, err));
    ORR_TRY(find_base(map, s->failures.at, s->failures.n, &base, err));
    const orr_yaml *categories = orr_yaml_find(map, "categories");
    if (categories != NULL)
        ORR_TRY(read_categories(categories, &scope, ret, err));
    if (base != NULL) {
        const orr_failures *b = base;
        inherit(ret, b, FAILURES, COUNT(FAILURES));
        if (categories == NULL) {
            ret->categories = b->categories;
            ret->n_categories = b->n_categories;
        }
    }
    ret->name = name->text;
    return orr_array_push(&s->failures, ret) ? ORR_OK : orr_fail_memory(err);
}

/* A scalar, or {value, basis, source, note}. */
static orr_status read_duration(const orr_yaml *value, const char *key, const orr_scope *outer,
                                orr_fleet_duration *ret, orr_error *err)
{
    static const char *const keys[] = {"value", "basis", "source", "note"};
    orr_scope scope = *outer;
    const orr_yaml *scalar = value, *note = NULL;
    const char *text;
    orr_error why;
    for (uint32_t i = 0; value->kind == ORR_YAML_MAP && i < value->n; i++)
        if (find((const char *const *const[]){&keys[0], &keys[1], &keys[2], &keys[3]}, 4,
                 value->keys[i]->text) == NULL)
            return orr_fail_unknown(value->keys[i], "part of a fact", value->keys[i]->text, keys, 4,
                                    err);
    if (value->kind == ORR_YAML_MAP) {
        ORR_TRY(orr_scope_enter(value, &scope, err));
        scalar = orr_yaml_find(value, "value");
        note = orr_yaml_find(value, "note");
    }
    if (scalar == NULL)
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: the value is missing", key);
    ORR_TRY(orr_text_read(scalar, key, &text, err));
    if (orr_fleet_time_parse(text, &ret->time, &why) != ORR_OK)
        return orr_yaml_fail(scalar, ORR_INVALID, err, "%s: %s", key, why.text);
    if (scope.basis == ORR_FACT_UNKNOWN || scope.source == NULL)
        return orr_yaml_fail(scalar, ORR_INVALID, err, "%s: on what basis, and from where?", key);
    ret->basis = scope.basis;
    ret->source = scope.source;
    return note == NULL ? ORR_OK : orr_text_read(note, "note", &ret->note, err);
}

static orr_status read_timing(const orr_yaml *name, const orr_yaml *map, const orr_scope *outer,
                              catalog_builder *s, orr_error *err)
{
    orr_fleet_timing *ret = orr_arena_one(s->arena, orr_fleet_timing);
    orr_scope scope = *outer;
    const void *base;
    char what[128];
    if (ret == NULL)
        return orr_fail_memory(err);
    snprintf(what, sizeof what, "timings '%.80s'", name->text);
    ORR_TRY(orr_schema_read(map, what, TIMING, COUNT(TIMING), &scope, ret, err));
    ORR_TRY(find_base(map, s->timings.at, s->timings.n, &base, err));
    for (int i = 0; i < ORR_FLEET_TIMES; i++) {
        const orr_yaml *value = orr_yaml_find(map, TIMING[i].key);
        ret->times[i] = (orr_fleet_duration){.source = "", .note = ""};
        if (value != NULL)
            ORR_TRY(read_duration(value, TIMING[i].key, &scope, &ret->times[i], err));
        else if (base != NULL)
            ret->times[i] = ((const orr_fleet_timing *)base)->times[i];
        else
            return orr_yaml_fail(map, ORR_INVALID, err, "%s does not say %s, and is like no other",
                                 what, TIMING[i].key);
    }
    if (base != NULL)
        inherit(ret, base, TIMING, COUNT(TIMING));
    ret->name = name->text;
    return orr_array_push(&s->timings, ret) ? ORR_OK : orr_fail_memory(err);
}

/* --- a file ----------------------------------------------------------------------------------- */

typedef orr_status read_entry(const orr_yaml *name, const orr_yaml *map, const orr_scope *outer,
                              catalog_builder *s, orr_error *err);

static orr_status read_section(const orr_yaml *file, const char *key, read_entry *read,
                               const orr_scope *scope, catalog_builder *s, orr_error *err)
{
    const orr_yaml *all = orr_yaml_find(file, key);
    if (all == NULL)
        return ORR_OK;
    if (all->kind != ORR_YAML_MAP)
        return orr_yaml_fail(all, ORR_INVALID, err, "%s: a map of entries by name", key);
    for (uint32_t i = 0; i < all->n; i++)
        ORR_TRY(read(all->keys[i], all->values[i], scope, s, err));
    return ORR_OK;
}

static orr_status read_file(const orr_yaml *file, const orr_scope *outer, catalog_builder *s,
                            orr_error *err)
{
    static const char *const sections[] = {"failures", "timings", "sources", "source", "basis"};
    orr_scope scope = *outer;
    if (file->kind != ORR_YAML_MAP)
        return orr_yaml_fail(file, ORR_INVALID, err,
                             "a file of failures is a map: failures, timings");
    for (uint32_t i = 0; i < file->n; i++) {
        size_t k = 0;
        while (k < COUNT(sections) && strcmp(file->keys[i]->text, sections[k]) != 0)
            k++;
        if (k == COUNT(sections))
            return orr_fail_unknown(file->keys[i], "section of a file of failures",
                                    file->keys[i]->text, sections, COUNT(sections), err);
    }
    scope.abbreviations = orr_yaml_find(file, "sources");
    if (scope.abbreviations != NULL && scope.abbreviations->kind != ORR_YAML_MAP)
        return orr_yaml_fail(scope.abbreviations, ORR_INVALID, err,
                             "sources: a map of abbreviations");
    ORR_TRY(orr_scope_enter(file, &scope, err));
    ORR_TRY(read_section(file, "failures", read_failures, &scope, s, err));
    return read_section(file, "timings", read_timing, &scope, s, err);
}

static orr_status read_all(const char *path, catalog_builder *s, orr_error *err)
{
    const orr_scope built_in = {.arena = s->arena};
    const orr_scope own = {.basis = ORR_FACT_ASSUMED, .source = path, .arena = s->arena};
    const orr_yaml *file;
    for (size_t i = 0; i < orr_n_failure_files; i++) {
        const orr_catalog_file *f = &orr_failure_files[i];
        ORR_TRY(orr_yaml_parse((const char *)f->bytes, f->n, f->name, s->arena, &file, err));
        ORR_TRY(read_file(file, &built_in, s, err));
    }
    if (path == NULL)
        return ORR_OK;
    ORR_TRY(orr_yaml_load(path, s->arena, &file, err));
    return read_file(file, &own, s, err);
}

static const void *copy_pointers(orr_arena *arena, const void *from, size_t n)
{
    const void **to = orr_arena_array(arena, const void *, n);
    if (to != NULL && n > 0)
        memcpy(to, from, n * sizeof *to);
    return to;
}

orr_status orr_failure_catalog_open(const char *path, orr_arena *arena, orr_failure_catalog *ret,
                                    orr_error *err)
{
    catalog_builder s = {.arena = arena};
    orr_status status;
    const char *kept = path == NULL ? NULL : orr_arena_strndup(arena, path, strlen(path));
    if (path != NULL && kept == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, read_all(kept, &s, err));
    const orr_failure_catalog made = {
        .n_failures = (uint32_t)s.failures.n,
        .n_timings = (uint32_t)s.timings.n,
        .failures = copy_pointers(arena, s.failures.at, s.failures.n),
        .timings = copy_pointers(arena, s.timings.at, s.timings.n),
    };
    if (made.failures == NULL || made.timings == NULL)
        status = orr_fail_memory(err);
    else
        *ret = made;
out:
    orr_array_done(&s.failures);
    orr_array_done(&s.timings);
    return status;
}

static orr_status fail_none(const char *what, const void *entries, size_t n, const char *name,
                            orr_error *err)
{
    const char *close = closest(entries, n, name);
    return close != NULL ? orr_fail(err, ORR_NOT_FOUND, "no %s '%.80s'; did you mean '%s'?", what,
                                    name, close)
                         : orr_fail(err, ORR_NOT_FOUND, "no %s '%.80s'; catalog/failures has them",
                                    what, name);
}

orr_status orr_failures_find(const orr_failure_catalog *catalog, const char *name,
                             const orr_failures **ret, orr_error *err)
{
    const orr_failures *found = find(catalog->failures, catalog->n_failures, name);
    if (found == NULL)
        return fail_none("failures", catalog->failures, catalog->n_failures, name, err);
    *ret = found;
    return ORR_OK;
}

orr_status orr_fleet_timing_find(const orr_failure_catalog *catalog, const char *name,
                                 const orr_fleet_timing **ret, orr_error *err)
{
    const orr_fleet_timing *found = find(catalog->timings, catalog->n_timings, name);
    if (found == NULL)
        return fail_none("timings", catalog->timings, catalog->n_timings, name, err);
    *ret = found;
    return ORR_OK;
}
