/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_REPORT_TRAINING_CHART_H
#define ORR_REPORT_TRAINING_CHART_H

#include "report/page/page.h"

/* Curves over the steps of a training, in one picture with its frame and legend. Where there are
 * more steps than a picture has room for, a point is the mean of some. */
typedef struct orr_step_curve {
    const char *name, *class; /* class: its colour, of the style sheet */
    const double *value;      /* shape (steps); NAN: not known */
} orr_step_curve;
typedef struct orr_step_chart {
    const char *title, *note;
    const orr_step_curve *curves; /* shape (n) */
    uint32_t n;
    int64_t first_step, steps;
    double least, most;                                /* of the vertical axis */
    const char *(*format)(char ret[64], double value); /* of its numbers */
} orr_step_chart;
void orr_step_chart_put(orr_output *out, const orr_step_chart *chart);

#endif /* ORR_REPORT_TRAINING_CHART_H */
