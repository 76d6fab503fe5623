/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "machine/catalog/schema.h"
#include "model/spec/spec.h"

void orr_model_registry_done(orr_model_registry *registry)
{
    orr_array_done(&registry->models);
    orr_array_done(&registry->written);
}

static const char *const SECTIONS[] = {"sources", "source", "defaults", "models"};
enum { N_SECTIONS = sizeof SECTIONS / sizeof *SECTIONS };

static orr_status check_sections(const orr_yaml *file, orr_error *err)
{
    if (file->kind != ORR_YAML_MAP)
        return orr_yaml_fail(file, ORR_INVALID, err,
                             "a file of models is a map: sources, defaults, models");
    for (uint32_t i = 0; i < file->n; i++) {
        size_t k = 0;
        while (k < N_SECTIONS && strcmp(file->keys[i]->text, SECTIONS[k]) != 0)
            k++;
        if (k == N_SECTIONS)
            return orr_fail_unknown(file->keys[i], "section of a file of models",
                                    file->keys[i]->text, SECTIONS, N_SECTIONS, err);
        if (k != 1 && file->values[i]->kind != ORR_YAML_MAP)
            return orr_yaml_fail(file->values[i], ORR_INVALID, err, "%s: a map is needed here",
                                 SECTIONS[k]);
    }
    return ORR_OK;
}

/* One note: "training tokens: [15T, card]". */
static orr_status read_note(const orr_yaml *key, const orr_yaml *value, const orr_scope *scope,
                            orr_model_note *ret, orr_error *err)
{
    orr_scope here = *scope;
    const char *text;
    if (value->kind != ORR_YAML_LIST || value->n < 1 || value->n > 2)
        return orr_yaml_fail(value, ORR_INVALID, err,
                             "a note is its text and its source: %.80s: [\"...\", source]",
                             key->text);
    ORR_TRY(orr_text_read(value->values[0], key->text, &text, err));
    if (value->n == 2) {
        const orr_yaml *const keys[] = {&(orr_yaml){.text = "source"}};
        const orr_yaml map = {
            .kind = ORR_YAML_MAP, .n = 1, .keys = keys, .values = &value->values[1]};
        ORR_TRY(orr_scope_enter(&map, &here, err));
    }
    if (here.source == NULL)
        return orr_yaml_fail(value, ORR_INVALID, err, "the note '%.80s' has no source", key->text);
    *ret = (orr_model_note){.what = key->text, .value = text, .source = here.source};
    return ORR_OK;
}

/* Notes go before those that were inherited and replace those of the same name. */
static orr_status read_notes(const orr_yaml *map, const orr_scope *scope, orr_model *model,
                             orr_error *err)
{
    if (map->kind != ORR_YAML_MAP)
        return orr_yaml_fail(map, ORR_INVALID, err,
                             "notes: a map is needed here: {licence: [\"...\", source]}");
    orr_model_note *notes =
        orr_arena_array(scope->arena, orr_model_note, (size_t)model->n_notes + map->n);
    if (notes == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < map->n; i++)
        ORR_TRY(read_note(map->keys[i], map->values[i], scope, &notes[i], err));
    uint32_t n = map->n;
    for (uint32_t i = 0; i < model->n_notes; i++)
        if (orr_yaml_find(map, model->notes[i].what) == NULL)
            notes[n++] = model->notes[i];
    model->notes = notes;
    model->n_notes = n;
    return ORR_OK;
}

/* Reads a map's fields over those that the model has already. */
static orr_status read_map(const orr_yaml *map, const char *what, orr_scope *scope,
                           orr_model *model, orr_error *err)
{
    size_t n_fields;
    const orr_spec_field *fields = orr_spec_fields(&n_fields);
    ORR_TRY(orr_spec_read(map, what, fields, n_fields, model, err));
    ORR_TRY(orr_scope_enter(map, scope, err));
    const orr_yaml *dlrm = orr_yaml_find(map, "dlrm"), *notes = orr_yaml_find(map, "notes");
    if (dlrm != NULL)
        ORR_TRY(orr_spec_read_tables(dlrm, scope->arena, model, err));
    return notes != NULL ? read_notes(notes, scope, model, err) : ORR_OK;
}

static orr_status fail_no_model(const orr_yaml *at, const orr_model_registry *registry,
                                orr_error *err)
{
    const char **names = orr_arena_array(registry->arena, const char *, registry->models.n);
    if (names == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < registry->models.n; i++)
        names[i] = registry->models.at[i]->name;
    return orr_fail_unknown(at, "model before this one", at->text, names, registry->models.n, err);
}

/* Copies the shape of the model that this one extends, without what holds for that model alone. */
static orr_status read_like(const orr_yaml *map, const orr_model_registry *registry,
                            orr_model *model, orr_error *err)
{
    const orr_yaml *like = orr_yaml_find(map, "like");
    const char *name;
    if (like == NULL)
        return ORR_OK;
    ORR_TRY(orr_text_read(like, "like", &name, err));
    const orr_model *other = orr_model_find(registry->written.at, registry->written.n, name);
    if (other == NULL)
        return fail_no_model(like, registry, err);
    const orr_model own = *model;
    *model = *other;
    model->family = own.family[0] != '\0' ? own.family : other->family;
    model->notes = own.notes;
    model->n_notes = own.n_notes;
    model->title = "";
    model->published_parameters = model->published_active = 0;
    return ORR_OK;
}

/* Removes defaults and statements on weights, which hold for published models only. */
static orr_status drop_unpublished(const orr_yaml *map, orr_model *model, orr_error *err)
{
    const orr_yaml *value = orr_yaml_find(map, "incomplete");
    bool incomplete = false;
    if (value != NULL)
        ORR_TRY(orr_yaml_bool(value, &incomplete, err));
    if (!incomplete)
        return ORR_OK;
    const char *family = model->family;
    *model = orr_model_default();
    model->family = family;
    return ORR_OK;
}

static orr_status read_model(const orr_yaml *name, const orr_yaml *map, const orr_yaml *defaults,
                             const orr_scope *outer, orr_model_registry *registry, orr_error *err)
{
    orr_scope scope = *outer;
    const char *what = orr_arena_printf(registry->arena, "model '%.80s'", name->text);
    orr_model *model = orr_arena_one(registry->arena, orr_model);
    orr_model *written = orr_arena_one(registry->arena, orr_model);
    if (what == NULL || model == NULL || written == NULL)
        return orr_fail_memory(err);
    *model = orr_model_default();
    if (defaults != NULL) {
        ORR_TRY(read_like(defaults, registry, model, err));
        ORR_TRY(read_map(defaults, "defaults", &scope, model, err));
    }
    ORR_TRY(drop_unpublished(map, model, err));
    ORR_TRY(read_like(map, registry, model, err));
    ORR_TRY(read_map(map, what, &scope, model, err));
    model->name = name->text;
    model->source = scope.source;
    if (model->title[0] == '\0')
        model->title = name->text;
    if (model->source == NULL)
        return orr_yaml_fail(map, ORR_INVALID, err, "%s does not say its source", what);
    *written = *model;
    ORR_TRY(orr_model_complete(model, name, err));
    return orr_array_push(&registry->models, model) && orr_array_push(&registry->written, written)
               ? ORR_OK
               : orr_fail_memory(err);
}

orr_status orr_spec_read_file(const orr_yaml *file, const char *source,
                              orr_model_registry *registry, orr_error *err)
{
    ORR_TRY(check_sections(file, err));
    orr_scope scope = {.source = source,
                       .abbreviations = orr_yaml_find(file, "sources"),
                       .arena = registry->arena};
    ORR_TRY(orr_scope_enter(file, &scope, err));
    const orr_yaml *models = orr_yaml_find(file, "models");
    const orr_yaml *defaults = orr_yaml_find(file, "defaults");
    for (uint32_t i = 0; models != NULL && i < models->n; i++)
        ORR_TRY(read_model(models->keys[i], models->values[i], defaults, &scope, registry, err));
    return ORR_OK;
}
