/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TEST_WEIGHTS_FILES_H
#define ORR_TEST_WEIGHTS_FILES_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include <orrery/weights.h>

/* A folder of the test's own; gone at its end. */
static char scratch[64];
static inline int make_scratch(void **state)
{
    (void)state;
    (void)snprintf(scratch, sizeof scratch, "/tmp/orrery-weights-XXXXXX");
    return mkdtemp(scratch) != NULL ? 0 : -1;
}
static inline int remove_scratch(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf '%s'", scratch);
    return system(command);
}

static inline const char *in_scratch(const char *name)
{
    static char path[256];
    (void)snprintf(path, sizeof path, "%s/%s", scratch, name);
    return path;
}

static inline void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, n, file), n);
    assert_int_equal(fclose(file), 0);
}

/* A file of safetensors with this header and so many bytes 0, 1, 2, ... behind it. */
static inline void write_safetensors(const char *path, const char *header, size_t data)
{
    uint8_t bytes[4096] = {0};
    const size_t n = strlen(header);
    assert_true(8 + n + data <= sizeof bytes);
    bytes[0] = (uint8_t)n;
    bytes[1] = (uint8_t)(n >> 8);
    memcpy(bytes + 8, header, n);
    for (size_t i = 0; i < data; i++)
        bytes[8 + n + i] = (uint8_t)i;
    write_bytes(path, bytes, 8 + n + data);
}

static inline void must_say(const orr_error *err, const char *text)
{
    if (strstr(err->text, text) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", err->text, text);
}

/* The golden checkpoint of a family. */
static inline const char *checkpoint(const char *family)
{
    static char path[512];
    const char *source = getenv("ORRERY_SOURCE");
    (void)snprintf(path, sizeof path, "%s/tests/reference/checkpoints/%s",
                   source != NULL ? source : ".", family);
    return path;
}

static const char *const families[] = {"llama2", "llama3", "llama4",    "llama4_vision", "mixtral",
                                       "qwen2",  "qwen3",  "qwen3_moe", "gpt2"};
enum { N_FAMILIES = sizeof families / sizeof *families };

/* A checkpoint and its model. */
typedef struct opened {
    orr_weights *weights;
    orr_arena *arena;
    const orr_model *model;
} opened;
static inline opened open_at(const char *path)
{
    opened o = {.arena = orr_arena_new(0, 0)};
    orr_error err = {.text = ""};
    if (orr_weights_open(path, &o.weights, &err) != ORR_OK ||
        orr_model_of_weights(o.weights, o.arena, &o.model, &err) != ORR_OK)
        fail_msg("%s: %s", path, err.text);
    return o;
}
static inline void close_it(opened *o)
{
    orr_weights_close(o->weights);
    orr_arena_free(o->arena);
}

#endif /* ORR_TEST_WEIGHTS_FILES_H */
