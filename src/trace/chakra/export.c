/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chakra/export.h"

#include <string.h>

#include "graph/job.h"
#include "io/json/writer.h"
#include "trace/comm/process_groups.h"

/* Writes a graph that did not come from Chakra as a Chakra file.
 *
 * Dependencies, order and times are those of lower.h; ids count from 1 in the order of the file.
 * ctrl_deps: what a node is nested in or launched by. data_deps: everything it waits for.
 * start_time_micros and duration_micros are rounded; the attributes start_ns and duration_ns (with
 * children and waiting) are exact, as is self_ns (what duration_micros holds) where it differs.
 * Attributes have the names and kinds of Chakra's own converter; those of the recording follow
 * under their own names. */
static void put_nonzero(orr_chakra_writer *w, uint32_t field, uint64_t value)
{
    if (value != 0)
        orr_proto_put_uint(&w->message, field, value);
}

static void put_str(orr_chakra_writer *w, uint32_t field, orr_str s)
{
    if (s != 0)
        orr_proto_put_bytes(&w->message, field, orr_graph_str(w->graph, s),
                            orr_graph_str_len(w->graph, s));
}

static void put_ids(orr_chakra_writer *w, uint32_t field, const orr_node_id *nodes, uint32_t n)
{
    if (n == 0)
        return;
    const size_t mark = orr_proto_begin(&w->message, field);
    for (uint32_t i = 0; i < n; i++)
        orr_proto_put_varint(&w->message, (uint64_t)w->plan.place[nodes[i]] + 1);
    orr_proto_end(&w->message, mark);
}

int64_t orr_chakra_absolute_ns(const orr_chakra_writer *w, orr_node_id v)
{
    const int64_t start_ns = orr_node_clock_start_ns(w->graph, v);
    return start_ns > 0 ? start_ns : 0; /* the format has no negative times */
}

static void put_node(orr_chakra_writer *w, orr_node_id v)
{
    const orr_graph *g = w->graph;
    const orr_chakra_lowering *plan = &w->plan;
    w->message.n = 0;
    orr_proto_put_uint(&w->message, CHAKRA_NODE_ID, (uint64_t)plan->place[v] + 1);
    put_str(w, CHAKRA_NODE_NAME, g->name[v]);
    put_nonzero(w, CHAKRA_NODE_TYPE, orr_chakra_type_of((orr_node_kind)g->kind[v]));
    put_ids(w, CHAKRA_NODE_CTRL_DEPS, &plan->ctrl[v], plan->ctrl[v] != ORR_NONE);
    put_ids(w, CHAKRA_NODE_DATA_DEPS, plan->dep + plan->dep_first[v],
            plan->dep_first[v + 1] - plan->dep_first[v]);
    put_nonzero(w, CHAKRA_NODE_START, (uint64_t)orr_chakra_micros(orr_chakra_absolute_ns(w, v)));
    put_nonzero(w, CHAKRA_NODE_DURATION, (uint64_t)orr_chakra_micros(plan->self_ns[v]));
    orr_chakra_put_details(w, v);
    orr_chakra_put_message(w->sink, &w->message);
}

/* Attributes of the recording that no attribute of the graph is. */
static void put_recording_text(orr_chakra_writer *w, const char *name, const void *text, size_t len)
{
    const size_t mark = orr_proto_begin(&w->message, CHAKRA_METADATA_ATTR);
    orr_proto_put_bytes(&w->message, CHAKRA_ATTR_NAME, name, strlen(name));
    orr_proto_put_bytes(&w->message, CHAKRA_ATTR_FIRST_VALUE + 2 * ORR_ATTR_STRING, text, len);
    orr_proto_end(&w->message, mark);
}

static void put_recording_number(orr_chakra_writer *w, const char *name, int64_t value)
{
    const size_t mark = orr_proto_begin(&w->message, CHAKRA_METADATA_ATTR);
    orr_proto_put_bytes(&w->message, CHAKRA_ATTR_NAME, name, strlen(name));
    orr_proto_put_uint(&w->message, CHAKRA_ATTR_FIRST_VALUE + 2 * ORR_ATTR_INT64, (uint64_t)value);
    orr_proto_end(&w->message, mark);
}

static orr_status put_groups(orr_chakra_writer *w, orr_error *err)
{
    orr_output *memory = NULL;
    orr_json_writer json;
    orr_status status;
    size_t len;
    ORR_TRY_OUT(status, orr_output_open_memory(&memory, err));
    orr_json_write_init(&json, memory);
    orr_process_groups_write(w->graph, &json);
    ORR_TRY_OUT(status, orr_output_finish(memory, err));
    const void *text = orr_output_memory(memory, &len);
    put_recording_text(w, "process_groups", text, len);
out:
    orr_output_close(memory);
    return status;
}

static orr_status put_metadata(orr_chakra_writer *w, orr_error *err)
{
    static const char version[] = "1.0.0";
    const orr_graph *g = w->graph;
    orr_attr schema;
    w->message.n = 0;
    orr_proto_put_bytes(&w->message, CHAKRA_METADATA_VERSION, version, sizeof version - 1);
    if (!orr_graph_find_attr(g, ORR_NONE, "schema", &schema))
        put_recording_text(w, "schema", orr_graph_str(g, g->source),
                           orr_graph_str_len(g, g->source));
    orr_attr_iter it = orr_graph_attrs(g, ORR_NONE);
    for (orr_attr attr; orr_attr_next(&it, &attr);)
        if (attr.kind != ORR_ATTR_UNKNOWN)
            orr_chakra_attr_write_as(&w->message, CHAKRA_METADATA_ATTR, g, &attr, NULL);
    orr_chakra_put_recording(w);
    if (g->rank != ORR_NONE)
        put_recording_number(w, "rank", g->rank);
    if (g->world_size != 0)
        put_recording_number(w, "world_size", g->world_size);
    if (g->device_name != 0)
        put_recording_text(w, "device_name", orr_graph_str(g, g->device_name),
                           orr_graph_str_len(g, g->device_name));
    if (g->n_groups > 0)
        ORR_TRY(put_groups(w, err));
    orr_chakra_put_message(w->sink, &w->message);
    return ORR_OK;
}

orr_status orr_chakra_export(const orr_graph *graph, orr_chakra_sink *sink, orr_error *err)
{
    orr_chakra_writer w = {.graph = graph, .sink = sink};
    orr_status status;
    orr_arena *arena = orr_arena_new(0, 0);
    if (arena == NULL)
        return orr_fail_memory(err);
    w.role = orr_arena_array(arena, uint8_t, graph->n_strings);
    if (w.role == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    ORR_TRY_OUT(status, orr_chakra_lower(graph, arena, &w.plan, err));
    orr_chakra_find_io_form(&w);
    ORR_TRY_OUT(status, put_metadata(&w, err));
    for (uint32_t i = 0; i < graph->n_nodes && !w.message.failed && !w.text.failed; i++)
        put_node(&w, w.plan.order[i]);
    if (w.message.failed || w.text.failed)
        status = orr_fail_memory(err);
out:
    orr_proto_buffer_done(&w.message);
    orr_proto_buffer_done(&w.text);
    orr_arena_free(arena);
    return status;
}
