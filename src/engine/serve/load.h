/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_SERVE_LOAD_H
#define ORR_ENGINE_SERVE_LOAD_H

#include "engine/data/clicks.h"
#include "engine/serve/scorer.h"

/* An open-loop load: requests arrive by a schedule that does not ask how the last one went, as a
 * Poisson process of a given rate, drawn from a seed. A latency counts from the arrival by the
 * schedule, not from when somebody had time for it, so that a server that is too slow shows it (no
 * coordinated omission; Tene, "How NOT to Measure Latency", 2013). */
typedef struct orr_load_options {
    double rate;    /* requests a second, > 0 */
    uint64_t seed;  /* of arrivals */
    uint64_t count; /* requests, at most ORR_LOAD_MAX; */
    /* And no arrivals from then on; 0: no such end. What has not begun within twice that, and 5 s,
     * is not asked any more: `missed`. */
    int64_t for_ns;
    int64_t samples; /* of a request */
    const orr_click_data *clicks;
    orr_scorer *scorer;
    /* Or a server that is asked, and its model: each thread by a connection of its own, without
     * waiting for one answer before it asks again. */
    const char *address;
    const orr_dlrm *model;
    uint32_t threads;
    bool (*stopped)(void *ctx); /* asked from time to time; or NULL */
    void *ctx;
} orr_load_options;
enum { ORR_LOAD_MAX = 100000000 };

typedef struct orr_load_result {
    uint64_t answered, samples;
    uint64_t refused; /* of a server: answers other than 200 */
    uint64_t missed;  /* arrivals that nobody had time for */
    int64_t ns;       /* from the first arrival's schedule to the last answer */
    double rate;      /* answers a second of it */
    int64_t mean_ns, p50_ns, p99_ns, p999_ns, most_ns;
} orr_load_result;
/* Stopped: what there is. Errors: those of scoring; LIMIT: too many requests; IO: the server is no
 * more, or has not answered anything for a minute. */
orr_status orr_load_run(const orr_load_options *options, orr_load_result *ret,
                        orr_error *err) ORR_MUST_CHECK;

/* --- for the files of this folder ------------------------------------------------------------ */

/* The schedule: arrival k, in ns from the beginning, called for k = 0, 1, ... */
typedef struct orr_arrivals {
    orr_random random;
    double rate, at_ns;
} orr_arrivals;
orr_arrivals orr_arrivals_of(double rate, uint64_t seed);
int64_t orr_arrivals_next(orr_arrivals *arrivals);
/* Sorts latencies, shape (n), and fills in what is made of them. A quantile is the smallest latency
 * that so many are not above (nearest rank). */
void orr_load_summarize(int64_t *latencies, size_t n, orr_load_result *ret);

#endif /* ORR_ENGINE_SERVE_LOAD_H */
