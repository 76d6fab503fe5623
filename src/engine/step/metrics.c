/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

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
    for (int i = 0; i < ORR_STEP_OBJECTIVE_SUMS; i++)
        to->objective_sums[i] += from->objective_sums[i];
}

/* Gathers what each rank has, `doubles` numbers, in rank order: the caller frees it. */
static orr_status gather(const orr_engine_step *step, const void *mine, size_t doubles,
                         void *ret_all, orr_error *err)
{
    const size_t ranks = (size_t)orr_plan_ranks(&step->plan);
    double *all = orr_malloc(ranks * doubles * sizeof *all);
    if (all == NULL)
        return orr_fail_memory(err);
    const orr_status status =
        orr_all_gather(step->world, mine, all, (int64_t)doubles, ORR_DTYPE_FP64, err);
    if (status == ORR_OK)
        memcpy(ret_all, &all, sizeof all);
    else
        orr_free(all);
    return status;
}

enum { METRICS_DOUBLES = sizeof(orr_step_metrics) / sizeof(double) };

static orr_status sum_blocks(const orr_engine_step *step, orr_step_metrics *t, orr_error *err)
{
    const size_t n = step->plan.micro_batches, ranks = (size_t)orr_plan_ranks(&step->plan);
    const orr_step_metrics *all = step->block_losses;
    orr_step_metrics *gathered = NULL, sum = {0};
    if (ranks > 1) {
        ORR_TRY(gather(step, step->block_losses, n * METRICS_DOUBLES, &gathered, err));
        all = gathered;
    } else {
        sum = *t;
    }
    for (size_t i = 0; i < n * ranks; i++)
        add(&all[i], &sum);
    orr_free(gathered);
    *t = sum;
    return ORR_OK;
}

/* What a rank tells the others. */
typedef struct rank_sums {
    orr_step_metrics metrics;
    orr_square_sum squares;
} rank_sums;

orr_status orr_step_reduce_metrics(const orr_engine_step *step, orr_step_metrics *t,
                                   orr_square_sum *squares, orr_error *err)
{
    const rank_sums mine = {*t, *squares};
    const size_t ranks = (size_t)orr_plan_ranks(&step->plan);
    rank_sums *all, sum = {.metrics = {0}};
    if (step->block_losses != NULL)
        return sum_blocks(step, t, err);
    if (ranks == 1)
        return ORR_OK;
    ORR_TRY(gather(step, &mine, sizeof mine / sizeof(double), &all, err));
    for (size_t r = 0; r < ranks; r++) {
        add(&all[r].metrics, &sum.metrics);
        orr_square_sum_join(&sum.squares, &all[r].squares);
    }
    orr_free(all);
    *t = sum.metrics;
    *squares = sum.squares;
    return ORR_OK;
}
