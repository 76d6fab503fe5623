/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/decision/published.h"

#include <stdio.h>
#include <string.h>

#include <orrery/explore.h>

#include "base/array.h"
#include "machine/catalog/schema.h"

/* Reader of what was published: plans of jobs, and the most of each class, in YAML, each number
 * with basis and source. */

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define TEXT(type, key_, field, needed)                                                            \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_TEXT, .offset = offsetof(type, field),                    \
        .required = (needed)                                                                       \
    }
#define FACT(type, field, unit, needed)                                                            \
    {                                                                                              \
        .key = #field, .kind = ORR_FIELD_FACT, .quantity = (unit),                                 \
        .offset = offsetof(type, field), .required = (needed)                                      \
    }

static const orr_field PLAN[] = {
    TEXT(orr_published_plan, "model", model, true),
    TEXT(orr_published_plan, "device", device, true),
    TEXT(orr_published_plan, "plan", text, true),
    TEXT(orr_published_plan, "notes", notes, false),
    FACT(orr_published_plan, devices, ORR_QUANTITY_COUNT, true),
    FACT(orr_published_plan, step, ORR_QUANTITY_NS, false),
    FACT(orr_published_plan, reached, ORR_QUANTITY_FLOPS, false),
};
static const orr_field RECORD[] = {
    TEXT(orr_record, "device", device, true),
    TEXT(orr_record, "precision", precision, true),
    TEXT(orr_record, "model", model, false),
    TEXT(orr_record, "kind", kind, false),
    TEXT(orr_record, "notes", notes, false),
    FACT(orr_record, seq, ORR_QUANTITY_COUNT, false),
    FACT(orr_record, rate, ORR_QUANTITY_NUMBER, false),
    FACT(orr_record, mfu, ORR_QUANTITY_NUMBER, false),
};

typedef struct published_builder {
    orr_array(const orr_published_plan *) plans;
    orr_array(const orr_record *) records;
    orr_arena *arena;
} published_builder;

static orr_status read_plan(const orr_yaml *name, const orr_yaml *map, const orr_scope *outer,
                            published_builder *b, orr_error *err)
{
    orr_published_plan *ret = orr_arena_one(b->arena, orr_published_plan);
    orr_scope scope = *outer;
    orr_error why;
    char what[128];
    if (ret == NULL)
        return orr_fail_memory(err);
    snprintf(what, sizeof what, "plan '%.80s'", name->text);
    ORR_TRY(orr_schema_read(map, what, PLAN, COUNT(PLAN), &scope, ret, err));
    if (orr_plan_parse(ret->text, &ret->plan, &why) != ORR_OK)
        return orr_yaml_fail(map, ORR_INVALID, err, "%s: %s", what, why.text);
    if ((double)orr_plan_ranks(&ret->plan) != orr_fact_or(&ret->devices, -1))
        return orr_yaml_fail(map, ORR_INVALID, err, "%s: its degrees are not of %g devices", what,
                             orr_fact_or(&ret->devices, -1));
    if (ret->plan.batch == 0 || ret->plan.seq == 0)
        return orr_yaml_fail(map, ORR_INVALID, err, "%s: of which batch and seq?", what);
    ret->name = name->text;
    ret->source = scope.source;
    return orr_array_push(&b->plans, ret) ? ORR_OK : orr_fail_memory(err);
}

static orr_status read_record(const orr_yaml *name, const orr_yaml *map, const orr_scope *outer,
                              published_builder *b, orr_error *err)
{
    orr_record *ret = orr_arena_one(b->arena, orr_record);
    orr_scope scope = *outer;
    char what[128];
    if (ret == NULL)
        return orr_fail_memory(err);
    snprintf(what, sizeof what, "record '%.80s'", name->text);
    ORR_TRY(orr_schema_read(map, what, RECORD, COUNT(RECORD), &scope, ret, err));
    const bool share = orr_fact_or(&ret->mfu, 0) > 0,
               rate = orr_fact_or(&ret->rate, 0) > 0 && orr_fact_or(&ret->seq, 0) > 0;
    if (share == rate || (share ? *ret->kind : *ret->model) == '\0')
        return orr_yaml_fail(map, ORR_INVALID, err, "%s: mfu and kind, or rate with model and seq",
                             what);
    ret->name = name->text;
    ret->source = scope.source;
    return orr_array_push(&b->records, ret) ? ORR_OK : orr_fail_memory(err);
}

/* --- a file ---------------------------------------------------------------------------------- */

typedef orr_status read_entry(const orr_yaml *name, const orr_yaml *map, const orr_scope *outer,
                              published_builder *b, orr_error *err);

static orr_status read_section(const orr_yaml *file, const char *key, read_entry *read,
                               const orr_scope *scope, published_builder *b, orr_error *err)
{
    const orr_yaml *all = orr_yaml_find(file, key);
    if (all == NULL)
        return ORR_OK;
    if (all->kind != ORR_YAML_MAP)
        return orr_yaml_fail(all, ORR_INVALID, err, "%s: a map of entries by name", key);
    for (uint32_t i = 0; i < all->n; i++)
        ORR_TRY(read(all->keys[i], all->values[i], scope, b, err));
    return ORR_OK;
}

static orr_status read_file(const orr_yaml *file, const orr_scope *outer, published_builder *b,
                            orr_error *err)
{
    static const char *const sections[] = {"plans", "records", "sources", "source", "basis"};
    orr_scope scope = *outer;
    if (file->kind != ORR_YAML_MAP)
        return orr_yaml_fail(file, ORR_INVALID, err, "a map of plans and records");
    for (uint32_t i = 0; i < file->n; i++) {
        size_t k = 0;
        while (k < COUNT(sections) && strcmp(file->keys[i]->text, sections[k]) != 0)
            k++;
        if (k == COUNT(sections))
            return orr_fail_unknown(file->keys[i], "section of a file of plans",
                                    file->keys[i]->text, sections, COUNT(sections), err);
    }
    scope.abbreviations = orr_yaml_find(file, "sources");
    if (scope.abbreviations != NULL && scope.abbreviations->kind != ORR_YAML_MAP)
        return orr_yaml_fail(scope.abbreviations, ORR_INVALID, err,
                             "sources: a map of abbreviations");
    ORR_TRY(orr_scope_enter(file, &scope, err));
    ORR_TRY(read_section(file, "plans", read_plan, &scope, b, err));
    return read_section(file, "records", read_record, &scope, b, err);
}

static orr_status read_all(const char *path, published_builder *b, orr_error *err)
{
    const orr_scope built_in = {.arena = b->arena};
    const orr_scope own = {.basis = ORR_FACT_ASSUMED, .source = path, .arena = b->arena};
    const orr_yaml *file;
    for (size_t i = 0; i < orr_n_published_files; i++) {
        const orr_catalog_file *f = &orr_published_files[i];
        ORR_TRY(orr_yaml_parse((const char *)f->bytes, f->n, f->name, b->arena, &file, err));
        ORR_TRY(read_file(file, &built_in, b, err));
    }
    if (path == NULL)
        return ORR_OK;
    ORR_TRY(orr_yaml_load(path, b->arena, &file, err));
    return read_file(file, &own, b, err);
}

static const void *copy_pointers(orr_arena *arena, const void *from, size_t n)
{
    const void **to = orr_arena_array(arena, const void *, n);
    if (to != NULL && n > 0)
        memcpy(to, from, n * sizeof *to);
    return to;
}

orr_status orr_published_open(const char *path, orr_arena *arena, orr_published *ret,
                              orr_error *err)
{
    published_builder b = {.arena = arena};
    const char *kept = path == NULL ? NULL : orr_arena_strndup(arena, path, strlen(path));
    if (path != NULL && kept == NULL)
        return orr_fail_memory(err);
    orr_status status = read_all(kept, &b, err);
    const orr_published made = {
        .plans = copy_pointers(arena, b.plans.at, b.plans.n),
        .records = copy_pointers(arena, b.records.at, b.records.n),
        .n_plans = (uint32_t)b.plans.n,
        .n_records = (uint32_t)b.records.n,
    };
    if (status == ORR_OK && (made.plans == NULL || made.records == NULL))
        status = orr_fail_memory(err);
    if (status == ORR_OK)
        *ret = made;
    orr_array_done(&b.plans);
    orr_array_done(&b.records);
    return status;
}
