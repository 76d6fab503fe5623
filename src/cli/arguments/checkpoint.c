/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/arguments/checkpoint.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* The folder that a file is in. */
static const char *folder_of(const char *path, orr_arena *arena)
{
    const char *slash = strrchr(path, '/');
    if (is_folder(path))
        return path;
    return slash == NULL ? "." : orr_arena_strndup(arena, path, (size_t)(slash - path + 1));
}

static orr_status open_tokenizer(orr_checkpoint_files *c, const char *path, const char *said,
                                 orr_arena *arena, orr_error *err)
{
    if (said != NULL)
        return orr_tokenizer_open(said, &c->tokenizer, err);
    if (c->weights->gguf && orr_weights_tokenizer(c->weights, &c->tokenizer, err) == ORR_OK)
        return ORR_OK;
    const char *folder = folder_of(path, arena);
    if (folder == NULL)
        return orr_fail_memory(err);
    const orr_status status = orr_tokenizer_open(folder, &c->tokenizer, err);
    return status == ORR_NOT_FOUND ? orr_tokenizer_open(NULL, &c->tokenizer, err) : status;
}

orr_status orr_checkpoint_files_open(const char *path, const char *tokenizer, orr_arena *arena,
                                     orr_checkpoint_files *ret, orr_error *err)
{
    *ret = (orr_checkpoint_files){0};
    ORR_TRY(orr_weights_open(path, &ret->weights, err));
    ORR_TRY(orr_model_of_weights(ret->weights, arena, &ret->model, err));
    ORR_TRY(open_tokenizer(ret, path, tokenizer, arena, err));
    ret->facts = orr_tokenizer_info_of(ret->tokenizer);
    return ORR_OK;
}

void orr_checkpoint_files_close(orr_checkpoint_files *checkpoint)
{
    orr_tokenizer_close(checkpoint->tokenizer);
    orr_weights_close(checkpoint->weights);
}

static orr_status check_writable(const char *option, const char *folder, orr_error *err)
{
    if (access(folder, F_OK) == 0 && !is_folder(folder))
        errno = ENOTDIR;
    else if (access(folder, W_OK | X_OK) == 0)
        return ORR_OK;
    return orr_fail(err, ORR_IO, "--%s: cannot write into %s: %s", option, folder, strerror(errno));
}

orr_status orr_check_output(const char *option, const char *path, bool folder, orr_arena *arena,
                            orr_error *err)
{
    if (path == NULL)
        return ORR_OK;
    if (folder && access(path, F_OK) == 0)
        return check_writable(option, path, err);
    if (!folder && is_folder(path))
        return orr_fail(err, ORR_IO, "--%s: %s is a folder", option, path);
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/')
        n--;
    while (n > 0 && path[n - 1] != '/')
        n--;
    const char *parent = n == 0 ? "." : orr_arena_strndup(arena, path, n);
    return parent == NULL ? orr_fail_memory(err) : check_writable(option, parent, err);
}

orr_row_format orr_row_format_parse(const char *name)
{
    int format = 0;
    while (format < ORR_ROW_FORMATS &&
           (name == NULL || strcmp(orr_row_format_name((orr_row_format)format), name) != 0))
        format++;
    return (orr_row_format)format;
}

orr_status orr_read_text(const char *path, orr_arena *arena, const char **ret, size_t *ret_len,
                         orr_error *err)
{
    const size_t most = (size_t)1 << 30;
    const bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "rb");
    orr_array(char) bytes = {0};
    orr_status status = ORR_OK;
    if (file == NULL)
        return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    for (char room[65536]; status == ORR_OK;) {
        const size_t n = fread(room, 1, sizeof room, file);
        if (n == 0)
            break;
        if (bytes.n + n > most)
            status = orr_fail(err, ORR_LIMIT, "%s: over 1 GiB of text", path);
        else if (!orr_array_reserve(&bytes, n))
            status = orr_fail_memory(err);
        else
            memcpy(bytes.at + bytes.n, room, n), bytes.n += n;
    }
    if (status == ORR_OK && ferror(file))
        status = orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    *ret_len = bytes.n;
    if (status == ORR_OK &&
        (*ret = orr_arena_strndup(arena, bytes.n > 0 ? bytes.at : "", bytes.n)) == NULL)
        status = orr_fail_memory(err);
    orr_array_done(&bytes);
    if (!standard)
        fclose(file);
    return status;
}
