/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_LINK_LINK_H
#define ORR_TRACE_LINK_LINK_H

#include <orrery/trace.h>

/* Links a host trace (PyTorch execution trace) and a device trace (Kineto) of one run. Letters in
 * shapes: H nodes of the host trace, D nodes of the device trace, S strings and L lanes of the host
 * trace. */
typedef struct orr_linker {
    const orr_graph *host, *device;
    orr_arena *arena;
    orr_node_id *partner;  /* shape (H): counterpart in the device trace, or ORR_NONE */
    bool *taken;           /* shape (D): has a counterpart */
    uint8_t *by_name;      /* shape (H): its id was found on an operator of another name */
    orr_str *name;         /* shape (S): the same string in the device trace, or ORR_NONE */
    uint32_t *lane;        /* shape (L): lane of the device trace, or ORR_NONE */
    uint32_t n_device_ids; /* operators of the device trace with an id */
    bool memory;           /* the host trace is a memory snapshot, whose times are kept */
} orr_linker;

/* Whether a node is an operator that should have a counterpart. */
bool orr_link_is_op(const orr_graph *graph, orr_node_id node);

/* Pairs operators of equal record-function id, or of ids at a constant offset, where the names
 * agree. Returns their number through *ret. Errors: NO_MEMORY. */
orr_status orr_link_by_id(orr_linker *link, uint32_t *ret_matched, orr_error *err) ORR_MUST_CHECK;

/* Fills link->lane, and pairs the rest thread by thread, by sequence alignment of names. Errors:
 * NO_MEMORY. */
orr_status orr_link_by_order(orr_linker *link, uint32_t *ret_matched,
                             orr_error *err) ORR_MUST_CHECK;

/* Merges both traces into a builder. `loose`: also includes what recorded times cannot confirm:
 * dependencies of nodes without times, and the host trace's nesting where times are equal. Errors:
 * NO_MEMORY, LIMIT. */
orr_status orr_link_merge(const orr_linker *link, bool loose, orr_graph_builder *builder,
                          orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_LINK_LINK_H */
