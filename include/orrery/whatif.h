/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_WHATIF_H
#define ORR_WHATIF_H

#include <orrery/sim.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What-if analysis: the same job under other conditions, as an ensemble with other durations. The
 * switches combine; each applies to the result of those above it. Changes of host, latencies and
 * overlap are in orr_sim_options instead.
 *
 * A kernel on another device takes its recorded duration times the ratio of the cost chain's
 * predictions for both devices, so that common errors of the model cancel. */
typedef struct orr_name_factor {
    const char *name; /* kernels and collectives whose name contains this; "comm:KIND@GROUP":
                       * communications of that kind ("all_reduce") in that process group, or
                       * without "@GROUP" in any; "host:NAME": what threads do in operators, calls
                       * and annotations whose name contains NAME, and in all nested in them... */
    double factor;    /* ... take this many times as long; 0: no time, and a call on the host then
                       * waits for no device */
} orr_name_factor;

typedef struct orr_rank_factor {
    uint32_t rank;
    double factor; /* on device work */
} orr_rank_factor;

typedef struct orr_whatif {
    size_t struct_bytes;           /* set by orr_whatif_init()                              */
    const orr_cost_chain *chain;   /* default: roofline, then assumed */
    const orr_device *from, *to;   /* the recording's device and another; NULL: as recorded */
    double batch;                  /* factor on the batch; 1. Scales activations; the optimizer's
                                    * work and collectives that carry weights or gradients stay
                                    * (all-reduce, all-gather, reduce-scatter: assumed data
                                    * parallel) */
    const orr_cluster *network;    /* communication runs on it; NULL: as recorded */
    uint8_t algorithm;             /* orr_algorithm */
    double message_bytes;          /* factor on message sizes; 1. Without `network` the recorded
                                    * time is scaled by it: bound by bandwidth, assumed */
    const orr_name_factor *scales; /* shape (n_scales)                                      */
    uint32_t n_scales;
    const orr_rank_factor *stragglers; /* shape (n_stragglers)                              */
    uint32_t n_stragglers;
    const orr_cluster *recorded_network; /* where it was recorded; NULL: not known. A transfer takes
                                          * its recorded time x price on `network` / price here,
                                          * else the price on `network` alone */
    const orr_ensemble
        *recorded;                      /* of the same graphs on the ranks that were recorded
                                         * (orr_rescaled.recorded_ensemble); NULL: the ensemble is the recording */
    const uint32_t *without_stragglers; /* shape (n_without_stragglers): operators and kernels of
                                         * these ranks take what the same ones take on the others,
                                         * by the median; all ranks: on all. Source: arXiv
                                         * 2505.05713 */
    uint32_t n_without_stragglers;
} orr_whatif;
ORR_API void orr_whatif_init(orr_whatif *what);

/* What was changed, and what could not be. Counts are of nodes of distinct graphs. */
typedef struct orr_whatif_report {
    uint64_t repriced;     /* kernels scaled by the ratio of prices of their own work */
    uint64_t by_bandwidth; /* kernels of unknown work: scaled by the ratio of memory bandwidths */
    uint64_t unpriced;     /* kernels left as recorded, since facts of the devices are missing */
    uint64_t comms[ORR_TRANSFER_BASES]; /* communications on `network`, or of other ranks than were
                                         * recorded, by what their length rests on... */
    int64_t comms_recorded_ns[ORR_TRANSFER_BASES],
        comms_ns[ORR_TRANSFER_BASES]; /* ... their time
                                       * as recorded, and now */
    uint64_t scaled;                  /* scaled by name */
    int64_t changed_ns;      /* time of repriced kernels and priced communications now... */
    int64_t known_ns;        /* ... the part by models whose error was measured... */
    double known_error_ns;   /* ... and the expected error of that part: sum of ns x error */
    uint32_t unused_scale;   /* the first name that no kernel contains, or ORR_NONE */
    uint32_t idle_straggler; /* the first straggler without device work to slow down, or ORR_NONE */
    uint64_t evened;         /* operations that take what others' do */
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
