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
    orr_families families; /* sorted by family bound */
    uint32_t next_family;  /* the families before it are done */
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
    double left_bound;  /* lowest bound of all pruned plans */
    double space_plans; /* size of the space, dominated plans included */
    double pruned[ORR_PRUNES];
    uint64_t families_built, families_resumed, plans, bounded, estimated, simulated, resumed;
    int64_t began_ns, deadline_ns;
    bool stopped;  /* agreed by all processes */
    bool left_out; /* families that there was no time to bound */
} orr_search;

/* Whether the caller asked to stop or the time limit has passed. */
bool orr_search_should_stop(void *search);
/* Scans all families with estimates, for a first incumbent. */
orr_status orr_search_scan(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Runs rounds until no plan that is left can improve on the incumbent by more than the gap, or time
 * is up. */
orr_status orr_search_branch_and_bound(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Simulates all the candidates whatever their bounds, skipping those already simulated. */
orr_status orr_search_simulate(orr_search *search, const orr_explored *candidates, size_t n,
                               bool alternatives, orr_error *err) ORR_MUST_CHECK;
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
/* Hill climbing from the best plan of an arrangement, in fields that the space does not enumerate.
 */
orr_status orr_search_local_search(orr_search *search, const orr_plan *arrangement,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_SEARCH_SEARCH_H */
