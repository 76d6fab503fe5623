/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/train/dpo.h"
#include "engine/train/trainer.h"

/* Learning from preferences (DPO). Rows of a micro-batch are pairs: the chosen answer, then the
 * rejected one. The reference's log-probabilities of all pairs are computed once, before the first
 * step. */

/* The objective's sums: losses, pairs ranked correctly, pairs. */
enum { LOSS, RIGHT, PAIRS };

typedef struct preference_task {
    double *reference; /* shape (pairs of the data, 2): log-probabilities of both answers */
    uint64_t *index;   /* shape (micro-batches, pairs of one): index of the pair in the data */
    float *loss;       /* shape (micro-batches, samples, tokens): for scoring */
} preference_task;

static uint32_t pairs_of(const orr_trainer *t)
{
    return t->training->plan.micro_batch / 2;
}

/* Writes both rows of pair `index` of the data. */
static void put_pair(const orr_trainer *t, const orr_step_inputs *in, uint32_t pair, uint64_t index)
{
    const orr_dataset *b = t->training->batches;
    const size_t n = (size_t)b->tokens, at = pair * n;
    b->fill(b, index, &t->sample);
    memcpy((int64_t *)in->tokens + at, t->sample.tokens, n * sizeof(int64_t));
    memcpy((int64_t *)in->targets + at, t->sample.targets, n * sizeof(int64_t));
    memcpy((float *)in->weights + at, t->sample.weights, n * sizeof(float));
}

/* log p of an answer from the losses of its row. */
static double answer(const float *loss, const float *weights, int64_t tokens, double *ret_n)
{
    double sum = 0, n = 0;
    for (int64_t i = 0; i < tokens; i++)
        if (weights[i] != 0) {
            sum -= loss[i];
            n++;
        }
    *ret_n = n;
    return sum;
}

/* Scores this rank's share of pairs with the reference, from pair `first` of the data. */
static orr_status score_some(orr_trainer *t, uint64_t first, orr_error *err)
{
    preference_task *task = t->task;
    const orr_plan *plan = &t->training->plan;
    const uint64_t n = t->training->batches->n;
    const int64_t tokens = t->window.tokens;
    double count;
    for (uint32_t p = 0; p < plan->micro_batches * pairs_of(t) && tokens > 0; p++)
        put_pair(t, &t->inputs[p / pairs_of(t)], p % pairs_of(t), (first + p) % n);
    ORR_TRY(orr_engine_step_score(t->step, t->inputs, task->loss, err));
    const orr_coordinates at = orr_plan_coordinates(plan, t->transport->rank);
    if (!t->window.head || at.at[ORR_AXIS_TP] != 0)
        return ORR_OK;
    for (uint32_t row = 0; row < plan->micro_batches * plan->micro_batch; row++) {
        const orr_step_inputs *in = &t->inputs[row / plan->micro_batch];
        if (first + row / 2 < n)
            task->reference[2 * first + row] =
                answer(task->loss + row * tokens, in->weights + row % plan->micro_batch * tokens,
                       tokens, &count);
    }
    return ORR_OK;
}

/* Data-parallel ranks divide the data; each number comes from one rank. */
static orr_status score_all(orr_trainer *t, orr_error *err)
{
    preference_task *task = t->task;
    const orr_plan *plan = &t->training->plan;
    const uint64_t n = t->training->batches->n, each = plan->micro_batches * pairs_of(t);
    const orr_coordinates at = orr_plan_coordinates(plan, t->transport->rank);
    for (uint64_t first = 0; first < n; first += each * plan->dp)
        ORR_TRY(score_some(t, first + at.at[ORR_AXIS_DP] * each, err));
    if (t->transport->ranks == 1)
        return ORR_OK;
    return orr_all_reduce(orr_engine_step_world(t->step), task->reference, task->reference,
                          (int64_t)(2 * n), ORR_DTYPE_FP64, err);
}

static orr_status score_reference(orr_trainer *t, orr_error *err)
{
    const char *path = t->training->options->reference;
    orr_reference_weights frozen;
    if (path == NULL)
        return score_all(t, err);
    ORR_TRY(orr_train_load_reference(t, path, &frozen, err));
    ORR_TRY(orr_train_swap_weights(t, &frozen, err));
    ORR_TRY(score_all(t, err));
    return orr_train_swap_weights(t, &frozen, err);
}

static orr_status open(orr_trainer *t, orr_error *err)
{
    const orr_plan *plan = &t->training->plan;
    const orr_dataset *b = t->training->batches;
    preference_task *task = orr_arena_one(t->arena, preference_task);
    ORR_TRY(orr_train_open_inputs(t, err));
    const size_t rows = (size_t)plan->micro_batches * plan->micro_batch;
    t->sample = (orr_dataset_sample){orr_arena_array(t->arena, int64_t, b->tokens),
                                     orr_arena_array(t->arena, int64_t, b->tokens),
                                     orr_arena_array(t->arena, float, b->tokens)};
    if (task == NULL || t->sample.tokens == NULL || t->sample.targets == NULL ||
        t->sample.weights == NULL)
        return orr_fail_memory(err);
    task->reference = orr_arena_array(t->arena, double, 2 * b->n);
    task->index = orr_arena_array(t->arena, uint64_t, rows);
    task->loss = orr_arena_array(t->arena, float, rows * plan->seq);
    if (task->reference == NULL || task->index == NULL || task->loss == NULL)
        return orr_fail_memory(err);
    t->task = task;
    return score_reference(t, err);
}

static orr_status feed(orr_trainer *t, uint64_t slot, orr_error *err)
{
    preference_task *task = t->task;
    const orr_plan *plan = &t->training->plan;
    const uint32_t n = plan->micro_batches * pairs_of(t);
    const orr_coordinates at = orr_plan_coordinates(plan, t->transport->rank);
    const uint64_t first = slot * plan->batch / 2 + at.at[ORR_AXIS_DP] * n;
    (void)err;
    for (uint32_t p = 0; p < n && t->window.tokens > 0; p++) {
        task->index[p] = orr_dataset_index(t->training->batches, first + p);
        put_pair(t, &t->inputs[p / pairs_of(t)], p % pairs_of(t), task->index[p]);
    }
    return ORR_OK;
}

static void put_seeds(const float *weights, int64_t tokens, double by, float *ret)
{
    for (int64_t i = 0; i < tokens; i++)
        ret[i] = weights[i] != 0 ? (float)by : 0;
}

static orr_status objective(void *ctx, uint32_t micro_batch, const float *loss, int64_t n,
                            float *ret_seed, orr_error *err)
{
    const orr_trainer *t = ctx;
    const orr_train_options *o = t->training->options;
    const preference_task *task = t->task;
    double *sums = orr_engine_step_objective_sums(t->step);
    const int64_t tokens = t->window.tokens;
    const float *weights = t->inputs[micro_batch].weights;
    const double each = 2.0 / t->training->plan.batch;
    (void)n;
    (void)err;
    for (uint32_t p = 0; p < pairs_of(t); p++) {
        const int64_t a = 2 * p * tokens, b = a + tokens;
        const double *reference = &task->reference[2 * task->index[micro_batch * pairs_of(t) + p]];
        double other;
        orr_dpo_pair pair = {.chosen_reference = reference[0], .rejected_reference = reference[1]};
        pair.chosen = answer(loss + a, weights + a, tokens, &pair.tokens);
        pair.rejected = answer(loss + b, weights + b, tokens, &other);
        const orr_dpo_loss l =
            orr_dpo_loss_of(&pair, o->dpo_beta > 0 ? o->dpo_beta : 0.1, o->dpo_nll);
        put_seeds(weights + a, tokens, l.by_chosen * each, ret_seed + a);
        put_seeds(weights + b, tokens, l.by_rejected * each, ret_seed + b);
        sums[LOSS] += l.loss;
        sums[RIGHT] += l.margin > 0 ? 1 : l.margin == 0 ? 0.5 : 0;
        sums[PAIRS]++;
    }
    return ORR_OK;
}

/* Tensor-parallel ranks have the same pairs, which count equally often in numerator and
 * denominator. */
static orr_status evaluate(orr_trainer *t, const orr_step_result *r, orr_train_step *told,
                           orr_error *err)
{
    (void)t;
    (void)err;
    told->loss = r->objective_sums[LOSS] / r->objective_sums[PAIRS];
    told->reward = r->objective_sums[RIGHT] / r->objective_sums[PAIRS];
    return ORR_OK;
}

const orr_train_task orr_train_task_dpo = {
    .objective = objective, .open = open, .feed = feed, .evaluate = evaluate};
