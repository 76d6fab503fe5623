/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "graph/builder.h"
#include "io/json/reader.h"
#include "trace/common/attr_names.h"
#include "trace/chakra/chakra.h"
#include "trace/chakra/node.h"
#include "trace/chakra/recorded.h"
#include "trace/common/reader.h"

/* A Chakra file is read in one pass, message by message. */
typedef struct reader {
    orr_graph_builder *builder;
    orr_chakra_nodes nodes;
    orr_chakra_attrs recording, attrs; /* of the file; of the current node */
    bool lowered;                      /* as the file has it; see orr_read_options */
    orr_proto_buffer unknown;          /* fields that we do not know, of the current message */
} reader;

static orr_status keep_unknown(reader *r, orr_chakra_attrs *attrs, const char *name, orr_error *err)
{
    if (r->unknown.failed)
        return orr_fail_memory(err);
    if (r->unknown.n == 0)
        return ORR_OK;
    return orr_chakra_attr_text(attrs, r->builder, name, ORR_ATTR_UNKNOWN, r->unknown.at,
                                r->unknown.n, err);
}

static orr_status set_source(reader *r, orr_text version, orr_error *err)
{
    const int n = (int)(version.n < 64 ? version.n : 64);
    char *text =
        orr_arena_printf(r->recording.arena, n == 0 ? "chakra%.*s" : "chakra %.*s", n, version.at);
    if (text == NULL)
        return orr_fail_memory(err);
    return orr_builder_str(r->builder, text, strlen(text), &r->builder->recording.source, err);
}

/* GlobalMetadata -> the attributes of the recording. */
static orr_status read_metadata(reader *r, const uint8_t *bytes, size_t len, orr_error *err)
{
    orr_text version = {"", 0};
    orr_proto p = orr_proto_of(bytes, len);
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.number == CHAKRA_METADATA_VERSION && f.wire == ORR_PROTO_BYTES)
            version = (orr_text){(const char *)f.bytes, f.len};
        else if (f.number == CHAKRA_METADATA_ATTR && f.wire == ORR_PROTO_BYTES)
            ORR_TRY(orr_chakra_attr_read(&r->recording, r->builder, f.bytes, f.len, err));
        else
            orr_proto_put_raw(&r->unknown, f.raw, f.raw_len);
    }
    if (p.failed)
        return orr_fail(err, ORR_PARSE, "the metadata is cut short or broken");
    ORR_TRY(set_source(r, version, err));
    if (version.n != 0)
        ORR_TRY(orr_chakra_attr_text(&r->recording, r->builder, ORR_NAME_CHAKRA_VERSION,
                                     ORR_ATTR_STRING, version.at, version.n, err));
    ORR_TRY(keep_unknown(r, &r->recording, ORR_NAME_CHAKRA_MORE, err));
    ORR_TRY(orr_chakra_recording(&r->nodes, &r->recording, err));
    return r->lowered ? ORR_OK : orr_chakra_recorded_begin(&r->nodes, &r->recording, err);
}

/* Names of the four texts of an IOInfo, of its unknown fields, and of an empty one. */
static const char *const IO_NAMES[2][6] = {
    {ORR_NAME_INPUT_VALUES, ORR_NAME_INPUT_SHAPES, ORR_NAME_INPUT_TYPES, ORR_NAME_INPUT_STRIDES,
     ORR_NAME_INPUT_MORE, ORR_NAME_INPUT_EMPTY},
    {ORR_NAME_OUTPUT_VALUES, ORR_NAME_OUTPUT_SHAPES, ORR_NAME_OUTPUT_TYPES, ORR_NAME_OUTPUT_STRIDES,
     ORR_NAME_OUTPUT_MORE, ORR_NAME_OUTPUT_EMPTY},
};

static orr_status read_io(reader *r, const orr_proto_field *io, orr_error *err)
{
    const char *const *names = IO_NAMES[io->number == CHAKRA_NODE_OUTPUTS];
    orr_proto_field text[CHAKRA_IO_STRIDES + 1] = {{0}};
    const size_t before = r->attrs.list.n;
    orr_proto_buffer more = {0};
    orr_status status = ORR_OK;
    orr_proto p = orr_proto_of(io->bytes, io->len);
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.number <= CHAKRA_IO_STRIDES && f.wire == ORR_PROTO_BYTES)
            text[f.number] = f;
        else
            orr_proto_put_raw(&more, f.raw, f.raw_len);
    }
    if (p.failed || more.failed) {
        status = p.failed ? orr_fail(err, ORR_PARSE, "inputs or outputs are cut short or broken")
                          : orr_fail_memory(err);
        goto out;
    }
    for (int i = CHAKRA_IO_VALUES; i <= CHAKRA_IO_STRIDES; i++)
        if (text[i].len > 0)
            ORR_TRY_OUT(status,
                        orr_chakra_attr_text(&r->attrs, r->builder, names[i - 1], ORR_ATTR_STRING,
                                             text[i].bytes, text[i].len, err));
    if (more.n > 0)
        ORR_TRY_OUT(status, orr_chakra_attr_text(&r->attrs, r->builder, names[4], ORR_ATTR_UNKNOWN,
                                                 more.at, more.n, err));
    if (r->attrs.list.n == before)
        ORR_TRY_OUT(status, orr_chakra_attr_numbers(&r->attrs, r->builder, names[5], ORR_ATTR_NONE,
                                                    false, NULL, 1, err));
out:
    orr_proto_buffer_done(&more);
    return status;
}

/* One field of a Node. Dependencies are left to read_deps(). */
static orr_status read_node_field(reader *r, const orr_proto_field *f, orr_chakra_node *node,
                                  orr_error *err)
{
    const bool number = f->wire == ORR_PROTO_VARINT, bytes = f->wire == ORR_PROTO_BYTES;
    if (f->number == CHAKRA_NODE_ID && number)
        node->id = f->value;
    else if (f->number == CHAKRA_NODE_TYPE && number)
        node->type = (int32_t)f->value;
    else if (f->number == CHAKRA_NODE_START && number)
        node->start_us = f->value;
    else if (f->number == CHAKRA_NODE_DURATION && number)
        node->duration_us = f->value;
    else if (f->number == CHAKRA_NODE_NAME && bytes)
        return orr_builder_str(r->builder, (const char *)f->bytes, f->len, &node->name, err);
    else if ((f->number == CHAKRA_NODE_INPUTS || f->number == CHAKRA_NODE_OUTPUTS) && bytes)
        return read_io(r, f, err);
    else if (f->number == CHAKRA_NODE_ATTR && bytes)
        return orr_chakra_attr_read(&r->attrs, r->builder, f->bytes, f->len, err);
    else if ((f->number != CHAKRA_NODE_CTRL_DEPS && f->number != CHAKRA_NODE_DATA_DEPS) ||
             (!number && !bytes))
        orr_proto_put_raw(&r->unknown, f->raw, f->raw_len);
    return ORR_OK;
}

/* The dependencies of one kind, packed or one by one. */
static orr_status read_deps(reader *r, const uint8_t *bytes, size_t len, uint32_t field,
                            orr_error *err)
{
    const orr_dep_kind kind = field == CHAKRA_NODE_DATA_DEPS ? ORR_DEP_DATA : ORR_DEP_CONTROL;
    orr_proto p = orr_proto_of(bytes, len);
    for (orr_proto_field f; orr_proto_next(&p, &f);) {
        if (f.number != field)
            continue;
        if (f.wire == ORR_PROTO_VARINT)
            ORR_TRY(orr_chakra_dep_add(&r->nodes, f.value, kind, err));
        if (f.wire != ORR_PROTO_BYTES)
            continue;
        orr_proto packed = orr_proto_of(f.bytes, f.len);
        for (uint64_t id; orr_proto_varint(&packed, &id);)
            ORR_TRY(orr_chakra_dep_add(&r->nodes, id, kind, err));
        if (packed.failed)
            return orr_fail(err, ORR_PARSE, "a list of dependencies is broken");
    }
    return ORR_OK;
}

static orr_status read_node(reader *r, const uint8_t *bytes, size_t len, orr_error *err)
{
    orr_chakra_node node = {0};
    orr_proto p = orr_proto_of(bytes, len);
    for (orr_proto_field f; orr_proto_next(&p, &f);)
        ORR_TRY(read_node_field(r, &f, &node, err));
    if (p.failed)
        return orr_fail(err, ORR_PARSE, "a node is cut short or broken");
    ORR_TRY(keep_unknown(r, &r->attrs, ORR_NAME_CHAKRA_MORE, err));
    ORR_TRY(orr_chakra_node_add(&r->nodes, &node, &r->attrs, err));
    ORR_TRY(read_deps(r, bytes, len, CHAKRA_NODE_CTRL_DEPS, err));
    ORR_TRY(read_deps(r, bytes, len, CHAKRA_NODE_DATA_DEPS, err));
    return orr_chakra_deps_end(&r->nodes, err);
}

/* The next message; false in *ret_more at the end of the file, or, when tolerant, where it is
 * cut short. */
static orr_status read_message(reader *r, orr_stream *stream, const orr_read_options *options,
                               orr_read_report *report, bool *ret_more, orr_error *err)
{
    const uint64_t at = orr_stream_offset(stream);
    orr_error inner = {.byte_pos = UINT64_MAX};
    const uint8_t *bytes;
    size_t len;
    bool end;
    orr_status status = orr_proto_read_message(stream, &bytes, &len, &end, &inner);
    *ret_more = status == ORR_OK && !end;
    if (*ret_more) {
        r->unknown.n = 0;
        r->attrs.list.n = 0;
        orr_arena_reset(r->attrs.arena);
        status = report->events++ == 0 ? read_metadata(r, bytes, len, &inner)
                                       : read_node(r, bytes, len, &inner);
    }
    if (status == ORR_PARSE && options->tolerant && report->events > 0) {
        report->faults[ORR_TRACE_FAULT_TRUNCATED]++;
        report->first_fault_byte = at;
        *ret_more = false;
        return ORR_OK;
    }
    if (status == ORR_OK || err == NULL)
        return status;
    if (inner.byte_pos == UINT64_MAX) {
        char where[48];
        snprintf(where, sizeof where, "at byte %llu", (unsigned long long)at);
        orr_error_prefix(&inner, where);
        inner.byte_pos = at;
    }
    *err = inner;
    return status;
}

orr_status orr_chakra_read(orr_stream *stream, const orr_read_options *options,
                           orr_graph_builder *builder, orr_read_report *report, orr_error *err)
{
    reader r = {.builder = builder, .nodes = {.builder = builder}, .lowered = options->lowered};
    orr_status status = ORR_OK;
    bool more = true;
    r.recording.arena = orr_arena_new(0, 0);
    r.attrs.arena = orr_arena_new(0, 0);
    if (r.recording.arena == NULL || r.attrs.arena == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    while (more) {
        ORR_TRY_OUT(status, read_message(&r, stream, options, report, &more, err));
        if (report->events % 4096 == 0)
            ORR_TRY_OUT(status, orr_read_progress(options, stream, err));
    }
    if (report->events == 0) {
        status = orr_fail(err, ORR_PARSE, "the file is empty");
        goto out;
    }
    ORR_TRY_OUT(status,
                orr_chakra_nodes_finish(&r.nodes, &r.recording, options->tolerant, report, err));
out:
    orr_chakra_nodes_done(&r.nodes);
    orr_array_done(&r.recording.list);
    orr_array_done(&r.attrs.list);
    orr_arena_free(r.recording.arena);
    orr_arena_free(r.attrs.arena);
    orr_proto_buffer_done(&r.unknown);
    return status;
}
