/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "machine/catalog/entries.h"

#define FACT(key_, quantity_, field)                                                               \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_FACT, .quantity = ORR_QUANTITY_##quantity_,               \
        .offset = offsetof(orr_device, field)                                                      \
    }
#define TEXT(key_, field)                                                                          \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_TEXT, .offset = offsetof(orr_device, field)               \
    }
#define DTYPES(key_, field)                                                                        \
    {                                                                                              \
        .key = (key_), .kind = ORR_FIELD_DTYPES, .quantity = ORR_QUANTITY_FLOPS,                   \
        .offset = offsetof(orr_device, field)                                                      \
    }

static const orr_field FIELDS[] = {
    {.key = "vendor",
     .kind = ORR_FIELD_TEXT,
     .offset = offsetof(orr_device, vendor),
     .required = true},
    {.key = "kind", .kind = ORR_FIELD_TEXT, .offset = offsetof(orr_device, kind), .required = true},
    {.key = "matches",
     .kind = ORR_FIELD_TEXTS,
     .offset = offsetof(orr_device, matches),
     .count = offsetof(orr_device, n_matches)},
    DTYPES("peak", peak_flops),
    DTYPES("matmul", matmul_flops),
    FACT("memory", BYTES, memory_bytes),
    TEXT("memory_type", memory_type),
    {.key = "memory_bandwidth",
     .kind = ORR_FIELD_FACT,
     .quantity = ORR_QUANTITY_BANDWIDTH,
     .offset = offsetof(orr_device, memory_bytes_per_s),
     .required = true},
    FACT("achievable_memory_bandwidth", BANDWIDTH, achievable_memory_bytes_per_s),
    FACT("l2", BYTES, l2_bytes),
    FACT("l2_bandwidth", BANDWIDTH, l2_bytes_per_s),
    FACT("shared_memory_bandwidth", BANDWIDTH, shared_memory_bytes_per_s),
    FACT("sms", COUNT, sms),
    FACT("clock", HZ, clock_hz),
    FACT("launch_latency", NS, launch_latency_ns),
    FACT("kernel_gap", NS, kernel_gap_ns),
    TEXT("pcie", pcie),
    FACT("pcie_bandwidth", BANDWIDTH, pcie_bytes_per_s),
    FACT("achievable_pcie_bandwidth", BANDWIDTH, achievable_pcie_bytes_per_s),
    TEXT("scale_up", scale_up),
    FACT("scale_up_bandwidth", BANDWIDTH, scale_up_bytes_per_s),
    FACT("scale_up_pair_bandwidth", BANDWIDTH, scale_up_pair_bytes_per_s),
    TEXT("nic", nic),
    FACT("nic_bandwidth", BANDWIDTH, nic_bytes_per_s),
    FACT("power", WATT, power_w),
    FACT("idle_power", WATT, idle_power_w),
    FACT("price_per_hour", USD, price_per_hour),
    TEXT("notes", notes),
};

const orr_field *orr_device_fields(size_t *ret_n)
{
    *ret_n = sizeof FIELDS / sizeof *FIELDS;
    return FIELDS;
}

orr_status orr_device_read(const orr_yaml *name, const orr_yaml *map, const orr_scope *scope,
                           const orr_device **ret, orr_error *err)
{
    orr_device *device = orr_arena_one(scope->arena, orr_device);
    orr_scope inner = *scope;
    char what[128];
    if (device == NULL)
        return orr_fail_memory(err);
    (void)snprintf(what, sizeof what, "device '%.80s'", name->text);
    ORR_TRY(
        orr_schema_read(map, what, FIELDS, sizeof FIELDS / sizeof *FIELDS, &inner, device, err));
    device->name = name->text;
    *ret = device;
    return ORR_OK;
}
