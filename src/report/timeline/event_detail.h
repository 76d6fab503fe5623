/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TIMELINE_EVENT_DETAIL_H
#define ORR_REPORT_TIMELINE_EVENT_DETAIL_H

#include <orrery/graph.h>

/* What the page says of a node beyond name and time: its communication, copy and
 * recorded attributes, as lines "key\tvalue\n". Ids that differ from node to node are left
 * out, so that equal operators have equal text. Writes at most `cap` bytes with
 * the NUL, whole lines only, and returns the length. */
size_t orr_event_detail(const orr_graph *graph, orr_node_id node, char *buf, size_t cap);

#endif /* ORR_REPORT_TIMELINE_EVENT_DETAIL_H */
