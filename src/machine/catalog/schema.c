/* SPDX-License-Identifier: Apache-2.0 */
#include "machine/catalog/schema.h"

#include <string.h>

#include "base/closest.h"

enum { MOST_FIELDS = 64 };

orr_status orr_text_read(const orr_yaml *value, const char *key, const char **ret, orr_error *err)
{
    if (value->kind != ORR_YAML_SCALAR || value->text[0] == '\0')
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: a value is needed here, not %s", key,
                             value->kind == ORR_YAML_LIST  ? "a list"
                             : value->kind == ORR_YAML_MAP ? "a map"
                                                           : "nothing");
    *ret = value->text;
    return ORR_OK;
}

orr_status orr_fail_unknown(const orr_yaml *at, const char *what, const char *word,
                            const char *const *candidates, size_t n, orr_error *err)
{
    const char *close = orr_closest_match(word, candidates, n);
    return close != NULL ? orr_yaml_fail(at, ORR_INVALID, err,
                                         "'%.80s' is no %s; did you mean '%s'?", word, what, close)
                         : orr_yaml_fail(at, ORR_INVALID, err, "'%.80s' is no %s", word, what);
}

static const orr_field *find_field(const orr_field *fields, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].key, key) == 0)
            return &fields[i];
    return NULL;
}

static orr_status unknown_key(const orr_yaml *key, const char *what, const orr_field *fields,
                              size_t n_fields, orr_error *err)
{
    const char *candidates[MOST_FIELDS + 2] = {"basis", "source"};
    size_t n = 2;
    for (size_t i = 0; i < n_fields && i < MOST_FIELDS; i++)
        candidates[n++] = fields[i].key;
    const char *close = orr_closest_match(key->text, candidates, n);
    return close != NULL
               ? orr_yaml_fail(key, ORR_INVALID, err, "%s has no '%.80s'; did you mean '%s'?", what,
                               key->text, close)
               : orr_yaml_fail(key, ORR_INVALID, err, "%s has no '%.80s'", what, key->text);
}

static orr_status check_map(const orr_yaml *map, const char *what, const orr_field *fields,
                            size_t n_fields, orr_error *err)
{
    if (map->kind != ORR_YAML_MAP)
        return orr_yaml_fail(map, ORR_INVALID, err, "%s is a map of what is known about it", what);
    for (uint32_t i = 0; i < map->n; i++) {
        const char *key = map->keys[i]->text;
        if (find_field(fields, n_fields, key) == NULL && strcmp(key, "basis") != 0 &&
            strcmp(key, "source") != 0)
            return unknown_key(map->keys[i], what, fields, n_fields, err);
    }
    for (size_t i = 0; i < n_fields; i++)
        if (fields[i].required && orr_yaml_find(map, fields[i].key) == NULL)
            return orr_yaml_fail(
                map, ORR_INVALID, err, "%s does not say its %s%s", what, fields[i].key,
                fields[i].kind == ORR_FIELD_FACT ? ": 'unknown' is an answer too" : "");
    return ORR_OK;
}

static void set_unknown(const orr_field *field, char *object)
{
    orr_fact *facts = (orr_fact *)(object + field->offset);
    const int n = field->kind == ORR_FIELD_DTYPES ? ORR_DTYPES : field->kind == ORR_FIELD_FACT;
    for (int i = 0; i < n; i++)
        facts[i] = orr_fact_unknown();
    if (field->kind == ORR_FIELD_TEXT)
        *(const char **)(object + field->offset) = "";
}

static orr_status read_dtypes(const orr_yaml *map, const orr_field *field, const orr_scope *scope,
                              orr_fact *ret, orr_error *err)
{
    static const char *const names[] = {
#define NAME_(name, text, bytes) text,
        ORR_DTYPE_MAP(NAME_)
#undef NAME_
    };
    if (map->kind != ORR_YAML_MAP)
        return orr_yaml_fail(map, ORR_INVALID, err,
                             "%s: a map by dtype is needed here: {fp32: "
                             "67TFLOPS, ...}",
                             field->key);
    for (uint32_t i = 0; i < map->n; i++) {
        const char *name = map->keys[i]->text;
        int dtype = 0;
        while (dtype < ORR_DTYPES && strcmp(name, names[dtype]) != 0)
            dtype++;
        if (dtype == ORR_DTYPES)
            return orr_fail_unknown(map->keys[i], "dtype", name, names, ORR_DTYPES, err);
        ORR_TRY(
            orr_fact_read(map->values[i], field->key, field->quantity, scope, &ret[dtype], err));
    }
    return ORR_OK;
}

static orr_status read_texts(const orr_yaml *list, const orr_field *field, const orr_scope *scope,
                             char *object, orr_error *err)
{
    if (list->kind != ORR_YAML_LIST)
        return orr_yaml_fail(list, ORR_INVALID, err, "%s: a list is needed here: [\"...\", ...]",
                             field->key);
    const char **texts = orr_arena_array(scope->arena, const char *, list->n);
    if (texts == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < list->n; i++)
        ORR_TRY(orr_text_read(list->values[i], field->key, &texts[i], err));
    *(const char *const **)(object + field->offset) = texts;
    *(uint32_t *)(object + field->count) = list->n;
    return ORR_OK;
}

static orr_status read_field(const orr_yaml *value, const orr_field *field, const orr_scope *scope,
                             char *object, orr_error *err)
{
    char *at = object + field->offset;
    switch ((orr_field_kind)field->kind) {
    case ORR_FIELD_FACT:
        return orr_fact_read(value, field->key, field->quantity, scope, (orr_fact *)at, err);
    case ORR_FIELD_DTYPES:
        return read_dtypes(value, field, scope, (orr_fact *)at, err);
    case ORR_FIELD_TEXT:
        return orr_text_read(value, field->key, (const char **)at, err);
    case ORR_FIELD_TEXTS:
        return read_texts(value, field, scope, object, err);
    case ORR_FIELD_OTHER:
        break;
    }
    return ORR_OK;
}

orr_status orr_schema_read(const orr_yaml *map, const char *what, const orr_field *fields,
                           size_t n_fields, orr_scope *scope, void *ret, orr_error *err)
{
    ORR_TRY(check_map(map, what, fields, n_fields, err));
    ORR_TRY(orr_scope_enter(map, scope, err));
    for (size_t i = 0; i < n_fields; i++) {
        const orr_yaml *value = orr_yaml_find(map, fields[i].key);
        set_unknown(&fields[i], ret);
        if (value != NULL)
            ORR_TRY(read_field(value, &fields[i], scope, ret, err));
    }
    return ORR_OK;
}
