/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fuzz.h"
#include "io/yaml/yaml.h"

/* A tree is whole: no value is missing, all stand somewhere, keys are texts, and are found again.
 */
static void check_tree(const orr_yaml *node, int depth)
{
    FUZZ_CHECK(depth < 64);
    FUZZ_CHECK(node != NULL && node->line > 0 && node->column > 0);
    if (node->kind == ORR_YAML_SCALAR) {
        FUZZ_CHECK(node->text != NULL && node->n == 0);
        return;
    }
    for (uint32_t i = 0; i < node->n; i++) {
        check_tree(node->values[i], depth + 1);
        if (node->kind == ORR_YAML_MAP) {
            FUZZ_CHECK(node->keys[i]->kind == ORR_YAML_SCALAR);
            if (node->n < 64)
                FUZZ_CHECK(orr_yaml_find(node, node->keys[i]->text) == node->values[i]);
        }
    }
}

static void check_numbers(const orr_yaml *node)
{
    int64_t whole;
    double number;
    bool truth;
    orr_error err;
    if (orr_yaml_int(node, &whole, &err) == ORR_OK)
        FUZZ_CHECK(orr_yaml_number(node, &number, &err) == ORR_OK && number == (double)whole);
    else
        FUZZ_CHECK(strncmp(err.text, "input.yaml:", 11) == 0);
    if (orr_yaml_bool(node, &truth, &err) != ORR_OK)
        FUZZ_CHECK(err.status == ORR_INVALID);
    for (uint32_t i = 0; i < node->n; i++)
        check_numbers(node->values[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    orr_arena *arena = orr_arena_new(0, 0);
    const orr_yaml *root = NULL;
    orr_error err = {0};
    const orr_status status =
        orr_yaml_parse((const char *)bytes, len, "input.yaml", arena, &root, &err);
    if (status == ORR_OK) {
        check_tree(root, 0);
        check_numbers(root);
    } else {
        FUZZ_CHECK(root == NULL);
        FUZZ_CHECK(status == ORR_PARSE || status == ORR_LIMIT);
        FUZZ_CHECK(strncmp(err.text, "input.yaml:", 11) == 0);
    }
    orr_arena_free(arena);
    return 0;
}
