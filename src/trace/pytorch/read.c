/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/pytorch/reader.h"

#include <string.h>

#include "graph/builder.h"

/* Reader of PyTorch execution traces, schemas 1.0.1 to 1.1.1, as the ExecutionTraceObserver writes
 * them ("Chakra host traces"):
 *
 *   {"schema", "pid", "time", "start_ts", "nodes": [...], "finish_ts"}
 *
 * Nodes go into the builder as they come (node.c); then they are put in the order of calls
 * (order.c) and get their dependencies (deps.c). */

static const char *const KNOWN_SCHEMAS[] = {"1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.1.0", "1.1.1"};

/* "1.0.3-chakra.0.0.4": the part before '-' says how the nodes look. */
static bool is_known_schema(orr_text schema)
{
    const char *dash = memchr(schema.at, '-', schema.n);
    const size_t n = dash == NULL ? schema.n : (size_t)(dash - schema.at);
    for (size_t i = 0; i < sizeof KNOWN_SCHEMAS / sizeof *KNOWN_SCHEMAS; i++)
        if (orr_text_equal((orr_text){schema.at, n}, KNOWN_SCHEMAS[i], strlen(KNOWN_SCHEMAS[i])))
            return true;
    return false;
}

static orr_status set_source(orr_et_reader *r, orr_text schema, orr_error *err)
{
    if (schema.n > 64)
        schema.n = 64;
    char *text = orr_arena_printf(r->recording_arena, "pytorch-et %.*s%s", (int)schema.n, schema.at,
                                  is_known_schema(schema) ? "" : " (not known, read as 1.1.1)");
    if (text == NULL)
        return orr_fail_memory(err);
    return orr_builder_str(r->builder, text, strlen(text), &r->builder->recording.source, err);
}

static bool is_root(const char *name)
{
    const size_t n = strlen(name);
    return strncmp(name, "[pytorch|profiler|execution_", 28) == 0 &&
           (strcmp(name + n - 9, "|process]") == 0 || strcmp(name + n - 8, "|thread]") == 0);
}

enum { USER_SCOPE = 7 }; /* c10::RecordScope of record_function() */

static orr_node_kind kind_of(const orr_et_node *node, const char *name, bool is_init)
{
    if (is_init || is_root(name))
        return ORR_NODE_META;
    return node->scope == USER_SCOPE ? ORR_NODE_ANNOTATION : ORR_NODE_HOST_OP;
}

static orr_node_kind kind_of_comm(const orr_comm *comm)
{
    return comm->collective == ORR_COLL_SEND   ? ORR_NODE_SEND
           : comm->collective == ORR_COLL_RECV ? ORR_NODE_RECV
                                               : ORR_NODE_COLLECTIVE;
}

/* The JSON in the first input of a process_group:init. */
static orr_status read_groups(orr_et_reader *r, orr_error *err)
{
    orr_stream *stream = NULL;
    orr_json *json = NULL;
    orr_json_value list, text = {.type = ORR_JSON_NULL};
    bool whole = false;
    orr_status status;
    const orr_text values = r->node.in.text[ORR_ET_VALUES];
    ORR_TRY_OUT(status, orr_stream_open_memory(values.at, values.n, &stream, err));
    ORR_TRY_OUT(status, orr_json_new(stream, true, &json, err));
    ORR_TRY_OUT(status, orr_json_value_next(json, &list, err));
    if (list.type == ORR_JSON_ARRAY && orr_json_next_element(json, &status, err))
        ORR_TRY_OUT(status, orr_json_value_next(json, &text, err));
    if (status == ORR_OK && text.type == ORR_JSON_STRING)
        status =
            orr_process_groups_read(&r->groups, r->builder, text.text.at, text.text.n, &whole, err);
    if (status == ORR_OK && !whole)
        r->report->faults[ORR_TRACE_FAULT_BAD_EVENT]++;
out:
    orr_json_free(json);
    orr_stream_close(stream);
    return status;
}

static orr_status add_row(orr_et_reader *r, orr_node_id id, orr_error *err)
{
    const orr_et_node *n = &r->node;
    const orr_et_row row = {n->id, n->parent, n->fw_parent, id, n->has_parent};
    return orr_array_push(&r->rows, row) ? ORR_OK : orr_fail_memory(err);
}

static orr_status add_node(orr_et_reader *r, orr_error *err)
{
    orr_graph_builder *b = r->builder;
    const orr_et_node *n = &r->node;
    const char *name = orr_builder_text(b, n->name);
    const bool is_init = strstr(name, "process_group:init") != NULL;
    const orr_lane lane = {.kind = ORR_LANE_HOST, .device = -1, .pid = r->pid, .tid = n->tid};
    orr_node node = {.name = n->name,
                     .kind = kind_of(n, name, is_init),
                     .start_ns = ORR_TIME_NONE,
                     .parent = ORR_NONE,
                     .source_id = n->rf_id};
    orr_comm comm;
    orr_node_id id;
    bool is_comm = false;
    if (is_init)
        ORR_TRY(read_groups(r, err));
    else if (strcmp(name, "record_param_comms") == 0)
        ORR_TRY(orr_et_find_comm(r, &comm, &is_comm, err));
    if (is_comm)
        node.kind = kind_of_comm(&comm);
    ORR_TRY(orr_builder_lane(b, &lane, &node.lane, err));
    ORR_TRY(orr_builder_node(b, &node, &id, err));
    if (is_comm)
        ORR_TRY(orr_builder_comm(b, id, &comm, err));
    ORR_TRY(orr_builder_io(b, id, r->in.at, (uint32_t)r->in.n, r->out.at, (uint32_t)r->out.n, err));
    if (r->attrs.n > 0)
        ORR_TRY(orr_builder_attrs(b, id, r->attrs.at, (uint32_t)r->attrs.n, err));
    ORR_TRY(orr_et_note_writes(r, id, err));
    return add_row(r, id, err);
}

static orr_status need_id(orr_et_reader *r, uint64_t at, bool *ret_has, orr_error *err)
{
    *ret_has = r->node.has_id;
    if (*ret_has)
        return ORR_OK;
    if (!r->options->tolerant)
        return orr_fail_byte(err, ORR_PARSE, at, "at byte %llu: a node without an id",
                             (unsigned long long)at);
    r->report->faults[ORR_TRACE_FAULT_BAD_EVENT]++;
    return ORR_OK;
}

static orr_status read_nodes(orr_et_reader *r, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_json_value v;
    ORR_TRY(orr_json_value_next(r->json, &v, err));
    if (v.type != ORR_JSON_ARRAY)
        return orr_fail(err, ORR_PARSE, "not a PyTorch execution trace: nodes are no list");
    while (orr_json_next_element(r->json, &status, err)) {
        const uint64_t at = orr_json_byte_pos(r->json);
        bool has_id;
        ORR_TRY(orr_et_read_node(r, err));
        ORR_TRY(need_id(r, at, &has_id, err));
        r->report->events++;
        if (has_id)
            ORR_TRY(add_node(r, err));
        if (r->report->events % 4096 == 0)
            ORR_TRY(orr_read_progress(r->options, r->stream, err));
    }
    return status;
}

/* Keeps a value of the file itself as an attribute. */
static orr_status keep(orr_et_reader *r, const char *name, orr_attr_kind kind, orr_text text,
                       orr_error *err)
{
    orr_attr attr = {.kind = (uint8_t)kind, .count = 1};
    uint64_t *value = orr_arena_one(r->recording_arena, uint64_t);
    if (value == NULL)
        return orr_fail_memory(err);
    attr.values = value;
    if (kind == ORR_ATTR_UINT64 ? !orr_text_uint64(text, value)
                                : text.n == 0 && kind == ORR_ATTR_STRING)
        return ORR_OK;
    if (kind == ORR_ATTR_STRING)
        ORR_TRY(orr_builder_str(r->builder, text.at, text.n, (orr_str *)(void *)value, err));
    ORR_TRY(orr_builder_str(r->builder, name, strlen(name), &attr.name, err));
    return orr_array_push(&r->recording, attr) ? ORR_OK : orr_fail_memory(err);
}

static orr_status read_top_field(orr_et_reader *r, orr_text key, orr_error *err)
{
    static const char *const numbers[] = {"pid", "start_ts", "finish_ts"};
    orr_text text;
    bool is;
    if (orr_text_is(key, "nodes")) {
        r->has_nodes = true;
        return read_nodes(r, err);
    }
    if (orr_text_is(key, "schema") || orr_text_is(key, "time")) {
        const bool is_schema = orr_text_is(key, "schema");
        ORR_TRY(orr_json_text(r->json, &text, &is, err));
        if (is && is_schema)
            ORR_TRY(set_source(r, text, err));
        return is ? keep(r, is_schema ? "schema" : "time", ORR_ATTR_STRING, text, err) : ORR_OK;
    }
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        if (!orr_text_equal(key, numbers[i], strlen(numbers[i])))
            continue;
        ORR_TRY(orr_json_text(r->json, &text, &is, err));
        if (is && i == 0)
            (void)orr_text_int64(text, &r->pid);
        return is ? keep(r, numbers[i], ORR_ATTR_UINT64, text, err) : ORR_OK;
    }
    return orr_json_skip(r->json, err);
}

static orr_status read_trace(orr_et_reader *r, orr_error *err)
{
    orr_status status = ORR_OK;
    orr_json_value v;
    orr_text key;
    ORR_TRY(orr_json_value_next(r->json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return orr_fail(err, ORR_PARSE, "not a PyTorch execution trace: no JSON object");
    while (orr_json_next_key(r->json, &key, &status, err))
        ORR_TRY(read_top_field(r, key, err));
    ORR_TRY(status);
    if (!r->has_nodes)
        return orr_fail(err, ORR_PARSE, "not a PyTorch execution trace: no nodes");
    return orr_json_end(r->json, err);
}

/* Of the groups that start at rank 0 without gaps, the largest is the world. */
static void set_world(orr_et_reader *r)
{
    orr_recording *recording = &r->builder->recording;
    for (size_t i = 0; i < r->builder->groups.n; i++) {
        const orr_group *g = &r->builder->groups.at[i];
        if (g->ranks == NULL && g->start == 0 && g->stride == 1 && g->size > recording->world_size)
            recording->world_size = g->size;
    }
    if (r->rank >= 0 && r->rank < ORR_NONE)
        recording->rank = (uint32_t)r->rank;
}

static void done(orr_et_reader *r)
{
    orr_array_done(&r->node.in.object);
    orr_array_done(&r->node.out.object);
    for (int i = 0; i < ORR_ET_IO_TEXTS; i++) {
        orr_array_done(&r->node.in.held[i]);
        orr_array_done(&r->node.out.held[i]);
    }
    orr_json_free(r->json);
    orr_arena_free(r->arena);
    orr_arena_free(r->recording_arena);
    orr_array_done(&r->attrs);
    orr_array_done(&r->recording);
    orr_array_done(&r->in);
    orr_array_done(&r->out);
    orr_array_done(&r->rows);
    orr_array_done(&r->writes);
    orr_process_groups_done(&r->groups);
}

orr_status orr_pytorch_et_read(orr_stream *stream, const orr_read_options *options,
                               orr_graph_builder *builder, orr_read_report *report, orr_error *err)
{
    orr_et_reader r = {
        .stream = stream, .builder = builder, .options = options, .report = report, .rank = -1};
    orr_status status = ORR_OK;
    r.arena = orr_arena_new(0, 0);
    r.recording_arena = orr_arena_new(4096, 0);
    if (r.arena == NULL || r.recording_arena == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, set_source(&r, (orr_text){"1.1.1", 5}, err));
    ORR_TRY_OUT(status, orr_json_new(stream, options->tolerant, &r.json, err));
    ORR_TRY_OUT(status, read_trace(&r, err));
    orr_report_json_faults(report, r.json);
    ORR_TRY_OUT(status, orr_et_sort(&r, err));
    ORR_TRY_OUT(status, orr_et_set_parents(&r, err));
    ORR_TRY_OUT(status, orr_et_add_deps(&r, err));
    set_world(&r);
    if (r.recording.n > 0)
        status = orr_builder_attrs(builder, ORR_NONE, r.recording.at, (uint32_t)r.recording.n, err);
out:
    done(&r);
    return status;
}
