/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "trace/chakra/export.h"
#include "trace/chakra/recorded.h"
#include "trace/common/attr_names.h"

/* The attributes that restore a graph; see recorded.h. */

static size_t begin(orr_chakra_writer *w, uint32_t field, const char *name)
{
    const size_t mark = orr_proto_begin(&w->message, field);
    orr_proto_put_bytes(&w->message, CHAKRA_ATTR_NAME, name, strlen(name));
    return mark;
}

static void put_int(orr_chakra_writer *w, uint32_t field, const char *name, int64_t value)
{
    const size_t mark = begin(w, field, name);
    orr_proto_put_uint(&w->message, CHAKRA_ATTR_FIRST_VALUE + 2 * ORR_ATTR_INT64, (uint64_t)value);
    orr_proto_end(&w->message, mark);
}

static void put_text(orr_chakra_writer *w, uint32_t field, const char *name, orr_str s)
{
    if (s == 0)
        return;
    const size_t mark = begin(w, field, name);
    orr_proto_put_bytes(&w->message, CHAKRA_ATTR_FIRST_VALUE + 2 * ORR_ATTR_STRING,
                        orr_graph_str(w->graph, s), orr_graph_str_len(w->graph, s));
    orr_proto_end(&w->message, mark);
}

/* A row of numbers, of which many are -1. */
static void put_row(orr_chakra_writer *w, uint32_t field, const char *name, const int64_t *row,
                    size_t n)
{
    const size_t mark = begin(w, field, name);
    const size_t list =
        orr_proto_begin(&w->message, CHAKRA_ATTR_FIRST_VALUE + 2 * ORR_ATTR_SINT64 + 1);
    const size_t values = orr_proto_begin(&w->message, 1);
    for (size_t i = 0; i < n; i++)
        orr_proto_put_varint(&w->message, orr_proto_zigzag(row[i]));
    orr_proto_end(&w->message, values);
    orr_proto_end(&w->message, list);
    orr_proto_end(&w->message, mark);
}

/* The dependencies d, d + 1, ... as far as they are of one kind; returns the one after them. */
static uint32_t put_run(orr_chakra_writer *w, uint32_t d, uint32_t end)
{
    const orr_graph *g = w->graph;
    const uint8_t kind = g->dep_kind[d];
    const size_t mark = begin(w, CHAKRA_NODE_ATTR, orr_chakra_deps_name((orr_dep_kind)kind));
    const size_t list =
        orr_proto_begin(&w->message, CHAKRA_ATTR_FIRST_VALUE + 2 * ORR_ATTR_INT64 + 1);
    const size_t values = orr_proto_begin(&w->message, 1);
    for (; d < end && g->dep_kind[d] == kind; d++)
        orr_proto_put_varint(&w->message, (uint64_t)w->plan.place[g->dep[d]] + 1);
    orr_proto_end(&w->message, values);
    orr_proto_end(&w->message, list);
    orr_proto_end(&w->message, mark);
    return d;
}

static void put_comm(orr_chakra_writer *w, const orr_comm *comm)
{
    const int64_t group = comm->group == ORR_NONE ? -1 : (int64_t)comm->group;
    const int64_t row[] = {comm->collective, comm->vector,   comm->peer,       comm->root,
                           comm->tag,        group,          comm->group_size, comm->seq,
                           comm->in_bytes,   comm->out_bytes};
    put_row(w, CHAKRA_NODE_ATTR, ORR_NAME_COMM, row, sizeof row / sizeof *row);
    put_text(w, CHAKRA_NODE_ATTR, ORR_NAME_IN_SPLITS, comm->in_splits);
    put_text(w, CHAKRA_NODE_ATTR, ORR_NAME_OUT_SPLITS, comm->out_splits);
}

static void put_copy(orr_chakra_writer *w, const orr_copy *copy)
{
    uint64_t bits;
    memcpy(&bits, &copy->bandwidth_bytes_per_s, sizeof bits);
    const size_t mark = begin(w, CHAKRA_NODE_ATTR, ORR_NAME_BANDWIDTH);
    orr_proto_put_fixed64(&w->message, CHAKRA_ATTR_FIRST_VALUE + 2 * ORR_ATTR_DOUBLE, bits);
    orr_proto_end(&w->message, mark);
}

/* The parent that a reader takes without being told: of a host node its control dependency. */
static orr_node_id plain_parent(const orr_chakra_writer *w, orr_node_id v)
{
    const orr_graph *g = w->graph;
    return g->lanes[g->lane[v]].kind == ORR_LANE_HOST ? w->plan.ctrl[v] : ORR_NONE;
}

void orr_chakra_put_recorded(orr_chakra_writer *w, orr_node_id v)
{
    const orr_graph *g = w->graph;
    const orr_memory *memory = orr_graph_memory(g, v);
    const orr_node_id parent = g->parent[v];
    put_int(w, CHAKRA_NODE_ATTR, ORR_NAME_ORDER, v);
    put_int(w, CHAKRA_NODE_ATTR, ORR_NAME_LANE, g->lane[v]);
    if (parent != plain_parent(w, v))
        put_int(w, CHAKRA_NODE_ATTR, ORR_NAME_PARENT,
                parent == ORR_NONE ? 0 : (int64_t)w->plan.place[parent] + 1);
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1];)
        d = put_run(w, d, g->dep_first[v + 1]);
    if ((g->flags[v] & ORR_FLAG_CRITICAL) != 0)
        put_int(w, CHAKRA_NODE_ATTR, ORR_NAME_CRITICAL, 1);
    if (orr_graph_comm(g, v) != NULL)
        put_comm(w, orr_graph_comm(g, v));
    if (orr_graph_copy(g, v) != NULL)
        put_copy(w, orr_graph_copy(g, v));
    if (memory != NULL) {
        const int64_t row[] = {(int64_t)memory->addr,  memory->bytes,       memory->allocated_bytes,
                               memory->reserved_bytes, memory->device_type, memory->device};
        put_row(w, CHAKRA_NODE_ATTR, ORR_NAME_MEMORY, row, sizeof row / sizeof *row);
    }
}

static uint64_t digest_of(const orr_chakra_lowering *plan, uint32_t n_nodes)
{
    uint64_t digest = 0;
    for (uint32_t i = 0; i < n_nodes; i++) {
        const orr_node_id v = plan->order[i];
        if (plan->ctrl[v] != ORR_NONE)
            digest = orr_chakra_digest(digest, i, (uint64_t)plan->place[plan->ctrl[v]] + 1, false);
        for (uint32_t d = plan->dep_first[v]; d < plan->dep_first[v + 1]; d++)
            digest = orr_chakra_digest(digest, i, (uint64_t)plan->place[plan->dep[d]] + 1, true);
    }
    return orr_chakra_digest(digest, n_nodes, 0, false);
}

/* Has a node inputs under the names of host traces? */
static bool is_host_trace(const orr_graph *g)
{
    const orr_str names[] = {orr_graph_find_str(g, ORR_NAME_INPUT_VALUES),
                             orr_graph_find_str(g, ORR_NAME_INPUT_SHAPES),
                             orr_graph_find_str(g, ORR_NAME_INPUT_TYPES)};
    if (names[0] == ORR_NONE && names[1] == ORR_NONE && names[2] == ORR_NONE)
        return false;
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        orr_attr_iter it = orr_graph_attrs(g, v);
        for (orr_attr attr; orr_attr_next(&it, &attr);)
            if (attr.name == names[0] || attr.name == names[1] || attr.name == names[2])
                return true;
    }
    return false;
}

/* Are the elements of lists in JSON apart? As in the first text that has several. */
static bool has_blanks(const orr_graph *g)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++) {
        orr_attr_iter it = orr_graph_attrs(g, v);
        for (orr_attr attr; orr_attr_next(&it, &attr);) {
            const char *comma = attr.kind != ORR_ATTR_JSON || attr.list
                                    ? NULL
                                    : strstr(orr_graph_str(g, *(const orr_str *)attr.values), "],");
            if (comma != NULL)
                return comma[2] == ' ' || comma[2] == '\n';
        }
    }
    return false;
}

void orr_chakra_find_io_form(orr_chakra_writer *w)
{
    const orr_graph *g = w->graph;
    w->io_form = (is_host_trace(g) ? 0 : ORR_IO_FORM_KINETO) |
                 (has_blanks(g) ? ORR_IO_FORM_BLANKS : 0) |
                 (g->n_tensors > 0 ? ORR_IO_FORM_TENSORS : 0);
}

void orr_chakra_put_recording(orr_chakra_writer *w)
{
    const orr_graph *g = w->graph;
    put_int(w, CHAKRA_METADATA_ATTR, ORR_NAME_RECORDED_FORM, ORR_CHAKRA_RECORDED_FORM);
    const size_t mark = begin(w, CHAKRA_METADATA_ATTR, ORR_NAME_DEPS_DIGEST);
    orr_proto_put_fixed64(&w->message, CHAKRA_ATTR_FIRST_VALUE + 2 * ORR_ATTR_FIXED64,
                          digest_of(&w->plan, g->n_nodes));
    orr_proto_end(&w->message, mark);
    put_text(w, CHAKRA_METADATA_ATTR, ORR_NAME_SOURCE, g->source);
    put_int(w, CHAKRA_METADATA_ATTR, ORR_NAME_IO_FORM, w->io_form);
    for (uint32_t l = 0; l < g->n_lanes; l++) {
        const orr_lane *lane = &g->lanes[l];
        const int64_t row[] = {lane->kind, lane->device, lane->pid, lane->tid};
        put_row(w, CHAKRA_METADATA_ATTR, ORR_NAME_LANE, row, sizeof row / sizeof *row);
        put_text(w, CHAKRA_METADATA_ATTR, ORR_NAME_LANE_PROCESS, lane->process);
        put_text(w, CHAKRA_METADATA_ATTR, ORR_NAME_LANE_NAME, lane->name);
    }
}
