/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TABLE_SERVING_H
#define ORR_TABLE_SERVING_H

#include <orrery/model.h>
#include <orrery/table_planner.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A host that serves a recommendation model, in closed form: samples a second, latency and power,
 * with rows in memory, in byte-addressable storage and on drives.
 *
 * Each resource allows so many samples a second; the least is what the host can do at most:
 *
 *   processor   cores / (lookups x row + dense FLOPs / core + rows read x request)
 *   memory      bandwidth / bytes of the rows that are looked up, in lines of 64
 *   byte, block requests and bytes that the tier can read / rows that miss the cache
 *   network     bandwidth / (ids, dense features, a probability)
 *
 * Tables are put on tiers as for training (table_tiers.h), without write-back, and the cache is the
 * static optimum of the popularity of rows. */

/* Constants of a host that catalogues do not say. */
#define ORR_SERVING_CORES 56 /* of a socket: those of spr_xeon_56c; of others assumed */
#define ORR_SERVING_ROW_NS                                                                         \
    78.0 /* of a core, a looked up row: embedding_bag of PyTorch, one thread                       \
          * of a Xeon, 12.8 M rows of 64 fp32 a second (measured) */
#define ORR_SERVING_CORE_FLOPS 1e11 /* of a core in dense layers, fp32: assumed */
#define ORR_SERVING_REST_W     100. /* board, fans, adapter: assumed */
#define ORR_SERVING_LOAD_FRAC  0.7  /* of the most that the host can do: where it is run: assumed */

#define ORR_SERVING_LIMIT_MAP(X)                                                                   \
    X(PROCESSOR, "processor")                                                                      \
    X(MEMORY, "memory") X(BYTE, "byte tier") X(BLOCK, "block tier") X(NETWORK, "network")
typedef enum orr_serving_limit {
#define ORR_SERVING_LIMIT_ENUM_(name, text) ORR_SERVING_##name,
    ORR_SERVING_LIMIT_MAP(ORR_SERVING_LIMIT_ENUM_)
#undef ORR_SERVING_LIMIT_ENUM_
        ORR_SERVING_LIMITS
} orr_serving_limit;
ORR_API const char *orr_serving_limit_name(orr_serving_limit limit);

typedef struct orr_host_serving_question {
    const orr_model *model;     /* with tables */
    const orr_cluster *cluster; /* one host of it */
    const orr_tier_rates
        *tiers;          /* shape (ORR_TIERS), of the host; NULL: as the catalogue has them */
    uint8_t popularity;  /* orr_popularity_kind */
    double usd_per_hour; /* of a host; 0: not said */
} orr_host_serving_question;

typedef struct orr_host_serving {
    const char *infeasible;           /* NULL, or why the tables do not fit; then all else is 0 */
    double samples_per_s;             /* at ORR_SERVING_LOAD_FRAC of the least limit */
    uint8_t bound_by;                 /* orr_serving_limit */
    double limit[ORR_SERVING_LIMITS]; /* samples a second; INFINITY: does not limit */
    double hit_frac;                  /* of lookups: in memory or in the row cache */
    double lookups, reads[ORR_TIERS]; /* of a sample */
    double latency_ns; /* mean, of a sample by itself among others: queues as M/M/1 (assumed) */
    double power_w, idle_w;
    double joules_per_1k, usd_per_million; /* of samples; 0: no price */
    orr_tiering tiering;
    orr_tier_rates tier[ORR_TIERS];
} orr_host_serving;
/* INVALID: a model without tables, a host whose devices are no processors, memory of a size that
 * nobody says, drives whose rates nobody says. */
ORR_API ORR_MUST_CHECK orr_status orr_host_serving_of(const orr_host_serving_question *question,
                                                      orr_arena *arena, orr_host_serving *ret,
                                                      orr_error *err);

#ifdef __cplusplus
}
#endif

#endif /* ORR_TABLE_SERVING_H */
