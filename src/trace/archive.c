/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/archive.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"

static orr_status read_member(void *ctx, void *to, size_t room, size_t *ret_n, orr_error *err)
{
    return orr_archive_read(ctx, to, room, ret_n, err);
}

orr_status orr_input_open_member(orr_archive *archive, const orr_archive_member *member,
                                 orr_input *ret, orr_error *err)
{
    if (member->encrypted)
        return orr_fail(err, ORR_UNSUPPORTED, "it is encrypted");
    ret->archive = archive;
    ret->source = (orr_stream_source){.ctx = archive, .read = read_member, .bytes = member->bytes};
    return orr_stream_open_source(&ret->source, &ret->stream, err);
}

void orr_input_close(orr_input *input)
{
    orr_stream_close(input->stream);
    orr_archive_close(input->archive);
    *input = (orr_input){.stream = NULL};
}

static orr_status open_named(orr_archive *archive, const char *name, orr_input *ret, orr_error *err)
{
    orr_archive_member member;
    bool end = false;
    for (;;) {
        ORR_TRY(orr_archive_next(archive, &member, &end, err));
        if (end)
            return orr_fail(err, ORR_NOT_FOUND, "the archive has no such member");
        if (member.regular && strcmp(member.name, name) == 0)
            return orr_input_open_member(archive, &member, ret, err);
    }
}

/* Length of the part of the path that is a file; 0: none is. */
static size_t file_part(char *path)
{
    struct stat st;
    size_t n = strlen(path);
    while (n > 0) {
        while (n > 0 && path[n - 1] != '/')
            n--;
        if (n <= 1)
            return 0;
        path[n - 1] = '\0';
        const bool is_file = stat(path, &st) == 0 && S_ISREG(st.st_mode);
        path[n - 1] = '/';
        if (is_file)
            return n - 1;
        n--;
    }
    return 0;
}

orr_status orr_input_open(const char *path, orr_input *ret, orr_error *err)
{
    struct stat st;
    *ret = (orr_input){.stream = NULL};
    if (strcmp(path, "-") == 0 || stat(path, &st) == 0 || errno != ENOTDIR)
        return orr_stream_open(path, &ret->stream, err);
    const size_t len = strlen(path);
    char *copy = orr_malloc(len + 1);
    if (copy == NULL)
        return orr_fail_memory(err);
    memcpy(copy, path, len + 1);
    const size_t n = file_part(copy);
    orr_archive *archive = NULL;
    orr_status status;
    if (n == 0) {
        status = orr_fail(err, ORR_IO, "cannot open: %s", strerror(ENOTDIR));
    } else {
        copy[n] = '\0';
        status = orr_archive_open(copy, &archive, err);
        if (status == ORR_OK)
            status = open_named(archive, path + n + 1, ret, err);
        if (status != ORR_OK && ret->archive == NULL)
            orr_archive_close(archive);
        if (status != ORR_OK)
            orr_input_close(ret);
    }
    orr_free(copy);
    return status;
}
