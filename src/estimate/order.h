/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ESTIMATE_ORDER_H
#define ORR_ESTIMATE_ORDER_H

#include <orrery/outcome.h>

/* Whether the order of two training jobs is known: a step of each is estimated with every parameter
 * of the calibration at both ends of its 90 % interval, one at a time. Where the order turns, what
 * was measured does not tell which of the two is faster: a tie. */
typedef struct orr_order_job {
    const orr_model *model;
    const orr_plan *plan;
    const orr_cluster *cluster;
} orr_order_job;

typedef struct orr_order_row {
    const char *parameter; /* "attention", "NVLink4 frac" */
    double low, high;      /* of the parameter */
    /* Step of the second job over that of the first, with the parameter at its low and high end. */
    double ratio_low, ratio_high;
    bool turns; /* one is above 1, the other below */
} orr_order_row;

typedef struct orr_order {
    const orr_order_row *rows; /* shape (n) */
    uint32_t n;                /* 0: no interval is known */
    uint32_t n_turns;
    double ratio; /* as calibrated */
} orr_order;

/* In the arena. Devices and links whose calibration has no intervals have no rows. Errors: as
 * orr_estimator_new() and orr_estimate_of(); INVALID: the jobs are on different devices. */
orr_status orr_order_of(const orr_order_job jobs[2], const orr_job_options *options,
                        orr_arena *arena, orr_order *ret, orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ESTIMATE_ORDER_H */
