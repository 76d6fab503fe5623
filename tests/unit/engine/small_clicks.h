/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SMALL_CLICKS_H
#define SMALL_CLICKS_H

#include "small_training.h"

#include <orrery/engine.h>

#include "engine/data/clicks.h"

/* A small recommendation model that has learnt a little, exported to a folder. */
enum { SMALL_TABLES = 4, SMALL_COLUMNS = 16 };

static inline orr_model small_clicks_model(const orr_embedding tables[SMALL_TABLES])
{
    orr_model m = {.name = "small", .title = "Small", .kind = ORR_MODEL_DLRM};
    m.dlrm = (orr_dlrm){.dense_features = 4,
                        .dim = SMALL_COLUMNS,
                        .n_tables = SMALL_TABLES,
                        .tables = tables,
                        .n_bottom = 2,
                        .bottom = {24, SMALL_COLUMNS},
                        .n_top = 3,
                        .top = {40, 24, 1}};
    return m;
}

static const orr_embedding SMALL_EMBEDDINGS[SMALL_TABLES] = {
    {.name = "t0", .rows = 40, .columns = SMALL_COLUMNS, .pooling = 1},
    {.name = "t1",
     .rows = 3000,
     .columns = SMALL_COLUMNS,
     .pooling = 6.5,
     .length = ORR_BAG_LENGTH_GEOMETRIC},
    {.name = "t2", .rows = 7, .columns = SMALL_COLUMNS, .pooling = 2},
    {.name = "t3",
     .rows = 900,
     .columns = SMALL_COLUMNS,
     .pooling = 3,
     .format = ORR_ROW_FORMAT_BF16},
};

/* Writes FOLDER as `orrery train --export` does. */
static inline void small_clicks_export(const orr_model *model, const char *folder, int64_t steps,
                                       uint64_t seed)
{
    orr_arena *arena = orr_arena_new(0, 0);
    orr_workload workload = {0};
    orr_plan plan;
    orr_train_result result;
    orr_error err = {0};
    assert_non_null(arena);
    assert_int_equal(orr_plan_parse("micro_batch=32,batch=64", &plan, &err), ORR_OK);
    const orr_train_options options = {.model = model,
                                       .plan = &plan,
                                       .workload = &workload,
                                       .steps = steps,
                                       .rate = 5e-2,
                                       .seed = seed,
                                       .threads = 1,
                                       .export_to = folder,
                                       .rate_schedule = ORR_LEARNING_RATE_CONSTANT};
    if (orr_train(&options, arena, &result, &err) != ORR_OK)
        fail_msg("%s", err.text);
    orr_arena_free(arena);
}

#endif /* SMALL_CLICKS_H */
