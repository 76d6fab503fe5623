/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/find_files.h"

#include <dirent.h>
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "base/printable.h"
#include "trace/archive.h"
#include "trace/common/reader.h"

/* Resolves paths, directories, archives and globs to recordings of a known format. */

typedef struct search {
    orr_arena *arena;
    orr_array(orr_found_file) files;
} search;

typedef orr_array(char *) names;

static orr_found_file found_file(const char *path, const struct stat *st)
{
    return (orr_found_file){.path = path,
                            .bytes = S_ISREG(st->st_mode) ? (uint64_t)st->st_size : 0,
                            .device = st->st_dev,
                            .inode = st->st_ino};
}

static orr_status add_file(search *s, orr_found_file file, orr_error *err)
{
    file.path = orr_arena_strndup(s->arena, file.path, strlen(file.path));
    file.order = s->files.n;
    if (file.path == NULL)
        return orr_fail_memory(err);
    return orr_array_push(&s->files, file) ? ORR_OK : orr_fail_memory(err);
}

/* Is it named as recordings are? */
static bool is_named_as_recording(const char *path)
{
    static const char *const endings[] = {".json",   ".json.gz", ".json.zst",  ".et",
                                          ".et.gz",  ".sqlite",  ".xplane.pb", ".xplane.pb.gz",
                                          ".pickle", ".pkl",     "_results.db"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        const size_t len = strlen(path), n = strlen(endings[i]);
        if (len > n && strcasecmp(path + len - n, endings[i]) == 0)
            return true;
    }
    return false;
}

/* What the beginning of a file, or of a member of an archive, shows. */
typedef struct first_look {
    orr_format format;
    bool empty, archive;
    bool no_json; /* it begins with neither a brace nor a bracket */
} first_look;

static orr_status look_at(orr_stream *stream, first_look *ret, orr_error *err)
{
    size_t i = 0;
    orr_stream_set_tolerant(stream, true);
    ORR_TRY(orr_detect_stream(stream, &ret->format, err));
    const orr_window w = orr_stream_window(stream);
    while (i < w.n && memchr(" \t\r\n\xef\xbb\xbf", w.bytes[i], 7) != NULL)
        i++;
    ret->empty = w.n == 0;
    ret->archive = orr_archive_is(w.bytes, w.n);
    ret->no_json = i == w.n || (w.bytes[i] != '{' && w.bytes[i] != '[');
    return ORR_OK;
}

/* A file of a directory or archive counts if its format is known. One that is named as a recording
 * and is empty or cannot be read is an error: a rank would be missing without a word. `status` and
 * `why` are of the look at it. */
static orr_status add_if_known(search *s, orr_found_file file, const first_look *look,
                               orr_status status, const orr_error *why, orr_error *err)
{
    const size_t len = strlen(file.path);
    const bool plain = len > 5 && strcasecmp(file.path + len - 5, ".json") == 0;
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(err);
    if (status == ORR_OK && look->format != ORR_FORMAT_UNKNOWN)
        return add_file(s, file, err);
    if (!is_named_as_recording(file.path) ||
        (status == ORR_OK && !look->empty && !(plain && look->no_json)))
        return ORR_OK;
    const char *go_on = file.archive != NULL ? "unpack the archive" : "move it away";
    if (status == ORR_OK && look->empty)
        return orr_fail(err, ORR_PARSE, "%s is empty: %s to go on without it", file.path, go_on);
    return orr_fail(err, status == ORR_OK ? ORR_PARSE : status,
                    "%s cannot be read (%s): %s to go on without it", file.path,
                    status == ORR_OK ? "it is no JSON" : why->text, go_on);
}

static orr_status add_of_directory(search *s, const char *path, orr_error *err)
{
    struct stat st;
    orr_error why = {0};
    orr_stream *stream = NULL;
    first_look look = {.format = ORR_FORMAT_UNKNOWN};
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode))
        return ORR_OK;
    orr_status status = orr_stream_open(path, &stream, &why);
    if (status == ORR_OK)
        status = look_at(stream, &look, &why);
    orr_stream_close(stream);
    if (status != ORR_OK)
        orr_error_prefix(&why, path);
    return add_if_known(s, found_file(path, &st), &look, status, &why, err);
}

/* --- archives -------------------------------------------------------------------------------- */

/* Names of an archive that start so, or whose last part does, are no user's files. */
static bool is_hidden(const char *name)
{
    const char *slash = strrchr(name, '/');
    return name[0] == '.' || (slash != NULL && slash[1] == '.') ||
           strncmp(name, "__MACOSX/", 9) == 0;
}

static orr_status add_member(search *s, orr_archive *archive, const orr_found_file *whole,
                             const orr_archive_member *member, orr_error *err)
{
    orr_input input = {.stream = NULL};
    orr_error why = {0};
    first_look look = {.format = ORR_FORMAT_UNKNOWN};
    orr_found_file file = *whole;
    file.path = orr_arena_printf(s->arena, "%s/%s", whole->archive, member->name);
    file.place = member->place;
    file.bytes = member->bytes;
    file.sequential = orr_archive_is_sequential(archive);
    if (file.path == NULL)
        return orr_fail_memory(err);
    if (!member->regular)
        return is_named_as_recording(file.path)
                   ? orr_fail(err, ORR_INVALID, "%s is a link, which is not followed", file.path)
                   : ORR_OK;
    orr_status status = orr_input_open_member(archive, member, &input, &why);
    if (status == ORR_OK)
        status = look_at(input.stream, &look, &why);
    input.archive = NULL;
    orr_input_close(&input);
    if (status == ORR_OK && look.archive)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "%s is an archive in an archive, which is not read: unpack it", file.path);
    if (status == ORR_LIMIT)
        return orr_fail(err, ORR_LIMIT, "%s: %s", file.path, why.text);
    return add_if_known(s, file, &look, status, &why, err);
}

static orr_status add_members(search *s, orr_archive *archive, const orr_found_file *whole,
                              orr_error *err)
{
    orr_archive_member member;
    for (bool end = false;;) {
        const orr_status status = orr_archive_next(archive, &member, &end, err);
        if (status != ORR_OK)
            orr_error_prefix(err, whole->archive);
        if (status != ORR_OK || end)
            return status;
        const char *fault = orr_archive_name_fault(member.name);
        if (fault != NULL) {
            char name[128];
            (void)snprintf(name, sizeof name, "%s", member.name);
            orr_text_make_printable(name);
            return orr_fail(err, ORR_INVALID, "%s: member %u (\"%s\") is refused: %s",
                            whole->archive, (unsigned)member.place, name, fault);
        }
        if (!is_hidden(member.name) && member.name[strlen(member.name) - 1] != '/')
            ORR_TRY(add_member(s, archive, whole, &member, err));
    }
}

static int by_path(const void *a, const void *b)
{
    const orr_found_file *x = a, *y = b;
    const int order = strverscmp(x->path, y->path);
    return order != 0 ? order : x->place < y->place ? -1 : x->place > y->place;
}

/* Files from `first` on are of one archive. */
static orr_status sort_members(search *s, size_t first, orr_error *err)
{
    orr_found_file *files = s->files.at;
    if (s->files.n - first > 1)
        qsort(files + first, s->files.n - first, sizeof *files, by_path);
    for (size_t i = first; i < s->files.n; i++) {
        files[i].order = i;
        if (i > first && strcmp(files[i].path, files[i - 1].path) == 0)
            return orr_fail(err, ORR_INVALID, "%s stands in the archive twice", files[i].path);
    }
    return ORR_OK;
}

static orr_status add_archive(search *s, const char *path, const struct stat *st, orr_error *err)
{
    const size_t first = s->files.n;
    orr_found_file whole = found_file(path, st);
    orr_archive *archive = NULL;
    whole.archive = orr_arena_strndup(s->arena, path, strlen(path));
    if (whole.archive == NULL)
        return orr_fail_memory(err);
    orr_status status = orr_archive_open(path, &archive, err);
    if (status != ORR_OK)
        orr_error_prefix(err, path);
    else
        status = add_members(s, archive, &whole, err);
    orr_archive_close(archive);
    if (status == ORR_OK && s->files.n == first)
        return orr_fail(err, ORR_NOT_FOUND, "%s: the archive has no recording", path);
    return status == ORR_OK ? sort_members(s, first, err) : status;
}

/* What cannot be opened or unpacked is told by who reads it. */
static orr_status is_archive(const char *path, bool *ret, orr_error *err)
{
    enum { ENOUGH = 512 };
    orr_stream *stream = NULL;
    orr_status status = orr_stream_open(path, &stream, err);
    bool end = false;
    if (status == ORR_OK)
        orr_stream_set_tolerant(stream, true);
    while (status == ORR_OK && !end && orr_stream_window(stream).n < ENOUGH)
        status = orr_stream_fill(stream, &end, err);
    if (status == ORR_OK)
        *ret = orr_archive_is(orr_stream_window(stream).bytes, orr_stream_window(stream).n);
    orr_stream_close(stream);
    return status == ORR_NO_MEMORY ? status : ORR_OK;
}

/* --- directories ----------------------------------------------------------------------------- */

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
        status = add_of_directory(s, found.at[i], err);
    orr_array_done(&found);
    return status;
}

/* Adds an existing path. */
static orr_status add_path(search *s, const char *path, const struct stat *st, orr_error *err)
{
    bool archive = false;
    if (S_ISDIR(st->st_mode))
        return add_directory(s, path, err);
    if (S_ISREG(st->st_mode))
        ORR_TRY(is_archive(path, &archive, err));
    return archive ? add_archive(s, path, st, err) : add_file(s, found_file(path, st), err);
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

/* A path that goes on behind a file names a member of an archive. */
static orr_status add_one_member(search *s, const char *path, orr_error *err)
{
    orr_input input;
    const orr_status status = orr_input_open(path, &input, err);
    const orr_found_file file = {.path = path, .bytes = input.source.bytes};
    orr_input_close(&input);
    if (status != ORR_OK)
        orr_error_prefix(err, path);
    return status == ORR_OK ? add_file(s, file, err) : status;
}

static orr_status add_any(search *s, const char *path, orr_error *err)
{
    struct stat st = {0};
    if (strcmp(path, "-") == 0)
        return add_file(s, found_file(path, &st), err);
    if (stat(path, &st) == 0)
        return add_path(s, path, &st, err);
    if (errno == ENOTDIR && strpbrk(path, "*?[") == NULL)
        return add_one_member(s, path, err);
    if (errno != ENOENT && errno != ENOTDIR)
        return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    return add_glob(s, path, err);
}

static int by_file(const void *a, const void *b)
{
    const orr_found_file *x = a, *y = b;
    if (x->device != y->device)
        return x->device < y->device ? -1 : 1;
    if (x->inode != y->inode)
        return x->inode < y->inode ? -1 : 1;
    if (x->place != y->place)
        return x->place < y->place ? -1 : 1;
    return x->order < y->order ? -1 : 1;
}

static int by_order(const void *a, const void *b)
{
    const orr_found_file *x = a, *y = b;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* Whether two neighbours by file are one; members named one by one have no file to tell by. */
static bool is_same(const orr_found_file *a, const orr_found_file *b)
{
    return a->inode != 0 ? a->device == b->device && a->inode == b->inode && a->place == b->place
                         : strcmp(a->path, b->path) == 0;
}

/* Removes duplicates: "traces traces/rank0.json" names one file twice. */
static void drop_repeated(search *s)
{
    size_t kept = 0;
    if (s->files.n < 2)
        return;
    qsort(s->files.at, s->files.n, sizeof *s->files.at, by_file);
    for (size_t i = 0; i < s->files.n; i++) {
        const orr_found_file *file = &s->files.at[i];
        if (kept == 0 || !is_same(&s->files.at[kept - 1], file))
            s->files.at[kept++] = *file;
    }
    s->files.n = kept;
    qsort(s->files.at, s->files.n, sizeof *s->files.at, by_order);
}

orr_status orr_find_files(const char *const *paths, size_t n_paths, orr_arena *arena,
                          const orr_found_file **ret_files, size_t *ret_n_files, orr_error *err)
{
    search s = {.arena = arena};
    orr_status status = ORR_OK;
    orr_found_file *files = NULL;
    for (size_t i = 0; i < n_paths; i++)
        ORR_TRY_OUT(status, add_any(&s, paths[i], err));
    drop_repeated(&s);
    files = orr_arena_array(arena, orr_found_file, s.files.n);
    if (files == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    if (s.files.n > 0)
        memcpy(files, s.files.at, s.files.n * sizeof *files);
    *ret_files = files;
    *ret_n_files = s.files.n;
out:
    orr_array_done(&s.files);
    return status;
}

orr_status orr_trace_find(const char *const *paths, size_t n_paths, orr_arena *arena,
                          const char *const **ret_files, size_t *ret_n_files, orr_error *err)
{
    const orr_found_file *found;
    size_t n;
    ORR_TRY(orr_find_files(paths, n_paths, arena, &found, &n, err));
    const char **files = orr_arena_array(arena, const char *, n);
    if (files == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++)
        files[i] = found[i].path;
    *ret_files = files;
    *ret_n_files = n;
    return ORR_OK;
}
