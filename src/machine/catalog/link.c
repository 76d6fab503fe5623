/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "machine/catalog/entries.h"

#define FACT(key_, quantity_, field)                                                               \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_FACT, .quantity = ORR_QUANTITY_##quantity_,               \
        .offset = offsetof(orr_link, field)                                                        \
    }
#define TEXT(key_, field)                                                                          \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_TEXT, .offset = offsetof(orr_link, field)                 \
    }

static const orr_field FIELDS[] = {
    {.key = "kind", .kind = ORR_FIELD_TEXT, .offset = offsetof(orr_link, kind), .required = true},
    {.key = "aliases",
     .kind = ORR_FIELD_TEXTS,
     .offset = offsetof(orr_link, aliases),
     .count = offsetof(orr_link, n_aliases)},
    FACT("bandwidth", BANDWIDTH, bytes_per_s),
    FACT("latency", NS, latency_ns),
    FACT("latency_by_distance", NS_PER_KM, latency_ns_per_km),
    TEXT("reach", reach),
    TEXT("notes", notes),
};

const orr_field *orr_link_fields(size_t *ret_n)
{
    *ret_n = sizeof FIELDS / sizeof *FIELDS;
    return FIELDS;
}

orr_status orr_link_read(const orr_yaml *name, const orr_yaml *map, const orr_scope *scope,
                         const orr_link **ret, orr_error *err)
{
    orr_link *link = orr_arena_one(scope->arena, orr_link);
    orr_scope inner = *scope;
    char what[128];
    if (link == NULL)
        return orr_fail_memory(err);
    (void)snprintf(what, sizeof what, "link '%.80s'", name->text);
    ORR_TRY(orr_schema_read(map, what, FIELDS, sizeof FIELDS / sizeof *FIELDS, &inner, link, err));
    link->name = name->text;
    *ret = link;
    return ORR_OK;
}
