/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_BASELINE_BASELINE_H
#define ORR_EXPLORE_BASELINE_BASELINE_H

#include "base/array.h"
#include "explore/explore.h"
#include "explore/evaluate/evaluator.h"

/* Baseline planners: published planners, to compare the search with. Each enumerates plans as its
 * publication describes, estimates them by a simple cost model of its own, and names the fastest
 * that fits; the simulator then evaluates this plan. Of Orrery's own figures the planners use the
 * memory estimate alone, because publications that weigh memory by profiles would otherwise be
 * compared for a wrong guess. The production rule has no cost model: what people tune by hand there
 * is tuned by Orrery's estimator.
 *
 * Planners know what a profile of the job would tell: of a layer, its FLOPs and parameters; of a
 * device, the FLOP/s of large matrix products; of the network, a bandwidth and a latency within a
 * host, within a site and between sites.
 *
 * Letters as in orrery/plan.h. Dimensions that no publication chooses are set by common rules: cp
 * where the sequence needs it, ep as one more degree, optimizer states sharded over replicas,
 * transfers of slices and tokens overlapped with computation. */
enum { ORR_BASELINE_MAX_STAGES = 256 };

typedef struct orr_baseline_site {
    uint32_t devices; /* that may be used; 0: the site is not used */
    const orr_device *device;
    const char *region;
    double flops_per_s; /* of a device in large matrix products */
} orr_baseline_site;

typedef struct orr_baseline_link { /* of one device, in one direction */
    double bytes_per_s, latency_ns;
} orr_baseline_link;

typedef struct orr_baseline_candidate {
    orr_plan plan;
    double step_ns;  /* by the planner's cost model */
    uint32_t number; /* order of enumeration, which breaks ties */
} orr_baseline_candidate;

typedef struct orr_baseline_planner {
    orr_arena *arena;
    orr_evaluator *evaluator;
    const orr_model *model; /* with the fixed fields applied */
    const orr_cluster *cluster;
    const orr_explore_options *options;
    orr_space_constraints constraints; /* parsed from the options */
    orr_plan given;                    /* the fixed fields of `constraints` */
    uint32_t n_sites;                  /* 1 for a cluster without sites */
    orr_baseline_site sites[ORR_SITES_MAX];
    uint32_t host_devices;
    orr_baseline_link host, inner, cut[ORR_SITES_MAX][ORR_SITES_MAX];
    double level_bytes_per_s[ORR_LEVELS_MAX]; /* within a site, divided by the oversubscription */
    uint32_t level_devices[ORR_LEVELS_MAX], n_inner_levels;
    uint32_t layers, hidden, seq, batch;
    double layer_flops, head_flops;               /* forward, of a sample; mean over layers */
    double layer_elements, layer_expert_elements; /* parameters: without experts; of all experts */
    double layer_moe_frac;                        /* share of the layers with experts */
    orr_array(orr_baseline_candidate) candidates;
    void *state; /* private state of the planner that runs */
} orr_baseline_planner;

/* --- facts of the job and the machine (facts.c) ---------------------------------------------- */

orr_status orr_baseline_open(orr_baseline_planner *r, const orr_model *model,
                             const orr_cluster *cluster, const orr_explore_options *options,
                             orr_error *err) ORR_MUST_CHECK;
void orr_baseline_close(orr_baseline_planner *r);
/* Number of sites that may be used. */
uint32_t orr_baseline_count_sites(const orr_baseline_planner *r);
/* Default ZeRO stage: optimizer states are sharded over replicas. */
uint32_t orr_baseline_default_zero(const orr_baseline_planner *r);
/* Whether the plan satisfies the constraints. */
bool orr_baseline_allows(const orr_baseline_planner *r, const orr_plan *plan);

/* --- cost model (cost.c) --------------------------------------------------------------------- */

/* Which properties of the network a planner's cost model has. */
typedef struct orr_baseline_network_view {
    bool cuts;    /* links between sites have another bandwidth */
    bool latency; /* distance adds latency */
    bool levels;  /* a site has levels with a bandwidth each */
} orr_baseline_network_view;
typedef struct orr_baseline_stage {
    uint32_t site;
    double layers;
} orr_baseline_stage;
/* Times of a layer and a micro-batch; backward with recomputation. */
typedef struct orr_baseline_layer_time {
    double forward_ns, backward_ns;
    double weight_ns; /* the part of `backward_ns` for weight gradients */
} orr_baseline_layer_time;
orr_baseline_layer_time orr_baseline_layer_time_of(const orr_baseline_planner *r, uint32_t site,
                                                   const orr_plan *plan);
double orr_baseline_head_ns(const orr_baseline_planner *r, uint32_t site,
                            const orr_plan *plan); /* forward pass */
/* Bytes of activations that a stage sends to the next for a micro-batch. */
double orr_baseline_hop_bytes(const orr_baseline_planner *r, const orr_plan *plan);
orr_baseline_link orr_baseline_link_of(const orr_baseline_planner *r, uint32_t from, uint32_t to,
                                       const orr_baseline_network_view *view);
/* Time of the all-reduce of a stage's gradients between replicas. */
double orr_baseline_sync_ns(const orr_baseline_planner *r, const orr_plan *plan,
                            const orr_baseline_stage *stage, const orr_baseline_network_view *view);
/* 1F1B bound by its slowest stage: sum of all stages + (m - 1) x slowest stage + hops there and
 * back + gradient all-reduce of the slowest. */
double orr_baseline_step_ns(const orr_baseline_planner *r, const orr_plan *plan,
                            const orr_baseline_stage *stages,
                            const orr_baseline_network_view *view);

/* --- enumeration and assignment (assign.c) --------------------------------------------------- */

/* Enumerates all tp, pp, micro_batch, ep and recompute (none or full) that the model and the
 * constraints allow; dp and sites are left to the visitor. */
typedef orr_status (*orr_baseline_visit)(orr_baseline_planner *r, const orr_plan *plan,
                                         orr_error *err);
orr_status orr_baseline_enumerate(orr_baseline_planner *r, orr_baseline_visit visit,
                                  orr_error *err) ORR_MUST_CHECK;
/* Context parallelism that leaves 8,192 tokens to a slice, for sequences from 16,384 on (Llama 3: 1
 * at 8,192, 16 at 131,072). */
uint32_t orr_baseline_context_degree(const orr_baseline_planner *r);
/* How many units fit on the site, a unit being `times` replicas of a stage. */
uint32_t orr_baseline_site_capacity(const orr_baseline_site *site, const orr_plan *plan,
                                    uint32_t times);
/* Sets dp to as many replicas as fit and divide the batch, filling the largest site first; on
 * several sites also cross and sites. False: none fits, or another number is fixed. */
bool orr_baseline_assign_replicas(const orr_baseline_planner *r, orr_plan *plan);
/* Places the stages of pipelines on the sites, in the order of sites, replicas of a stage on one
 * site: as many as fit, largest site first (`even`: in proportion to capacity), for the plan's dp.
 * False: they do not fit. */
bool orr_baseline_assign_stages(const orr_baseline_planner *r, bool even, orr_plan *plan);
/* The next dp below `below` (0: from the top) for which the stages fit on the sites. 0: none. */
uint32_t orr_baseline_next_lower_dp(const orr_baseline_planner *r, const orr_plan *plan,
                                    uint32_t below);
/* The site of each stage, with layers split evenly; shape (pp). */
void orr_baseline_stages_of(const orr_baseline_planner *r, const orr_plan *plan,
                            orr_baseline_stage *ret);
/* Balances layers by the speed of each stage's devices; writes them into the stages, and into
 * sections of the plan where they differ. False: more sections than a plan can have. */
bool orr_baseline_balance_layers(const orr_baseline_planner *r, orr_plan *plan,
                                 orr_baseline_stage *stages);

orr_status orr_baseline_add_candidate(orr_baseline_planner *r, const orr_plan *plan, double step_ns,
                                      orr_error *err) ORR_MUST_CHECK;
/* Sorts by time, fastest first. */
void orr_baseline_sort_candidates(orr_baseline_planner *r);
/* Evaluates candidates whose times are lower bounds, lowest first, until no other can be faster;
 * the best is then the only candidate. *ret_ns INFINITY: it does not fit. The callback may change
 * the plan. */
typedef orr_status (*orr_baseline_refine)(orr_baseline_planner *r, orr_plan *plan, double *ret_ns,
                                          orr_error *err);
orr_status orr_baseline_refine_candidates(orr_baseline_planner *r, orr_baseline_refine refine,
                                          orr_error *err) ORR_MUST_CHECK;
/* Whether the plan fits, by the estimator. An invalid plan does not fit; other errors are returned.
 */
orr_status orr_baseline_fits(orr_baseline_planner *r, const orr_plan *plan, bool *ret_fits,
                             orr_error *err) ORR_MUST_CHECK;
/* The same, by simulation. */
orr_status orr_baseline_evaluate(orr_baseline_planner *r, const orr_plan *plan, bool *ret_fits,
                                 orr_explored *ret, orr_error *err) ORR_MUST_CHECK;

/* --- schedules (crosspipe.c) ----------------------------------------------------------------- */

/* Simulates the schedule of a plan, slot by slot, with latency and bandwidth of every hop; the
 * gradients of a stage are reduced after its last slot. INVALID: the schedule does not suit the
 * plan. */
orr_status orr_baseline_simulate_schedule(orr_baseline_planner *r, const orr_plan *plan,
                                          double *ret_ns, orr_error *err) ORR_MUST_CHECK;

/* --- the planners ---------------------------------------------------------------------------- */

orr_status orr_baseline_production(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_fsdp(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_atlas(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_crosspipe(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_sailor(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_metis(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_amp(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_galvatron(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_BASELINE_BASELINE_H */
