/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_FIT_SAMPLES_H
#define ORR_COST_FIT_SAMPLES_H

#include <orrery/fit.h>

#include "base/array.h"
#include "base/strtab.h"

/* What the readers of samples share. */
struct orr_samples {
    orr_array(orr_cost_sample) rows;
    orr_array(const char *) sources; /* last parts of paths, as added */
    orr_strtab *names;               /* texts of rows and sources; they never move */
};

/* Adds a sample with its texts copied and its work completed. Rows of unknown work are counted
 * in report->without_work instead, rows of an impossible time in without_time. */
orr_status orr_samples_add(orr_samples *samples, const orr_cost_sample *sample,
                           orr_samples_report *report, orr_error *err) ORR_MUST_CHECK;
orr_status orr_samples_add_source(orr_samples *samples, const char *path,
                                  orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_COST_FIT_SAMPLES_H */
