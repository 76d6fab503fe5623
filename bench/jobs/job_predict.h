/* SPDX-License-Identifier: Apache-2.0 */
#ifndef JOB_PREDICT_H
#define JOB_PREDICT_H

#include <orrery/outcome.h>

#include "job_tables.h"

/* Predictions of cases. */
typedef struct job_prediction {
    double seconds;       /* NAN: could not be predicted */
    double low_s, high_s; /* 90 % interval; NAN         */
    double memory_gib;    /* of the worst stage: allocated, or reserved where the row has that */
    double missing_gib;   /* 0: it fits, or is not predicted */
    int64_t waterfall_ns[ORR_WATERFALLS];
    char reason[512]; /* why it could not be, as orr_error has it; "": it could */
} job_prediction;

enum { JOB_DEVICES_MOST = 24 };
typedef struct job_device {
    const orr_device *device;
    orr_calibration calibration;
    size_t n_cases, n_fitted;
    const char *said_to_rest_on; /* for the file */
} job_device;
typedef struct job_world {
    orr_arena *arena;
    const orr_catalog *catalog;
    job_device devices[JOB_DEVICES_MOST]; /* that cases run on */
    size_t n_devices;
    int threads;
} job_world;

/* Devices of the cases with their calibrations, from `folder` where it has a file, else built in.
 */
orr_status job_world_open(const job_cases *cases, const char *folder, orr_arena *arena,
                          job_world *ret, orr_error *err);
job_device *job_device_of(job_world *world, const job_case *c);
/* What kind of job a case is; ORR_JOB_KINDS: a kernel. */
orr_job_kind job_kind_of(const job_case *c);
/* One case, with a calibration of one's own. */
void job_predict(const job_world *world, const job_case *c, const orr_calibration *calibration,
                 job_prediction *ret);
/* All of them, each with the calibration of its device. `ret`: shape (n). */
orr_status job_predict_all(const job_world *world, const job_cases *cases, job_prediction *ret,
                           orr_error *err);

#endif /* JOB_PREDICT_H */
