/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_EXPLORE_H
#define ORR_EXPLORE_EXPLORE_H

#include <orrery/explore.h>

#include "base/array.h"
#include "model/plan/plan.h"
#include "explore/evaluate/evaluator.h"
#include "estimate/memo.h"
#include "explore/evaluate/infeasibility.h"
#include "explore/results/store.h"

/* What lies between what was asked and the best plan.
 *
 *   space    for every field of a plan the values that are searched
 *   family   plans whose ranks have the same modules: one floor for all of them
 *   walk     the plans of a family, one after the other: degrees, order, schedule, shards, network
 *   relief   what makes a plan that does not fit smaller, and slower: the innermost choice of a
 * walk follow   candidates simulated, least bound first, until nothing that is left can be better
 *
 * Everything is done in rounds of a fixed size, and what a round decides depends on what the rounds
 * before it found alone: results are the same for any number of threads and of processes. */

/* --- the space ------------------------------------------------------------------------------- */

/* Fields by index: numbers, then choices. */
enum {
#define ORR_AT_NUMBER_(name, text)       ORR_AT_##name,
#define ORR_AT_CHOICE_(name, type, text) ORR_AT_##name,
    ORR_PLAN_MAP(ORR_AT_NUMBER_) ORR_PLAN_CHOICE_MAP(ORR_AT_CHOICE_) ORR_PLAN_FIELDS
#undef ORR_AT_NUMBER_
#undef ORR_AT_CHOICE_
};
static inline uint32_t orr_plan_get(const orr_plan *plan, uint32_t field)
{
    orr_plan *p = (orr_plan *)plan; /* read only */
    return field < ORR_PLAN_NUMBERS ? *orr_plan_field(p, field)
                                    : *orr_plan_choice_field(p, field - ORR_PLAN_NUMBERS);
}
static inline void orr_plan_put(orr_plan *plan, uint32_t field, uint32_t value)
{
    if (field < ORR_PLAN_NUMBERS)
        *orr_plan_field(plan, field) = value;
    else
        *orr_plan_choice_field(plan, field - ORR_PLAN_NUMBERS) = (uint8_t)value;
}
const char *orr_space_field_name(uint32_t field);

/* Values that a field may have, in the order in which they are tried. 0: as it is by default. */
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

/* What the user said, read. */
typedef struct orr_space_constraints {
    orr_plan fixed;
    uint32_t least[ORR_PLAN_NUMBERS], most[ORR_PLAN_NUMBERS]; /* 0: no bound */
    struct {
        uint8_t field;
        uint32_t value;
    } excluded[ORR_SPACE_EXCLUDED];
    uint32_t n_excluded;
    uint64_t excluded_fields; /* bit by field: only what it is when nobody uses it */
    uint64_t pinned;          /* bit by field: as `fixed` has it, 0 too */
    bool local_steps, compress, mxfp8, fp4, gradients,
        offload;      /* allowed; offload: of activations */
    uint8_t searched; /* ORR_SEARCH_... */
} orr_space_constraints;
orr_status orr_space_read_constraints(const orr_explore_options *options,
                                      orr_space_constraints *ret, orr_error *err) ORR_MUST_CHECK;
/* May the field have the value (that of a completed plan), by what is fixed, bounded and left out?
 */
bool orr_space_allows(const orr_space_constraints *words, uint32_t field, uint32_t value);

enum { ORR_SPACE_ORDERS = 6 };

typedef struct orr_space {
    bool fails;             /* the objective knows failures */
    const orr_model *model; /* as changed by what is fixed */
    const orr_cluster *cluster;
    const orr_explore_options *options;
    orr_space_constraints words;
    orr_plan common;                      /* what all plans have: batch, seq, shape */
    orr_space_list list[ORR_PLAN_FIELDS]; /* of fields whose values do not depend on others */
    uint8_t order[ORR_SPACE_ORDERS][ORR_BASE_AXES];
    uint32_t n_orders;
    uint32_t least_devices, most_devices, max_sites;
    uint32_t seq;
    orr_space_list stages; /* pp */
    const uint32_t *parts; /* shape (n_parts): what the batch divides into, from the most on */
    uint32_t n_parts;
    bool alike;             /* all devices are of one kind, and of one price */
    double constant_ns;     /* of a floor, what does not get less with more devices */
    bool chooses_transport; /* settings of the network are chosen, plan by plan, at the end */
    orr_cluster
        bare; /* without what is said of its network: no setting makes a plan faster than there */
    orr_cluster
        flat; /* the same as one site, so large that it has room for all: nothing lies better */
    double dominated; /* plans that there are for each that is searched, differing in what never
                         helps */
} orr_space;
void orr_space_keep_undominated_transports(const orr_space *space, orr_space_list *list);
orr_status orr_space_make_ideal_network(orr_space *space, orr_arena *arena,
                                        orr_error *err) ORR_MUST_CHECK;
/* All settings of the network that a plan may have, each given to `visit`. */
orr_status orr_space_each_transport(const orr_space *space, const orr_plan *plan,
                                    orr_status (*visit)(void *ctx, const orr_plan *plan,
                                                        orr_error *err),
                                    void *ctx, orr_error *err) ORR_MUST_CHECK;
/* In the arena. INVALID: words that mean nothing, or leave nothing. */
orr_status orr_space_make(const orr_model *model, const orr_cluster *cluster,
                          const orr_explore_options *options, orr_arena *arena, orr_space *ret,
                          orr_error *err) ORR_MUST_CHECK;

/* How a plan with given degrees lies on the machine. */
enum { ORR_SPACE_LAYOUTS = 512 };
typedef struct orr_space_layout {
    uint8_t order[ORR_BASE_AXES], cross;
    uint32_t dp_outer;
    uint16_t sites[ORR_PLAN_PARTS], section_stages[ORR_PLAN_PARTS], section_layers[ORR_PLAN_PARTS];
    bool dp_crosses, pp_crosses; /* cuts between sites */
} orr_space_layout;
/* All layouts of degrees, shape (ORR_SPACE_LAYOUTS); how many. */
uint32_t orr_space_layouts(const orr_space *space, const orr_plan *degrees, orr_space_layout *ret);
/* The same in a cluster with sites: for an order of the axes. */
uint32_t orr_space_site_layouts(const orr_space *space, const orr_plan *degrees,
                                const uint8_t *order, orr_space_layout *ret, uint32_t room);
orr_plan orr_plan_with_layout(const orr_plan *plan, const orr_space_layout *layout);

/* --- families -------------------------------------------------------------------------------- */

typedef struct orr_plan_family {
    orr_plan plan;   /* fields that modules depend on; the rest is 0 */
    const char *key; /* its text */
    double floor_ns;
    double floor[ORR_OBJECTIVES]; /* no plan of it has less */
    bool resumed;                 /* an earlier run went through it */
} orr_plan_family;
typedef struct orr_families {
    orr_plan_family *at; /* shape (n), by their keys */
    uint32_t n;
} orr_families;
/* All of them, without floors, in the arena. */
orr_status orr_space_families(const orr_space *space, orr_arena *arena, orr_families *ret,
                              orr_error *err) ORR_MUST_CHECK;

/* --- walks ----------------------------------------------------------------------------------- */

/* What takes less memory and more time: of the layers of a chunk so many computed again (BLOCK),
 * things kept in the host's memory. All pairs of them are plans of the space. */
typedef struct orr_memory_options {
    uint32_t least_again, most_again; /* layers; 0, 0: none */
    uint32_t n_offloads;
    uint8_t offload[4]; /* NONE, OPTIMIZER, ACTIVATIONS, BOTH: those that there are */
} orr_memory_options;
/* Goes through a family. Each may be NULL.
 * `enter`: all plans that begin like this one are `n`; false: they are passed over. DEGREES: what
 * else they are; ANYWHERE: with a schedule, in all layouts; LAYOUT: with all schedules; SCHEDULE:
 * with one. `leaf`: a plan, and in how many ways it could be made smaller; each in turn by
 * orr_walk_relief(). */
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
    bool without_wires; /* settings of the network stay as the cluster has them */
    orr_memo *counts;   /* layouts that were counted by an earlier walk of this thread, or NULL */
    orr_arena *arena;   /* that `counts` are in */
} orr_plan_walk;
/* What is computed again need not be moved out of the way: more of it may take less time. */
static inline bool orr_offloads_activations(uint8_t offload)
{
    return offload == ORR_OFFLOAD_ACTIVATIONS || offload == ORR_OFFLOAD_BOTH;
}
static inline double orr_memory_options_count(const orr_memory_options *r)
{
    return (double)(r->most_again - r->least_again + 1) * r->n_offloads;
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
/* Plans of the space. */
double orr_space_count(const orr_space *space, const orr_families *families);

/* What can be made of a plan to take less memory. */
bool orr_space_memory_options(const orr_space *space, const orr_plan *plan,
                              orr_memory_options *ret);
/* The plan with what is the default left out, as it is told and kept. */
orr_plan orr_plan_without_defaults(const orr_plan *plan);

/* --- what plans are compared with ------------------------------------------------------------ */

typedef struct orr_front_point {
    double first, second;
} orr_front_point;
typedef struct orr_incumbent {
    uint8_t objective, second; /* second: ORR_OBJECTIVES where there is none */
    double gap;                /* a share that is not worth going on for */
    double best;               /* INFINITY: nothing was found yet */
    orr_array(
        orr_front_point) front; /* with `second`: nothing of it is better than another in both */
} orr_incumbent;
/* What all objectives come to at least, where a step takes at least so long on so many devices. */
void orr_space_objective_bounds(const orr_space *space, double step_ns, uint32_t n_devices,
                                double ret[ORR_OBJECTIVES]);
/* No plan with such bounds is worth it. A bound that is not known is none. */
bool orr_incumbent_dominates(const orr_incumbent *incumbent, const double bounds[ORR_OBJECTIVES]);
/* False: out of memory. */
bool orr_incumbent_add(orr_incumbent *incumbent, const double values[ORR_OBJECTIVES]);
/* Better first: by what is made small, then by text. */
bool orr_explored_is_better(const orr_incumbent *incumbent, const orr_explored *a,
                            const orr_explored *b);

/* --- a piece of work ------------------------------------------------------------------------- */

/* A family to be gone through, or a candidate to be simulated; and what came of it. */
typedef orr_array(orr_explored) orr_explored_list;
typedef struct orr_work_item {
    const orr_plan_family *family; /* or NULL, and then */
    bool scan;                     /* only in passing */
    bool transports;  /* the candidate stands for itself with all settings of the network */
    bool alternative; /* the candidate was left behind, but is to be known */
    orr_explored candidate;
    orr_family_result result;
    orr_binding_constraint binding;
    orr_explored_list left;      /* may be better: to be simulated */
    orr_explored_list simulated; /* to the end, whether they fit or not */
    orr_explored_list seen;      /* the best of each arrangement, by estimate */
    uint64_t resumed;
    bool stopped; /* in the middle: nothing of it counts */
    orr_status status;
    orr_error err;
} orr_work_item;
void orr_work_item_done(orr_work_item *item);

/* A thread's view of the search. */
typedef struct orr_search_thread {
    const orr_space *space;
    const orr_incumbent *incumbent;
    orr_evaluator *evaluator;
    orr_evaluator *least;     /* whose bounds hold for all settings of the network */
    orr_evaluator *flat;      /* whose bounds hold for all layouts, too, where devices are alike */
    orr_results *results;     /* or NULL */
    orr_memo *counts;         /* of this thread's walks */
    orr_arena *arena;         /* what they are in */
    bool (*stops)(void *ctx); /* asked now and then */
    void *stops_ctx;
    double slack; /* share by which the estimate of memory may be off */
} orr_search_thread;
/* Goes through a family. What goes wrong is in the item. */
void orr_family_search(const orr_search_thread *search_thread, orr_work_item *item);
/* Looks at it in passing: what seems to be its best plan is left. */
void orr_family_search_scan(const orr_search_thread *search_thread, orr_work_item *item);
/* Simulates a candidate; when it turns out not to fit, what fits better is left. */
void orr_candidate_simulate(const orr_search_thread *search_thread, orr_work_item *item);
/* Gives a candidate all settings of the network: the likeliest is simulated, the others are left.
 */
void orr_candidate_choose_transport(const orr_search_thread *search_thread, orr_work_item *item);
/* What was passed over because a plan seemed to fit is left, when it does not. Bounds are this
 * evaluator's. */
orr_status orr_candidate_reduce_memory(const orr_search_thread *search_thread,
                                       orr_evaluator *evaluator, orr_work_item *item,
                                       const orr_plan *plan, orr_error *err) ORR_MUST_CHECK;
/* Takes a plan to its end, or what an earlier run found of it. */
orr_status orr_search_thread_simulate(const orr_search_thread *search_thread,
                                      const orr_explored *candidate, orr_work_item *item,
                                      orr_explored *ret, orr_error *err) ORR_MUST_CHECK;
/* By the figures that there are: its memory is within what its device can use. */
static inline bool orr_explored_fits(const orr_explored *e, double slack)
{
    return e->usable_bytes < 0 || (double)e->peak_bytes <= (double)e->usable_bytes * (1 + slack);
}
/* What an objective comes to if a step takes as long as the estimate says. */
double orr_explored_estimated_value(const orr_explored *e, uint8_t objective);
/* Arrangements that are alike: the same degrees, crossing and kind of schedule. */
bool orr_plan_same_arrangement(const orr_plan *a, const orr_plan *b);

#endif /* ORR_EXPLORE_EXPLORE_H */
