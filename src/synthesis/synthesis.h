/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SYNTHESIS_SYNTHESIS_H
#define ORR_SYNTHESIS_SYNTHESIS_H

#include <orrery/sim.h>

#include "synthesis/source.h"
#include "synthesis/walk.h"

/* Jobs like recorded ones: learnt from one or several recorded jobs (sources), drawn by a seed,
 * simulated, and compared with each source. The same sources, options and seed give the same job
 * for any number of threads. */
enum { ORR_SYNTHESIS_RANKS = 4096 };

typedef struct orr_synthesis_options {
    uint64_t seed;
    uint32_t n_ranks;       /* 0: as many as the source had that it follows, recorded or not;
                             * obfuscated: as the source with the most */
    uint32_t n_steps;       /* 0: as orr_walk_draw() says */
    bool obfuscate;         /* durations.h, walk.h and emit_comm.h say what is done */
    const char *annotation; /* prefix of what bounds a step */
    uint32_t threads;       /* 0: one per core */
} orr_synthesis_options;

typedef struct orr_synthesis {
    const orr_source *sources; /* shape (n_sources), learnt */
    uint32_t n_sources;
    orr_walk walk;
    const orr_job *job; /* as simulated, all times set; what is to be written */
    /* Below: what the job refers to. */
    const orr_job *draft;
    orr_simulation simulation;
    const char *annotation;
    uint32_t threads;
} orr_synthesis;

/* `sources`: shape (n), must outlive the result. In the arena, but for jobs: free with
 * orr_synthesis_free(), also after an error. Errors: INVALID: no source, a source without times, a
 * number of ranks that its communications do not allow; LIMIT, NO_MEMORY. */
orr_status orr_synthesize(const orr_job *const *sources, uint32_t n,
                          const orr_synthesis_options *options, orr_arena *arena,
                          orr_synthesis *ret, orr_error *err) ORR_MUST_CHECK;
void orr_synthesis_free(orr_synthesis *synthesis); /* zeroed is allowed */

/* A source beside the generated job, both as simulated. NAN: nothing to compare. */
typedef struct orr_synthesis_row {
    uint32_t source;   /* number of the source, from 1 */
    const char *name;  /* as given to orr_synthesis_compare() */
    bool followed;     /* the job begins in it */
    double share_frac; /* of the job's time that was taken from it */
    uint32_t ranks, synthetic_ranks, steps, synthetic_steps;
    int64_t step_ns, synthetic_step_ns; /* span over number of steps */
    double step_error_frac;
    double exposed_frac,
        synthetic_exposed_frac; /* exposed communication of the span, mean of ranks */
    double exposed_difference_frac;
} orr_synthesis_row;

/* The same by kind of work. */
typedef struct orr_distribution_row {
    uint32_t source;
    const char *what;              /* "host operator", "kernel"... */
    double count, synthetic_count; /* a rank and step */
    int64_t median_ns, synthetic_median_ns;
    double ks;                  /* Kolmogorov-Smirnov distance of the durations */
    double quantile_error_frac; /* mean over 5, 10 ... 95 %: exp(|log ratio|) - 1 */
    double autocorrelation;     /* of log durations in order of starts, at lag 1 */
    double synthetic_autocorrelation;
    double autocorrelation_difference; /* the largest over lags 1 to 16 */
} orr_distribution_row;

typedef struct orr_synthesis_comparison {
    const orr_synthesis_row *rows;
    size_t n_rows;
    const orr_distribution_row *distributions;
    size_t n_distributions;
} orr_synthesis_comparison;

/* `names`: shape (n_sources). In the arena. Errors: NO_MEMORY, and those of orr_simulate(). */
orr_status orr_synthesis_compare(const orr_synthesis *synthesis, const char *const *names,
                                 orr_arena *arena, orr_synthesis_comparison *ret,
                                 orr_error *err) ORR_MUST_CHECK;

/* Largest difference of the autocorrelations at lags 1 to 16; *ret_first, *ret_second: at lag 1
 * (may be NULL). NAN where a series is too short or constant. Series: durations, shape (n). */
double orr_autocorrelation_difference(const int64_t *first, size_t n_first, const int64_t *second,
                                      size_t n_second, double *ret_first, double *ret_second);
/* Kolmogorov-Smirnov distance of two samples in ascending order; NAN where one is empty. */
double orr_ks_distance(const int64_t *first, size_t n_first, const int64_t *second,
                       size_t n_second);

#endif /* ORR_SYNTHESIS_SYNTHESIS_H */
