/* SPDX-License-Identifier: Apache-2.0 */
/* Common parts of both writers. */
#include "weights/write.h"

#include <string.h>

#include "base/strtab.h"
#include "weights/gguf.h"

orr_status orr_weight_source_data(const orr_weight_source *source, uint32_t i, const void **ret,
                                  orr_error *err)
{
    *ret = source->tensors[i].data;
    if (source->data != NULL)
        return source->data(source->ctx, i, ret, err);
    return *ret != NULL || source->tensors[i].bytes == 0
               ? ORR_OK
               : orr_fail(err, ORR_INVALID, "tensor '%.200s' has no bytes",
                          source->tensors[i].name);
}

static orr_status check(const orr_weight *w, bool gguf, orr_strtab *names, orr_error *err)
{
    char shape[ORR_SHAPE_CHARS];
    const uint32_t before = orr_strtab_count(names);
    const uint32_t id = orr_strtab_add(names, w->name, strlen(w->name));
    if (id == UINT32_MAX)
        return orr_fail_memory(err);
    if (id < before)
        return orr_fail(err, ORR_INVALID, "two tensors '%.200s'", w->name);
    const bool known = gguf ? orr_gguf_type_of((orr_row_format)w->format) != UINT32_MAX
                            : w->format <= ORR_ROW_FORMAT_BF16;
    if (!known)
        return orr_fail(err, ORR_UNSUPPORTED, "tensor '%.200s': %s files have no %s", w->name,
                        gguf ? "GGUF" : "safetensors",
                        orr_row_format_name((orr_row_format)w->format));
    if (w->rank > ORR_TYPE_DIMS || w->bytes < 0 ||
        orr_weight_bytes(w->format, w->rank, w->dim) != w->bytes)
        return orr_fail(err, ORR_INVALID,
                        "tensor '%.100s' of the shape %s does not have %lld bytes", w->name,
                        w->rank <= ORR_TYPE_DIMS ? orr_weight_shape(w->rank, w->dim, shape) : "?",
                        (long long)w->bytes);
    return ORR_OK;
}

orr_status orr_weight_source_check(const orr_weight_source *source, bool gguf, orr_error *err)
{
    orr_strtab *names = orr_strtab_new();
    orr_status status = names != NULL ? ORR_OK : orr_fail_memory(err);
    for (uint32_t i = 0; i < source->n && status == ORR_OK; i++)
        status = check(&source->tensors[i], gguf, names, err);
    orr_strtab_free(names);
    return status;
}

void orr_weight_write_padding(orr_output *out, uint64_t n)
{
    static const char zeros[256];
    for (; n > 0; n -= n < sizeof zeros ? n : sizeof zeros)
        orr_output_write(out, zeros, n < sizeof zeros ? (size_t)n : sizeof zeros);
}
