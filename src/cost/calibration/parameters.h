/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_COST_CALIBRATION_PARAMETERS_H
#define ORR_COST_CALIBRATION_PARAMETERS_H

#include <orrery/calibration.h>

/* A parameter of a calibration: where it is, and what is physically possible. */
typedef struct orr_calibration_range {
    const char *name;
    size_t offset; /* in orr_calibration */
    double low, high;
} orr_calibration_range;
extern const orr_calibration_range orr_calibration_ranges[ORR_CALIBRATION_FIELDS];

static inline double *orr_calibration_number(orr_calibration *c, int field)
{
    return (double *)((char *)c + orr_calibration_ranges[field].offset);
}

/* A year of software as calibrations know it: 0 is the newest, one outside the nearest. */
double orr_software_year(double year);
/* Value of a parameter with software of a year, within what is possible. */
double orr_calibration_value_in(const orr_calibration_parameter *parameter,
                                const orr_calibration_range *range, double year);

#endif /* ORR_COST_CALIBRATION_PARAMETERS_H */
