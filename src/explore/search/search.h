/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_SEARCH_SEARCH_H
#define ORR_EXPLORE_SEARCH_SEARCH_H

#include "base/workers.h"
#include "explore/explore.h"
#include "estimate/memo.h"
#include "explore/search/processes.h"

/* State of a search under way: its queues, incumbent and counters. It belongs to one thread; worker
 * threads touch their own work items only. */
typedef struct orr_search {
    const orr_model *model;
    const orr_cluster *cluster;
    const orr_explore_options *options;
    orr_arena *arena; /* memory of the result */
    orr_space space;
    orr_families families, bases; /* floors.c */
    uint32_t priced_bases;
    uint32_t *queue; /* shape (n_queue): heap of the families that are not searched */
    uint32_t n_queue;
    uint32_t *leading; /* shape (n_leading): families by the estimate of their best sampled plan */
    uint32_t n_leading, next_leading;
    orr_workers *workers;
    orr_evaluator **evaluators, **ideal,
        **flat; /* shape (n_evaluators). `ideal` is `evaluators` where transports are not chosen;
                   `flat` is `ideal` where the cluster has no sites. */
    orr_memo *counts;   /* shape (n_evaluators): caches of walks */
    orr_arena **arenas; /* shape (n_evaluators): memory of `counts` */
    uint32_t n_evaluators;
    orr_results *results; /* of this and earlier runs; NULL: not stored */
    orr_processes *processes;
    orr_incumbent incumbent;
    orr_explored_list candidates; /* heap, lowest bound first */
    orr_explored_list open;       /* heap of candidates whose transports are not chosen yet */
    orr_explored_list promising;  /* best estimates of the last round: simulated next */
    orr_explored_list done;       /* simulated plans that fit */
    orr_explored_list seen;       /* the best plan of each arrangement, by estimate */
    orr_memo known_plans;         /* plans simulated so far, by the hash of their text */
    orr_binding_constraint binding;
    double climbed;     /* the incumbent from which neighbours were looked at last */
    double left_bound;  /* lowest bound of all pruned plans */
    double space_plans; /* size of the space, dominated plans included */
    double pruned[ORR_PRUNES];
    uint64_t families_built, families_resumed, plans, bounded, estimated, simulated, resumed;
    int64_t began_ns, deadline_ns;
    bool stopped;                    /* agreed by all processes */
    bool left_out;                   /* families are not listed yet: nothing is proven */
    bool beginning;                  /* the time limit waits for a first plan */
    const char *phase, *family;      /* what it does, and with which of the families */
    uint32_t sampled;                /* families of which a scan saw some plans */
    orr_array(const char *) remarks; /* on plans of the caller */
} orr_search;

/* Whether the caller asked to stop or the time limit has passed. */
bool orr_search_should_stop(void *search);
/* Simulates the plans of the caller and those of the quick baseline planners (start.c). */
orr_status orr_search_begin(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* The same with the planners that take longer. */
orr_status orr_search_ask_last_baselines(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Asks the baseline planner of the item. Errors are in the item. */
void orr_search_ask_baseline(const orr_search *search, int thread, orr_work_item *item);
/* The part of a plan for which it is not in the space; NULL: it is. In the arena. */
const char *orr_search_objection(const orr_search *search, const orr_plan *plan, orr_arena *arena);
/* Fills in what the framework, if one is given, has another default for. False: there the plan
 * would not be itself. */
bool orr_search_fill(const orr_search *search, orr_plan *plan);
/* Finds a plan near this one that fits, by estimates, with at most so many changes; 0: where it
 * lies alone (neighbours.c). */
orr_status orr_search_repair(orr_search *search, const orr_plan *plan, uint32_t changes,
                             bool *ret_found, orr_explored *ret, orr_error *err) ORR_MUST_CHECK;
/* Climbs from a plan to one that none of its neighbours is better than, by estimates; `ret` may be
 * the plan itself (neighbours.c). */
orr_status orr_search_climb(orr_search *search, const orr_explored *from, orr_explored *ret,
                            orr_error *err) ORR_MUST_CHECK;
/* The same from the best simulated plan on, and simulated, if it is another than the last time; as
 * long as that makes it better. */
orr_status orr_search_climb_from_best(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Remembers a plan that does not fit, if no other came nearer. */
void orr_search_note_binding(orr_search *search, const orr_explored *explored);
/* Runs the items on all threads of all processes, then merges their results in the order of the
 * items. */
orr_status orr_search_run_round(orr_search *search, orr_work_item *items, uint32_t n,
                                orr_error *err) ORR_MUST_CHECK;
/* Lists the families; none has a floor yet (floors.c). */
orr_status orr_search_list_families(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Prices the next bases. False: all are priced. */
bool orr_search_price_bases(orr_search *search);
/* Takes the family with the lowest floor, which is its own, out of the heap. NULL: the incumbent
 * dominates all that is left. */
orr_plan_family *orr_search_pop_family(orr_search *search);
void orr_search_push_family(orr_search *search, const orr_plan_family *family);
/* The least floor of the families that are not searched; INFINITY: there is none. */
double orr_search_family_bound(const orr_search *search);
/* Samples some of the families, those with low floors and others, and simulates what is promising.
 */
orr_status orr_search_scan(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Runs rounds until no plan that is left can improve on the incumbent by more than the gap, or time
 * is up. */
orr_status orr_search_branch_and_bound(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Simulates all the candidates whatever their bounds, skipping those already simulated. */
orr_status orr_search_simulate(orr_search *search, const orr_explored *candidates, size_t n,
                               orr_error *err) ORR_MUST_CHECK;
/* Heaps of candidates, lowest bound first (heap.c). Values of candidates are lower bounds. False:
 * out of memory. */
bool orr_heap_push(const orr_incumbent *incumbent, orr_explored_list *heap,
                   const orr_explored *explored);
/* Takes the i-th out; 0: the one with the lowest bound. */
orr_explored orr_heap_take(const orr_incumbent *incumbent, orr_explored_list *heap, size_t i);
/* The proven lower bound of the whole space. NAN: none is known yet. */
double orr_search_bound(const orr_search *search);

/* Adds a candidate of an earlier run, which may have simulated it. */
orr_status orr_search_restore_candidate(orr_search *search, const orr_explored *candidate,
                                        orr_error *err) ORR_MUST_CHECK;

/* Checkpoint and resume (resume.c). */
orr_status orr_search_open_store(orr_search *search, orr_error *err) ORR_MUST_CHECK;
orr_status orr_search_store(orr_search *search, const orr_work_item *item,
                            orr_error *err) ORR_MUST_CHECK;
orr_status orr_search_resume(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Distribution over processes (exchange.c). */
bool orr_search_is_mine(const orr_search *search, uint32_t item);
orr_status orr_search_exchange(orr_search *search, orr_work_item *items, uint32_t n,
                               orr_error *err) ORR_MUST_CHECK;

/* Simulates the best plans, by estimate, of arrangements that have no simulated plan. */
orr_status orr_search_alternatives(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Refines each plan that will be reported, by local search. */
orr_status orr_search_local_search_best(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* The best plan of each arrangement, best first, and the Pareto front; in the arena. */
orr_status orr_search_report_best(orr_search *search, orr_exploration *ret,
                                  orr_error *err) ORR_MUST_CHECK;
orr_status orr_search_report_front(orr_search *search, orr_exploration *ret,
                                   orr_error *err) ORR_MUST_CHECK;
/* Hill climbing from the best plan of an arrangement, in numbers of which the space has some values
 * only. */
orr_status orr_search_local_search(orr_search *search, const orr_plan *arrangement,
                                   orr_error *err) ORR_MUST_CHECK;
/* Micro-batches and layers that differ by site, from a plan of the answer on (by_site.c). */
orr_status orr_search_by_site(orr_search *search, const orr_explored *from,
                              orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_SEARCH_SEARCH_H */
