/* SPDX-License-Identifier: Apache-2.0 */
#include "base/alloc.h"
#include "engine/step/step_state.h"

/* Metrics of a step: sums over micro-batches and ranks, in a fixed order. In recommendation it is
 * the same for any number of ranks: micro-batches are summed in the order of their samples, and
 * gradients are whole on every rank. */

static void add_losses(const orr_engine_step *step, const orr_step_inputs *inputs,
                       uint32_t micro_batch, orr_step_metrics *t)
{
    const float *weights = inputs[micro_batch].weights;
    const float *loss = step->loss + micro_batch * step->loss_n;
    for (int64_t j = 0; j < step->loss_n && weights != NULL; j++) {
        const double weight = weights[j];
        t->tokens += weight != 0;
        t->weight += weight;
        if (weight != 0)
            t->loss += weight * loss[j];
    }
}

/* Each token counts once: tensor-parallel ranks have the same tokens. */
void orr_step_count_losses(const orr_engine_step *step, const orr_step_inputs *inputs,
                           orr_step_metrics *t)
{
    if (step->loss == NULL || step->at.at[ORR_AXIS_TP] != 0)
        return;
    for (uint32_t i = 0; i < step->plan.micro_batches; i++)
        if (step->block_losses == NULL) {
            add_losses(step, inputs, i, t);
        } else {
            step->block_losses[i] = (orr_step_metrics){0};
            add_losses(step, inputs, i, &step->block_losses[i]);
        }
}

static void add(const orr_step_metrics *from, orr_step_metrics *to)
{
    to->loss += from->loss;
    to->weight += from->weight;
    to->tokens += from->tokens;
    to->squares += from->squares;
    for (int i = 0; i < ORR_STEP_OBJECTIVE_SUMS; i++)
        to->objective_sums[i] += from->objective_sums[i];
}

/* Sums `n` metrics of each rank in rank order: bitwise the same on all ranks. */
static orr_status sum_over_ranks(const orr_engine_step *step, const orr_step_metrics *mine,
                                 uint32_t n, orr_step_metrics *ret, orr_error *err)
{
    enum { DOUBLES = sizeof *mine / sizeof(double) };
    const size_t ranks = (size_t)orr_plan_ranks(&step->plan);
    orr_step_metrics *all = orr_malloc(ranks * n * sizeof *all), sum = {0};
    if (all == NULL)
        return orr_fail_memory(err);
    const orr_status status =
        orr_all_gather(step->world, mine, all, (int64_t)n * DOUBLES, ORR_DTYPE_FP64, err);
    for (size_t i = 0; i < ranks * n && status == ORR_OK; i++)
        add(&all[i], &sum);
    orr_free(all);
    if (status == ORR_OK)
        *ret = sum;
    return status;
}

static orr_status sum_blocks(const orr_engine_step *step, orr_step_metrics *t, orr_error *err)
{
    const uint32_t n = step->plan.micro_batches;
    const double squares = t->squares;
    if (orr_plan_ranks(&step->plan) > 1)
        ORR_TRY(sum_over_ranks(step, step->block_losses, n, t, err));
    for (uint32_t i = 0; i < n && orr_plan_ranks(&step->plan) == 1; i++)
        add(&step->block_losses[i], t);
    t->squares = squares;
    return ORR_OK;
}

orr_status orr_step_reduce_metrics(const orr_engine_step *step, orr_step_metrics *t, orr_error *err)
{
    if (step->block_losses != NULL)
        return sum_blocks(step, t, err);
    return orr_plan_ranks(&step->plan) > 1 ? sum_over_ranks(step, t, 1, t, err) : ORR_OK;
}
