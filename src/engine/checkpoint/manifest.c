/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/checkpoint/manifest.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <xxhash.h>

#include "base/alloc.h"
#include "base/array.h"
#include "engine/checkpoint/table_file.h"
#include "engine/data/dataset.h"
#include "io/stream/output.h"
#include "weights/mapped_file.h"

typedef orr_array(char *) name_list;

/* A file of a rank that is whole: what has not been renamed yet ends in ".tmp.PID.N". */
static bool is_of_rank(const char *name)
{
    const char *end = strchr(name, '.');
    return strncmp(name, "rank-", 5) == 0 && end != NULL &&
           (strcmp(end, ".safetensors") == 0 || strcmp(end, ".tables") == 0);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static orr_status list_files(const char *folder, orr_arena *arena, name_list *ret, orr_error *err)
{
    DIR *all = opendir(folder);
    bool room = true;
    if (all == NULL)
        return orr_fail(err, ORR_IO, "%s: %s", folder, strerror(errno));
    for (struct dirent *entry; room && (entry = readdir(all)) != NULL;) {
        if (!is_of_rank(entry->d_name))
            continue;
        char *name = orr_arena_strndup(arena, entry->d_name, strlen(entry->d_name));
        room = name != NULL && orr_array_push(ret, name);
    }
    closedir(all);
    if (!room)
        return orr_fail_memory(err);
    if (ret->n > 0)
        qsort(ret->at, ret->n, sizeof *ret->at, by_name);
    return ORR_OK;
}

static bool ends_with(const char *path, const char *end)
{
    const size_t n = strlen(path), n_end = strlen(end);
    return n >= n_end && strcmp(path + n - n_end, end) == 0;
}

static orr_status header_bytes(const orr_mapped_file *file, const char *path, uint64_t *ret,
                               orr_error *err)
{
    uint8_t size[8] = {0};
    *ret = ORR_TABLE_PAGE;
    if (ends_with(path, ".safetensors")) {
        *ret = sizeof size;
        if (file->n >= sizeof size)
            ORR_TRY(orr_mapped_file_read(file, 0, size, sizeof size, err));
        for (int i = 0; i < 8; i++)
            *ret += (uint64_t)size[i] << 8 * i;
    }
    return *ret < sizeof size || *ret > file->n
               ? orr_fail(err, ORR_PARSE, "%s: it ends in its header", path)
               : ORR_OK;
}

static orr_status hash_header(const char *path, uint64_t *ret_bytes, uint64_t *ret_hash,
                              orr_error *err)
{
    orr_mapped_file file;
    uint64_t n = 0;
    ORR_TRY(orr_mapped_file_open(path, &file, err));
    orr_status status = header_bytes(&file, path, &n, err);
    char *header = status == ORR_OK ? orr_malloc(n) : NULL;
    if (status == ORR_OK && header == NULL)
        status = orr_fail_memory(err);
    if (status == ORR_OK)
        status = orr_mapped_file_read(&file, 0, header, n, err);
    if (status == ORR_OK) {
        *ret_bytes = file.n;
        *ret_hash = XXH3_64bits(header, n);
    }
    orr_free(header);
    orr_mapped_file_close(&file);
    return status;
}

/* The text, from what the files have now. */
static orr_status describe(const char *folder, int64_t step, orr_output *out, orr_error *err)
{
    orr_arena *arena = orr_arena_new(0, 0);
    name_list names = {0};
    orr_status status =
        arena != NULL ? list_files(folder, arena, &names, err) : orr_fail_memory(err);
    orr_output_printf(out, "orrery.manifest/1 step %" PRId64 "\n", step);
    for (size_t i = 0; i < names.n && status == ORR_OK; i++) {
        const char *path = orr_arena_printf(arena, "%s/%s", folder, names.at[i]);
        uint64_t bytes = 0, hash = 0;
        status = path != NULL ? hash_header(path, &bytes, &hash, err) : orr_fail_memory(err);
        orr_output_printf(out, "%s %" PRIu64 " %016" PRIx64 "\n", names.at[i], bytes, hash);
    }
    orr_array_done(&names);
    orr_arena_free(arena);
    return status;
}

orr_status orr_manifest_write(const char *folder, int64_t step, uint64_t *ret_hash, orr_error *err)
{
    char path[4096];
    orr_output *text, *out;
    size_t n;
    (void)snprintf(path, sizeof path, "%s/" ORR_MANIFEST_NAME, folder);
    ORR_TRY(orr_output_open_memory(&text, err));
    orr_status status = describe(folder, step, text, err);
    if (status == ORR_OK)
        status = orr_output_finish(text, err);
    if (status == ORR_OK)
        status = orr_output_open(path, &out, err);
    if (status == ORR_OK) {
        const void *bytes = orr_output_memory(text, &n);
        *ret_hash = XXH3_64bits(bytes, n);
        orr_output_write(out, bytes, n);
        status = orr_output_finish(out, err);
        orr_output_close(out);
    }
    orr_output_close(text);
    return status;
}

/* The first line of what was written that is not so now. */
static orr_status fail_difference(const char *path, const char *was, const char *is, orr_error *err)
{
    size_t n = strcspn(was, "\n");
    while (was[n] != '\0' && strncmp(was, is, n + 1) == 0) {
        was += n + 1;
        is += n + 1;
        n = strcspn(was, "\n");
    }
    const int name = (int)strcspn(n > 0 ? was : is, " \n");
    return orr_fail(err, ORR_PARSE,
                    "%s: %.*s is not there, is damaged, or is of another checkpoint", path,
                    name < 64 ? name : 64, n > 0 ? was : is);
}

static orr_status compare(const char *folder, const char *path, uint64_t hash, orr_arena *arena,
                          orr_output *now, orr_error *err)
{
    const char *was;
    size_t n, n_now;
    long long step = -1;
    ORR_TRY(orr_dataset_read_file(path, arena, &was, &n, err));
    if (XXH3_64bits(was, n) != hash || strlen(was) != n ||
        sscanf(was, "orrery.manifest/1 step %lld\n", &step) != 1)
        return orr_fail(err, ORR_PARSE, "%s is damaged, or is of another checkpoint", path);
    ORR_TRY(describe(folder, step, now, err));
    orr_output_write(now, "", 1);
    ORR_TRY(orr_output_finish(now, err));
    const char *is = orr_output_memory(now, &n_now);
    return strcmp(was, is) == 0 ? ORR_OK : fail_difference(path, was, is, err);
}

orr_status orr_manifest_check(const char *folder, uint64_t hash, orr_error *err)
{
    char path[4096];
    orr_output *now = NULL;
    orr_arena *arena = orr_arena_new(0, 0);
    (void)snprintf(path, sizeof path, "%s/" ORR_MANIFEST_NAME, folder);
    orr_status status = arena != NULL ? orr_output_open_memory(&now, err) : orr_fail_memory(err);
    if (status == ORR_OK)
        status = compare(folder, path, hash, arena, now, err);
    orr_output_close(now);
    orr_arena_free(arena);
    return status;
}
