/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/find_files.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <orrery/trace.h>

#include "base/array.h"

/* Resolves paths, directories and globs to files of a known format. */

typedef struct found_file {
    const char *path;
    dev_t device;
    ino_t inode;
    size_t place; /* in the order in which they were found */
} found_file;

typedef struct search {
    orr_arena *arena;
    orr_array(found_file) files;
} search;

typedef orr_array(char *) names;

uint64_t orr_file_bytes(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

static orr_status add_file(search *s, const char *path, const struct stat *st, orr_error *err)
{
    const char *copy = orr_arena_strndup(s->arena, path, strlen(path));
    if (copy == NULL)
        return orr_fail_memory(err);
    const found_file file = {copy, st->st_dev, st->st_ino, s->files.n};
    return orr_array_push(&s->files, file) ? ORR_OK : orr_fail_memory(err);
}

/* A file of a directory counts only if its format is known. */
static orr_status add_if_known(search *s, const char *path, orr_error *err)
{
    struct stat st;
    orr_format format = ORR_FORMAT_UNKNOWN;
    orr_error ignored;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return ORR_OK;
    const orr_status status = orr_trace_detect(path, &format, &ignored);
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(err);
    return status == ORR_OK && format != ORR_FORMAT_UNKNOWN ? add_file(s, path, &st, err) : ORR_OK;
}

static int by_name(const void *a, const void *b)
{
    return strverscmp(*(char *const *)a, *(char *const *)b);
}

/* Full names without hidden files, in the arena. */
static orr_status list_directory(search *s, const char *path, DIR *directory, names *ret,
                                 orr_error *err)
{
    const char *slash = path[strlen(path) - 1] == '/' ? "" : "/";
    errno = 0;
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL; errno = 0) {
        if (entry->d_name[0] == '.')
            continue;
        char *name = orr_arena_printf(s->arena, "%s%s%s", path, slash, entry->d_name);
        if (name == NULL || !orr_array_push(ret, name))
            return orr_fail_memory(err);
    }
    return errno == 0 ? ORR_OK : orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
}

static orr_status add_directory(search *s, const char *path, orr_error *err)
{
    names found = {0};
    DIR *directory = opendir(path);
    if (directory == NULL)
        return orr_fail(err, errno == ENOMEM ? ORR_NO_MEMORY : ORR_IO, "%s: %s", path,
                        strerror(errno));
    orr_status status = list_directory(s, path, directory, &found, err);
    closedir(directory);
    if (status == ORR_OK && found.n > 0)
        qsort(found.at, found.n, sizeof *found.at, by_name);
    for (size_t i = 0; i < found.n && status == ORR_OK; i++)
        status = add_if_known(s, found.at[i], err);
    orr_array_done(&found);
    return status;
}

/* Adds an existing path. */
static orr_status add_path(search *s, const char *path, const struct stat *st, orr_error *err)
{
    return S_ISDIR(st->st_mode) ? add_directory(s, path, err) : add_file(s, path, st, err);
}

static orr_status add_glob(search *s, const char *pattern, orr_error *err)
{
    glob_t matches = {0};
    orr_status status = ORR_OK;
    const int rc = glob(pattern, GLOB_NOSORT, NULL, &matches);
    if (rc == GLOB_NOSPACE)
        status = orr_fail_memory(err);
    else if (rc != 0 || matches.gl_pathc == 0)
        status = orr_fail(err, ORR_NOT_FOUND, "%s: no such file or directory", pattern);
    else
        qsort(matches.gl_pathv, matches.gl_pathc, sizeof *matches.gl_pathv, by_name);
    for (size_t i = 0; i < matches.gl_pathc && status == ORR_OK; i++) {
        struct stat st;
        if (stat(matches.gl_pathv[i], &st) == 0)
            status = add_path(s, matches.gl_pathv[i], &st, err);
    }
    globfree(&matches);
    return status;
}

static orr_status add_any(search *s, const char *path, orr_error *err)
{
    struct stat st = {0};
    if (strcmp(path, "-") == 0)
        return add_file(s, path, &st, err);
    if (stat(path, &st) == 0)
        return add_path(s, path, &st, err);
    if (errno != ENOENT && errno != ENOTDIR)
        return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    return add_glob(s, path, err);
}

static int by_file(const void *a, const void *b)
{
    const found_file *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->inode != y->inode)
        return x->inode < y->inode ? -1 : 1;
    return x->place < y->place ? -1 : 1;
}

static int by_place(const void *a, const void *b)
{
    const found_file *x = a, *y = b;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* Removes duplicates: "traces traces/rank0.json" names one file twice. */
static void drop_repeated(search *s)
{
    size_t kept = 0;
    if (s->files.n < 2)
        return;
    qsort(s->files.at, s->files.n, sizeof *s->files.at, by_file);
    for (size_t i = 0; i < s->files.n; i++) {
        const found_file *file = &s->files.at[i];
        const bool same = kept > 0 && s->files.at[kept - 1].device == file->device &&
                          s->files.at[kept - 1].inode == file->inode;
        if (!same)
            s->files.at[kept++] = *file;
    }
    s->files.n = kept;
    qsort(s->files.at, s->files.n, sizeof *s->files.at, by_place);
}

orr_status orr_trace_find(const char *const *paths, size_t n_paths, orr_arena *arena,
                          const char *const **ret_files, size_t *ret_n_files, orr_error *err)
{
    search s = {.arena = arena};
    orr_status status = ORR_OK;
    const char **files = NULL;
    for (size_t i = 0; i < n_paths; i++)
        ORR_TRY_OUT(status, add_any(&s, paths[i], err));
    drop_repeated(&s);
    files = orr_arena_array(arena, const char *, s.files.n);
    if (files == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (size_t i = 0; i < s.files.n; i++)
        files[i] = s.files.at[i].path;
    *ret_files = files;
    *ret_n_files = s.files.n;
out:
    orr_array_done(&s.files);
    return status;
}
