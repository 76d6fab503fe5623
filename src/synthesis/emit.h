/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SYNTHESIS_EMIT_H
#define ORR_SYNTHESIS_EMIT_H

#include "synthesis/durations.h"
#include "synthesis/walk.h"

/* One rank of a generated job, before it is simulated: blocks one after the other, each with the
 * times that it has in its recording, so that who waits for whom can be told as in a recording; and
 * beside it the durations that are to be simulated instead. */
typedef struct orr_emission {
    const orr_source *sources; /* shape (n) */
    uint32_t n, n_ranks;
    const orr_walk *walk;
    const orr_samples *samples;
    uint64_t seed;
    bool obfuscate;
} orr_emission;

/* Dependencies that lead out of a block lead to what last ran on the same thread or stream.
 * ret_duration_ns: shape (N), in the arena. Free the graph with orr_graph_free(). Errors: LIMIT,
 * NO_MEMORY. */
orr_status orr_emit_rank(const orr_emission *emission, uint32_t rank, orr_arena *arena,
                         const orr_graph **ret, const int64_t **ret_duration_ns,
                         orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SYNTHESIS_EMIT_H */
