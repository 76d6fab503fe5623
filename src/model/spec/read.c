/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/closest.h"
#include "machine/catalog/schema.h"
#include "model/spec/spec.h"

enum { MOST_FIELDS = 64 };

static const orr_spec_field *find_field(const orr_spec_field *fields, size_t n, const char *key)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(fields[i].key, key) == 0)
            return &fields[i];
    return NULL;
}

static orr_status unknown_key(const orr_yaml *key, const char *what, const orr_spec_field *fields,
                              size_t n_fields, orr_error *err)
{
    const char *candidates[MOST_FIELDS];
    size_t n = 0;
    for (; n < n_fields && n < MOST_FIELDS; n++)
        candidates[n] = fields[n].key;
    const char *close = orr_closest_match(key->text, candidates, n);
    return close != NULL
               ? orr_yaml_fail(key, ORR_INVALID, err, "%s has no '%.80s'; did you mean '%s'?", what,
                               key->text, close)
               : orr_yaml_fail(key, ORR_INVALID, err, "%s has no '%.80s'", what, key->text);
}

static orr_status read_whole(const orr_yaml *value, const orr_spec_field *field, int64_t *ret,
                             orr_error *err)
{
    int64_t number;
    ORR_TRY(orr_yaml_int(value, &number, err));
    if (number < 0 || number > field->most)
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: %lld is not from 0 to %lld", field->key,
                             (long long)number, (long long)field->most);
    *ret = number;
    return ORR_OK;
}

static orr_status read_number(const orr_yaml *value, const orr_spec_field *field, double *ret,
                              orr_error *err)
{
    double number;
    ORR_TRY(orr_yaml_number(value, &number, err));
    if (!isfinite(number) || number < 0)
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: %.80s is not a number from 0 on",
                             field->key, value->text);
    *ret = number;
    return ORR_OK;
}

static orr_status read_word(const orr_yaml *value, const orr_spec_field *field, uint8_t *ret,
                            orr_error *err)
{
    const char *text;
    ORR_TRY(orr_text_read(value, field->key, &text, err));
    for (size_t i = 0; i < field->n; i++) {
        if (strcmp(text, field->words[i]) == 0) {
            *ret = (uint8_t)i;
            return ORR_OK;
        }
    }
    return orr_fail_unknown(value, field->key, text, field->words, field->n, err);
}

static orr_status read_list(const orr_yaml *list, const orr_spec_field *field, char *object,
                            orr_error *err)
{
    if (list->kind != ORR_YAML_LIST || list->n == 0 || list->n > field->room)
        return orr_yaml_fail(list, ORR_INVALID, err, "%s: a list of 1 to %u numbers is needed here",
                             field->key, field->room);
    for (uint32_t i = 0; i < list->n; i++) {
        int64_t number;
        ORR_TRY(read_whole(list->values[i], field, &number, err));
        if (field->kind == ORR_SPEC_I64S)
            ((int64_t *)(object + field->offset))[i] = number;
        else
            ((uint32_t *)(object + field->offset))[i] = (uint32_t)number;
    }
    *(uint32_t *)(object + field->length) = list->n;
    return ORR_OK;
}

/* Lists that share a length field must be equally long where the map has both. */
static orr_status check_lengths(const orr_yaml *map, const orr_spec_field *fields, size_t n,
                                orr_error *err)
{
    for (size_t i = 1; i < n; i++) {
        const orr_yaml *list = orr_yaml_find(map, fields[i].key);
        if (fields[i].room == 0 || list == NULL)
            continue;
        for (size_t k = 0; k < i; k++) {
            const orr_yaml *other = orr_yaml_find(map, fields[k].key);
            if (fields[k].room > 0 && fields[k].length == fields[i].length && other != NULL &&
                other->n != list->n)
                return orr_yaml_fail(list, ORR_INVALID, err, "%s has %u numbers, %s has %u",
                                     fields[i].key, list->n, fields[k].key, other->n);
        }
    }
    return ORR_OK;
}

static orr_status read_field(const orr_yaml *value, const orr_spec_field *field, orr_model *ret,
                             orr_error *err)
{
    char *object = (char *)ret, *at = object + field->offset;
    int64_t whole;
    switch ((orr_spec_kind)field->kind) {
    case ORR_SPEC_U32:
        ORR_TRY(read_whole(value, field, &whole, err));
        *(uint32_t *)at = (uint32_t)whole;
        return ORR_OK;
    case ORR_SPEC_I64:
        return read_whole(value, field, (int64_t *)at, err);
    case ORR_SPEC_NUMBER:
        return read_number(value, field, (double *)at, err);
    case ORR_SPEC_BOOL:
        return orr_yaml_bool(value, (bool *)at, err);
    case ORR_SPEC_TEXT:
        return orr_text_read(value, field->key, (const char **)at, err);
    case ORR_SPEC_WORD:
        return read_word(value, field, (uint8_t *)at, err);
    case ORR_SPEC_U32S:
    case ORR_SPEC_I64S:
        return read_list(value, field, object, err);
    case ORR_SPEC_SECTION:
        return orr_spec_read(value, field->key, field->fields, field->n, ret, err);
    case ORR_SPEC_OTHER:
        break;
    }
    return ORR_OK;
}

orr_status orr_spec_read(const orr_yaml *map, const char *what, const orr_spec_field *fields,
                         size_t n_fields, orr_model *ret, orr_error *err)
{
    if (map->kind != ORR_YAML_MAP)
        return orr_yaml_fail(map, ORR_INVALID, err, "%s is a map of what is known about it", what);
    for (uint32_t i = 0; i < map->n; i++) {
        const orr_spec_field *field = find_field(fields, n_fields, map->keys[i]->text);
        if (field == NULL)
            return unknown_key(map->keys[i], what, fields, n_fields, err);
        ORR_TRY(read_field(map->values[i], field, ret, err));
    }
    return check_lengths(map, fields, n_fields, err);
}
