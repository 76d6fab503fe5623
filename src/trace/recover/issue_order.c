/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/recover/sync.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

/* How closely the clocks of host and device agree. */
static const int64_t clock_skew_ns = 2000;

static int by_time(const void *a, const void *b)
{
    const orr_issued_work *x = a, *y = b;
    if (x->at_ns != y->at_ns)
        return x->at_ns < y->at_ns ? -1 : 1;
    return x->node < y->node ? -1 : x->node > y->node;
}

/* Sorts rows [0, n) of one lane, which are nearly always in order. */
static void sort_lane(orr_issued_work *row, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++)
        if (by_time(&row[i - 1], &row[i]) > 0) {
            qsort(row, n, sizeof *row, by_time);
            return;
        }
}

/* The lane a row belongs to: its stream, or the thread that launched it. */
static uint32_t lane_of(const orr_sync_context *s, orr_node_id v, bool by_thread)
{
    return s->b->lane[by_thread ? s->r->launch[v] : v];
}

static bool is_issued(const orr_sync_context *s, orr_node_id v)
{
    return s->r->launch[v] != ORR_NONE && orr_occupies_stream(s->b, s->r, v);
}

static orr_status gather(const orr_sync_context *s, orr_issue_order *issues, bool by_thread,
                         orr_error *err)
{
    const orr_graph_builder *b = s->b;
    const size_t n_lanes = b->lanes.n;
    issues->first = orr_calloc(n_lanes + 2, sizeof *issues->first);
    if (issues->first == NULL)
        return orr_fail_memory(err);
    /* Counted two places ahead, so that filling leaves first[lane] at the lane's beginning
     * (counting sort). */
    for (orr_node_id v = 0; v < b->n_nodes; v++)
        if (is_issued(s, v)) {
            issues->first[lane_of(s, v, by_thread) + 2]++;
            issues->n++;
        }
    issues->row = orr_malloc((issues->n + (size_t)1) * sizeof *issues->row);
    if (issues->row == NULL)
        return orr_fail_memory(err);
    for (size_t lane = 0; lane < n_lanes; lane++)
        issues->first[lane + 1] += issues->first[lane];
    for (orr_node_id v = 0; v < b->n_nodes; v++)
        if (is_issued(s, v))
            issues->row[issues->first[lane_of(s, v, by_thread) + 1]++] =
                (orr_issued_work){b->start_ns[s->r->launch[v]], v};
    for (size_t lane = 0; lane < n_lanes; lane++)
        sort_lane(issues->row + issues->first[lane], issues->first[lane + 1] - issues->first[lane]);
    return ORR_OK;
}

/* Streams are numbered from 0 on each device; -1 and INT64_MIN are among the numbers seen. */
static uint64_t stream_key(int32_t device, int64_t stream)
{
    return ((uint64_t)(uint32_t)(device + 1) << 40) ^ (uint64_t)stream;
}

static orr_status name_streams(orr_sync_context *s, orr_error *err)
{
    const orr_graph_builder *b = s->b;
    const orr_recovery *r = s->r;
    uint32_t old;
    for (uint32_t lane = 0; lane < b->lanes.n; lane++) {
        const orr_lane *l = &b->lanes.at[lane];
        if (l->kind != ORR_LANE_STREAM)
            continue;
        const bool renamed = lane < r->lane_stream.n && r->lane_stream.at[lane] != INT64_MIN;
        const int64_t stream = renamed ? r->lane_stream.at[lane] : l->tid;
        ORR_TRY(orr_idmap_add(&s->streams, stream_key(l->device, stream), lane, &old, err));
        ORR_TRY(orr_idmap_add(&s->streams, stream_key(-1, stream), lane, &old, err));
    }
    for (size_t i = 0; i < r->calls.n; i++) {
        const orr_host_call *call = &r->calls.at[i];
        if (call->role == ORR_HOST_CALL_RECORD_EVENT && b->source_id[call->node] != 0)
            ORR_TRY(orr_idmap_add(&s->records, b->source_id[call->node], call->node, &old, err));
    }
    return ORR_OK;
}

static bool is_transfer(const orr_graph_builder *b, orr_node_id v)
{
    return b->kind[v] == ORR_NODE_COPY || b->kind[v] == ORR_NODE_SET;
}

int64_t orr_sync_prompt_ns(const orr_sync_context *s, orr_node_id work)
{
    return s->prompt_ns[is_transfer(s->b, work)];
}

static int by_length(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* How promptly work of this recording begins once what it waited for is over: from the end of work
 * to the start of what had been launched behind it, long (`early_ns`) before that end.
 * PROMPT_FACTOR times nine tenths of these, but not less than on NVIDIA's devices, and that where
 * there are fewer than ENOUGH. A transfer on AMD's takes longer to make way than a kernel. */
static orr_status measure_prompt(orr_sync_context *s, bool transfers, orr_error *err)
{
    enum { PROMPT_FACTOR = 2, ENOUGH = 8 };
    static const int64_t early_ns = 30000;
    const orr_graph_builder *b = s->b;
    const orr_issue_order *issues = &s->by_stream;
    int64_t *gaps = orr_malloc((issues->n + (size_t)1) * sizeof *gaps);
    uint32_t n = 0;
    if (gaps == NULL)
        return orr_fail_memory(err);
    for (uint32_t lane = 0; lane < b->lanes.n; lane++)
        for (uint32_t row = issues->first[lane]; row + 1 < issues->first[lane + 1]; row++) {
            const orr_issued_work *first = &issues->row[row], *second = first + 1;
            const int64_t end = orr_recorded_end_ns(b, first->node);
            if (is_transfer(b, first->node) == transfers && second->at_ns + early_ns <= end &&
                b->start_ns[second->node] >= end)
                gaps[n++] = b->start_ns[second->node] - end;
        }
    s->prompt_ns[transfers] = ORR_PROMPT_LEAST_NS;
    if (n >= ENOUGH) {
        qsort(gaps, n, sizeof *gaps, by_length);
        const int64_t prompt_ns = PROMPT_FACTOR * gaps[(n - 1) * 9 / 10];
        if (prompt_ns > ORR_PROMPT_LEAST_NS)
            s->prompt_ns[transfers] = prompt_ns;
    }
    orr_free(gaps);
    return ORR_OK;
}

orr_status orr_sync_open(orr_sync_context *s, orr_graph_builder *b, const orr_recovery *r,
                         orr_error *err)
{
    memset(s, 0, sizeof *s);
    s->b = b;
    s->r = r;
    ORR_TRY(gather(s, &s->by_stream, false, err));
    ORR_TRY(gather(s, &s->by_thread, true, err));
    ORR_TRY(measure_prompt(s, false, err));
    ORR_TRY(measure_prompt(s, true, err));
    return name_streams(s, err);
}

void orr_sync_close(orr_sync_context *s)
{
    orr_free(s->by_stream.row);
    orr_free(s->by_stream.first);
    orr_free(s->by_thread.row);
    orr_free(s->by_thread.first);
    orr_idmap_done(&s->streams);
    orr_idmap_done(&s->records);
}

uint32_t orr_sync_stream(const orr_sync_context *s, int32_t device, int64_t stream)
{
    return orr_idmap_get(&s->streams, stream_key(device, stream));
}

/* The lane's first row at or after the time. */
static uint32_t lower_bound(const orr_issue_order *issues, uint32_t lane, int64_t at_ns)
{
    uint32_t low = issues->first[lane], high = issues->first[lane + 1];
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (issues->row[middle].at_ns < at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

orr_node_id orr_issued_before(const orr_issue_order *issues, uint32_t lane, int64_t at_ns)
{
    const uint32_t row = lower_bound(issues, lane, at_ns);
    return row > issues->first[lane] ? issues->row[row - 1].node : ORR_NONE;
}

orr_node_id orr_issued_from(const orr_issue_order *issues, uint32_t lane, int64_t at_ns)
{
    const uint32_t row = lower_bound(issues, lane, at_ns);
    return row < issues->first[lane + 1] ? issues->row[row].node : ORR_NONE;
}

/* Whether this was the last dependency added: waits come in bursts. */
static bool repeats(const orr_graph_builder *b, orr_node_id v, orr_node_id u, orr_dep_kind kind)
{
    const uint32_t n = b->n_deps;
    return n > 0 && b->dep_node[n - 1] == v && b->dep_on[n - 1] == u && b->dep_kind[n - 1] == kind;
}

orr_status orr_sync_event(const orr_sync_context *s, orr_node_id before, orr_node_id after,
                          orr_error *err)
{
    if (before == ORR_NONE || after == ORR_NONE || s->b->lane[before] == s->b->lane[after] ||
        repeats(s->b, after, before, ORR_DEP_EVENT))
        return ORR_OK;
    const orr_time_span u = orr_device_times(s->b, s->r, before);
    const orr_time_span v = orr_device_times(s->b, s->r, after);
    if (u.start_ns >= v.start_ns || u.end_ns > v.start_ns)
        return ORR_OK;
    return orr_builder_dep(s->b, after, before, ORR_DEP_EVENT, err);
}

orr_status orr_sync_call(const orr_sync_context *s, orr_node_id work, orr_node_id call,
                         bool *ret_made, orr_error *err)
{
    const orr_graph_builder *b = s->b;
    *ret_made = false;
    if (work == ORR_NONE || call == ORR_NONE)
        return ORR_OK;
    const int64_t call_end = b->start_ns[call] + b->duration_ns[call];
    const orr_time_span u = orr_device_times(b, s->r, work);
    /* What encloses the call may end up to a rounding error before it, and the proof in recover.h
     * needs the work to start before that. */
    if (u.end_ns > call_end + clock_skew_ns || u.start_ns >= call_end - s->r->rounding_ns)
        return ORR_OK;
    *ret_made = true;
    return repeats(b, call, work, ORR_DEP_SYNC)
               ? ORR_OK
               : orr_builder_dep(s->b, call, work, ORR_DEP_SYNC, err);
}
