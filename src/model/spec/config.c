/* SPDX-License-Identifier: Apache-2.0 */
#include "model/spec/config.h"

#include <stdio.h>
#include <string.h>

#include "io/stream/stream.h"

enum { MOST_BYTES = 4 << 20, MOST_WHOLE = 1 << 30 };

const orr_yaml *orr_config_find(const orr_yaml *root, const char *path)
{
    char key[64];
    const char *dot = strchr(path, '.');
    if (dot != NULL) {
        (void)snprintf(key, sizeof key, "%.*s", (int)(dot - path), path);
        const orr_yaml *inner = orr_yaml_find(root, key);
        return inner != NULL ? orr_config_find(inner, dot + 1) : NULL;
    }
    const orr_yaml *value = orr_yaml_find(root, path);
    const bool null =
        value != NULL && value->kind == ORR_YAML_SCALAR && !value->quoted && value->text[0] == '\0';
    return null ? NULL : value;
}

static orr_status read_whole(const orr_yaml *value, const char *path, uint32_t *ret, orr_error *err)
{
    int64_t number;
    ORR_TRY(orr_yaml_int(value, &number, err));
    if (number < 0 || number > MOST_WHOLE)
        return orr_yaml_fail(value, ORR_INVALID, err, "%s: %lld is not from 0 to %d", path,
                             (long long)number, MOST_WHOLE);
    *ret = (uint32_t)number;
    return ORR_OK;
}

static orr_status read_key(const orr_yaml *root, const orr_config_key *key,
                           const char *architecture, orr_model *ret, orr_error *err)
{
    char *at = (char *)ret + key->offset;
    const orr_yaml *value = orr_config_find(root, key->path);
    if (value == NULL && key->required)
        return orr_yaml_fail(root, ORR_INVALID, err, "a %s needs '%s'", architecture, key->path);
    if (value == NULL)
        return ORR_OK;
    switch (key->kind) {
    case ORR_SPEC_BOOL:
        return orr_yaml_bool(value, (bool *)at, err);
    case ORR_SPEC_NUMBER:
        return orr_yaml_number(value, (double *)at, err);
    default:
        return read_whole(value, key->path, (uint32_t *)at, err);
    }
}

static orr_status fail_unknown(const orr_yaml *at, orr_error *err)
{
    char known[384] = "";
    size_t n, used = 0;
    const orr_config_architecture *rows = orr_config_architectures(&n);
    for (size_t i = 0; i < n && used < sizeof known; i++)
        used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", i > 0 ? ", " : "",
                                 rows[i].architecture);
    return orr_yaml_fail(at, ORR_UNSUPPORTED, err,
                         "the architecture '%.60s' is not known; known: %s", at->text, known);
}

/* Finds the reader of the one architecture that the file names. */
static orr_status find_row(const orr_yaml *root, const orr_config_architecture **ret,
                           orr_error *err)
{
    const orr_yaml *list = orr_yaml_find(root, "architectures");
    if (list == NULL || list->kind != ORR_YAML_LIST || list->n != 1 ||
        list->values[0]->kind != ORR_YAML_SCALAR)
        return orr_yaml_fail(list != NULL ? list : root, ORR_INVALID, err,
                             "a config.json names one architecture: \"architectures\": "
                             "[\"LlamaForCausalLM\"]");
    size_t n;
    const orr_config_architecture *rows = orr_config_architectures(&n);
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rows[i].architecture, list->values[0]->text) == 0) {
            *ret = &rows[i];
            return ORR_OK;
        }
    }
    return fail_unknown(list->values[0], err);
}

orr_status orr_config_read(const orr_yaml *root, orr_arena *arena, const orr_model **ret,
                           orr_error *err)
{
    const orr_config_architecture *row;
    if (root->kind != ORR_YAML_MAP)
        return orr_yaml_fail(root, ORR_INVALID, err, "a config.json is an object");
    ORR_TRY(find_row(root, &row, err));
    orr_model *model = orr_arena_one(arena, orr_model);
    if (model == NULL)
        return orr_fail_memory(err);
    *model = orr_model_default();
    model->name = model->title = model->source = root->file;
    model->family = row->architecture;
    model->norm_epsilon = row->norm_epsilon;
    model->rope_theta = row->rope_theta;
    for (size_t t = 0; t < ORR_CONFIG_TABLES && row->tables[t].keys != NULL; t++)
        for (size_t i = 0; i < row->tables[t].n; i++)
            ORR_TRY(read_key(root, &row->tables[t].keys[i], row->architecture, model, err));
    orr_config_read_rope(root, model);
    if (row->finish != NULL)
        ORR_TRY(row->finish(root, model, err));
    ORR_TRY(orr_model_complete(model, root, err));
    *ret = model;
    return ORR_OK;
}

/* Opens the whole file, decompressed where needed. */
static orr_status read_text(const char *path, orr_stream **ret, orr_error *err)
{
    orr_stream *stream = NULL;
    bool end = false;
    orr_status status = orr_stream_open(path, &stream, err);
    if (status == ORR_OK)
        orr_stream_set_limit(stream, MOST_BYTES);
    while (!end && status == ORR_OK)
        status = orr_stream_fill(stream, &end, err);
    if (status == ORR_OK) {
        *ret = stream;
        return ORR_OK;
    }
    orr_stream_close(stream);
    orr_error_prefix(err, path);
    return status;
}

orr_status orr_config_load(const char *path, orr_arena *arena, const orr_model **ret,
                           orr_error *err)
{
    orr_stream *stream;
    const orr_yaml *root;
    ORR_TRY(read_text(path, &stream, err));
    const orr_window text = orr_stream_window(stream);
    orr_status status = orr_config_parse((const char *)text.bytes, text.n, path, arena, &root, err);
    orr_stream_close(stream);
    return status == ORR_OK ? orr_config_read(root, arena, ret, err) : status;
}
