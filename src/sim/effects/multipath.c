/* SPDX-License-Identifier: Apache-2.0 */
#include "sim/effects/multipath.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/philox.h"

enum { MANY_BALLS = 1 << 14 };

static uint64_t balls_of(const orr_multipath_job *job)
{
    const uint64_t queue_pairs =
        (uint64_t)job->flows * (job->queue_pairs > 0 ? job->queue_pairs : 1);
    return job->balance == ORR_BALANCE_ECMP                         ? job->flows
           : job->balance == ORR_BALANCE_SPRAY && job->segments > 0 ? queue_pairs * job->segments
                                                                    : queue_pairs;
}

/* A normal number: Box and Muller, "A note on the generation of random normal deviates", 1958. */
static double normal(orr_random *random)
{
    const double radius = sqrt(-2 * log(1 - orr_random_unit(random)));
    return radius * cos(2 * M_PI * orr_random_unit(random));
}

static uint64_t binomial(orr_random *random, uint64_t n, double p)
{
    const double mean = (double)n * p;
    const double x = round(mean + sqrt(mean * (1 - p)) * normal(random));
    return x <= 0 ? 0 : x >= (double)n ? n : (uint64_t)x;
}

/* Throws balls onto the paths that work, each with the same chance. */
static void throw_balls(const orr_multipath_job *job, uint64_t balls, orr_random *random,
                        uint64_t *on)
{
    uint32_t first = job->failed;
    for (; balls >= MANY_BALLS && first + 1 < job->paths; first++) {
        const uint64_t here = binomial(random, balls, 1.0 / (job->paths - first));
        on[first] += here;
        balls -= here;
    }
    if (first + 1 == job->paths) {
        on[first] += balls;
        return;
    }
    for (; balls > 0; balls--)
        on[first + orr_random_below(random, job->paths - first)]++;
}

uint64_t orr_multipath_deal(const orr_multipath_job *job, uint64_t draw, uint64_t *on)
{
    const uint64_t balls = balls_of(job);
    const uint32_t left = job->paths - job->failed;
    const uint32_t over = job->balance == ORR_BALANCE_CENTRAL ? job->paths : left;
    orr_random random = orr_random_of(job->seed, draw);
    uint64_t placed = 0;
    memset(on, 0, job->paths * sizeof *on);
    /* a ball on the emptiest path, one after another, is an even distribution */
    if (job->balance == ORR_BALANCE_ADAPTIVE || job->balance == ORR_BALANCE_CENTRAL)
        for (uint32_t path = job->failed; path < job->paths; path++) {
            const uint32_t place = job->balance == ORR_BALANCE_CENTRAL ? path : path - job->failed;
            placed += on[path] = balls / over + (place < balls % over);
        }
    throw_balls(job, balls - placed, &random, on);
    return balls;
}

static double busiest_over_mean(const orr_multipath_job *job, uint64_t draw, uint64_t *on)
{
    const uint64_t balls = orr_multipath_deal(job, draw, on);
    uint64_t most = 0;
    for (uint32_t path = 0; path < job->paths; path++)
        most = on[path] > most ? on[path] : most;
    return (double)most * (double)(job->paths - job->failed) / (double)balls;
}

static int by_value(const void *a_, const void *b_)
{
    const double a = *(const double *)a_, b = *(const double *)b_;
    return (a > b) - (a < b);
}

orr_status orr_multipath_simulate(const orr_multipath_job *job, orr_multipath_load *ret,
                                  orr_error *err)
{
    if (job->flows == 0 || job->draws == 0 || job->paths <= job->failed)
        return orr_fail(err, ORR_INVALID, "%u flows over %u paths, %u of them down, %u draws",
                        job->flows, job->paths, job->failed, job->draws);
    double *drawn = orr_calloc(job->draws, sizeof *drawn), sum = 0;
    orr_status status = ORR_OK;
    uint64_t *on = orr_calloc(job->paths, sizeof *on);
    if (drawn == NULL || on == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (uint32_t i = 0; i < job->draws; i++)
        sum += drawn[i] = busiest_over_mean(job, i, on);
    qsort(drawn, job->draws, sizeof *drawn, by_value);
    *ret = (orr_multipath_load){.mean = sum / job->draws,
                                .median = drawn[job->draws / 2],
                                .p99 = drawn[(uint64_t)job->draws * 99 / 100]};
out:
    orr_free(drawn);
    orr_free(on);
    return status;
}
