/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recover/recover.h"

#include "base/alloc.h"
#include "trace/common/idmap.h"

/* Launches and stream order. Maps CUPTI's correlation number to the host call; numbers are nearly
 * consecutive, so a plain array does for most recordings and a hash table for the rest. */
typedef struct call_table {
    uint64_t lowest;
    uint64_t span;  /* of `call`; 0: the hash table is used */
    uint32_t *call; /* node + 1; 0: none */
    orr_idmap map;
} call_table;

static void table_done(call_table *t)
{
    orr_free(t->call);
    orr_idmap_done(&t->map);
}

static uint32_t table_get(const call_table *t, uint64_t correlation)
{
    if (t->span == 0)
        return orr_idmap_get(&t->map, correlation);
    const uint64_t at = correlation - t->lowest;
    return at < t->span && t->call[at] != 0 ? t->call[at] - 1 : ORR_NONE;
}

/* Of two calls with one correlation the first is kept. */
static orr_status table_add(call_table *t, uint64_t correlation, orr_node_id call, orr_error *err)
{
    uint32_t old;
    if (t->span == 0)
        return orr_idmap_add(&t->map, correlation, call, &old, err);
    uint32_t *at = &t->call[correlation - t->lowest];
    if (*at == 0)
        *at = call + 1;
    return ORR_OK;
}

static orr_status table_fill(call_table *t, const orr_graph_builder *b, orr_error *err)
{
    uint64_t lowest = UINT64_MAX, highest = 0, n = 0;
    for (orr_node_id v = 0; v < b->n_nodes; v++) {
        const uint64_t id = b->source_id[v];
        if (b->kind[v] != ORR_NODE_RUNTIME || id == 0)
            continue;
        lowest = id < lowest ? id : lowest;
        highest = id > highest ? id : highest;
        n++;
    }
    if (n > 0 && highest - lowest < 8 * n + 1024) {
        t->lowest = lowest;
        t->span = highest - lowest + 1;
        t->call = orr_calloc(t->span, sizeof *t->call);
        if (t->call == NULL)
            return orr_fail_memory(err);
    }
    for (orr_node_id v = 0; v < b->n_nodes; v++)
        if (b->kind[v] == ORR_NODE_RUNTIME && b->source_id[v] != 0)
            ORR_TRY(table_add(t, b->source_id[v], v, err));
    return ORR_OK;
}

static bool is_device_work(const orr_graph_builder *b, orr_node_id v)
{
    return b->kind[v] >= ORR_NODE_COMPUTE && b->kind[v] <= ORR_NODE_SYNC &&
           b->lanes.at[b->lane[v]].kind == ORR_LANE_STREAM;
}

/* The call where an arrow begins, preferably a runtime call. */
static orr_node_id call_at(const orr_graph_builder *b, const orr_flow *flow)
{
    orr_node_id found = ORR_NONE;
    uint32_t last;
    for (uint32_t i = orr_lane_rows_at(b, flow->lane, flow->at_ns, &last); i < last; i++) {
        const orr_node_id v = b->lane_rows.node[i];
        if (b->kind[v] == ORR_NODE_RUNTIME)
            return v;
        if (b->kind[v] == ORR_NODE_HOST_OP)
            found = v;
    }
    return found;
}

/* Flow arrows tell the launch of device work that has no correlation. */
static orr_status follow_arrows(orr_graph_builder *b, orr_recovery *r, orr_error *err)
{
    orr_idmap begins = {0};
    orr_status status = ORR_OK;
    for (size_t i = 0; i < r->launches.n; i++) {
        const orr_flow *flow = &r->launches.at[i];
        const orr_node_id call = flow->finish ? ORR_NONE : call_at(b, flow);
        if (call != ORR_NONE)
            ORR_TRY_OUT(status, orr_idmap_set(&begins, flow->id, call, err));
    }
    for (size_t i = 0; i < r->launches.n; i++) {
        const orr_flow *flow = &r->launches.at[i];
        const orr_node_id call = flow->finish ? orr_idmap_get(&begins, flow->id) : ORR_NONE;
        uint32_t last;
        if (call == ORR_NONE)
            continue;
        for (uint32_t row = orr_lane_rows_at(b, flow->lane, flow->at_ns, &last); row < last;
             row++) {
            const orr_node_id v = b->lane_rows.node[row];
            if (is_device_work(b, v) && b->source_id[v] == 0)
                r->launch[v] = call;
        }
    }
out:
    orr_idmap_done(&begins);
    return status;
}

static orr_status launch_all(orr_graph_builder *b, orr_recovery *r, const call_table *calls,
                             orr_error *err)
{
    for (orr_node_id v = 0; v < b->n_nodes; v++) {
        if (!is_device_work(b, v))
            continue;
        if (r->launch[v] == ORR_NONE && b->source_id[v] != 0)
            r->launch[v] = table_get(calls, b->source_id[v]);
        if (r->launch[v] != ORR_NONE)
            ORR_TRY(orr_builder_dep(b, v, r->launch[v], ORR_DEP_LAUNCH, err));
        else
            r->orphans += b->kind[v] != ORR_NODE_SYNC;
    }
    return ORR_OK;
}

orr_status orr_recover_launches(orr_graph_builder *b, orr_recovery *r, orr_error *err)
{
    call_table calls = {0};
    orr_status status = ORR_OK;
    const size_t bytes = (b->n_nodes + (size_t)1) * sizeof *r->launch;
    r->launch = orr_malloc(bytes);
    if (r->launch == NULL)
        return orr_fail_memory(err);
    for (orr_node_id v = 0; v < b->n_nodes; v++)
        r->launch[v] = ORR_NONE;
    if (r->launches.n > 0)
        ORR_TRY_OUT(status, follow_arrows(b, r, err));
    ORR_TRY_OUT(status, table_fill(&calls, b, err));
    status = launch_all(b, r, &calls, err);
out:
    table_done(&calls);
    return status;
}

/* Stream order. Work mostly runs one after the other; nodes of a CUDA graph launch may overlap on
 * one stream. Each node is followed by the first that starts at or after its end. */
typedef orr_array(orr_node_id) running_nodes;

static orr_status follow_running(orr_graph_builder *b, const orr_recovery *r,
                                 running_nodes *running, orr_node_id v, orr_error *err)
{
    const int64_t start = orr_device_times(b, r, v).start_ns;
    size_t kept = 0;
    for (size_t i = 0; i < running->n; i++) {
        const orr_node_id u = running->at[i];
        if (orr_device_times(b, r, u).end_ns <= start)
            ORR_TRY(orr_builder_dep(b, v, u, ORR_DEP_STREAM, err));
        else
            running->at[kept++] = u;
    }
    /* Bounds the quadratic case; no device runs so many kernels of a stream at once. */
    static const size_t most_running = 128;
    if (kept >= most_running)
        kept = 0;
    running->n = kept;
    return orr_array_push(running, v) ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_recover_streams(orr_graph_builder *b, const orr_recovery *r, orr_error *err)
{
    running_nodes running = {0};
    orr_status status = ORR_OK;
    for (uint32_t lane = 0; lane < b->lanes.n; lane++) {
        running.n = 0;
        if (b->lanes.at[lane].kind != ORR_LANE_STREAM)
            continue;
        for (uint32_t i = b->lane_rows.first[lane]; i < b->lane_rows.first[lane + 1]; i++) {
            const orr_node_id v = b->lane_rows.node[i];
            if (orr_occupies_stream(b, r, v))
                ORR_TRY_OUT(status, follow_running(b, r, &running, v, err));
        }
    }
out:
    orr_array_done(&running);
    return status;
}
