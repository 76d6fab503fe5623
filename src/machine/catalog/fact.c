/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "machine/catalog/schema.h"

orr_fact orr_fact_unknown(void)
{
    return (orr_fact){.value = NAN, .source = "", .note = ""};
}

static orr_status read_basis(const orr_yaml *value, uint8_t *ret, orr_error *err)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        ORR_FACT_BASIS_MAP(NAME_)
#undef NAME_
    };
    enum { BASES = sizeof names / sizeof *names };
    const char *text;
    ORR_TRY(orr_text_read(value, "basis", &text, err));
    for (uint8_t basis = ORR_FACT_UNKNOWN + 1; basis < BASES; basis++) {
        if (strcmp(text, names[basis]) == 0) {
            *ret = basis;
            return ORR_OK;
        }
    }
    return orr_fail_unknown(value, "basis", text, names + 1, BASES - 1, err);
}

/* Expands an abbreviation of a source. A text of one word must be one, which catches typing
 * errors; other texts are sources themselves. */
static orr_status expand_source(const orr_yaml *value, const orr_scope *scope, const char **ret,
                                orr_error *err)
{
    const orr_yaml *all = scope->abbreviations;
    const char *text;
    ORR_TRY(orr_text_read(value, "source", &text, err));
    const orr_yaml *meant = all != NULL ? orr_yaml_find(all, text) : NULL;
    if (meant != NULL)
        return orr_text_read(meant, text, ret, err);
    if (all != NULL && strpbrk(text, " ./:") == NULL) {
        const char *candidates[64];
        size_t n = 0;
        for (; n < all->n && n < sizeof candidates / sizeof *candidates; n++)
            candidates[n] = all->keys[n]->text;
        return orr_fail_unknown(value, "source of this file", text, candidates, n, err);
    }
    *ret = text;
    return ORR_OK;
}

/* One source, or a list of them joined to one text. */
static orr_status read_source(const orr_yaml *value, const orr_scope *scope, const char **ret,
                              orr_error *err)
{
    if (value->kind != ORR_YAML_LIST)
        return expand_source(value, scope, ret, err);
    const char *joined = NULL;
    for (uint32_t i = 0; i < value->n; i++) {
        const char *text;
        ORR_TRY(expand_source(value->values[i], scope, &text, err));
        joined = joined == NULL ? text : orr_arena_printf(scope->arena, "%s; %s", joined, text);
        if (joined == NULL)
            return orr_fail_memory(err);
    }
    if (joined == NULL)
        return orr_yaml_fail(value, ORR_INVALID, err, "source: an empty list");
    *ret = joined;
    return ORR_OK;
}

orr_status orr_scope_enter(const orr_yaml *map, orr_scope *scope, orr_error *err)
{
    const orr_yaml *basis = orr_yaml_find(map, "basis"), *source = orr_yaml_find(map, "source");
    if (basis != NULL)
        ORR_TRY(read_basis(basis, &scope->basis, err));
    if (source != NULL)
        ORR_TRY(read_source(source, scope, &scope->source, err));
    return ORR_OK;
}

/* The value of a fact. "unknown" says that it was looked for and not found. */
static orr_status read_value(const orr_yaml *value, const char *key, orr_quantity quantity,
                             const orr_scope *scope, orr_fact *ret, orr_error *err)
{
    *ret = orr_fact_unknown();
    if (value->kind == ORR_YAML_SCALAR && strcmp(value->text, "unknown") == 0)
        return ORR_OK;
    ORR_TRY(orr_quantity_read(value, key, quantity, &ret->value, err));
    if (scope->basis == ORR_FACT_UNKNOWN)
        return orr_yaml_fail(value, ORR_INVALID, err,
                             "%s: on what basis? say published, measured, "
                             "derived or assumed here or for the whole entry",
                             key);
    if (scope->source == NULL)
        return orr_yaml_fail(value, ORR_INVALID, err,
                             "%s: from where? say its source here or for the whole entry", key);
    ret->basis = scope->basis;
    ret->source = scope->source;
    return ORR_OK;
}

static orr_status read_map(const orr_yaml *map, const char *key, orr_quantity quantity,
                           const orr_scope *outer, bool has_conflicts, orr_fact *ret,
                           orr_error *err);

static orr_status read_conflicts(const orr_yaml *list, const char *key, orr_quantity quantity,
                                 const orr_scope *scope, const orr_fact **ret, orr_error *err)
{
    if (list->kind != ORR_YAML_LIST)
        return orr_yaml_fail(list, ORR_INVALID, err,
                             "%s: conflicts is a list of {value, basis, source}", key);
    orr_fact *facts = orr_arena_array(scope->arena, orr_fact, list->n);
    if (facts == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < list->n; i++) {
        if (list->values[i]->kind != ORR_YAML_MAP)
            return orr_yaml_fail(list->values[i], ORR_INVALID, err,
                                 "%s: a conflict is {value, basis, source}", key);
        ORR_TRY(read_map(list->values[i], key, quantity, scope, false, &facts[i], err));
        if (i > 0)
            facts[i - 1].conflict = &facts[i];
    }
    *ret = list->n > 0 ? facts : NULL;
    return ORR_OK;
}

static orr_status check_keys(const orr_yaml *map, bool has_conflicts, orr_error *err)
{
    static const char *const keys[] = {"value", "basis", "source", "note", "conflicts"};
    const size_t n = sizeof keys / sizeof *keys - !has_conflicts;
    for (uint32_t i = 0; i < map->n; i++) {
        size_t k = 0;
        while (k < n && strcmp(map->keys[i]->text, keys[k]) != 0)
            k++;
        if (k == n)
            return orr_fail_unknown(map->keys[i], "part of a fact", map->keys[i]->text, keys, n,
                                    err);
    }
    return ORR_OK;
}

static orr_status read_map(const orr_yaml *map, const char *key, orr_quantity quantity,
                           const orr_scope *outer, bool has_conflicts, orr_fact *ret,
                           orr_error *err)
{
    const orr_yaml *value = orr_yaml_find(map, "value"), *note = orr_yaml_find(map, "note");
    const orr_yaml *conflicts = orr_yaml_find(map, "conflicts");
    orr_scope scope = *outer;
    ORR_TRY(check_keys(map, has_conflicts, err));
    if (value == NULL)
        return orr_yaml_fail(map, ORR_INVALID, err, "%s: the value is missing", key);
    ORR_TRY(orr_scope_enter(map, &scope, err));
    ORR_TRY(read_value(value, key, quantity, &scope, ret, err));
    if (orr_yaml_find(map, "source") != NULL)
        ret->source = scope.source; /* also for the word "unknown" */
    if (note != NULL)
        ORR_TRY(orr_text_read(note, "note", &ret->note, err));
    return conflicts == NULL ? ORR_OK
                             : read_conflicts(conflicts, key, quantity, outer, &ret->conflict, err);
}

orr_status orr_fact_read(const orr_yaml *value, const char *key, orr_quantity quantity,
                         const orr_scope *scope, orr_fact *ret, orr_error *err)
{
    return value->kind == ORR_YAML_MAP ? read_map(value, key, quantity, scope, true, ret, err)
                                       : read_value(value, key, quantity, scope, ret, err);
}
