/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOB_PRIORS_H
#define JOB_PRIORS_H

#include <orrery/calibration.h>

/* What is believed of the parameters of a calibration before any whole step is seen: from measured
 * kernels and collectives where there are any, with how sure one is; in logarithms. */

/* Parameters of the fit: those of a device type, then those of its links' technologies. */
enum {
    JOB_REDUCTION = ORR_CALIBRATION_FIELDS, /* orr_link_rates.reduction */
    JOB_PARAMETERS
};

typedef struct job_parameter {
    double prior;
    double floor;     /* the logarithm is that of the value above it */
    double low, high; /* what the fit keeps to */
    /* Standard deviations, in logarithms, of what is common to all, of an architecture's deviation
     * from it, and of a device's (or, of links, a technology's) from that. 0: none. */
    double common, architecture, device;
    double yearly; /* of the change in a year of software; 0: software does not matter */
    int better;    /* 1: software makes it larger; -1: smaller */
    const char *source;
} job_parameter;
extern const job_parameter job_parameters[JOB_PARAMETERS];
const char *job_parameter_name(int parameter);
/* Of links: shared by what has the same technology. */
bool job_parameter_is_of_links(int parameter);

/* A prior of a device, an architecture or a technology, that is known better than the usual one. */
typedef struct job_prior {
    int parameter;
    const char *of; /* name of the device or the technology, or how it begins */
    double prior;
    double spread; /* instead of `device`; 0: the usual one */
    const char *source;
} job_prior;
/* The first that is of the device or technology, or NULL. */
const job_prior *job_prior_of(int parameter, const char *name);

/* Architectures: devices whose kernels are the same. */
enum { JOB_ARCHITECTURES = 5 };
int job_architecture_of(const char *device);
/* Attention: software got better until the kernels of an architecture were written, each its own
 * (FlashAttention 2 in 2023, on the A100; 3, on the H100, in 2024). Others: all alike, until now.
 */
bool job_parameter_is_of_kernels(int parameter);
double job_year_until(int parameter, int architecture);

#endif /* JOB_PRIORS_H */
