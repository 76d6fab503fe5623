/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_LINK_COMM_H
#define ORR_TRACE_LINK_COMM_H

#include <orrery/graph.h>

/* Fills in what `to` does not know from `from`. Bytes in and out are taken together. */
void orr_link_fill_comm(orr_comm *to, const orr_comm *from);

/* Gives communication kernels what the operators that launched them know; kernels that serve
 * several collectives get the one they were used for. Errors: NO_MEMORY. */
orr_status orr_link_propagate_comms(orr_graph_builder *builder, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_LINK_COMM_H */
