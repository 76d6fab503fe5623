/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/kineto/reader.h"

#include <stdio.h>

/* Top-level keys other than traceEvents: facts about the recording, devices, process groups. */

/* Skips the rest of an unexpected array or object that was entered. */
static orr_status leave(kineto *k, orr_json_type type, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_text key;
    if (type == ORR_JSON_ARRAY)
        while (orr_json_next_element(k->json, &status, err))
            ORR_TRY(orr_json_skip(k->json, err));
    if (type == ORR_JSON_OBJECT)
        while (orr_json_next_key(k->json, &key, &status, err))
            ORR_TRY(orr_json_skip(k->json, err));
    return status;
}

/* Keeps a fact about the recording as an attribute, unless it is a list or empty. */
static orr_status keep_attr(kineto *k, orr_text key, orr_error *err)
{
    orr_str name;
    ORR_TRY(orr_builder_str(k->builder, key.at, key.n, &name, err));
    k->attrs.n = k->attr_values.n = 0;
    ORR_TRY(kineto_read_attr(k, name, err));
    if (k->attrs.n == 0 || !k->options->attributes)
        return ORR_OK;
    if (!orr_array_push(&k->recording_attrs, k->attrs.at[0]))
        return orr_fail_memory(err);
    if (!orr_array_push(&k->recording_values, k->attr_values.at[0])) {
        k->recording_attrs.n--;
        return orr_fail_memory(err);
    }
    return ORR_OK;
}

static orr_status read_int(kineto *k, int64_t *to, orr_error *err)
{
    int64_t value;
    bool is;
    ORR_TRY(orr_json_int64(k->json, &value, &is, err));
    if (is)
        *to = value;
    return ORR_OK;
}

/* Kept as text, in the form of PyTorch's own process_group:init. */
static orr_status read_groups(kineto *k, orr_error *err)
{
    orr_text raw;
    bool whole;
    ORR_TRY(orr_json_raw(k->json, &raw, err));
    return orr_process_groups_read(&k->groups, k->builder, raw.at, raw.n, &whole, err);
}

static orr_status read_distributed(kineto *k, orr_error *err)
{
    orr_json_value v;
    orr_text key;
    orr_status status = ORR_OK;
    int64_t rank = -1, world = 0;
    ORR_TRY(orr_json_value_next(k->json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return leave(k, v.type, err);
    while (orr_json_next_key(k->json, &key, &status, err)) {
        if (orr_text_is(key, "rank"))
            ORR_TRY(read_int(k, &rank, err));
        else if (orr_text_is(key, "world_size"))
            ORR_TRY(read_int(k, &world, err));
        else if (orr_text_is(key, "pg_config"))
            ORR_TRY(read_groups(k, err));
        else
            ORR_TRY(keep_attr(k, key, err));
    }
    ORR_TRY(status);
    orr_recording *recording = &k->builder->recording;
    if (rank >= 0 && rank < ORR_NONE)
        recording->rank = (uint32_t)rank;
    if (world > 0 && world < ORR_NONE)
        recording->world_size = (uint32_t)world;
    return ORR_OK;
}

static orr_status read_device(kineto *k, orr_error *err)
{
    orr_json_value v;
    orr_text key, text;
    orr_status status = ORR_OK;
    orr_str name = 0;
    int64_t id = -1;
    bool is;
    ORR_TRY(orr_json_value_next(k->json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return leave(k, v.type, err);
    while (orr_json_next_key(k->json, &key, &status, err)) {
        if (orr_text_is(key, "id")) {
            ORR_TRY(read_int(k, &id, err));
        } else if (orr_text_is(key, "name")) {
            ORR_TRY(orr_json_text(k->json, &text, &is, err));
            if (is)
                ORR_TRY(orr_builder_str(k->builder, text.at, text.n, &name, err));
        } else {
            ORR_TRY(orr_json_skip(k->json, err));
        }
    }
    ORR_TRY(status);
    return orr_array_push(&k->devices, ((kineto_device){id, name})) ? ORR_OK : orr_fail_memory(err);
}

static orr_status read_devices(kineto *k, orr_error *err)
{
    orr_json_value v;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_value_next(k->json, &v, err));
    if (v.type != ORR_JSON_ARRAY)
        return leave(k, v.type, err);
    while (orr_json_next_element(k->json, &status, err))
        ORR_TRY(read_device(k, err));
    return status;
}

orr_status kineto_read_header(kineto *k, orr_text key, orr_error *err)
{
    if (orr_text_is(key, "schemaVersion"))
        return read_int(k, &k->schema_version, err);
    if (orr_text_is(key, "baseTimeNanoseconds"))
        return read_int(k, &k->builder->recording.base_ns, err);
    if (orr_text_is(key, "distributedInfo"))
        return read_distributed(k, err);
    if (orr_text_is(key, "deviceProperties"))
        return read_devices(k, err);
    /* The profiler's log and settings: skipped. */
    if (orr_text_is(key, "INFO") || orr_text_is(key, "ERROR") || orr_text_is(key, "WARNING") ||
        orr_text_is(key, "metadata"))
        return orr_json_skip(k->json, err);
    return keep_attr(k, key, err);
}

/* The device that was active; the recorded list has all devices of the host. */
static orr_str device_name(const kineto *k)
{
    for (size_t i = 0; i < k->devices.n; i++)
        if (k->devices.at[i].id == k->first_device)
            return k->devices.at[i].name;
    return k->devices.n > 0 ? k->devices.at[0].name : 0;
}

orr_status kineto_finish_header(kineto *k, orr_error *err)
{
    char source[32];
    const int n =
        k->is_list ? snprintf(source, sizeof source, "kineto 0")
                   : snprintf(source, sizeof source, "kineto %lld", (long long)k->schema_version);
    orr_recording *recording = &k->builder->recording;
    ORR_TRY(orr_builder_str(k->builder, source, (size_t)n, &recording->source, err));
    recording->device_name = device_name(k);
    for (size_t i = 0; i < k->recording_attrs.n; i++)
        k->recording_attrs.at[i].values = &k->recording_values.at[i];
    return k->recording_attrs.n == 0
               ? ORR_OK
               : orr_builder_attrs(k->builder, ORR_NONE, k->recording_attrs.at,
                                   (uint32_t)k->recording_attrs.n, err);
}
