/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_FIT_BOOST_H
#define ORR_COST_FIT_BOOST_H

#include "cost/models/learned.h"

/* Gradient boosting, round by round: what a fit needs of XGBoost, which is loaded at run time,
 * so that nothing but fitting depends on it. One file implements this with XGBoost, one without.
 * Deterministic: single-threaded. Threads: one at a time. */
typedef struct orr_boost orr_boost;

typedef struct orr_boost_options {
    const float *x, *y, *weight; /* shapes (n, ORR_FEATURES), (n), (n); NAN: missing; copied */
    size_t n;
    const float *watch_x; /* shape (n_watch, ORR_FEATURES): rows that are predicted after each
                           * round */
    size_t n_watch;
    uint32_t depth;
    double rate;
} orr_boost_options;

bool orr_boost_available(const char **ret_why);
/* Errors of all functions: UNSUPPORTED: no XGBoost, or it refused (with its reason); NO_MEMORY. */
orr_status orr_boost_new(const orr_boost_options *options, orr_boost **ret,
                         orr_error *err) ORR_MUST_CHECK;
void orr_boost_free(orr_boost *boost); /* may be NULL */
/* Adds one tree. */
orr_status orr_boost_round(orr_boost *boost, uint32_t round, orr_error *err) ORR_MUST_CHECK;
/* XGBoost's predictions for the watched rows, shape (n_watch); valid until the next call. */
orr_status orr_boost_watch(orr_boost *boost, const float **ret, orr_error *err) ORR_MUST_CHECK;
/* The trees so far, in the arena. */
orr_status orr_boost_trees(orr_boost *boost, orr_arena *arena, orr_trees *ret,
                           orr_error *err) ORR_MUST_CHECK;

/* Converts XGBoost's JSON of a model to trees; the part of orr_boost_trees() that is tested
 * alone. Errors: PARSE, INVALID: not the known format; NO_MEMORY. */
orr_status orr_boost_trees_read(const void *json, size_t len, orr_arena *arena, orr_trees *ret,
                                orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_COST_FIT_BOOST_H */
