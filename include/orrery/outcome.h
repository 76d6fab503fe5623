/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_OUTCOME_H
#define ORR_OUTCOME_H

#include <orrery/calibration.h>
#include <orrery/ensemble.h>
#include <orrery/memory_plan.h>
#include <orrery/sim.h>
#include <orrery/step.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Outcome: the time, memory and cost of a training step of a model in a plan on a cluster. The step
 * is emitted as execution graphs, one for each kind of rank, simulated, and measured. */

/* Heterogeneous ranks: a range of stragglers, or of ranks on another device. */
typedef struct orr_heterogeneous_ranks {
    uint32_t first, count;    /* ranks first .. first + count - 1 */
    double slowdown;          /* factor on the time of device work; default 1 */
    const orr_device *device; /* another device; NULL: the cluster's */
} orr_heterogeneous_ranks;
/* A unit of a level (a host, a building) whose links to the outside, in both directions, have a
 * share of their bandwidth. */
typedef struct orr_slow_link {
    uint32_t level, unit;
    double bandwidth_frac; /* 0.001 to 1 */
} orr_slow_link;

typedef struct orr_job_options {
    size_t struct_bytes; /* set by orr_job_options_init()                        */
    orr_workload workload;
    uint8_t detail;                     /* orr_detail; LAYER                                    */
    uint8_t network;                    /* orr_network_mode; ALPHA_BETA                         */
    uint8_t algorithm;                  /* orr_algorithm; AUTO                                  */
    const orr_calibration *calibration; /* NULL: that of the device                            */
    const orr_heterogeneous_ranks *heterogeneous; /* shape (n_heterogeneous) */
    uint32_t n_heterogeneous;
    const orr_slow_link *slow; /* shape (n_slow) */
    uint32_t n_slow;
    bool fold;            /* simulate one representative for equivalent ranks; default true */
    uint32_t threads;     /* default 1 */
    double software_year; /* of what the frameworks reach; 0: the newest that is calibrated */
    bool (*progress)(void *ctx, uint64_t n_settled, uint64_t n_points); /* as of orr_sim_options */
    void *progress_ctx;
} orr_job_options;
ORR_API void orr_job_options_init(orr_job_options *options);

typedef struct orr_axis_use {
    uint8_t axis;            /* orr_axis                                                          */
    uint32_t members, level; /* of a group; the highest level of the cluster that it crosses   */
    double bytes;            /* sent by a rank in a step */
    int64_t busy_ns, exposed_ns; /* mean over ranks */
    double utilisation_frac;     /* of the level's bandwidth, over the step */
} orr_axis_use;

/* Traffic between two sites in a step, along an axis. Of the ring's bytes (as in orr_axis_use):
 * sends between neighbours in rank order, and from the last to the first; of a hierarchical
 * collective, what passes between neighbouring sites after each has reduced; of expert tokens (EP),
 * all pairs of members; of stages, hops in both directions. The gradients that DualPipe's mirrors
 * sum are counted with those of replicas. Compressed where the plan says so. */
typedef struct orr_site_link_use {
    uint32_t a, b; /* sites of `cluster`, a < b                                         */
    uint8_t axis;  /* orr_axis                                                          */
    double bytes;  /* both directions, all ranks */
    int64_t busy_ns, exposed_ns; /* of transfers that cross: mean over the ranks involved */
    double utilisation_frac;     /* of the link's bandwidth in both directions, over the step */
} orr_site_link_use;

/* What embedding tables ask of a rank in a micro-batch: of the rank that has most of it, and of the
 * mean rank. */
typedef struct orr_table_use {
    const char *what; /* "rows", "sums sent", ... */
    double most_bytes, mean_bytes;
} orr_table_use;

typedef struct orr_outcome {
    const orr_model *model; /* with the fields of the plan applied */
    orr_plan plan;          /* all defaults filled in, and the split of layers that was taken */
    orr_workload workload;
    const orr_cluster *cluster; /* the part that the plan uses */
    uint32_t n_ranks;
    int64_t step_ns;
    int64_t low_ns, high_ns; /* 90 % interval; -1: unknown */
    double error_frac;       /* mean relative error on measured jobs; NAN: unknown */
    int64_t waterfall_ns[ORR_WATERFALLS];
    double bubble_frac;        /* idle time over the rest of the step, mean over stages */
    double model_flops;        /* of the step, all ranks */
    double hardware_flops;     /* with recomputation */
    double mfu_frac, hfu_frac; /* of the peak of the matrix products' dtype; NAN: unknown peak */
    double flops_per_s_per_device;                               /* model FLOPs */
    double samples_per_s, tokens_per_s, tokens_per_s_per_device; /* tokens: NAN for models that
                                                                  * have none */
    double energy_j; /* of the step, all devices: an upper bound; NAN: unknown */
    orr_memory_plan memory;
    const orr_axis_use *axes; /* shape (n_axes) */
    uint32_t n_axes;
    const orr_ensemble *ensemble; /* owns the graphs: orr_outcome_free(). Where ranks of a kind are
                                     equivalent, one representative of each */
    const orr_simulation *simulation;
    const orr_step_node *const *nodes; /* shape (graphs)(N): what each node stands for */
    const uint32_t *stage_of_graph;    /* shape (graphs) */
    uint64_t n_nodes; /* that were simulated: of a representative of each class of ranks */
    int64_t basis_ns[ORR_BASES]; /* device work by basis, sum over ranks */
    /* Tasks of several passes (DPO, RL, PREFILL, DECODE): time of each pass within step_ns. */
    struct {
        const char *name;
        int64_t ns;
    } phases[6];
    uint32_t n_phases;
    const struct orr_outcome_job *job; /* for orr_outcome_rank() */
    const orr_site_link_use *cuts;     /* shape (n_cuts), by link, then axis; none without sites */
    uint32_t n_cuts;
    const orr_table_use *tables; /* shape (n_tables): of recommendation models */
    uint32_t n_tables;
    uint32_t expert_slots;      /* of the rank and layer that has most; 0: routing is not known */
    double expert_imbalance[2]; /* where it is: rows of the fullest rank of experts over the mean,
                                 * mean of layers and worst layer */
    double document_seen_frac;  /* pairs that attention sees within documents, of those of one
                                 * document a sample; 0: no documents are said */
    double document_imbalance; /* pairs of the slowest context-parallel slice over the mean slice */
} orr_outcome;

/* Emits, simulates and measures a step. In the arena, but for the graphs: orr_outcome_free(). A
 * plan that exceeds the memory is simulated all the same, and marked. Errors: INVALID: the plan
 * does not suit model, schedule or cluster; UNSUPPORTED, with the reason; LIMIT; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_outcome_of(const orr_model *model, const orr_plan *plan,
                                                 const orr_cluster *cluster,
                                                 const orr_job_options *options, orr_arena *arena,
                                                 orr_outcome *ret, orr_error *err);
ORR_API void orr_outcome_free(orr_outcome *outcome); /* zeroed is allowed */
/* The graph of one rank with its own process groups and simulated times, as for a trace. Free with
 * orr_graph_free(). */
ORR_API ORR_MUST_CHECK orr_status orr_outcome_rank(const orr_outcome *outcome, uint32_t rank,
                                                   const orr_graph **ret, orr_error *err);

/* The simulated times of a rank, on the nodes of its kind's graph. */
ORR_API const orr_timeline *orr_outcome_timeline(const orr_outcome *outcome, uint32_t rank);
/* The process groups of all ranks, grouping by grouping, numbered from 1 over all of them, as in
 * the graph of a rank. In the arena. */
ORR_API ORR_MUST_CHECK orr_status orr_outcome_groups(const orr_outcome *outcome, orr_arena *arena,
                                                     const orr_grouping **ret, uint32_t *ret_n,
                                                     orr_error *err);

/* The estimator: a training step in closed form, which a search asks before it simulates. It takes
 * about a microsecond for a plan once the parts that plans share are built and cached (modules,
 * placements of groups, schedules). An estimate depends on the plan alone.
 *
 * Accuracy: waits between stages are the longest of some paths through the schedule, each of which
 * the simulation has too; overlapped transfers are summed, not followed. Over random plans of GPT-3
 * 175B and Llama 3.1 405B in all schedules, with ZeRO up to 1, the error is below 1 % in the
 * median, 2.5 % in nine of ten and 9 % in all; with ZeRO 2, or ZeRO 3 in one stage, below 5 % in
 * nine of ten and 20 % in all (tests/unit/estimate/test_estimate.c). Rough, up to a third off: ZeRO
 * 3 in several stages, ZeRO 2 and 3 with DualPipe. The network is alpha-beta whatever the options
 * say, and copies of offloaded activations are left out.
 *
 * One estimator serves all sites of a cluster. Over sites with several kinds of devices the error
 * is 0.4 % in the median and 12 % in nine of ten of random plans with all ZeRO stages; the lower
 * bound is 0.4 % below the simulation in the median and 7 % in nine of ten
 * (tests/property/test_bound.c: 12,000 plans, none above). */
typedef struct orr_estimator orr_estimator; /* one thread at a time; caches its parts */
typedef struct orr_estimate {
    int64_t step_ns;
    int64_t waterfall_ns[ORR_WATERFALLS];
    int64_t peak_bytes;   /* of the worst stage */
    int64_t usable_bytes; /* of its device; -1: unknown */
    bool fits;
    int64_t bound_ns; /* lower bound: no simulation with detail layer or chunk, alpha-beta network,
                         is below. The longest of some sure paths; transfers that computation may
                         hide count as hidden */
} orr_estimate;
/* Model and cluster must outlive it. `options` may be NULL. UNSUPPORTED: other tasks than training,
 * heterogeneous ranks, slow links, a model whose shape is not published; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_estimator_new(const orr_model *model,
                                                    const orr_cluster *cluster,
                                                    const orr_job_options *options,
                                                    orr_estimator **ret, orr_error *err);
ORR_API void orr_estimator_free(orr_estimator *estimator); /* NULL is allowed */
/* INVALID: an invalid plan; UNSUPPORTED, LIMIT, NO_MEMORY: as orr_outcome_of(). */
ORR_API ORR_MUST_CHECK orr_status orr_estimate_of(orr_estimator *estimator, const orr_plan *plan,
                                                  orr_estimate *ret, orr_error *err);

/* --- the network check ----------------------------------------------------------------------- */

/* A step once more, with the transfers over its cuts as flows (src/sim/effects/path_flows.h). The
 * closed forms price each transfer as if all devices sent at once, alone, and the busiest path were
 * the expected one; here the transfers of the simulated step meet on the uplinks of each unit,
 * with their connections dealt onto paths by a seeded hash, and the step is simulated again with
 * the times that come of it, until the starts of transfers and their times agree.
 *
 * Checked are the levels between sites, and those with a transport: transfers that are nodes of the
 * graphs. Those that a layer waits for within (tensor slices, expert tokens that are not
 * overlapped) keep their closed forms. Ranks of a class stay together: all wait for the slowest. */
#define ORR_NETWORK_CAUSE_MAP(X)                                                                   \
    X(NONE, "nothing")                                                                             \
    X(COLLISIONS, "collisions") /* of flows hashed onto one path */                                \
    X(LOSS, "loss")             /* and what is sent again for it */                                \
    X(WINDOWS, "windows")       /* over the round trip */                                          \
    X(QUEUES, "queues")         /* behind other transfers */                                       \
    X(FAILED, "failed paths")                                                                      \
    X(OTHERS, "competing traffic") /* of other jobs */                                             \
    X(SHARING, "sharing")          /* transfers that meet on an uplink; or, where the step is      \
                                      shorter, that have it for themselves */                      \
    X(ASSUMED, "assumptions of the closed form") /* its queues and losses, where no cause changes  \
                                                    the step as much */
typedef enum orr_network_cause {
#define ORR_NETWORK_CAUSE_ENUM_(name, text) ORR_NETWORK_CAUSE_##name,
    ORR_NETWORK_CAUSE_MAP(ORR_NETWORK_CAUSE_ENUM_)
#undef ORR_NETWORK_CAUSE_ENUM_
        ORR_NETWORK_CAUSES
} orr_network_cause;
ORR_API const char *orr_network_cause_name(orr_network_cause cause);

typedef struct orr_network_check_options {
    size_t struct_bytes; /* set by orr_network_check_options_init() */
    uint32_t draws;      /* of the hash; default 16 */
    uint64_t seed;       /* default 1 */
    bool selective;      /* selective repeat, not go-back-N */
    double others_frac; /* share of an uplink that other jobs ask for, 0 to 1, in flows like ours */
    uint8_t priority[ORR_AXES]; /* strict: a lower number goes first; default all 0. That of
                                 * stages counts for sums of DualPipe's mirrors, too. Other jobs
                                 * have the last of these */
} orr_network_check_options;
ORR_API void orr_network_check_options_init(orr_network_check_options *options);
typedef struct orr_network_check {
    uint32_t n_transfers;    /* of the classes of ranks; 0: nothing crosses, nothing was checked */
    int64_t closed_ns;       /* the step by closed forms */
    int64_t mean_ns, p95_ns; /* of the step over draws; p95: nearest rank */
    int64_t settled_ns;      /* by how much the last simulations still differed, at most */
    uint8_t cause;           /* orr_network_cause: without which the step changes most */
    uint8_t axis;            /* orr_axis whose transfers take the longest in excess of their
                              * closed forms, or least; ORR_AXIS_NONE: none differs */
    uint32_t level;          /* of the cluster, where that is */
    double excess_frac;      /* time of these transfers over their closed forms, less 1 */
} orr_network_check;
/* `outcome`: of orr_outcome_of(), not freed. Deterministic. Errors: INVALID: no draws, shares out
 * of range; UNSUPPORTED: tasks of several passes; NO_MEMORY. Threads: any. */
ORR_API ORR_MUST_CHECK orr_status orr_outcome_network(const orr_outcome *outcome,
                                                      const orr_network_check_options *options,
                                                      orr_network_check *ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_OUTCOME_H */
