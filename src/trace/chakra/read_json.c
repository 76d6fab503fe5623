/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "graph/builder.h"
#include "io/json/reader.h"
#include "trace/common/attr_names.h"
#include "trace/chakra/node.h"
#include "trace/common/reader.h"

/* The JSON form of a Chakra workload, which Chakra's feeder reads:
 *   {"workload_graph": [{"Id", "Name", "NodeType", "runtime", "is_cpu_op", "data_deps",
 *    "ctrlDeps", "comm_type", ...}], "workload_name": ..., ...}
 * Attributes get the kinds that they have in the protobuf form, so that one can be
 * written as the other. */
typedef orr_array(uint64_t) id_list;

typedef struct reader {
    orr_json *json;
    orr_graph_builder *builder;
    orr_chakra_nodes nodes;
    orr_chakra_attrs recording, attrs;
    id_list ctrl, data; /* dependencies of the current node */
} reader;

static const struct {
    const char *name;
    orr_attr_kind kind;
} KINDS[] = {
    {"is_cpu_op", ORR_ATTR_BOOL},  {"num_ops", ORR_ATTR_INT64},   {"tensor_size", ORR_ATTR_UINT64},
    {"comm_type", ORR_ATTR_INT64}, {"comm_size", ORR_ATTR_INT64}, {"comm_priority", ORR_ATTR_INT32},
    {"comm_src", ORR_ATTR_INT32},  {"comm_dst", ORR_ATTR_INT32},  {"comm_tag", ORR_ATTR_INT32},
    {"pg_name", ORR_ATTR_STRING},
};

static orr_attr_kind kind_of(orr_text key)
{
    for (size_t i = 0; i < sizeof KINDS / sizeof *KINDS; i++)
        if (orr_text_equal(key, KINDS[i].name, strlen(KINDS[i].name)))
            return KINDS[i].kind;
    return ORR_ATTR_NONE;
}

/* A JSON literal as a number of that kind, or of INT64 or DOUBLE where no kind is asked for.
 * False when it is not one. */
static bool parse_number(orr_text raw, orr_attr_kind *kind, uint64_t *ret)
{
    int64_t value;
    const bool truth = orr_text_is(raw, "true");
    if (truth || orr_text_is(raw, "false")) {
        *kind = *kind == ORR_ATTR_NONE ? ORR_ATTR_BOOL : *kind;
        *ret = truth;
        return true;
    }
    if (raw.n > 2 && raw.at[0] == '"' && *kind != ORR_ATTR_NONE)
        raw = (orr_text){raw.at + 1, raw.n - 2};
    if (orr_text_int64(raw, &value)) {
        const bool truncated = *kind == ORR_ATTR_INT32 && value != (int32_t)value;
        *kind = *kind == ORR_ATTR_NONE || truncated ? ORR_ATTR_INT64 : *kind;
        *ret = *kind == ORR_ATTR_BOOL ? value != 0 : (uint64_t)value;
        return true;
    }
    double real;
    if (*kind != ORR_ATTR_NONE || !orr_text_double(raw, &real))
        return false;
    *kind = ORR_ATTR_DOUBLE;
    memcpy(ret, &real, sizeof real);
    return true;
}

/* The next value as an attribute under that key. */
static orr_status read_attr(reader *r, orr_chakra_attrs *attrs, orr_text key, orr_error *err)
{
    orr_attr_kind kind = kind_of(key);
    uint64_t *number = orr_arena_one(attrs->arena, uint64_t);
    char *name = orr_arena_strndup(attrs->arena, key.at, key.n);
    if (number == NULL || name == NULL)
        return orr_fail_memory(err);
    if (orr_chakra_is_reserved(key.at, key.n))
        return orr_json_skip(r->json, err);
    orr_text raw;
    ORR_TRY(orr_json_raw(r->json, &raw, err));
    if (kind != ORR_ATTR_STRING && parse_number(raw, &kind, number))
        return orr_chakra_attr_numbers(attrs, r->builder, name, kind, false, number, 1, err);
    /* Text without an escape is a string; the rest stays as it is. */
    if (raw.n >= 2 && raw.at[0] == '"' && memchr(raw.at, '\\', raw.n) == NULL)
        return orr_chakra_attr_text(attrs, r->builder, name, ORR_ATTR_STRING, raw.at + 1, raw.n - 2,
                                    err);
    return orr_chakra_attr_text(attrs, r->builder, name, ORR_ATTR_JSON, raw.at, raw.n, err);
}

static orr_status read_number(reader *r, const char *what, uint64_t *ret, orr_error *err)
{
    int64_t value;
    bool is;
    const uint64_t at = orr_json_byte_pos(r->json);
    ORR_TRY(orr_json_int64(r->json, &value, &is, err));
    if (!is || value < 0)
        return orr_fail_byte(err, ORR_PARSE, at, "at byte %llu: %s is no number >= 0",
                             (unsigned long long)at, what);
    *ret = (uint64_t)value;
    return ORR_OK;
}

static orr_status read_ids(reader *r, id_list *list, orr_error *err)
{
    orr_json_value v;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_value_next(r->json, &v, err));
    if (v.type != ORR_JSON_ARRAY)
        return orr_fail(err, ORR_PARSE, "dependencies of a node are no list");
    while (orr_json_next_element(r->json, &status, err)) {
        uint64_t id;
        ORR_TRY(read_number(r, "a dependency", &id, err));
        if (!orr_array_push(list, id))
            return orr_fail_memory(err);
    }
    return status;
}

static orr_status read_field(reader *r, orr_text key, orr_chakra_node *node, orr_error *err)
{
    uint64_t number;
    if (orr_text_is(key, "Id") || orr_text_is(key, "id"))
        return read_number(r, "Id", &node->id, err);
    if (orr_text_is(key, "runtime"))
        return read_number(r, "runtime", &node->duration_us, err);
    if (orr_text_is(key, "NodeType") || orr_text_is(key, "type")) {
        ORR_TRY(read_number(r, "NodeType", &number, err));
        node->type = (int32_t)number;
        return ORR_OK;
    }
    if (orr_text_is(key, "Name") || orr_text_is(key, "name")) {
        orr_text text;
        bool is;
        ORR_TRY(orr_json_text(r->json, &text, &is, err));
        return is ? orr_builder_str(r->builder, text.at, text.n, &node->name, err) : ORR_OK;
    }
    if (orr_text_is(key, "data_deps"))
        return read_ids(r, &r->data, err);
    if (orr_text_is(key, "ctrlDeps") || orr_text_is(key, "ctrl_deps"))
        return read_ids(r, &r->ctrl, err);
    return read_attr(r, &r->attrs, key, err);
}

static orr_status read_node(reader *r, orr_error *err)
{
    orr_chakra_node node = {0};
    orr_status status = ORR_OK;
    orr_json_value v;
    orr_text key;
    r->ctrl.n = r->data.n = r->attrs.list.n = 0;
    orr_arena_reset(r->attrs.arena);
    ORR_TRY(orr_json_value_next(r->json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return orr_fail(err, ORR_PARSE, "a node of the workload is no object");
    while (orr_json_next_key(r->json, &key, &status, err))
        ORR_TRY(read_field(r, key, &node, err));
    ORR_TRY(status);
    ORR_TRY(orr_chakra_node_add(&r->nodes, &node, &r->attrs, err));
    for (size_t i = 0; i < r->ctrl.n; i++)
        ORR_TRY(orr_chakra_dep_add(&r->nodes, r->ctrl.at[i], ORR_DEP_CONTROL, err));
    for (size_t i = 0; i < r->data.n; i++)
        ORR_TRY(orr_chakra_dep_add(&r->nodes, r->data.at[i], ORR_DEP_DATA, err));
    return ORR_OK;
}

static orr_status read_nodes(reader *r, orr_read_report *report, orr_error *err)
{
    orr_json_value v;
    orr_status status = ORR_OK;
    ORR_TRY(orr_json_value_next(r->json, &v, err));
    if (v.type != ORR_JSON_ARRAY)
        return orr_fail(err, ORR_PARSE, "workload_graph is no list");
    while (orr_json_next_element(r->json, &status, err)) {
        ORR_TRY(read_node(r, err));
        report->events++;
    }
    return status;
}

static orr_status read_workload(reader *r, orr_read_report *report, orr_error *err)
{
    orr_json_value v;
    orr_status status = ORR_OK;
    orr_text key;
    bool found = false;
    ORR_TRY(orr_json_value_next(r->json, &v, err));
    if (v.type != ORR_JSON_OBJECT)
        return orr_fail(err, ORR_PARSE, "not a Chakra workload: no JSON object");
    while (orr_json_next_key(r->json, &key, &status, err)) {
        if (orr_text_is(key, "workload_graph")) {
            found = true;
            ORR_TRY(read_nodes(r, report, err));
        } else {
            ORR_TRY(read_attr(r, &r->recording, key, err));
        }
    }
    ORR_TRY(status);
    return found ? ORR_OK : orr_fail(err, ORR_PARSE, "not a Chakra workload: no workload_graph");
}

orr_status orr_chakra_json_read(orr_stream *stream, const orr_read_options *options,
                                orr_graph_builder *builder, orr_read_report *report, orr_error *err)
{
    static const char source[] = "chakra-json";
    reader r = {.builder = builder, .nodes = {.builder = builder}};
    orr_status status = ORR_OK;
    r.recording.arena = orr_arena_new(0, 0);
    r.attrs.arena = orr_arena_new(0, 0);
    if (r.recording.arena == NULL || r.attrs.arena == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, orr_json_new(stream, options->tolerant, &r.json, err));
    ORR_TRY_OUT(status, orr_builder_str(builder, source, sizeof source - 1,
                                        &builder->recording.source, err));
    ORR_TRY_OUT(status, read_workload(&r, report, err));
    ORR_TRY_OUT(status, orr_json_end(r.json, err));
    ORR_TRY_OUT(status, orr_chakra_recording(&r.nodes, &r.recording, err));
    ORR_TRY_OUT(status,
                orr_chakra_nodes_finish(&r.nodes, &r.recording, options->tolerant, report, err));
    orr_report_json_faults(report, r.json);
out:
    orr_json_free(r.json);
    orr_chakra_nodes_done(&r.nodes);
    orr_array_done(&r.recording.list);
    orr_array_done(&r.attrs.list);
    orr_array_done(&r.ctrl);
    orr_array_done(&r.data);
    orr_arena_free(r.recording.arena);
    orr_arena_free(r.attrs.arena);
    return status;
}
