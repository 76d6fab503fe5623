/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/path.h"
#include "io/json/writer.h"
#include "weights/write.h"

/* Tensors of 4-byte numbers come first, so that everything is aligned. All shards are written under
 * temporary names, then renamed. */
typedef struct writer {
    const orr_weight_source *source;
    const char *base; /* the path without its ending */
    orr_arena *arena;
    uint32_t *order;     /* shape (source->n): tensors shard by shard, wide numbers first */
    uint32_t *first;     /* shape (n_shards + 1): of `order` */
    orr_output **shards; /* shape (n_shards) */
    uint32_t n_shards;
    orr_error *err;
} writer;

static const char END[] = ".safetensors";

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

/* Distributes tensors in order over shards, as many as fit in each. */
static orr_status assign_shards(writer *w, int64_t shard_bytes)
{
    const orr_weight_source *s = w->source;
    w->order = orr_arena_array(w->arena, uint32_t, s->n);
    w->first = orr_arena_array(w->arena, uint32_t, (size_t)s->n + 2);
    if (w->order == NULL || w->first == NULL)
        return orr_fail_memory(w->err);
    int64_t held = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (shard_bytes > 0 && held > 0 && s->tensors[i].bytes > shard_bytes - held) {
            w->first[++w->n_shards] = i;
            held = 0;
        }
        held += s->tensors[i].bytes;
    }
    w->first[++w->n_shards] = s->n;
    for (uint32_t shard = 0; shard < w->n_shards; shard++) {
        uint32_t at = w->first[shard];
        for (int wide = 1; wide >= 0; wide--)
            for (uint32_t i = w->first[shard]; i < w->first[shard + 1]; i++)
                if ((s->tensors[i].format == ORR_ROW_FORMAT_FP32) == wide)
                    w->order[at++] = i;
    }
    return ORR_OK;
}

static const char *shard_path(const writer *w, uint32_t shard)
{
    return w->n_shards == 1 ? orr_arena_printf(w->arena, "%s%s", w->base, END)
                            : orr_arena_printf(w->arena, "%s-%05u-of-%05u%s", w->base, shard + 1,
                                               w->n_shards, END);
}

static void write_metadata(const writer *w, orr_json_writer *json)
{
    bool has_format = false;
    orr_json_write_key(json, "__metadata__");
    orr_json_write_object(json);
    for (uint32_t i = 0; i < w->source->n_metadata; i++) {
        orr_json_write_key(json, w->source->metadata[i].key);
        orr_json_write_cstr(json, w->source->metadata[i].value);
        has_format |= strcmp(w->source->metadata[i].key, "format") == 0;
    }
    if (!has_format) { /* transformers requires it */
        orr_json_write_key(json, "format");
        orr_json_write_cstr(json, "pt");
    }
    orr_json_write_object_end(json);
}

static void write_entry(orr_json_writer *json, const orr_weight *t, int64_t begin)
{
    static const char *const names[] = {[ORR_ROW_FORMAT_FP32] = "F32",
                                        [ORR_ROW_FORMAT_FP16] = "F16",
                                        [ORR_ROW_FORMAT_BF16] = "BF16"};
    orr_json_write_key(json, t->name);
    orr_json_write_object(json);
    orr_json_write_key(json, "dtype");
    orr_json_write_cstr(json, names[t->format]);
    orr_json_write_key(json, "shape");
    orr_json_write_array(json);
    for (uint32_t i = 0; i < t->rank; i++)
        orr_json_write_int(json, t->dim[i]);
    orr_json_write_array_end(json);
    orr_json_write_key(json, "data_offsets");
    orr_json_write_array(json);
    orr_json_write_int(json, begin);
    orr_json_write_int(json, begin + t->bytes);
    orr_json_write_array_end(json);
    orr_json_write_object_end(json);
}

/* Writes the header, padded to a multiple of 8. */
static orr_status write_header(const writer *w, uint32_t shard, orr_output *out)
{
    orr_output *text;
    orr_json_writer json;
    int64_t begin = 0;
    size_t n;
    ORR_TRY(orr_output_open_memory(&text, w->err));
    orr_json_write_init(&json, text);
    orr_json_write_object(&json);
    write_metadata(w, &json);
    for (uint32_t i = w->first[shard]; i < w->first[shard + 1]; i++) {
        const orr_weight *t = &w->source->tensors[w->order[i]];
        write_entry(&json, t, begin);
        begin += t->bytes;
    }
    orr_json_write_object_end(&json);
    const orr_status status = orr_output_finish(text, w->err);
    if (status == ORR_OK) {
        const void *bytes = orr_output_memory(text, &n);
        const size_t padded = (n + 7) / 8 * 8;
        uint8_t size[8];
        for (int i = 0; i < 8; i++)
            size[i] = (uint8_t)((uint64_t)padded >> 8 * i);
        orr_output_write(out, size, sizeof size);
        orr_output_write(out, bytes, n);
        orr_output_write(out, "       ", padded - n);
    }
    orr_output_close(text);
    return status;
}

static orr_status write_shard(writer *w, uint32_t shard)
{
    const char *path = shard_path(w, shard);
    if (path == NULL)
        return orr_fail_memory(w->err);
    ORR_TRY(orr_output_open(path, &w->shards[shard], w->err));
    ORR_TRY(write_header(w, shard, w->shards[shard]));
    for (uint32_t i = w->first[shard]; i < w->first[shard + 1]; i++) {
        const void *data;
        ORR_TRY(orr_weight_source_data(w->source, w->order[i], &data, w->err));
        orr_output_write(w->shards[shard], data, (size_t)w->source->tensors[w->order[i]].bytes);
    }
    return ORR_OK;
}

static void write_map(const writer *w, orr_json_writer *json)
{
    int64_t bytes = 0;
    for (uint32_t i = 0; i < w->source->n; i++)
        bytes += w->source->tensors[i].bytes;
    orr_json_write_object(json);
    orr_json_write_key(json, "metadata");
    orr_json_write_object(json);
    orr_json_write_key(json, "total_size");
    orr_json_write_int(json, bytes);
    orr_json_write_object_end(json);
    orr_json_write_key(json, "weight_map");
    orr_json_write_object(json);
    for (uint32_t shard = 0; shard < w->n_shards; shard++) {
        size_t chars;
        const char *path = shard_path(w, shard);
        const char *file = path != NULL ? orr_path_basename(path, &chars) : "";
        for (uint32_t i = w->first[shard]; i < w->first[shard + 1]; i++) {
            orr_json_write_newline(json);
            orr_json_write_key(json, w->source->tensors[w->order[i]].name);
            orr_json_write_cstr(json, file);
        }
    }
    orr_json_write_object_end(json);
    orr_json_write_object_end(json);
}

static orr_status write_index(const writer *w, const char *path)
{
    orr_output *out;
    orr_json_writer json;
    ORR_TRY(orr_output_open(path, &out, w->err));
    orr_json_write_init(&json, out);
    write_map(w, &json);
    orr_output_text(out, "\n");
    const orr_status status = orr_output_finish(out, w->err);
    orr_output_close(out);
    return status;
}

/* Renames all files once all are written, and removes files of the other layout (single or
 * sharded). */
static orr_status put_in_place(writer *w)
{
    const char *index = orr_arena_printf(w->arena, "%s%s.index.json", w->base, END);
    const char *one = orr_arena_printf(w->arena, "%s%s", w->base, END);
    if (index == NULL || one == NULL)
        return orr_fail_memory(w->err);
    for (uint32_t i = 0; i < w->n_shards; i++)
        ORR_TRY(orr_output_finish(w->shards[i], w->err));
    if (w->n_shards > 1)
        ORR_TRY(write_index(w, index));
    (void)unlink(w->n_shards > 1 ? one : index);
    return ORR_OK;
}

static orr_status write_all(writer *w, int64_t shard_bytes)
{
    ORR_TRY(assign_shards(w, shard_bytes));
    w->shards = orr_arena_array(w->arena, orr_output *, w->n_shards);
    if (w->shards == NULL)
        return orr_fail_memory(w->err);
    for (uint32_t i = 0; i < w->n_shards; i++)
        ORR_TRY(write_shard(w, i));
    return put_in_place(w);
}

/* The path without its ending; for a folder, created if needed: "folder/model". */
static orr_status set_base(writer *w, const char *path)
{
    if (ends_with(path, END)) {
        w->base = orr_arena_strndup(w->arena, path, strlen(path) - strlen(END));
    } else {
        if (mkdir(path, 0777) != 0 && errno != EEXIST)
            return orr_fail(w->err, ORR_IO, "%s: cannot be made: %s", path, strerror(errno));
        w->base = orr_arena_printf(w->arena, "%s/model", path);
    }
    return w->base != NULL ? ORR_OK : orr_fail_memory(w->err);
}

orr_status orr_safetensors_write(const orr_weight_source *source, const char *path,
                                 int64_t shard_bytes, orr_error *err)
{
    writer w = {.source = source, .arena = orr_arena_new(0, 0), .err = err};
    orr_status status;
    if (w.arena == NULL)
        return orr_fail_memory(err);
    ORR_TRY_OUT(status, orr_weight_source_check(source, false, err));
    ORR_TRY_OUT(status, set_base(&w, path));
    status = write_all(&w, shard_bytes);
out:
    for (uint32_t i = 0; w.shards != NULL && i < w.n_shards; i++)
        orr_output_close(w.shards[i]);
    orr_arena_free(w.arena);
    return status;
}
