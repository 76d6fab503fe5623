/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_H
#define ORR_SIM_H

#include <orrery/cost.h>
#include <orrery/ensemble.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Simulation of execution graphs: durations in, times out.
 *
 * A recording gives the length of each piece of work and its dependencies; start and end times
 * are found anew: a host thread goes from point to point of its recorded program, device work
 * starts after its launch, its stream and its events, a collective when its last member arrives.
 * Deterministic: integer ns, ties broken by (rank, node); the result is the same for any number
 * of threads, and with or without folding of equivalent ranks. */

/* Latencies that a recording does not give node by node: constants of host and device. -1:
 * measured from the recordings of the ensemble by the rule given (orr_sim_latencies_measure()). */
typedef struct orr_sim_latencies {
    int64_t launch_latency_ns; /* start of the launch call -> start of the work on an idle
                                * stream: median */
    int64_t kernel_gap_ns;     /* end -> start of work queued behind it on its stream: median */
    int64_t sync_return_ns;    /* end of the awaited work -> end of the waiting call: median */
    int64_t handoff_ns;        /* end on one thread -> start on the thread that it hands over to:
                                * median */
    int64_t event_latency_ns;  /* end of the work that an event marks -> start on another stream */
    int64_t resume_ns;         /* end on one thread -> end of the annotation or function in which
                                * another waited for it: median */
    int64_t copy_launch_ns;    /* as launch_latency_ns, of copies and sets */
    int64_t copy_gap_ns;       /* as kernel_gap_ns, behind copies and sets */
} orr_sim_latencies;
ORR_API void orr_sim_latencies_init(orr_sim_latencies *constants); /* all -1 */
/* Fills in those that are -1 from these graphs, shape (n). A latency that no graph shows gets
 * the catalogue's or an assumed value; `ret_seen` (may be NULL) gives the number of observations
 * of each. */
ORR_API ORR_MUST_CHECK orr_status orr_sim_latencies_measure(const orr_graph *const *graphs,
                                                            uint32_t n,
                                                            orr_sim_latencies *constants,
                                                            orr_sim_latencies *ret_seen,
                                                            orr_error *err);

#define ORR_NETWORK_MODE_MAP(X)                                                                    \
    X(RECORDED, "recorded")     /* durations of the ensemble                             */        \
    X(ALPHA_BETA, "alpha-beta") /* closed forms, no contention; for a simulation as RECORDED */    \
    X(FLOWS, "flows")           /* max-min fair flows over shared links                  */
typedef enum orr_network_mode {
#define ORR_NETWORK_MODE_ENUM_(name, text) ORR_NETWORK_##name,
    ORR_NETWORK_MODE_MAP(ORR_NETWORK_MODE_ENUM_)
#undef ORR_NETWORK_MODE_ENUM_
} orr_network_mode;
ORR_API const char *orr_network_mode_name(orr_network_mode mode); /* "" for other values */

typedef struct orr_sim_options {
    size_t struct_bytes;         /* set by orr_sim_options_init()                             */
    orr_sim_latencies constants; /* default: all measured                                  */
    uint8_t network;             /* orr_network_mode; RECORDED. Durations of the ensemble hold in
                                  * every mode, and those of -1 are priced by closed form. With
                                  * FLOWS a transfer of known size shares links with others, and
                                  * takes at least that long */
    uint8_t algorithm;           /* orr_algorithm; AUTO */
    const orr_cluster *cluster;  /* needed unless everything is recorded */
    double host_speed;           /* divides host time; 1 */
    uint32_t queue_depth;        /* launches that a stream holds before the launch call blocks;
                                  * 1024: source: HolisticTraceAnalysis' limit */
    double compute_slowdown;     /* factor on computation while its device communicates; 1:
                                  * recorded durations include it already. Source for others:
                                  * kernels of one name, grid and block took 1.09 times as long
                                  * beside NCCL's on an A100 (28 of them in a DDP recording, by
                                  * time; median 1.05). That it matters: Echo, arXiv 2412.12487 */
    double comm_slowdown;        /* factor on communication while any of its devices computes; 1.
                                  * Not with flows, whose speed the network determines */
    bool fold;                   /* simulate one rank for each class of equivalent ranks; true.
                                  * With FLOWS equivalent links and flows are folded too; where
                                  * there are too many of them, every rank is simulated */
    uint32_t threads;            /* 0: one per core */
    const orr_device *device;    /* of the ranks, for their energy; NULL: the cluster's */
    const orr_device *const *device_of_graph; /* shape (D) of the ensemble: of heterogeneous
                                               * ranks; NULL, or a row NULL: as `device` */
    /* Called from time to time where works contend, with the points of time that are settled, and
     * all of them; false: stop, with CANCELED. May be NULL. */
    bool (*progress)(void *ctx, uint64_t n_settled, uint64_t n_points);
    void *progress_ctx;
    const orr_recording_costs *recording_costs; /* taken away from what threads did, where their
                                                 * events stand; NULL: nothing */
} orr_sim_options;
ORR_API void orr_sim_options_init(orr_sim_options *options);

/* Does a node count for begin and end: host operators, runtime calls, device work, and
 * transfers? Annotations do not. */
ORR_API bool orr_sim_executes(const orr_graph *graph, orr_node_id node);

/* Times of one class of equivalent ranks. */
typedef struct orr_timeline {
    uint32_t graph; /* of the ensemble */
    uint32_t rank;  /* the first of the class */
    uint32_t n_ranks;
    const int64_t *start_ns;    /* shape (N); ORR_TIME_NONE: not simulated */
    const int64_t *duration_ns; /* shape (N) */
    int64_t begin_ns, end_ns;   /* first start and last end of nodes that execute */
    double energy_j;            /* of one rank's device over the whole simulation: power_w while
                                 * anything runs on it (assumed: an upper bound), else
                                 * idle_power_w, or 15 % of power_w where that is unknown
                                 * (assumed); NAN without power_w */
} orr_timeline;

typedef struct orr_link_use {
    uint32_t level; /* of the cluster */
    uint32_t unit;  /* number of the link: first a level's shared links, by unit (links of a full
                     * mesh one after another), then the ports of devices */
    bool up;        /* away from the device, or toward it */
    double bytes, busy_ns, utilisation_frac; /* of the simulated span */
    uint32_t n_samples;                      /* utilisation over time, piecewise constant */
    const int64_t *at_ns; /* shape (n_samples)                                              */
    const double *load_frac;
} orr_link_use;

typedef struct orr_simulation {
    const orr_ensemble *ensemble;
    int64_t begin_ns, end_ns;
    uint32_t n_classes;
    const uint32_t *class_of_rank; /* shape (R); ORR_NONE: it has no graph */
    const orr_timeline *timelines; /* shape (n_classes), by first rank */
    uint64_t n_events;             /* points of time that were settled */
    const orr_link_use *links;     /* shape (n_links); FLOWS only */
    uint32_t n_links;
    orr_sim_latencies constants;                /* as used */
    const orr_recording_costs *recording_costs; /* as given */
    int64_t basis_ns[ORR_BASES]; /* simulated work by basis, summed over ranks: device work;
                                  * transfers without the wait for members; host nodes without
                                  * those nested in them */
} orr_simulation;

/* Simulates an ensemble. Errors: INVALID: a rendezvous whose members never all arrive, as
 * "deadlock: rank 3 'all_reduce' (node 12) of group dp waits for rank 7, which waits for ..."; a
 * cluster with fewer devices than ranks; -1 durations without a cluster. CANCELED, LIMIT,
 * NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_simulate(const orr_ensemble *ensemble,
                                               const orr_sim_options *options, orr_arena *arena,
                                               orr_simulation *ret, orr_error *err);

/* The simulation as a job that every analysis can read: one graph for each class. Where the
 * ensemble is that of a recorded job, `job` gives matches and groups; NULL: orr_job_build()
 * finds them again. Free with orr_job_free(); ensemble, graphs and `job` must outlive it. */
ORR_API ORR_MUST_CHECK orr_status orr_simulation_job(const orr_simulation *simulation,
                                                     const orr_job *job, const orr_job **ret,
                                                     orr_error *err);

/* Published effects of network technologies, compared with this library's models: each row is
 * computed on demand from a fixed seed, by the formulas of src/cost/network/rdma_transport.h and
 * src/cost/collective/collective.h or by the small simulations of
 * src/sim/effects/{multipath,incast}.h. Where a constant was taken from the very publication,
 * `how` says so. */
typedef struct orr_published_effect {
    const char *what;      /* "E-ECMP with 4 queue pairs against ECMP"                          */
    const char *published; /* "up to 40 % more": as in the source */
    double published_low, published_high; /* in `unit`; NAN: no such bound was published */
    double ours;      /* in `unit`                                                          */
    const char *unit; /* "%", "GB/s", "times", "": a ratio                                  */
    bool direction;   /* our result has the published direction */
    bool within;      /* and the published size: between half the low and twice the high end;
                       * without published numbers, as `direction` */
    const char *how;  /* formula, simulation or constant; and the use case */
    const char *source;
    double by_flows; /* the same row by src/sim/effects/path_flows.h; NAN: that has no say, because
                      * it is of packets, or of the order of a collective's messages */
} orr_published_effect;
/* All rows, in the arena; takes well under a second. Errors: NO_MEMORY. Threads: any. */
ORR_API ORR_MUST_CHECK orr_status orr_published_effects(orr_arena *arena,
                                                        const orr_published_effect **ret,
                                                        uint32_t *ret_n, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_SIM_H */
