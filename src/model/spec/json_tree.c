/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "io/json/reader.h"
#include "model/spec/spec.h"

enum { MOST_DEPTH = 64, MOST_VALUES = 200 * 1000, MOST_KEYS = 1024 };

/* A JSON text as a tree of orr_yaml, and how far its lines were counted: values come in order. */
typedef struct tree {
    orr_json *json;
    const char *text, *file;
    size_t len, counted;
    uint32_t line, column;
    size_t n; /* values so far */
    orr_arena *arena;
} tree;
typedef orr_array(const orr_yaml *) values;

static void count_to(tree *t, size_t at)
{
    for (; t->counted < at && t->counted < t->len; t->counted++) {
        const bool end = t->text[t->counted] == '\n';
        t->line += end;
        t->column = end ? 1 : t->column + 1;
    }
}

/* A value that begins at the next token, after a comma or colon and white space. */
static orr_yaml *new_value(tree *t, orr_yaml_kind kind)
{
    size_t at = (size_t)orr_json_byte_pos(t->json);
    while (at < t->len && t->text[at] != '\0' && strchr(" \t\r\n,:", t->text[at]) != NULL)
        at++;
    count_to(t, at);
    orr_yaml *value = orr_arena_one(t->arena, orr_yaml);
    if (value != NULL)
        *value = (orr_yaml){.kind = (uint8_t)kind,
                            .line = t->line,
                            .column = t->column,
                            .text = "",
                            .file = t->file};
    return value;
}

static orr_status set_text(tree *t, orr_yaml *value, orr_text text, bool quoted, orr_error *err)
{
    value->quoted = quoted;
    value->text = orr_arena_strndup(t->arena, text.at, text.n);
    return value->text != NULL ? ORR_OK : orr_fail_memory(err);
}

static orr_status copy(tree *t, const values *from, const orr_yaml *const **ret, orr_error *err)
{
    const orr_yaml **to = orr_arena_array(t->arena, const orr_yaml *, from->n);
    if (to == NULL)
        return orr_fail_memory(err);
    if (from->n > 0)
        memcpy(to, from->at, from->n * sizeof *to);
    *ret = to;
    return ORR_OK;
}

static orr_status read_value(tree *t, orr_yaml **ret, orr_error *err);

static orr_status push_value(tree *t, values *list, orr_error *err)
{
    orr_yaml *value;
    ORR_TRY(read_value(t, &value, err));
    return orr_array_push(list, value) ? ORR_OK : orr_fail_memory(err);
}

static orr_status read_list(tree *t, orr_yaml *list, orr_error *err)
{
    values items = {0};
    orr_status status = ORR_OK;
    while (orr_json_next_element(t->json, &status, err))
        ORR_TRY_OUT(status, push_value(t, &items, err));
    ORR_TRY_OUT(status, status);
    list->n = (uint32_t)items.n;
    status = copy(t, &items, &list->values, err);
out:
    orr_array_done(&items);
    return status;
}

static orr_status push_key(tree *t, orr_text text, values *keys, orr_error *err)
{
    orr_yaml *key = new_value(t, ORR_YAML_SCALAR);
    if (key == NULL)
        return orr_fail_memory(err);
    ORR_TRY(set_text(t, key, text, true, err));
    if (keys->n == MOST_KEYS)
        return orr_yaml_fail(key, ORR_LIMIT, err, "more than %d keys in one object", MOST_KEYS);
    for (size_t i = 0; i < keys->n; i++)
        if (strcmp(keys->at[i]->text, key->text) == 0)
            return orr_yaml_fail(key, ORR_INVALID, err, "'%.80s' is here twice", key->text);
    return orr_array_push(keys, key) ? ORR_OK : orr_fail_memory(err);
}

static orr_status read_map(tree *t, orr_yaml *map, orr_error *err)
{
    values keys = {0}, items = {0};
    orr_status status = ORR_OK;
    orr_text key;
    while (orr_json_next_key(t->json, &key, &status, err)) {
        ORR_TRY_OUT(status, push_key(t, key, &keys, err));
        ORR_TRY_OUT(status, push_value(t, &items, err));
    }
    ORR_TRY_OUT(status, status);
    map->n = (uint32_t)keys.n;
    ORR_TRY_OUT(status, copy(t, &keys, &map->keys, err));
    status = copy(t, &items, &map->values, err);
out:
    orr_array_done(&keys);
    orr_array_done(&items);
    return status;
}

/* null is a scalar without text. */
static orr_status read_value(tree *t, orr_yaml **ret, orr_error *err)
{
    orr_yaml *value = new_value(t, ORR_YAML_SCALAR);
    orr_json_value token;
    if (value == NULL)
        return orr_fail_memory(err);
    if (t->n++ == MOST_VALUES)
        return orr_yaml_fail(value, ORR_LIMIT, err, "more than %d values", MOST_VALUES);
    *ret = value;
    ORR_TRY(orr_json_value_next(t->json, &token, err));
    switch (token.type) {
    case ORR_JSON_NULL:
        return ORR_OK;
    case ORR_JSON_FALSE:
    case ORR_JSON_TRUE:
        value->text = token.type == ORR_JSON_TRUE ? "true" : "false";
        return ORR_OK;
    case ORR_JSON_NUMBER:
    case ORR_JSON_STRING:
        return set_text(t, value, token.text, token.type == ORR_JSON_STRING, err);
    case ORR_JSON_ARRAY:
        value->kind = ORR_YAML_LIST;
        return read_list(t, value, err);
    case ORR_JSON_OBJECT:
        value->kind = ORR_YAML_MAP;
        return read_map(t, value, err);
    }
    return ORR_OK;
}

/* Adds line and column to an error of the JSON reader, which knows the byte only. */
static orr_status place_error(tree *t, orr_status status, const orr_error *why, orr_error *err)
{
    if (why->byte_pos == UINT64_MAX) {
        if (err != NULL)
            *err = *why;
        return status;
    }
    t->counted = 0;
    t->line = t->column = 1;
    count_to(t, (size_t)why->byte_pos);
    const orr_yaml at = {.file = t->file, .line = t->line, .column = t->column};
    return orr_yaml_fail(&at, status, err, "%s", why->text);
}

orr_status orr_config_parse(const char *text, size_t len, const char *file, orr_arena *arena,
                            const orr_yaml **ret, orr_error *err)
{
    tree t = {.text = text, .len = len, .file = file, .line = 1, .column = 1, .arena = arena};
    orr_stream *stream = NULL;
    orr_error why = {.byte_pos = UINT64_MAX};
    orr_status status;
    orr_yaml *root;
    ORR_TRY_OUT(status, orr_stream_open_memory(text, len, &stream, &why));
    ORR_TRY_OUT(status, orr_json_new(stream, false, &t.json, &why));
    orr_json_set_depth_limit(t.json, MOST_DEPTH);
    ORR_TRY_OUT(status, read_value(&t, &root, &why));
    ORR_TRY_OUT(status, orr_json_end(t.json, &why));
    *ret = root;
out:
    if (status != ORR_OK)
        status = place_error(&t, status, &why, err);
    orr_json_free(t.json);
    orr_stream_close(stream);
    return status;
}
