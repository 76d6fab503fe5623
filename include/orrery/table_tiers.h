/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TABLE_TIERS_H
#define ORR_TABLE_TIERS_H

#include <orrery/hit_rate.h>
#include <orrery/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tiers of embedding tables: which tables of a rank live in memory, which in byte-addressable
 * storage, which on a block device, and how the memory that is left is shared as a row cache.
 *
 * Letters: of a shard r rows, l lookups of a step, a record of row and optimizer state; the cache
 * has k of its rows and the hit rate h(k), of the table's curve.
 *
 *   memory   of a table in DRAM: its rows. Else 8 bytes a row and one a sector for the map, and a
 *            slot for each cached row. Never fewer slots than the rows of the batches in flight
 *   reads    l (1 - h(k)) a step, each of the sectors of one record
 *   writes   as many: a row that is evicted has been updated. In place or by sequential extents,
 *            which of both is faster; extents are written `ORR_TIER_CLEANING` times over
 *   fetch    reads and writes, each by its IOPS, bandwidth or processor time, whichever is slowest;
 *            tiers one after another. With look-ahead it runs beside the step, and what is longer
 *            than the step is a stall
 *
 * The cache goes to the rows that save most time a byte, which is the optimum where curves are
 * concave. Tables are put on tiers by all ways there are if they are few; else in several orders
 * (traffic a byte, size), of which each gives the fastest tiers to the first. More of any tier is
 * therefore never worse. */
#define ORR_TIER_SPARE 0.25 /* of a tier's rows, room for changed rows and cleaning: assumed */

typedef struct orr_tier_options {
    orr_tier_rates tier[ORR_TIERS]; /* DRAM: bytes alone count */
    uint32_t lookahead;             /* batches that are fetched ahead */
    double hidden_ns; /* of a step, beside its tables, while rows are fetched as well */
    /* shape (n_tables): hit rate of a table by its cached rows, of all lookups of a step. */
    const orr_hit_curve *curves;
    const double *pinned_rows; /* shape (n_tables): expected in flight, of all ranks */
} orr_tier_options;
struct orr_table_planner_options;
/* Curves and rows in flight of the options' tables by popularity, with the look-ahead that `ret`
 * has; in the arena. */
ORR_API ORR_MUST_CHECK orr_status orr_tier_options_fill(
    const struct orr_table_planner_options *options, orr_popularity_kind popularity,
    orr_arena *arena, orr_tier_options *ret, orr_error *err);

/* What a plan asks of one tier. */
typedef struct orr_tier_load {
    uint32_t tables;
    int64_t bytes;            /* on the rank that has most; DRAM: with map, slots and buffers */
    double reads, writes;     /* of a step, of the rank whose fetch takes longest */
    double fetch_ns;          /* of that rank */
    double next_gib_ns;       /* how much shorter the step is with a GiB more of it on every rank */
    double next_gib_fetch_ns; /* the same of the fetch, hidden or not */
    double next_gib_reads;    /* and how many reads fewer on that rank, of all tiers */
} orr_tier_load;

/* Where one table is. */
typedef struct orr_tier_choice {
    uint8_t tier;       /* orr_tier */
    double cached_rows; /* of all ranks; DRAM: all rows */
    double hit_frac;    /* of lookups */
    double reads;       /* of a step, of all ranks */
    int64_t bytes;      /* of its tier, of all ranks */
} orr_tier_choice;

typedef struct orr_tiering {
    const char *infeasible; /* NULL, or which table does not fit and what it needs; then all else
                             * is 0 */
    uint32_t infeasible_table;
    int64_t infeasible_bytes; /* of a rank, that lack at least */
    uint32_t busiest;         /* the rank whose fetch takes longest */
    double fetch_ns;          /* on it, of a step */
    double stall_ns;          /* of it, not hidden */
    double cache_bytes;       /* slots, on the rank with most */
    orr_tier_load load[ORR_TIERS];
    const orr_tier_choice *choices; /* shape (n_tables) */
} orr_tiering;

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
 * Tables are put on tiers as for training, above, but without write-back, and the cache is the
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

#endif /* ORR_TABLE_TIERS_H */
