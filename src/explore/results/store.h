/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_RESULTS_STORE_H
#define ORR_EXPLORE_RESULTS_STORE_H

#include <orrery/explore.h>

/* Results of searches in a database that outlives them (SQLite): what was asked, which families are
 * done, every plan that was followed to its end. A search that was killed goes on where it was;
 * nothing is evaluated twice but what was in flight. Written in transactions of about a second; a
 * reader may look meanwhile (WAL).
 *
 * Tables: search (what was asked), note (what is said of a search), family (done, with its counts
 * and its bound), plan (one row each, with its text, fields, figures and objectives). Views: best,
 * tp_pp, progress. Docs: docs/explore.md.
 *
 * One process writes (of several that search together: rank 0); others may read, or write other
 * searches into the same file. A failure to write is told by the next call that adds, and by close;
 * what waits is kept, and tried again. Threads: any, it takes turns. */
typedef struct orr_results orr_results;
/* Opens or creates. `question`: text that tells this search from all others (model, cluster,
 * options, version of the cost model): what was recorded under another is left alone. `resume`: the
 * last search with this question goes on; without it, or where there is none, a search begins
 * beside those that are there. Errors: as orr_database_open(). */
orr_status orr_results_open(const char *path, const char *question, bool resume, orr_results **ret,
                            orr_error *err) ORR_MUST_CHECK;
/* What still waits is written. NULL is allowed; freed in any case. */
orr_status orr_results_close(orr_results *results, orr_error *err) ORR_MUST_CHECK;
/* Writes now what waits. */
orr_status orr_results_flush(orr_results *results, orr_error *err) ORR_MUST_CHECK;
/* Something that people should know of the search: "model", "cluster"; a name that is there already
 * gets the new text. "objective" (orr_objective_name()) is what the views order by; else it is the
 * step. */
orr_status orr_results_note(orr_results *results, const char *name, const char *text,
                            orr_error *err) ORR_MUST_CHECK;

/* A family: plans with the same modules. Its key is the text of those fields. */
typedef struct orr_family_result {
    uint64_t plans, bounded, estimated;
    double pruned[ORR_PRUNES];
    double bound; /* least of the objective among those that were left */
} orr_family_result;
/* False: not done by an earlier run. */
bool orr_results_family(orr_results *results, const char *key, orr_family_result *ret);
orr_status orr_results_add_family(orr_results *results, const char *key,
                                  const orr_family_result *family, orr_error *err) ORR_MUST_CHECK;
/* A plan that was simulated, by its text (orr_plan_text() of the plan as it was asked for). False:
 * not yet. */
bool orr_results_plan(orr_results *results, const char *text, orr_explored *ret);
orr_status orr_results_add_plan(orr_results *results, const char *text,
                                const orr_explored *explored, orr_error *err) ORR_MUST_CHECK;
/* A plan that a family left to be simulated, with its bound and estimate: so that a family that is
 * done need not be built again; to be added before the family is. All of them of the search whose
 * families are done, in the arena, in an order that does not depend on when they came; those that
 * were simulated since (step_ns > 0) with all figures. */
orr_status orr_results_add_candidate(orr_results *results, const char *family, const char *text,
                                     const orr_explored *explored, orr_error *err) ORR_MUST_CHECK;
orr_status orr_results_candidates(orr_results *results, orr_arena *arena, const orr_explored **ret,
                                  uint32_t *ret_n, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_RESULTS_STORE_H */
