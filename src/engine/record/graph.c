/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/record/recorder_state.h"
#include "op/rules.h"

/* Makes the graph of a recording. Host lanes are threads and their calls operators, as PyTorch
 * records a run without a device; device lanes are streams, and their calls kernels. */

typedef struct graph_writer {
    const orr_recorder *r;
    orr_graph_builder *b;
    uint32_t rank, ranks;
    const orr_recorded_run *run;
    orr_node_id *node; /* node of a call in the current run; ORR_NONE: did not run */
    orr_node_id step;  /* the annotation around it */
    orr_node_id last[ORR_LANES_MAX], last_step;
    orr_lane_id lane[ORR_LANES_MAX], host;
    bool has_lane[ORR_LANES_MAX];
    orr_group_id group[ORR_AXES];
    int64_t seq[ORR_AXES];
    orr_error *err;
} graph_writer;

static orr_status text(graph_writer *d, const char *words, orr_str *ret)
{
    return orr_builder_str(d->b, words, strlen(words), ret, d->err);
}

static orr_status add_lane(graph_writer *d, uint8_t kind, int64_t tid, const char *name,
                           orr_lane_id *ret)
{
    orr_lane lane = {
        .kind = kind, .device = kind == ORR_LANE_STREAM ? 0 : -1, .pid = d->rank, .tid = tid};
    ORR_TRY(text(d, "orrery", &lane.process));
    ORR_TRY(text(d, name, &lane.name));
    return orr_builder_lane(d->b, &lane, ret, d->err);
}

/* The main host thread has number 1, whether it computes or not. */
static orr_status lane_of(graph_writer *d, const orr_program *p, uint32_t lane, orr_lane_id *ret)
{
    static const char *const names[] = {"compute", "communication", "copies"};
    char other[32];
    if (!d->has_lane[lane]) {
        snprintf(other, sizeof other, "lane %u", lane);
        ORR_TRY(add_lane(d, p->device ? ORR_LANE_STREAM : ORR_LANE_HOST, lane + 1,
                         lane < 3 ? names[lane] : other, &d->lane[lane]));
        d->has_lane[lane] = true;
    }
    *ret = d->lane[lane];
    return ORR_OK;
}

static orr_status depend(graph_writer *d, orr_node_id node, orr_node_id on, orr_dep_kind kind)
{
    return on == ORR_NONE ? ORR_OK : orr_builder_dep(d->b, node, on, kind, d->err);
}

/* The call that wrote a value, through views; ORR_NONE: none of this run. */
static uint32_t writer_call(const graph_writer *d, const orr_tape *tape, orr_value v)
{
    while (v != ORR_NONE && tape->values[v].made_by != ORR_NONE) {
        const uint32_t call = tape->values[v].made_by;
        if (d->node[call] != ORR_NONE)
            return call;
        v = orr_op_of((orr_op)tape->calls[call].op)->shares ? tape->calls[call].in[0] : ORR_NONE;
    }
    return ORR_NONE;
}

static orr_status add_data_deps(graph_writer *d, const orr_program *p, uint32_t call)
{
    const orr_tape_call *of = &p->tape->calls[call];
    uint32_t seen[ORR_CALL_IN];
    for (uint32_t k = 0; k < of->n_in; k++) {
        bool again = false;
        seen[k] = writer_call(d, p->tape, of->in[k]);
        for (uint32_t i = 0; i < k; i++)
            again |= seen[i] == seen[k];
        if (seen[k] != ORR_NONE && !again)
            ORR_TRY(depend(d, d->node[call], d->node[seen[k]], ORR_DEP_DATA));
    }
    return ORR_OK;
}

static orr_status add_deps(graph_writer *d, const orr_program *p, uint32_t call)
{
    const orr_action *action = &p->actions[call];
    ORR_TRY(depend(d, d->node[call], d->last[action->lane],
                   p->device ? ORR_DEP_STREAM : ORR_DEP_THREAD));
    ORR_TRY(add_data_deps(d, p, call));
    for (uint32_t i = action->waits; i < action->waits + action->n_waits; i++)
        ORR_TRY(depend(d, d->node[call], d->node[p->waits[i].call],
                       p->device ? ORR_DEP_EVENT : ORR_DEP_HANDOFF));
    d->last[action->lane] = d->node[call];
    return ORR_OK;
}

static bool communicates(const orr_program *p, uint32_t call)
{
    const uint8_t kind = p->actions[call].kind;
    return orr_op_collective((orr_op)p->tape->calls[call].op) != ORR_COLL_UNKNOWN &&
           p->actions[call].communicator != NULL && p->actions[call].communicator->n > 1 &&
           kind != ORR_ACTION_COPY;
}

static orr_status group_of(graph_writer *d, const orr_communicator *c, uint8_t axis)
{
    if (d->group[axis] != ORR_NONE)
        return ORR_OK;
    orr_group group = {.size = c->n, .start = -1, .ranks = c->members};
    ORR_TRY(text(d, orr_axis_name((orr_axis)axis), &group.name));
    ORR_TRY(text(d, orr_axis_name((orr_axis)axis), &group.desc));
    ORR_TRY(text(d, c->transport->name, &group.backend));
    return orr_builder_group(d->b, &group, &d->group[axis], d->err);
}

static int64_t bytes_of(const orr_tape *tape, const orr_value *values, uint32_t n)
{
    return n > 0 ? orr_type_bytes(&tape->values[values[0]].type) : 0;
}

/* A ring step is not an NCCL collective: it is recorded as the all-gather in which each member
 * sends as many bytes. */
static orr_comm comm_of(const graph_writer *d, const orr_program *p, uint32_t call)
{
    const orr_tape_call *of = &p->tape->calls[call];
    const orr_communicator *c = p->actions[call].communicator;
    uint32_t to, from;
    orr_collective_peers(c, of, &to, &from);
    orr_comm comm = {.collective = (uint8_t)orr_op_collective((orr_op)of->op),
                     .peer = -1,
                     .root = of->op == ORR_OP_BROADCAST ? 0 : -1,
                     .tag = -1,
                     .group = d->group[of->args.axis],
                     .group_size = (int32_t)c->n,
                     .seq = d->seq[of->args.axis],
                     .in_bytes = bytes_of(p->tape, of->in, of->n_in),
                     .out_bytes = bytes_of(p->tape, of->out, of->n_out)};
    if (to != ORR_NONE && from != ORR_NONE) {
        comm.collective = ORR_COLL_ALL_GATHER;
        comm.in_bytes /= c->n - 1;
        comm.out_bytes = comm.in_bytes * c->n;
    } else if (to != ORR_NONE || from != ORR_NONE) {
        comm.collective = to != ORR_NONE ? ORR_COLL_SEND : ORR_COLL_RECV;
        comm.peer = (int32_t)(to != ORR_NONE ? to : from);
        comm.seq = -1;
        *(to != ORR_NONE ? &comm.out_bytes : &comm.in_bytes) = 0;
    }
    return comm;
}

/* Bytes that were told of a call, by the index of its time. */
static const orr_recorded_bytes *bytes_told(const orr_recorder *r, size_t time)
{
    size_t low = 0, high = r->bytes.n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (r->bytes.at[middle].time < time)
            low = middle + 1;
        else
            high = middle;
    }
    return low < r->bytes.n && r->bytes.at[low].time == time ? &r->bytes.at[low] : NULL;
}

static orr_status add_comm(graph_writer *d, const orr_program *p, uint32_t call)
{
    const orr_tape_call *of = &p->tape->calls[call];
    const orr_recorded_bytes *told = bytes_told(d->r, d->run->first + call);
    ORR_TRY(group_of(d, p->actions[call].communicator, of->args.axis));
    orr_comm comm = comm_of(d, p, call);
    if (told != NULL) {
        comm.vector = true;
        comm.in_bytes = told->sent;
        comm.out_bytes = told->received;
    }
    if (of->n_in + of->n_out > 0) {
        const orr_value v = of->n_in > 0 ? of->in[0] : of->out[0];
        ORR_TRY(text(d, orr_recorded_dtype(p->tape->values[v].type.dtype), &comm.dtype));
    }
    d->seq[of->args.axis] += comm.seq >= 0;
    return orr_builder_comm(d->b, d->node[call], &comm, d->err);
}

static orr_node_kind kind_of(const orr_program *p, uint32_t call)
{
    if (communicates(p, call)) {
        uint32_t to, from;
        orr_collective_peers(p->actions[call].communicator, &p->tape->calls[call], &to, &from);
        return (to == ORR_NONE) == (from == ORR_NONE) ? ORR_NODE_COLLECTIVE
               : to != ORR_NONE                       ? ORR_NODE_SEND
                                                      : ORR_NODE_RECV;
    }
    return p->device ? ORR_NODE_COMPUTE : ORR_NODE_HOST_OP;
}

static orr_status add_tensor(graph_writer *d, const orr_program *p, orr_value v, orr_tensor_id *ret)
{
    const orr_tape_value *value = &p->tape->values[v];
    orr_tensor tensor = {.storage = p->places[v].root + 1,
                         .offset_bytes = p->places[v].offset_bytes,
                         .elements = orr_type_elements(&value->type),
                         .element_bytes = (int32_t)((orr_element_bits(value->type.dtype) + 7) / 8),
                         .source_id = v + 1};
    char words[160] = "[";
    size_t n = 1;
    for (int i = 0; i < value->type.rank; i++)
        n += (size_t)snprintf(words + n, sizeof words - n, "%s%lld", i > 0 ? ", " : "",
                              (long long)value->type.dim[i]);
    snprintf(words + n, sizeof words - n, "]");
    ORR_TRY(text(d, words, &tensor.shape));
    snprintf(words, sizeof words, "Tensor(%s)", orr_recorded_dtype(value->type.dtype));
    ORR_TRY(text(d, words, &tensor.dtype));
    ORR_TRY(text(d, p->device ? "cuda:0" : "cpu", &tensor.device));
    return orr_builder_tensor(d->b, &tensor, ret, d->err);
}

static orr_status add_tensors(graph_writer *d, const orr_program *p, uint32_t call)
{
    const orr_tape_call *of = &p->tape->calls[call];
    orr_tensor_id in[ORR_CALL_IN], out[ORR_CALL_OUT];
    uint32_t n_in = 0, n_out = 0;
    for (uint32_t k = 0; k < of->n_in; k++)
        if (of->in[k] != ORR_NONE)
            ORR_TRY(add_tensor(d, p, of->in[k], &in[n_in++]));
    for (uint32_t k = 0; k < of->n_out; k++)
        ORR_TRY(add_tensor(d, p, of->out[k], &out[n_out++]));
    return orr_builder_io(d->b, d->node[call], in, n_in, out, n_out, d->err);
}

static orr_status add_call(graph_writer *d, const orr_program *p, uint32_t call, int64_t start_ns,
                           int64_t end_ns)
{
    const uint32_t lane = p->actions[call].lane;
    orr_node node = {.kind = kind_of(p, call),
                     .start_ns = start_ns,
                     .duration_ns = end_ns - start_ns,
                     .parent = lane == 0 && !p->device ? d->step : ORR_NONE};
    ORR_TRY(text(d, orr_program_label(p, call), &node.name));
    ORR_TRY(lane_of(d, p, lane, &node.lane));
    ORR_TRY(orr_builder_node(d->b, &node, &d->node[call], d->err));
    ORR_TRY(add_deps(d, p, call));
    if (communicates(p, call))
        ORR_TRY(add_comm(d, p, call));
    ORR_TRY(add_tensors(d, p, call));
    return orr_recorder_attrs(d->b, d->node[call], p, call, d->err);
}

static orr_status add_run(graph_writer *d, const orr_recorded_run *run)
{
    const orr_program *p = run->program;
    const uint32_t n = p->tape->n_calls;
    orr_status status = ORR_OK;
    d->run = run;
    d->node = orr_malloc((size_t)n * sizeof *d->node + 1);
    if (d->node == NULL)
        return orr_fail_memory(d->err);
    for (uint32_t c = 0; c < n; c++)
        d->node[c] = ORR_NONE;
    for (uint32_t c = run->from; c < run->to && status == ORR_OK; c++) {
        const int64_t start = d->r->start_ns[run->first + c], end = d->r->end_ns[run->first + c];
        if (start >= 0 && end >= start)
            status = add_call(d, p, c, start, end);
    }
    orr_free(d->node);
    return status;
}

static orr_status add_step(graph_writer *d, const orr_recorded_step *step)
{
    char words[48];
    orr_node node = {.kind = ORR_NODE_ANNOTATION,
                     .lane = d->host,
                     .start_ns = step->start_ns,
                     .duration_ns = step->end_ns - step->start_ns,
                     .parent = ORR_NONE};
    snprintf(words, sizeof words, "ProfilerStep#%lld", (long long)step->number);
    ORR_TRY(text(d, words, &node.name));
    ORR_TRY(orr_builder_node(d->b, &node, &d->step, d->err));
    ORR_TRY(depend(d, d->step, d->last_step, ORR_DEP_THREAD));
    d->last_step = d->step;
    d->last[0] = ORR_NONE; /* siblings belong to the same step */
    for (uint32_t i = step->first_run; i < step->first_run + step->n_runs; i++)
        ORR_TRY(add_run(d, &d->r->runs[i]));
    return ORR_OK;
}

static orr_status write_graph(graph_writer *d, const orr_graph **ret)
{
    const orr_backend *backend = d->r->n_runs > 0 ? d->r->runs[0].program->backend : NULL;
    orr_recording recording = {.rank = d->rank, .world_size = d->ranks};
    ORR_TRY(text(d, "orrery-engine 1", &recording.source));
    ORR_TRY(text(d, backend != NULL && backend->description != NULL ? backend->description : "",
                 &recording.device_name));
    orr_builder_recording(d->b, &recording);
    ORR_TRY(add_lane(d, ORR_LANE_HOST, 1, "compute", &d->host));
    for (uint32_t i = 0; i < d->r->n_steps; i++)
        if (d->r->steps[i].end_ns >= d->r->steps[i].start_ns)
            ORR_TRY(add_step(d, &d->r->steps[i]));
    ORR_TRY(orr_recorder_add_annotations(d->r, d->b, d->rank, d->err));
    return orr_graph_build(d->b, ret, d->err);
}

orr_status orr_recorder_graph(const orr_recorder *recorder, uint32_t rank, uint32_t ranks,
                              const orr_graph **ret, orr_error *err)
{
    graph_writer d = {
        .r = recorder, .rank = rank, .ranks = ranks, .last_step = ORR_NONE, .err = err};
    for (uint32_t l = 0; l < ORR_LANES_MAX; l++)
        d.last[l] = ORR_NONE;
    for (uint32_t a = 0; a < ORR_AXES; a++)
        d.group[a] = ORR_NONE;
    d.b = orr_graph_builder_new();
    if (d.b == NULL)
        return orr_fail_memory(err);
    const orr_status status = write_graph(&d, ret);
    orr_graph_builder_free(d.b);
    return status;
}
