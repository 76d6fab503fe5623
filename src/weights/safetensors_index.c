/* SPDX-License-Identifier: Apache-2.0 */
/* model.safetensors.index.json: {"metadata": {...}, "weight_map": {"tensor": "file", ...}}. */
#include <string.h>
#include <unistd.h>

#include "base/path.h"
#include "base/strtab.h"
#include "io/json/reader.h"
#include "weights/store.h"

/* Which of `files` each tensor should be in. */
typedef struct index {
    const char *folder;
    int folder_chars;
    orr_strtab *tensors, *files; /* numbers from 1 */
    orr_array(uint32_t) file_of; /* by number of a tensor, less 1 */
} index_map;

static orr_status read_row(index_map *x, orr_json *json, orr_text key, orr_error *err)
{
    orr_json_value value;
    const uint32_t before = orr_strtab_count(x->tensors);
    const uint32_t tensor = orr_strtab_add(x->tensors, key.at, key.n);
    if (tensor == UINT32_MAX)
        return orr_fail_memory(err);
    if (tensor < before)
        return orr_fail_byte(
            err, ORR_INVALID, orr_json_byte_pos(json), "byte %llu: weight_map has '%.100s' twice",
            (unsigned long long)orr_json_byte_pos(json), orr_strtab_text(x->tensors, tensor));
    ORR_TRY(orr_json_value_next(json, &value, err));
    if (value.type != ORR_JSON_STRING || value.text.n == 0 ||
        memchr(value.text.at, '/', value.text.n) != NULL ||
        memchr(value.text.at, '\0', value.text.n) != NULL)
        return orr_fail_byte(err, ORR_INVALID, orr_json_byte_pos(json),
                             "byte %llu: weight_map of '%.100s' is no name of a file beside it",
                             (unsigned long long)orr_json_byte_pos(json),
                             orr_strtab_text(x->tensors, tensor));
    const uint32_t file = orr_strtab_add(x->files, value.text.at, value.text.n);
    if (file == UINT32_MAX || !orr_array_push(&x->file_of, file))
        return orr_fail_memory(err);
    return ORR_OK;
}

static orr_status read_map(index_map *x, orr_json *json, bool *ret_found, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_text key;
    ORR_TRY(orr_json_enter_object(json, err));
    while (orr_json_next_key(json, &key, &status, err)) {
        if (!orr_text_is(key, "weight_map")) {
            ORR_TRY(orr_json_skip(json, err));
            continue;
        }
        *ret_found = true;
        ORR_TRY(orr_json_enter_object(json, err));
        while (orr_json_next_key(json, &key, &status, err))
            ORR_TRY(read_row(x, json, key, err));
        ORR_TRY(status);
    }
    ORR_TRY(status);
    return orr_json_end(json, err);
}

static orr_status read_index(index_map *x, const char *path, orr_error *err)
{
    orr_stream *stream = NULL;
    orr_json *json = NULL;
    orr_status status;
    bool found = false;
    ORR_TRY_OUT(status, orr_stream_open(path, &stream, err));
    ORR_TRY_OUT(status, orr_json_new(stream, false, &json, err));
    orr_json_set_depth_limit(json, 64);
    ORR_TRY_OUT(status, read_map(x, json, &found, err));
    if (!found || x->file_of.n == 0)
        status = orr_fail(err, ORR_INVALID, "has no \"weight_map\" that names a tensor");
out:
    orr_json_free(json);
    orr_stream_close(stream);
    if (status != ORR_OK && status != ORR_NO_MEMORY)
        orr_error_prefix(err, path);
    return status;
}

/* Maps a shard, and checks that it has the tensors it should. */
static orr_status add_shard(index_map *x, uint32_t file, orr_weight_store *store, orr_error *err)
{
    const char *name = orr_strtab_text(x->files, file);
    const size_t first = store->tensors.n;
    const char *path = orr_arena_printf(store->arena, "%.*s%s", x->folder_chars, x->folder, name);
    if (path == NULL)
        return orr_fail_memory(err);
    if (access(path, F_OK) != 0)
        return orr_fail(err, ORR_NOT_FOUND, "%s: the shard is missing", path);
    ORR_TRY(orr_weight_store_add(store, path, err));
    if (store->about.gguf)
        return orr_fail(err, ORR_INVALID, "%s: is a GGUF file among shards of safetensors", path);
    for (size_t i = first; i < store->tensors.n; i++) {
        const char *tensor = store->tensors.at[i].name;
        const uint32_t id = orr_strtab_find(x->tensors, tensor, strlen(tensor));
        if (id != UINT32_MAX && id > 0 && x->file_of.at[id - 1] == file)
            x->file_of.at[id - 1] = 0;
    }
    return ORR_OK;
}

static orr_status add_shards(index_map *x, orr_weight_store *store, orr_error *err)
{
    for (uint32_t file = 1; file < orr_strtab_count(x->files); file++)
        ORR_TRY(add_shard(x, file, store, err));
    for (size_t i = 0; i < x->file_of.n; i++)
        if (x->file_of.at[i] != 0)
            return orr_fail(err, ORR_INVALID,
                            "%.*s%s: has no tensor '%.200s', which the index says", x->folder_chars,
                            x->folder, orr_strtab_text(x->files, x->file_of.at[i]),
                            orr_strtab_text(x->tensors, (uint32_t)i + 1));
    return ORR_OK;
}

orr_status orr_safetensors_index_read(const char *path, orr_weight_store *store, orr_error *err)
{
    size_t chars;
    index_map x = {.folder = path, .tensors = orr_strtab_new(), .files = orr_strtab_new()};
    x.folder_chars = (int)(orr_path_basename(path, &chars) - path);
    orr_status status =
        x.tensors != NULL && x.files != NULL ? read_index(&x, path, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        status = add_shards(&x, store, err);
    orr_array_done(&x.file_of);
    orr_strtab_free(x.tensors);
    orr_strtab_free(x.files);
    return status;
}
