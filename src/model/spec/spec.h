/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_SPEC_SPEC_H
#define ORR_MODEL_SPEC_SPEC_H

#include <orrery/model.h>

#include "base/array.h"
#include "io/yaml/yaml.h"
#include "machine/catalog/embedded_files.h"

/* What a model's entry may say, as a table: a key, what its value is, where it goes. Offsets are
 * within orr_model, those of the fields of a section too. */
typedef enum orr_spec_kind {
    ORR_SPEC_U32,    /* a whole number up to `most`                           */
    ORR_SPEC_I64,    /* likewise                                              */
    ORR_SPEC_NUMBER, /* double, >= 0                                          */
    ORR_SPEC_BOOL,
    ORR_SPEC_TEXT,
    ORR_SPEC_WORD, /* one of `words`, into a uint8_t                        */
    ORR_SPEC_U32S, /* a list of at most `room`; its length at `length`      */
    ORR_SPEC_I64S,
    ORR_SPEC_SECTION, /* a map of `fields`                                     */
    ORR_SPEC_OTHER,   /* read by who knows the entry                           */
} orr_spec_kind;
typedef struct orr_spec_field {
    const char *key;
    uint8_t kind; /* orr_spec_kind */
    size_t offset, length;
    int64_t most;
    uint32_t room; /* of a list */
    const char *const *words;
    const struct orr_spec_field *fields;
    size_t n; /* of words or fields */
} orr_spec_field;
const orr_spec_field *orr_spec_fields(size_t *ret_n);
/* Most of what there can be of something: far above any model, and low enough that products of a
 * few of them are told from an overflow. */
enum {
    ORR_MODEL_MAX_LAYERS = 1 << 14,
    ORR_MODEL_MAX_WIDTH = 1 << 24,
    ORR_MODEL_MAX_TOKENS = 1 << 30,
};
/* What the map says, into *ret; what it does not say stays. `what` begins messages: "model 'x'".
 * Errors: INVALID with the position. */
orr_status orr_spec_read(const orr_yaml *map, const char *what, const orr_spec_field *fields,
                         size_t n_fields, orr_model *ret, orr_error *err) ORR_MUST_CHECK;
/* What an entry that says nothing has. */
orr_model orr_model_default(void);
/* Fills in what follows from the rest, and holds the shape against what a model needs. INVALID
 * at `at`. */
orr_status orr_model_complete(orr_model *model, const orr_yaml *at, orr_error *err) ORR_MUST_CHECK;

/* How many layers have experts, see everything, look at pictures. */
uint32_t orr_model_moe_layers(const orr_model *model);
uint32_t orr_model_global_layers(const orr_model *model);
uint32_t orr_model_cross_layers(const orr_model *model);

/* Models while files are read: as they are, and as they were written, before what follows was
 * filled in (what is `like` a model follows from its own numbers). Arrays are freed by done; what
 * they point to is the arena's. */
typedef struct orr_model_registry {
    orr_array(const orr_model *) models, written;
    orr_arena *arena;
} orr_model_registry;
void orr_model_registry_done(orr_model_registry *registry);
/* The models of a file, put behind those on the registry, which they may be `like`. `source`: what
 * their facts rest on where the file does not say; NULL: it has to. */
orr_status orr_spec_read_file(const orr_yaml *file, const char *source,
                              orr_model_registry *registry, orr_error *err) ORR_MUST_CHECK;
/* By name, the last one; NULL: none. Names are the same whatever their case, and with '_' for '-'.
 */
const orr_model *orr_model_find(const orr_model *const *models, size_t n, const char *name);

/* A Hugging Face config.json, or the text of one. */
orr_status orr_config_load(const char *path, orr_arena *arena, const orr_model **ret,
                           orr_error *err) ORR_MUST_CHECK;
orr_status orr_config_read(const orr_yaml *root, orr_arena *arena, const orr_model **ret,
                           orr_error *err) ORR_MUST_CHECK;
/* JSON as a tree that remembers where each value stood. `file`: how messages call it. Errors:
 * PARSE, LIMIT and INVALID (a key twice) with the position; NO_MEMORY. */
orr_status orr_config_parse(const char *text, size_t len, const char *file, orr_arena *arena,
                            const orr_yaml **ret, orr_error *err) ORR_MUST_CHECK;

/* The files of catalog/models, put into the library at build time by tools/embed.py. */
extern const orr_catalog_file orr_model_files[];
extern const size_t orr_n_model_files;

#endif /* ORR_MODEL_SPEC_SPEC_H */
