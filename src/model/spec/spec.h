/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_SPEC_SPEC_H
#define ORR_MODEL_SPEC_SPEC_H

#include <orrery/model.h>

#include "base/array.h"
#include "io/yaml/yaml.h"
#include "machine/catalog/embedded_files.h"

/* Schema of a model's entry in YAML: for each key the kind of its value and the field that it
 * sets. Offsets are within orr_model, also for the fields of a section. */
typedef enum orr_spec_kind {
    ORR_SPEC_U32,    /* an integer up to `most` */
    ORR_SPEC_I64,    /* the same, 64 bits */
    ORR_SPEC_NUMBER, /* double, >= 0                                          */
    ORR_SPEC_BOOL,
    ORR_SPEC_TEXT,
    ORR_SPEC_WORD, /* one of `words`, into a uint8_t */
    ORR_SPEC_U32S, /* a list of at most `room` numbers; its length goes to `length` */
    ORR_SPEC_I64S,
    ORR_SPEC_SECTION, /* a map of `fields` */
    ORR_SPEC_OTHER,   /* read by code of its own */
} orr_spec_kind;
typedef struct orr_spec_field {
    const char *key;
    uint8_t kind; /* orr_spec_kind */
    size_t offset, length;
    int64_t most;
    uint32_t room; /* capacity of a list */
    const char *const *words;
    const struct orr_spec_field *fields;
    size_t n; /* of words or fields */
} orr_spec_field;
const orr_spec_field *orr_spec_fields(size_t *ret_n);
/* Upper limits of sizes: far above any model, and low enough that products of a few of them do
 * not overflow. */
enum {
    ORR_MODEL_MAX_LAYERS = 1 << 14,
    ORR_MODEL_MAX_WIDTH = 1 << 24,
    ORR_MODEL_MAX_TOKENS = 1 << 30,
};
/* Reads a map's fields into *ret; fields that the map does not have are unchanged. `what` begins
 * messages: "model 'x'". Errors: INVALID with the position. */
orr_status orr_spec_read(const orr_yaml *map, const char *what, const orr_spec_field *fields,
                         size_t n_fields, orr_model *ret, orr_error *err) ORR_MUST_CHECK;
/* Reads the embedding tables of a section `dlrm` that orr_spec_read() has read (tables.c). */
orr_status orr_spec_read_tables(const orr_yaml *dlrm, orr_arena *arena, orr_model *model,
                                orr_error *err) ORR_MUST_CHECK;
/* The model that an empty entry describes. */
orr_model orr_model_default(void);
/* Fills in the fields that follow from others, and checks the shape. INVALID at `at`. */
orr_status orr_model_complete(orr_model *model, const orr_yaml *at, orr_error *err) ORR_MUST_CHECK;

/* Numbers of layers with experts, with global attention, and with cross-attention to images. */
uint32_t orr_model_moe_layers(const orr_model *model);
uint32_t orr_model_global_layers(const orr_model *model);
uint32_t orr_model_cross_layers(const orr_model *model);

/* Models while files are read: completed, and as they were written (a model that extends another
 * one starts from the written fields, since completed ones follow from its own numbers). Arrays
 * are freed by done; what they point to is in the arena. */
typedef struct orr_model_registry {
    orr_array(const orr_model *) models, written;
    orr_arena *arena;
} orr_model_registry;
void orr_model_registry_done(orr_model_registry *registry);
/* Appends the models of a file to the registry; they may extend models that are there already.
 * `source`: the source of facts where the file does not say; NULL: the file has to say it. */
orr_status orr_spec_read_file(const orr_yaml *file, const char *source,
                              orr_model_registry *registry, orr_error *err) ORR_MUST_CHECK;
/* Finds a model by name, the last one first; NULL: none. Case is ignored, and '_' equals '-'. */
const orr_model *orr_model_find(const orr_model *const *models, size_t n, const char *name);

/* Loads a Hugging Face config.json from a file or from its text. */
orr_status orr_config_load(const char *path, orr_arena *arena, const orr_model **ret,
                           orr_error *err) ORR_MUST_CHECK;
orr_status orr_config_read(const orr_yaml *root, orr_arena *arena, const orr_model **ret,
                           orr_error *err) ORR_MUST_CHECK;
/* Parses JSON into a tree that knows the position of each value. `file`: name in messages.
 * Errors: PARSE, LIMIT and INVALID (a duplicate key) with the position; NO_MEMORY. */
orr_status orr_config_parse(const char *text, size_t len, const char *file, orr_arena *arena,
                            const orr_yaml **ret, orr_error *err) ORR_MUST_CHECK;

/* The files of catalog/models, embedded into the library at build time by tools/embed.py. */
extern const orr_catalog_file orr_model_files[];
extern const size_t orr_n_model_files;

#endif /* ORR_MODEL_SPEC_SPEC_H */
