/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "machine/catalog/entries.h"

#define FACT(key_, quantity_, field)                                                               \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_FACT, .quantity = ORR_QUANTITY_##quantity_,               \
        .offset = offsetof(orr_memory_tier, field)                                                 \
    }

static const orr_field FIELDS[] = {
    {.key = "kind",
     .kind = ORR_FIELD_TEXT,
     .offset = offsetof(orr_memory_tier, kind),
     .required = true},
    FACT("capacity", BYTES, capacity_bytes),
    FACT("granule", BYTES, granule_bytes),
    FACT("read_latency", NS, read_latency_ns),
    FACT("write_latency", NS, write_latency_ns),
    FACT("read_bandwidth", BANDWIDTH, read_bytes_per_s),
    FACT("write_bandwidth", BANDWIDTH, write_bytes_per_s),
    FACT("read_4k", IOPS, read_iops_4k),
    FACT("write_4k", IOPS, write_iops_4k),
    FACT("endurance_dwpd", NUMBER, endurance_dwpd),
    FACT("power", WATT, power_w),
    FACT("idle_power", WATT, idle_power_w),
    {.key = "notes", .kind = ORR_FIELD_TEXT, .offset = offsetof(orr_memory_tier, notes)},
};

const orr_field *orr_tier_fields(size_t *ret_n)
{
    *ret_n = sizeof FIELDS / sizeof *FIELDS;
    return FIELDS;
}

orr_status orr_tier_read(const orr_yaml *name, const orr_yaml *map, const orr_scope *scope,
                         const orr_memory_tier **ret, orr_error *err)
{
    orr_memory_tier *tier = orr_arena_one(scope->arena, orr_memory_tier);
    orr_scope inner = *scope;
    char what[128];
    if (tier == NULL)
        return orr_fail_memory(err);
    (void)snprintf(what, sizeof what, "memory '%.80s'", name->text);
    ORR_TRY(orr_schema_read(map, what, FIELDS, sizeof FIELDS / sizeof *FIELDS, &inner, tier, err));
    tier->name = name->text;
    *ret = tier;
    return ORR_OK;
}
