/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_ENGINE_STEP_EMBEDDING_TABLES_H
#define ORR_ENGINE_STEP_EMBEDDING_TABLES_H

#include "engine/step/tape_writer.h"
#include "engine/tables/tables.h"

/* The embedding tables of a recommendation step. Each batch passes the stages of engine/tables in
 * order; those that prepare it run up to three steps ahead, as the sharding plan says:
 *
 *   pipeline  read    exchange ids  fetch rows    beside the computation of batch i
 *   0         (feed)  i             i
 *   1         i + 1   i + 1         i + 1
 *   2         i + 2   i + 2         i + 1
 *   3         i + 3   i + 2         i + 1
 *
 * Where tables do not live in memory, a look-ahead of N batches puts all stages N - 1 further ahead
 * (and 0 becomes 1). Without either a batch is read when it is set, between steps.
 *
 * A batch that a stage has passed is not passed again, so a step that begins with nothing prepared
 * catches up before it runs. */
typedef enum orr_batch_stage {
    ORR_BATCH_READ,
    ORR_BATCH_IDS,
    ORR_BATCH_FETCH,
    ORR_BATCH_STAGES
} orr_batch_stage;

/* Context of a hook: what it works on is `ahead` of the batch that is computed. */
typedef struct orr_table_hook {
    orr_engine_step *step;
    uint8_t ahead;
} orr_table_hook;

struct orr_step_tables {
    orr_embedding_plan plan;
    orr_tables *tables;       /* NULL: unallocated */
    int64_t samples, columns; /* of this rank in a step; of all tables */
    float *bags, *gradients;  /* shape (samples, columns): pooled embeddings, their gradients */
    uint64_t batch, end; /* the batch that is computed, or will be next; `end` and later: never */
    uint64_t passed[ORR_BATCH_STAGES];        /* batches below have passed the stage */
    orr_step_batch batches[ORR_TABLES_AHEAD]; /* by number modulo ORR_TABLES_AHEAD */
    orr_table_hook hooks[ORR_TABLES_AHEAD];   /* by `ahead` */
    const orr_update *update;
};

/* How far ahead a stage runs. */
uint8_t orr_step_batch_stage_ahead(const orr_engine_step *step, orr_batch_stage stage);
/* Hooks of the calls. */
orr_program_hook orr_step_read_batch, orr_step_exchange_ids, orr_step_fetch_rows, orr_step_sum_bags,
    orr_step_exchange_bags, orr_step_exchange_bag_gradients, orr_step_update_tables;

#endif /* ORR_ENGINE_STEP_EMBEDDING_TABLES_H */
