/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RUN_PROGRAM_H
#define ORR_ENGINE_RUN_PROGRAM_H

#include <orrery/graph.h>
#include <orrery/kernel.h>
#include <orrery/op.h>
#include <orrery/plan.h>

#include "engine/ranks/communicator.h"

/* A program is an operator tape ready to run: each value has a place in memory before the first
 * call runs (the static plan of op/tape/live_ranges.h, as in estimates), each call its kernel, its
 * lane and the calls of other lanes that it waits for. Running it allocates nothing and gives the
 * same bits each time, for any number of threads.
 *
 * Everything that runs is a program: a training step, a prefill, a decode, a replayed trace. */

/* A lane is a sequence of calls executed in order, like a CUDA stream. Lane 0 computes, in the
 * caller's thread; the others are threads of their own. */
enum { ORR_LANE_COMPUTE, ORR_LANE_COMM, ORR_LANE_COPY, ORR_LANES_MAX = 16 };

typedef orr_status orr_program_hook(void *ctx, uint32_t call, orr_error *err);

/* Properties of a call beyond its tape entry. */
typedef struct orr_program_call {
    uint8_t lane;
    bool accumulate;    /* adds to its first output instead of overwriting it */
    bool skip;          /* no kernel runs: its hook provides the outputs, or they are not wanted */
    int64_t emulate_ns; /* > 0: emulated: no kernel runs, the lane is busy for this long */
    const int64_t *parts;      /* of an all-to-all: bytes to each member, then bytes from each,
                                  contiguous, where they differ. NULL: equal parts */
    uint32_t tag;              /* the caller's: micro-batch, schedule slot, node of a trace */
    const char *label;         /* for recordings: "layer 3 / qkv"; NULL: the call's name */
    orr_program_hook *before;  /* called in the lane right before the call; or NULL */
    orr_program_hook *instead; /* does the call's work in place of its kernel; or NULL */
    void *hook_ctx;            /* of both */
} orr_program_call;

/* Where a value lives that is not the program's own. A value that is neither bound nor a view lives
 * in the program's memory from the call that writes it to the last that reads it, so what is read
 * after a run must be bound or kept. One that no call writes lives from the start to its last
 * reader and must be filled before each run. A view that is bound or kept becomes a copy. */
typedef struct orr_binding {
    void *data; /* NULL and rows NULL: the program's own */
    const orr_weight_rows *rows;
    bool kept; /* the program's own, but persistent between runs; zeroed at first */
} orr_binding;

typedef struct orr_program_dep {
    uint32_t call, on;
} orr_program_dep;

/* Ring steps: a SEND or RECV with both input and output sends to member args.begin and receives
 * from member args.count - 1; with count 0, sends to the next member and receives from the one
 * before. On a tape of its own, a SEND (no output) sends to member args.begin - 1 and a RECV (no
 * input) receives from member args.count - 1.
 *
 * Lanes wait for one another by the bytes that calls read and write, bound ones included (as bound
 * when the program is made), and by channels: collectives of a channel run in order, messages one
 * way wait only for others of the same peer and direction. Workers belong to lane 0; kernels in
 * other lanes run in one thread. */
typedef struct orr_program_source {
    const orr_tape *tape;
    const orr_program_call *calls; /* shape (n_calls), or NULL: lanes by default: collectives with
                                      args.overlap on ORR_LANE_COMM, all else on COMPUTE */
    const orr_binding *bindings;   /* shape (n_values), or NULL                               */
    const orr_program_dep *deps;   /* dependencies beside those of data; shape (n_deps) */
    uint32_t n_deps;
    orr_communicator *const *communicators; /* shape (ORR_AXES), by args.axis of a collective; NULL
                                               where it has one member: its output is its input */
    orr_backend *backend;
    orr_workers *workers;
    uint64_t seed;
} orr_program_source;

typedef struct orr_program orr_program;
/* A view becomes a copy where strides cannot express it, and where it is a slice that the backward
 * pass reads while nothing else of the whole stays alive. Errors: UNSUPPORTED: an operator without
 * a kernel, by name; INVALID; LIMIT: more memory than is free, before any is taken ("needs 12.3
 * GiB, 7.9 GiB are free"); NO_MEMORY. The source's tape and rows must outlive the program. */
orr_status orr_program_make(const orr_program_source *source, orr_program **ret,
                            orr_error *err) ORR_MUST_CHECK;
void orr_program_free(orr_program *program);

typedef struct orr_program_memory {
    int64_t planned_bytes; /* of the program's own values, after the static plan */
    int64_t summed_bytes;  /* of the same without reuse */
    int64_t kept_bytes, workspace_bytes;
} orr_program_memory;
orr_program_memory orr_program_memory_of(const orr_program *program);
/* The memory that such a program would need, without making it. `backend` NULL: without
 * workspaces. */
orr_status orr_program_measure(const orr_program_source *source, orr_program_memory *ret,
                               orr_error *err) ORR_MUST_CHECK;

/* Rebinds a bound value, or sets the address of one of the program's own. Between runs. */
void orr_program_bind(orr_program *program, orr_value value, void *data);
void *orr_program_data(const orr_program *program, orr_value value);
/* First positions (orr_kernel_call.first) for kernels from now on; the caller's memory. NULL:
 * none. */
void orr_program_set_positions(orr_program *program, const int64_t *first);
void orr_program_set_update(orr_program *program, const orr_update *update);

typedef struct orr_program_run {
    int64_t *start_ns, *end_ns; /* shape (n_calls), CLOCK_MONOTONIC; NULL: not timed. -1: a call of
                                   the range that did not run */
    bool check;        /* checks every output for NaN and infinity, and stops at the first: INVALID,
                          "mlp_norm of layer 3 made NaN" */
    uint32_t from, to; /* calls [from, to); to 0: all */
} orr_program_run;
/* Errors: those of kernels, hooks and communicators, prefixed with the call's name; of several the
 * first. After an error all lanes stop, and transports are told to abort. */
orr_status orr_program_execute(orr_program *program, const orr_program_run *run,
                               orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_RUN_PROGRAM_H */
