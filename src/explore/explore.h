/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_EXPLORE_H
#define ORR_EXPLORE_EXPLORE_H

#include <orrery/explore.h>

#include "base/array.h"
#include "model/framework/framework.h"
#include "model/plan/plan.h"
#include "explore/evaluate/evaluator.h"
#include "estimate/memo.h"
#include "explore/evaluate/infeasibility.h"
#include "explore/results/store.h"

/* The nouns of the search for the best plan.
 *
 *    space          for every field of a plan, the values that are searched
 *    family         all plans whose ranks have the same modules: a subproblem of the first level of
 *                   the branch and bound, with one lower bound for all of them
 *    walk           enumeration of the plans of a family: degrees, layout, schedule, shards, ...
 *    memory option  the innermost choice of a walk: what makes a plan smaller, and slower
 *    incumbent      the best plan found so far; a bound that it dominates is pruned
 *    work item      a family to search or a candidate to simulate: the unit of threads
 *
 * The search works in rounds of a fixed size, and a decision depends only on what earlier rounds
 * found: results are the same for any number of threads and of processes. */

/* --- the space ------------------------------------------------------------------------------ */

const char *orr_space_field_name(uint32_t field);

/* The values of a field that are searched, in the order in which they are tried. 0 stands for the
 * default. */
enum { ORR_SPACE_VALUES = 64, ORR_SPACE_EXCLUDED = 64 };
typedef struct orr_space_list {
    uint32_t n, at[ORR_SPACE_VALUES];
} orr_space_list;

enum {
    ORR_SEARCH_PLACEMENT = 1,
    ORR_SEARCH_SCHEDULING = 2,
    ORR_SEARCH_NETWORK = 4,
    ORR_SEARCH_ALL = 7
};

/* The user's `fix`, `limit`, `exclude`, `allow` and `dimensions`, parsed. */
typedef struct orr_space_constraints {
    orr_plan fixed;
    uint32_t least[ORR_PLAN_NUMBERS], most[ORR_PLAN_NUMBERS]; /* bounds; 0: none */
    struct {
        uint8_t field;
        uint32_t value;
    } excluded[ORR_SPACE_EXCLUDED];
    uint32_t n_excluded;
    uint64_t excluded_fields; /* a bit for each field that has to stay at its default */
    uint64_t pinned;          /* a bit for each field that has to be as in `fixed`, 0 included */
    bool local_steps, compress, fp8, mxfp8, fp4, gradients, offload,
        graphs;                       /* allowed; `offload` is that of activations */
    uint8_t searched;                 /* dimensions, bits ORR_SEARCH_... */
    const orr_framework_rules *rules; /* of the framework; NULL: none is given */
} orr_space_constraints;
orr_status orr_space_read_constraints(const orr_explore_options *options,
                                      orr_space_constraints *ret, orr_error *err) ORR_MUST_CHECK;
/* Whether the constraints let the field of a completed plan have the value. */
bool orr_space_allows(const orr_space_constraints *constraints, uint32_t field, uint32_t value);

enum { ORR_SPACE_ORDERS = 6 };

typedef struct orr_space {
    bool fails;             /* the objective takes failures into account */
    const orr_model *model; /* with the fixed fields applied */
    const orr_cluster *cluster;
    const orr_explore_options *options;
    orr_space_constraints constraints;
    orr_plan common;                      /* fields that all plans share: batch, seq, shape */
    orr_space_list list[ORR_PLAN_FIELDS]; /* values of the fields that depend on no other field */
    uint8_t order[ORR_SPACE_ORDERS][ORR_BASE_AXES];
    uint32_t n_orders;
    uint32_t least_devices, most_devices, max_sites;
    uint32_t seq;
    orr_space_list stages; /* values of pp */
    const uint32_t *parts; /* shape (n_parts): divisors of the batch, largest first */
    uint32_t n_parts;
    bool uniform_devices;      /* all devices are of one kind and one price */
    double constant_ns;        /* the part of a family bound that more devices do not reduce */
    bool chooses_transport;    /* transports, and how gradients and weights travel, are chosen for
                                  each plan, at the end */
    orr_cluster ideal_network; /* the cluster without transport penalties: a relaxation whose bounds
                                  hold for every transport */
    orr_cluster flat; /* the ideal network as one site with room for every rank: bounds on it hold
                         for every layout */
    double dominated; /* number of plans per plan that is searched: they differ in settings that
                         never help */
} orr_space;
/* Whether the framework, if one is given, can run the plan. */
bool orr_space_runs(const orr_space *space, const orr_plan *plan);
void orr_space_keep_undominated_transports(const orr_space *space, orr_space_list *list);
orr_status orr_space_make_ideal_network(orr_space *space, orr_arena *arena,
                                        orr_error *err) ORR_MUST_CHECK;
/* Calls `visit` with the plan in every combination of transports that it may have. */
typedef orr_status (*orr_plan_visitor)(void *ctx, const orr_plan *plan, orr_error *err);
orr_status orr_space_each_transport(const orr_space *space, const orr_plan *plan,
                                    orr_plan_visitor visit, void *ctx,
                                    orr_error *err) ORR_MUST_CHECK;
/* The same with every way in which gradients and weights may travel: algorithm, pieces, buckets,
 * weights gathered ahead. */
orr_status orr_space_each_reduction(const orr_space *space, const orr_plan *plan,
                                    orr_plan_visitor visit, void *ctx,
                                    orr_error *err) ORR_MUST_CHECK;
/* Allocates in the arena. INVALID: a constraint that cannot be parsed, or that leaves no plan. */
orr_status orr_space_make(const orr_model *model, const orr_cluster *cluster,
                          const orr_explore_options *options, orr_arena *arena, orr_space *ret,
                          orr_error *err) ORR_MUST_CHECK;

/* Where a plan of given degrees lies on the cluster: order of axes, sites, stages of each site. */
enum { ORR_SPACE_LAYOUTS = 512 };
typedef struct orr_space_layout {
    uint8_t order[ORR_BASE_AXES], cross;
    uint32_t dp_outer;
    uint16_t sites[ORR_PLAN_PARTS], section_stages[ORR_PLAN_PARTS], section_layers[ORR_PLAN_PARTS];
    bool dp_crosses, pp_crosses; /* whether the axis has links between sites */
} orr_space_layout;
/* Writes all layouts of the degrees, shape (ORR_SPACE_LAYOUTS), and returns how many. */
uint32_t orr_space_layouts(const orr_space *space, const orr_plan *degrees, orr_space_layout *ret);
/* The layouts on a cluster with sites, for one order of the axes. */
uint32_t orr_space_site_layouts(const orr_space *space, const orr_plan *degrees,
                                const uint8_t *order, orr_space_layout *ret, uint32_t room);
orr_plan orr_plan_with_layout(const orr_plan *plan, const orr_space_layout *layout);

/* --- families ------------------------------------------------------------------------------- */

typedef struct orr_plan_family {
    orr_plan plan;   /* the fields that modules depend on; all others are 0 */
    const char *key; /* text of `plan` */
    double floor_ns;
    double floor[ORR_OBJECTIVES]; /* lower bounds: no plan of the family has less */
    double estimate; /* of the objective, of its best plan seen in a scan; INFINITY: none */
    struct orr_plan_family *basis; /* shares a floor with it until it has one of its own */
    bool refined;                  /* the floor is its own */
    bool scanned, taken, searched; /* its plans were sampled; it is taken out of turn; it is done */
    bool resumed;                  /* an earlier run has searched it */
} orr_plan_family;
typedef struct orr_families {
    orr_plan_family *at; /* shape (n) */
    uint32_t n;
} orr_families;
/* Enumerates all families in the arena; their bounds are not filled in. */
orr_status orr_space_families(const orr_space *space, orr_arena *arena, orr_families *ret,
                              orr_error *err) ORR_MUST_CHECK;

/* --- walks ---------------------------------------------------------------------------------- */

/* What trades memory for time in a plan: a number of layers of each chunk recomputed (BLOCK), and
 * states or activations offloaded to host memory. All pairs of the two are plans of the space. */
typedef struct orr_memory_options {
    uint32_t min_recompute,
        max_recompute; /* of a chunk, bounds of the number recomputed; 0, 0: none */
    uint32_t n_offloads;
    uint8_t offload[4]; /* those allowed, of NONE, OPTIMIZER, ACTIVATIONS, BOTH */
} orr_memory_options;
/* Callbacks of a depth-first enumeration of a family; each may be NULL. `enter` is called for a
 * subtree: `n` plans share what `plan` has set at this depth (DEGREES: degrees; ANYWHERE: a
 * schedule too, in any layout; LAYOUT: a layout, with any schedule; SCHEDULE: both); if it returns
 * false, the subtree is pruned. `leaf` is called with a plan and its memory options, to which
 * orr_plan_with_memory_option() applies each. */
typedef enum orr_walk_depth {
    ORR_WALK_DEGREES,
    ORR_WALK_ANYWHERE,
    ORR_WALK_LAYOUT,
    ORR_WALK_SCHEDULE
} orr_walk_depth;
typedef struct orr_plan_walk {
    bool (*enter)(void *ctx, orr_walk_depth depth, const orr_plan *plan, double n);
    orr_status (*leaf)(void *ctx, const orr_plan *plan, const orr_memory_options *memory_options,
                       orr_error *err);
    void *ctx;
    bool default_transports; /* transports, reductions, buckets and what is gathered ahead have
                                their first values */
    bool uncounted; /* `enter` does not look at `n`, which takes long to find on many sites */
    orr_memo *counts; /* counts of layouts, cached by earlier walks of this thread; or NULL */
    orr_arena *arena; /* memory of `counts` */
} orr_plan_walk;
/* Whether activations are offloaded. Recomputed layers leave fewer activations to transfer, so that
 * with such an offload more recomputation may take less time. */
static inline bool orr_offloads_activations(uint8_t offload)
{
    return offload == ORR_OFFLOAD_ACTIVATIONS || offload == ORR_OFFLOAD_BOTH;
}
static inline double orr_memory_options_count(const orr_memory_options *r)
{
    return (double)(r->max_recompute - r->min_recompute + 1) * r->n_offloads;
}
static inline orr_plan orr_plan_with_memory_option(const orr_plan *plan, uint32_t again,
                                                   uint8_t offload)
{
    orr_plan p = *plan;
    p.recompute_layers = again;
    p.offload = offload == ORR_OFFLOAD_NONE ? 0 : offload;
    return p;
}
orr_status orr_space_walk(const orr_space *space, const orr_plan *family, const orr_plan_walk *walk,
                          orr_error *err) ORR_MUST_CHECK;
/* Number of plans in the space. */
double orr_space_count(const orr_space *space, const orr_families *families);

/* Whether a walk of these degrees and this layout has the plan's schedule, what it computes again,
 * how it shards and how its gradients travel. */
bool orr_space_has_run(const orr_space *space, const orr_plan *plan);
/* Numbers of chunks that divide the layers evenly, and powers of two. */
bool orr_space_splits_well(const orr_space *space, uint32_t pp, uint32_t vp);
/* Finds the memory options of a plan. False: it has none but itself. */
bool orr_space_memory_options(const orr_space *space, const orr_plan *plan,
                              orr_memory_options *ret);
/* The plan without the fields that have their defaults: its canonical form, printed and stored. */
orr_plan orr_plan_without_defaults(const orr_plan *plan);

/* --- the incumbent --------------------------------------------------------------------------- */

typedef struct orr_front_point {
    double first, second;
} orr_front_point;
typedef struct orr_incumbent {
    uint8_t objective, second; /* `second` is ORR_OBJECTIVES where the search has one objective */
    double gap;                /* relative gap at which the search may end */
    double best;               /* INFINITY: no plan was found yet */
    orr_array(orr_front_point) front; /* with `second`: the Pareto front */
} orr_incumbent;
/* Lower bounds of all objectives for a step of at least `step_ns` on at least `n_devices`, of which
 * at most `effective_frac` of the time is training that stands. */
void orr_space_objective_bounds(const orr_space *space, double step_ns, uint32_t n_devices,
                                double effective_frac, double ret[ORR_OBJECTIVES]);
/* The pruning rule: whether no plan with such lower bounds is better than the incumbent by more
 * than the gap. NAN stands for an unknown bound, which prunes nothing. */
bool orr_incumbent_dominates(const orr_incumbent *incumbent, const double bounds[ORR_OBJECTIVES]);
/* Adds the values of a simulated plan. False: out of memory. */
bool orr_incumbent_add(orr_incumbent *incumbent, const double values[ORR_OBJECTIVES]);
/* Total order of plans: by objective, by the second one, then by their fields. */
bool orr_explored_is_better(const orr_incumbent *incumbent, const orr_explored *a,
                            const orr_explored *b);

/* --- work items ------------------------------------------------------------------------------ */

/* A work item is a family to search or a candidate to simulate, and its results. */
typedef orr_array(orr_explored) orr_explored_list;
typedef struct orr_work_item {
    const orr_plan_family *family; /* NULL for a candidate */
    uint8_t baseline; /* 1 + the orr_baseline whose plan is asked for; 0: not such an item */
    bool scan;        /* the family is only scanned for a first good plan */
    bool transports;  /* the candidate stands for itself with every choice of transports */
    bool alternative; /* simulated as an alternative, though its bound is dominated */
    orr_explored candidate;
    orr_family_result result;
    orr_binding_constraint binding;
    orr_explored_list left;      /* not pruned: new candidates */
    orr_explored_list simulated; /* whether they fit or not */
    orr_explored_list seen;      /* the best plan of each arrangement, by estimate */
    uint64_t resumed;
    bool stopped; /* interrupted: its other results do not count */
    orr_status status;
    orr_error err;
} orr_work_item;
void orr_work_item_done(orr_work_item *item);

/* What one thread sees of the search. */
typedef struct orr_search_thread {
    const orr_space *space;
    const orr_incumbent *incumbent;
    orr_evaluator *evaluator;
    orr_evaluator *ideal; /* on the ideal network: its bounds hold for every choice of transports */
    orr_evaluator *flat; /* on the flat cluster: its bounds hold for every layout too, where devices
                            are uniform */
    orr_results *results;           /* of earlier runs; or NULL */
    orr_memo *counts;               /* cache of this thread's walks */
    orr_arena *arena;               /* memory of `counts` */
    bool (*should_stop)(void *ctx); /* polled; true: stop */
    void *should_stop_ctx;
    double slack; /* relative error that the memory estimate may have */
} orr_search_thread;
/* Searches the family of the item. Errors are in the item. */
void orr_family_search(const orr_search_thread *search_thread, orr_work_item *item);
/* Scans the family: its best plan by estimate goes to `left`. */
void orr_family_search_scan(const orr_search_thread *search_thread, orr_work_item *item);
/* Simulates the candidate; if its memory turns out not to fit, plans that need less go to `left`.
 */
void orr_candidate_simulate(const orr_search_thread *search_thread, orr_work_item *item);
/* Branches on the transports of the candidate: the best by estimate is simulated, the others go to
 * `left`. */
void orr_candidate_choose_transport(const orr_search_thread *search_thread, orr_work_item *item);
/* Puts into `left` the plans with less memory that were skipped because the estimate said that
 * `plan` fits. Bounds come from `evaluator`. */
orr_status orr_candidate_reduce_memory(const orr_search_thread *search_thread,
                                       orr_evaluator *evaluator, orr_work_item *item,
                                       const orr_plan *plan, orr_error *err) ORR_MUST_CHECK;
/* Simulates a plan, or takes the result that an earlier run stored for it. */
orr_status orr_search_thread_simulate(const orr_search_thread *search_thread,
                                      const orr_explored *candidate, orr_work_item *item,
                                      orr_explored *ret, orr_error *err) ORR_MUST_CHECK;
/* Whether the peak memory, estimated or simulated, is within what the device can use. */
static inline bool orr_explored_fits(const orr_explored *e, double slack)
{
    return e->usable_bytes < 0 || (double)e->peak_bytes <= (double)e->usable_bytes * (1 + slack);
}
/* The objective for a step that takes as long as the estimate says. */
double orr_explored_estimated_value(const orr_explored *e, uint8_t objective);
/* Whether two plans have the same degrees, crossing and kind of schedule. */
bool orr_plan_same_arrangement(const orr_plan *a, const orr_plan *b);

#endif /* ORR_EXPLORE_EXPLORE_H */
