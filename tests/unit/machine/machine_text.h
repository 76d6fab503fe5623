/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_MACHINE_TEXT_H
#define ORR_TESTS_MACHINE_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "machine/catalog/entries.h"

/* Catalogue files as texts of a test. */
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

static inline const orr_yaml *yaml(const char *text)
{
    const orr_yaml *root = NULL;
    orr_error err = {0};
    if (orr_yaml_parse(text, strlen(text), "t.yaml", arena, &root, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return root;
}

/* The whole file; its numbers need a basis and a source of their own. */
static inline orr_status read_catalog(const char *text, const orr_catalog **ret, orr_error *err)
{
    const orr_scope scope = {.arena = arena};
    orr_catalog_builder shelf = {.arena = arena};
    const orr_yaml *file = yaml(text);
    orr_status status = orr_catalog_file_read_parts(file, &scope, &shelf, err);
    if (status == ORR_OK)
        status = orr_catalog_file_read_clusters(file, &scope, &shelf, err);
    if (status == ORR_OK)
        status = orr_catalog_builder_freeze(&shelf, ret, err);
    orr_catalog_builder_done(&shelf);
    return status;
}

static inline const orr_catalog *catalog_of(const char *text)
{
    const orr_catalog *catalog = NULL;
    orr_error err = {0};
    if (read_catalog(text, &catalog, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return catalog;
}

static inline void assert_refused(const char *text, const char *message)
{
    const orr_catalog *catalog = NULL;
    orr_error err = {0};
    const orr_status status = read_catalog(text, &catalog, &err);
    assert_string_equal(err.text, message);
    assert_true(status == ORR_INVALID || status == ORR_LIMIT);
    assert_null(catalog);
}

static inline void assert_fact(const orr_fact *fact, double value, orr_fact_basis basis,
                               const char *source)
{
    assert_true(fact->value == value);
    assert_int_equal(fact->basis, basis);
    assert_string_equal(fact->source, source);
}

#endif /* ORR_TESTS_MACHINE_TEXT_H */
