/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>
#include <sys/stat.h>

#include "base/closest.h"
#include "model/spec/spec.h"

static char plain(char c)
{
    return c == '_' ? '-' : (char)tolower((unsigned char)c);
}

static bool same_name(const char *a, const char *b)
{
    for (; plain(*a) == plain(*b); a++, b++)
        if (*a == '\0')
            return true;
    return false;
}

/* The search runs from the end, so that a model of a user's file hides the catalogue's model of
 * that name. */
const orr_model *orr_model_find(const orr_model *const *models, size_t n, const char *name)
{
    while (n-- > 0)
        if (same_name(models[n]->name, name))
            return models[n];
    return NULL;
}

static orr_status open_registry(orr_model_registry *registry, orr_error *err)
{
    for (size_t i = 0; i < orr_n_model_files; i++) {
        const orr_catalog_file *file = &orr_model_files[i];
        const orr_yaml *root;
        ORR_TRY(orr_yaml_parse((const char *)file->bytes, file->n, file->name, registry->arena,
                               &root, err));
        ORR_TRY(orr_spec_read_file(root, NULL, registry, err));
    }
    return ORR_OK;
}

orr_status orr_models_open(orr_arena *arena, orr_models *ret, orr_error *err)
{
    orr_model_registry registry = {.arena = arena};
    orr_status status;
    ORR_TRY_OUT(status, open_registry(&registry, err));
    const orr_model **models = orr_arena_array(arena, const orr_model *, registry.models.n);
    if (models == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    memcpy(models, registry.models.at, registry.models.n * sizeof *models);
    *ret = (orr_models){models, (uint32_t)registry.models.n};
out:
    orr_model_registry_done(&registry);
    return status;
}

static orr_status fail_no_model(const orr_model_registry *registry, const char *name,
                                orr_error *err)
{
    const char **names = orr_arena_array(registry->arena, const char *, registry->models.n);
    if (names == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < registry->models.n; i++)
        names[i] = registry->models.at[i]->name;
    const char *close = orr_closest_match(name, names, registry->models.n);
    return close != NULL
               ? orr_fail(err, ORR_NOT_FOUND, "no model '%.80s'; did you mean '%s'?", name, close)
               : orr_fail(
                     err, ORR_NOT_FOUND,
                     "no model '%.80s'; `orrery models` lists what there is, and a name with a "
                     "slash or ending in .yaml or .json is a file",
                     name);
}

static orr_status find_model(const char *name, orr_arena *arena, const orr_model **ret,
                             orr_error *err)
{
    orr_model_registry registry = {.arena = arena};
    orr_status status;
    ORR_TRY_OUT(status, open_registry(&registry, err));
    const orr_model *found = orr_model_find(registry.models.at, registry.models.n, name);
    if (found != NULL)
        *ret = found;
    else
        status = fail_no_model(&registry, name, err);
out:
    orr_model_registry_done(&registry);
    return status;
}

/* Loads the single model of a YAML file, which may extend a model of the catalogue. */
static orr_status load_yaml(const char *path, orr_arena *arena, const orr_model **ret,
                            orr_error *err)
{
    orr_model_registry registry = {.arena = arena};
    const orr_yaml *file;
    orr_status status;
    ORR_TRY_OUT(status, orr_yaml_load(path, arena, &file, err));
    ORR_TRY_OUT(status, open_registry(&registry, err));
    const size_t before = registry.models.n;
    ORR_TRY_OUT(status, orr_spec_read_file(file, path, &registry, err));
    const size_t n = registry.models.n - before;
    if (n == 1)
        *ret = registry.models.at[before];
    else
        status = orr_fail(err, ORR_INVALID, "%s:1:1: has %zu models where one is needed", path, n);
out:
    orr_model_registry_done(&registry);
    return status;
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && strcmp(text + n - m, end) == 0;
}

static bool is_folder(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISDIR(about.st_mode);
}

orr_status orr_model_load(const char *name, orr_arena *arena, const orr_model **ret, orr_error *err)
{
    const bool yaml = ends_with(name, ".yaml") || ends_with(name, ".yml");
    const bool json = ends_with(name, ".json");
    if (!yaml && !json && strchr(name, '/') == NULL)
        return find_model(name, arena, ret, err);
    const char *path = !json && is_folder(name) ? orr_arena_printf(arena, "%s/config.json", name)
                                                : orr_arena_strndup(arena, name, strlen(name));
    if (path == NULL)
        return orr_fail_memory(err);
    return ends_with(path, ".json") ? orr_config_load(path, arena, ret, err)
                                    : load_yaml(path, arena, ret, err);
}

bool orr_model_layer_moe(const orr_model *model, uint32_t layer)
{
    const orr_moe *moe = &model->moe;
    return moe->experts > 0 && layer >= moe->first_dense &&
           (layer + 1 - moe->first_dense) % moe->every == 0;
}

bool orr_model_layer_global(const orr_model *model, uint32_t layer)
{
    return model->chunk == 0 || (model->global_every > 0 && (layer + 1) % model->global_every == 0);
}

bool orr_model_layer_cross(const orr_model *model, uint32_t layer)
{
    return model->cross_every > 0 && layer >= model->cross_first &&
           (layer - model->cross_first) % model->cross_every == 0;
}

uint32_t orr_model_moe_layers(const orr_model *model)
{
    const orr_moe *moe = &model->moe;
    return moe->experts > 0 && model->layers > moe->first_dense
               ? (model->layers - moe->first_dense) / moe->every
               : 0;
}

uint32_t orr_model_global_layers(const orr_model *model)
{
    if (model->chunk == 0)
        return model->layers;
    return model->global_every > 0 ? model->layers / model->global_every : 0;
}

uint32_t orr_model_cross_layers(const orr_model *model)
{
    return model->cross_every > 0 && model->layers > model->cross_first
               ? (model->layers - 1 - model->cross_first) / model->cross_every + 1
               : 0;
}

const char *orr_task_name(orr_task task)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        ORR_TASK_MAP(NAME_)
#undef NAME_
    };
    return names[task];
}
