/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_SPEC_CONFIG_H
#define ORR_MODEL_SPEC_CONFIG_H

#include "model/spec/spec.h"

/* A key of a config.json ("a.b" for b in a) and the field of orr_model that it goes to. A key
 * whose value is null counts as absent. */
typedef struct orr_config_key {
    const char *path;
    uint8_t kind; /* ORR_SPEC_U32, ORR_SPEC_NUMBER or ORR_SPEC_BOOL */
    bool required;
    size_t offset; /* in orr_model */
} orr_config_key;
typedef struct orr_config_table {
    const orr_config_key *keys; /* shape (n) */
    size_t n;
} orr_config_table;

/* The reader of one architecture: its keys, and values of keys that are absent. */
enum { ORR_CONFIG_TABLES = 4 };
typedef struct orr_config_architecture {
    const char *architecture;
    double norm_epsilon, rope_theta; /* where the keys are absent */
    orr_config_table tables[ORR_CONFIG_TABLES];
    orr_status (*finish)(const orr_yaml *root, orr_model *model, orr_error *err); /* may be NULL */
} orr_config_architecture;
const orr_config_architecture *orr_config_architectures(size_t *ret_n);

/* Reads how rotary positions are scaled, where the file says so. */
void orr_config_read_rope(const orr_yaml *root, orr_model *model);

/* The value at a path; NULL: absent or null. */
const orr_yaml *orr_config_find(const orr_yaml *root, const char *path);

#endif /* ORR_MODEL_SPEC_CONFIG_H */
