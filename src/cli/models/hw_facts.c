/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "cli/models/hw.h"
#include "report/humanize/human.h"

#define C(name, type)                                                                              \
    {                                                                                              \
#name, ORR_COLUMN_##type, offsetof(orr_hw_fact, name)                                      \
    }
static const orr_column FACT_COLUMNS[] = {
    C(name, TEXT),  C(fact, TEXT),     C(text, TEXT),   C(value, NUMBER), C(unit, TEXT),
    C(basis, TEXT), C(conflict, BOOL), C(source, TEXT), C(note, TEXT),
};
static const orr_column PEOPLE_COLUMNS[] = {
    C(name, TEXT),  C(fact, TEXT),
    C(or, TEXT),    {"value", ORR_COLUMN_TEXT, offsetof(orr_hw_fact, text)},
    C(basis, TEXT), C(source, TEXT),
    C(note, TEXT),
};
#undef C
#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Where rows go. */
typedef struct fact_list {
    orr_array(orr_hw_fact) rows;
    orr_arena *arena;
    orr_error *err;
} fact_list;

static const char *unit_of(orr_quantity quantity)
{
    static const char *const units[] = {
        [ORR_QUANTITY_COUNT] = "",
        [ORR_QUANTITY_BYTES] = "bytes",
        [ORR_QUANTITY_BANDWIDTH] = "bytes_per_s",
        [ORR_QUANTITY_NS] = "ns",
        [ORR_QUANTITY_NS_PER_KM] = "ns_per_km",
        [ORR_QUANTITY_FLOPS] = "flops_per_s",
        [ORR_QUANTITY_HZ] = "hz",
        [ORR_QUANTITY_WATT] = "w",
        [ORR_QUANTITY_IOPS] = "per_s",
        [ORR_QUANTITY_NUMBER] = "",
        [ORR_QUANTITY_RATIO] = "",
        [ORR_QUANTITY_KM] = "km",
        [ORR_QUANTITY_USD] = "usd",
    };
    return units[quantity];
}

/* As the field writes it: always TFLOPS, whatever the size. */
static void human(char buf[ORR_HUMAN_MAX], double value, orr_quantity quantity)
{
    switch (quantity) {
    case ORR_QUANTITY_BYTES:
        orr_human_bytes(buf, value);
        break;
    case ORR_QUANTITY_BANDWIDTH:
        orr_human_bytes_per_s(buf, value);
        break;
    case ORR_QUANTITY_NS:
        orr_human_ns(buf, value);
        break;
    case ORR_QUANTITY_NS_PER_KM:
        snprintf(buf, ORR_HUMAN_MAX, "%.6g us/km", value / 1e3);
        break;
    case ORR_QUANTITY_FLOPS:
        snprintf(buf, ORR_HUMAN_MAX, "%.6g TFLOPS", value / 1e12);
        break;
    case ORR_QUANTITY_HZ:
        snprintf(buf, ORR_HUMAN_MAX, "%.6g MHz", value / 1e6);
        break;
    case ORR_QUANTITY_WATT:
        snprintf(buf, ORR_HUMAN_MAX, "%.6g W", value);
        break;
    case ORR_QUANTITY_IOPS:
        snprintf(buf, ORR_HUMAN_MAX, "%.6g kIOPS", value / 1e3);
        break;
    case ORR_QUANTITY_KM:
        snprintf(buf, ORR_HUMAN_MAX, "%.6g km", value);
        break;
    case ORR_QUANTITY_USD:
        snprintf(buf, ORR_HUMAN_MAX, "%.6g USD", value);
        break;
    case ORR_QUANTITY_COUNT:
    case ORR_QUANTITY_NUMBER:
    case ORR_QUANTITY_RATIO:
        snprintf(buf, ORR_HUMAN_MAX, "%.6g", value);
        break;
    }
}

/* NULL, an empty cell, for an empty text. */
static const char *or_null(const char *text)
{
    return text[0] != '\0' ? text : NULL;
}

static orr_status push(fact_list *list, orr_hw_fact row)
{
    return orr_array_push(&list->rows, row) ? ORR_OK : orr_fail_memory(list->err);
}

static bool is_said(const orr_fact *fact)
{
    return fact->basis != ORR_FACT_UNKNOWN || fact->conflict != NULL || fact->note[0] != '\0';
}

static orr_status add_fact(fact_list *list, const char *name, const char *key,
                           orr_quantity quantity, const orr_fact *fact, bool conflict)
{
    char buf[ORR_HUMAN_MAX] = "unknown";
    if (fact->basis != ORR_FACT_UNKNOWN)
        human(buf, fact->value, quantity);
    if (strstr(key, "_int") != NULL && strstr(buf, "TFLOPS") != NULL)
        memcpy(strstr(buf, "TFLOPS"), "TOPS", sizeof "TOPS"); /* of integers */
    const char *text = orr_arena_printf(list->arena, "%s", buf);
    if (text == NULL)
        return orr_fail_memory(list->err);
    ORR_TRY(push(list, (orr_hw_fact){.name = name,
                                     .fact = key,
                                     .text = text,
                                     .value = fact->value,
                                     .unit = or_null(unit_of(quantity)),
                                     .basis = orr_fact_basis_name(fact->basis),
                                     .source = or_null(fact->source),
                                     .note = or_null(fact->note),
                                     .conflict = conflict,
                                     .or = conflict ? "or" : NULL}));
    for (const orr_fact *other = fact->conflict; other != NULL && !conflict;
         other = other->conflict)
        ORR_TRY(add_fact(list, name, key, quantity, other, true));
    return ORR_OK;
}

static orr_status add_dtypes(fact_list *list, const char *name, const orr_field *field,
                             const orr_fact *facts)
{
    for (int dtype = 0; dtype < ORR_DTYPES; dtype++) {
        if (!is_said(&facts[dtype]))
            continue;
        const char *key =
            orr_arena_printf(list->arena, "%s_%s", field->key, orr_dtype_name((orr_dtype)dtype));
        if (key == NULL)
            return orr_fail_memory(list->err);
        ORR_TRY(add_fact(list, name, key, field->quantity, &facts[dtype], false));
    }
    return ORR_OK;
}

static orr_status add_texts(fact_list *list, const char *name, const orr_field *field,
                            const char *object)
{
    const char *const *texts = *(const char *const *const *)(object + field->offset);
    const uint32_t n = *(const uint32_t *)(object + field->count);
    const char *joined = NULL;
    for (uint32_t i = 0; i < n; i++) {
        joined =
            joined == NULL ? texts[i] : orr_arena_printf(list->arena, "%s; %s", joined, texts[i]);
        if (joined == NULL)
            return orr_fail_memory(list->err);
    }
    return joined == NULL
               ? ORR_OK
               : push(list, (orr_hw_fact){
                                .name = name, .fact = field->key, .text = joined, .value = NAN});
}

/* Remarks stand where remarks on facts do. */
static orr_status add_text(fact_list *list, const char *name, const char *key, const char *text)
{
    const bool notes = strcmp(key, "notes") == 0;
    return text[0] == '\0' ? ORR_OK
                           : push(list, (orr_hw_fact){.name = name,
                                                      .fact = key,
                                                      .text = notes ? NULL : text,
                                                      .note = notes ? text : NULL,
                                                      .value = NAN});
}

static orr_status add_field(fact_list *list, const orr_hw_entry *entry, const orr_field *field)
{
    const char *object = entry->object, *at = object + field->offset;
    switch ((orr_field_kind)field->kind) {
    case ORR_FIELD_FACT: {
        const orr_fact *fact = (const orr_fact *)at;
        return is_said(fact) ? add_fact(list, entry->name, field->key, field->quantity, fact, false)
                             : ORR_OK;
    }
    case ORR_FIELD_DTYPES:
        return add_dtypes(list, entry->name, field, (const orr_fact *)at);
    case ORR_FIELD_TEXTS:
        return add_texts(list, entry->name, field, object);
    case ORR_FIELD_TEXT:
        return add_text(list, entry->name, field->key, *(const char *const *)at);
    case ORR_FIELD_OTHER:
        break;
    }
    return ORR_OK;
}

static orr_status collect(fact_list *list, const orr_hw_entry *entries, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (size_t f = 0; f < entries[i].n_fields; f++)
            ORR_TRY(add_field(list, &entries[i], &entries[i].fields[f]));
    return ORR_OK;
}

/* For people without what the tables before it showed: texts, which nobody disputes. */
static size_t without_texts(orr_hw_fact *rows, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++)
        if (rows[i].basis != NULL || rows[i].note != NULL)
            rows[kept++] = rows[i];
    return kept;
}

orr_status orr_hw_facts(const orr_hw_entry *entries, size_t n, bool for_people, orr_arena *arena,
                        orr_table *ret, orr_error *err)
{
    fact_list list = {.arena = arena, .err = err};
    orr_status status = collect(&list, entries, n);
    orr_hw_fact *rows = NULL;
    if (status == ORR_OK) {
        rows = orr_arena_array(arena, orr_hw_fact, list.rows.n);
        status = rows != NULL ? ORR_OK : orr_fail_memory(err);
    }
    if (status == ORR_OK) {
        if (list.rows.n > 0)
            memcpy(rows, list.rows.at, list.rows.n * sizeof *rows);
        *ret = (orr_table){"orrery.hw_facts/1",
                           "what each number rests on",
                           for_people ? PEOPLE_COLUMNS : FACT_COLUMNS,
                           for_people ? COUNT(PEOPLE_COLUMNS) : COUNT(FACT_COLUMNS),
                           rows,
                           sizeof *rows,
                           for_people ? without_texts(rows, list.rows.n) : list.rows.n};
    }
    orr_array_done(&list.rows);
    return status;
}
