/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_LINK_LINK_H
#define ORR_TRACE_LINK_LINK_H

#include <orrery/trace.h>

/* Pieces of orr_trace_link(). Letters: H nodes of the host trace, D nodes of the device trace,
 * S strings of the host trace, L lanes of the host trace. */
typedef struct orr_linker {
    const orr_graph *host, *device;
    orr_arena *arena;
    orr_node_id *partner;  /* shape (H): node of the device trace, or ORR_NONE */
    bool *taken;           /* shape (D): it has a partner */
    uint8_t *by_name;      /* shape (H): its id was found, at an operator of another name */
    orr_str *name;         /* shape (S): the string in the device trace, or ORR_NONE */
    uint32_t *lane;        /* shape (L): lane of the device trace, or ORR_NONE */
    uint32_t n_device_ids; /* operators of the device trace that have an id */
} orr_linker;

/* Operators that have a counterpart in a trace of the other kind. */
bool orr_link_is_op(const orr_graph *graph, orr_node_id node);

/* Pairs of equal record-function id, or of ids that differ by the same number throughout, where
 * the names agree. Returns how many through *ret. Errors: NO_MEMORY. */
orr_status orr_link_by_id(orr_linker *link, uint32_t *ret_matched, orr_error *err) ORR_MUST_CHECK;

/* Fills link->lane, and pairs what is left, thread by thread, by the order of names.
 * Errors: NO_MEMORY. */
orr_status orr_link_by_order(orr_linker *link, uint32_t *ret_matched,
                             orr_error *err) ORR_MUST_CHECK;

/* Both traces, linked, into a builder. `loose`: also what recorded times cannot vouch for:
 * dependencies of nodes without times, and the host trace's word where times are equal.
 * Errors: NO_MEMORY, LIMIT. */
orr_status orr_link_merge(const orr_linker *link, bool loose, orr_graph_builder *builder,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_LINK_LINK_H */
