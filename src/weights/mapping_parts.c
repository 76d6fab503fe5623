/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/tensor_names.h"

#include <string.h>

/* The pattern with the number in place of %u. */
static const char *numbered(orr_weight_mapping *mapping, const char *pattern, uint32_t number)
{
    const char *at = strstr(pattern, "%u");
    if (at == NULL)
        return pattern;
    const char *text =
        orr_arena_printf(mapping->arena, "%.*s%u%s", (int)(at - pattern), pattern, number, at + 2);
    mapping->failed |= text == NULL;
    return text != NULL ? text : "";
}

const char *orr_weight_mapping_name(orr_weight_mapping *mapping, const char *stem,
                                    const char *layer, uint32_t number, const char *name,
                                    const char *end)
{
    if (name == NULL)
        return NULL;
    const char *text = orr_arena_printf(mapping->arena, "%s%s%s%s", stem,
                                        numbered(mapping, layer, number), name, end);
    mapping->failed |= text == NULL;
    return text;
}

void orr_weight_mapping_single(orr_weight_mapping *mapping, orr_weight_mapping_kind kind,
                               const char *name, int64_t rows, int64_t columns, bool input_major)
{
    if (name == NULL)
        return;
    orr_weight_mapping_begin(mapping, kind, 1, rows, columns);
    const uint32_t t = orr_weight_mapping_add_tensor(mapping, name, 0, rows, input_major);
    orr_weight_mapping_add_rows(mapping, t, 0, 0, rows);
}

void orr_weight_mapping_linear(orr_weight_mapping *mapping, const char *name, uint32_t nth,
                               int64_t in, int64_t out, bool input_major)
{
    orr_weight_mapping_single(mapping,
                              nth > 0 ? ORR_WEIGHT_MAPPING_VECTOR : ORR_WEIGHT_MAPPING_LINEAR, name,
                              out, nth > 0 ? 1 : in, input_major);
}

/* Column 2i of interleaved pairs is column i of halves, 2i + 1 is i + D / 2. */
void orr_weight_mapping_rotary(orr_weight_mapping *mapping, uint32_t tensor, int64_t from,
                               int64_t count, bool to_interleaved)
{
    const int64_t half = count / 2;
    for (int64_t j = 0; j < count && !mapping->incomplete; j++) {
        const int64_t source = to_interleaved ? j / 2 + j % 2 * half : j % half * 2 + j / half;
        orr_weight_mapping_add_rows(mapping, tensor, 0, from + source, 1);
    }
}

static void heads_portion(orr_weight_mapping *mapping, const orr_qkv_heads *h, uint32_t tensor,
                          int64_t from, int64_t count, bool to_interleaved)
{
    if (!h->turned || h->width % 2 != 0) {
        orr_weight_mapping_add_rows(mapping, tensor, 0, from, count);
        return;
    }
    for (int64_t head = 0; head < count && !mapping->incomplete; head += h->width)
        orr_weight_mapping_rotary(mapping, tensor, from + head, h->width, to_interleaved);
}

void orr_weight_mapping_qkv(orr_weight_mapping *mapping, const orr_qkv_heads *h,
                            bool to_interleaved)
{
    const int64_t q_rows = h->heads * h->width, k_rows = h->groups * h->width;
    const int64_t all = q_rows + 2 * k_rows, each = q_rows / h->groups;
    uint32_t q, k, v;
    orr_weight_mapping_begin(mapping,
                             h->nth > 0 ? ORR_WEIGHT_MAPPING_VECTOR : ORR_WEIGHT_MAPPING_LINEAR, 1,
                             all, h->nth > 0 ? 1 : h->hidden);
    if (h->qkv != NULL) {
        q = k = v = orr_weight_mapping_add_tensor(mapping, h->qkv, 0, all, h->input_major);
    } else {
        q = orr_weight_mapping_add_tensor(mapping, h->q, 0, q_rows, h->input_major);
        k = orr_weight_mapping_add_tensor(mapping, h->k, 0, k_rows, h->input_major);
        v = orr_weight_mapping_add_tensor(mapping, h->v, 0, k_rows, h->input_major);
    }
    const int64_t k_from = h->qkv != NULL ? q_rows : 0,
                  v_from = h->qkv != NULL ? q_rows + k_rows : 0;
    for (int64_t g = 0; g < h->groups && !mapping->incomplete; g++) {
        heads_portion(mapping, h, q, g * each, each, to_interleaved);
        heads_portion(mapping, h, k, k_from + g * h->width, h->width, to_interleaved);
        orr_weight_mapping_add_rows(mapping, v, 0, v_from + g * h->width, h->width);
    }
}
