/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/effects/multipath.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"

typedef struct deal {
    const orr_multipath_job *job;
    uint32_t *on; /* shape (paths): load; that of failed paths stays 0 */
    uint64_t balls;
    orr_random random;
} deal;

static uint32_t one_of_those_left(deal *d)
{
    return d->job->failed + (uint32_t)orr_random_below(&d->random, d->job->paths - d->job->failed);
}

static uint32_t emptiest(const deal *d)
{
    uint32_t best = d->job->failed;
    for (uint32_t path = best; path < d->job->paths; path++)
        if (d->on[path] < d->on[best])
            best = path;
    return best;
}

static uint32_t path_of(deal *d, uint64_t ball)
{
    uint32_t even;
    switch (d->job->balance) {
    case ORR_BALANCE_ADAPTIVE:
        return emptiest(d);
    case ORR_BALANCE_CENTRAL:
        even = (uint32_t)(ball % d->job->paths);
        return even >= d->job->failed ? even : one_of_those_left(d);
    default:
        return one_of_those_left(d);
    }
}

static double busiest_over_mean(deal *d)
{
    uint32_t most = 0;
    memset(d->on, 0, d->job->paths * sizeof *d->on);
    for (uint64_t ball = 0; ball < d->balls; ball++) {
        const uint32_t path = path_of(d, ball);
        if (++d->on[path] > most)
            most = d->on[path];
    }
    return most * (double)(d->job->paths - d->job->failed) / (double)d->balls;
}

static int by_value(const void *a_, const void *b_)
{
    const double a = *(const double *)a_, b = *(const double *)b_;
    return (a > b) - (a < b);
}

static uint64_t balls_of(const orr_multipath_job *job)
{
    const uint64_t queue_pairs =
        (uint64_t)job->flows * (job->queue_pairs > 0 ? job->queue_pairs : 1);
    return job->balance == ORR_BALANCE_ECMP                         ? job->flows
           : job->balance == ORR_BALANCE_SPRAY && job->segments > 0 ? queue_pairs * job->segments
                                                                    : queue_pairs;
}

orr_status orr_multipath_simulate(const orr_multipath_job *job, orr_multipath_load *ret,
                                  orr_error *err)
{
    if (job->flows == 0 || job->draws == 0 || job->paths <= job->failed)
        return orr_fail(err, ORR_INVALID, "%u flows over %u paths, %u of them down, %u draws",
                        job->flows, job->paths, job->failed, job->draws);
    deal d = {.job = job, .balls = balls_of(job)};
    double *drawn = orr_calloc(job->draws, sizeof *drawn), sum = 0;
    orr_status status = ORR_OK;
    d.on = orr_calloc(job->paths, sizeof *d.on);
    if (drawn == NULL || d.on == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t i = 0; i < job->draws; i++) {
        d.random = orr_random_of(job->seed, i);
        sum += drawn[i] = busiest_over_mean(&d);
    }
    qsort(drawn, job->draws, sizeof *drawn, by_value);
    *ret = (orr_multipath_load){.mean = sum / job->draws,
                                .median = drawn[job->draws / 2],
                                .p99 = drawn[(uint64_t)job->draws * 99 / 100]};
out:
    orr_free(drawn);
    orr_free(d.on);
    return status;
}
