/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_MODEL_TEXT_H
#define ORR_TESTS_MODEL_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "model/spec/spec.h"

/* Files of models as texts of a test. */
static orr_arena *arena;

static int new_arena(void **state)
{
    (void)state;
    arena = orr_arena_new(0, 0);
    return arena != NULL ? 0 : -1;
}

static int free_arena(void **state)
{
    (void)state;
    orr_arena_free(arena);
    return 0;
}

/* The last model of the text. */
static inline orr_status read_models(const char *text, const orr_model **ret, orr_error *err)
{
    orr_model_registry registry = {.arena = arena};
    const orr_yaml *file;
    orr_status status = orr_yaml_parse(text, strlen(text), "t.yaml", arena, &file, err);
    if (status == ORR_OK)
        status = orr_spec_read_file(file, NULL, &registry, err);
    if (status == ORR_OK && registry.models.n > 0)
        *ret = registry.models.at[registry.models.n - 1];
    orr_model_registry_done(&registry);
    return status;
}

static inline const orr_model *model_of(const char *text)
{
    const orr_model *model = NULL;
    orr_error err = {0};
    if (read_models(text, &model, &err) != ORR_OK || model == NULL)
        fail_msg("%s", err.text);
    return model;
}

/* Refused with this message, and nothing given. */
static inline void assert_refused(const char *text, const char *message)
{
    const orr_model *model = NULL;
    orr_error err = {0};
    assert_int_equal(read_models(text, &model, &err), ORR_INVALID);
    assert_string_equal(err.text, message);
    assert_null(model);
}

static inline const orr_model *load(const char *name)
{
    const orr_model *model = NULL;
    orr_error err = {0};
    if (orr_model_load(name, arena, &model, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return model;
}

static inline orr_model_size size_of(const orr_model *model)
{
    orr_model_size size = {0};
    orr_error err = {0};
    if (orr_model_count_parameters(model, arena, &size, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return size;
}

static inline orr_model_part part_of(const orr_model *model, const char *name)
{
    const orr_model_size size = size_of(model);
    for (uint32_t i = 0; i < size.n; i++)
        if (strcmp(size.parts[i].name, name) == 0)
            return size.parts[i];
    return (orr_model_part){0};
}

#endif /* ORR_TESTS_MODEL_TEXT_H */
