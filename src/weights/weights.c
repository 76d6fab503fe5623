/* SPDX-License-Identifier: Apache-2.0 */
/* Opens weights: which files there are, and their tensors by name. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "weights/store.h"

int64_t orr_weight_bytes(uint8_t format, uint32_t rank, const int64_t *dim)
{
    int64_t rows = 1, bytes;
    for (uint32_t i = 0; i + 1 < rank; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(rows, dim[i], &rows))
            return -1;
    const int64_t columns = rank > 0 ? dim[rank - 1] : 1;
    const int64_t row = columns >= 0 && columns < INT64_MAX / 16
                            ? orr_row_format_bytes((orr_row_format)format, columns)
                            : -1;
    return row < 0 || __builtin_mul_overflow(rows, row, &bytes) ? -1 : bytes;
}

const char *orr_weight_shape(uint32_t rank, const int64_t *dim, char ret[ORR_SHAPE_CHARS])
{
    size_t used = (size_t)snprintf(ret, ORR_SHAPE_CHARS, "(");
    for (uint32_t i = 0; i < rank; i++)
        used += (size_t)snprintf(ret + used, ORR_SHAPE_CHARS - used, "%s%lld", i > 0 ? ", " : "",
                                 (long long)dim[i]);
    (void)snprintf(ret + used, ORR_SHAPE_CHARS - used, ")");
    return ret;
}

orr_status orr_weight_store_add_metadata(orr_weight_store *store, const char *key,
                                         const char *value, orr_error *err)
{
    const orr_metadata one = {.key = key, .value = value};
    if (key == NULL || value == NULL || !orr_array_push(&store->metadata, one))
        return orr_fail_memory(err);
    return ORR_OK;
}

static orr_status prefixed(orr_status status, const char *path, orr_error *err)
{
    if (status != ORR_OK && status != ORR_NO_MEMORY)
        orr_error_prefix(err, path);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static orr_status read_file(orr_weight_store *store, const orr_mapped_file *file, const char *path,
                            orr_error *err)
{
    char magic[4] = "";
    if (file->n >= sizeof magic)
        ORR_TRY(orr_mapped_file_read(file, 0, magic, sizeof magic, err));
    if (memcmp(magic, "GGUF", 4) == 0)
        return orr_gguf_read(file, store, err);
    if (ends_with(path, ".gguf"))
        return orr_fail(err, ORR_PARSE, "byte 0: no GGUF file: it does not begin with \"GGUF\"");
    return orr_safetensors_read(file, store, err);
}

orr_status orr_weight_store_add(orr_weight_store *store, const char *path, orr_error *err)
{
    orr_mapped_file file;
    if (!orr_array_reserve(&store->files, 1))
        return orr_fail_memory(err);
    orr_status status = orr_mapped_file_open(path, &file, err);
    if (status != ORR_OK)
        return prefixed(status, path, err);
    store->files.at[store->files.n++] = file;
    status = read_file(store, &file, path, err);
    orr_mapped_file_close_descriptor(&store->files.at[store->files.n - 1]);
    return prefixed(status, path, err);
}

/* The only file of a folder with this ending. INVALID: several. */
static orr_status only_file(const char *folder, const char *end, orr_arena *arena, const char **ret,
                            orr_error *err)
{
    DIR *dir = opendir(folder);
    orr_status status = ORR_OK;
    const char *found = NULL;
    if (dir == NULL)
        return orr_fail(err, ORR_IO, "%s: cannot be listed", folder);
    for (struct dirent *entry; status == ORR_OK && (entry = readdir(dir)) != NULL;) {
        if (!ends_with(entry->d_name, end))
            continue;
        if (found != NULL)
            status = orr_fail(err, ORR_INVALID,
                              "%s: has several files %s, and no model.safetensors.index.json",
                              folder, end);
        found = orr_arena_printf(arena, "%s/%s", folder, entry->d_name);
        if (found == NULL)
            status = orr_fail_memory(err);
    }
    (void)closedir(dir);
    if (status == ORR_OK)
        *ret = found;
    return status;
}

/* The file to open in a folder. */
static orr_status in_folder(const char *folder, orr_arena *arena, const char **ret, orr_error *err)
{
    static const char *const known[] = {"model.safetensors.index.json", "model.safetensors"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const char *path = orr_arena_printf(arena, "%s/%s", folder, known[i]);
        if (path == NULL)
            return orr_fail_memory(err);
        if (access(path, F_OK) == 0) {
            *ret = path;
            return ORR_OK;
        }
    }
    const char *path = NULL;
    ORR_TRY(only_file(folder, ".safetensors", arena, &path, err));
    if (path == NULL)
        ORR_TRY(only_file(folder, ".gguf", arena, &path, err));
    if (path == NULL)
        return orr_fail(err, ORR_NOT_FOUND, "%s: has no file .safetensors or .gguf", folder);
    *ret = path;
    return ORR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const orr_weight *)a)->name, ((const orr_weight *)b)->name);
}

static orr_status sort(orr_weight_store *store, orr_error *err)
{
    orr_weight *tensors = store->tensors.at;
    const size_t n = store->tensors.n;
    if (n > UINT32_MAX || store->metadata.n > UINT32_MAX)
        return orr_fail(err, ORR_LIMIT, "too many tensors");
    if (n > 0)
        qsort(tensors, n, sizeof *tensors, by_name);
    for (size_t i = 0; i < n; i++) {
        if (i > 0 && strcmp(tensors[i - 1].name, tensors[i].name) == 0)
            return orr_fail(err, ORR_INVALID, "has two tensors '%.200s'", tensors[i].name);
        if (tensors[i].format != ORR_ROW_FORMATS)
            store->about.bytes += tensors[i].bytes;
    }
    store->tensors.n = 0;
    for (size_t i = 0; i < n; i++)
        if (tensors[i].format != ORR_ROW_FORMATS)
            tensors[store->tensors.n++] = tensors[i];
    store->about.tensors = tensors;
    store->about.n = (uint32_t)store->tensors.n;
    store->about.metadata = store->metadata.at;
    store->about.n_metadata = (uint32_t)store->metadata.n;
    return ORR_OK;
}

static orr_status read_all(orr_weight_store *store, const char *path, orr_error *err)
{
    struct stat about;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode))
        ORR_TRY(in_folder(path, store->arena, &path, err));
    store->about.path = orr_arena_strndup(store->arena, path, strlen(path));
    if (store->about.path == NULL)
        return orr_fail_memory(err);
    ORR_TRY(ends_with(path, ".json") ? orr_safetensors_index_read(path, store, err)
                                     : orr_weight_store_add(store, path, err));
    return prefixed(sort(store, err), path, err);
}

orr_status orr_weights_open(const char *path, orr_weights **ret, orr_error *err)
{
    orr_weight_store *store = orr_calloc(1, sizeof *store);
    if (store == NULL)
        return orr_fail_memory(err);
    store->arena = orr_arena_new(0, 0);
    const orr_status status =
        store->arena != NULL ? read_all(store, path, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        *ret = &store->about;
    else
        orr_weights_close(&store->about);
    return status;
}

void orr_weights_close(orr_weights *weights)
{
    orr_weight_store *store = (orr_weight_store *)weights;
    if (store == NULL)
        return;
    for (size_t i = 0; i < store->files.n; i++)
        orr_mapped_file_close(&store->files.at[i]);
    orr_array_done(&store->files);
    orr_array_done(&store->tensors);
    orr_array_done(&store->foreign);
    orr_array_done(&store->metadata);
    orr_array_done(&store->arrays);
    orr_arena_free(store->arena);
    orr_free(store);
}

const orr_weight *orr_weights_find(const orr_weights *weights, const char *name)
{
    const orr_weight key = {.name = name};
    return weights->n > 0
               ? bsearch(&key, weights->tensors, weights->n, sizeof *weights->tensors, by_name)
               : NULL;
}
