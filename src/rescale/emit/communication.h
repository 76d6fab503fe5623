/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_RESCALE_EMIT_COMMUNICATION_H
#define ORR_RESCALE_EMIT_COMMUNICATION_H

#include <orrery/rescale.h>

#include "rescale/emit/emit.h"

/* What a communication of a training step is for. */
typedef enum orr_comm_role {
    ORR_ROLE_TP,            /* within a layer: computation waits for it         */
    ORR_ROLE_DP,            /* gradients: runs beside the backward pass         */
    ORR_ROLE_SEND_FORWARD,  /* activations to the next stage                    */
    ORR_ROLE_RECV_FORWARD,  /* and from the one before                          */
    ORR_ROLE_SEND_BACKWARD, /* their gradients to the stage before              */
    ORR_ROLE_RECV_BACKWARD, /* and from the next                                */
    ORR_COMM_ROLES
} orr_comm_role;

/* Streams of the parts of a rank. Send and recv of each direction have a stream of their own, as
 * two communicators have: on one stream, a stage that sends forward first would wait for one that
 * sends backward first, for ever. */
int64_t orr_comm_stream(orr_comm_role role);
bool orr_comm_is_recv(orr_comm_role role);

typedef struct orr_comm_call {
    orr_comm_role role;
    orr_group_id group;
    int32_t group_size;
    int32_t peer; /* rank in the group, of send and recv */
    int64_t seq;
    int64_t bytes;
    const char *dtype; /* "BFloat16" */
    const char *dims;  /* "[[2, 128, 64]]" */
} orr_comm_call;

/* The communication as PyTorch makes it: operator, events between the streams, launch, and for
 * those whose result is used at once the wait. *ret_rows: rendezvous so far; the row of the
 * communication in the graph is its place there. Returns the device node. */
typedef orr_array(orr_rendezvous_id) orr_rendezvous_ids;
orr_node_id orr_emit_comm(orr_emit *e, const orr_comm_call *call, orr_rendezvous_id meeting,
                          orr_rendezvous_ids *rendezvous);
/* Adds the comm row and its meeting to a node. */
void orr_emit_comm_row(orr_emit *e, orr_node_id node, const orr_comm *comm,
                       orr_rendezvous_id meeting, orr_rendezvous_ids *rendezvous);

/* Ordinal of a send and its recv in the grouping pp: of the micro-batch, from the stage up or
 * down. */
static inline uint32_t orr_pipeline_ordinal(uint32_t lower_stage, uint32_t micro_batches,
                                            uint32_t micro_batch, bool backward)
{
    return (lower_stage * micro_batches + micro_batch) * 2 + backward;
}

#endif /* ORR_RESCALE_EMIT_COMMUNICATION_H */
