/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_TABLE_PLANNER_H
#define ORR_TABLE_PLANNER_H

#include <orrery/calibration.h>
#include <orrery/embedding.h>
#include <orrery/table_tiers.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Planner of embedding tables: the sharding plan that minimises the time which the tables add to a
 * training step, under the memory of every rank, with a proven lower bound of it.
 *
 * Letters: R ranks, n samples of a rank in a step, B = n R; of a table L lookups of a sample, D
 * columns, d distinct rows that a step looks up. A shard has the share p of the lookups (its share
 * of the rows where nothing else is known) and C of the columns; it sends v vectors of each bag.
 *
 *   ids        8 B L p bytes to the rank of the shard; hidden where plans are pipelined by 2
 *   lookup     d p rows read from memory, B L p - d p again from caches or, where they miss,
 *              memory; B v vectors written
 *   bags       B v vectors of C numbers to the ranks of samples, in the format of the plan
 *   gradients  B vectors of C numbers to the rank of the shard
 *   update     B L p lookups sorted, their gradients of C numbers summed by row, likewise from
 *              caches or memory; d p records read and written; squares of parts of rows exchanged
 *   join       v vectors of D numbers added up for each bag, by the rank of the sample
 *
 * A DATA table looks its n L rows up on the spot; ids and gradients of all B samples go to every
 * rank, and each makes the whole update. Costs of shards on a rank add up; the step waits for the
 * busiest rank. What every rank pays alike for a table (join; all of DATA) is its shared cost:
 *
 *   step = shared costs of all tables + most of any rank's shards + latencies of the exchanges  */

/* Rates of a machine, as prices of tables need them. */
typedef struct orr_table_costs {
    double memory_bytes_per_s; /* of rows at random places, of one rank */
    double cache_bytes_per_s;  /* of rows and vectors that were touched just before */
    double cache_bytes;        /* 0: caches hold all that is touched twice */
    double sector_bytes;       /* the least that memory reads or writes at once; 0: one byte */
    double lookup_ns, row_ns;  /* a lookup, an updated row: beside their bytes */
    double sort_ns;            /* a lookup, sorted by row for the update */
    double shard_ns;           /* a shard in a step, beside its lookups: kernel launches */
    double
        miss_frac; /* of repeated lookups, go to memory; with `cache_bytes` the planner sets it */
    /* All-to-all over all ranks: of all that a rank sends, to itself too; all-gather: of all that a
     * rank receives. */
    double exchange_ns, exchange_bytes_per_s;
    double gather_ns, gather_bytes_per_s;
    /* Where sums of rows within a host (TABLE_ROW, GRID) are joined in the host before they go to
     * other hosts: its reduce-scatter. 0: they go to the samples' ranks as they are. */
    double host_ns, host_bytes_per_s;
    const char *source; /* "h100_sxm_80g, calibrated"; a machine file */
} orr_table_costs;
/* Rates of `ranks` devices of a cluster, by its calibration (`include/orrery/calibration.h`); the
 * ranks of a host in *ret_host_ranks, the source in the arena. INVALID: more ranks than devices. */
ORR_API ORR_MUST_CHECK orr_status orr_table_costs_of_cluster(
    const orr_cluster *cluster, const orr_calibration *calibration, uint32_t ranks,
    orr_arena *arena, orr_table_costs *ret, uint32_t *ret_host_ranks, orr_error *err);

/* Whose terms a plan is priced by. */
#define ORR_TABLE_PRICING_MAP(X)                                                                   \
    X(STAGES, "stages")     /* the stages above */                                                 \
    X(TORCHREC, "torchrec") /* TorchRec's EmbeddingPerfEstimator: `orr_torchrec_topology` */
typedef enum orr_table_pricing {
#define ORR_TABLE_PRICING_ENUM_(name, text) ORR_TABLE_PRICING_##name,
    ORR_TABLE_PRICING_MAP(ORR_TABLE_PRICING_ENUM_)
#undef ORR_TABLE_PRICING_ENUM_
        ORR_TABLE_PRICINGS
} orr_table_pricing;
ORR_API const char *orr_table_pricing_name(orr_table_pricing pricing);

/* Rates of TorchRec's Topology, bytes/s. orr_torchrec_topology_init(): its defaults. */
typedef struct orr_torchrec_topology {
    double hbm_bytes_per_s, ddr_bytes_per_s;
    double intra_host_bytes_per_s, inter_host_bytes_per_s;
    double backward_factor; /* backward compute over forward */
    bool cpu;               /* compute device; else CUDA */
} orr_torchrec_topology;
ORR_API void orr_torchrec_topology_init(orr_torchrec_topology *ret);

typedef struct orr_table_planner_options {
    size_t struct_bytes; /* set by orr_table_planner_options_init() */
    const orr_embedding *tables;
    uint32_t n_tables;
    uint32_t ranks, host_ranks; /* of one group; host_ranks 0: all are one host */
    int64_t samples;            /* of a rank in a step */
    int64_t memory_bytes;       /* of a rank, for tables and their buffers; 0: no limit */
    orr_table_costs costs;
    const double *distinct; /* shape (n_tables): d; NULL: as if all rows were equally likely */
    /* shape (n_tables, ORR_EMBEDDING_RANGES): share of a table's lookups in each range of rows;
     * NULL: even. */
    const float *range_share;
    const uint8_t *kinds; /* shape (n_tables): kinds that a table may have, bit k for kind k; NULL:
                           * all of them */
    uint8_t forward, backward, pipeline; /* of the plan: orr_embedding_codec; batches ahead */
    uint8_t pricing;                     /* orr_table_pricing */
    orr_torchrec_topology torchrec;
    uint64_t nodes;   /* of the branch and bound, at most; default 20,000 */
    int64_t limit_ns; /* time limit, which ends the search early; 0: none. Without one, equal
                       * questions have equal answers */
    double gap_frac;  /* relative gap that ends the search; default 0.001 */
    /* Shards are exchanged for stages that are balanced (`synchronous_ns` of the result) as long as
     * the busiest rank takes no longer than the bound and this share of it; default 0.008 */
    double balance_frac;
    uint64_t seed;
    const volatile bool *stop; /* once it is true the search ends with the best plan so far; NULL:
                                * nobody asks */
    /* Tiers of a rank beside its memory, whose bytes are then those of DRAM here; NULL: all rows
     * are in memory. */
    const orr_tier_options *tiers;
    const double *fetch_ns; /* shape (n_tables): of a distinct row of a step, beside what the costs
                             * say: what its tier takes. NULL: nothing */
} orr_table_planner_options;
ORR_API void orr_table_planner_options_init(orr_table_planner_options *options);

/* Parts of a rank's time. */
#define ORR_TABLE_STAGE_MAP(X)                                                                     \
    X(IDS, "ids")                                                                                  \
    X(LOOKUP, "lookup") X(BAGS, "bags") X(GRADIENTS, "gradients") X(UPDATE, "update")
typedef enum orr_table_stage {
#define ORR_TABLE_STAGE_ENUM_(name, text) ORR_TABLE_STAGE_##name,
    ORR_TABLE_STAGE_MAP(ORR_TABLE_STAGE_ENUM_)
#undef ORR_TABLE_STAGE_ENUM_
        ORR_TABLE_STAGES
} orr_table_stage;
ORR_API const char *orr_table_stage_name(orr_table_stage stage);

typedef struct orr_table_rank_cost {
    double stage_ns[ORR_TABLE_STAGES]; /* TORCHREC: LOOKUP and UPDATE are forward and backward
                                        * compute, BAGS and GRADIENTS their comms */
    double ns;                         /* sum of the stages, shared costs included */
    int64_t memory_bytes;
    uint32_t shards;
} orr_table_rank_cost;

/* Why a table went where it is. */
#define ORR_TABLE_REASON_MAP(X)                                                                    \
    X(TIME, "least time")                                                                          \
    X(BALANCE, "balance") /* a cheaper kind has a shard that keeps one rank busy for too long */   \
    X(MEMORY, "memory")   /* a cheaper kind does not fit, or takes memory that others need more */ \
    X(PACKING, "packing") /* a cheaper kind found no ranks with room and time */                   \
    X(REQUIRED, "required")
typedef enum orr_table_reason {
#define ORR_TABLE_REASON_ENUM_(name, text) ORR_TABLE_REASON_##name,
    ORR_TABLE_REASON_MAP(ORR_TABLE_REASON_ENUM_)
#undef ORR_TABLE_REASON_ENUM_
        ORR_TABLE_REASONS
} orr_table_reason;
ORR_API const char *orr_table_reason_name(orr_table_reason reason);

/* One table's choice; kind and ranks stand in the plan. Times: what the table adds to the mean
 * rank. */
typedef struct orr_table_choice {
    double ns, largest_shard_ns;
    int64_t memory_bytes; /* on all ranks together */
    uint8_t reason;       /* orr_table_reason */
    uint8_t bound_by;     /* orr_table_stage of most time */
    bool has_other;       /* the best of the other kinds: */
    uint8_t other;        /* orr_embedding_sharding */
    uint32_t other_shards;
    double other_ns, other_largest_shard_ns;
    int64_t other_memory_bytes;
    const char *why; /* a sentence of it */
} orr_table_choice;

typedef struct orr_table_planning {
    const char *infeasible; /* NULL, or why there is no plan: the table and the memory it needs;
                             * then all else is 0 */
    uint32_t infeasible_table;
    int64_t infeasible_bytes; /* of a rank, that would do for this table */
    orr_embedding_plan plan;
    double ns;        /* of the busiest rank, latencies of exchanges included */
    double shared_ns; /* of it, paid by every rank alike */
    /* Where no rank goes on before all have ended a stage: the sum over stages of the busiest rank
     * of each. Simulated steps are so; plans are ranked by it as they are by simulation. */
    double synchronous_ns;
    double bound_ns, gap_frac; /* no plan takes less; (ns - bound_ns) / ns */
    const char *bound_by;      /* "the mean of all ranks", "the largest shard of 't3'", ... */
    bool optimal;              /* proven by exhaustion: bound_ns = ns */
    const orr_table_rank_cost *ranks; /* shape (plan.ranks) */
    const orr_table_choice *choices;  /* shape (n_tables) */
    double memory_ns_per_gib; /* how much lower the bound is with a GiB more on every rank; 0: that
                               * buys nothing */
    uint64_t nodes, moves;    /* of the branch and bound; of the local search */
    int64_t wall_ns;
    const orr_tiering *tiering; /* where tables live; NULL: without tiers. What its fetches stall is
                                 * not in `ns`, and the bound is that of tables in memory */
} orr_table_planning;
/* Finds a plan; the result is in the arena. A question without a plan is answered with ORR_OK and
 * `infeasible`. INVALID: options that contradict each other. Threads: any. */
ORR_API ORR_MUST_CHECK orr_status orr_plan_tables(const orr_table_planner_options *options,
                                                  orr_arena *arena, orr_table_planning *ret,
                                                  orr_error *err);
/* Prices a given plan by the same terms: `ranks` and `choices` without reasons and others. */
ORR_API ORR_MUST_CHECK orr_status orr_price_table_plan(const orr_table_planner_options *options,
                                                       const orr_embedding_plan *plan,
                                                       orr_arena *arena, orr_table_planning *ret,
                                                       orr_error *err);
/* Puts the tables of a plan on the tiers of the options: `ret`, and in `ret_placements` (shape
 * (n_tables)) those of the plan with tier and cached rows; both in the arena. `busy_ns`: of a step,
 * beside which rows are fetched. Where tiers are too small the answer is ORR_OK and `infeasible`.
 * INVALID: options that contradict each other or the plan. */
ORR_API ORR_MUST_CHECK orr_status orr_tier_tables(const orr_table_planner_options *options,
                                                  const orr_embedding_plan *plan, double busy_ns,
                                                  orr_arena *arena, orr_tiering *ret,
                                                  const orr_embedding_placement **ret_placements,
                                                  orr_error *err);
/* What each shard of a plan takes its rank, of a DATA table what each copy takes; without what
 * every rank pays alike for other tables, and without latencies. `ret`: shape (plan->n_shards). */
typedef struct orr_table_shard_cost {
    double ns, memory_bytes;
} orr_table_shard_cost;
ORR_API void orr_price_table_shards(const orr_table_planner_options *options,
                                    const orr_embedding_plan *plan, orr_table_shard_cost *ret);

#ifdef __cplusplus
}
#endif

#endif /* ORR_TABLE_PLANNER_H */
