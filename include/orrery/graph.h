/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_GRAPH_H
#define ORR_GRAPH_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Execution graph: what ran (or is to run) on one rank, and what waits for what.
 *
 * A struct of arrays. Nodes, lanes, groups, tensors and strings refer to one
 * another by index, never by pointer. Two phases: a builder takes nodes and
 * dependencies in any order; orr_graph_build() checks them and gives a frozen
 * graph that nobody changes and any number of threads may read.
 *
 * Letters used below: N nodes, E dependencies, L lanes, G groups, T tensors.
 *
 * Memory: 52 bytes a node and 5 a dependency: at most 96 a node while a node has
 * fewer than nine dependencies on average (recordings have one or two);
 * attributes, tensors and strings come on top. */
typedef uint32_t orr_node_id;    /* 0 <= id < N */
typedef uint32_t orr_str;        /* interned string; 0 is "" */
typedef uint32_t orr_lane_id;    /* 0 <= id < L <= 65535 */
typedef uint32_t orr_group_id;   /* 0 <= id < G */
typedef uint32_t orr_tensor_id;  /* 0 <= id < T */
#define ORR_NONE      UINT32_MAX /* no node, no group, no rank... */
#define ORR_TIME_NONE INT64_MIN  /* start not recorded            */

/* What a node is. Device work is COMPUTE..SYNC on a STREAM lane; a recording
 * made without a device may hold COLLECTIVE, SEND and RECV on HOST lanes. */
#define ORR_NODE_MAP(X)                                                                            \
    X(OTHER, "other")           /* kept, but of no known meaning        */                         \
    X(META, "metadata")         /* process_group:init, roots of threads */                         \
    X(HOST_OP, "host operator") /* aten::mm, autograd nodes             */                         \
    X(RUNTIME, "runtime call")  /* cudaLaunchKernel, hipMemcpyAsync     */                         \
    X(PYTHON, "python function")                                                                   \
    X(ANNOTATION, "annotation")               /* ProfilerStep#3, on the host          */           \
    X(DEVICE_ANNOTATION, "device annotation") /* its shadow on a stream       */                   \
    X(COMPUTE, "compute")                     /* kernel                               */           \
    X(COLLECTIVE, "collective")                                                                    \
    X(SEND, "send")                                                                                \
    X(RECV, "recv")                                                                                \
    X(COPY, "copy")            /* memcpy                               */                          \
    X(SET, "set")              /* memset                               */                          \
    X(SYNC, "sync")            /* Stream Sync, Stream Wait Event...    */                          \
    X(MEMORY, "memory event")  /* allocation or free, an instant       */                          \
    X(MEM_LOAD, "memory load") /* Chakra: from a remote memory         */                          \
    X(MEM_STORE, "memory store")                                                                   \
    X(OVERHEAD, "profiler overhead")

typedef enum orr_node_kind {
#define ORR_NODE_ENUM_(name, text) ORR_NODE_##name,
    ORR_NODE_MAP(ORR_NODE_ENUM_)
#undef ORR_NODE_ENUM_
} orr_node_kind;

/* What a dependency says. u is the node depended on, v the one that waits.
 * `ends` tells which points of time it ties: start(v) >= end(u) unless said.
 * Nesting is not a dependency: it is the column `parent`, and implies
 * start(parent) <= start(child) and end(child) <= end(parent). */
#define ORR_DEP_MAP(X)                                                                             \
    X(DATA, "data")       /* v reads what u wrote                                  */              \
    X(CONTROL, "control") /* u called v: start(v) >= start(u)                      */              \
    X(THREAD, "thread")   /* program order: v follows its sibling u                */              \
    X(HANDOFF, "handoff") /* from another thread, e.g. forward to backward         */              \
    X(LAUNCH, "launch")   /* host call u enqueued device work v: start(v)>=start(u)*/              \
    X(STREAM, "stream")   /* same stream, v follows u                              */              \
    X(EVENT, "event")     /* device work v waits for an event recorded after u     */              \
    X(SYNC, "sync")       /* host call v waits for device work u: end(v) >= end(u) */

typedef enum orr_dep_kind {
#define ORR_DEP_ENUM_(name, text) ORR_DEP_##name,
    ORR_DEP_MAP(ORR_DEP_ENUM_)
#undef ORR_DEP_ENUM_
} orr_dep_kind;

typedef enum orr_lane_kind { ORR_LANE_HOST, ORR_LANE_STREAM } orr_lane_kind;

/* Lane: a thread of the host or a stream of a device; what runs in order. */
typedef struct orr_lane {
    uint8_t kind;    /* orr_lane_kind                                      */
    int32_t device;  /* of a stream; -1 for threads                        */
    int64_t pid;     /* as recorded; INT64_MIN where it was text           */
    int64_t tid;     /* thread or stream number; INT64_MIN where text      */
    orr_str process; /* name of the process or the text that stood as pid  */
    orr_str name;    /* name of the thread or the text that stood as tid   */
} orr_lane;

/* Collectives, in the terms of NCCL and PyTorch. */
#define ORR_COLLECTIVE_MAP(X)                                                                      \
    X(UNKNOWN, "unknown")                                                                          \
    X(ALL_REDUCE, "all_reduce")                                                                    \
    X(REDUCE, "reduce") X(ALL_GATHER, "all_gather") X(GATHER, "gather") X(SCATTER, "scatter")      \
        X(BROADCAST, "broadcast") X(ALL_TO_ALL, "all_to_all") X(REDUCE_SCATTER, "reduce_scatter")  \
            X(BARRIER, "barrier") X(SEND, "send") X(RECV, "recv")

typedef enum orr_collective {
#define ORR_COLLECTIVE_ENUM_(name, text) ORR_COLL_##name,
    ORR_COLLECTIVE_MAP(ORR_COLLECTIVE_ENUM_)
#undef ORR_COLLECTIVE_ENUM_
} orr_collective;

/* One communication. Bytes are this rank's: `in` what it gives, `out` what it
 * gets (all-gather: out = n x in; reduce-scatter: in = n x out). -1: unknown. */
typedef struct orr_comm {
    uint8_t collective; /* orr_collective                              */
    bool vector;        /* uneven: alltoallv, allgatherv, coalesced    */
    int32_t peer;       /* of send and recv, rank in the group; or -1  */
    int32_t root;       /* of broadcast, reduce, gather, scatter; or -1*/
    int32_t tag;        /* -1 unknown                                  */
    orr_group_id group; /* or ORR_NONE                                 */
    int32_t group_size; /* also where the group is unknown; -1         */
    int64_t seq;        /* sequence number in the group; -1 unknown    */
    int64_t in_bytes, out_bytes;
    orr_str dtype;                 /* as recorded: "Float", "c10::BFloat16"       */
    orr_str in_splits, out_splits; /* as recorded: "[3, 5]", may end "..." */
} orr_comm;

/* One memcpy or memset. */
typedef struct orr_copy {
    uint64_t bytes;
    double bandwidth_bytes_per_s; /* as recorded; 0 when not */
} orr_copy;

/* One allocation (bytes > 0) or free (bytes < 0) of the caching allocator. */
typedef struct orr_memory {
    uint64_t addr;
    int64_t bytes;
    int64_t allocated_bytes, reserved_bytes; /* totals after it; -1 unknown */
    int32_t device_type;                     /* c10::DeviceType: 0 CPU, 1 CUDA */
    int32_t device;
} orr_memory;

/* Process group. Ranks by start and stride where that describes them, else a list. */
typedef struct orr_group {
    orr_str name, desc, backend;
    uint32_t size;         /* 0: not known                          */
    int32_t start, stride; /* valid when ranks == NULL and size > 0; start -1: unknown */
    const uint32_t *ranks; /* shape (size), or NULL                 */
} orr_group;

typedef struct orr_tensor {
    int64_t storage;      /* id of its storage                         */
    int64_t offset_bytes; /* in the storage                            */
    int64_t elements;
    int32_t element_bytes;
    orr_str device;    /* "cuda:0"                                  */
    orr_str dtype;     /* "Tensor(float)" as recorded               */
    orr_str shape;     /* "[3, 4]" as recorded                      */
    int64_t source_id; /* tensor id in the recording                */
} orr_tensor;

/* Attribute of a node: what the recording said and the columns do not.
 * The kinds are those of Chakra's AttributeProto, so that nothing is lost; JSON
 * is a value kept as its JSON text; UNKNOWN holds fields of a newer protobuf schema. */
#define ORR_ATTR_MAP(X)                                                                            \
    X(DOUBLE, 8)                                                                                   \
    X(FLOAT, 4) X(INT32, 4) X(INT64, 8) X(UINT32, 4) X(UINT64, 8) X(SINT32, 4) X(SINT64, 8)        \
        X(FIXED32, 4) X(FIXED64, 8) X(SFIXED32, 4) X(SFIXED64, 8) X(BOOL, 1) X(STRING, 4)          \
            X(BYTES, 4) X(JSON, 4) X(UNKNOWN, 4) X(NONE, 0)

typedef enum orr_attr_kind {
#define ORR_ATTR_ENUM_(name, bytes) ORR_ATTR_##name,
    ORR_ATTR_MAP(ORR_ATTR_ENUM_)
#undef ORR_ATTR_ENUM_
} orr_attr_kind;

/* `values`: shape (count) of the kind's C type (double, float, int32_t, ...,
 * uint8_t for BOOL, orr_str for STRING, BYTES, JSON and UNKNOWN), aligned.
 * count is 1 unless `list`. */
typedef struct orr_attr {
    orr_str name;
    orr_str doc;
    uint8_t kind; /* orr_attr_kind */
    bool list;
    uint32_t count;
    const void *values;
} orr_attr;

/* What the columns `detail` and `flags` say. */
enum {
    ORR_FLAG_COMM = 1,    /* detail is a row of comms    */
    ORR_FLAG_COPY = 2,    /* detail is a row of copies   */
    ORR_FLAG_MEMORY = 4,  /* detail is a row of memories */
    ORR_FLAG_CRITICAL = 8 /* a reader found it marked as on the critical path */
};

/* A frozen graph. Every pointer is owned by the graph and is never NULL where
 * its shape is not empty, unless said. Read it; never write. */
typedef struct orr_graph {
    uint32_t n_nodes, n_deps, n_lanes, n_groups, n_tensors, n_strings;
    uint32_t n_comms, n_copies, n_memories;

    /* columns, shape (N) */
    const orr_str *name;
    const uint8_t *kind;        /* orr_node_kind                                      */
    const uint8_t *flags;       /* ORR_FLAG_...                                       */
    const uint16_t *lane;       /* orr_lane_id                                        */
    const int64_t *start_ns;    /* since base_ns; ORR_TIME_NONE if not recorded       */
    const int64_t *duration_ns; /* >= 0; 0 also when not recorded                     */
    const orr_node_id *parent;  /* the node that it is nested in, or ORR_NONE         */
    const uint64_t *source_id;  /* host op: record-function id; runtime call and device
                                 * work: correlation; Chakra: node id; 0 = none       */
    const uint32_t *detail;     /* row in comms, copies or memories; see flags        */

    /* dependencies in compressed rows: node v waits for dep[dep_first[v]] ..
     * dep[dep_first[v + 1] - 1], in the order in which they were added */
    const uint32_t *dep_first; /* shape (N + 1) */
    const orr_node_id *dep;    /* shape (E)     */
    const uint8_t *dep_kind;   /* shape (E), orr_dep_kind */

    /* the nodes of lane l by start (those without one first), then longer first, then id:
     * lane_node[lane_first[l]] .. lane_node[lane_first[l + 1] - 1] */
    const uint32_t *lane_first;   /* shape (L + 1) */
    const orr_node_id *lane_node; /* shape (N)     */

    const orr_lane *lanes;      /* shape (L) */
    const orr_group *groups;    /* shape (G) */
    const orr_tensor *tensors;  /* shape (T) */
    const orr_comm *comms;      /* shape (n_comms)    */
    const orr_copy *copies;     /* shape (n_copies)   */
    const orr_memory *memories; /* shape (n_memories) */

    /* tensors of node v: first its inputs io[io_first[v]] .. io[io_out[v] - 1],
     * then its outputs .. io[io_first[v + 1] - 1]. NULL when T is 0. */
    const uint32_t *io_first; /* shape (N + 1) */
    const uint32_t *io_out;   /* shape (N)     */
    const orr_tensor_id *io;

    /* what is true of the whole recording */
    int64_t base_ns;     /* start_ns counts from here, on the recording's own clock */
    int64_t span_ns;     /* from the first recorded start to the last end           */
    uint32_t rank;       /* or ORR_NONE */
    uint32_t world_size; /* or 0        */
    orr_str source;      /* the format and version: "kineto 1", "pytorch-et 1.1.0"  */
    orr_str device_name; /* "NVIDIA H100 80GB HBM3", or ""                         */
} orr_graph;

typedef struct orr_graph_builder orr_graph_builder;

/* Text of an interned string; NUL-terminated, valid UTF-8 not guaranteed. */
ORR_API const char *orr_graph_str(const orr_graph *graph, orr_str s);
ORR_API size_t orr_graph_str_len(const orr_graph *graph, orr_str s);
/* The string's id if it occurs, else ORR_NONE. */
ORR_API orr_str orr_graph_find_str(const orr_graph *graph, const char *text);

/* The node's communication, copy or memory event, or NULL. */
ORR_API const orr_comm *orr_graph_comm(const orr_graph *graph, orr_node_id id);
ORR_API const orr_copy *orr_graph_copy(const orr_graph *graph, orr_node_id id);
ORR_API const orr_memory *orr_graph_memory(const orr_graph *graph, orr_node_id id);

/* Attributes of a node, or of the whole recording (id ORR_NONE), in order:
 *   orr_attr_iter it = orr_graph_attrs(graph, id);
 *   for (orr_attr attr; orr_attr_next(&it, &attr);) ... */
typedef struct orr_attr_iter {
    const void *at, *end;
} orr_attr_iter;
ORR_API orr_attr_iter orr_graph_attrs(const orr_graph *graph, orr_node_id id);
ORR_API bool orr_attr_next(orr_attr_iter *iter, orr_attr *ret_attr);
/* The first attribute of that name. False when there is none. */
ORR_API bool orr_graph_find_attr(const orr_graph *graph, orr_node_id id, const char *name,
                                 orr_attr *ret_attr);
/* One number as a whole one, fractions cut off. False: a list, no number, or beyond 64 bits. */
ORR_API bool orr_attr_int(const orr_attr *attr, int64_t *ret);

/* Rank r of the group, 0 <= r < size, or ORR_NONE when the ranks are not known. */
ORR_API uint32_t orr_group_rank(const orr_group *group, uint32_t r);

/* Dependants: the same compressed rows the other way round. Lives in `arena`. */
typedef struct orr_edges {
    const uint32_t *first;   /* shape (N + 1) */
    const orr_node_id *node; /* shape (E): who waits for it, by increasing id */
    const uint8_t *kind;     /* shape (E), orr_dep_kind */
} orr_edges;
ORR_API ORR_MUST_CHECK orr_status orr_graph_dependants(const orr_graph *graph, orr_arena *arena,
                                                       orr_edges *ret, orr_error *err);

/* Everything of the graph, freed. NULL is allowed. */
ORR_API void orr_graph_free(const orr_graph *graph);
/* Bytes held, in all, and without strings, attributes and tensors. */
ORR_API size_t orr_graph_held_bytes(const orr_graph *graph);
ORR_API size_t orr_graph_core_bytes(const orr_graph *graph);

ORR_API const char *orr_node_kind_name(orr_node_kind kind);
ORR_API const char *orr_dep_kind_name(orr_dep_kind kind);
ORR_API const char *orr_collective_name(orr_collective collective);
/* COMPUTE..SYNC on a stream? The question every analysis asks. */
ORR_API bool orr_graph_on_device(const orr_graph *graph, orr_node_id id);

/* Building. All functions give ORR_NO_MEMORY or, past 2^32 - 2 elements or
 * 65535 lanes, ORR_LIMIT; the builder stays usable. One thread at a time. */
ORR_API orr_graph_builder *orr_graph_builder_new(void);          /* NULL: out of memory */
ORR_API void orr_graph_builder_free(orr_graph_builder *builder); /* NULL is allowed */

/* What is true of the whole recording; the columns of the same names in orr_graph.
 * `base_ns` is the moment that the start_ns of the nodes given to the builder count from.
 * Without this call: 0, no rank, and nothing known. */
typedef struct orr_recording {
    int64_t base_ns;
    uint32_t rank;       /* or ORR_NONE */
    uint32_t world_size; /* or 0        */
    orr_str source, device_name;
} orr_recording;
ORR_API void orr_builder_recording(orr_graph_builder *builder, const orr_recording *recording);

ORR_API ORR_MUST_CHECK orr_status orr_builder_str(orr_graph_builder *builder, const char *text,
                                                  size_t len, orr_str *ret, orr_error *err);
/* Lane of that kind, pid and tid (and device, for a stream; where pid or tid is INT64_MIN its
 * text tells it apart), or a new one. A name that comes later fills in a missing one. */
ORR_API ORR_MUST_CHECK orr_status orr_builder_lane(orr_graph_builder *builder, const orr_lane *lane,
                                                   orr_lane_id *ret, orr_error *err);
/* The group equal in every field, or a new one. */
ORR_API ORR_MUST_CHECK orr_status orr_builder_group(orr_graph_builder *builder,
                                                    const orr_group *group, /* ranks copied */
                                                    orr_group_id *ret, orr_error *err);
/* The tensor equal in every field, or a new one. */
ORR_API ORR_MUST_CHECK orr_status orr_builder_tensor(orr_graph_builder *builder,
                                                     const orr_tensor *tensor, orr_tensor_id *ret,
                                                     orr_error *err);

typedef struct orr_node {
    orr_str name;
    orr_node_kind kind;
    orr_lane_id lane;
    int64_t start_ns, duration_ns;
    orr_node_id parent; /* ORR_NONE, or any id that will exist */
    uint64_t source_id;
} orr_node;
ORR_API ORR_MUST_CHECK orr_status orr_builder_node(orr_graph_builder *builder, const orr_node *node,
                                                   orr_node_id *ret, orr_error *err);
/* `node` waits for `on`: any ids that will exist. Duplicates are kept (Chakra files have
 * them). Fastest, and smallest, when the nodes that wait come in order of their ids. */
ORR_API ORR_MUST_CHECK orr_status orr_builder_dep(orr_graph_builder *builder, orr_node_id node,
                                                  orr_node_id on, orr_dep_kind kind,
                                                  orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_builder_comm(orr_graph_builder *builder, orr_node_id node,
                                                   const orr_comm *comm, orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_builder_copy(orr_graph_builder *builder, orr_node_id node,
                                                   const orr_copy *copy, orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_builder_memory(orr_graph_builder *builder, orr_node_id node,
                                                     const orr_memory *memory, orr_error *err);
/* All attributes of a node (or of the recording: ORR_NONE), in one call; equal
 * lists are stored once. Values and names are copied. */
ORR_API ORR_MUST_CHECK orr_status orr_builder_attrs(orr_graph_builder *builder, orr_node_id node,
                                                    const orr_attr *attrs, uint32_t n_attrs,
                                                    orr_error *err);
/* Tensors of a node, in one call a node; a second one makes the build fail. */
ORR_API ORR_MUST_CHECK orr_status orr_builder_io(orr_graph_builder *builder, orr_node_id node,
                                                 const orr_tensor_id *in, uint32_t n_in,
                                                 const orr_tensor_id *out, uint32_t n_out,
                                                 orr_error *err);

/* Check and freeze. The builder's memory becomes the graph's (no copy, so that
 * ten million nodes fit) and the builder is empty afterwards, on success or not;
 * free it all the same. start_ns is rebased so that the first start is 0, and base_ns
 * moves with it.
 * Errors: INVALID: an id that does not exist, a negative duration, times over 2^63 ns apart, or
 * a cycle of dependencies and nesting, which is named: an arrow leads to the node that
 * waits ("cycle: 12 'ncclAllReduce' -> 40 'aten::mm' -> 12"). NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_graph_build(orr_graph_builder *builder,
                                                  const orr_graph **ret_graph, orr_error *err);

/* A job: the graphs of its ranks, and what ties them. Frozen, shared like a graph.
 * Letters: R ranks (world size), D distinct graphs, M matches. */
typedef struct orr_match { /* one communication as all its members saw it */
    uint32_t group;        /* in the job's groups, or ORR_NONE            */
    uint8_t collective;    /* orr_collective; SEND: a send and its recv   */
    uint32_t first, count; /* its members: rows of members, two or more   */
} orr_match;
typedef struct orr_member {
    uint32_t graph; /* 0 <= graph < D */
    orr_node_id node;
} orr_member;

typedef struct orr_job {
    uint32_t n_ranks, n_graphs, n_groups, n_matches;
    const orr_graph *const *graphs;  /* shape (D), in order of rank */
    const uint32_t *graph_of_rank;   /* shape (R); ORR_NONE: rank not recorded */
    const uint32_t *rank_of_graph;   /* shape (D): the first rank that has it  */
    const int64_t *clock_offset_ns;  /* shape (D): add to base_ns + start_ns for the job's clock */
    const orr_group *groups;         /* shape (n_groups); strings are of graphs[group_graph[g]] */
    const uint32_t *group_graph;     /* shape (n_groups) */
    const uint32_t *const *group_of; /* shape (D)(G_d): a graph's group -> the job's */
    const orr_match *matches;        /* shape (M), by first start */
    const orr_member *members;       /* members of a match in order of rank */
    const uint32_t *const *match_of; /* shape (D)(N_d): match of a node or ORR_NONE; rows NULL
                                      * where a graph has none */
    int64_t base_ns;                 /* start of the job on the job's clock: the smallest
                                      * base_ns + clock_offset_ns */
    uint32_t unmatched;              /* communications that ran and are in no match */
} orr_job;

/* Graphs -> job: merges groups, matches collectives (by group and sequence number where
 * recorded, by group, collective and order otherwise) and send/recv pairs, and aligns
 * clocks: the offset of each graph is the one that lets every matched collective end at the
 * same moment, as the median says, or what clearly more of them agree on; 0 where that is
 * within 1 ms (the recordings share a clock) or nothing matches. Matched are the nodes that ran:
 * COLLECTIVE, SEND and RECV, not the host operators above them. A group whose ranks are not known
 * is the same for all ranks that use its name; where no group is known, the collective and the
 * group's size stand in for it. Where a rank has fewer communications than others, they
 * are laid at the beginning or the end, whichever fits better in time; and where order
 * pairs kernels that cannot belong together (one ended before the other began), those
 * that end together are matched instead.
 *
 * R is the largest of the world sizes, the highest rank + 1, and n. `graphs`: shape (n),
 * the graphs adopted: freed by orr_job_free() on success, still the caller's on failure. Ranks
 * come from the graphs; a graph without one gets the lowest free rank. Errors:
 * INVALID: no graph, or two graphs of one rank; LIMIT: over 2^24 ranks; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_job_build(const orr_graph *const *graphs, uint32_t n,
                                                const orr_job **ret_job, orr_error *err);
ORR_API void orr_job_free(const orr_job *job); /* NULL is allowed */

/* Start of a node on the job's own axis: ns since the job's base. ORR_TIME_NONE if it was
 * not recorded. */
ORR_API int64_t orr_job_start_ns(const orr_job *job, uint32_t graph, orr_node_id node);

#ifdef __cplusplus
}
#endif

#endif /* ORR_GRAPH_H */
