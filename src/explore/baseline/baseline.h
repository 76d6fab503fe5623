/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_BASELINE_BASELINE_H
#define ORR_EXPLORE_BASELINE_BASELINE_H

#include "base/array.h"
#include "explore/explore.h"
#include "explore/evaluate/evaluator.h"

/* Other searchers (planners). Each enumerates plans as its publication describes, gives them a time
 * by a simple cost model of its own, and names the quickest that fits. That time is its opinion:
 * the plan is judged by the simulator. Of our own figures they use memory alone: without it, those
 * whose publications weigh memory by profiles would be compared for a wrong guess of ours. The rule
 * of production has no model; what is tuned by hand there is tuned by our closed form.
 *
 * What they know is what a profile of the job would tell: of a layer, its FLOPs and elements; of a
 * device, the FLOP/s that large products reach; of networks, a bandwidth and a latency each between
 * devices of a host, hosts of a site, and sites.
 *
 * Letters as in orrery/plan.h. Dimensions that no publication chooses are set by rules that all
 * have in common: cp where the sequence needs it, ep as one more degree, optimizer states sharded
 * over replicas, transfers of slices and tokens beside computation. */
enum { ORR_BASELINE_MAX_STAGES = 256 };

typedef struct orr_baseline_site {
    uint32_t devices; /* that may be used; 0: none */
    const orr_device *device;
    const char *region;
    double flops_per_s; /* of a device, in large products */
} orr_baseline_site;

typedef struct orr_baseline_link { /* of a device, one way */
    double bytes_per_s, latency_ns;
} orr_baseline_link;

typedef struct orr_baseline_candidate {
    orr_plan plan;
    double step_ns;  /* as the planner has it */
    uint32_t number; /* in the order of candidates: equal ones stay in it */
} orr_baseline_candidate;

typedef struct orr_baseline_planner {
    orr_arena *arena;
    orr_evaluator *evaluator;
    const orr_model *model; /* as the fixed fields change it */
    const orr_cluster *cluster;
    const orr_explore_options *options;
    orr_space_constraints constraints; /* what is fixed, bounded, left out */
    orr_plan given;              /* of them, what is fixed */
    uint32_t n_sites;            /* 1 where the cluster has none */
    orr_baseline_site sites[ORR_SITES_MAX];
    uint32_t host_devices;
    orr_baseline_link host, inner, cut[ORR_SITES_MAX][ORR_SITES_MAX];
    double level_bytes_per_s[ORR_LEVELS_MAX]; /* inside a site, over oversubscription */
    uint32_t level_devices[ORR_LEVELS_MAX], n_inner_levels;
    uint32_t layers, hidden, seq, batch;
    double layer_flops, head_flops;               /* forward, of a sample; mean of layers */
    double layer_elements, layer_expert_elements; /* without experts; of all experts */
    double layer_moe_frac;                        /* of layers have experts */
    orr_array(orr_baseline_candidate) candidates;
    void *own; /* of the planner that is at work */
} orr_baseline_planner;

/* --- what there is: baseline_facts.c ----------------------------------------------------- */

orr_status orr_baseline_open(orr_baseline_planner *r, const orr_model *model,
                             const orr_cluster *cluster, const orr_explore_options *options,
                             orr_error *err) ORR_MUST_CHECK;
void orr_baseline_close(orr_baseline_planner *r);
/* Sites that may be used. */
uint32_t orr_baseline_count_sites(const orr_baseline_planner *r);
/* Of states: sharded over replicas, where nobody says otherwise. */
uint32_t orr_baseline_default_zero(const orr_baseline_planner *r);
/* Within what is fixed, bounded and left out? */
bool orr_baseline_allows(const orr_baseline_planner *r, const orr_plan *plan);

/* --- what it costs, simply: baseline_cost.c ---------------------------------------------- */

/* What a planner's model knows of networks. */
typedef struct orr_baseline_network_view {
    bool cuts;    /* that there are sites: what joins them has another bandwidth                 */
    bool latency; /* that distance takes time                                                   */
    bool levels;  /* that a site has levels, each with its own bandwidth                         */
} orr_baseline_network_view;
typedef struct orr_baseline_stage {
    uint32_t site;
    double layers;
} orr_baseline_stage;
/* Of a layer and a micro-batch; backward with what is computed again. */
typedef struct orr_baseline_layer_time {
    double forward_ns, backward_ns;
    double weight_ns; /* of the backward one, what gradients of weights take */
} orr_baseline_layer_time;
orr_baseline_layer_time orr_baseline_layer_time_of(const orr_baseline_planner *r, uint32_t site,
                                                   const orr_plan *plan);
double orr_baseline_head_ns(const orr_baseline_planner *r, uint32_t site,
                            const orr_plan *plan); /* forward */
/* Activations of a micro-batch from a stage to the next. */
double orr_baseline_hop_bytes(const orr_baseline_planner *r, const orr_plan *plan);
orr_baseline_link orr_baseline_link_of(const orr_baseline_planner *r, uint32_t from, uint32_t to,
                                       const orr_baseline_network_view *view);
/* Gradients of a stage, between the replicas. */
double orr_baseline_sync_ns(const orr_baseline_planner *r, const orr_plan *plan,
                            const orr_baseline_stage *stage, const orr_baseline_network_view *view);
/* One forward one backward, bound by its slowest stage: sum of stages + (m - 1) times the slowest +
 * the way there and back + gradients of the slowest. */
double orr_baseline_step_ns(const orr_baseline_planner *r, const orr_plan *plan,
                            const orr_baseline_stage *stages,
                            const orr_baseline_network_view *view);

/* --- plans: baseline_deal.c -------------------------------------------------------------- */

/* All of tp, pp, micro_batch, ep, recompute (none or full) that the model and what is given allow;
 * dp and sites are left to the visitor. */
typedef orr_status (*orr_baseline_visit)(orr_baseline_planner *r, const orr_plan *plan,
                                         orr_error *err);
orr_status orr_baseline_enumerate(orr_baseline_planner *r, orr_baseline_visit visit,
                                  orr_error *err) ORR_MUST_CHECK;
/* Context slices: as many as leave 8,192 tokens to each, from 16,384 on (Llama 3: 1 at 8,192, 16 at
 * 131,072). */
uint32_t orr_baseline_context_degree(const orr_baseline_planner *r);
/* Units that a site has room for, each `times` the slices of a plan. */
uint32_t orr_baseline_site_capacity(const orr_baseline_site *site, const orr_plan *plan,
                                    uint32_t times);
/* Replicas, as many as there is room for and the batch divides into, from the largest site on: dp,
 * and with several sites cross and sites. False: not one, or another number than is given. */
bool orr_baseline_assign_replicas(const orr_baseline_planner *r, orr_plan *plan);
/* Stages of replicas that stay within a site, in the order of sites: as many a site as it holds,
 * from the largest on (`even`: in proportion to what it holds), with dp given by the plan. False:
 * there is no room. */
bool orr_baseline_assign_stages(const orr_baseline_planner *r, bool even, orr_plan *plan);
/* dp of a plan whose stages lie in sites: the next lower one than `below` (0: the most) for which
 * they fit. 0: none. */
uint32_t orr_baseline_next_lower_dp(const orr_baseline_planner *r, const orr_plan *plan,
                                    uint32_t below);
/* Where stages are, with layers dealt alike; shape (pp). */
void orr_baseline_stages_of(const orr_baseline_planner *r, const orr_plan *plan,
                            orr_baseline_stage *ret);
/* Layers by the speed of each stage's devices, into the stages and into sections of the plan where
 * they are not alike. False: more pieces than a plan can say. */
bool orr_baseline_balance_layers(const orr_baseline_planner *r, orr_plan *plan,
                                 orr_baseline_stage *stages);

orr_status orr_baseline_add_candidate(orr_baseline_planner *r, const orr_plan *plan, double step_ns,
                                      orr_error *err) ORR_MUST_CHECK;
/* Quickest first. */
void orr_baseline_sort_candidates(orr_baseline_planner *r);
/* Offers whose times are lower bounds, quickest first, each made exact until no other can be
 * quicker; that one is then the only candidate. *ret_ns INFINITY: it does not fit. The plan may be
 * changed. */
typedef orr_status (*orr_baseline_refine)(orr_baseline_planner *r, orr_plan *plan, double *ret_ns,
                                          orr_error *err);
orr_status orr_baseline_refine_candidates(orr_baseline_planner *r, orr_baseline_refine refine,
                                          orr_error *err) ORR_MUST_CHECK;
/* OK with *ret_fits; other errors than of the plan itself are passed on. */
orr_status orr_baseline_fits(orr_baseline_planner *r, const orr_plan *plan, bool *ret_fits,
                             orr_error *err) ORR_MUST_CHECK;
/* The same, simulated. */
orr_status orr_baseline_evaluate(orr_baseline_planner *r, const orr_plan *plan, bool *ret_fits,
                                 orr_explored *ret, orr_error *err) ORR_MUST_CHECK;

/* --- turns: baseline_crosspipe.c --------------------------------------------------------- */

/* A step of a plan, its turns played one after another with latency and bandwidth of every hop;
 * gradients of a stage follow its last turn. INVALID: a schedule that does not go with the plan. */
orr_status orr_baseline_simulate_schedule(orr_baseline_planner *r, const orr_plan *plan,
                                          double *ret_ns, orr_error *err) ORR_MUST_CHECK;

/* --- the planners: each makes its candidates ---------------------------------------------------
 */

orr_status orr_baseline_production(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_fsdp(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_atlas(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_crosspipe(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_sailor(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_metis(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_amp(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;
orr_status orr_baseline_galvatron(orr_baseline_planner *r, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_BASELINE_BASELINE_H */
