/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ASTRA_H
#define ORR_ASTRA_H

#include <stdbool.h>

#include <orrery/cost.h>
#include <orrery/graph.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A drop-in for the analytical mode of ASTRA-sim: its inputs, and its times to the ns.
 *
 * Caveats first. This is ASTRA-sim's model, not Orrery's: each rank has one CPU operator, one
 * computation and one communication in flight, collectives are simulated message by message, and a
 * message costs latency and bytes over bandwidth. Held to the ns against 1,541 jobs that ASTRA-sim
 * 518bd513 ran, without congestion and, in one dimension, with it (tests/reference/astra/).
 *
 * Where ASTRA-sim has no answer: several dimensions with congestion, and a ring of two ranks with
 * it, are an extension; so is that a rank goes on after metadata, after nodes without work, and
 * after a collective of a group of one, where ASTRA-sim stops or never ends. Trees and halving
 * among numbers of ranks that are no power of two, or too few bytes to halve, trees among some
 * ranks, and rings whose members go round in different directions are refused or reported as a
 * deadlock. Members of a group that call different collectives at once serve each other only where
 * chunks and messages are alike. Left out, and refused by name: model-shared-bus, remote memory,
 * custom collectives, other orders of dimensions or chunks.
 *
 * Source: the public sources of astra-sim/astra-sim and astra-sim/astra-network-analytical, read
 * for their rules; results that they were seen to print. Time is integer ns ("cycles").
 *
 * Letters: R ranks (NPUs), D dimensions of the network, N nodes of a graph. */

enum { ORR_ASTRA_DIMS = 8 };

#define ORR_ASTRA_ALGORITHM_MAP(X)                                                                 \
    X(RING, "ring")                                                                                \
    X(DIRECT, "direct")                                                                            \
    X(HALVING_DOUBLING, "halvingDoubling") X(DOUBLE_BINARY_TREE, "doubleBinaryTree")
typedef enum orr_astra_algorithm {
#define ORR_ASTRA_ALGORITHM_ENUM_(name, text) ORR_ASTRA_##name,
    ORR_ASTRA_ALGORITHM_MAP(ORR_ASTRA_ALGORITHM_ENUM_)
#undef ORR_ASTRA_ALGORITHM_ENUM_
} orr_astra_algorithm;

/* Implementation of a collective in one dimension: "ring", "direct4", "oneDirect"... */
typedef struct orr_astra_implementation {
    uint8_t algorithm; /* orr_astra_algorithm                                       */
    bool one;          /* "one...": all ranks as one dimension */
    int32_t window;    /* of direct: messages in flight; -1: as many as there are peers */
} orr_astra_implementation;

/* Collectives that have implementations of their own. */
typedef enum orr_astra_kind {
    ORR_ASTRA_ALL_REDUCE,
    ORR_ASTRA_ALL_GATHER,
    ORR_ASTRA_REDUCE_SCATTER,
    ORR_ASTRA_ALL_TO_ALL,
    ORR_ASTRA_KINDS
} orr_astra_kind;

/* The system file (JSON). */
typedef struct orr_astra_system {
    uint32_t n_ways[ORR_ASTRA_KINDS];
    orr_astra_implementation ways[ORR_ASTRA_KINDS][ORR_ASTRA_DIMS];
    bool local_bw_aware;    /* all-reduce: reduce-scatter up the dimensions, all-gather down */
    uint32_t active_chunks; /* of a collective, at a time in one dimension */
    uint32_t splits;        /* chunks of a collective */
    int64_t endpoint_delay_ns;
    double local_bytes_per_ns;
    double peak_flops; /* per s; 0: not given                       */
    bool roofline, replay_only;
} orr_astra_system;

/* The network file (YAML). */
typedef struct orr_astra_network {
    uint32_t n_dims, n_ranks;
    uint8_t topology[ORR_ASTRA_DIMS];    /* orr_topology, of machine.h                */
    uint32_t size[ORR_ASTRA_DIMS];       /* ranks in a dimension                      */
    uint32_t stride[ORR_ASTRA_DIMS];     /* of its ranks: product of the sizes before */
    double bytes_per_ns[ORR_ASTRA_DIMS]; /* "bandwidth" x 2^30 / 1e9                 */
    double latency_ns[ORR_ASTRA_DIMS];
} orr_astra_network;

/* The file of communication groups (JSON): number -> ranks, in its order. */
typedef struct orr_astra_group {
    int64_t id;
    uint32_t n;
    const uint32_t *ranks; /* shape (n) */
} orr_astra_group;
typedef struct orr_astra_groups {
    uint32_t n;
    const orr_astra_group *at; /* shape (n), by id */
} orr_astra_groups;

/* Readers of the files. Errors: IO; PARSE with the byte or the line and column; INVALID: a
 * missing key or an invalid value; UNSUPPORTED; NO_MEMORY. "Parse" reads from memory; `file`:
 * name in messages. */
ORR_API ORR_MUST_CHECK orr_status orr_astra_system_load(const char *path, orr_astra_system *ret,
                                                        orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_astra_system_parse(const void *bytes, size_t len,
                                                         const char *file, orr_astra_system *ret,
                                                         orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_astra_network_load(const char *path, orr_astra_network *ret,
                                                         orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_astra_network_parse(const void *bytes, size_t len,
                                                          const char *file, orr_astra_network *ret,
                                                          orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_astra_groups_load(const char *path, orr_arena *arena,
                                                        orr_astra_groups *ret, orr_error *err);
ORR_API ORR_MUST_CHECK orr_status orr_astra_groups_parse(const void *bytes, size_t len,
                                                         const char *file, orr_arena *arena,
                                                         orr_astra_groups *ret, orr_error *err);

/* The same network for Orrery's own cost model: a level for each dimension, all protocols alike. */
ORR_API void orr_astra_network_model(const orr_astra_network *network, orr_network *ret);

/* Mode: what determines the time of messages. */
#define ORR_ASTRA_MODE_MAP(X)                                                                      \
    X(UNAWARE, "unaware") /* as ASTRA-sim's congestion-unaware network                  */         \
    X(AWARE, "aware")     /* as its congestion-aware one: queues at links               */         \
    X(MODEL, "model")     /* Orrery's closed forms: a collective is one piece of work              \
                             that begins when its last member has arrived               */
typedef enum orr_astra_mode {
#define ORR_ASTRA_MODE_ENUM_(name, text) ORR_ASTRA_##name,
    ORR_ASTRA_MODE_MAP(ORR_ASTRA_MODE_ENUM_)
#undef ORR_ASTRA_MODE_ENUM_
} orr_astra_mode;

typedef struct orr_astra_job {
    const orr_astra_system *system;
    const orr_astra_network *network;
    const orr_astra_groups *groups; /* NULL: none                                  */
    const orr_graph *const *graphs; /* shape (R); the same pointer may stand twice */
    uint32_t queues;                /* of each dimension (--num-queues-per-dim); 0: 1 */
} orr_astra_job;

/* Result of one rank. */
typedef struct orr_astra_rank {
    int64_t finish_ns;       /* "sys[r] finished, ... cycles"             */
    int64_t compute_ns;      /* sum over its computations */
    int64_t exposed_ns;      /* finish - compute: "exposed communication" */
    const int64_t *start_ns; /* shape (N): of each node; ORR_TIME_NONE: it did not run */
    const int64_t *end_ns;   /* shape (N) */
} orr_astra_rank;

/* One collective, over all of its members. */
typedef struct orr_astra_collective {
    uint32_t rank;      /* of the first member to arrive */
    orr_node_id node;   /* of that member */
    uint8_t collective; /* orr_collective                */
    int64_t bytes;      /* comm_size                     */
    int64_t group;      /* number of the group, 0: all ranks */
    uint32_t n_members;
    uint32_t width[ORR_ASTRA_DIMS];    /* ranks of a group in one line of each dimension */
    int64_t first_ns, last_ns, end_ns; /* first and last arrival; end of the last member */
} orr_astra_collective;

typedef struct orr_astra_result {
    uint32_t n_ranks;
    const orr_astra_rank *ranks;             /* shape (R) */
    const orr_astra_collective *collectives; /* shape (n_collectives), by first arrival */
    uint32_t n_collectives;
    uint64_t n_messages;  /* of the job, including ranks that were folded */
    uint64_t n_events;    /* that were processed */
    uint32_t n_simulated; /* ranks that were simulated: 1 when folded */
} orr_astra_result;

/* Runs the job. `fold`: simulate one rank where all ranks are equivalent and no two messages
 * compete for a link; the result is the same. Results in the arena.
 *
 * Errors: INVALID: a trace that refers to what does not exist (group, rank, size); UNSUPPORTED;
 * LIMIT; NO_MEMORY. CANCELED: the job never ends, and the message names the cycle: "deadlock:
 * rank 0 'a' (node 3) waits for rank 1, which is in 'b' (node 4) and waits for rank 0". */
ORR_API ORR_MUST_CHECK orr_status orr_astra_simulate(const orr_astra_job *job, orr_astra_mode mode,
                                                     bool fold, orr_arena *arena,
                                                     orr_astra_result *ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_ASTRA_H */
