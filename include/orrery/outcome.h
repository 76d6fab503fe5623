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

/* A model in a plan on a cluster: what a step takes, holds and costs. The plan is built as
 * execution graphs, one for each kind of rank, simulated, and told. */

/* Some ranks that are not as the others. */
typedef struct orr_heterogeneous_ranks {
    uint32_t first, count;    /* ranks first .. first + count - 1                      */
    double slowdown;          /* device work takes so many times as long; 1            */
    const orr_device *device; /* they are of another kind; NULL: as the others         */
} orr_heterogeneous_ranks;
/* A unit of a level (one host, one building) whose ranks reach those outside of it, and are reached
 * by them, at a share of the bandwidth. */
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
    bool fold;        /* true */
    uint32_t threads; /* 1 */
} orr_job_options;
ORR_API void orr_job_options_init(orr_job_options *options);

typedef struct orr_axis_use {
    uint8_t axis;            /* orr_axis                                                          */
    uint32_t members, level; /* of a group; the highest level of the cluster that it crosses   */
    double bytes;            /* a rank sends in a step                                            */
    int64_t busy_ns, exposed_ns; /* mean over ranks                                            */
    double utilisation_frac; /* of the level's bandwidth over the step, by what crosses it     */
} orr_axis_use;

/* What crosses between two sites in a step, along an axis. Of what the members of a group send
 * (the ring's bytes, as in orr_axis_use): what passes from a site to the next one in order of
 * rank, and from the last one to the first; of a hierarchical collective what passes between
 * neighbours once each site has its own sum; of experts' tokens (EP), which every rank sends to
 * every other, what the numbers of members say. Of stages, what ranks send to the next one and
 * back; what DualPipe's twins sum is among the gradients. Compressed where the plan says so. */
typedef struct orr_site_link_use {
    uint32_t a, b; /* sites of `cluster`, a < b                                         */
    uint8_t axis;  /* orr_axis                                                          */
    double bytes;  /* both ways, all ranks                                              */
    int64_t busy_ns, exposed_ns; /* of transfers that cross: mean over ranks that take part   */
    double utilisation_frac;     /* of what the cut carries both ways, over the step          */
} orr_site_link_use;

typedef struct orr_outcome {
    const orr_model *model; /* as changed by the plan */
    orr_plan plan;          /* completed */
    orr_workload workload;
    const orr_cluster *cluster; /* as much of it as the plan needs */
    uint32_t n_ranks;
    int64_t step_ns;
    int64_t low_ns, high_ns; /* 90 % interval; -1: none is known */
    double error_frac;       /* mean error where it was checked; NAN */
    int64_t waterfall_ns[ORR_WATERFALLS];
    double bubble_frac;        /* idle time over the rest of a stage, mean                     */
    double model_flops;        /* of the step, all ranks */
    double hardware_flops;     /* with what is computed again */
    double mfu_frac, hfu_frac; /* of the peak of the dtype of products; NAN: peak not known  */
    double flops_per_s_per_device; /* model FLOPs */
    double samples_per_s, tokens_per_s, tokens_per_s_per_device;
    double energy_j; /* of the step, all devices: an upper bound; NAN                */
    orr_memory_plan memory;
    const orr_axis_use *axes; /* shape (n_axes) */
    uint32_t n_axes;
    const orr_ensemble *ensemble; /* graphs: freed by orr_outcome_free(). Where all ranks of a kind
                                   * behave alike, one rank of each, which stands for all    */
    const orr_simulation *simulation;
    const orr_step_node *const *nodes; /* shape (graphs)(N): what each node is                   */
    const uint32_t *stage_of_graph;    /* shape (graphs) */
    uint64_t n_nodes;
    int64_t basis_ns[ORR_BASES]; /* of device work, sum over ranks */
    /* Tasks of several passes (DPO, RL, PREFILL, DECODE): their share of step_ns. */
    struct {
        const char *name;
        int64_t ns;
    } phases[6];
    uint32_t n_phases;
    const struct orr_outcome_job *job; /* what the graphs were laid out from: orr_outcome_rank()  */
    const orr_site_link_use *cuts; /* shape (n_cuts), by cut, then axis; none without sites       */
    uint32_t n_cuts;
} orr_outcome;

/* Build, simulate, tell. In the arena but for the graphs: orr_outcome_free(). A plan whose memory
 * does not fit is simulated all the same, and says so. Errors: INVALID: a plan that the model, the
 * schedule or the cluster cannot have; UNSUPPORTED, with the reason; LIMIT; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_outcome_of(const orr_model *model, const orr_plan *plan,
                                                 const orr_cluster *cluster,
                                                 const orr_job_options *options, orr_arena *arena,
                                                 orr_outcome *ret, orr_error *err);
ORR_API void orr_outcome_free(orr_outcome *outcome); /* zeroed is allowed */
/* The graph of one rank with its own process groups and the simulated times: what a trace of it
 * holds. Free with orr_graph_free(). */
ORR_API ORR_MUST_CHECK orr_status orr_outcome_rank(const orr_outcome *outcome, uint32_t rank,
                                                   const orr_graph **ret, orr_error *err);

/* When a rank did what: the times of the graph of its kind. */
ORR_API const orr_timeline *orr_outcome_timeline(const orr_outcome *outcome, uint32_t rank);
/* Who communicates with whom, of all ranks, grouping by grouping; groups are numbered from 1 over
 * all of them, which is how the graph of a rank names them. In the arena. */
ORR_API ORR_MUST_CHECK orr_status orr_outcome_groups(const orr_outcome *outcome, orr_arena *arena,
                                                     const orr_grouping **ret, uint32_t *ret_n,
                                                     orr_error *err);

/* Closed forms: what a search asks before it simulates. About a microsecond a plan, once the parts
 * that plans have in common are built (modules, places of groups, orders of turns: each when it is
 * first met). Depends on the plan alone, not on what was asked before.
 *
 * How near: what stages wait for one another is the longest of some paths through the turns, each
 * of which the simulation has too; transfers beside computation are summed, not followed. Over
 * random plans of GPT-3 175B and Llama 3.1 405B in all schedules, with ZeRO up to 1, it is off by
 * less than 1 % in the median, 2 % in nine of ten and 5 % in all; with ZeRO 2, or ZeRO 3 in one
 * stage, by 5 % in nine of ten and 20 % in all (tests/unit/estimate/test_estimate.c). Rough, up to
 * a third off: ZeRO 3 in several stages, ZeRO 2 and 3 with DualPipe. It is alpha-beta whatever the
 * network of the options, and leaves out copies of offloaded activations.
 *
 * One estimator for all sites of a cluster: plans on any of them share what they have in common.
 * Over sites, on devices of several kinds, an estimate is as near: off by 0.4 % in the median, 12 %
 * in nine of ten of random plans with all of ZeRO; the bound is 0.4 % below the simulation in the
 * median, 7 % in nine of ten (tests/property/test_bound.c: 12,000 plans, none above). */
typedef struct orr_estimator orr_estimator; /* one thread at a time; keeps what it built */
typedef struct orr_estimate {
    int64_t step_ns;
    int64_t waterfall_ns[ORR_WATERFALLS];
    int64_t peak_bytes;   /* of the worst stage */
    int64_t usable_bytes; /* of its device; -1: not known */
    bool fits;
    int64_t bound_ns; /* no simulation in layers or chunks, alpha-beta, takes less: what is on some
                       * path of it for sure. Transfers beside computation count as hidden, and as a
                       * path of their own */
} orr_estimate;
/* Model and cluster must outlive it. `options` may be NULL. UNSUPPORTED: other tasks than training,
 * heterogeneous ranks, slow links, a model whose shape is not published; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_estimator_new(const orr_model *model,
                                                    const orr_cluster *cluster,
                                                    const orr_job_options *options,
                                                    orr_estimator **ret, orr_error *err);
ORR_API void orr_estimator_free(orr_estimator *estimator); /* NULL is allowed */
/* INVALID: a plan that cannot be; UNSUPPORTED, LIMIT, NO_MEMORY: as orr_outcome_of(). */
ORR_API ORR_MUST_CHECK orr_status orr_estimate_of(orr_estimator *estimator, const orr_plan *plan,
                                                  orr_estimate *ret, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_OUTCOME_H */
