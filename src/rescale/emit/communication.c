/* SPDX-License-Identifier: Apache-2.0 */
#include "rescale/emit/communication.h"

#include "rescale/emit/host_overheads.h"

static const struct {
    int64_t stream;
    const char *op, *kernel;
    uint8_t collective; /* orr_collective */
    uint8_t kind;       /* orr_node_kind  */
} roles[ORR_COMM_ROLES] = {
    [ORR_ROLE_TP] = {20, "c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_RING_LL",
                     ORR_COLL_ALL_REDUCE, ORR_NODE_COLLECTIVE},
    [ORR_ROLE_DP] = {24, "c10d::allreduce_", "ncclDevKernel_AllReduce_Sum_RING_LL",
                     ORR_COLL_ALL_REDUCE, ORR_NODE_COLLECTIVE},
    [ORR_ROLE_SEND_FORWARD] = {28, "c10d::send", "ncclDevKernel_Send", ORR_COLL_SEND,
                               ORR_NODE_SEND},
    [ORR_ROLE_RECV_FORWARD] = {32, "c10d::recv_", "ncclDevKernel_Recv", ORR_COLL_RECV,
                               ORR_NODE_RECV},
    [ORR_ROLE_SEND_BACKWARD] = {36, "c10d::send", "ncclDevKernel_Send", ORR_COLL_SEND,
                                ORR_NODE_SEND},
    [ORR_ROLE_RECV_BACKWARD] = {40, "c10d::recv_", "ncclDevKernel_Recv", ORR_COLL_RECV,
                                ORR_NODE_RECV},
};

int64_t orr_comm_stream(orr_comm_role role)
{
    return roles[role].stream;
}

bool orr_comm_is_recv(orr_comm_role role)
{
    return roles[role].kind == ORR_NODE_RECV;
}

static bool comm_is_send(orr_comm_role role)
{
    return roles[role].kind == ORR_NODE_SEND;
}

void orr_emit_comm_row(orr_emit *e, orr_node_id node, const orr_comm *comm,
                       orr_rendezvous_id meeting, orr_rendezvous_ids *rendezvous)
{
    if (e->status != ORR_OK || node == ORR_NONE)
        return;
    e->status = orr_builder_comm(e->b, node, comm, e->err);
    if (e->status == ORR_OK && !orr_array_push(rendezvous, meeting))
        e->status = orr_fail_memory(e->err);
}

static orr_comm row_of(orr_emit *e, const orr_comm_call *call)
{
    const bool sends = comm_is_send(call->role), recvs = orr_comm_is_recv(call->role);
    return (orr_comm){.collective = roles[call->role].collective,
                      .peer = sends || recvs ? call->peer : -1,
                      .root = -1,
                      .tag = -1,
                      .group = call->group,
                      .group_size = call->group_size,
                      .seq = call->seq,
                      .in_bytes = recvs ? 0 : call->bytes,
                      .out_bytes = sends ? 0 : call->bytes,
                      .dtype = orr_emit_str(e, call->dtype)};
}

orr_node_id orr_emit_comm(orr_emit *e, const orr_comm_call *call, orr_rendezvous_id meeting,
                          orr_rendezvous_ids *rendezvous)
{
    const uint32_t compute = orr_emit_stream_of(e, e->compute_stream);
    const uint32_t stream = orr_emit_stream_of(e, roles[call->role].stream);
    const bool waits = call->role == ORR_ROLE_TP || orr_comm_is_recv(call->role);
    orr_emit_advance(e, ORR_HOST_T1_BETWEEN_OPS_NS);
    const orr_node_id op = orr_emit_begin(e, ORR_NODE_HOST_OP, roles[call->role].op);
    orr_emit_attrs(e, op, &(orr_emit_attr){"Input Dims", call->dims, 0}, 1);
    orr_emit_advance(e, ORR_HOST_T2_OP_TO_CALL_NS);
    orr_emit_begin(e, ORR_NODE_HOST_OP, "record_param_comms");
    orr_emit_advance(e, ORR_HOST_T2_OP_TO_CALL_NS);
    orr_emit_wait_calls(e, stream, compute, ORR_HOST_EVENT_NS, ORR_HOST_T5_BETWEEN_CALLS_NS);
    orr_emit_advance(e, ORR_HOST_T5_BETWEEN_CALLS_NS);
    const orr_node_id launch = orr_emit_call(e, "cudaLaunchKernelExC", ORR_HOST_T4_LAUNCH_NS);
    const orr_node work = {.name = orr_emit_str(e, roles[call->role].kernel),
                           .kind = (orr_node_kind)roles[call->role].kind};
    const orr_node_id node = orr_emit_work(e, stream, launch, &work);
    const orr_comm row = row_of(e, call);
    orr_emit_comm_row(e, node, &row, meeting, rendezvous);
    orr_emit_advance(e, ORR_HOST_T3_CALL_TO_OP_END_NS);
    orr_emit_end(e);
    if (waits) {
        orr_emit_advance(e, ORR_HOST_T5_BETWEEN_CALLS_NS);
        orr_emit_wait_calls(e, compute, stream, ORR_HOST_EVENT_NS, ORR_HOST_T5_BETWEEN_CALLS_NS);
    }
    orr_emit_advance(e, ORR_HOST_T3_CALL_TO_OP_END_NS);
    orr_emit_end(e);
    return node;
}
