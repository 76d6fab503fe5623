/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "graph/job.h"
#include "trace/perfetto/writer.h"

/* Perfetto packets: track descriptors, events, interned names, flows. */

uint64_t orr_perfetto_track(orr_perfetto *p)
{
    return (uint64_t)(p->index + 1) << 32 | ++p->n_tracks;
}

/* The packet in the buffer into the file. */
static void put_packet(orr_perfetto *p)
{
    uint8_t head[12] = {TRACE_PACKET << 3 | ORR_PROTO_BYTES};
    size_t n = 1;
    uint64_t rest = p->packet.n;
    do {
        head[n++] = (uint8_t)((rest & 127) | (rest > 127 ? 128 : 0));
        rest >>= 7;
    } while (rest != 0);
    orr_output_write(p->out, head, n);
    orr_output_write(p->out, p->packet.at, p->packet.n);
}

static void put_cstr(orr_perfetto *p, uint32_t field, const char *text)
{
    orr_proto_put_bytes(&p->packet, field, text, strlen(text));
}

static void put_str(orr_perfetto *p, uint32_t field, orr_str s)
{
    orr_proto_put_bytes(&p->packet, field, orr_graph_str(p->graph, s),
                        orr_graph_str_len(p->graph, s));
}

static int64_t small(int64_t number)
{
    return number >= 0 && number <= INT32_MAX ? number : 0;
}

/* Process ids of different ranks must differ. */
static int64_t pid_of(const orr_perfetto *p, const orr_lane *lane)
{
    const int64_t pid = small(lane->pid);
    if (!p->several)
        return pid;
    return (int64_t)(p->index % 2000 + 1) * 1000000 + pid % 1000000;
}

static void put_process(orr_perfetto *p, const orr_lane *lane, uint64_t track)
{
    char name[200];
    const char *process = orr_graph_str(p->graph, lane->process);
    const char *what = lane->kind == ORR_LANE_STREAM ? "device" : "process";
    int n = 0;
    if (p->rank != ORR_NONE)
        n = snprintf(name, sizeof name, "rank %u ", p->rank);
    if (lane->pid == INT64_MIN)
        snprintf(name + n, sizeof name - (size_t)n, "%.100s", process);
    else
        snprintf(name + n, sizeof name - (size_t)n, "%s %lld %.100s", what,
                 (long long)small(lane->pid), process);
    p->packet.n = 0;
    orr_proto_put_uint(&p->packet, PACKET_SEQUENCE_ID, p->index + 1);
    const size_t descriptor = orr_proto_begin(&p->packet, PACKET_TRACK_DESCRIPTOR);
    orr_proto_put_uint(&p->packet, TRACK_UUID, track);
    if (lane->kind == ORR_LANE_STREAM) {
        put_cstr(p, TRACK_NAME, name);
    } else {
        const size_t process_at = orr_proto_begin(&p->packet, TRACK_PROCESS);
        orr_proto_put_uint(&p->packet, PROCESS_PID, (uint64_t)pid_of(p, lane));
        put_cstr(p, PROCESS_NAME, name);
        orr_proto_end(&p->packet, process_at);
    }
    orr_proto_end(&p->packet, descriptor);
    put_packet(p);
}

void orr_perfetto_describe_lane(orr_perfetto *p, uint32_t lane_id, uint64_t process_track,
                                bool new_process, uint64_t track)
{
    const orr_lane *lane = &p->graph->lanes[lane_id];
    char name[200];
    if (new_process)
        put_process(p, lane, process_track);
    if (lane->name != 0)
        snprintf(name, sizeof name, "%.150s", orr_graph_str(p->graph, lane->name));
    else
        snprintf(name, sizeof name, "%s %lld", lane->kind == ORR_LANE_STREAM ? "stream" : "thread",
                 (long long)(lane->tid == INT64_MIN ? 0 : lane->tid));
    p->packet.n = 0;
    orr_proto_put_uint(&p->packet, PACKET_SEQUENCE_ID, p->index + 1);
    const size_t descriptor = orr_proto_begin(&p->packet, PACKET_TRACK_DESCRIPTOR);
    orr_proto_put_uint(&p->packet, TRACK_UUID, track);
    orr_proto_put_uint(&p->packet, TRACK_PARENT, process_track);
    if (lane->kind == ORR_LANE_HOST && lane->tid > 0 && lane->tid <= INT32_MAX) {
        const size_t thread = orr_proto_begin(&p->packet, TRACK_THREAD);
        orr_proto_put_uint(&p->packet, THREAD_PID, (uint64_t)pid_of(p, lane));
        orr_proto_put_uint(&p->packet, THREAD_TID, (uint64_t)lane->tid);
        put_cstr(p, THREAD_NAME, name);
        orr_proto_end(&p->packet, thread);
    } else {
        put_cstr(p, TRACK_NAME, name);
    }
    orr_proto_end(&p->packet, descriptor);
    put_packet(p);
}

void orr_perfetto_describe_row(orr_perfetto *p, uint64_t parent, uint64_t track)
{
    p->packet.n = 0;
    orr_proto_put_uint(&p->packet, PACKET_SEQUENCE_ID, p->index + 1);
    const size_t descriptor = orr_proto_begin(&p->packet, PACKET_TRACK_DESCRIPTOR);
    orr_proto_put_uint(&p->packet, TRACK_UUID, track);
    orr_proto_put_uint(&p->packet, TRACK_PARENT, parent);
    put_cstr(p, TRACK_NAME, "overlapping");
    orr_proto_end(&p->packet, descriptor);
    put_packet(p);
}

static void begin_packet(orr_perfetto *p, int64_t at_ns)
{
    p->packet.n = 0;
    orr_proto_put_uint(&p->packet, PACKET_TIMESTAMP,
                       (uint64_t)orr_ns_add_saturating(at_ns, p->shift_ns));
    orr_proto_put_uint(&p->packet, PACKET_SEQUENCE_ID, p->index + 1);
    orr_proto_put_uint(&p->packet, PACKET_SEQUENCE_FLAGS,
                       p->started ? SEQUENCE_NEEDS_STATE : SEQUENCE_CLEARED | SEQUENCE_NEEDS_STATE);
    p->started = true;
}

static void intern(orr_perfetto *p, uint32_t table, uint64_t id, const char *text, size_t len)
{
    const size_t entry = orr_proto_begin(&p->packet, table);
    orr_proto_put_uint(&p->packet, ENTRY_ID, id);
    orr_proto_put_bytes(&p->packet, ENTRY_NAME, text, len);
    orr_proto_end(&p->packet, entry);
}

/* Interned under its own number + 1, since zero means none. */
static void intern_str(orr_perfetto *p, uint32_t table, bool *known, orr_str s)
{
    if (known[s])
        return;
    known[s] = true;
    intern(p, table, (uint64_t)s + 1, orr_graph_str(p->graph, s), orr_graph_str_len(p->graph, s));
}

/* Numbers and texts; lists and raw fields are not shown. */
static bool is_shown(const orr_attr *attr)
{
    return !attr->list && attr->count == 1 && attr->kind != ORR_ATTR_UNKNOWN &&
           attr->kind != ORR_ATTR_BYTES && attr->kind != ORR_ATTR_NONE;
}

static void intern_all(orr_perfetto *p, orr_node_id v)
{
    const orr_graph *g = p->graph;
    const uint8_t kind = g->kind[v];
    const size_t before = p->packet.n;
    const size_t data = orr_proto_begin(&p->packet, PACKET_INTERNED_DATA);
    if ((p->categories >> kind & 1) == 0) {
        const char *name = orr_node_kind_name((orr_node_kind)kind);
        intern(p, INTERNED_CATEGORIES, (uint64_t)kind + 1, name, strlen(name));
        p->categories |= UINT32_C(1) << kind;
    }
    intern_str(p, INTERNED_NAMES, p->named, g->name[v]);
    orr_attr_iter it = orr_graph_attrs(g, v);
    for (orr_attr attr; orr_attr_next(&it, &attr);)
        if (is_shown(&attr))
            intern_str(p, INTERNED_ANNOTATIONS, p->keyed, attr.name);
    if (p->packet.n > data)
        orr_proto_end(&p->packet, data);
    else
        p->packet.n = before;
}

static void put_annotation(orr_perfetto *p, const orr_attr *attr)
{
    const size_t annotation = orr_proto_begin(&p->packet, EVENT_ANNOTATIONS);
    const void *value = attr->values;
    uint64_t bits;
    orr_proto_put_uint(&p->packet, ANNOTATION_NAME_ID, (uint64_t)attr->name + 1);
    switch ((orr_attr_kind)attr->kind) {
    case ORR_ATTR_STRING:
    case ORR_ATTR_JSON:
        put_str(p, ANNOTATION_STRING, *(const orr_str *)value);
        break;
    case ORR_ATTR_BOOL:
        orr_proto_put_uint(&p->packet, ANNOTATION_BOOL, *(const uint8_t *)value);
        break;
    case ORR_ATTR_DOUBLE:
        memcpy(&bits, value, sizeof bits);
        orr_proto_put_fixed64(&p->packet, ANNOTATION_DOUBLE, bits);
        break;
    case ORR_ATTR_FLOAT: {
        const double real = (double)*(const float *)value;
        memcpy(&bits, &real, sizeof bits);
        orr_proto_put_fixed64(&p->packet, ANNOTATION_DOUBLE, bits);
        break;
    }
    case ORR_ATTR_INT32:
    case ORR_ATTR_SINT32:
    case ORR_ATTR_SFIXED32:
        orr_proto_put_uint(&p->packet, ANNOTATION_INT,
                           (uint64_t)(int64_t) * (const int32_t *)value);
        break;
    case ORR_ATTR_UINT32:
    case ORR_ATTR_FIXED32:
        orr_proto_put_uint(&p->packet, ANNOTATION_UINT, *(const uint32_t *)value);
        break;
    case ORR_ATTR_UINT64:
    case ORR_ATTR_FIXED64:
        orr_proto_put_uint(&p->packet, ANNOTATION_UINT, *(const uint64_t *)value);
        break;
    default:
        orr_proto_put_uint(&p->packet, ANNOTATION_INT, *(const uint64_t *)value);
    }
    orr_proto_end(&p->packet, annotation);
}

static bool is_arrow(orr_dep_kind kind)
{
    return kind == ORR_DEP_LAUNCH || kind == ORR_DEP_HANDOFF;
}

/* A flow's number is that of the edge: the waiting node and the index of the dependency. */
static void put_arrows(orr_perfetto *p, orr_node_id v)
{
    const orr_graph *g = p->graph;
    const uint64_t rank = (uint64_t)(p->index + 1) << 40;
    for (uint32_t e = p->next.first[v]; e < p->next.first[v + 1]; e++) {
        const orr_node_id waiting = p->next.node[e];
        if (!is_arrow((orr_dep_kind)p->next.kind[e]) || g->start_ns[waiting] == ORR_TIME_NONE)
            continue;
        for (uint32_t d = g->dep_first[waiting]; d < g->dep_first[waiting + 1]; d++)
            if (g->dep[d] == v && g->dep_kind[d] == p->next.kind[e])
                orr_proto_put_fixed64(&p->packet, EVENT_FLOW_IDS, rank | (d + 1));
    }
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++)
        if (is_arrow((orr_dep_kind)g->dep_kind[d]) && g->start_ns[g->dep[d]] != ORR_TIME_NONE)
            orr_proto_put_fixed64(&p->packet, EVENT_TERMINATING_FLOW_IDS, rank | (d + 1));
}

void orr_perfetto_begin(orr_perfetto *p, orr_node_id v, uint64_t track)
{
    const orr_graph *g = p->graph;
    const bool instant = g->kind[v] == ORR_NODE_MEMORY;
    begin_packet(p, g->start_ns[v]);
    const size_t event = orr_proto_begin(&p->packet, PACKET_TRACK_EVENT);
    orr_proto_put_uint(&p->packet, EVENT_CATEGORY_IDS, (uint64_t)g->kind[v] + 1);
    orr_attr_iter it = orr_graph_attrs(g, v);
    for (orr_attr attr; orr_attr_next(&it, &attr);)
        if (is_shown(&attr))
            put_annotation(p, &attr);
    orr_proto_put_uint(&p->packet, EVENT_TYPE, instant ? INSTANT : SLICE_BEGIN);
    orr_proto_put_uint(&p->packet, EVENT_NAME_ID, (uint64_t)g->name[v] + 1);
    orr_proto_put_uint(&p->packet, EVENT_TRACK, track);
    put_arrows(p, v);
    orr_proto_end(&p->packet, event);
    intern_all(p, v);
    put_packet(p);
}

void orr_perfetto_end(orr_perfetto *p, int64_t at_ns, uint64_t track)
{
    begin_packet(p, at_ns);
    const size_t event = orr_proto_begin(&p->packet, PACKET_TRACK_EVENT);
    orr_proto_put_uint(&p->packet, EVENT_TYPE, SLICE_END);
    orr_proto_put_uint(&p->packet, EVENT_TRACK, track);
    orr_proto_end(&p->packet, event);
    put_packet(p);
}
