/* SPDX-License-Identifier: Apache-2.0 */
/* The model's shape from config.json or GGUF's metadata. */
#include <string.h>

#include "base/path.h"
#include "model/spec/spec.h"
#include "weights/gguf_model.h"
#include "weights/tensor_names.h"

static bool has_head(const orr_model *model, const orr_weights *weights, orr_arena *arena)
{
    const orr_tensor_naming *naming;
    if (orr_tensor_naming_of(model, weights, weights->gguf, arena, &naming, NULL) != ORR_OK)
        return true;
    const char *name = orr_arena_printf(arena, "%s.weight", naming->head);
    return name == NULL || orr_weights_find(weights, name) != NULL;
}

/* Not every config.json says whether embedding and head are tied: the tensors tell. */
static orr_status tie(const orr_weights *weights, orr_arena *arena, const orr_model **model,
                      orr_error *err)
{
    if ((*model)->tied || has_head(*model, weights, arena))
        return ORR_OK;
    orr_model *tied = orr_arena_one(arena, orr_model);
    if (tied == NULL)
        return orr_fail_memory(err);
    *tied = **model;
    tied->tied = true;
    *model = tied;
    return ORR_OK;
}

orr_status orr_model_of_weights(const orr_weights *weights, orr_arena *arena, const orr_model **ret,
                                orr_error *err)
{
    const orr_model *model;
    if (weights->gguf)
        return orr_gguf_model(weights, arena, ret, err);
    size_t chars;
    const int folder = (int)(orr_path_basename(weights->path, &chars) - weights->path);
    const char *path = orr_arena_printf(arena, "%s%.*sconfig.json", folder == 0 ? "./" : "", folder,
                                        weights->path);
    if (path == NULL)
        return orr_fail_memory(err);
    ORR_TRY(orr_config_load(path, arena, &model, err));
    ORR_TRY(tie(weights, arena, &model, err));
    *ret = model;
    return ORR_OK;
}
