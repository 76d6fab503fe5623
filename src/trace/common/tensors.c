/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/common/tensors.h"

#include <string.h>

#include "graph/builder.h"
#include "trace/common/json_slice.h"

/* Values, shapes and types of an operator run in parallel:
 *   values [[9, 6, 0, 48, 4, "cuda:0"], [[...], [...]], 1]
 *   shapes [[48],                       [[3], [4]],     []]
 *   types  ["Tensor(float)", "GenericList[Tensor(float),Tensor(int)]", "Int"]
 * A tensor is [tensor id, storage id, offset, elements, bytes of one, device]; the device is
 * missing in old files. */
enum { MOST_NESTED = 16 };

typedef struct finder {
    orr_graph_builder *builder;
    orr_found_tensors *found;
} finder;

static bool next_int(orr_json_slice *slice, int64_t *ret)
{
    orr_text text;
    return orr_json_slice_next(slice, &text) && orr_text_int64(text, ret);
}

static orr_status add_tensor(finder *f, orr_text value, orr_text shape, orr_text type,
                             orr_error *err)
{
    orr_tensor tensor = {0};
    orr_json_slice slice = orr_json_slice_of(value);
    orr_text device;
    int64_t element_bytes;
    orr_tensor_id id;
    if (!next_int(&slice, &tensor.source_id) || !next_int(&slice, &tensor.storage) ||
        !next_int(&slice, &tensor.offset_bytes) || !next_int(&slice, &tensor.elements) ||
        !next_int(&slice, &element_bytes) || element_bytes < 0 || element_bytes > INT32_MAX)
        return ORR_OK;
    tensor.element_bytes = (int32_t)element_bytes;
    if (orr_json_slice_next(&slice, &device)) {
        device = orr_json_unquote(device);
        ORR_TRY(orr_builder_str(f->builder, device.at, device.n, &tensor.device, err));
    }
    ORR_TRY(orr_builder_str(f->builder, type.at, type.n, &tensor.dtype, err));
    ORR_TRY(orr_builder_str(f->builder, shape.at, shape.n, &tensor.shape, err));
    ORR_TRY(orr_builder_tensor(f->builder, &tensor, &id, err));
    return orr_array_push(f->found, id) ? ORR_OK : orr_fail_memory(err);
}

static bool is_tensor(orr_text type)
{
    return type.n >= 8 && memcmp(type.at, "Tensor(", 7) == 0;
}

/* One value, which may be a list of lists of tensors. */
static orr_status find_in(finder *f, orr_text value, orr_text shape, orr_text type, int depth,
                          orr_error *err)
{
    if (is_tensor(type))
        return add_tensor(f, value, shape, type, err);
    if (depth == MOST_NESTED || memmem(type.at, type.n, "Tensor(", 7) == NULL)
        return ORR_OK;
    orr_json_slice values = orr_json_slice_of(value), shapes = orr_json_slice_of(shape);
    orr_json_slice types = orr_type_list_of(type);
    orr_text v, s, t;
    while (orr_type_list_next(&types, &t) && orr_json_slice_next(&values, &v)) {
        if (!orr_json_slice_next(&shapes, &s))
            s = (orr_text){"", 0};
        ORR_TRY(find_in(f, v, s, t, depth + 1, err));
    }
    return ORR_OK;
}

orr_status orr_find_tensors(orr_graph_builder *builder, const orr_tensor_texts *texts,
                            uint64_t args, orr_found_tensors *ret, orr_error *err)
{
    finder f = {builder, ret};
    orr_json_slice values = orr_json_slice_of(texts->values);
    orr_json_slice shapes = orr_json_slice_of(texts->shapes);
    orr_json_slice types = orr_json_slice_of(texts->types);
    orr_text v, s, t;
    for (unsigned i = 0; orr_json_slice_next(&types, &t) && orr_json_slice_next(&values, &v); i++) {
        if (!orr_json_slice_next(&shapes, &s))
            s = (orr_text){"", 0};
        if (args == UINT64_MAX || (i < 64 && (args >> i & 1) != 0))
            ORR_TRY(find_in(&f, v, s, orr_json_unquote(t), 0, err));
    }
    return ORR_OK;
}
