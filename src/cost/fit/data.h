/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_FIT_DATA_H
#define ORR_COST_FIT_DATA_H

#include "base/array.h"
#include "cost/fit/samples.h"
#include "cost/models/table.h"

/* Samples for a fit: a cell is all rows of one shape in one series of the table; a shape group
 * is all cells of one family and shape, and is on one side of the split into train, validation
 * and test. */
typedef struct orr_fit_cell {
    const orr_cost_sample *sample; /* its first row, for work and device */
    orr_table_series series;       /* without points */
    orr_table_point point;         /* ns: median; count: rows */
    const double *ns;              /* shape (count), increasing */
    double roofline_ns;            /* NAN: no answer */
    uint64_t group;                /* hash of family and shape */
    uint32_t place;                /* index of the group within the family */
    uint8_t side;                  /* orr_fit_subset */
} orr_fit_cell;

typedef struct orr_fit_data {
    const orr_fit_cell *cells; /* by series, then point */
    size_t n;
    size_t first[ORR_FAMILIES + 1]; /* first cell of each family */
    uint32_t groups[ORR_FAMILIES];  /* of a family */
    orr_fit_split splits[ORR_FAMILIES];
} orr_fit_data;

orr_status orr_fit_data_make(const orr_samples *samples, uint64_t seed, orr_arena *arena,
                             orr_fit_data *ret, orr_error *err) ORR_MUST_CHECK;

/* The least number of shape groups on each side with which choices and errors mean anything.
 * Assumed: trees need more because they have more to choose from. */
typedef struct orr_fit_minimum {
    uint32_t groups[ORR_SUBSETS];
} orr_fit_minimum;
extern const orr_fit_minimum orr_fit_table_minimum, orr_fit_learned_minimum;
bool orr_fit_enough(const orr_fit_split *split, const orr_fit_minimum *least);
/* Message such as "4/1/0 shape groups, 10/5/5 needed"; NULL: out of memory. */
const char *orr_fit_too_few(const orr_fit_split *split, const orr_fit_minimum *least,
                            orr_arena *arena);

/* Collects |predicted / measured - 1| of rows. */
typedef struct orr_fit_errors {
    orr_array(double) frac;
} orr_fit_errors;
bool orr_fit_errors_add(orr_fit_errors *errors, const orr_fit_cell *cell, double predicted_ns);
orr_fit_score orr_fit_errors_score(orr_fit_errors *errors); /* sorts the errors */
void orr_fit_errors_done(orr_fit_errors *errors);

/* Paired comparison of a model with the roofline over the shape groups of a side. The distance
 * of a row is |ln(predicted / measured)|, for which half and double are equally wrong; every
 * group has the same weight, however often it was measured. */
typedef struct orr_fit_comparison {
    double *ours, *roofline; /* sums over cells; shape (n) */
    uint32_t *cells;         /* shape (n)                  */
    uint32_t n;              /* groups of the family */
} orr_fit_comparison;
orr_status orr_fit_comparison_new(uint32_t n, orr_arena *arena, orr_fit_comparison *ret,
                                  orr_error *err) ORR_MUST_CHECK;
void orr_fit_comparison_reset(orr_fit_comparison *duel);
void orr_fit_comparison_add(orr_fit_comparison *duel, const orr_fit_cell *cell,
                            double predicted_ns);
typedef struct orr_fit_comparison_result {
    uint32_t groups; /* groups with any cell */
    double distance; /* mean over them; INFINITY without any */
    bool ahead;      /* better than the roofline by two standard errors of the mean difference */
} orr_fit_comparison_result;
orr_fit_comparison_result orr_fit_comparison_end(const orr_fit_comparison *duel);

/* Progress, reported to the caller of the fit. */
typedef struct orr_fit_progress {
    bool (*update)(void *ctx, uint64_t done, uint64_t total); /* may be NULL */
    void *ctx;
    uint64_t done, total;
} orr_fit_progress;
orr_status orr_fit_step(orr_fit_progress *progress, uint64_t steps, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_COST_FIT_DATA_H */
