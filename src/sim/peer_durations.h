/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_SIM_PEER_DURATIONS_H
#define ORR_SIM_PEER_DURATIONS_H

#include <orrery/ensemble.h>

/* What an operation would take if its rank were like its peers: the what-if without stragglers
 * (Lin et al., "Understanding Stragglers in Large Model Training Using What-if Analysis", arXiv
 * 2505.05713), on operators and kernels in place of whole passes.
 *
 * Operations correspond over ranks where kind, name and number within the rank (by start) are
 * equal, and the ranks have as many of that kind and name. Of host operators their own time counts,
 * without that of what is nested in them; what waits (for a device, for a peer) is not compared,
 * and communications take the shortest of their members as they are. */
typedef struct orr_peer_operation {
    uint64_t key;     /* of kind and name... */
    uint32_t count;   /* ... so often in its graph */
    uint32_t ordinal; /* 0 <= ordinal < count */
    uint32_t graph;
    orr_node_id node;
    int64_t own_ns;
} orr_peer_operation;
typedef struct orr_peer_operations {
    const orr_peer_operation *at; /* shape (n), operations that correspond side by side */
    size_t n;
} orr_peer_operations;

/* In the arena. Errors: NO_MEMORY. */
orr_status orr_peer_operations_find(const orr_ensemble *ensemble, orr_arena *arena,
                                    orr_peer_operations *ret, orr_error *err) ORR_MUST_CHECK;
/* Operations of the chosen graphs, shape (D), take the median over the graphs that are not chosen;
 * where all are, over all. Those without a peer stay. `duration_ns`: shape (D)(N_d). Returns the
 * number of operations that changed. Errors: NO_MEMORY. */
orr_status orr_peer_durations_set(const orr_peer_operations *operations,
                                  const orr_ensemble *ensemble, const bool *chosen,
                                  orr_arena *scratch, int64_t *const *duration_ns,
                                  uint64_t *ret_changed, orr_error *err) ORR_MUST_CHECK;
/* What a graph takes above its peers. */
enum { ORR_PEER_WORST = 3 };
typedef struct orr_peer_excess {
    int64_t ns;                        /* may be negative */
    uint64_t operations;               /* compared */
    orr_node_id worst[ORR_PEER_WORST]; /* those with most, most first... */
    int64_t worst_ns[ORR_PEER_WORST];  /* ... 0: there are no more */
} orr_peer_excess;
/* Own times above that median, summed over operations that have a peer, shape (D). `chosen` NULL:
 * of each graph, above the median of all others. Errors: NO_MEMORY. */
orr_status orr_peer_excess_find(const orr_peer_operations *operations, const orr_ensemble *ensemble,
                                const bool *chosen, orr_arena *scratch, orr_peer_excess *excess,
                                orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_SIM_PEER_DURATIONS_H */
