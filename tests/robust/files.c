/* SPDX-License-Identifier: Apache-2.0 */
#include "files.h"

#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/stream/stream.h"

static data_files *found; /* nftw() passes nothing through */
static const char *below;

static bool ends_in(const char *text, const char *ending)
{
    const size_t n = strlen(text), m = strlen(ending);
    return n >= m && strcmp(text + n - m, ending) == 0;
}

static uint8_t *read_whole(const char *path, size_t *ret_len)
{
    FILE *file = fopen(path, "rb");
    uint8_t *bytes = NULL;

    if (!file)
        return NULL;
    fseek(file, 0, SEEK_END);
    const long len = ftell(file);
    rewind(file);
    bytes = orr_malloc((size_t)len + 1);
    if (bytes && fread(bytes, 1, (size_t)len, file) == (size_t)len) {
        *ret_len = (size_t)len;
    } else {
        orr_free(bytes);
        bytes = NULL;
    }
    fclose(file);
    return bytes;
}

/* Through the stream of io/, which is not what is tested here: unbroken files read anyway. */
static uint8_t *decompress(const uint8_t *packed, size_t len, size_t *ret_len)
{
    orr_stream *stream;
    orr_error err;
    bool end = false;
    uint8_t *plain = NULL;

    if (orr_stream_open_memory(packed, len, &stream, &err) != ORR_OK)
        return NULL;
    while (!end && orr_stream_fill(stream, &end, &err) == ORR_OK) {
    }
    if (end) {
        const orr_window window = orr_stream_window(stream);
        plain = orr_malloc(window.n + 1);
        if (plain)
            memcpy(plain, window.bytes, window.n);
        *ret_len = window.n;
    }
    orr_stream_close(stream);
    return plain;
}

static data_file *new_file(const char *name)
{
    if (found->n == found->room) {
        const size_t room = found->room ? 2 * found->room : 64;
        data_file *at = orr_realloc(found->at, room * sizeof *at);
        if (!at)
            return NULL;
        found->at = at;
        found->room = room;
    }
    data_file *file = &found->at[found->n++];
    *file = (data_file){0};
    snprintf(file->name, sizeof file->name, "%s", name);
    return file;
}

/* Members of a tar that are recordings. */
static void add_members(const char *archive, const uint8_t *tar, size_t len)
{
    for (size_t at = 0; at + 512 <= len && tar[at];) {
        char member[101] = {0}, name[512], octal[13] = {0};
        memcpy(member, tar + at, 100);
        memcpy(octal, tar + at + 124, 12);
        const size_t size = strtoul(octal, NULL, 8);
        const bool regular = tar[at + 156] == '0' || tar[at + 156] == '\0';
        at += 512;
        if (size > len - at)
            return;
        const char *slash = strrchr(member, '/');
        const bool hidden = (slash ? slash[1] : member[0]) == '.';
        if (regular && size && !hidden && (ends_in(member, ".et") || ends_in(member, ".json"))) {
            snprintf(name, sizeof name, "%s:%s", archive, member);
            data_file *file = new_file(name);
            if (!file)
                return;
            file->plain = orr_malloc(size);
            if (file->plain)
                memcpy(file->plain, tar + at, size);
            file->plain_len = size;
        }
        at += (size + 511) / 512 * 512;
    }
}

static int visit(const char *path, const struct stat *about, int type, struct FTW *where)
{
    const char *name = path + strlen(below) + 1;
    size_t packed_len = 0, plain_len = 0;

    (void)about;
    (void)where;
    if (type != FTW_F || strncmp(name, "expected", 8) == 0 ||
        !(ends_in(path, ".et") || ends_in(path, ".json") || ends_in(path, ".gz") ||
          ends_in(path, ".tgz")))
        return 0;
    uint8_t *packed = read_whole(path, &packed_len);
    uint8_t *plain = packed ? decompress(packed, packed_len, &plain_len) : NULL;
    if (plain && (ends_in(path, ".tar.gz") || ends_in(path, ".tgz"))) {
        add_members(name, plain, plain_len);
    } else if (plain) {
        data_file *file = new_file(name);
        if (file) {
            const bool compressed = ends_in(path, ".gz");
            *file = (data_file){.packed = compressed ? packed : NULL,
                                .packed_len = compressed ? packed_len : 0,
                                .plain = plain,
                                .plain_len = plain_len};
            snprintf(file->name, sizeof file->name, "%s", name);
            packed = compressed ? NULL : packed;
            plain = NULL;
        }
    }
    orr_free(plain);
    orr_free(packed);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const data_file *)a)->name, ((const data_file *)b)->name);
}

void data_files_find(data_files *files)
{
    static const struct {
        const char *variable, *folder;
    } places[] = {{"ORRERY_SOURCE", "examples/traces"}, {"ORRERY_SHARED", "data/traces"}};

    *files = (data_files){0};
    found = files;
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        char root[4096];
        const char *variable = getenv(places[i].variable);
        if (!variable)
            continue;
        snprintf(root, sizeof root, "%s/%s", variable, places[i].folder);
        below = root;
        nftw(root, visit, 16, FTW_PHYS);
    }
    if (files->n)
        qsort(files->at, files->n, sizeof *files->at, by_name);
}

void data_files_done(data_files *files)
{
    for (size_t i = 0; i < files->n; i++) {
        orr_free(files->at[i].packed);
        orr_free(files->at[i].plain);
    }
    orr_free(files->at);
}
