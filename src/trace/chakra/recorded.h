/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_CHAKRA_RECORDED_H
#define ORR_TRACE_CHAKRA_RECORDED_H

#include "trace/chakra/chakra.h"
#include "trace/chakra/node.h"

/* Chakra has no word for most of what a graph says: the kind of a dependency, nesting, lanes of
 * several devices, members of a communication, allocations. A file that Orrery writes says it in
 * attributes that other readers pass over, and reading the file restores the graph that was
 * written, node for node in its order.
 *
 *   launch_deps, thread_deps, ...   INT64 lists: the dependencies of that kind, by ids; a list for
 *                                   each run of one kind, in their order
 *   others                          attr_names.h, from ORR_NAME_RECORDED_FORM on
 *   doc_string                      "KIND name": the attribute is one of the recording, of that
 *                                   kind and name ("UINT64 Sequence number"); of the file's own
 *                                   name where none stands there ("JSON")
 *
 * Who edits a file may change its dependencies, which these attributes would hide. So the metadata
 * has a digest of ctrl_deps and data_deps: where it differs from theirs, the file's own
 * dependencies and durations are read, as from any other Chakra file, and only the columns of the
 * nodes are restored. */
enum { ORR_CHAKRA_RECORDED_FORM = 1 };

/* How inputs and outputs stood in the recording; Chakra has them in Python's notation. */
enum {
    ORR_IO_FORM_KINETO = 1 /* else a host trace */,
    ORR_IO_FORM_BLANKS = 2 /* after a comma */,
    ORR_IO_FORM_TENSORS = 4 /* its tensors were found */
};

/* Digest of dependencies in the order of the file; begins with 0. */
static inline uint64_t orr_chakra_digest(uint64_t digest, uint64_t node, uint64_t on, bool is_data)
{
    digest ^= node * UINT64_C(0x9e3779b97f4a7c15) + on * 2 + is_data;
    digest *= UINT64_C(0xff51afd7ed558ccd);
    return digest ^ digest >> 32;
}

/* Names of the attributes above, "launch_deps". */
const char *orr_chakra_deps_name(orr_dep_kind kind);
/* Name of a kind of attribute, "UINT64". */
const char *orr_chakra_attr_kind_name(orr_attr_kind kind);

/* Does `doc` say that the attribute is one of the recording, and none of the file's? */
bool orr_chakra_is_recorded(const orr_graph_builder *builder, const orr_attr *attr);

/* What the metadata says of restoring: nodes->recorded. Errors: NO_MEMORY, LIMIT. */
orr_status orr_chakra_recorded_begin(orr_chakra_nodes *nodes, orr_chakra_attrs *recording,
                                     orr_error *err) ORR_MUST_CHECK;
/* orr_chakra_node_add() for a file whose graph is restored; `id` is the node's number so far. */
orr_status orr_chakra_recorded_add(orr_chakra_nodes *nodes, const orr_chakra_node *node,
                                   orr_chakra_attrs *attrs, orr_error *err) ORR_MUST_CHECK;
/* All nodes are there: dependencies, nesting and order as recorded. *ret_restored is false, and
 * nothing but durations is changed, where the file was edited. */
orr_status orr_chakra_recorded_finish(orr_chakra_nodes *nodes, bool *ret_restored,
                                      orr_error *err) ORR_MUST_CHECK;

void orr_chakra_recorded_done(orr_chakra_recorded *recorded);

/* Names that files use for what is no attribute of the recording (export_attrs.c). */
bool orr_chakra_is_own_name(const char *name);
/* Place of a text of inputs or outputs, by either of its names, or -1: values, shapes, types and
 * strides of the inputs, then of the outputs. */
int orr_chakra_io_place(const char *name);
enum { ORR_CHAKRA_FIRST_OUTPUT = 4 };
/* Its name in Kineto's recordings or in host traces, or NULL. */
const char *orr_chakra_io_name(int place, bool kineto);

/* Inputs and outputs (recorded_io.c). Is the attribute a text of Chakra's? */
bool orr_chakra_is_io(const orr_graph_builder *builder, const orr_attr *attr);
/* A bit a place: the text there is among the recorded attributes. */
uint32_t orr_chakra_hidden_io(const orr_graph_builder *builder, const orr_chakra_attrs *attrs);
/* Python's notation under Chakra's name -> JSON under the recording's. */
orr_status orr_chakra_restore_io(orr_chakra_nodes *nodes, orr_arena *arena, orr_attr *attr,
                                 uint32_t hidden, bool *ret_restored,
                                 orr_error *err) ORR_MUST_CHECK;
orr_status orr_chakra_restore_tensors(orr_chakra_nodes *nodes, orr_node_id id,
                                      const orr_chakra_attrs *attrs, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_CHAKRA_RECORDED_H */
