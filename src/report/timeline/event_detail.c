/* SPDX-License-Identifier: Apache-2.0 */
#include "report/timeline/event_detail.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "report/humanize/human.h"

enum { VALUE_MAX_BYTES = 240, LIST_SHOWN = 8 };

typedef struct lines {
    char *buf;
    size_t n, cap;
} lines;

/* One line, whole or not at all. */
ORR_PRINTF(3, 4) static void put_line(lines *l, const char *key, const char *format, ...)
{
    char value[VALUE_MAX_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(value, sizeof value, format, args);
    va_end(args);
    const size_t n = strlen(key) + strlen(value) + 2;
    if (value[0] == '\0' || l->n + n + 1 > l->cap)
        return;
    for (char *c = value; *c; c++)
        if (*c == '\n' || *c == '\t')
            *c = ' ';
    snprintf(l->buf + l->n, l->cap - l->n, "%s\t%s\n", key, value);
    l->n += n;
}

static void put_bytes(lines *l, const char *key, int64_t bytes)
{
    char human[ORR_HUMAN_MAX];
    if (bytes >= 0)
        put_line(l, key, "%s (%" PRId64 " bytes)", orr_human_bytes(human, (double)bytes), bytes);
}

static void put_comm(lines *l, const orr_graph *graph, const orr_comm *comm)
{
    put_line(l, "collective", "%s%s", orr_collective_name((orr_collective)comm->collective),
             comm->vector ? " (uneven)" : "");
    if (comm->group != ORR_NONE) {
        const orr_group *group = &graph->groups[comm->group];
        const char *desc = orr_graph_str(graph, group->desc);
        put_line(l, "group", "%s%s%s", orr_graph_str(graph, group->name), *desc ? ", " : "", desc);
    }
    if (comm->group_size > 0)
        put_line(l, "group size", "%" PRId32, comm->group_size);
    put_bytes(l, "in", comm->in_bytes);
    put_bytes(l, "out", comm->out_bytes);
    put_line(l, "dtype", "%s", orr_graph_str(graph, comm->dtype));
    if (comm->peer >= 0)
        put_line(l, "peer", "%" PRId32, comm->peer);
    if (comm->root >= 0)
        put_line(l, "root", "%" PRId32, comm->root);
}

static void put_copy(lines *l, const orr_copy *copy)
{
    char human[ORR_HUMAN_MAX];
    put_bytes(l, "bytes", copy->bytes < INT64_MAX ? (int64_t)copy->bytes : INT64_MAX);
    if (copy->bandwidth_bytes_per_s > 0)
        put_line(l, "bandwidth", "%s", orr_human_bytes_per_s(human, copy->bandwidth_bytes_per_s));
}

/* Numbers that name one event rather than describe it. */
static bool is_id(const char *name)
{
    static const char *const ids[] = {"External id",
                                      "external id",
                                      "correlation",
                                      "Correlation",
                                      "Ev Idx",
                                      "Python id",
                                      "cbid",
                                      "Record function id",
                                      "Sequence number",
                                      "Fwd thread id",
                                      "Python parent id",
                                      "id",
                                      "context",
                                      "stream",
                                      "device",
                                      "rf_id",
                                      "fw_parent",
                                      "seq_id",
                                      "scope",
                                      "tid",
                                      "fw_tid",
                                      "parent",
                                      "ts",
                                      "External Id",
                                      "Python module id",
                                      "Python thread",
                                      NULL};
    for (size_t i = 0; ids[i]; i++)
        if (strcmp(ids[i], name) == 0)
            return true;
    return false;
}

static size_t put_value(const orr_graph *graph, const orr_attr *attr, uint32_t i, char *at,
                        size_t room)
{
    const void *values = attr->values;
    int n = 0;
    switch ((orr_attr_kind)attr->kind) {
    case ORR_ATTR_DOUBLE:
        n = snprintf(at, room, "%.6g", ((const double *)values)[i]);
        break;
    case ORR_ATTR_FLOAT:
        n = snprintf(at, room, "%.6g", (double)((const float *)values)[i]);
        break;
    case ORR_ATTR_INT32:
    case ORR_ATTR_SINT32:
    case ORR_ATTR_SFIXED32:
        n = snprintf(at, room, "%" PRId32, ((const int32_t *)values)[i]);
        break;
    case ORR_ATTR_INT64:
    case ORR_ATTR_SINT64:
    case ORR_ATTR_SFIXED64:
        n = snprintf(at, room, "%" PRId64, ((const int64_t *)values)[i]);
        break;
    case ORR_ATTR_UINT32:
    case ORR_ATTR_FIXED32:
        n = snprintf(at, room, "%" PRIu32, ((const uint32_t *)values)[i]);
        break;
    case ORR_ATTR_UINT64:
    case ORR_ATTR_FIXED64:
        n = snprintf(at, room, "%" PRIu64, ((const uint64_t *)values)[i]);
        break;
    case ORR_ATTR_BOOL:
        n = snprintf(at, room, "%s", ((const uint8_t *)values)[i] ? "true" : "false");
        break;
    case ORR_ATTR_STRING:
    case ORR_ATTR_JSON:
        n = snprintf(at, room, "%s", orr_graph_str(graph, ((const orr_str *)values)[i]));
        break;
    case ORR_ATTR_BYTES:
    case ORR_ATTR_UNKNOWN:
    case ORR_ATTR_NONE:
        break;
    }
    return n < 0 ? 0 : (size_t)n < room ? (size_t)n : room - 1;
}

static void put_attr(lines *l, const orr_graph *graph, const orr_attr *attr)
{
    char text[VALUE_MAX_BYTES] = "";
    size_t n = 0;
    const char *name = orr_graph_str(graph, attr->name);
    if (is_id(name))
        return;
    for (uint32_t i = 0; i < attr->count && i < LIST_SHOWN && n + 8 < sizeof text; i++) {
        if (i > 0)
            n += (size_t)snprintf(text + n, sizeof text - n, ", ");
        n += put_value(graph, attr, i, text + n, sizeof text - n);
    }
    put_line(l, name, attr->list ? "[%s%s]" : "%s%s", text,
             attr->count > LIST_SHOWN ? ", ..." : "");
}

size_t orr_event_detail(const orr_graph *graph, orr_node_id node, char *buf, size_t cap)
{
    lines l = {buf, 0, cap};
    const orr_comm *comm = orr_graph_comm(graph, node);
    const orr_copy *copy = orr_graph_copy(graph, node);
    if (cap == 0)
        return 0;
    buf[0] = '\0';
    if (comm)
        put_comm(&l, graph, comm);
    if (copy)
        put_copy(&l, copy);
    orr_attr_iter iter = orr_graph_attrs(graph, node);
    for (orr_attr attr; orr_attr_next(&iter, &attr);)
        put_attr(&l, graph, &attr);
    return l.n;
}
