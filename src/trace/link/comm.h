/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_LINK_COMM_H
#define ORR_TRACE_LINK_COMM_H

#include <orrery/graph.h>

/* What `to` does not know, from `from`. Bytes are taken together. */
void orr_link_fill_comm(orr_comm *to, const orr_comm *from);

/* Communication kernels get what the operators that they were launched in know, and
 * kernels that serve several collectives become what they were used for. Errors: NO_MEMORY. */
orr_status orr_link_propagate_comms(orr_graph_builder *builder, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_LINK_COMM_H */
