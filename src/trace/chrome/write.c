/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/chrome/args.h"

#include <stdio.h>
#include <string.h>

#include "graph/job.h"
#include "trace/comm/process_groups.h"
#include "trace/common/writer.h"

/* Chrome trace JSON in Kineto's dialect, for browsers and for our own reader, which gets back the
 * same recording. Nodes keep their order and so their numbers. One graph keeps its process and
 * thread numbers; each of several gets a range of its own. */
typedef struct writer {
    orr_json_writer json;
    const orr_write_set *set;
} writer;

static const int64_t pids_per_rank = 1000000;

static const char *category(const orr_graph *g, orr_node_id v)
{
    const char *name = orr_graph_str(g, g->name[v]);
    const bool on_host = g->lanes[g->lane[v]].kind == ORR_LANE_HOST;
    switch ((orr_node_kind)g->kind[v]) {
    case ORR_NODE_HOST_OP:
        return "cpu_op";
    case ORR_NODE_RUNTIME:
        return "cuda_runtime";
    case ORR_NODE_PYTHON:
        return "python_function";
    case ORR_NODE_ANNOTATION:
        return "user_annotation";
    case ORR_NODE_DEVICE_ANNOTATION:
        return "gpu_user_annotation";
    case ORR_NODE_COMPUTE:
        return on_host ? "cpu_op" : "kernel";
    case ORR_NODE_COLLECTIVE:
    case ORR_NODE_SEND:
    case ORR_NODE_RECV:
        return on_host ? "user_annotation" : "kernel";
    case ORR_NODE_COPY: /* of MTIA, where it is distinguished by name */
        return strcmp(name, "dma_request") == 0 ? "mtia_ccp_events" : "gpu_memcpy";
    case ORR_NODE_SET:
        return "gpu_memset";
    case ORR_NODE_SYNC:
        return strncmp(name, "event_", 6) == 0 ? "mtia_ccp_events" : "cuda_sync";
    case ORR_NODE_MEMORY:
        return "cpu_instant_event";
    case ORR_NODE_OVERHEAD:
        return "overhead";
    default:
        return "Trace";
    }
}

static void put_cstr(writer *w, const char *key, const char *text)
{
    orr_json_write_key(&w->json, key);
    orr_json_write_cstr(&w->json, text);
}

static void put_text(writer *w, const char *key, const orr_graph *g, orr_str s)
{
    orr_json_write_key(&w->json, key);
    orr_json_write_text(&w->json, orr_graph_str(g, s), orr_graph_str_len(g, s));
}

static void put_int(writer *w, const char *key, int64_t value)
{
    orr_json_write_key(&w->json, key);
    orr_json_write_int(&w->json, value);
}

/* Lanes of one process of a rank share the first of them. */
static uint32_t first_of_process(const orr_graph *g, uint32_t lane)
{
    const orr_lane *wanted = &g->lanes[lane];
    for (uint32_t l = 0; l < lane; l++)
        if (g->lanes[l].kind == wanted->kind && g->lanes[l].pid == wanted->pid &&
            (wanted->pid != INT64_MIN || g->lanes[l].process == wanted->process))
            return l;
    return lane;
}

static void put_lane(writer *w, uint32_t i, uint32_t lane)
{
    const orr_graph *g = w->set->graphs[i];
    const orr_lane *l = &g->lanes[lane];
    if (w->set->n > 1)
        put_int(w, "pid", (int64_t)(i + 1) * pids_per_rank + first_of_process(g, lane));
    else if (l->pid == INT64_MIN)
        put_text(w, "pid", g, l->process);
    else
        put_int(w, "pid", l->pid);
    if (l->tid == INT64_MIN)
        put_text(w, "tid", g, l->name);
    else
        put_int(w, "tid", l->tid);
}

static void put_time(writer *w, const char *key, int64_t ns)
{
    orr_json_write_key(&w->json, key);
    orr_json_write_us(&w->json, ns);
}

static int64_t start_ns(const writer *w, uint32_t i, orr_node_id v)
{
    return orr_ns_add_saturating(w->set->shift_ns[i], w->set->graphs[i]->start_ns[v]);
}

/* "fwdbwd" is Kineto's arrow from a forward operator to its autograd node. Other hand-offs are
 * found again in the times by our reader. */
static const char *arrow_name(const orr_graph *g, orr_node_id v, orr_dep_kind kind)
{
    static const char engine[] = "autograd::engine::";
    const char *name = orr_graph_str(g, g->name[v]);
    if (kind == ORR_DEP_LAUNCH)
        return "ac2g";
    const bool backward = strstr(name, "Backward") != NULL || strstr(name, "autograd::") != NULL;
    return backward && strncmp(name, engine, sizeof engine - 1) != 0 ? "fwdbwd" : "handoff";
}

/* One end of an arrow to v. */
static void put_arrow(writer *w, uint32_t i, orr_node_id at, orr_node_id v, const char *name,
                      bool ends)
{
    const orr_graph *g = w->set->graphs[i];
    orr_json_write_object(&w->json);
    put_cstr(w, "ph", ends ? "f" : "s");
    put_int(w, "id", (int64_t)i << 32 | v);
    put_lane(w, i, g->lane[at]);
    put_time(w, "ts", start_ns(w, i, at));
    put_cstr(w, "cat", name);
    put_cstr(w, "name", name);
    if (ends)
        put_cstr(w, "bp", "e");
    orr_json_write_object_end(&w->json);
    orr_json_write_newline(&w->json);
}

static void put_arrows(writer *w, uint32_t i, orr_node_id v)
{
    const orr_graph *g = w->set->graphs[i];
    for (uint32_t d = g->dep_first[v]; d < g->dep_first[v + 1]; d++) {
        const orr_dep_kind kind = (orr_dep_kind)g->dep_kind[d];
        if ((kind != ORR_DEP_LAUNCH && kind != ORR_DEP_HANDOFF) ||
            g->start_ns[g->dep[d]] == ORR_TIME_NONE)
            continue;
        const char *name = arrow_name(g, v, kind);
        put_arrow(w, i, g->dep[d], v, name, false);
        put_arrow(w, i, v, v, name, true);
    }
}

static void put_node(writer *w, uint32_t i, orr_node_id v)
{
    const orr_graph *g = w->set->graphs[i];
    const bool instant = g->kind[v] == ORR_NODE_MEMORY;
    orr_json_write_object(&w->json);
    put_cstr(w, "ph", instant ? "i" : "X");
    put_cstr(w, "cat", category(g, v));
    put_text(w, "name", g, g->name[v]);
    put_lane(w, i, g->lane[v]);
    put_time(w, "ts", start_ns(w, i, v));
    if (instant)
        put_cstr(w, "s", "t");
    else
        put_time(w, "dur", g->duration_ns[v]);
    orr_json_write_key(&w->json, "args");
    orr_chrome_write_args(&w->json, g, v);
    orr_json_write_object_end(&w->json);
    orr_json_write_newline(&w->json);
}

static void put_label(writer *w, uint32_t i, uint32_t lane, const char *what, const char *name)
{
    orr_json_write_object(&w->json);
    put_cstr(w, "ph", "M");
    put_cstr(w, "name", what);
    put_lane(w, i, lane);
    put_int(w, "ts", 0);
    orr_json_write_key(&w->json, "args");
    orr_json_write_object(&w->json);
    put_cstr(w, "name", name);
    orr_json_write_object_end(&w->json);
    orr_json_write_object_end(&w->json);
    orr_json_write_newline(&w->json);
}

static void put_labels(writer *w, uint32_t i)
{
    const orr_graph *g = w->set->graphs[i];
    for (uint32_t l = 0; l < g->n_lanes; l++) {
        const orr_lane *lane = &g->lanes[l];
        const char *process = orr_graph_str(g, lane->process);
        char name[160];
        if (w->set->n > 1)
            snprintf(name, sizeof name, "rank %d: %.100s %s", (int)w->set->ranks[i], process,
                     lane->kind == ORR_LANE_STREAM ? "(device)" : "(host)");
        else
            snprintf(name, sizeof name, "%.150s", lane->pid == INT64_MIN ? "" : process);
        if (name[0] != '\0' && first_of_process(g, l) == l)
            put_label(w, i, l, "process_name", name);
        if (lane->name != 0 && lane->tid != INT64_MIN)
            put_label(w, i, l, "thread_name", orr_graph_str(g, lane->name));
    }
}

static void put_distributed(writer *w, const orr_graph *g)
{
    if (g->rank == ORR_NONE && g->world_size == 0 && g->n_groups == 0)
        return;
    orr_json_write_key(&w->json, "distributedInfo");
    orr_json_write_object(&w->json);
    if (g->rank != ORR_NONE)
        put_int(w, "rank", g->rank);
    if (g->world_size != 0)
        put_int(w, "world_size", g->world_size);
    if (g->n_groups > 0) {
        orr_json_write_key(&w->json, "pg_config");
        orr_process_groups_write(g, &w->json);
    }
    orr_json_write_object_end(&w->json);
    orr_json_write_newline(&w->json);
}

static void put_device(writer *w, const orr_graph *g)
{
    if (g->device_name == 0)
        return;
    int32_t device = 0;
    for (uint32_t l = g->n_lanes; l-- > 0;)
        if (g->lanes[l].kind == ORR_LANE_STREAM)
            device = g->lanes[l].device;
    orr_json_write_key(&w->json, "deviceProperties");
    orr_json_write_array(&w->json);
    orr_json_write_object(&w->json);
    put_int(w, "id", device);
    put_text(w, "name", g, g->device_name);
    orr_json_write_object_end(&w->json);
    orr_json_write_array_end(&w->json);
    orr_json_write_newline(&w->json);
}

/* Facts about the recording; for several, those that they share. */
static void put_header(writer *w)
{
    const orr_graph *g = w->set->graphs[0];
    put_int(w, "schemaVersion", 1);
    if (w->set->n == 1) {
        put_device(w, g);
        put_distributed(w, g);
        orr_attr_iter it = orr_graph_attrs(g, ORR_NONE);
        for (orr_attr attr; orr_attr_next(&it, &attr);) {
            if (attr.kind == ORR_ATTR_UNKNOWN || attr.kind == ORR_ATTR_BYTES)
                continue;
            orr_json_write_key(&w->json, orr_graph_str(g, attr.name));
            orr_chrome_write_attr(&w->json, g, &attr);
        }
    }
    put_cstr(w, "displayTimeUnit", "ms");
    put_int(w, "baseTimeNanoseconds", w->set->base_ns);
    orr_json_write_newline(&w->json);
}

orr_status orr_chrome_write(const orr_write_set *set, orr_output *out, orr_error *err)
{
    (void)err;
    writer w = {.set = set};
    orr_json_write_init(&w.json, out);
    orr_json_write_object(&w.json);
    put_header(&w);
    orr_json_write_key(&w.json, "traceEvents");
    orr_json_write_array(&w.json);
    for (uint32_t i = 0; i < set->n; i++) {
        const orr_graph *g = set->graphs[i];
        put_labels(&w, i);
        for (orr_node_id v = 0; v < g->n_nodes; v++) {
            if (g->start_ns[v] == ORR_TIME_NONE)
                continue;
            put_node(&w, i, v);
            put_arrows(&w, i, v);
        }
    }
    orr_json_write_array_end(&w.json);
    orr_json_write_object_end(&w.json);
    orr_json_write_newline(&w.json);
    return ORR_OK;
}
