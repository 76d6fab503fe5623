/* SPDX-License-Identifier: Apache-2.0 */
#include "weights/tensor_names.h"

#include <string.h>

/* The pattern, with the number in place of its %u. */
static const char *numbered(orr_recipe *recipe, const char *pattern, uint32_t number)
{
    const char *at = strstr(pattern, "%u");
    if (at == NULL)
        return pattern;
    const char *text =
        orr_arena_printf(recipe->arena, "%.*s%u%s", (int)(at - pattern), pattern, number, at + 2);
    recipe->failed |= text == NULL;
    return text != NULL ? text : "";
}

const char *orr_recipe_name(orr_recipe *recipe, const char *stem, const char *layer,
                            uint32_t number, const char *name, const char *end)
{
    if (name == NULL)
        return NULL;
    const char *text = orr_arena_printf(recipe->arena, "%s%s%s%s", stem,
                                        numbered(recipe, layer, number), name, end);
    recipe->failed |= text == NULL;
    return text;
}

void orr_recipe_whole(orr_recipe *recipe, orr_recipe_kind kind, const char *name, int64_t rows,
                      int64_t columns, bool input_major)
{
    if (name == NULL)
        return;
    orr_recipe_begin(recipe, kind, 1, rows, columns);
    const uint32_t t = orr_recipe_tensor_add(recipe, name, 0, rows, input_major);
    orr_recipe_portion_add(recipe, t, 0, 0, rows);
}

void orr_recipe_linear(orr_recipe *recipe, const char *name, uint32_t nth, int64_t in, int64_t out,
                       bool input_major)
{
    orr_recipe_whole(recipe, nth > 0 ? ORR_RECIPE_VECTOR : ORR_RECIPE_PRODUCT, name, out,
                     nth > 0 ? 1 : in, input_major);
}

/* Column 2i of pairs side by side is column i of halves, 2i + 1 is i + D / 2. */
void orr_recipe_turned(orr_recipe *recipe, uint32_t tensor, int64_t from, int64_t count,
                       bool to_interleaved)
{
    const int64_t half = count / 2;
    for (int64_t j = 0; j < count && !recipe->incomplete; j++) {
        const int64_t source = to_interleaved ? j / 2 + j % 2 * half : j % half * 2 + j / half;
        orr_recipe_portion_add(recipe, tensor, 0, from + source, 1);
    }
}

static void heads_portion(orr_recipe *recipe, const orr_qkv_heads *h, uint32_t tensor, int64_t from,
                          int64_t count, bool to_interleaved)
{
    if (!h->turned || h->width % 2 != 0) {
        orr_recipe_portion_add(recipe, tensor, 0, from, count);
        return;
    }
    for (int64_t head = 0; head < count && !recipe->incomplete; head += h->width)
        orr_recipe_turned(recipe, tensor, from + head, h->width, to_interleaved);
}

void orr_recipe_qkv(orr_recipe *recipe, const orr_qkv_heads *h, bool to_interleaved)
{
    const int64_t q_rows = h->heads * h->width, k_rows = h->groups * h->width;
    const int64_t all = q_rows + 2 * k_rows, each = q_rows / h->groups;
    uint32_t q, k, v;
    orr_recipe_begin(recipe, h->nth > 0 ? ORR_RECIPE_VECTOR : ORR_RECIPE_PRODUCT, 1, all,
                     h->nth > 0 ? 1 : h->hidden);
    if (h->qkv != NULL) {
        q = k = v = orr_recipe_tensor_add(recipe, h->qkv, 0, all, h->input_major);
    } else {
        q = orr_recipe_tensor_add(recipe, h->q, 0, q_rows, h->input_major);
        k = orr_recipe_tensor_add(recipe, h->k, 0, k_rows, h->input_major);
        v = orr_recipe_tensor_add(recipe, h->v, 0, k_rows, h->input_major);
    }
    const int64_t k_from = h->qkv != NULL ? q_rows : 0,
                  v_from = h->qkv != NULL ? q_rows + k_rows : 0;
    for (int64_t g = 0; g < h->groups && !recipe->incomplete; g++) {
        heads_portion(recipe, h, q, g * each, each, to_interleaved);
        heads_portion(recipe, h, k, k_from + g * h->width, h->width, to_interleaved);
        orr_recipe_portion_add(recipe, v, 0, v_from + g * h->width, h->width);
    }
}
