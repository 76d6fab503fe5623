/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SYNTHESIS_DURATIONS_H
#define ORR_SYNTHESIS_DURATIONS_H

#include "synthesis/source.h"

/* What was measured of each class of work, as sorted samples, and values drawn from it.
 *
 * As it is, a class is a kind, a name and a quarter of an octave of the duration (of a
 * communication: its kind, the octave of its bytes and the quarter of an octave), over all sources
 * together; a value is drawn uniformly between its order statistics. The order in which classes
 * follow one another, and so autocorrelation, is that of the blocks that a job is made of.
 *
 * Obfuscated, a class is a kind alone. The share of its own source's values that a value exceeds,
 * moved at random by up to ORR_SYNTHESIS_BLUR, is kept; the value is the geometric mean of those
 * that exceed this share of each source's values: the Wasserstein barycentre of the sources'
 * distributions of log time. (Agueh, Carlier, SIAM J. Math. Anal. 43(2), 2011, section 6.1: in one
 * dimension it is the mean of the quantile functions.) No source counts more than another. */
#define ORR_SYNTHESIS_BLUR 0.1

typedef struct orr_sample {
    uint64_t key;
    int64_t value;
} orr_sample;

typedef struct orr_samples {
    const orr_sample *at; /* by key, then by value */
    size_t n;
    uint32_t n_sources;
    bool blur;
} orr_samples;

/* In the arena. Errors: NO_MEMORY. */
orr_status orr_samples_learn(const orr_source *sources, uint32_t n, bool blur, orr_arena *arena,
                             orr_samples *ret, orr_error *err) ORR_MUST_CHECK;

/* For self time or duration `was_ns` of node v of `source`; u, w: uniform in [0, 1). 0 stays 0. */
int64_t orr_samples_draw(const orr_samples *samples, uint32_t source, const orr_graph *g,
                         orr_node_id v, int64_t was_ns, double u, double w);
/* For bytes of a communication: as they are, or, obfuscated, a power of two. */
int64_t orr_samples_draw_bytes(const orr_samples *samples, uint32_t source, const orr_comm *comm,
                               int64_t was_bytes, double u, double w);

/* What a transfer took that waited for nobody: the shortest of all members that were recorded. */
int64_t orr_transfer_ns(const orr_job *job, uint32_t graph, orr_node_id v);
/* The larger of what a member gives and gets, or -1. Of a match that of its first member. */
int64_t orr_transfer_bytes(const orr_job *job, uint32_t graph, orr_node_id v);

#endif /* ORR_SYNTHESIS_DURATIONS_H */
