/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_TABLES_TABLES_H
#define ORR_ENGINE_TABLES_TABLES_H

#include <orrery/embedding.h>

#include "engine/ranks/communicator.h"
#include "kernel/cpu/embedding/sharded_table.h"
#include "store/store.h"

/* The embedding tables of one rank, sharded by a plan: ids travel to the rows, pooled embeddings
 * travel back, their gradients to the rows again, which are updated. Everything is called by all
 * ranks in the same order; stages of one name by one thread. The bits of bags and rows depend on
 * samples, tables and seed alone (include/orrery/embedding.h).
 *
 * With codecs of 16 and 8 bits they depend on the plan too. Vectors that travel are rounded once:
 * the error of a bag is at most 2^-11 (fp16) or 2^-8 (bf16) of the sum of the magnitudes of its
 * rows, in int8 1/254 of the sum of their largest magnitudes; the same holds for the gradient of a
 * row and the gradients of its lookups. fp16 has no numbers above 65,504, and is exact to 2^-25
 * only. */
typedef struct orr_tables orr_tables;

enum { ORR_TABLES_GRANULE = 256 }; /* bytes that tier BYTE transfers at least */
enum { ORR_TABLES_AHEAD = 32 };    /* steps that are under way at once, at most */
/* Steps of a plan that are under way at once, a power of two: 1 and the batches that are prepared
 * ahead. */
uint32_t orr_tables_steps(const orr_embedding_plan *plan);
/* Batches whose rows are known ahead, for rows that do not live in memory: what the plan says, as
 * far as there is room. 0: all rows live in memory, or the plan leaves it open. */
uint32_t orr_tables_lookahead(const orr_embedding_plan *plan);

/* Where the rows of this rank live that a plan does not place in memory: a device for each tier,
 * with a row cache in memory. */
typedef struct orr_tables_tier {
    /* Of this rank's device: a file or a raw device; BYTE: what is mapped, NULL: memory of the NUMA
     * node `node` (-1: any), which nothing outlives. BLOCK, NULL: the tier is not there. */
    const char *path;
    int node;
    bool create;     /* rows have their initial values; else they are those of `step`, as they were
                      * committed: -1: the last commit */
    int64_t step;    /* not read on creation */
    uint64_t model;  /* fingerprint: that of the file, or INVALID */
    uint64_t bytes;  /* on creation; 0: what the rows need */
    uint32_t sector; /* 0: what the device says; BYTE: its granule, 0: 256 */
    bool plain;      /* pread and pwrite, not io_uring */
    const orr_block_limits *limits; /* slowed down to these; NULL: not */
    uint64_t cache_bytes;           /* of rows in memory */
    uint8_t policy, writes;         /* orr_cache_policy, orr_row_writes */
    bool durable;                   /* commits are wanted (orr_tables_store()) */
    bool huge_pages;
    bool dram; /* commits have the rows that live in memory, too: at most one tier says so */
} orr_tables_tier;

typedef struct orr_tables_source {
    const orr_embedding_plan *plan;
    orr_transport *transport;
    uint32_t channels[2]; /* of ids; of bags and gradients */
    orr_workers *workers;
    int64_t samples; /* of this rank in a step; rank r has r * samples .. of the batch */
    uint64_t seed;   /* of initial values and of rounding */
    bool trained;
    const orr_tables_tier *tiers; /* shape (ORR_TIERS), by orr_tier; NULL: all rows are in memory */
} orr_tables_source;
orr_status orr_tables_open(const orr_tables_source *source, orr_tables **ret,
                           orr_error *err) ORR_MUST_CHECK;
void orr_tables_close(orr_tables *tables); /* NULL is allowed */
/* Bytes of memory that the tables of a rank take: rows and states that live there; row caches, and
 * 8 bytes for each row that lives elsewhere; buffers for lookups of the mean length, which grow
 * where lookups are more. */
typedef struct orr_tables_memory {
    int64_t rows, state, cache, buffers;
} orr_tables_memory;
orr_status orr_tables_measure(const orr_tables_source *source, orr_tables_memory *ret,
                              orr_error *err) ORR_MUST_CHECK;

/* Lookups of this rank's samples in all tables. */
typedef struct orr_tables_batch {
    const int32_t *lengths; /* shape (tables, samples) */
    const int64_t *ids;     /* by table, then sample */
} orr_tables_batch;

/* Stages of a step, in this order; `slot`: step modulo ORR_TABLES_AHEAD. Stages of different steps
 * may run at once in different threads, but not the same stage; lookup waits for the update of the
 * step before (the caller's order). */
/* Checks ids and sends them to their rows; `batch` is read until the step's update. INVALID:
 * "table t3, sample 17: id 12 of 10 rows", "table t3, sample 17: 4 lookups, not 5" where the table
 * has bags of fixed length. LIMIT: a bag of more than 65,535 lookups. */
orr_status orr_tables_exchange_ids(orr_tables *t, uint32_t slot, const orr_tables_batch *batch,
                                   orr_error *err) ORR_MUST_CHECK;
/* Tells which rows the step looks up: those that are not in memory are read from now on. Returns at
 * once; rows that find no room in a cache follow when earlier steps have ended. */
orr_status orr_tables_fetch(orr_tables *t, uint32_t slot, orr_error *err) ORR_MUST_CHECK;
/* Waits for the rows, and sums bags on their ranks, those that stay on this rank straight into
 * `ret`; LIMIT: the rows of this step alone do not fit a cache. IO, PARSE: a row that could not be
 * read. */
orr_status orr_tables_sum(orr_tables *t, uint32_t slot, float *ret, orr_error *err) ORR_MUST_CHECK;
/* and sends the others to the ranks of their samples. `ret` of both: the bags of this rank's
 * samples, shape (samples, columns of all tables). */
orr_status orr_tables_exchange_bags(orr_tables *t, uint32_t slot, float *ret,
                                    orr_error *err) ORR_MUST_CHECK;
/* Sends gradients of bags, shape as above, to the ranks of their rows; `gradient` is read until
 * the step's update. */
orr_status orr_tables_exchange_gradients(orr_tables *t, uint32_t slot, const float *gradient,
                                         orr_error *err) ORR_MUST_CHECK;
/* and updates these; with groups, every so many steps averages their copies. */
orr_status orr_tables_update(orr_tables *t, uint32_t slot, const orr_update *by,
                             orr_error *err) ORR_MUST_CHECK;
/* Ends a slot without an update: the oldest that has not ended. */
void orr_tables_skip(orr_tables *t, uint32_t slot);

/* Shards of this rank, to save and to restore: a store each. Between steps; rows that were read
 * ahead are given up first and asked for again. */
uint32_t orr_tables_n_shards(const orr_tables *t);
const orr_embedding_shard *orr_tables_shard(const orr_tables *t, uint32_t i, orr_row_store **ret);
/* How initial values of rows are drawn: numbers, whatever the sharding; states are zero. */
typedef struct orr_tables_drawing {
    uint8_t format;
    bool quantized; /* rows have a scale: a row is drawn whole */
    uint32_t key[2];
    int64_t first_row, row_blocks; /* of the table */
    double bound;
    int64_t first, columns; /* that are drawn: the shard's, or all */
    int64_t column_begin, row_bytes, state_bytes;
} orr_tables_drawing;
/* Of some columns of a table, which has `number` in the model, in rows from `first_row` on. */
orr_tables_drawing orr_tables_drawing_of(const orr_embedding *table, uint32_t number,
                                         int64_t first_row, uint32_t column_begin,
                                         uint32_t column_end, bool trained, uint64_t seed);
/* Row first_row + `row` as a record; at most ORR_SHARD_UPDATE_COLUMNS are drawn. Any thread. */
void orr_tables_draw_record(const orr_tables_drawing *drawing, int64_t row, char *ret);

/* The rows of a tier, to commit and to count; NULL: no shard of this rank lives there. */
orr_store *orr_tables_store(const orr_tables *t, orr_tier tier);
/* What its store counts. The stall has the time, too, that steps waited for room in the caches. */
orr_store_stats orr_tables_tier_stats(const orr_tables *t, orr_tier tier);
/* What its device has to say (orr_block_device_remark()); NULL: nothing. */
const char *orr_tables_remark(const orr_tables *t, orr_tier tier);
/* Bytes that this rank sent to others in the last step that has ended; averages over groups are
 * not counted. */
typedef struct orr_tables_traffic {
    int64_t ids, bags, gradients, squares;
} orr_tables_traffic;
orr_tables_traffic orr_tables_traffic_of(const orr_tables *t);
/* What the rank of `source` sends in a step. `lookups`, shape (n_shards): of its own samples in
 * each shard of the plan; `rows`, ditto: distinct rows that all samples of the group look up. NULL:
 * as expected of the mean lengths and of uniformly distributed ids. */
orr_status orr_tables_predict_traffic(const orr_tables_source *source, const int64_t *lookups,
                                      const int64_t *rows, orr_tables_traffic *ret,
                                      orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_ENGINE_TABLES_TABLES_H */
