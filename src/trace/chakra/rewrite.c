/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "graph/job.h"
#include "io/stream/output.h"
#include "trace/common/attr_names.h"
#include "trace/chakra/chakra.h"
#include "trace/common/writer.h"

/* Writes a graph that came from a Chakra file as it was, byte for byte: fields in the order of
 * their numbers, lists packed, defaults omitted, unknown fields last, as protobuf's serializers
 * do. */
typedef struct writer {
    const orr_graph *graph;
    orr_chakra_sink *sink;
    orr_proto_buffer message;
    const uint64_t *dangling; /* node, position, id; see attr_names.h */
    uint32_t n_dangling;
} writer;

static void put_wire(orr_output *out, const orr_proto_buffer *message)
{
    uint8_t length[10];
    size_t n = 0;
    uint64_t rest = message->n;
    do {
        length[n++] = (uint8_t)((rest & 127) | (rest > 127 ? 128 : 0));
        rest >>= 7;
    } while (rest != 0);
    orr_output_write(out, length, n);
    orr_output_write(out, message->at, message->n);
}

void orr_chakra_put_message(orr_chakra_sink *sink, const orr_proto_buffer *message)
{
    if (sink->form == ORR_FORMAT_CHAKRA)
        put_wire(sink->out, message);
    else
        orr_chakra_print(sink->out, sink->form == ORR_FORMAT_JSON, sink->has_metadata, message);
    sink->has_metadata = true;
}

static bool is_named(const writer *w, const orr_attr *attr, const char *name)
{
    return strcmp(orr_graph_str(w->graph, attr->name), name) == 0;
}

static void put_str(writer *w, uint32_t field, orr_str s)
{
    if (s != 0)
        orr_proto_put_bytes(&w->message, field, orr_graph_str(w->graph, s),
                            orr_graph_str_len(w->graph, s));
}

static void put_nonzero(writer *w, uint32_t field, uint64_t value)
{
    if (value != 0)
        orr_proto_put_uint(&w->message, field, value);
}

/* Attributes of the file itself, and, last, fields that we do not know. */
static void put_attrs(writer *w, orr_node_id id, uint32_t field)
{
    orr_attr_iter it = orr_graph_attrs(w->graph, id);
    for (orr_attr attr; orr_attr_next(&it, &attr);) {
        const char *name = orr_graph_str(w->graph, attr.name);
        if (!orr_chakra_is_reserved(name, strlen(name)))
            orr_chakra_attr_write(&w->message, field, w->graph, &attr);
        else if (is_named(w, &attr, ORR_NAME_CHAKRA_ATTR))
            put_str(w, field, *(const orr_str *)attr.values);
    }
    orr_attr more;
    if (orr_graph_find_attr(w->graph, id, ORR_NAME_CHAKRA_MORE, &more)) {
        const orr_str raw = *(const orr_str *)more.values;
        orr_proto_put_raw(&w->message, orr_graph_str(w->graph, raw),
                          orr_graph_str_len(w->graph, raw));
    }
}

static void put_metadata(writer *w)
{
    orr_attr version;
    w->message.n = 0;
    if (orr_graph_find_attr(w->graph, ORR_NONE, ORR_NAME_CHAKRA_VERSION, &version))
        put_str(w, CHAKRA_METADATA_VERSION, *(const orr_str *)version.values);
    put_attrs(w, ORR_NONE, CHAKRA_METADATA_ATTR);
    orr_chakra_put_message(w->sink, &w->message);
}

/* Is the next dangling control dependency the one at `position` of this node's list? */
static bool dangles(const writer *w, orr_node_id id, uint64_t position)
{
    return w->n_dangling > 0 && w->dangling[0] == id && w->dangling[1] == position;
}

static uint64_t put_dangling(writer *w, orr_node_id id, uint64_t position)
{
    for (; dangles(w, id, position); position++, w->dangling += 3, w->n_dangling--)
        orr_proto_put_varint(&w->message, w->dangling[2]);
    return position;
}

static void put_deps(writer *w, orr_node_id id, uint32_t field, orr_dep_kind kind)
{
    const orr_graph *g = w->graph;
    const size_t before = w->message.n, mark = orr_proto_begin(&w->message, field);
    const size_t empty = w->message.n;
    uint64_t position = 0;
    for (uint32_t d = g->dep_first[id]; d < g->dep_first[id + 1]; d++) {
        if (g->dep_kind[d] != kind)
            continue;
        if (kind == ORR_DEP_CONTROL)
            position = put_dangling(w, id, position) + 1;
        orr_proto_put_varint(&w->message, g->source_id[g->dep[d]]);
    }
    if (kind == ORR_DEP_CONTROL)
        put_dangling(w, id, position);
    if (w->message.n == empty)
        w->message.n = before;
    else
        orr_proto_end(&w->message, mark);
}

/* A number that was kept apart, or else the column's. */
static uint64_t kept_or(const writer *w, orr_node_id id, const char *name, uint64_t otherwise)
{
    orr_attr attr;
    return orr_graph_find_attr(w->graph, id, name, &attr) ? *(const uint64_t *)attr.values
                                                          : otherwise;
}

static void put_times(writer *w, orr_node_id id)
{
    const orr_graph *g = w->graph;
    const int64_t start_ns = g->start_ns[id] == ORR_TIME_NONE ? 0 : orr_node_clock_start_ns(g, id);
    int64_t duration_ns = g->duration_ns[id];
    orr_attr self;
    if (orr_graph_find_attr(g, id, ORR_NAME_SELF_NS, &self) && self.kind == ORR_ATTR_INT64 &&
        !self.list)
        duration_ns = *(const int64_t *)self.values;
    put_nonzero(w, CHAKRA_NODE_START,
                kept_or(w, id, ORR_NAME_CHAKRA_START, (uint64_t)orr_chakra_micros(start_ns)));
    put_nonzero(w, CHAKRA_NODE_DURATION,
                kept_or(w, id, ORR_NAME_CHAKRA_DURATION, (uint64_t)orr_chakra_micros(duration_ns)));
}

/* Names: values, shapes, types, strides, unknown fields. */
static void put_io(writer *w, orr_node_id id, uint32_t field, const char *const names[5],
                   const char *empty)
{
    orr_attr attr;
    const size_t before = w->message.n, mark = orr_proto_begin(&w->message, field);
    const size_t nothing = w->message.n;
    for (uint32_t i = 0; i < 4; i++)
        if (orr_graph_find_attr(w->graph, id, names[i], &attr))
            put_str(w, CHAKRA_IO_VALUES + i, *(const orr_str *)attr.values);
    if (orr_graph_find_attr(w->graph, id, names[4], &attr)) {
        const orr_str raw = *(const orr_str *)attr.values;
        orr_proto_put_raw(&w->message, orr_graph_str(w->graph, raw),
                          orr_graph_str_len(w->graph, raw));
    }
    if (w->message.n > nothing || orr_graph_find_attr(w->graph, id, empty, &attr))
        orr_proto_end(&w->message, mark);
    else
        w->message.n = before;
}

static void put_node(writer *w, orr_node_id id)
{
    static const char *const inputs[] = {ORR_NAME_INPUT_VALUES, ORR_NAME_INPUT_SHAPES,
                                         ORR_NAME_INPUT_TYPES, ORR_NAME_INPUT_STRIDES,
                                         ORR_NAME_INPUT_MORE};
    static const char *const outputs[] = {ORR_NAME_OUTPUT_VALUES, ORR_NAME_OUTPUT_SHAPES,
                                          ORR_NAME_OUTPUT_TYPES, ORR_NAME_OUTPUT_STRIDES,
                                          ORR_NAME_OUTPUT_MORE};
    const orr_graph *g = w->graph;
    int32_t type = (int32_t)orr_chakra_type_of((orr_node_kind)g->kind[id]);
    orr_attr attr;
    if (orr_graph_find_attr(g, id, ORR_NAME_CHAKRA_TYPE, &attr))
        type = *(const int32_t *)attr.values;
    w->message.n = 0;
    put_nonzero(w, CHAKRA_NODE_ID, g->source_id[id]);
    put_str(w, CHAKRA_NODE_NAME, g->name[id]);
    put_nonzero(w, CHAKRA_NODE_TYPE, (uint64_t)(int64_t)type);
    put_deps(w, id, CHAKRA_NODE_CTRL_DEPS, ORR_DEP_CONTROL);
    put_deps(w, id, CHAKRA_NODE_DATA_DEPS, ORR_DEP_DATA);
    put_times(w, id);
    put_io(w, id, CHAKRA_NODE_INPUTS, inputs, ORR_NAME_INPUT_EMPTY);
    put_io(w, id, CHAKRA_NODE_OUTPUTS, outputs, ORR_NAME_OUTPUT_EMPTY);
    put_attrs(w, id, CHAKRA_NODE_ATTR);
    orr_chakra_put_message(w->sink, &w->message);
}

orr_status orr_chakra_rewrite(const orr_graph *graph, orr_chakra_sink *sink, orr_error *err)
{
    writer w = {.graph = graph, .sink = sink};
    orr_attr dangling;
    if (orr_graph_find_attr(graph, ORR_NONE, ORR_NAME_CHAKRA_DANGLING, &dangling)) {
        w.dangling = dangling.values;
        w.n_dangling = dangling.count / 3;
    }
    put_metadata(&w);
    for (orr_node_id id = 0; id < graph->n_nodes && !w.message.failed; id++)
        put_node(&w, id);
    const bool failed = w.message.failed;
    orr_proto_buffer_done(&w.message);
    return failed ? orr_fail_memory(err) : ORR_OK;
}

orr_status orr_chakra_write_as(const orr_graph *graph, orr_format form, orr_output *out,
                               orr_error *err)
{
    orr_chakra_sink sink = {.out = out, .form = form};
    const char *source = orr_graph_str(graph, graph->source);
    return strncmp(source, "chakra", 6) == 0 ? orr_chakra_rewrite(graph, &sink, err)
                                             : orr_chakra_export(graph, &sink, err);
}

orr_status orr_chakra_write(const orr_graph *graph, orr_output *out, orr_error *err)
{
    return orr_chakra_write_as(graph, ORR_FORMAT_CHAKRA, out, err);
}
