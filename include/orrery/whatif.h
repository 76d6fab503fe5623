/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WHATIF_H
#define ORR_WHATIF_H

#include <orrery/sim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What if: the same job under other conditions, as an ensemble with other durations. The switches
 * combine; each is applied to what those above it left. What concerns the host, latencies and
 * overlap is not here but in orr_sim_options.
 *
 * A kernel on another device takes its recorded duration times the ratio of what the cost chain
 * says for the two devices, so that what the model gets wrong of both cancels. */
typedef struct orr_name_factor {
    const char *name; /* kernels and collectives whose name holds this... */
    double factor;    /* ... take this many times as long; 0: none        */
} orr_name_factor;

typedef struct orr_rank_factor {
    uint32_t rank;
    double factor; /* of device work */
} orr_rank_factor;

typedef struct orr_whatif {
    size_t struct_bytes;         /* set by orr_whatif_init()                              */
    const orr_cost_chain *chain; /* default: roofline, then assumed                       */
    const orr_device *from, *to; /* the recording's device and another; NULL: as recorded */
    double batch;                /* of the batch; 1. Scales activations: what an optimizer does and
                                  * collectives that carry weights or gradients stay (all-reduce,
                                  * all-gather, reduce-scatter: assumed data parallel)      */
    const orr_cluster *network;  /* communication priced on it; NULL: as recorded         */
    uint8_t algorithm;           /* orr_algorithm                                         */
    double message_bytes;        /* messages are so many times as large; 1. Without `network`
                                  * the recorded time is scaled alike: bandwidth bound, assumed */
    const orr_name_factor *scales; /* shape (n_scales)                                      */
    uint32_t n_scales;
    const orr_rank_factor *stragglers; /* shape (n_stragglers)                              */
    uint32_t n_stragglers;
} orr_whatif;
ORR_API void orr_whatif_init(orr_whatif *what);

/* What was changed, and what could not be. Counts are of nodes of distinct graphs. */
typedef struct orr_whatif_report {
    uint64_t repriced; /* kernels by the ratio of prices of their own work            */
    uint64_t
        by_bandwidth;  /* kernels of which nothing is known: by the ratio of memory bandwidths */
    uint64_t unpriced; /* kernels left as recorded, since the devices' facts do not suffice */
    uint64_t comms_priced, comms_unpriced; /* communications priced; of unknown size or members */
    uint64_t scaled;                       /* by name */
    int64_t changed_ns;      /* what repriced kernels and priced communication take now...       */
    int64_t known_ns;        /* ... of it by models whose error was measured...                   */
    double known_error_ns;   /* ... and how far off these are on average: sum of ns x error      */
    uint32_t unused_scale;   /* the first of the names that no kernel holds, or ORR_NONE    */
    uint32_t idle_straggler; /* the first straggler without device work, whom nothing slows, or
                                ORR_NONE */
} orr_whatif_report;

/* Errors: INVALID: factors that are negative or not numbers, a straggler that is not in the
 * job, a group that the network cannot hold; NO_MEMORY. */
ORR_API ORR_MUST_CHECK orr_status orr_whatif_apply(const orr_ensemble *ensemble,
                                                   const orr_whatif *what, orr_arena *arena,
                                                   const orr_ensemble **ret,
                                                   orr_whatif_report *ret_report, orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_WHATIF_H */
