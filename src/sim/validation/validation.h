/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_VALIDATION_VALIDATION_H
#define ORR_SIM_VALIDATION_VALIDATION_H

#include <orrery/sim.h>

/* Validation: the simulation of a recorded job compared with its recording: how large the errors
 * are, where they arise and why.
 *
 * Both functions take the simulation of orr_ensemble_of_job(job) with unchanged durations.
 * Starts are compared on the job's clock, on which each rank begins when it was recorded to
 * begin. Results are in the arena; of the arguments only names are kept. No threads of their
 * own. */

/* Errors of a span: from its first start to its last end, and of the starts in between. */
typedef struct orr_validation_span {
    int64_t recorded_ns, simulated_ns;
    double error_frac;    /* simulated / recorded - 1; 0 where nothing was recorded */
    uint64_t n_starts;    /* starts that were compared */
    double mean_start_ns; /* mean of |simulated start - recorded start| */
    int64_t p90_start_ns, worst_start_ns; /* of the same */
    orr_node_id worst;                    /* node with the worst start; ORR_NONE */
} orr_validation_span;

/* A rank: its span covers host operators, runtime calls and device work; its starts are those of
 * device work or, without a device, of communications on threads. */
typedef struct orr_validation_rank {
    uint32_t rank, graph;
    orr_validation_span span;
} orr_validation_rank;
/* A thread or a stream: span and starts of the nodes of that lane. */
typedef struct orr_validation_lane {
    uint32_t rank, graph;
    orr_lane_id lane;
    orr_validation_span span;
} orr_validation_lane;
/* A step of PyTorch's profiler ("ProfilerStep#12"): its duration and start. */
typedef struct orr_validation_step {
    uint32_t rank, graph;
    orr_node_id node;
    const char *name;
    orr_validation_span span;
} orr_validation_step;

typedef struct orr_validation {
    const orr_validation_rank *ranks; /* shape (n_ranks), by rank */
    const orr_validation_lane *lanes; /* shape (n_lanes), by rank, then lane; those that execute */
    const orr_validation_step *steps; /* shape (n_steps), by rank, then start */
    size_t n_ranks, n_lanes, n_steps;
    double mean_frac, worst_frac;           /* of |error_frac| over the ranks */
    double mean_step_frac, worst_step_frac; /* over the steps; 0 without any */
} orr_validation;
/* Errors: INVALID: the simulation is of another job; NO_MEMORY. */
orr_status orr_simulation_validate(const orr_job *job, const orr_simulation *simulation,
                                   orr_arena *arena, orr_validation *ret,
                                   orr_error *err) ORR_MUST_CHECK;

/* What the span of a replayed rank rests on. Some of it is read: kept as recorded, since nothing
 * recorded says what it waited for. An error is worth as much as the rest. */
#define ORR_SPAN_MAP(X)                                                                            \
    X(HOST, "host work", false) /* inside operators, runtime calls and Python functions   */       \
    X(DEVICE, "device work", false)                                                                \
    X(COMMUNICATION, "communication", false)          /* with the wait for the last member   */    \
    X(CONSTANT, "latencies", false)                   /* medians, none by node               */    \
    X(HOST_GAP, "between operators", true)            /* a thread outside of all that executes */  \
    X(HOST_WAIT, "wait without a cause", true)        /* a call that waits for devices       */    \
    X(HOST_ANCHOR, "waking without a cause", true)    /* a thread that nobody handed work    */    \
    X(DEVICE_GAP, "device gap without a cause", true) /* no launch recorded, a graph's inside */

typedef enum orr_span_basis {
#define ORR_SPAN_ENUM_(name, text, read) ORR_SPAN_##name,
    ORR_SPAN_MAP(ORR_SPAN_ENUM_)
#undef ORR_SPAN_ENUM_
        ORR_SPANS
} orr_span_basis;
const char *orr_span_basis_name(orr_span_basis basis);
bool orr_span_basis_is_read(orr_span_basis basis);

typedef struct orr_span_shares {
    uint32_t rank, graph;
    int64_t span_ns;       /* simulated */
    int64_t ns[ORR_SPANS]; /* along what the end of the span waited for; they add up to it */
    int64_t read_ns;
    double read_frac;
} orr_span_shares;
/* For each graph of the job: *ret of shape (n_graphs), in the arena. The simulation at host speed
 * 1; `queue_depth`: of its options. Errors: INVALID: it is of another job; LIMIT, NO_MEMORY. */
orr_status orr_simulation_read_time(const orr_job *job, const orr_simulation *simulation,
                                    uint32_t queue_depth, orr_arena *arena,
                                    const orr_span_shares **ret, orr_error *err) ORR_MUST_CHECK;

/* Causes of a deviation: why a point came sooner or later after its predecessors than in the
 * recording. */
#define ORR_CAUSE_MAP(X)                                                                           \
    X(LOST, "lost dependency")        /* it waited for something that nothing tells of          */ \
    X(UNEXPLAINED, "unexplained gap") /* no launch is recorded, or a CUDA graph's inside      */   \
    X(LAUNCH, "launch")               /* the launch took another time than most                 */ \
    X(KERNEL_GAP, "kernel gap")       /* so did the next work of a stream                       */ \
    X(EVENT, "event")                 /* so did the wait for another stream                     */ \
    X(FULL_DEVICE, "crowded device")  /* the device was full of other work                      */ \
    X(SYNC, "synchronisation")        /* the return of a call that waited for a device          */ \
    X(HANDOFF, "hand-off")            /* so did the start of a thread that was handed work      */ \
    X(QUEUE, "full queue")            /* a launch into a queue that was full                    */ \
    X(JITTER, "host jitter")          /* the own time of a call that may wait                   */ \
    X(COLLECTIVE, "collective")       /* the transfer after the last arrival                    */

typedef enum orr_deviation_cause {
#define ORR_CAUSE_ENUM_(name, text) ORR_CAUSE_##name,
    ORR_CAUSE_MAP(ORR_CAUSE_ENUM_)
#undef ORR_CAUSE_ENUM_
        ORR_CAUSES
} orr_deviation_cause;
const char *orr_deviation_cause_name(orr_deviation_cause cause);

typedef struct orr_deviation {
    uint32_t rank, graph;
    orr_lane_id lane;
    orr_node_id node;
    const char *name;
    bool end;                                  /* the end of the node, else its start */
    uint8_t cause;                             /* orr_deviation_cause */
    int64_t recorded_gap_ns, simulated_gap_ns; /* after the last predecessor */
    int64_t difference_ns;                     /* simulated - recorded */
} orr_deviation;

typedef struct orr_deviations {
    const orr_deviation *rows; /* shape (n), largest difference first; ties by rank, node */
    size_t n;
    uint64_t count[ORR_CAUSES];        /* of all points that deviate, not only of the rows */
    int64_t difference_ns[ORR_CAUSES]; /* sum of |difference| */
} orr_deviations;
/* Explains deviations, with at most `most` rows. `queue_depth`: of the options that the
 * simulation ran with. Errors: INVALID: the simulation is of another job; LIMIT, NO_MEMORY. */
orr_status orr_simulation_explain(const orr_job *job, const orr_simulation *simulation,
                                  uint32_t queue_depth, size_t most, orr_arena *arena,
                                  orr_deviations *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_VALIDATION_VALIDATION_H */
