/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_SELECTOR_H
#define ORR_SIM_SELECTOR_H

#include <orrery/graph.h>

/* What a factor of a what-if applies to, read from its name:
 *
 *   NAME            device work and communications whose name holds NAME
 *   comm:KIND@GROUP communications of that kind ("all_reduce", "send") in that process group, by
 *                   its description or name; comm:KIND: in any
 *   host:NAME       what host threads do in operators, calls and annotations whose name holds NAME,
 *                   and in all that is nested in them there
 */
typedef struct orr_selector {
    enum { ORR_SELECT_NAME, ORR_SELECT_COMM, ORR_SELECT_HOST } what;
    const char *name;  /* the rest of the text */
    const char *group; /* NULL: any */
    size_t name_len;
} orr_selector;
/* Refers to the text. */
orr_selector orr_selector_of(const char *text);
/* Does it hold of the node? Of a thread's node: of itself, not of what it is nested in. */
bool orr_selector_holds(const orr_selector *selector, const orr_graph *graph, orr_node_id node);
/* The nodes of a graph of which it holds, shape (N), 0 or 1, nesting included; zeroed before.
 * Returns their number. */
uint32_t orr_selector_mark(const orr_selector *selector, const orr_graph *graph, uint8_t *marks);

#endif /* ORR_SIM_SELECTOR_H */
