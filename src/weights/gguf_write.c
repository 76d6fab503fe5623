/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/alloc.h"
#include "weights/gguf.h"
#include "weights/write.h"

static void put(orr_output *out, uint64_t bits, int bytes)
{
    uint8_t raw[8];
    for (int i = 0; i < bytes; i++)
        raw[i] = (uint8_t)(bits >> 8 * i);
    orr_output_write(out, raw, (size_t)bytes);
}

static void put_string(orr_output *out, const char *text, size_t len)
{
    put(out, len, 8);
    orr_output_write(out, text, len);
}

static void put_key(orr_gguf_metadata_writer *keys, const char *key, uint32_t type)
{
    put_string(keys->out, key, strlen(key));
    put(keys->out, type, 4);
    keys->n++;
}

void orr_gguf_put_text(orr_gguf_metadata_writer *keys, const char *key, const char *value,
                       size_t len)
{
    put_key(keys, key, ORR_GGUF_TEXT);
    put_string(keys->out, value, len);
}

void orr_gguf_put_u32(orr_gguf_metadata_writer *keys, const char *key, uint32_t value)
{
    put_key(keys, key, ORR_GGUF_U32);
    put(keys->out, value, 4);
}

void orr_gguf_put_f32(orr_gguf_metadata_writer *keys, const char *key, double value)
{
    const float narrow = (float)value;
    uint32_t bits;
    memcpy(&bits, &narrow, sizeof bits);
    put_key(keys, key, ORR_GGUF_F32);
    put(keys->out, bits, 4);
}

void orr_gguf_put_bool(orr_gguf_metadata_writer *keys, const char *key, bool value)
{
    put_key(keys, key, ORR_GGUF_BOOL);
    put(keys->out, value, 1);
}

void orr_gguf_put_array(orr_gguf_metadata_writer *keys, const char *key, uint32_t type, uint64_t n)
{
    put_key(keys, key, ORR_GGUF_ARRAY);
    put(keys->out, type, 4);
    put(keys->out, n, 8);
}

void orr_gguf_put_string(orr_gguf_metadata_writer *keys, const char *text, size_t len)
{
    put_string(keys->out, text, len);
}

void orr_gguf_put_number(orr_gguf_metadata_writer *keys, uint64_t bits, int bytes)
{
    put(keys->out, bits, bytes);
}

static uint64_t aligned(uint64_t at)
{
    return (at + ORR_GGUF_ALIGNMENT - 1) / ORR_GGUF_ALIGNMENT * ORR_GGUF_ALIGNMENT;
}

static void put_infos(const orr_weight_source *source, orr_output *out)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < source->n; i++) {
        const orr_weight *w = &source->tensors[i];
        put_string(out, w->name, strlen(w->name));
        put(out, w->rank, 4);
        for (uint32_t d = w->rank; d-- > 0;)
            put(out, (uint64_t)w->dim[d], 8);
        put(out, orr_gguf_type_of((orr_row_format)w->format), 4);
        put(out, at, 8);
        at = aligned(at + (uint64_t)w->bytes);
    }
}

/* Everything before the tensors' data. */
static orr_status write_header(const orr_weight_source *source,
                               const orr_gguf_metadata_writer *keys, orr_output *out,
                               orr_error *err)
{
    orr_output *head;
    size_t n;
    ORR_TRY(orr_output_open_memory(&head, err));
    orr_output_write(head, "GGUF", 4);
    put(head, ORR_GGUF_VERSION, 4);
    put(head, source->n, 8);
    put(head, keys->n, 8);
    const void *bytes = orr_output_memory(keys->out, &n);
    orr_output_write(head, bytes, n);
    put_infos(source, head);
    const orr_status status = orr_output_finish(head, err);
    if (status == ORR_OK) {
        bytes = orr_output_memory(head, &n);
        orr_output_write(out, bytes, n);
        orr_weight_write_padding(out, aligned(n) - n);
    }
    orr_output_close(head);
    return status;
}

orr_status orr_gguf_write(const orr_weight_source *source, const orr_gguf_metadata_writer *keys,
                          const char *path, orr_error *err)
{
    orr_output *out = NULL;
    orr_status status;
    ORR_TRY(orr_weight_source_check(source, true, err));
    ORR_TRY_OUT(status, orr_output_finish(keys->out, err));
    ORR_TRY_OUT(status, orr_output_open(path, &out, err));
    ORR_TRY_OUT(status, write_header(source, keys, out, err));
    for (uint32_t i = 0; i < source->n; i++) {
        const uint64_t bytes = (uint64_t)source->tensors[i].bytes;
        const void *data;
        ORR_TRY_OUT(status, orr_weight_source_data(source, i, &data, err));
        orr_output_write(out, data, (size_t)bytes);
        orr_weight_write_padding(out, aligned(bytes) - bytes);
    }
    status = orr_output_finish(out, err);
out:
    orr_output_close(out);
    return status;
}
