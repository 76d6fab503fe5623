/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_BUILDER_H
#define ORR_GRAPH_BUILDER_H

#include <orrery/graph.h>

#include "base/array.h"
#include "base/strtab.h"
#include "graph/attrs.h"
#include "graph/hash_index.h"

/* The builder from inside: what the readers of trace/ see.
 *
 * Nodes, lanes and groups that were added stay open until the build: read and
 * write their columns freely (set parents, correct times, rename lanes), except
 * `detail` and the flags that go with it, which belong to orr_builder_comm(),
 * _copy() and _memory(). orr_graph_build() checks all columns once more, so a wrong
 * value gives an error there, never a broken graph. Ids do not change: a node
 * keeps the number that it was added under.
 *
 * Pointers into columns and arrays are good until the next addition of their kind. */

/* Columns of a node, all of one length: X(type, name). */
#define ORR_NODE_COLUMNS(X)                                                                        \
    X(orr_str, name)                                                                               \
    X(uint8_t, kind) X(uint8_t, flags) X(uint16_t, lane) X(int64_t, start_ns)                      \
        X(int64_t, duration_ns) X(orr_node_id, parent) X(uint64_t, source_id) X(uint32_t, detail)  \
            X(uint32_t, attrs) /* number of its list in `attr_heap`; 0: none */

/* Dependencies in the order in which they were added: `dep_node` waits for `dep_on`. */
#define ORR_DEP_COLUMNS(X) X(orr_node_id, dep_node) X(orr_node_id, dep_on) X(uint8_t, dep_kind)

/* Tensors of a node: io[first] .. inputs, n_in of them, then n_out outputs. */
typedef struct orr_io_row {
    orr_node_id node;
    uint32_t first, n_in, n_out;
} orr_io_row;

/* Rows of lane l, as in orr_graph. */
typedef struct orr_lane_rows {
    uint32_t *first;   /* shape (L + 1) */
    orr_node_id *node; /* shape (N)     */
} orr_lane_rows;

struct orr_graph_builder {
    orr_strtab *strings; /* NULL until the first string after a build */

#define ORR_COLUMN_(type, name) type *name;
    uint32_t n_nodes, node_room;
    ORR_NODE_COLUMNS(ORR_COLUMN_)

    uint32_t n_deps, dep_room;
    bool deps_scattered; /* not added in the order of dep_node */
    ORR_DEP_COLUMNS(ORR_COLUMN_)
#undef ORR_COLUMN_

    orr_array(orr_lane) lanes;
    orr_array(orr_group) groups; /* ranks: allocated one by one */
    orr_array(orr_tensor) tensors;
    orr_array(orr_comm) comms;
    orr_array(orr_copy) copies;
    orr_array(orr_memory) memories;
    orr_array(orr_io_row) io_rows;
    orr_array(orr_tensor_id) io;
    orr_hash_index lane_index, group_index, tensor_index;

    orr_attr_heap attr_heap;
    uint32_t recording_attrs; /* list of the whole recording */

    orr_lane_rows lane_rows;             /* of orr_builder_sort_lanes(); NULL before */
    uint32_t sorted_lanes, sorted_nodes; /* how many there were then */

    orr_recording recording; /* write freely */
};

static inline uint32_t orr_builder_n_nodes(const orr_graph_builder *builder)
{
    return builder->n_nodes;
}
/* Text of a string that was added. */
static inline const char *orr_builder_text(const orr_graph_builder *builder, orr_str s)
{
    return orr_strtab_text(builder->strings, s);
}

/* Fill builder->lane_rows: the nodes of each lane by start, then longer first, then id
 * (those without a start come first). For readers that look for what contains or
 * precedes what; the build takes the rows over if they still hold. Errors: NO_MEMORY;
 * INVALID: a node on a lane that does not exist. */
orr_status orr_builder_sort_lanes(orr_graph_builder *builder, orr_error *err) ORR_MUST_CHECK;

/* Give back everything and be as new, without strings. */
void orr_builder_reset(orr_graph_builder *builder);

#endif /* ORR_GRAPH_BUILDER_H */
