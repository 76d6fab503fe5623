/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_EMBEDDING_H
#define ORR_EMBEDDING_H

#include <stdbool.h>
#include <stdint.h>

#include <orrery/arena.h>
#include <orrery/dtype.h>
#include <orrery/status.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Embedding tables of a recommendation model, and how they are sharded over ranks (Mudigere et al.,
 * arXiv 2104.05158). A bag is the rows of one table that one sample looks up; its sum, the pooled
 * embedding, has the table's columns. */

enum {
    ORR_TABLES_MAX = 4096,
    /* Rows of a table are divided into this many ranges, as even as can be: range k has the rows
     * from orr_embedding_range_begin(rows, k) on. A bag is summed within each range in the order of
     * its lookups, then ranges are summed as a binary tree over their numbers, so that a shard of
     * whole ranges can send sums of subtrees and the bits are those of one rank. */
    ORR_EMBEDDING_RANGES = 256,
    /* Columns are sharded in blocks of this many; sums of squares of a row are made within blocks,
     * then as a binary tree over blocks. */
    ORR_EMBEDDING_BLOCK = 16,
};

/* What updates the rows of a table. Gradients of a row's lookups are summed first, by sample. */
#define ORR_ROW_OPTIMIZER_MAP(X)                                                                   \
    X(ROWWISE_ADAGRAD, "rowwise_adagrad") /* one fp32 state a row: the mean square of gradients */ \
    X(ADAGRAD, "adagrad")                 /* one fp32 state a number */                            \
    X(ROWWISE_ADAM, "rowwise_adam") /* first moments a number, the second a row; both decay only   \
                                     * in steps that look the row up */                            \
    X(SGD, "sgd")
typedef enum orr_row_optimizer {
#define ORR_ROW_OPTIMIZER_ENUM_(name, text) ORR_ROW_OPTIMIZER_##name,
    ORR_ROW_OPTIMIZER_MAP(ORR_ROW_OPTIMIZER_ENUM_)
#undef ORR_ROW_OPTIMIZER_ENUM_
        ORR_ROW_OPTIMIZERS
} orr_row_optimizer;
ORR_API const char *orr_row_optimizer_name(orr_row_optimizer optimizer);
/* Bytes of optimizer state of a row of so many columns. */
ORR_API int64_t orr_row_optimizer_bytes(orr_row_optimizer optimizer, int64_t columns);

/* How many lookups a sample makes in a table, around its mean `pooling`. */
#define ORR_BAG_LENGTH_MAP(X)                                                                      \
    X(FIXED, "fixed") /* always the mean, which is whole */                                        \
    X(GEOMETRIC,                                                                                   \
      "geometric")        /* P(n) = (1 - p)^n p with the mean (1 - p) / p; bags may be empty */    \
    X(UNIFORM, "uniform") /* from 0 to twice the mean */
typedef enum orr_bag_length {
#define ORR_BAG_LENGTH_ENUM_(name, text) ORR_BAG_LENGTH_##name,
    ORR_BAG_LENGTH_MAP(ORR_BAG_LENGTH_ENUM_)
#undef ORR_BAG_LENGTH_ENUM_
        ORR_BAG_LENGTHS
} orr_bag_length;
ORR_API const char *orr_bag_length_name(orr_bag_length length);

typedef struct orr_embedding {
    const char *name; /* "t0"; unique within the model */
    int64_t rows;
    uint32_t columns;
    double pooling;    /* mean lookups of a sample, > 0 */
    uint8_t length;    /* orr_bag_length */
    uint8_t format;    /* orr_row_format of its rows: FP32, FP16, BF16; INT8 and INT4 to serve */
    uint8_t optimizer; /* orr_row_optimizer */
} orr_embedding;
/* Bytes of a row with its optimizer state; of a table. Saturating. */
ORR_API int64_t orr_embedding_row_bytes(const orr_embedding *table);
ORR_API int64_t orr_embedding_bytes(const orr_embedding *table);

/* How popular the rows of a table are: classes of rows, the most popular first, all rows of a class
 * alike. Which row numbers are popular is unrelated to popularity. Both the synthetic clicks that
 * training reads and the costs of tables stand on it. */
#define ORR_POPULARITY_MAP(X)                                                                      \
    X(META_2021, "2021")  /* reuse of rows in published batches (facebookresearch/dlrm_datasets),  \
                           * 65,536 samples of 856 tables */                                       \
    X(META_2022, "2022")  /* likewise: 131,072 samples of 788 tables */                            \
    X(ZIPF, "zipf")       /* the k-th row in proportion to k^-0.95, stepwise */                    \
    X(UNIFORM, "uniform") /* all rows alike */
typedef enum orr_popularity_kind {
#define ORR_POPULARITY_ENUM_(name, text) ORR_POPULARITY_##name,
    ORR_POPULARITY_MAP(ORR_POPULARITY_ENUM_)
#undef ORR_POPULARITY_ENUM_
        ORR_POPULARITIES
} orr_popularity_kind;
ORR_API const char *orr_popularity_name(orr_popularity_kind kind);

enum { ORR_POPULARITY_CLASSES = 48 };
typedef struct orr_popularity {
    int64_t rows;
    uint32_t n;                           /* classes */
    int64_t end[ORR_POPULARITY_CLASSES];  /* rows of the classes up to this one */
    double share[ORR_POPULARITY_CLASSES]; /* of lookups, likewise; the last one is 1 */
    uint64_t stride; /* row k by popularity is row k * stride % rows of the table */
} orr_popularity;
/* Popularity in a table of so many rows, which are > 0. Published batches are of tables of 4
 * million rows (assumed). A smaller table has proportionally fewer rows in each class, a larger one
 * has more rows that are hardly ever looked up. */
ORR_API orr_popularity orr_popularity_of(orr_popularity_kind kind, int64_t rows);
/* Expected distinct rows among so many independent lookups. */
ORR_API double orr_popularity_distinct(const orr_popularity *popularity, int64_t lookups);
/* Share of lookups that the k most popular rows serve: the hit rate of a cache that holds them. */
ORR_API double orr_popularity_hit_rate(const orr_popularity *popularity, int64_t k);
/* Share of lookups that each of n row shards serves; shard i has the rows from begin[i] to
 * begin[i + 1], shape (n + 1), ascending. Shards of equal size differ by the few most popular
 * rows. */
ORR_API void orr_popularity_shares(const orr_popularity *popularity, const int64_t *begin,
                                   uint32_t n, double *ret);

/* Kinds of sharding of a table. */
#define ORR_SHARDING_MAP(X)                                                                        \
    X(TABLE, "table")         /* whole on one rank */                                              \
    X(ROW, "row")             /* rows over ranks */                                                \
    X(COLUMN, "column")       /* columns over ranks */                                             \
    X(TABLE_ROW, "table_row") /* rows over the ranks of one host */                                \
    X(GRID, "grid")           /* columns over hosts, the rows of each over the ranks of a host */  \
    X(DATA, "data")           /* on every rank; each makes the whole update from all samples */
typedef enum orr_embedding_sharding {
#define ORR_SHARDING_ENUM_(name, text) ORR_SHARDING_##name,
    ORR_SHARDING_MAP(ORR_SHARDING_ENUM_)
#undef ORR_SHARDING_ENUM_
        ORR_SHARDINGS
} orr_embedding_sharding;
ORR_API const char *orr_embedding_sharding_name(orr_embedding_sharding sharding);

/* Rows and columns of one table on one rank. */
typedef struct orr_embedding_shard {
    uint32_t table, rank;
    uint32_t range_begin, range_end;   /* of ORR_EMBEDDING_RANGES */
    uint32_t column_begin, column_end; /* begin: a multiple of ORR_EMBEDDING_BLOCK */
} orr_embedding_shard;
/* First row of a range; for ORR_EMBEDDING_RANGES, the number of rows. */
ORR_API int64_t orr_embedding_range_begin(int64_t rows, uint32_t range);
/* The range of a row. */
ORR_API uint32_t orr_embedding_range_of(int64_t rows, int64_t row);
/* Bounds of part `i` of `n` of the ranges, as even as subtrees of a good size allow: part 0 begins
 * at 0 and part n at ORR_EMBEDDING_RANGES; powers of two are exact. n <= ORR_EMBEDDING_RANGES. */
ORR_API uint32_t orr_embedding_range_split(uint32_t n, uint32_t i);
/* The same for columns: multiples of ORR_EMBEDDING_BLOCK. A part may be empty. */
ORR_API uint32_t orr_embedding_column_split(uint32_t columns, uint32_t n, uint32_t i);

/* Format in which bags and their gradients travel. INT8: rows with one fp32 scale each. */
#define ORR_EMBEDDING_CODEC_MAP(X) X(FP32, "fp32") X(FP16, "fp16") X(BF16, "bf16") X(INT8, "int8")
typedef enum orr_embedding_codec {
#define ORR_EMBEDDING_CODEC_ENUM_(name, text) ORR_EMBEDDING_CODEC_##name,
    ORR_EMBEDDING_CODEC_MAP(ORR_EMBEDDING_CODEC_ENUM_)
#undef ORR_EMBEDDING_CODEC_ENUM_
        ORR_EMBEDDING_CODECS
} orr_embedding_codec;
ORR_API const char *orr_embedding_codec_name(orr_embedding_codec codec);
ORR_API int64_t orr_embedding_codec_bytes(orr_embedding_codec codec,
                                          int64_t columns); /* of one vector */

/* Where the rows of a table live on their ranks: in memory; in byte-addressable storage (DAX,
 * another NUMA node, CXL); on a block device. Rows that do not live in memory pass through a row
 * cache. */
#define ORR_TIER_MAP(X) X(DRAM, "dram") X(BYTE, "byte") X(BLOCK, "block")
typedef enum orr_tier {
#define ORR_TIER_ENUM_(name, text) ORR_TIER_##name,
    ORR_TIER_MAP(ORR_TIER_ENUM_)
#undef ORR_TIER_ENUM_
        ORR_TIERS
} orr_tier;
ORR_API const char *orr_tier_name(orr_tier tier);

/* Where one table goes. Shards of a table cover it exactly once (DATA: once on every rank). */
typedef struct orr_embedding_placement {
    uint8_t sharding;               /* orr_embedding_sharding */
    uint8_t tier;                   /* orr_tier of all its rows */
    double cached_rows;             /* of all ranks, expected in row caches; 0: not told */
    uint32_t columns;               /* COLUMN, GRID: parts of its columns; else 1 */
    const uint32_t *ranks;          /* shape (n_ranks): by column part, then by row part */
    uint32_t n_ranks;               /* DATA: 0 */
    uint32_t first_shard, n_shards; /* in orr_embedding_plan.shards */
} orr_embedding_placement;

/* A sharding plan: of every table, in the order of the model. */
typedef struct orr_embedding_plan {
    uint32_t ranks;      /* over which tables are sharded: of one group */
    uint32_t host_ranks; /* ranks of a host, of which TABLE_ROW and GRID know; 0: all */
    /* 2D sharding (arXiv 2508.03854): so many groups of `ranks` ranks, each with all tables, which
     * learn from their own samples and are averaged every `synchronize` steps. Other numerics than
     * one group; rank r is rank r % ranks of group r / ranks. */
    uint32_t groups, synchronize;
    uint8_t forward, backward; /* orr_embedding_codec of bags, of their gradients */
    uint8_t pipeline; /* batches that are prepared ahead: 0 none, 1 rows fetched, 2 ids exchanged, 3
                       * the batch read */
    uint32_t lookahead; /* batches whose rows are known and fetched ahead, for tables that do not
                         * live in memory; 0: as `pipeline` says */
    uint32_t n_tables, n_shards;
    const orr_embedding *tables;               /* shape (n_tables): the model's */
    const orr_embedding_placement *placements; /* shape (n_tables) */
    const orr_embedding_shard *shards;         /* shape (n_shards), by table, column, row */
} orr_embedding_plan;

/* The plan that deals whole tables to ranks in turn, largest first to the emptiest rank. In the
 * arena. */
ORR_API ORR_MUST_CHECK orr_status orr_embedding_plan_default(const orr_embedding *tables,
                                                             uint32_t n, uint32_t ranks,
                                                             orr_arena *arena,
                                                             orr_embedding_plan *ret,
                                                             orr_error *err);
/* Makes the shards that placements say; `ret` has all but shards. INVALID: a rank that is none of
 * `ranks` or named twice, more row parts than ranges, more column parts than blocks, a kind that
 * does not fit its ranks. */
ORR_API ORR_MUST_CHECK orr_status orr_embedding_plan_shard(orr_embedding_plan *plan,
                                                           orr_arena *arena, orr_error *err);
/* Reads a plan (docs/recommendation.md), a line a table:
 *
 *   ranks: 8
 *   tables:
 *     t0: {kind: row, ranks: [0, 1, 2, 3]}
 *
 * PARSE and INVALID with file:line:column: a table that is named twice, missing, or not of the
 * model; what orr_embedding_plan_shard() refuses. */
ORR_API ORR_MUST_CHECK orr_status orr_embedding_plan_read(const char *path,
                                                          const orr_embedding *tables, uint32_t n,
                                                          orr_arena *arena, orr_embedding_plan *ret,
                                                          orr_error *err);
/* The text of such a file; in the arena, NULL: no memory. */
ORR_API const char *orr_embedding_plan_text(const orr_embedding_plan *plan, orr_arena *arena);

#ifdef __cplusplus
}
#endif

#endif /* ORR_EMBEDDING_H */
