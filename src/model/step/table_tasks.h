/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ORR_MODEL_STEP_TABLE_TASKS_H
#define ORR_MODEL_STEP_TABLE_TASKS_H

#include "model/step/module_cost.h"
#include "model/tables/load.h"

/* Embedding tables as tasks of a phase, beside the calls of its tape: ids are exchanged, rows
 * looked up, and sums of bags sent to their samples while computation that needs none goes on;
 * backward, their gradients are sent to the rows as soon as they are made, and rows updated at the
 * end. Each task takes as long as on the rank that has most of it. */
enum { ORR_TABLE_TASKS = 16 }; /* at most, of a phase */
typedef struct orr_table_tasks {
    const orr_tables_work *work; /* NULL: the module has no tables, and nothing is written */
    const orr_step_prices *prices;
    orr_span group, host, replicas; /* ranks of a group; of a host in it; of equal shards */
    double stream_bytes;            /* of a number in activations */
    uint32_t first_open, end_open;  /* transfers under way: indices of tasks */
} orr_table_tasks;
orr_status orr_table_tasks_open(const orr_module *module, const orr_plan *plan,
                                const orr_step_prices *prices, orr_table_tasks *ret,
                                orr_error *err) ORR_MUST_CHECK;

/* Each appends to `tasks`, shape (*n), which has room. Forward: at its begin; where sums of bags
 * are needed first. */
void orr_table_tasks_look_up(orr_table_tasks *t, orr_call_cost *tasks, uint32_t *n);
void orr_table_tasks_take_bags(orr_table_tasks *t, orr_call_cost *tasks, uint32_t *n);
/* Backward: where gradients of bags are made; at its end. */
void orr_table_tasks_send_gradients(orr_table_tasks *t, orr_call_cost *tasks, uint32_t *n);
void orr_table_tasks_update(orr_table_tasks *t, orr_call_cost *tasks, uint32_t *n);

/* What is read from storage and written back for each micro-batch, by the memory and drives of the
 * cluster's hosts. In the arena. */
orr_status orr_table_tasks_fetch(const orr_module *module, const orr_step_prices *prices,
                                 orr_arena *arena, orr_tables_fetch *ret,
                                 orr_error *err) ORR_MUST_CHECK;

#endif /* ORR_MODEL_STEP_TABLE_TASKS_H */
