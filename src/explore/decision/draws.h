/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EXPLORE_DECISION_DRAWS_H
#define ORR_EXPLORE_DECISION_DRAWS_H

#include <orrery/calibration.h>

/* Draws of a calibration: every parameter that has an interval, within it. A parameter is
 * lognormal with another deviation on either side of its value, since it was fitted in logarithms,
 * so that its 90 % interval is that of the file, and cut off there. The parameters of one draw are
 * independent: the fit publishes no correlations between them, and intervals are profiles with all
 * else refitted, so that draws move a step by more than is believed. What all plans share moves
 * them together: one draw is one calibration for all of them.
 *
 * Immutable after it is made: any number of threads may draw. */
typedef struct orr_drawn_number {
    size_t offset;       /* in the calibration, or in its link */
    uint32_t link;       /* index into the links; ORR_DRAWN_FIELD: of the calibration itself */
    double down, up;     /* logarithms of low and high over the value; down <= 0 <= up */
    double lowest, most; /* what is physically possible */
} orr_drawn_number;
enum { ORR_DRAWN_FIELD = UINT32_MAX };

typedef struct orr_calibration_draws {
    const orr_calibration *usual;
    const orr_drawn_number *numbers; /* shape (n) */
    uint32_t n;                      /* 0: no interval is known */
    double widening;                 /* of all intervals, in logarithms */
    uint64_t seed;
} orr_calibration_draws;
/* Finds what can be drawn: parameters of the calibration, and of the technologies of the cluster's
 * links. In the arena. Errors: NO_MEMORY. */
orr_status orr_calibration_draws_of(const orr_calibration *usual, const orr_cluster *cluster,
                                    orr_arena *arena, orr_calibration_draws *ret,
                                    orr_error *err) ORR_MUST_CHECK;
/* The `index`-th draw, which depends on seed and index alone. `links`, shape (n_links of the usual
 * one), is the memory of its links. */
void orr_calibration_draw(const orr_calibration_draws *draws, uint32_t index, orr_link_rates *links,
                          orr_calibration *ret);

#endif /* ORR_EXPLORE_DECISION_DRAWS_H */
