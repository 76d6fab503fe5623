/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RUN_PROGRAM_STATE_H
#define ORR_ENGINE_RUN_PROGRAM_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "engine/run/program.h"

/* Internals of a program, shared by program.c, views.c, calls.c, dependencies.c, memory.c,
 * executor*.c and record/. */

/* Location of a value: `offset_bytes` from the start of `root`, which is the value itself where it
 * has bytes of its own or is bound. */
typedef struct orr_value_location {
    orr_value root;
    int64_t offset_bytes;
    int64_t stride[ORR_TYPE_DIMS]; /* elements */
} orr_value_location;

/* The action of a call. */
typedef enum orr_action_kind {
    ORR_ACTION_NONE, /* nothing: a view, or skipped; its hook may still run */
    ORR_ACTION_KERNEL,
    ORR_ACTION_COPY, /* copies in[k] to out[k], of the same dims: views that strides cannot express
                        or that are bound elsewhere, and a collective's own part */
    ORR_ACTION_COLLECTIVE,
    ORR_ACTION_EMULATE,
    ORR_ACTION_HOOK /* what stands instead of a kernel */
} orr_action_kind;

typedef struct orr_lane_wait {
    uint32_t lane, call;
} orr_lane_wait;

/* A call prepared for execution. */
typedef struct orr_action {
    uint8_t kind, lane;
    uint8_t n_in, n_out;
    bool runs;         /* takes part in its lane: it does something, has a hook, or is waited for */
    bool accumulate;   /* the kernel accumulates by itself */
    bool staged;       /* out[0] goes to the workspace, and a kernel adds it from there */
    bool announced;    /* another lane waits for it */
    uint32_t operands; /* the first of its operands: inputs, then outputs */
    uint32_t waits, n_waits; /* its rows of `waits` */
    size_t workspace_bytes;  /* of the kernel or collective, followed by staged outputs */
    uint64_t seed;           /* mixed with the program's seed */
    void *state;             /* from prepare() */
    void *event;             /* event of a device */
    orr_communicator *communicator;
} orr_action;

/* A lane: a sequence of calls executed in order. Lane 0 is the caller's thread. */
typedef struct orr_lane_state {
    orr_program *program;
    uint32_t number;
    uint32_t *calls; /* shape (n_calls): those that take part */
    uint32_t n_calls;
    void *workspace;
    size_t workspace_bytes;
    void *stream;
    pthread_t thread;
    bool started;
    int64_t end_ns;    /* end time of the previous call; 0: none, or there was a gap */
    orr_status status; /* of the last run */
    orr_error error;
    _Alignas(64)
        atomic_uint progress; /* number of calls that are done; ORR_LANE_FAILED: some lane failed */
    atomic_uint sleepers;
    _Alignas(64) atomic_uint round;    /* number of the current run; a change starts it */
    _Alignas(64) atomic_uint finished; /* the last run that this lane finished */
} orr_lane_state;
enum { ORR_LANE_FAILED = 1 << 30 };

struct orr_program {
    orr_arena *arena;
    const orr_tape *tape;
    orr_backend *backend;
    orr_workers *workers;
    uint64_t seed;
    orr_program_call *calls; /* shape (n_calls) */
    orr_binding *bindings;   /* shape (n_values) */
    orr_program_dep *deps;   /* shape (n_deps), by call */
    uint32_t n_deps;
    orr_communicator **communicators; /* shape (ORR_AXES) */
    bool device; /* kernels are enqueued, and the host cannot touch the bytes */

    orr_value_location *places; /* shape (n_values) */
    char **base;                /* shape (n_values): address of a root's first byte */
    orr_action *actions;        /* shape (n_calls) */
    orr_operand *operands;
    orr_value *operand_of;   /* by operand: the value whose location it has */
    int64_t *operand_offset; /* by operand: offset from its root in bytes */
    uint32_t n_operands;
    uint32_t *bound_first, *bound; /* operands by root, for roots that are bound */
    orr_lane_wait *waits;
    uint32_t n_waits;

    orr_program_memory memory;
    char *planned, *kept; /* memory of the backend */
    size_t planned_room, kept_room;

    uint32_t n_lanes;
    orr_lane_state **lanes; /* shape (n_lanes) */
    const int64_t *first;
    const orr_update *update;
    /* the current run */
    const orr_program_run *run;
    uint32_t from, to;
    atomic_bool failed, over;
    const orr_lane_state *cause; /* the lane that failed first; NULL: none */
};

/* views.c: strides and sharing of views. */
orr_status orr_program_resolve_views(orr_program *p, orr_error *err) ORR_MUST_CHECK;
/* calls.c: actions, operands without addresses, workspaces. */
orr_status orr_program_prepare_calls(orr_program *p, orr_error *err) ORR_MUST_CHECK;
/* Computes the addresses of all operands from `base`. */
void orr_program_resolve_addresses(orr_program *p);
/* dependencies.c: which calls wait for which of other lanes, from the addresses of operands.
 * `ret_join`, shape (n_calls) or NULL: the first call of lane 0 that runs after the call is done;
 * n_calls: none. */
orr_status orr_program_find_waits(orr_program *p, uint32_t *ret_join,
                                  orr_error *err) ORR_MUST_CHECK;
/* memory.c: offsets of the program's own values, relative to 0, into `base`. */
orr_status orr_program_assign_offsets(orr_program *p, orr_error *err) ORR_MUST_CHECK;
/* Takes the memory, and turns offsets into addresses. */
orr_status orr_program_allocate(orr_program *p, orr_error *err) ORR_MUST_CHECK;

/* strided_copy.c */
/* Copies an operand to another of the same dims, on the host. */
void orr_strided_copy(const orr_operand *to, const orr_operand *from, orr_workers *workers);
/* The slice [begin, begin + count) along `dim`. */
orr_operand orr_operand_slice(const orr_operand *whole, int32_t dim, int64_t begin, int64_t count);
/* A contiguous operand of a type. */
orr_operand orr_operand_dense(const orr_type *type, void *data);
/* tensor_collective.c */
bool orr_op_is_collective(uint8_t op);
/* Members that a SEND or RECV sends to and receives from, as defined in engine/run/program.h;
 * ORR_NONE: none. */
void orr_collective_peers(const orr_communicator *c, const orr_tape_call *call, uint32_t *ret_to,
                          uint32_t *ret_from);
size_t orr_collective_workspace(const orr_tape_call *call, const orr_operand *in,
                                const orr_operand *out);
/* `parts`: of orr_program_call. */
orr_status orr_collective_run(orr_communicator *c, const orr_tape_call *call, const int64_t *parts,
                              const orr_operand *in, const orr_operand *out, void *workspace,
                              orr_workers *workers, orr_error *err) ORR_MUST_CHECK;

/* executor_call.c: executes the action of a call. */
orr_status orr_program_run_call(orr_program *p, orr_lane_state *lane, uint32_t call,
                                orr_error *err) ORR_MUST_CHECK;
/* nonfinite_check.c: INVALID, with the call's name, if an output is not finite. */
orr_status orr_program_check_finite(const orr_program *p, uint32_t call,
                                    orr_error *err) ORR_MUST_CHECK;
/* executor.c */
orr_status orr_program_start_lanes(orr_program *p, orr_error *err) ORR_MUST_CHECK;
void orr_program_stop_lanes(orr_program *p);

static inline bool orr_binding_is_own(const orr_binding *binding)
{
    return binding->data == NULL && binding->rows == NULL;
}
/* "layer 3 / qkv", "qkv", or the operator's name. */
static inline const char *orr_program_label(const orr_program *p, uint32_t call)
{
    const char *label = p->calls[call].label;
    if (label == NULL)
        label = p->tape->calls[call].name;
    return label != NULL && label[0] != '\0' ? label
                                             : orr_op_of((orr_op)p->tape->calls[call].op)->name;
}
static inline int64_t orr_program_now_ns(void)
{
    return orr_clock_now_ns(&orr_clock_monotonic);
}
static inline int64_t orr_element_bits(uint8_t dtype)
{
    return (int64_t)(8 * orr_dtype_bytes((orr_dtype)dtype));
}

#endif /* ORR_ENGINE_RUN_PROGRAM_STATE_H */
