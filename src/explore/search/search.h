/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_SEARCH_SEARCH_H
#define ORR_EXPLORE_SEARCH_SEARCH_H

#include "base/workers.h"
#include "explore/explore.h"
#include "estimate/memo.h"
#include "explore/search/processes.h"

/* A search under way: what is known, and what is left to do. One thread, but for items. */
typedef struct orr_search {
    const orr_model *model;
    const orr_cluster *cluster;
    const orr_explore_options *options;
    orr_arena *arena; /* of the result */
    orr_space space;
    orr_families families; /* least floor first */
    uint32_t next_family;  /* those before it were gone through */
    orr_workers *workers;
    orr_evaluator **evaluators, **least,
        **flat;         /* shape (workers); least: the same where no settings are chosen;
                         * flat: the same as `least` where there are no sites */
    orr_memo *counts;   /* shape (n_evaluators) */
    orr_arena **arenas; /* likewise: what counts are in */
    uint32_t n_evaluators;
    orr_results *results; /* or NULL */
    orr_processes *share;
    orr_incumbent incumbent;
    orr_explored_list candidates; /* a heap, least bound first */
    orr_explored_list
        open; /* the same, of those whose settings of the network are not chosen yet */
    orr_explored_list promising; /* likely to be good: next to be simulated */
    orr_explored_list done;      /* simulated to the end, and they fit */
    orr_explored_list seen;      /* the best of each arrangement, by estimate */
    orr_memo known;              /* simulated, by hash of text */
    orr_binding_constraint binding;
    double behind;      /* least bound of what was left behind */
    double space_plans; /* of the space, with what is dominated */
    double pruned[ORR_PRUNES];
    uint64_t families_built, families_resumed, plans, bounded, estimated, simulated, resumed;
    int64_t began_ns, deadline_ns;
    bool stopped; /* all processes know of it */
} orr_search;

orr_status orr_search_open(orr_search *search, orr_error *err) ORR_MUST_CHECK;
void orr_search_close(orr_search *search);
/* Asked to stop, or out of time. */
bool orr_search_should_stop(void *search);
/* Errands, by all threads of all processes, and what came of them taken over, in their order. */
orr_status orr_search_run(orr_search *search, orr_work_item *items, uint32_t n,
                          orr_error *err) ORR_MUST_CHECK;
/* All families in passing, for a first good plan. */
orr_status orr_search_scan(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Until nothing that is left can be better, or there is no time. */
orr_status orr_search_branch_and_bound(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Candidates all simulated, whatever their bounds; those that are known are passed over. */
orr_status orr_search_simulate(orr_search *search, const orr_explored *candidates, size_t n,
                               bool alternatives, orr_error *err) ORR_MUST_CHECK;
bool orr_search_knows(orr_search *search, const orr_plan *plan);
/* No plan of the space is better. */
double orr_search_bound(const orr_search *search);

/* A candidate of an earlier run, simulated by it or not. */
orr_status orr_search_restore_candidate(orr_search *search, const orr_explored *candidate,
                                        orr_error *err) ORR_MUST_CHECK;

/* What is kept for a search that goes on: explore_store.c. */
orr_status orr_search_open_store(orr_search *search, orr_error *err) ORR_MUST_CHECK;
orr_status orr_search_store(orr_search *search, const orr_work_item *item,
                            orr_error *err) ORR_MUST_CHECK;
orr_status orr_search_resume(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* Several processes: explore_meet.c. */
bool orr_search_is_mine(const orr_search *search, uint32_t item);
orr_status orr_search_exchange(orr_search *search, orr_work_item *items, uint32_t n,
                               orr_error *err) ORR_MUST_CHECK;

/* Arrangements that are unlike the best, simulated. */
orr_status orr_search_alternatives(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* All that will be told, refined. */
orr_status orr_search_local_search_best(orr_search *search, orr_error *err) ORR_MUST_CHECK;
/* The best of each arrangement, best first, and the front; in the arena. */
orr_status orr_search_report_best(orr_search *search, orr_exploration *ret,
                                  orr_error *err) ORR_MUST_CHECK;
orr_status orr_search_report_front(orr_search *search, orr_exploration *ret,
                                   orr_error *err) ORR_MUST_CHECK;
/* Small steps from the best plan of an arrangement on, in what is not searched otherwise. */
orr_status orr_search_local_search(orr_search *search, const orr_plan *arrangement,
                                   orr_error *err) ORR_MUST_CHECK;

/* A heap by bound. False: out of memory. */
bool orr_explored_heap_push(const orr_incumbent *incumbent, orr_explored_list *heap,
                            const orr_explored *e);
orr_explored orr_explored_heap_pop(const orr_incumbent *incumbent, orr_explored_list *heap);

#endif /* ORR_EXPLORE_SEARCH_SEARCH_H */
