/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TRACE_PYTORCH_READER_H
#define ORR_TRACE_PYTORCH_READER_H

#include <orrery/graph.h>

#include "base/array.h"
#include "io/json/reader.h"
#include "trace/comm/process_groups.h"
#include "trace/common/reader.h"
#include "trace/common/tensors.h"

/* Internals of the reader of PyTorch execution traces; see read.c. */

/* Text that outlives the reader's next token. */
typedef orr_array(char) orr_et_text;

/* Inputs or outputs of a node as JSON text. */
enum { ORR_ET_VALUES, ORR_ET_SHAPES, ORR_ET_TYPES, ORR_ET_STRIDES, ORR_ET_IO_TEXTS };
typedef struct orr_et_io {
    orr_et_text object;                /* of the newer layouts */
    orr_et_text held[ORR_ET_IO_TEXTS]; /* of the flat one      */
    orr_text text[ORR_ET_IO_TEXTS];    /* in one of these      */
} orr_et_io;

/* One node of the file. Attributes are in `attrs`, typed. */
typedef struct orr_et_node {
    uint64_t id, parent, rf_id, fw_parent;
    int64_t tid, scope;
    bool has_id, has_parent;
    orr_str name, op_schema;
    orr_et_io in, out;
    /* of a communication, where attributes say it (1.1.0 on) */
    int64_t in_elements, out_elements, group_size, group_start, group_stride; /* -1: not said */
    orr_str collective, dtype, pg_name, pg_desc, in_splits, out_splits;
} orr_et_node;

/* The row that dependencies are made of: one per node, in the order of the file, later of ids. */
typedef struct orr_et_row {
    uint64_t id, parent, fw_parent; /* ids of the file */
    orr_node_id node;               /* before orr_et_sort() */
    bool has_parent;
} orr_et_row;
typedef orr_array(orr_et_row) orr_et_rows;

/* A storage that a node writes although it is only among its inputs. */
typedef struct orr_et_write {
    uint64_t storage;
    orr_node_id node;
} orr_et_write;
typedef orr_array(orr_et_write) orr_et_writes;

typedef struct orr_et_reader {
    orr_stream *stream;
    orr_json *json;
    orr_graph_builder *builder;
    const orr_read_options *options;
    orr_read_report *report;
    orr_arena *arena, *recording_arena;   /* of the current node; of the file */
    orr_array(orr_attr) attrs, recording; /* of the current node; of the file */
    orr_found_tensors in, out;            /* of the current node */
    orr_et_node node;
    orr_et_rows rows;
    orr_et_writes writes;
    orr_process_groups groups;
    int64_t pid;
    int64_t rank; /* -1: not known, -2: contradictory */
    bool has_nodes;
} orr_et_reader;

/* Fields of a node from the JSON object that stands next, into r->node, r->attrs, r->in
 * and r->out. */
orr_status orr_et_read_node(orr_et_reader *r, orr_error *err) ORR_MUST_CHECK;

/* orr_find_tensors() in inputs or outputs. */
orr_status orr_et_find_tensors(orr_graph_builder *builder, const orr_et_io *io, uint64_t args,
                               orr_found_tensors *ret, orr_error *err) ORR_MUST_CHECK;
/* Which arguments an operator with that schema writes: "copy_(Tensor(a!) self, ...". */
uint64_t orr_et_written_args(const char *schema);
/* Remember what node `id` (that of r->node) writes. */
orr_status orr_et_note_writes(orr_et_reader *r, orr_node_id id, orr_error *err) ORR_MUST_CHECK;

/* Does the node stand for a communication, and which? Fills `ret` then. */
orr_status orr_et_find_comm(orr_et_reader *r, orr_comm *ret, bool *ret_is,
                            orr_error *err) ORR_MUST_CHECK;

/* Rows and nodes into the order of ids. Errors: INVALID: two nodes of one id. */
orr_status orr_et_sort(orr_et_reader *r, orr_error *err) ORR_MUST_CHECK;
/* Once sorted: the node of that id, or ORR_NONE. */
orr_node_id orr_et_find(const orr_et_row *row, uint32_t n, uint64_t id);
/* Errors: INVALID: a parent that is not there, or that comes after its child. */
orr_status orr_et_set_parents(orr_et_reader *r, orr_error *err) ORR_MUST_CHECK;
/* Adds program order, callers from other threads, and data dependencies. */
orr_status orr_et_add_deps(orr_et_reader *r, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_TRACE_PYTORCH_READER_H */
