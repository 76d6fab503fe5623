/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_H
#define ORR_SIM_H

#include <orrery/cost.h>
#include <orrery/ensemble.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Simulation: durations in, times out.
 *
 * What is kept of a recording: how long each piece of work took and what it waited for. When
 * things began and ended is found again: a host thread goes from point to point of its recorded
 * program, device work starts after its launch, its stream and its events, a collective when its
 * last member arrives. Deterministic: integer ns, ties broken by (rank, node); the same for
 * any number of threads, and whether ranks that behave alike are folded or not. */

/* What a recording does not say node by node. Each is a constant of host and device; -1: measured
 * from the recordings of the ensemble by the rule given (orr_sim_latencies_measure()). */
typedef struct orr_sim_latencies {
    int64_t launch_latency_ns; /* start of the launch call -> work on an idle stream: median    */
    int64_t kernel_gap_ns;     /* end -> start of work queued behind it on its stream: median   */
    int64_t sync_return_ns;    /* end of what was waited for -> end of the waiting call: median */
    int64_t handoff_ns;        /* end on one thread -> start on the thread it hands to: median  */
    int64_t event_latency_ns;  /* end of what an event stands for -> start on another stream    */
} orr_sim_latencies;
ORR_API void orr_sim_latencies_init(orr_sim_latencies *constants); /* all -1 */
/* Fill in those that are -1 from these graphs, shape (n). What no graph shows gets the
 * catalogue's or an assumed value; `ret_seen` (may be NULL) says how many observations each rests
 * on. */
ORR_API ORR_MUST_CHECK orr_status orr_sim_latencies_measure(const orr_graph *const *graphs,
                                                            uint32_t n,
                                                            orr_sim_latencies *constants,
                                                            orr_sim_latencies *ret_seen,
                                                            orr_error *err);

#define ORR_NETWORK_MODE_MAP(X)                                                                    \
    X(RECORDED, "recorded")     /* durations of the ensemble                             */        \
    X(ALPHA_BETA, "alpha-beta") /* closed form per level, no contention                  */        \
    X(FLOWS, "flows")           /* max-min fair flows over shared links                  */
typedef enum orr_network_mode {
#define ORR_NETWORK_MODE_ENUM_(name, text) ORR_NETWORK_##name,
    ORR_NETWORK_MODE_MAP(ORR_NETWORK_MODE_ENUM_)
#undef ORR_NETWORK_MODE_ENUM_
} orr_network_mode;
ORR_API const char *orr_network_mode_name(orr_network_mode mode); /* "" for none of these */

typedef struct orr_sim_options {
    size_t struct_bytes;         /* set by orr_sim_options_init()                             */
    orr_sim_latencies constants; /* default: all measured                                  */
    uint8_t network;             /* orr_network_mode; RECORDED. Durations of -1 are as by
                                  * ALPHA_BETA even so; where a transfer's bytes are not
                                  * known it takes its recorded time in every mode             */
    uint8_t algorithm;           /* orr_algorithm; AUTO                                       */
    const orr_cluster *cluster;  /* needed unless everything is recorded                      */
    double host_speed;           /* host time is divided by it; 1                             */
    uint32_t queue_depth;        /* launches a stream holds before the launch call waits; 1024:
                                  * source: HolisticTraceAnalysis' limit                       */
    double compute_slowdown;     /* of computation while its device communicates; 1: recorded
                                  * durations hold it already. Source for others: kernels of one
                                  * name, grid and block took 1.09 times as long under NCCL's on
                                  * an A100 (28 of them in a DDP recording, by time; median 1.05).
                                  * That it matters: Echo, arXiv 2412.12487                    */
    double comm_slowdown;        /* of communication while any of its devices computes; 1. Not
                                  * of flows, whose speed the network says                     */
    bool fold;                   /* simulate ranks that behave alike once; true. Not with FLOWS:
                                  * there it matters where a rank lies                         */
    uint32_t threads;            /* 0: one per core                                            */
    const orr_device *device;    /* of the ranks, for their energy; NULL: the cluster's        */
    const orr_device *const *device_of_graph; /* shape (D) of the ensemble: of ranks that are not
                                               * alike; NULL, or a row NULL: as `device` */
} orr_sim_options;
ORR_API void orr_sim_options_init(orr_sim_options *options);

/* Does a node count for where something begins and ends: host operators, runtime calls, what runs
 * on devices, and transfers? What only names a stretch of time does not. */
ORR_API bool orr_sim_executes(const orr_graph *graph, orr_node_id node);

/* One class of ranks that behave alike. */
typedef struct orr_timeline {
    uint32_t graph; /* of the ensemble */
    uint32_t rank;  /* the first of the class */
    uint32_t n_ranks;
    const int64_t *start_ns;    /* shape (N); ORR_TIME_NONE: not simulated */
    const int64_t *duration_ns; /* shape (N) */
    int64_t begin_ns, end_ns;   /* first start and last end of what executes */
    double energy_j;            /* of one rank's device over the whole simulation: power_w while
                                 * anything runs on it (assumed: an upper bound), else idle_power_w,
                                 * or 15 % of power_w where that is not known (assumed); NAN
                                 * without power_w */
} orr_timeline;

typedef struct orr_link_use {
    uint32_t level; /* of the cluster                                                 */
    uint32_t unit;  /* which: a level's shared links first, by unit (pairs of a full mesh after
                     * one another), then the ports of devices, from there on        */
    bool up;        /* away from the device, or toward it                             */
    double bytes, busy_ns, utilisation_frac; /* of the simulated span                     */
    uint32_t n_samples;   /* utilisation over time, piecewise constant                      */
    const int64_t *at_ns; /* shape (n_samples)                                              */
    const double *load_frac;
} orr_link_use;

typedef struct orr_simulation {
    const orr_ensemble *ensemble;
    int64_t begin_ns, end_ns;
    uint32_t n_classes;
    const uint32_t *class_of_rank; /* shape (R); ORR_NONE where it has no graph */
    const orr_timeline *timelines; /* shape (n_classes), by first rank */
    uint64_t n_events;             /* points of time that were settled */
    const orr_link_use *links;     /* shape (n_links); FLOWS only */
    uint32_t n_links;
    orr_sim_latencies constants; /* as used */
    int64_t basis_ns[ORR_BASES]; /* simulated work by basis, sum over ranks: device work;
                                  * transfers without the wait for members; host nodes
                                  * without those nested in them */
} orr_simulation;

/* Errors: INVALID: a meeting whose members never all arrive, as
 * "deadlock: rank 3 'all_reduce' (node 12) of group dp waits for rank 7, which waits for ...";
 * a cluster with fewer devices than ranks; -1 durations without a cluster. LIMIT, NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_simulate(const orr_ensemble *ensemble,
                                               const orr_sim_options *options, orr_arena *arena,
                                               orr_simulation *ret, orr_error *err);

/* The simulation as a job that every analysis reads: one graph a class. Where the ensemble is that
 * of a recorded job, `job` gives matches and groups; NULL: they are found again by
 * orr_job_build(). Free with orr_job_free(); ensemble, graphs and `job` must outlive it. */
ORR_API ORR_MUST_CHECK orr_status orr_simulation_job(const orr_simulation *simulation,
                                                     const orr_job *job, const orr_job **ret,
                                                     orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_SIM_H */
