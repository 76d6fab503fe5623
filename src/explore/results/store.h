/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_RESULTS_STORE_H
#define ORR_EXPLORE_RESULTS_STORE_H

#include <orrery/explore.h>

/* Results of searches in an SQLite database that outlives them: the question, which families are
 * done, every simulated plan. A killed search resumes where it was; only work in flight is
 * repeated. Rows are written in transactions about once a second; readers may look meanwhile (WAL).
 *
 * Tables: search (the question), note (name and text for people), family (done, with counts and
 * bound), plan (one row each, with text, fields, figures and objectives). Views: best, tp_pp,
 * progress. Docs: docs/explore.md.
 *
 * One process writes (of a distributed search, rank 0); others may read, or write other searches
 * into the same file. A write error is returned by the next call that adds, and by close; pending
 * rows are kept and tried again. Threads: any; calls are serialised. */
typedef struct orr_results orr_results;
/* Opens or creates the database. `question` identifies the search (model, cluster, options, version
 * of the cost model); results of other questions are not touched. With `resume` the last search of
 * this question is continued, if there is one; otherwise a new search is added to the file. Errors:
 * as orr_database_open(). */
orr_status orr_results_open(const char *path, const char *question, bool resume, orr_results **ret,
                            orr_error *err) ORR_MUST_CHECK;
/* True: an earlier run of this question is continued. */
bool orr_results_continues(const orr_results *results);
/* Writes all pending rows and frees, whatever fails. NULL is allowed. */
orr_status orr_results_close(orr_results *results, orr_error *err) ORR_MUST_CHECK;
/* Writes all pending rows now. */
orr_status orr_results_flush(orr_results *results, orr_error *err) ORR_MUST_CHECK;
/* Stores or replaces a note on the search for its readers: "model", "cluster". The note "objective"
 * (orr_objective_name()) is what the views order by; without it, the step. */
orr_status orr_results_note(orr_results *results, const char *name, const char *text,
                            orr_error *err) ORR_MUST_CHECK;

/* Result of a family search. The key of a family is the text of the fields that modules depend on.
 */
typedef struct orr_family_result {
    uint64_t plans, bounded, estimated;
    double pruned[ORR_PRUNES];
    double bound; /* lowest bound of the pruned plans */
} orr_family_result;
/* False: no earlier run has finished it. */
bool orr_results_family(orr_results *results, const char *key, orr_family_result *ret);
orr_status orr_results_add_family(orr_results *results, const char *key,
                                  const orr_family_result *family, orr_error *err) ORR_MUST_CHECK;
/* Finds a simulated plan by its text (orr_plan_text()). False: not simulated yet. */
bool orr_results_plan(orr_results *results, const char *text, orr_explored *ret);
orr_status orr_results_add_plan(orr_results *results, const char *text,
                                const orr_explored *explored, orr_error *err) ORR_MUST_CHECK;
/* Adds a plan that a family search did not prune, with bound and estimate, so that a finished
 * family need not be searched again; candidates are added before their family.
 * orr_results_candidates() returns those of finished families and the alternatives, in the arena,
 * in an order that does not depend on time; the ones simulated since (step_ns > 0) with all
 * figures. ALTERNATIVE stands in place of the family of a plan that none of them left over. */
#define ORR_RESULTS_ALTERNATIVE "alternative"
orr_status orr_results_add_candidate(orr_results *results, const char *family, const char *text,
                                     const orr_explored *explored, orr_error *err) ORR_MUST_CHECK;
orr_status orr_results_candidates(orr_results *results, orr_arena *arena, const orr_explored **ret,
                                  uint32_t *ret_n, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_EXPLORE_RESULTS_STORE_H */
