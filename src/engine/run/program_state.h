/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_RUN_PROGRAM_STATE_H
#define ORR_ENGINE_RUN_PROGRAM_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "engine/run/program.h"

/* The inside of a program, for the files program*.c, executor*.c and recorder*.c. */

/* Where a value's bytes are: `offset_bytes` behind the first of `root`, which is itself where the
 * value has bytes of its own, or is bound. */
typedef struct orr_value_location {
    orr_value root;
    int64_t offset_bytes;
    int64_t stride[ORR_TYPE_DIMS]; /* elements */
} orr_value_location;

/* What a call comes to. */
typedef enum orr_action_kind {
    ORR_ACTION_NONE, /* a view, or left out: its hook is called at most                    */
    ORR_ACTION_KERNEL,
    ORR_ACTION_COPY, /* in[k] to out[k], of the same dims: views that strides cannot express,
                      * what is bound elsewhere, a member's own part                       */
    ORR_ACTION_COLLECTIVE,
    ORR_ACTION_EMULATE
} orr_action_kind;

typedef struct orr_lane_wait {
    uint32_t lane, call;
} orr_lane_wait;

/* A call, ready to run. */
typedef struct orr_action {
    uint8_t kind, lane;
    uint8_t n_in, n_out;
    bool runs;         /* stands in its lane: does something, has a hook or is waited for     */
    bool accumulate;   /* the kernel adds by itself                                           */
    bool staged;       /* out[0] goes to scratch and is added from there by a kernel          */
    bool announced;    /* another lane waits for it                                           */
    uint32_t operands; /* first of its operands: inputs, then outputs                         */
    uint32_t waits, n_waits; /* rows of waits */
    size_t workspace_bytes;  /* of the kernel or the collective; staged outputs lie behind      */
    uint64_t seed;           /* mixed with the program's */
    void *state;             /* of prepare()             */
    void *event;             /* of a device              */
    orr_communicator *communicator;
} orr_action;

/* A lane: a row of calls in their order. Lane 0 is the caller's thread. */
typedef struct orr_lane_state {
    orr_program *program;
    uint32_t number;
    uint32_t *calls; /* shape (n_calls): those that run */
    uint32_t n_calls;
    void *workspace;
    size_t workspace_bytes;
    void *stream;
    pthread_t thread;
    bool started;
    int64_t end_ns;    /* of the call that ran last; 0: none, or something came since */
    orr_status status; /* of the last run */
    orr_error error;
    _Alignas(64)
        atomic_uint progress; /* calls below it are done; ORR_LANE_FAILED: some lane failed */
    atomic_uint sleepers;
    _Alignas(64) atomic_uint round;    /* of runs; a change begins one */
    _Alignas(64) atomic_uint finished; /* the round that was finished last */
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
    bool device; /* kernels are enqueued, and bytes are not for the host to touch */

    orr_value_location *places; /* shape (n_values) */
    char **base;                /* shape (n_values): address of a root's first byte */
    orr_action *actions;        /* shape (n_calls) */
    orr_operand *operands;
    orr_value *operand_of;   /* whose place an operand has, by operand                         */
    int64_t *operand_offset; /* bytes from its root's first, by operand                      */
    uint32_t n_operands;
    uint32_t *bound_first, *bound; /* operands by root, of roots that are bound               */
    orr_lane_wait *waits;
    uint32_t n_waits;

    orr_program_memory memory;
    char *planned, *kept; /* of the backend */
    size_t planned_room, kept_room;

    uint32_t n_lanes;
    orr_lane_state **lanes; /* shape (n_lanes) */
    const int64_t *first;
    const orr_update *update;
    /* of the run that is made now */
    const orr_program_run *run;
    uint32_t from, to;
    atomic_bool failed, over;
    const orr_lane_state *cause; /* the lane that failed first; NULL: none */
};

/* program_place.c: strides, and who shares whose bytes. */
orr_status orr_program_resolve_views(orr_program *p, orr_error *err) ORR_MUST_CHECK;
/* program_calls.c: deeds, operands without addresses, scratch. */
orr_status orr_program_prepare_calls(orr_program *p, orr_error *err) ORR_MUST_CHECK;
/* Addresses of all operands, from `base`. */
void orr_program_resolve_addresses(orr_program *p);
/* program_waits.c: which call waits for which of other lanes, from the addresses of operands.
 * `ret_join`, shape (n_calls) or NULL: the first call of lane 0 that runs after the call is done;
 * n_calls: none. */
orr_status orr_program_find_waits(orr_program *p, uint32_t *ret_join,
                                  orr_error *err) ORR_MUST_CHECK;
/* program_bytes.c: offsets of the program's own values, relative to 0, into `base`; memory. */
orr_status orr_program_assign_offsets(orr_program *p, orr_error *err) ORR_MUST_CHECK;
/* Takes the memory, and makes addresses of the offsets. */
orr_status orr_program_allocate(orr_program *p, orr_error *err) ORR_MUST_CHECK;

/* program_move.c */
/* From one operand to another of the same dims. On the host. */
void orr_strided_copy(const orr_operand *to, const orr_operand *from, orr_workers *workers);
/* The part of `count` along `dim` from `begin` on. */
orr_operand orr_operand_slice(const orr_operand *whole, int32_t dim, int64_t begin, int64_t count);
/* The numbers of a type without gaps. */
orr_operand orr_operand_dense(const orr_type *type, void *data);
/* program_collective.c */
bool orr_op_is_collective(uint8_t op);
/* Members that a SEND or RECV gives to and gets from, as engine/run/program.h has it; ORR_NONE:
 * nobody. */
void orr_collective_peers(const orr_communicator *c, const orr_tape_call *call, uint32_t *ret_to,
                          uint32_t *ret_from);
size_t orr_collective_workspace(const orr_tape_call *call, const orr_operand *in,
                                const orr_operand *out);
/* `parts`: of orr_program_call. */
orr_status orr_collective_run(orr_communicator *c, const orr_tape_call *call, const int64_t *parts,
                              const orr_operand *in, const orr_operand *out, void *workspace,
                              orr_workers *workers, orr_error *err) ORR_MUST_CHECK;

/* executor_call.c: does what a call comes to. */
orr_status orr_program_run_call(orr_program *p, orr_lane_state *lane, uint32_t call,
                                orr_error *err) ORR_MUST_CHECK;
/* executor_check.c: INVALID, with the call's name, if an output is not finite. */
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
