/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "graph/job.h"
#include "trace/common/attr_names.h"
#include "trace/chakra/export.h"
#include "trace/comm/names.h"
#include "trace/chakra/python_repr.h"
#include "trace/chakra/recorded.h"

/* Inputs, outputs and attributes of a node, in the form of Chakra's own converter and feeder. */

static size_t begin_attr(orr_chakra_writer *w, const char *name)
{
    const size_t mark = orr_proto_begin(&w->message, CHAKRA_NODE_ATTR);
    orr_proto_put_bytes(&w->message, CHAKRA_ATTR_NAME, name, strlen(name));
    return mark;
}

static void put_number(orr_chakra_writer *w, const char *name, orr_attr_kind kind, int64_t value)
{
    const size_t mark = begin_attr(w, name);
    orr_proto_put_uint(&w->message, CHAKRA_ATTR_FIRST_VALUE + 2 * kind, (uint64_t)value);
    orr_proto_end(&w->message, mark);
}

static void put_int64(orr_chakra_writer *w, const char *name, int64_t value)
{
    put_number(w, name, ORR_ATTR_INT64, value);
}

static void put_text(orr_chakra_writer *w, const char *name, const void *text, size_t len)
{
    const size_t mark = begin_attr(w, name);
    orr_proto_put_bytes(&w->message, CHAKRA_ATTR_FIRST_VALUE + 2 * ORR_ATTR_STRING, text, len);
    orr_proto_end(&w->message, mark);
}

static void put_text_of(orr_chakra_writer *w, const char *name, orr_str s)
{
    put_text(w, name, orr_graph_str(w->graph, s), orr_graph_str_len(w->graph, s));
}

static bool is_comm(const orr_chakra_writer *w, orr_node_id v)
{
    const uint8_t kind = w->graph->kind[v];
    return kind == ORR_NODE_COLLECTIVE || kind == ORR_NODE_SEND || kind == ORR_NODE_RECV;
}

static bool is_host(const orr_chakra_writer *w, orr_node_id v)
{
    return w->graph->lanes[w->graph->lane[v]].kind == ORR_LANE_HOST;
}

/* Chakra's simulators run a communication only if it is not a "CPU operator". */
static bool is_cpu_op(const orr_chakra_writer *w, orr_node_id v)
{
    return is_host(w, v) && !is_comm(w, v);
}

/* Attributes written in a form of their own: Chakra's name, and the names that our readers use. */
static const struct {
    const char *chakra, *et, *kineto;
} RENAMED[] = {
    {"rf_id", "rf_id", NULL},         {"tid", "tid", NULL},
    {"fw_parent", "fw_parent", NULL}, {"seq_id", "seq_id", "Sequence number"},
    {"scope", "scope", NULL},         {"fw_tid", "fw_tid", "Fwd thread id"},
};
enum { RF_ID, TID, N_RENAMED = sizeof RENAMED / sizeof *RENAMED, OP_SCHEMA = N_RENAMED, IO_FIRST };

/* Inputs and outputs as text, under the names of execution traces and of Kineto. */
static const struct {
    const char *et, *kineto;
    uint32_t message, field;
} IO_TEXTS[] = {
    {ORR_NAME_INPUT_VALUES, "Concrete Inputs", CHAKRA_NODE_INPUTS, CHAKRA_IO_VALUES},
    {ORR_NAME_INPUT_SHAPES, "Input Dims", CHAKRA_NODE_INPUTS, CHAKRA_IO_SHAPES},
    {ORR_NAME_INPUT_TYPES, "Input type", CHAKRA_NODE_INPUTS, CHAKRA_IO_TYPES},
    {ORR_NAME_INPUT_STRIDES, "Input Strides", CHAKRA_NODE_INPUTS, CHAKRA_IO_STRIDES},
    {ORR_NAME_OUTPUT_VALUES, NULL, CHAKRA_NODE_OUTPUTS, CHAKRA_IO_VALUES},
    {ORR_NAME_OUTPUT_SHAPES, NULL, CHAKRA_NODE_OUTPUTS, CHAKRA_IO_SHAPES},
    {ORR_NAME_OUTPUT_TYPES, NULL, CHAKRA_NODE_OUTPUTS, CHAKRA_IO_TYPES},
    {ORR_NAME_OUTPUT_STRIDES, NULL, CHAKRA_NODE_OUTPUTS, CHAKRA_IO_STRIDES},
};
enum { N_IO_TEXTS = sizeof IO_TEXTS / sizeof *IO_TEXTS, N_PLACES = IO_FIRST + N_IO_TEXTS };

/* The attributes of a node, sorted out in one pass: those with a place, and whether one has it. */
typedef struct sorted_attrs {
    orr_attr placed[N_PLACES];
    bool has[N_PLACES];
} sorted_attrs;

/* Role of an attribute name: its index above, or one of these. */
enum { ROLE_UNKNOWN, ROLE_OURS, ROLE_OTHER, ROLE_PLACE };

/* Names that we write ourselves, so that none is written twice. */
bool orr_chakra_is_own_name(const char *name)
{
    static const char *const names[] = {
        "correlation",      "stream",
        "is_cpu_op",        "comm_type",
        "comm_size",        "comm_src",
        "comm_dst",         "comm_tag",
        "pg_name",          ORR_NAME_COMM_ASSUMED,
        "comm_seq",         "comm_root",
        "comm_in_bytes",    "comm_out_bytes",
        "comm_dtype",       "bytes",
        ORR_NAME_START_NS,  ORR_NAME_DURATION_NS,
        ORR_NAME_SELF_NS,   ORR_NAME_KIND,
        ORR_NAME_ON_HOST,   ORR_NAME_ORDER,
        ORR_NAME_LANE,      ORR_NAME_PARENT,
        ORR_NAME_CRITICAL,  ORR_NAME_COMM,
        ORR_NAME_BANDWIDTH, ORR_NAME_MEMORY,
        ORR_NAME_RECORDED,  ORR_NAME_RECORDED_IO,
        ORR_NAME_IN_SPLITS, ORR_NAME_OUT_SPLITS,
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    for (int kind = ORR_DEP_DATA; kind <= ORR_DEP_SYNC; kind++)
        if (strcmp(name, orr_chakra_deps_name((orr_dep_kind)kind)) == 0)
            return true;
    for (int i = 0; i < N_RENAMED; i++)
        if (strcmp(name, RENAMED[i].chakra) == 0)
            return true;
    return false;
}

int orr_chakra_io_place(const char *name)
{
    for (int i = 0; i < (int)N_IO_TEXTS; i++)
        if (strcmp(name, IO_TEXTS[i].et) == 0 ||
            (IO_TEXTS[i].kineto != NULL && strcmp(name, IO_TEXTS[i].kineto) == 0))
            return i;
    return -1;
}

const char *orr_chakra_io_name(int place, bool kineto)
{
    return kineto ? IO_TEXTS[place].kineto : IO_TEXTS[place].et;
}

static int find_role(const char *name)
{
    if (strcmp(name, "op_schema") == 0)
        return ROLE_PLACE + OP_SCHEMA;
    for (int i = 0; i < N_RENAMED; i++)
        if (strcmp(name, RENAMED[i].et) == 0 ||
            (RENAMED[i].kineto != NULL && strcmp(name, RENAMED[i].kineto) == 0))
            return ROLE_PLACE + i;
    if (orr_chakra_io_place(name) >= 0)
        return ROLE_PLACE + IO_FIRST + orr_chakra_io_place(name);
    return orr_chakra_is_own_name(name) || orr_chakra_is_reserved(name, strlen(name)) ? ROLE_OURS
                                                                                      : ROLE_OTHER;
}

/* Found out once a name. */
static int role_of(const orr_chakra_writer *w, orr_str name)
{
    if (w->role[name] == ROLE_UNKNOWN)
        w->role[name] = (uint8_t)find_role(orr_graph_str(w->graph, name));
    return w->role[name];
}

/* Names of an execution trace win over Kineto's where a node has both. */
static void sort_attrs(const orr_chakra_writer *w, orr_node_id v, sorted_attrs *sorted)
{
    memset(sorted->has, 0, sizeof sorted->has);
    orr_attr_iter it = orr_graph_attrs(w->graph, v);
    for (orr_attr attr; orr_attr_next(&it, &attr);) {
        const int place = role_of(w, attr.name) - ROLE_PLACE;
        if (place < 0 || attr.list || attr.count != 1)
            continue;
        const char first = orr_graph_str(w->graph, attr.name)[0];
        if (sorted->has[place] && !(first >= 'a' && first <= 'z'))
            continue;
        sorted->placed[place] = attr;
        sorted->has[place] = true;
    }
}

static void put_io(orr_chakra_writer *w, const sorted_attrs *sorted, uint32_t message)
{
    size_t mark = 0;
    bool begun = false;
    for (int i = 0; i < (int)N_IO_TEXTS; i++) {
        const int place = IO_FIRST + i;
        if (IO_TEXTS[i].message != message || !sorted->has[place])
            continue;
        const orr_attr *attr = &sorted->placed[place];
        if (attr->kind != ORR_ATTR_JSON && attr->kind != ORR_ATTR_STRING)
            continue;
        const orr_str s = *(const orr_str *)attr->values;
        if (!begun)
            mark = orr_proto_begin(&w->message, message);
        begun = true;
        w->text.n = 0;
        orr_python_repr(&w->text,
                        (orr_text){orr_graph_str(w->graph, s), orr_graph_str_len(w->graph, s)});
        orr_proto_put_bytes(&w->message, IO_TEXTS[i].field, w->text.at, w->text.n);
    }
    if (begun)
        orr_proto_end(&w->message, mark);
}

static bool number_of(const orr_attr *attr, int64_t *ret)
{
    if (attr->kind != ORR_ATTR_INT64 && attr->kind != ORR_ATTR_UINT64)
        return false;
    *ret = *(const int64_t *)attr->values;
    return true;
}

static void put_renamed(orr_chakra_writer *w, const char *name, const orr_attr *attr, int64_t value)
{
    const size_t mark = begin_attr(w, name);
    orr_chakra_put_doc(&w->message, w->graph, attr, true);
    orr_proto_put_uint(&w->message, CHAKRA_ATTR_FIRST_VALUE + 2 * ORR_ATTR_INT64, (uint64_t)value);
    orr_proto_end(&w->message, mark);
}

/* What Chakra's converter writes on every node. */
static void put_usual(orr_chakra_writer *w, orr_node_id v, const sorted_attrs *sorted)
{
    const orr_graph *g = w->graph;
    const orr_lane *lane = &g->lanes[g->lane[v]];
    const bool host = is_host(w, v);
    const orr_node_id caller = host ? v : w->plan.ctrl[v];
    const int64_t tid = caller == ORR_NONE ? INT64_MIN : g->lanes[g->lane[caller]].tid;
    int64_t value;
    const bool by_rf_id = host && g->kind[v] != ORR_NODE_RUNTIME;
    if ((g->source_id[v] != 0 || g->kind[v] == ORR_NODE_META) && !(by_rf_id && sorted->has[RF_ID]))
        put_int64(w, by_rf_id ? "rf_id" : "correlation", (int64_t)g->source_id[v]);
    for (int i = 0; i < N_RENAMED; i++)
        if (sorted->has[i] && number_of(&sorted->placed[i], &value))
            put_renamed(w, RENAMED[i].chakra, &sorted->placed[i], value);
    if (tid != INT64_MIN && (host || is_host(w, caller)) && !sorted->has[TID])
        put_int64(w, "tid", tid);
    if (sorted->has[OP_SCHEMA] && sorted->placed[OP_SCHEMA].kind == ORR_ATTR_STRING)
        put_text_of(w, "op_schema", *(const orr_str *)sorted->placed[OP_SCHEMA].values);
    put_number(w, "is_cpu_op", ORR_ATTR_BOOL, is_cpu_op(w, v));
    if (is_host(w, v) && is_comm(w, v))
        put_number(w, ORR_NAME_ON_HOST, ORR_ATTR_BOOL, true);
    if (host)
        put_int64(w, "stream", 0);
    else if (lane->tid != INT64_MIN)
        put_int64(w, "stream", lane->tid);
}

/* A rank of the group as a rank of the world. */
static int64_t world_rank(const orr_chakra_writer *w, const orr_comm *comm, int32_t rank)
{
    if (rank < 0 || comm->group == ORR_NONE)
        return rank;
    const uint32_t of_world = orr_group_rank(&w->graph->groups[comm->group], (uint32_t)rank);
    return of_world == ORR_NONE ? rank : (int64_t)of_world;
}

static void put_ends(orr_chakra_writer *w, orr_node_id v, const orr_comm *comm)
{
    const bool sends = w->graph->kind[v] == ORR_NODE_SEND;
    const int64_t peer = world_rank(w, comm, comm->peer);
    const int64_t self = w->graph->rank == ORR_NONE ? -1 : (int64_t)w->graph->rank;
    const int64_t src = sends ? self : peer, dst = sends ? peer : self;
    if (src >= 0)
        put_number(w, "comm_src", ORR_ATTR_INT32, src);
    if (dst >= 0)
        put_number(w, "comm_dst", ORR_ATTR_INT32, dst);
    put_number(w, "comm_tag", ORR_ATTR_INT32, comm->tag >= 0 ? comm->tag : 0);
}

/* What every communication has, so that no simulator stops for want of it. What the recording does
 * not say is assumed, and named in an attribute: an all-reduce (which a send or recv is not, but
 * Chakra has no number for them), one byte, all ranks. */
static void put_usual_comm(orr_chakra_writer *w, const orr_comm *comm)
{
    const int32_t type = orr_chakra_comm_type((orr_collective)comm->collective);
    const int64_t bytes = orr_comm_size(comm);
    const bool has_group = comm->group != ORR_NONE;
    char assumed[64] = "";
    put_int64(w, "comm_type", type >= 0 ? type : orr_chakra_comm_type(ORR_COLL_ALL_REDUCE));
    put_int64(w, "comm_size", bytes >= 0 ? bytes : 1);
    put_text_of(w, "pg_name", has_group ? w->graph->groups[comm->group].name : 0);
    snprintf(assumed, sizeof assumed, "%s%s%s", type >= 0 ? "" : " comm_type",
             bytes >= 0 ? "" : " comm_size", has_group ? "" : " pg_name");
    if (assumed[0] != '\0')
        put_text(w, ORR_NAME_COMM_ASSUMED, assumed + 1, strlen(assumed + 1));
}

static void put_comm(orr_chakra_writer *w, orr_node_id v)
{
    static const orr_comm unknown = {.peer = -1,
                                     .root = -1,
                                     .tag = -1,
                                     .group = ORR_NONE,
                                     .seq = -1,
                                     .in_bytes = -1,
                                     .out_bytes = -1};
    const orr_comm *comm = orr_graph_comm(w->graph, v);
    if (comm == NULL && !is_comm(w, v))
        return;
    if (comm == NULL)
        comm = &unknown;
    if (is_comm(w, v))
        put_usual_comm(w, comm);
    else if (comm->group != ORR_NONE)
        put_text_of(w, "pg_name", w->graph->groups[comm->group].name);
    if (w->graph->kind[v] == ORR_NODE_SEND || w->graph->kind[v] == ORR_NODE_RECV)
        put_ends(w, v, comm);
    if (comm->in_bytes >= 0)
        put_int64(w, "comm_in_bytes", comm->in_bytes);
    if (comm->out_bytes >= 0)
        put_int64(w, "comm_out_bytes", comm->out_bytes);
    if (comm->seq >= 0)
        put_int64(w, "comm_seq", comm->seq);
    if (comm->root >= 0)
        put_int64(w, "comm_root", comm->root);
    if (comm->dtype != 0)
        put_text_of(w, "comm_dtype", comm->dtype);
}

static void put_exact_times(orr_chakra_writer *w, orr_node_id v)
{
    const orr_graph *g = w->graph;
    if (g->start_ns[v] != ORR_TIME_NONE)
        put_int64(w, ORR_NAME_START_NS, orr_node_clock_start_ns(g, v));
    if (g->start_ns[v] != ORR_TIME_NONE || g->duration_ns[v] != 0)
        put_int64(w, ORR_NAME_DURATION_NS, g->duration_ns[v]);
    if (w->plan.self_ns[v] != g->duration_ns[v])
        put_int64(w, ORR_NAME_SELF_NS, w->plan.self_ns[v]);
}

/* Is what stands in the attribute's place all of it? */
static bool is_placed(const orr_chakra_writer *w, const sorted_attrs *sorted, const orr_attr *attr,
                      int place)
{
    int64_t value;
    if (!sorted->has[place] || sorted->placed[place].values != attr->values)
        return false;
    if (place < N_RENAMED)
        return number_of(attr, &value);
    if (place == OP_SCHEMA)
        return attr->kind == ORR_ATTR_STRING;
    const char *name = orr_chakra_io_name(place - IO_FIRST, (w->io_form & ORR_IO_FORM_KINETO) != 0);
    return attr->kind == ORR_ATTR_JSON && name != NULL &&
           strcmp(orr_graph_str(w->graph, attr->name), name) == 0;
}

/* The other attributes under their names; those that Chakra's names would hide as "recorded". */
static void put_rest(orr_chakra_writer *w, orr_node_id v, const sorted_attrs *sorted)
{
    orr_attr_iter it = orr_graph_attrs(w->graph, v);
    for (orr_attr attr; orr_attr_next(&it, &attr);) {
        const int role = role_of(w, attr.name);
        if (attr.kind == ORR_ATTR_UNKNOWN ||
            (role >= ROLE_PLACE && is_placed(w, sorted, &attr, role - ROLE_PLACE)))
            continue;
        const bool in_io = role >= ROLE_PLACE + IO_FIRST &&
                           sorted->placed[role - ROLE_PLACE].values == attr.values;
        if (role == ROLE_OTHER && attr.kind != ORR_ATTR_JSON)
            orr_chakra_attr_write(&w->message, CHAKRA_NODE_ATTR, w->graph, &attr);
        else
            orr_chakra_attr_write_as(&w->message, CHAKRA_NODE_ATTR, w->graph, &attr,
                                     role == ROLE_OTHER ? NULL
                                     : in_io            ? ORR_NAME_RECORDED_IO
                                                        : ORR_NAME_RECORDED);
    }
}

static void put_attrs(orr_chakra_writer *w, orr_node_id v, const sorted_attrs *sorted)
{
    const orr_node_kind kind = (orr_node_kind)w->graph->kind[v];
    const orr_copy *copy = orr_graph_copy(w->graph, v);
    put_usual(w, v, sorted);
    put_comm(w, v);
    if (copy != NULL)
        put_int64(w, "bytes", (int64_t)copy->bytes);
    put_exact_times(w, v);
    if (orr_chakra_kind((int32_t)orr_chakra_type_of(kind), is_cpu_op(w, v), is_comm(w, v)) != kind)
        put_text(w, ORR_NAME_KIND, orr_node_kind_name(kind), strlen(orr_node_kind_name(kind)));
    orr_chakra_put_recorded(w, v);
    put_rest(w, v, sorted);
}

void orr_chakra_put_details(orr_chakra_writer *w, orr_node_id node)
{
    sorted_attrs sorted;
    sort_attrs(w, node, &sorted);
    put_io(w, &sorted, CHAKRA_NODE_INPUTS);
    put_io(w, &sorted, CHAKRA_NODE_OUTPUTS);
    put_attrs(w, node, &sorted);
}
