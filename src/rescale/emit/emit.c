/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/emit/emit.h"

#include <string.h>

static const int64_t process_number = 1; /* of every rank: names say more than numbers */

static void fail(orr_emit *e, orr_status status)
{
    if (e->status == ORR_OK)
        e->status = status;
}

static bool stopped(const orr_emit *e)
{
    return e->status != ORR_OK;
}

bool orr_emit_open(orr_emit *e, bool host, orr_error *err)
{
    *e = (orr_emit){
        .host = host, .err = err, .handed_over = ORR_NONE, .compute_stream = ORR_EMIT_COMPUTE};
    e->b = orr_graph_builder_new();
    return e->b != NULL;
}

void orr_emit_done(orr_emit *e)
{
    orr_graph_builder_free(e->b);
    e->b = NULL;
    for (uint32_t i = 0; i < e->n_streams; i++) {
        orr_array_done(&e->streams[i].issued);
        orr_array_done(&e->streams[i].pending);
    }
    e->n_streams = 0;
}

orr_status orr_emit_build(orr_emit *e, const orr_graph **ret, orr_error *err)
{
    ORR_TRY(e->status);
    return orr_graph_build(e->b, ret, err);
}

orr_str orr_emit_str(orr_emit *e, const char *text)
{
    orr_str s = 0;
    if (!stopped(e))
        fail(e, orr_builder_str(e->b, text, strlen(text), &s, e->err));
    return s;
}

static orr_lane_id lane_of(orr_emit *e, orr_lane_kind kind, const char *name, int64_t number)
{
    orr_lane lane = {.kind = (uint8_t)kind,
                     .device = kind == ORR_LANE_STREAM ? 0 : -1,
                     .pid = kind == ORR_LANE_STREAM ? 0 : process_number,
                     .tid = number,
                     .name = orr_emit_str(e, name)};
    orr_lane_id id = 0;
    if (!stopped(e))
        fail(e, orr_builder_lane(e->b, &lane, &id, e->err));
    return id;
}

uint32_t orr_emit_thread(orr_emit *e, const char *name, int64_t number)
{
    const orr_lane_id lane = lane_of(e, ORR_LANE_HOST, name, number);
    for (uint32_t i = 0; i < e->n_hosts; i++)
        if (e->hosts[i].lane == lane)
            return i;
    if (e->n_hosts == ORR_EMIT_HOSTS) {
        fail(e, orr_fail(e->err, ORR_LIMIT, "over %d threads in one rank", ORR_EMIT_HOSTS));
        return 0;
    }
    e->hosts[e->n_hosts] = (orr_emit_host){
        .lane = lane, .frames = {{ORR_NONE, ORR_NONE}}, .depth = 1, .last_root = ORR_NONE};
    return e->n_hosts++;
}

uint32_t orr_emit_stream_of(orr_emit *e, int64_t number)
{
    for (uint32_t i = 0; i < e->n_streams; i++)
        if (e->streams[i].number == number)
            return i;
    if (e->n_streams == ORR_EMIT_STREAMS) {
        fail(e, orr_fail(e->err, ORR_LIMIT, "over %d streams in one rank", ORR_EMIT_STREAMS));
        return 0;
    }
    e->streams[e->n_streams] =
        (orr_emit_stream){.lane = lane_of(e, ORR_LANE_STREAM, "", number), .number = number};
    return e->n_streams++;
}

void orr_emit_switch_thread(orr_emit *e, uint32_t host)
{
    if (host == e->at)
        return;
    const orr_emit_host *old = &e->hosts[e->at];
    e->handed_over = old->last_root;
    if (e->hosts[host].now_ns < old->now_ns)
        e->hosts[host].now_ns = old->now_ns;
    e->at = host;
}

orr_node_id orr_emit_node(orr_emit *e, const orr_node *node)
{
    orr_node_id id = ORR_NONE;
    if (!stopped(e))
        fail(e, orr_builder_node(e->b, node, &id, e->err));
    return id;
}

void orr_emit_dep(orr_emit *e, orr_node_id node, orr_node_id on, orr_dep_kind kind)
{
    if (!stopped(e) && node != ORR_NONE && on != ORR_NONE)
        fail(e, orr_builder_dep(e->b, node, on, kind, e->err));
}

void orr_emit_program_order(orr_emit *e, orr_node_id node)
{
    orr_emit_host *host = &e->hosts[e->at];
    orr_emit_frame *frame = &host->frames[host->depth - 1];
    if (stopped(e))
        return;
    e->b->parent[node] = frame->node;
    orr_emit_dep(e, node, frame->child, ORR_DEP_THREAD);
    frame->child = node;
    if (e->handed_over != ORR_NONE)
        orr_emit_dep(e, node, e->handed_over, ORR_DEP_HANDOFF);
    e->handed_over = ORR_NONE;
    if (e->b->kind[node] != ORR_NODE_ANNOTATION && e->b->kind[node] != ORR_NODE_PYTHON)
        host->last_root = node;
}

orr_node_id orr_emit_begin(orr_emit *e, orr_node_kind kind, const char *name)
{
    orr_emit_host *host = &e->hosts[e->at];
    if (!e->host || stopped(e))
        return ORR_NONE;
    if (host->depth == ORR_EMIT_DEPTH) {
        fail(e, orr_fail(e->err, ORR_LIMIT, "over %d spans within one another", ORR_EMIT_DEPTH));
        return ORR_NONE;
    }
    const orr_node node = {.name = orr_emit_str(e, name),
                           .kind = kind,
                           .lane = host->lane,
                           .start_ns = host->now_ns,
                           .parent = ORR_NONE,
                           .source_id = kind == ORR_NODE_PYTHON ? 0 : ++e->record_function};
    const orr_node_id id = orr_emit_node(e, &node);
    if (id == ORR_NONE)
        return ORR_NONE;
    orr_emit_program_order(e, id);
    host->frames[host->depth++] = (orr_emit_frame){id, ORR_NONE};
    return id;
}

void orr_emit_end(orr_emit *e)
{
    orr_emit_host *host = &e->hosts[e->at];
    if (!e->host || stopped(e) || host->depth < 2)
        return;
    const orr_node_id node = host->frames[--host->depth].node;
    e->b->duration_ns[node] = host->now_ns - e->b->start_ns[node];
}

orr_node_id orr_emit_call(orr_emit *e, const char *name, int64_t duration_ns)
{
    orr_emit_host *host = &e->hosts[e->at];
    if (!e->host || stopped(e))
        return ORR_NONE;
    const orr_node node = {.name = orr_emit_str(e, name),
                           .kind = ORR_NODE_RUNTIME,
                           .lane = host->lane,
                           .start_ns = host->now_ns,
                           .duration_ns = duration_ns,
                           .parent = ORR_NONE,
                           .source_id = ++e->correlation};
    const orr_node_id id = orr_emit_node(e, &node);
    if (id == ORR_NONE)
        return ORR_NONE;
    orr_emit_program_order(e, id);
    host->now_ns += duration_ns;
    return id;
}

orr_node_id orr_emit_work(orr_emit *e, uint32_t stream, orr_node_id call, const orr_node *node)
{
    orr_emit_stream *s = &e->streams[stream];
    if (stopped(e))
        return ORR_NONE;
    orr_node work = *node;
    work.lane = s->lane;
    work.start_ns = ORR_TIME_NONE;
    work.duration_ns = 0;
    work.parent = ORR_NONE;
    work.source_id = call == ORR_NONE ? 0 : e->b->source_id[call];
    const orr_node_id id = orr_emit_node(e, &work);
    if (id == ORR_NONE)
        return ORR_NONE;
    orr_emit_dep(e, id, call, ORR_DEP_LAUNCH);
    if (work.kind == ORR_NODE_SYNC) /* a record: it takes no time of the stream */
        return id;
    orr_emit_dep(e, id, orr_emit_tail(e, stream), ORR_DEP_STREAM);
    for (size_t i = 0; i < s->pending.n; i++)
        orr_emit_dep(e, id, s->pending.at[i], ORR_DEP_EVENT);
    s->pending.n = 0;
    if (!orr_array_push(&s->issued, id))
        fail(e, orr_fail_memory(e->err));
    return id;
}

void orr_emit_wait(orr_emit *e, uint32_t waiting, uint32_t on)
{
    const orr_node_id work = orr_emit_tail(e, on);
    orr_node_ids *pending = &e->streams[waiting].pending;
    if (stopped(e) || work == ORR_NONE || waiting == on)
        return;
    if (pending->n > 0 && pending->at[pending->n - 1] == work)
        return;
    if (!orr_array_push(pending, work))
        fail(e, orr_fail_memory(e->err));
}

void orr_emit_wait_calls(orr_emit *e, uint32_t waiting, uint32_t on, int64_t call_ns,
                         int64_t between_ns)
{
    orr_emit_wait(e, waiting, on);
    if (!e->host)
        return;
    const orr_node_id record = orr_emit_call(e, "cudaEventRecord", call_ns);
    orr_emit_advance(e, between_ns);
    const orr_node_id wait = orr_emit_call(e, "cudaStreamWaitEvent", call_ns);
    if (stopped(e))
        return;
    const orr_node told = {.name = orr_emit_str(e, "Stream Wait Event"), .kind = ORR_NODE_SYNC};
    const uint64_t correlation = e->b->source_id[record];
    const orr_node_id sync = orr_emit_work(e, waiting, wait, &told);
    orr_emit_attrs(
        e, sync,
        (orr_emit_attr[]){{"wait_on_stream", NULL, e->streams[on].number},
                          {"wait_on_cuda_event_record_corr_id", NULL, (int64_t)correlation}},
        2);
}

void orr_emit_sync_calls(orr_emit *e, const char *name, int64_t call_ns, uint32_t stream)
{
    const orr_node_id call = orr_emit_call(e, name, call_ns);
    if (call == ORR_NONE)
        return;
    for (uint32_t i = 0; i < e->n_streams; i++)
        orr_emit_dep(e, call, orr_emit_tail(e, i), ORR_DEP_SYNC);
    const orr_node told = {.name = orr_emit_str(e, "Context Sync"), .kind = ORR_NODE_SYNC};
    orr_emit_work(e, stream, call, &told);
}

void orr_emit_attrs(orr_emit *e, orr_node_id node, const orr_emit_attr *attrs, uint32_t n)
{
    enum { MOST = 8 };
    orr_attr list[MOST];
    orr_str texts[MOST];
    for (uint32_t i = 0; i < n && i < MOST; i++) {
        const bool text = attrs[i].json != NULL;
        list[i] = (orr_attr){.name = orr_emit_str(e, attrs[i].name),
                             .kind = text ? ORR_ATTR_JSON : ORR_ATTR_INT64,
                             .count = 1,
                             .values = &attrs[i].number};
        if (text) {
            texts[i] = orr_emit_str(e, attrs[i].json);
            list[i].values = &texts[i];
        }
    }
    if (!stopped(e) && node != ORR_NONE)
        fail(e, orr_builder_attrs(e->b, node, list, n < MOST ? n : MOST, e->err));
}
