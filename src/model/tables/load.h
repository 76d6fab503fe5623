/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_TABLES_LOAD_H
#define ORR_MODEL_TABLES_LOAD_H

#include <orrery/embedding.h>

/* What embedding tables ask of each rank in a step, by a sharding plan, before any machine is known
 * (Mudigere et al., arXiv 2104.05158, section 3). Letters: B samples of all ranks of a group, b of
 * one rank, k ranks of a group.
 *
 * A rank looks up its shards for all B samples and sends each rank the sums of its b samples. Of a
 * table whose rows are on several ranks, each sends a sum for every subtree of ranges that it has.
 * TABLE_ROW and GRID first add these up within the host. DATA tables have no sums to send: ids and
 * gradients of all samples are gathered. Of a table outside memory a rank has the rows of its cache
 * and 8 bytes a row of map. */
#define ORR_TABLES_LOAD_MAP(X)                                                                     \
    X(rows, "rows")                                                                                \
    X(state, "optimizer states")                                                                   \
    X(buffers, "ids, sums and gradients on their way")                                             \
    X(read, "rows that are looked up")                                                             \
    X(touched, "distinct rows among them")                                                         \
    X(ids, "all-to-all: ids and lengths")                                                          \
    X(bags, "all-to-all: sums of bags")                                                            \
    X(bag_gradients, "all-to-all: their gradients")                                                \
    X(gradients, "gradients that an update reads, one a lookup")                                   \
    X(update, "rows and states that it reads and writes")                                          \
    X(sorted, "lookups that it sorts by row")                                                      \
    X(summed, "sums of bags that are written")                                                     \
    X(host_bags, "reduce-scatter in the host: sums of bags")                                       \
    X(host_gradients, "all-gather in the host: their gradients")                                   \
    X(gathered, "all-gather: ids and gradients")                                                   \
    X(squares, "all-to-all: squares of column shards")
typedef struct orr_tables_load { /* bytes */
#define ORR_TABLES_LOAD_FIELD_(name, text) double name;
    ORR_TABLES_LOAD_MAP(ORR_TABLES_LOAD_FIELD_)
#undef ORR_TABLES_LOAD_FIELD_
} orr_tables_load;

/* How lookups are distributed, and how bags travel. */
typedef struct orr_tables_demand {
    int64_t samples;    /* of a rank */
    uint8_t popularity; /* orr_popularity_kind */
    bool padded;        /* every bag has as many ids as the longest of its batch; those beyond its
                         * length look up a row of zeros. Else lengths vary, and travel with ids */
} orr_tables_demand;

/* Of all ranks of a group: each number of the rank that has most of it, and the mean. Stages of a
 * step end in transfers among all ranks, so that the fullest rank of each bounds it. */
typedef struct orr_tables_work {
    orr_tables_load most, mean;
    uint32_t ranks, host_ranks, groups, synchronize;
    uint8_t pipeline;
    double decoded;                    /* bytes of sums of the rank's own samples, as they arrive */
    double columns;                    /* of all tables */
    double samples;                    /* of the rank: b */
    const orr_embedding_plan *fetched; /* NULL: all tables live in memory */
    orr_tables_demand demand;
} orr_tables_work;

/* Loads of all ranks of the plan's group: `ret`, shape (plan->ranks). NO_MEMORY. */
orr_status orr_tables_loads(const orr_embedding_plan *plan, const orr_tables_demand *demand,
                            orr_tables_load *ret, orr_error *err) ORR_MUST_CHECK;
orr_status orr_tables_work_of(const orr_embedding_plan *plan, const orr_tables_demand *demand,
                              orr_tables_work *ret, orr_error *err) ORR_MUST_CHECK;

/* How many aligned subtrees of ranges a shard of these ranges has: vectors that it sends for a bag.
 */
uint32_t orr_embedding_subtrees(uint32_t begin, uint32_t end);
/* The plan of a job that names none; its tables are `tables`. In the arena. */
orr_status orr_embedding_plan_rule(const orr_embedding *tables, uint32_t n, uint32_t ranks,
                                   orr_arena *arena, orr_embedding_plan *ret,
                                   orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_TABLES_LOAD_H */
