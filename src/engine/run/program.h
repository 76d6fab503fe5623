/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RUN_PROGRAM_H
#define ORR_ENGINE_RUN_PROGRAM_H

#include <orrery/graph.h>
#include <orrery/kernel.h>
#include <orrery/op.h>
#include <orrery/plan.h>

#include "engine/ranks/communicator.h"

/* A program: a tape that can be run. Each value has its place in memory before the first call runs
 * (the static plan of op/tape/live_ranges.h, the same that estimates use), each call its kernel,
 * its lane, and the calls of other lanes that it waits for. Running it allocates nothing and gives
 * the same bits each time, whatever the number of threads.
 *
 * Everything that runs is a program: a step of training, a prefill, a decode, a recorded trace. */

/* Lane 0 computes, in the caller's thread; others are threads of their own. */
enum { ORR_LANE_COMPUTE, ORR_LANE_COMM, ORR_LANE_COPY, ORR_LANES_MAX = 16 };

typedef orr_status orr_program_hook(void *ctx, uint32_t call, orr_error *err);

/* What a call is beside what its tape says. */
typedef struct orr_program_call {
    uint8_t lane;
    bool accumulate;          /* adds to its first output instead of replacing it                 */
    bool skip;                /* nothing runs (its outputs are given, perhaps by its hook, or nobody
                               * wants them)                                                      */
    int64_t emulate_ns;       /* > 0: no kernel runs; the lane is busy for so long                */
    const int64_t *parts;     /* of an all-to-all: bytes to each member, then bytes from each, where
                               * these differ; they lie one behind another. NULL: all alike       */
    uint32_t tag;             /* the caller's: micro-batch, turn, node of a trace                 */
    const char *label;        /* of the recording: "layer 3 / qkv"; NULL: the call's name         */
    orr_program_hook *before; /* called in the lane, right before it; or NULL                  */
    void *hook_ctx;
} orr_program_call;

/* Where a value that is not the program's own lies. A value that is neither bound nor a view lives
 * in the program's memory, from the call that makes it to the last that reads it: what is to be
 * read behind a run is bound or kept. One that no call makes lies there from the start to its last
 * reader, and is to be filled before each run. A view that is bound or kept is a copy. */
typedef struct orr_binding {
    void *data; /* NULL and rows NULL: the program's own                              */
    const orr_weight_rows *rows;
    bool kept; /* the program's own, but keeps its bytes between runs and is zeroed first */
} orr_binding;

typedef struct orr_program_dep {
    uint32_t call, on;
} orr_program_dep;

/* SEND and RECV that take and give: a turn of a ring, to member args.begin, from member args.count
 * - 1, or with count 0 to the next (RECV: to the one before). Those on a tape of their own, a SEND
 * without an output, a RECV without an input: to member args.begin - 1, from member args.count - 1.
 *
 * Lanes wait for one another by the bytes that calls read and write, bound ones too (as bound when
 * the program is made), and by channels: those of a channel run in order, but messages one way wait
 * only for others of the same peer and direction. Workers are for lane 0; kernels elsewhere run in
 * one thread. */
typedef struct orr_program_source {
    const orr_tape *tape;
    const orr_program_call *calls; /* shape (n_calls), or NULL: lane by rule: collectives with
                                    * args.overlap on ORR_LANE_COMM, all else on COMPUTE     */
    const orr_binding *bindings;   /* shape (n_values), or NULL                               */
    const orr_program_dep *deps;   /* beside those of data; shape (n_deps)                    */
    uint32_t n_deps;
    orr_communicator *const
        *communicators; /* shape (ORR_AXES), by args.axis of a collective; NULL
                         * where it has one member: then it gives what it takes  */
    orr_backend *backend;
    orr_workers *workers;
    uint64_t seed;
} orr_program_source;

typedef struct orr_program orr_program;
/* Values whose bytes a view cannot express by strides are copied instead, and slices that the
 * backward pass reads while nothing else of the whole is kept. Errors: UNSUPPORTED: no kernel for
 * an operator, by name; INVALID; LIMIT: more memory than there is, said before any is taken
 * ("needs 12.3 GiB, 7.9 GiB are free"); NO_MEMORY. The source's tape and rows must outlive it.
 */
orr_status orr_program_make(const orr_program_source *source, orr_program **ret,
                            orr_error *err) ORR_MUST_CHECK;
void orr_program_free(orr_program *program);

typedef struct orr_program_memory {
    int64_t planned_bytes; /* of its own values, after the static plan                        */
    int64_t summed_bytes;  /* of the same, if each had bytes of its own                       */
    int64_t kept_bytes, workspace_bytes;
} orr_program_memory;
orr_program_memory orr_program_memory_of(const orr_program *program);
/* The same without making one: what it would hold. `backend` NULL: without workspaces. */
orr_status orr_program_measure(const orr_program_source *source, orr_program_memory *ret,
                               orr_error *err) ORR_MUST_CHECK;

/* Between runs. Of a value that the source has bound, or the address of one of the program's own.
 */
void orr_program_bind(orr_program *program, orr_value value, void *data);
void *orr_program_data(const orr_program *program, orr_value value);
/* Told to kernels from now on; the caller's, until told anew. NULL: none. */
void orr_program_set_positions(orr_program *program, const int64_t *first);
void orr_program_set_update(orr_program *program, const orr_update *update);

typedef struct orr_program_run {
    int64_t *start_ns, *end_ns; /* shape (n_calls), CLOCK_MONOTONIC; NULL: not timed. Calls of the
                                 * range that did not run: -1                                   */
    bool check; /* stops at the first call whose output is not finite: INVALID, "mlp_norm of layer 3
                 * made NaN"                                                              */
    uint32_t from, to; /* calls; to 0: all */
} orr_program_run;
/* Errors: those of kernels, hooks and communicators, with the call's name in front; of several the
 * first, after which all lanes stop and, where there are several, transports are told to abort. */
orr_status orr_program_execute(orr_program *program, const orr_program_run *run,
                               orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_RUN_PROGRAM_H */
