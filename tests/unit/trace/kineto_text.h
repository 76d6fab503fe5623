/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TESTS_KINETO_TEXT_H
#define ORR_TESTS_KINETO_TEXT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <orrery/trace.h>

/* Recordings as text in the tests, with ' for ". Times are microseconds. */

#define LIST(events) "{'schemaVersion':1,'traceEvents':[" events "]}"
#define EVENT(cat, name, pid, tid, ts, dur, args)                                                  \
    "{'ph':'X','cat':'" cat "','name':'" name "','pid':" #pid ",'tid':" #tid ",'ts':" #ts          \
    ",'dur':" #dur ",'args':{" args "}}"
#define OP(name, tid, ts, dur)            EVENT("cpu_op", name, 100, tid, ts, dur, "")
#define OP_ARGS(name, tid, ts, dur, args) EVENT("cpu_op", name, 100, tid, ts, dur, args)
#define CALL(name, tid, ts, dur, correlation)                                                      \
    EVENT("cuda_runtime", name, 100, tid, ts, dur, "'correlation':" #correlation)
#define KERNEL(name, stream, ts, dur, correlation)                                                 \
    EVENT("kernel", name, 0, stream, ts, dur,                                                      \
          "'device':0,'stream':" #stream ",'correlation':" #correlation)
#define COPY(name, stream, ts, dur, correlation, bytes)                                            \
    EVENT("gpu_memcpy", name, 0, stream, ts, dur,                                                  \
          "'device':0,'stream':" #stream ",'correlation':" #correlation ",'bytes':" #bytes)
#define FLOW(ph, cat, id, pid, tid, ts)                                                            \
    "{'ph':'" ph "','id':" #id ",'pid':" #pid ",'tid':" #tid ",'ts':" #ts ",'cat':'" cat           \
    "','name':'" cat "'}"

/* The text with " for ', malloc'ed. */
static inline char *as_json(const char *text)
{
    char *json = strdup(text);
    assert_non_null(json);
    for (char *at = json; (at = strchr(at, '\'')) != NULL;)
        *at = '"';
    return json;
}

static inline orr_status try_read(const char *text, bool tolerant, const orr_graph **ret,
                                  orr_read_report *report, orr_error *err)
{
    orr_read_options options;
    orr_read_options_init(&options);
    options.tolerant = tolerant;
    options.format = ORR_FORMAT_KINETO;
    char *json = as_json(text);
    const orr_status status = orr_trace_read_memory(json, strlen(json), &options, ret, report, err);
    free(json);
    return status;
}

static inline const orr_graph *read_report(const char *text, orr_read_report *report)
{
    const orr_graph *g = NULL;
    orr_error err = {0};
    if (try_read(text, false, &g, report, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return g;
}

static inline const orr_graph *read_text(const char *text)
{
    orr_read_report report;
    return read_report(text, &report);
}

/* The n-th node of that name, counted from 0; the test fails without it. */
static inline orr_node_id nth(const orr_graph *g, const char *name, unsigned n)
{
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        if (strcmp(orr_graph_str(g, g->name[v]), name) == 0 && n-- == 0)
            return v;
    fail_msg("no node '%s'", name);
    return ORR_NONE;
}
static inline orr_node_id named(const orr_graph *g, const char *name)
{
    return nth(g, name, 0);
}

static inline unsigned count_deps(const orr_graph *g, orr_dep_kind kind)
{
    unsigned n = 0;
    for (uint32_t e = 0; e < g->n_deps; e++)
        n += g->dep_kind[e] == kind;
    return n;
}
static inline unsigned count_kind(const orr_graph *g, orr_node_kind kind)
{
    unsigned n = 0;
    for (orr_node_id v = 0; v < g->n_nodes; v++)
        n += g->kind[v] == kind;
    return n;
}

static inline bool waits(const orr_graph *g, orr_node_id v, orr_node_id on, orr_dep_kind kind)
{
    for (uint32_t e = g->dep_first[v]; e < g->dep_first[v + 1]; e++)
        if (g->dep[e] == on && g->dep_kind[e] == kind)
            return true;
    return false;
}
#define assert_waits(g, v, on, kind)                                                               \
    assert_true(waits((g), named((g), (v)), named((g), (on)), (kind)))
#define assert_waits_not(g, v, on, kind)                                                           \
    assert_false(waits((g), named((g), (v)), named((g), (on)), (kind)))

static inline const char *parent_name(const orr_graph *g, const char *name)
{
    const orr_node_id parent = g->parent[named(g, name)];
    return parent == ORR_NONE ? "" : orr_graph_str(g, g->name[parent]);
}

/* A file of the real recordings, or a skip. Valid until the next call. */
static inline const char *real_file(const char *name)
{
    static char path[4096];
    const char *shared = getenv("ORRERY_SHARED");
    if (shared == NULL)
        skip();
    (void)snprintf(path, sizeof path, "%s/data/traces/%s", shared, name);
    return path;
}

static inline const orr_graph *read_real(const char *name, orr_read_report *report)
{
    const orr_graph *g = NULL;
    orr_error err = {0};
    if (orr_trace_read(real_file(name), NULL, &g, report, &err) != ORR_OK)
        fail_msg("%s", err.text);
    return g;
}

#endif /* ORR_TESTS_KINETO_TEXT_H */
