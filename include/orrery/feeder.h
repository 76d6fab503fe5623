/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_FEEDER_H
#define ORR_FEEDER_H

#include <orrery/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Feeds a simulator with the nodes of a Chakra file as their dependencies are met (cf. Chakra's
 * ETFeeder; Sridharan et al., arXiv 2305.14516). The file is read as far ahead as the window, plain
 * or compressed:
 *
 *   orr_feeder_open("rank0.et", NULL, &feeder, &err);
 *   while (orr_feeder_next(feeder, &node, &err) == ORR_OK && node != NULL)
 *       ... run it, or orr_feeder_push_back(feeder, node->id);
 *   ... when it ends: orr_feeder_done(feeder, node->id, &err);
 *
 * Memory: the nodes of the window, and the ids of those that are done as ranges. Where
 * ids have no gaps, as in what Orrery writes, these are few, and it does not grow with the file;
 * each gap takes 16 bytes. What a node waits for may stand behind it, also beyond the window: then
 * the file is read on until there is a node to issue. A JSON workload ("workload_graph") is fed in
 * the same way, but held whole, as the protobuf file that says the same. Threads: one at a time. */
#define ORR_FEEDER_TYPE_MAP(X) /* Chakra's NodeType, in order */                                   \
    X(INVALID, "invalid")                                                                          \
    X(METADATA, "metadata")                                                                        \
    X(MEM_LOAD, "memory load")                                                                     \
    X(MEM_STORE, "memory store")                                                                   \
    X(COMP, "compute") X(SEND, "send") X(RECV, "recv") X(COLLECTIVE, "collective")
typedef enum orr_feeder_type {
#define ORR_FEEDER_ENUM_(name, text) ORR_FEEDER_##name,
    ORR_FEEDER_TYPE_MAP(ORR_FEEDER_ENUM_)
#undef ORR_FEEDER_ENUM_
} orr_feeder_type;

typedef struct orr_feeder orr_feeder;
typedef struct orr_feeder_options {
    size_t struct_bytes;
    uint32_t window; /* nodes that are read and not done; default 4096 * 256 */
    bool control;    /* wait for ctrl_deps too; default off, as simulators do */
} orr_feeder_options;
ORR_API void orr_feeder_options_init(orr_feeder_options *options);

/* Text of a node: not terminated, valid until the node is done. */
typedef struct orr_feeder_text {
    const char *at;
    size_t n;
} orr_feeder_text;

/* A node of the file; of the feeder until it is done. */
typedef struct orr_feeder_node {
    uint64_t id;
    int32_t type; /* orr_feeder_type, or a newer number */
    uint64_t start_us, duration_us;
    orr_feeder_text name;
    orr_feeder_text input_values, input_shapes, input_types;
    orr_feeder_text output_values, output_shapes, output_types;
    orr_feeder_text message; /* the whole of it, protobuf */
} orr_feeder_node;

/* One value of an attribute, whatever its kind: `number` of integers and truth values, `real` of
 * these and of fractions, `text` of strings and bytes. */
typedef struct orr_feeder_value {
    uint8_t kind; /* orr_attr_kind */
    bool list;
    int64_t number;
    double real;
    orr_feeder_text text;
} orr_feeder_value;

/* Errors: IO, PARSE (no Chakra file), NO_MEMORY; of a JSON workload also INVALID (two nodes of an
 * id, dependencies in a circle or on a node that is not there). `options` may be NULL. */
ORR_API ORR_MUST_CHECK orr_status orr_feeder_open(const char *path,
                                                  const orr_feeder_options *options,
                                                  orr_feeder **ret, orr_error *err);
/* The same from memory; `bytes` are borrowed until close. */
ORR_API ORR_MUST_CHECK orr_status orr_feeder_open_memory(const void *bytes, size_t len,
                                                         const orr_feeder_options *options,
                                                         orr_feeder **ret, orr_error *err);
ORR_API void orr_feeder_close(orr_feeder *feeder); /* NULL is allowed */

/* The node of lowest id in the window whose dependencies are done and that was not issued; NULL:
 * none, until another is done or all are (orr_feeder_is_finished()). Errors: IO, PARSE, NO_MEMORY;
 * INVALID: two nodes of one id, or, once all that was issued is done, nodes that wait in a circle
 * or for one that is not in the file. */
ORR_API ORR_MUST_CHECK orr_status orr_feeder_next(orr_feeder *feeder, const orr_feeder_node **ret,
                                                  orr_error *err);
/* An issued node is to be issued again. INVALID: it was not issued. */
ORR_API ORR_MUST_CHECK orr_status orr_feeder_push_back(orr_feeder *feeder, uint64_t id,
                                                       orr_error *err);
/* An issued node has run: what waits for it may be issued, and the node is freed. INVALID: it was
 * not issued. */
ORR_API ORR_MUST_CHECK orr_status orr_feeder_done(orr_feeder *feeder, uint64_t id, orr_error *err);
/* A node of the window, or NULL. */
ORR_API const orr_feeder_node *orr_feeder_find(const orr_feeder *feeder, uint64_t id);
/* Nodes that could be issued now without reading on. */
ORR_API uint32_t orr_feeder_n_ready(const orr_feeder *feeder);
/* Nodes that are read and not done, and ranges of ids that are done: what memory depends on. */
ORR_API uint32_t orr_feeder_n_held(const orr_feeder *feeder);
ORR_API uint32_t orr_feeder_n_ranges(const orr_feeder *feeder);
/* Is every node of the file done? */
ORR_API bool orr_feeder_is_finished(const orr_feeder *feeder);

/* Value `index` of the node's first attribute of that name; of a scalar only 0. False: there is
 * none. */
ORR_API bool orr_feeder_attr(const orr_feeder_node *node, const char *name, uint32_t index,
                             orr_feeder_value *ret);
/* A whole number or a truth value among the attributes, or `otherwise`. */
ORR_API int64_t orr_feeder_number(const orr_feeder_node *node, const char *name, int64_t otherwise);
/* An attribute of the recording (GlobalMetadata), as orr_feeder_attr(). */
ORR_API bool orr_feeder_recording(const orr_feeder *feeder, const char *name, uint32_t index,
                                  orr_feeder_value *ret);

#ifdef __cplusplus
}
#endif

#endif /* ORR_FEEDER_H */
