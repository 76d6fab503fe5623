/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/dataset.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"

/* Plain text, packed: samples have no padding. */

typedef struct packed {
    orr_array(int32_t) tokens;
} packed;

typedef struct names {
    orr_array(const char *) at;
} names;

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static orr_status add_file(const char *folder, const char *name, orr_arena *arena, names *ret,
                           orr_error *err)
{
    struct stat about;
    const char *path = orr_arena_printf(arena, "%s/%s", folder, name);
    if (path == NULL)
        return orr_fail_memory(err);
    if (name[0] == '.' || stat(path, &about) != 0 || !S_ISREG(about.st_mode))
        return ORR_OK;
    return orr_array_push(&ret->at, path) ? ORR_OK : orr_fail_memory(err);
}

/* The files of a folder, without subfolders and hidden files. */
static orr_status list(const char *path, orr_arena *arena, names *ret, orr_error *err)
{
    struct stat about;
    if (stat(path, &about) != 0)
        return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    if (!S_ISDIR(about.st_mode))
        return orr_array_push(&ret->at, path) ? ORR_OK : orr_fail_memory(err);
    DIR *folder = opendir(path);
    if (folder == NULL)
        return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    orr_status status = ORR_OK;
    for (struct dirent *entry; status == ORR_OK && (entry = readdir(folder)) != NULL;)
        status = add_file(path, entry->d_name, arena, ret, err);
    closedir(folder);
    if (ret->at.n > 0)
        qsort(ret->at.at, ret->at.n, sizeof *ret->at.at, by_name);
    return status;
}

/* Text has no zero bytes: images and archives beside it are skipped. */
static bool is_text(const char *text, size_t len)
{
    return memchr(text, '\0', len) == NULL;
}

static orr_status add_document(const orr_dataset_options *options, const char *path, packed *ret,
                               orr_error *err)
{
    const int32_t end = orr_dataset_end_token(options);
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_status status = ORR_OK;
    const char *text;
    size_t len, n;
    int32_t *tokens;
    if (scratch == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, orr_dataset_read_file(path, scratch, &text, &len, err));
    if (!is_text(text, len))
        goto out;
    ORR_TRY_OUT(status, orr_dataset_tokenize(options, text, len, scratch, &tokens, &n, err));
    if (!orr_array_reserve(&ret->tokens, n + 1)) {
        status = orr_fail_memory(err);
        goto out;
    }
    if (n > 0)
        memcpy(ret->tokens.at + ret->tokens.n, tokens, n * sizeof *tokens);
    ret->tokens.n += n;
    if (end >= 0)
        ret->tokens.at[ret->tokens.n++] = end;
out:
    orr_arena_free(scratch);
    return status;
}

static void fill(const orr_dataset *self, uint64_t index, const orr_dataset_sample *ret)
{
    const int32_t *tokens = (const int32_t *)self->ctx + index * (uint64_t)self->tokens;
    for (int64_t i = 0; i < self->tokens; i++) {
        ret->tokens[i] = tokens[i];
        ret->targets[i] = tokens[i + 1];
        ret->weights[i] = 1;
    }
}

static int64_t counted(const orr_dataset *self, uint64_t index)
{
    (void)index;
    return self->tokens;
}

static orr_status cut(const orr_dataset_options *options, const packed *p, orr_dataset **ret,
                      orr_error *err)
{
    const size_t window = (size_t)options->tokens;
    orr_dataset *b;
    if (p->tokens.n < window + 1)
        return orr_fail(err, ORR_INVALID, "%s: %zu tokens, and a sample takes %zu", options->path,
                        p->tokens.n, window + 1);
    ORR_TRY(orr_dataset_new("text", options, &b, err));
    int32_t *tokens = orr_arena_array(b->arena, int32_t, p->tokens.n);
    if (tokens == NULL) {
        orr_dataset_free(b);
        return orr_fail_memory(err);
    }
    memcpy(tokens, p->tokens.at, p->tokens.n * sizeof *tokens);
    b->ctx = tokens;
    b->n = (p->tokens.n - 1) / window;
    b->fill = fill;
    b->counted = counted;
    *ret = b;
    return ORR_OK;
}

orr_status orr_dataset_text(const orr_dataset_options *options, orr_dataset **ret, orr_error *err)
{
    orr_arena *scratch = orr_arena_new(0, 0);
    orr_status status = ORR_OK;
    names files = {0};
    packed p = {0};
    if (scratch == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, list(options->path, scratch, &files, err));
    for (size_t i = 0; i < files.at.n; i++)
        ORR_TRY_OUT(status, add_document(options, files.at.at[i], &p, err));
    status = cut(options, &p, ret, err);
out:
    orr_array_done(&files.at);
    orr_array_done(&p.tokens);
    orr_arena_free(scratch);
    return status;
}
