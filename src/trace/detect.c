/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/common/reader.h"

#include <string.h>

#include "io/json/reader.h"
#include "io/protobuf/wire.h"
#include "trace/archive.h"

/* Format detection by content. At most this much of a file is read in search of a telling key;
 * headers have some kilobytes. */
static const size_t most_bytes = (size_t)64 << 20;
static const char sqlite_magic[16] = "SQLite format 3";

/* The format that a top-level key indicates. */
static orr_format format_of_key(orr_text key)
{
    static const struct {
        const char *key;
        orr_format format;
    } keys[] = {
        {"traceEvents", ORR_FORMAT_KINETO},         {"deviceProperties", ORR_FORMAT_KINETO},
        {"schemaVersion", ORR_FORMAT_KINETO},       {"distributedInfo", ORR_FORMAT_KINETO},
        {"baseTimeNanoseconds", ORR_FORMAT_KINETO}, {"nodes", ORR_FORMAT_PYTORCH_ET},
        {"workload_graph", ORR_FORMAT_CHAKRA_JSON}, {"segments", ORR_FORMAT_TORCH_MEMORY},
        {"device_traces", ORR_FORMAT_TORCH_MEMORY},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (orr_text_equal(key, keys[i].key, strlen(keys[i].key)))
            return keys[i].format;
    return ORR_FORMAT_UNKNOWN;
}

static orr_status look_at_object(orr_json *json, orr_format *ret, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_text key;
    while (orr_json_next_key(json, &key, &status, err)) {
        *ret = format_of_key(key);
        if (*ret != ORR_FORMAT_UNKNOWN)
            return ORR_OK;
        ORR_TRY(orr_json_skip(json, err));
    }
    return status;
}

/* A bare list of events: decided by the first one with a phase. */
static orr_status look_at_list(orr_json *json, orr_format *ret, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_json_value v;
    orr_text key;
    if (!orr_json_next_element(json, &status, err))
        return status;
    ORR_TRY(orr_json_value_next(json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return ORR_OK;
    while (orr_json_next_key(json, &key, &status, err)) {
        if (orr_text_is(key, "ph")) {
            *ret = ORR_FORMAT_KINETO;
            return ORR_OK;
        }
        ORR_TRY(orr_json_skip(json, err));
    }
    return status;
}

/* Parses the window as JSON that may end anywhere. *ret_more: the window is not enough to tell. */
static orr_status look_at_json(orr_window window, orr_format *ret, bool *ret_more, orr_error *err)
{
    orr_stream *stream = NULL;
    orr_json *json = NULL;
    orr_json_value v;
    orr_status status;
    ORR_TRY_OUT(status, orr_stream_open_memory(window.bytes, window.n, &stream, err));
    ORR_TRY_OUT(status, orr_json_new(stream, true, &json, err));
    ORR_TRY_OUT(status, orr_json_value_next(json, &v, err));
    if (v.type == ORR_JSON_OBJECT)
        status = look_at_object(json, ret, err);
    else if (v.type == ORR_JSON_ARRAY)
        status = look_at_list(json, ret, err);
    *ret_more = status == ORR_OK && *ret == ORR_FORMAT_UNKNOWN &&
                orr_json_faults(json, ORR_JSON_FAULT_TRUNCATED) > 0;
out:
    orr_json_free(json);
    orr_stream_close(stream);
    /* Text that is not JSON is of no known format, which is an answer, not an error. */
    return status == ORR_PARSE || status == ORR_LIMIT || status == ORR_INVALID ? ORR_OK : status;
}

/* Whether the window starts like JSON. A brace can also be the length of a protobuf message. */
static bool begins_as_json(orr_window w)
{
    size_t i = 0;
    if (w.n >= 3 && memcmp(w.bytes, "\xef\xbb\xbf", 3) == 0)
        i = 3;
    while (i < w.n && memchr(" \t\r\n", w.bytes[i], 4) != NULL)
        i++;
    if (i == w.n || (w.bytes[i] != '{' && w.bytes[i] != '['))
        return false;
    for (i++; i < w.n && memchr(" \t\r\n", w.bytes[i], 4) != NULL;)
        i++;
    return i == w.n || memchr("\"}{]", w.bytes[i], 4) != NULL;
}

/* Whether a field is one of Chakra's messages; fields of later versions come after those we
 * know. */
static bool is_chakra_field(const orr_proto_field *field, bool first)
{
    static const uint32_t most_number = 100;
    switch (field->number) {
    case 1: /* id of a node, version of the file */
    case 4: /* dependencies, packed or not */
    case 5:
        return field->wire == ORR_PROTO_VARINT || field->wire == ORR_PROTO_BYTES;
    case 3: /* type, start, duration */
    case 6:
    case 7:
        return field->wire == ORR_PROTO_VARINT;
    case 2:
    case 8:
    case 9:
    case 10:
        return field->wire == ORR_PROTO_BYTES;
    default:
        return !first && field->number <= most_number;
    }
}

/* Length-delimited messages. If the window ends within the first one, its front must do. */
static bool begins_as_chakra(orr_window w)
{
    enum { ENOUGH_MESSAGES = 4, ENOUGH_FIELDS = 3 };
    orr_proto p = orr_proto_of(w.bytes, w.n);
    unsigned messages = 0, fields = 0;
    uint64_t len;
    while (messages < ENOUGH_MESSAGES && orr_proto_varint(&p, &len)) {
        const size_t left = (size_t)(p.end - p.at);
        const bool whole = len <= left;
        orr_proto message = orr_proto_of(p.at, whole ? (size_t)len : left);
        orr_proto_field field;
        for (bool first = true; orr_proto_next(&message, &field); first = false, fields++)
            if (!is_chakra_field(&field, first))
                return false;
        if (!whole)
            return messages > 0 ? fields > 0 : fields >= ENOUGH_FIELDS;
        if (message.failed)
            return false;
        p.at += len;
        messages++;
    }
    return fields > 0;
}

/* Whether the window starts as an XSpace: a plane, which tells its name before its lines. */
static bool begins_as_xplane(orr_window w)
{
    static const char *const names[] = {"/host:", "/device:", "Task Environment"};
    enum { PLANE_TAG = 1 << 3 | ORR_PROTO_BYTES, NAME_TAG = 2 << 3 | ORR_PROTO_BYTES };
    orr_proto p = orr_proto_of(w.bytes + 1, w.n > 0 ? w.n - 1 : 0);
    uint64_t len, id;
    if (w.n == 0 || w.bytes[0] != PLANE_TAG || !orr_proto_varint(&p, &len))
        return false;
    if (p.at < p.end && *p.at == (1 << 3 | ORR_PROTO_VARINT)) { /* its number, if it has one */
        p.at++;
        if (!orr_proto_varint(&p, &id))
            return false;
    }
    if (p.at == p.end || *p.at++ != NAME_TAG || !orr_proto_varint(&p, &len))
        return false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const size_t n = strlen(names[i]);
        if (len >= n && (size_t)(p.end - p.at) >= n && memcmp(p.at, names[i], n) == 0)
            return true;
    }
    return false;
}

/* Whether the window starts as the pickle of a dictionary whose first keys are a snapshot's. */
static bool begins_as_snapshot(orr_window w)
{
    enum { PROTO = 0x80, LOWEST_PROTOCOL = 2, HIGHEST_PROTOCOL = 5, SEEN_BYTES = 64 };
    const size_t n = w.n < SEEN_BYTES ? w.n : SEEN_BYTES;
    return n > 2 && w.bytes[0] == PROTO && w.bytes[1] >= LOWEST_PROTOCOL &&
           w.bytes[1] <= HIGHEST_PROTOCOL &&
           (memmem(w.bytes, n, "segments", 8) != NULL ||
            memmem(w.bytes, n, "device_traces", 13) != NULL);
}

/* Whose database it is, by a table that is seen so far. */
static orr_format format_of_tables(orr_window w)
{
    static const struct {
        const char *table;
        orr_format format;
    } tables[] = {{"CUPTI_ACTIVITY_KIND_", ORR_FORMAT_NSIGHT},
                  {"NVTX_EVENTS", ORR_FORMAT_NSIGHT},
                  {"rocpd_event", ORR_FORMAT_ROCPD},
                  {"rocpd_kernel_dispatch", ORR_FORMAT_ROCPD}};
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (memmem(w.bytes, w.n, tables[i].table, strlen(tables[i].table)) != NULL)
            return tables[i].format;
    return ORR_FORMAT_UNKNOWN;
}

orr_status orr_detect_stream(orr_stream *stream, orr_format *ret_format, orr_error *err)
{
    orr_format format = ORR_FORMAT_UNKNOWN;
    bool end = false, more = true;
    size_t looked = 0;
    while (more && format == ORR_FORMAT_UNKNOWN) {
        orr_window window = orr_stream_window(stream);
        while (!end && window.n < 4096 + 4 * looked) {
            ORR_TRY(orr_stream_fill(stream, &end, err));
            window = orr_stream_window(stream);
        }
        looked = window.n;
        more = false;
        if (window.n >= sizeof sqlite_magic &&
            memcmp(window.bytes, sqlite_magic, sizeof sqlite_magic) == 0) {
            format = format_of_tables(window);
            more = format == ORR_FORMAT_UNKNOWN;
        } else if (begins_as_json(window))
            ORR_TRY(look_at_json(window, &format, &more, err));
        else if (begins_as_snapshot(window))
            format = ORR_FORMAT_TORCH_MEMORY;
        else if (begins_as_xplane(window))
            format = ORR_FORMAT_XPLANE;
        else if (begins_as_chakra(window))
            format = ORR_FORMAT_CHAKRA;
        more = more && !end && looked < most_bytes;
    }
    *ret_format = format;
    return ORR_OK;
}

orr_status orr_trace_detect(const char *path, orr_format *ret_format, orr_error *err)
{
    orr_input input;
    if (strcmp(path, "-") == 0)
        return orr_fail(err, ORR_INVALID, "standard input cannot be looked at without reading it");
    orr_status status = orr_input_open(path, &input, err);
    if (status == ORR_OK) {
        orr_stream_set_tolerant(input.stream, true);
        status = orr_detect_stream(input.stream, ret_format, err);
    }
    orr_input_close(&input);
    if (status != ORR_OK)
        orr_error_prefix(err, path);
    return status;
}
