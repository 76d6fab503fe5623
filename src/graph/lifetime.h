/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_LIFETIME_H
#define ORR_GRAPH_LIFETIME_H

#include <orrery/graph.h>

/* How long each storage lives when the nodes run in order of their ids: from the first node
 * that names it to the last, both included. Its size is that of the tensor that reaches
 * furthest into it: max(offset + elements * element_bytes). */
typedef struct orr_storage {
    int64_t id; /* orr_tensor.storage */
    orr_str device;
    uint64_t bytes;
    orr_node_id first, last;
    bool produced; /* `first` has it as an output only: nothing came before */
} orr_storage;

typedef struct orr_storage_peak {
    orr_str device;
    uint64_t bytes;   /* most that is alive at one node */
    orr_node_id node; /* the first such node            */
} orr_storage_peak;

typedef struct orr_lifetimes {
    const orr_storage *storages; /* shape (n_storages), by first node, then id */
    uint32_t n_storages;
    const orr_storage_peak *peaks; /* shape (n_peaks), a row a device, by its string */
    uint32_t n_peaks;
} orr_lifetimes;

/* Storages that no node names have no life and are left out. Results live in `arena`.
 * Errors: NO_MEMORY; INVALID: a tensor of negative size or offset, or over 2^63 bytes. */
orr_status orr_graph_lifetimes(const orr_graph *graph, orr_arena *arena, orr_lifetimes *ret,
                               orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_GRAPH_LIFETIME_H */
