/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/train/trainer.h"

/* Click-through prediction: mean binary cross entropy over a batch, and the AUC of its logits
 * before the update. */

typedef struct clicks_task {
    orr_scored *mine; /* shape (n): of the rank's samples */
    orr_scored *all;  /* shape (ranks, n) */
    int64_t n;
} clicks_task;

static orr_status open(orr_trainer *t, orr_error *err)
{
    const orr_plan *plan = &t->training->plan;
    clicks_task *task = orr_arena_one(t->arena, clicks_task);
    float *weights = orr_arena_array(t->arena, float, plan->micro_batch);
    if (task == NULL || weights == NULL)
        return orr_fail_memory(err);
    task->n = (int64_t)plan->micro_batch * plan->micro_batches;
    task->mine = orr_arena_array(t->arena, orr_scored, task->n);
    task->all = orr_arena_array(t->arena, orr_scored, task->n * t->transport->ranks);
    t->inputs = orr_arena_array(t->arena, orr_step_inputs, plan->micro_batches);
    if (task->mine == NULL || task->all == NULL || t->inputs == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < plan->micro_batch; i++)
        weights[i] = 1.0F / (float)plan->batch;
    for (uint32_t i = 0; i < plan->micro_batches; i++)
        t->inputs[i].weights = weights;
    t->task = task;
    return ORR_OK;
}

/* Batches are read by the step, ahead of their computation but not beyond the last; in a recording
 * its last steps are like all others. */
static orr_status feed(orr_trainer *t, uint64_t slot, orr_error *err)
{
    const int64_t left = t->training->options->steps - t->last_step;
    const uint64_t more = t->recorder != NULL ? ORR_TABLES_AHEAD : 0;
    return orr_engine_step_set_batch(t->step, slot, slot + (uint64_t)left + more, err);
}

static void score(const orr_trainer *t, const clicks_task *task)
{
    const orr_plan *plan = &t->training->plan;
    const float *logits = orr_engine_step_logits(t->step);
    for (uint32_t m = 0; m < plan->micro_batches; m++) {
        const float *labels = orr_engine_step_input(t->step, "targets", m, NULL);
        for (uint32_t i = 0; i < plan->micro_batch; i++) {
            const int64_t at = (int64_t)m * plan->micro_batch + i;
            task->mine[at] = (orr_scored){logits[at], labels[i]};
        }
    }
}

static orr_status evaluate(orr_trainer *t, const orr_step_result *r, orr_train_step *told,
                           orr_error *err)
{
    const clicks_task *task = t->task;
    const uint32_t ranks = t->transport->ranks;
    (void)r;
    score(t, task);
    if (ranks == 1)
        memcpy(task->all, task->mine, (size_t)task->n * sizeof *task->all);
    else
        ORR_TRY(orr_all_gather(orr_engine_step_world(t->step), task->mine, task->all, 2 * task->n,
                               ORR_DTYPE_FP32, err));
    told->auc = orr_auc(task->all, (size_t)task->n * ranks);
    return ORR_OK;
}

const orr_train_task orr_train_task_clicks = {.open = open, .feed = feed, .evaluate = evaluate};
