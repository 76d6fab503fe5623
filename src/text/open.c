/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "io/stream/stream.h"
#include "text/tokenizer.h"

enum { PATH_ROOM = 4096, BYTE_TOKENS = 256 };
static const size_t FILE_BYTES_MAX = (size_t)256 << 20;

/* A whole file in memory. */
typedef struct file {
    orr_stream *stream;
    orr_text text;
} file;

static orr_status read_file(const char *path, file *ret, orr_error *err)
{
    ORR_TRY(orr_stream_open(path, &ret->stream, err));
    orr_stream_set_limit(ret->stream, FILE_BYTES_MAX);
    for (bool end = false; !end;)
        ORR_TRY(orr_stream_fill(ret->stream, &end, err));
    const orr_window window = orr_stream_window(ret->stream);
    ret->text = (orr_text){(const char *)window.bytes, window.n};
    return ORR_OK;
}

static bool is_there(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

/* tokenizer_config.json and generation_config.json, if they are in the folder. */
static orr_status read_beside(const char *folder, const char *name, file *ret, orr_error *err)
{
    char path[PATH_ROOM];
    if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, name) >= sizeof path ||
        !is_there(path))
        return ORR_OK;
    const orr_status status = read_file(path, ret, err);
    if (status != ORR_OK)
        orr_error_prefix(err, path);
    return status;
}

static orr_status read_json(const char *folder, orr_text json, orr_tokenizer **ret, orr_error *err)
{
    file config = {0}, generation = {0};
    orr_status status;
    ORR_TRY_OUT(status, read_beside(folder, "tokenizer_config.json", &config, err));
    ORR_TRY_OUT(status, read_beside(folder, "generation_config.json", &generation, err));
    status = orr_tokenizer_json_read(json, config.text, generation.text, ret, err);
out:
    orr_stream_close(config.stream);
    orr_stream_close(generation.stream);
    return status;
}

/* Detects the format: tokenizer.json is an object; SentencePiece's protobuf starts with the tag of
 * its first piece, byte 10; lines of tiktoken are printable from the first byte on. */
static orr_status read_any(const char *folder, orr_text text, orr_tokenizer **ret, orr_error *err)
{
    if (text.n == 0)
        return orr_fail(err, ORR_PARSE, "the file is empty");
    size_t i = 0;
    while (i < text.n && strchr(" \t\r\n", text.at[i]) != NULL && text.at[i] != '\0')
        i++;
    if (i < text.n && text.at[i] == '{')
        return read_json(folder, text, ret, err);
    if (text.at[0] == '\n')
        return orr_sentencepiece_read(text.at, text.n, ret, err);
    return orr_tiktoken_read(text.at, text.n, ORR_PRE_TOKENIZER_NONE, ret, err);
}

static orr_status open_file(const char *folder, const char *path, orr_tokenizer **ret,
                            orr_error *err)
{
    file f = {0};
    orr_status status = read_file(path, &f, err);
    if (status == ORR_OK)
        status = read_any(folder, f.text, ret, err);
    orr_stream_close(f.stream);
    if (status != ORR_OK)
        orr_error_prefix(err, path);
    return status;
}

static orr_status open_folder(const char *folder, orr_tokenizer **ret, orr_error *err)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer.model",
                                        "original/tokenizer.model"};
    char path[PATH_ROOM];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if ((size_t)snprintf(path, sizeof path, "%s/%s", folder, names[i]) < sizeof path &&
            is_there(path))
            return open_file(folder, path, ret, err);
    return orr_fail(err, ORR_NOT_FOUND, "%s has neither tokenizer.json nor tokenizer.model",
                    folder);
}

/* The byte tokenizer: a token per byte, and one for the end of a text. */
static orr_status make_bytes(orr_tokenizer **ret, orr_error *err)
{
    static const char end[] = "<|end_of_text|>";
    char bytes[BYTE_TOKENS];
    orr_piece pieces[BYTE_TOKENS + 1];
    for (int i = 0; i < BYTE_TOKENS; i++) {
        bytes[i] = (char)i;
        pieces[i] = (orr_piece){.text = {&bytes[i], 1}, .kind = ORR_PIECE_NORMAL};
    }
    pieces[BYTE_TOKENS] = (orr_piece){.text = {end, sizeof end - 1}, .kind = ORR_PIECE_CONTROL};
    const orr_tokenizer_spec parts = {.kind = ORR_TOKENIZER_BYTES,
                                      .algorithm = ORR_BPE_NO_MERGES,
                                      .pieces = pieces,
                                      .n = BYTE_TOKENS + 1,
                                      .unknown = -1,
                                      .bos = -1,
                                      .eos = BYTE_TOKENS,
                                      .pad = -1};
    return orr_tokenizer_build(&parts, ret, err);
}

orr_status orr_tokenizer_open(const char *path, orr_tokenizer **ret, orr_error *err)
{
    struct stat about;
    if (path == NULL)
        return make_bytes(ret, err);
    if (stat(path, &about) != 0)
        return orr_fail(err, ORR_IO, "%s: %s", path, strerror(errno));
    if (S_ISDIR(about.st_mode))
        return open_folder(path, ret, err);
    char folder[PATH_ROOM];
    const char *slash = strrchr(path, '/');
    const size_t n = slash == NULL ? 1 : (size_t)(slash - path) + 1;
    if ((size_t)snprintf(folder, sizeof folder, "%.*s", (int)n, slash == NULL ? "." : path) >=
        sizeof folder)
        return orr_fail(err, ORR_INVALID, "%s: the path is too long", path);
    return open_file(folder, path, ret, err);
}
