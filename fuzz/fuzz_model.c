/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"
#include "model/spec/spec.h"

static void check_model(const orr_model *model, orr_arena *arena)
{
    orr_model_size size;
    FUZZ_CHECK(model->name != NULL && model->title != NULL && model->source != NULL);
    for (uint32_t i = 0; i < model->n_notes; i++)
        FUZZ_CHECK(model->notes[i].what != NULL && model->notes[i].source != NULL);
    if (model->incomplete)
        return;
    FUZZ_CHECK(orr_model_count_parameters(model, arena, &size, NULL) == ORR_OK);
    FUZZ_CHECK(size.total > 0 && size.matmul >= 0);
    for (uint32_t i = 0; i < size.n; i++)
        FUZZ_CHECK(size.parts[i].each > 0 && size.parts[i].active >= 0);
    FUZZ_CHECK(orr_model_flops(model, 4096, true) >= orr_model_flops(model, 4096, false));
    FUZZ_CHECK(orr_model_flops(model, 4096, false) >= 0);
    FUZZ_CHECK(orr_model_image_flops(model) >= 0);
    FUZZ_CHECK(orr_model_cross_layers(model) == model->cross_layers);
    const orr_plan plan = {.layers = model->layers + 1, .hidden = 2 * model->hidden};
    const orr_model *changed;
    if (orr_model_override(model, &plan, arena, &changed, NULL) == ORR_OK)
        FUZZ_CHECK(changed->layers == model->layers + 1);
}

static void check_spec(const uint8_t *bytes, size_t len, orr_arena *arena)
{
    orr_model_registry shelf = {.arena = arena};
    const orr_yaml *root;
    orr_error err = {0};
    if (orr_yaml_parse((const char *)bytes, len, "input", arena, &root, &err) == ORR_OK) {
        const orr_status status = orr_spec_read_file(root, "input", &shelf, &err);
        FUZZ_CHECK(status == ORR_OK || status == ORR_INVALID);
        FUZZ_CHECK(status == ORR_OK || strncmp(err.text, "input:", 6) == 0);
    }
    for (size_t i = 0; i < shelf.models.n; i++)
        check_model(shelf.models.at[i], arena);
    orr_model_registry_done(&shelf);
}

static void check_config(const uint8_t *bytes, size_t len, orr_arena *arena)
{
    const orr_yaml *root;
    const orr_model *model;
    orr_error err = {0};
    if (orr_config_parse((const char *)bytes, len, "input", arena, &root, &err) != ORR_OK) {
        FUZZ_CHECK(strncmp(err.text, "input:", 6) == 0);
        return;
    }
    const orr_status status = orr_config_read(root, arena, &model, &err);
    FUZZ_CHECK(status == ORR_OK || status == ORR_INVALID || status == ORR_UNSUPPORTED);
    FUZZ_CHECK(status == ORR_OK || strncmp(err.text, "input:", 6) == 0);
    if (status == ORR_OK)
        check_model(model, arena);
}

/* Every input is read both ways: most JSON is YAML too. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_arena *arena = orr_arena_new(0, 0);
    check_spec(bytes, len, arena);
    check_config(bytes, len, arena);
    orr_arena_free(arena);
    return 0;
}
