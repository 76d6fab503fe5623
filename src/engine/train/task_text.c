/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/train/trainer.h"

/* Data-parallel ranks take consecutive samples of the step's batch, so that the batch is the same
 * for any number of replicas. */

static int64_t own_numbers(const orr_trainer *t)
{
    return t->window.samples * t->window.tokens;
}

orr_status orr_train_open_inputs(orr_trainer *t, orr_error *err)
{
    const uint32_t n = t->training->plan.micro_batches;
    const int64_t tokens = t->training->plan.seq > 0 ? t->training->plan.seq : 1;
    orr_engine_step_local_batch(t->step, &t->window);
    t->inputs = orr_arena_array(t->arena, orr_step_inputs, n);
    t->sample = (orr_dataset_sample){orr_arena_array(t->arena, int64_t, tokens),
                                     orr_arena_array(t->arena, int64_t, tokens),
                                     orr_arena_array(t->arena, float, tokens)};
    if (t->inputs == NULL || t->sample.tokens == NULL || t->sample.targets == NULL ||
        t->sample.weights == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n && own_numbers(t) > 0; i++) {
        orr_step_inputs *in = &t->inputs[i];
        in->tokens = orr_arena_array(t->arena, int64_t, own_numbers(t));
        in->targets = orr_arena_array(t->arena, int64_t, own_numbers(t));
        in->weights = orr_arena_array(t->arena, float, own_numbers(t));
        if (in->tokens == NULL || in->targets == NULL || in->weights == NULL)
            return orr_fail_memory(err);
    }
    return ORR_OK;
}

/* Targets that count in the whole batch: losses are means over them. */
static double counted(const orr_trainer *t, uint64_t first)
{
    int64_t n = 0;
    for (uint32_t i = 0; i < t->training->plan.batch; i++)
        n += orr_dataset_loss_tokens(t->training->batches, first + i);
    return n > 0 ? (double)n : 1;
}

static void put_sample(const orr_trainer *t, const orr_step_inputs *in, int64_t row, float each)
{
    int64_t *tokens = (int64_t *)in->tokens, *targets = (int64_t *)in->targets;
    float *weights = (float *)in->weights;
    for (uint32_t i = 0; i < t->window.share.n; i++)
        for (int64_t k = 0; k < t->window.share.piece[i].count; k++) {
            const int64_t at = row * t->window.tokens + t->window.share.piece[i].own + k;
            const int64_t whole = t->window.share.piece[i].whole + k;
            tokens[at] = t->sample.tokens[whole];
            targets[at] = t->sample.targets[whole];
            weights[at] = t->sample.weights[whole] * each;
        }
}

static orr_status feed(orr_trainer *t, uint64_t slot, orr_error *err)
{
    const orr_plan *plan = &t->training->plan;
    const uint64_t first = slot * plan->batch;
    const orr_coordinates at = orr_plan_coordinates(plan, t->transport->rank);
    const uint64_t mine =
        first + (uint64_t)at.at[ORR_AXIS_DP] * plan->micro_batches * plan->micro_batch;
    (void)err;
    if (own_numbers(t) == 0)
        return ORR_OK;
    const float each = (float)(1 / counted(t, first));
    for (uint32_t i = 0; i < plan->micro_batches; i++)
        for (uint32_t row = 0; row < plan->micro_batch; row++) {
            orr_dataset_fill(t->training->batches, mine + (uint64_t)i * plan->micro_batch + row,
                             &t->sample);
            put_sample(t, &t->inputs[i], row, each);
        }
    return ORR_OK;
}

const orr_train_task orr_train_task_text = {.open = orr_train_open_inputs, .feed = feed};
