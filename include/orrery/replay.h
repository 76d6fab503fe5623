/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPLAY_H
#define ORR_REPLAY_H

#include <orrery/graph.h>
#include <orrery/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Replays a recorded trace as a benchmark on this machine: its operators run on tensors of the
 * recorded shapes, by our kernels (after Liang et al., "Mystique", ISCA 2023). */
#define ORR_REPLAY_PART_MAP(X) X(ALL, "all") X(COMPUTE, "compute") X(COMM, "comm")
typedef enum orr_replay_part {
#define ORR_REPLAY_PART_ENUM_(name, text) ORR_REPLAY_##name,
    ORR_REPLAY_PART_MAP(ORR_REPLAY_PART_ENUM_)
#undef ORR_REPLAY_PART_ENUM_
} orr_replay_part;

typedef struct orr_replay_options {
    const orr_graph *const
        *graphs; /* shape (n_graphs): of each rank; several ranks run as processes */
    uint32_t n_graphs;
    const char *from,
        *to; /* operators by name, or by "#id": a range of top-level ones; NULL: all */
    const char *
        subtree; /* name of an operator or annotation: only what runs within its first occurrence */
    uint8_t part;                 /* orr_replay_part */
    const char *skip;             /* names, separated by commas; a final '*' matches any ending */
    bool strict;                  /* fail if an operator cannot be run */
    uint32_t warm_up, iterations; /* 0: 1 and 3 */
    int threads;
    uint64_t seed; /* of values */
    bool counters; /* cache misses and bandwidth, where the kernel allows perf events */
} orr_replay_options;

/* Operators of one name: recorded times beside replayed ones. */
typedef struct orr_replay_op {
    const char *name; /* "aten::addmm" */
    const char *how;  /* "kernel", "view", "emulated", "skipped", "collective" */
    const char *why;  /* why an operator is emulated: "no kernel", "unknown shapes", ...; or "" */
    uint64_t count;
    int64_t recorded_ns, replayed_ns; /* of one iteration, over all of them */
    double flops, bytes;
} orr_replay_op;
typedef struct orr_replay_result {
    const orr_replay_op *ops; /* shape (n_ops), by recorded time, longest first */
    uint32_t n_ops;
    uint64_t operators, covered;      /* covered: run by a kernel, as a view or as a collective */
    int64_t operator_ns, covered_ns;  /* recorded */
    int64_t recorded_ns, replayed_ns; /* from the first operator to the last; replayed: median */
    int64_t fastest_ns, slowest_ns;
    double flops, bytes;
    int64_t cache_misses, instructions, cycles; /* -1: not permitted here */
    int64_t memory_bytes;
} orr_replay_result;
/* Errors: INVALID: nothing to run; UNSUPPORTED: strict, and operators that cannot be run; LIMIT:
 * memory. Results in the arena. */
ORR_API ORR_MUST_CHECK orr_status orr_replay(const orr_replay_options *options, orr_arena *arena,
                                             orr_replay_result *ret, orr_error *err);
/* Extracts the part that would run as a trace of its own (Chakra .et, or PyTorch's JSON), without
 * names of modules and files; with `obfuscate`, operators that are not public, groups and tensors
 * get numbers for names. It replays like the original. */
ORR_API ORR_MUST_CHECK orr_status orr_replay_extract(const orr_replay_options *options,
                                                     bool obfuscate, const orr_graph **ret,
                                                     orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_REPLAY_H */
