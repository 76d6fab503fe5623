/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "engine/train/reward.h"
#include "engine/generate/sampling.h"
#include "engine/train/trainer.h"

/* Reinforcement learning: PPO with a clipped ratio and a batch-mean baseline, without a value
 * model, online, as Llama 2 was trained (arXiv 2307.09288, section 3.2.3). The model answers the
 * prompts of a batch; R = whitened reward - kl (log p - log r) of an answer, r the frozen
 * reference; the advantage of all of an answer's tokens is R less the batch's mean. Each batch is
 * used for two updates, the second one off-policy.
 *
 * Answers are sampled at temperature 1 by the training tape itself, which recomputes all tokens of
 * the samples for each new one: only good enough for small models. */
enum { UPDATES = 2 };

typedef struct answer {
    int64_t first, n; /* position of its first token; number of tokens */
    bool ended;
    double reward, kl, total, advantage; /* total: R */
} answer;

typedef struct reward_task {
    orr_reward reward;
    orr_reference_weights frozen;
    const void *scored; /* logits, shape (micro-batches) of the type */
    orr_type type;
    float *logits; /* of one token, in fp32: shape (vocab) */
    orr_token_candidate *room;
    float *before, *reference; /* shape (rows, tokens): minus log p of each target */
    answer *answers;           /* shape (rows)               */
    double *all;               /* shape (rows of all ranks)  */
    int64_t rows, most;        /* of the rank; most tokens of an answer */
    double tokens;             /* of all answers of the batch */
    double loss;               /* of the first update, this rank's part */
    uint32_t asked;            /* calls of the objective since the batch was sampled */
} reward_task;

static int64_t tokens_of(const orr_trainer *t)
{
    return t->window.tokens;
}

static int64_t *row_tokens(const orr_trainer *t, int64_t row)
{
    const uint32_t n = t->training->plan.micro_batch;
    return (int64_t *)t->inputs[row / n].tokens + row % n * tokens_of(t);
}

static int64_t *row_targets(const orr_trainer *t, int64_t row)
{
    const uint32_t n = t->training->plan.micro_batch;
    return (int64_t *)t->inputs[row / n].targets + row % n * tokens_of(t);
}

static float *row_weights(const orr_trainer *t, int64_t row)
{
    const uint32_t n = t->training->plan.micro_batch;
    return (float *)t->inputs[row / n].weights + row % n * tokens_of(t);
}

static orr_status make_room(orr_trainer *t, reward_task *task, orr_error *err)
{
    const orr_plan *plan = &t->training->plan;
    const size_t numbers = (size_t)task->rows * plan->seq, vocab = t->training->model->vocab;
    task->logits = orr_arena_array(t->arena, float, vocab);
    task->room = orr_arena_array(t->arena, orr_token_candidate, vocab);
    task->before = orr_arena_array(t->arena, float, numbers);
    task->reference = orr_arena_array(t->arena, float, numbers);
    task->answers = orr_arena_array(t->arena, answer, task->rows);
    task->all = orr_arena_array(t->arena, double, plan->batch);
    return task->logits != NULL && task->room != NULL && task->before != NULL &&
                   task->reference != NULL && task->answers != NULL && task->all != NULL
               ? ORR_OK
               : orr_fail_memory(err);
}

static orr_status open(orr_trainer *t, orr_error *err)
{
    const orr_train_options *o = t->training->options;
    const orr_plan *plan = &t->training->plan;
    reward_task *task = orr_arena_one(t->arena, reward_task);
    if (task == NULL)
        return orr_fail_memory(err);
    *task = (reward_task){.rows = (int64_t)plan->micro_batches * plan->micro_batch,
                          .most = o->workload->generated > 0 ? o->workload->generated : plan->seq};
    ORR_TRY(orr_reward_parse(o->reward, &task->reward, err));
    ORR_TRY(orr_train_open_inputs(t, err));
    ORR_TRY(make_room(t, task, err));
    ORR_TRY(orr_engine_step_keep_logits(t->step, &task->scored, &task->type, err));
    t->task = task;
    return orr_train_load_reference(t, o->reference, &task->frozen, err);
}

/* Writes the prompts of the rank's rows; returns the number of its first sample. */
static uint64_t put_prompts(orr_trainer *t, uint64_t slot)
{
    const orr_plan *plan = &t->training->plan;
    reward_task *task = t->task;
    const orr_coordinates at = orr_plan_coordinates(plan, t->transport->rank);
    const uint64_t first = slot * plan->batch + (uint64_t)at.at[ORR_AXIS_DP] * (uint64_t)task->rows;
    for (int64_t row = 0; row < task->rows; row++) {
        answer *a = &task->answers[row];
        const orr_dataset_sample to = {row_tokens(t, row), row_targets(t, row),
                                       row_weights(t, row)};
        orr_dataset_fill(t->training->batches, first + (uint64_t)row, &to);
        *a = (answer){0};
        for (; a->first < tokens_of(t) && to.weights[a->first] != 0; a->first++)
            to.weights[a->first] = 0;
    }
    return first;
}

static void read_logits(const reward_task *task, int64_t at, int64_t vocab)
{
    const int64_t from = at * task->type.dim[task->type.rank - 1];
    for (int64_t i = 0; i < vocab; i++) {
        const uint32_t bits = task->type.dtype == ORR_DTYPE_FP32
                                  ? ((const uint32_t *)task->scored)[from + i]
                                  : (uint32_t)((const uint16_t *)task->scored)[from + i] << 16;
        memcpy(&task->logits[i], &bits, sizeof bits);
    }
}

/* Samples one more token of a row; the random numbers depend on sample and position. */
static void draw(orr_trainer *t, int64_t row, uint64_t sample, int32_t end)
{
    reward_task *task = t->task;
    answer *a = &task->answers[row];
    const int64_t vocab = t->training->model->vocab, last = a->first + a->n - 1;
    const orr_sampling sampling = {.temperature = 1};
    if (a->ended || last >= tokens_of(t))
        return;
    orr_random random =
        orr_random_of(t->training->options->seed ^ UINT64_C(0x726577617264), sample << 20 | last);
    read_logits(task, row * tokens_of(t) + last, vocab);
    const int32_t token = orr_sample_token(&sampling, &random, task->logits, vocab, task->room);
    row_targets(t, row)[last] = token;
    row_weights(t, row)[last] = 1;
    if (last + 1 < tokens_of(t))
        row_tokens(t, row)[last + 1] = token;
    a->n++;
    a->ended = token == end;
}

static orr_status answer_all(orr_trainer *t, uint64_t first, orr_error *err)
{
    reward_task *task = t->task;
    const orr_dataset_options data = {.tokenizer = t->training->tokenizer};
    const int32_t end = orr_dataset_end_token(&data);
    for (int64_t k = 0; k < task->most && k < tokens_of(t); k++) {
        ORR_TRY(orr_engine_step_score(t->step, t->inputs, NULL, err));
        for (int64_t row = 0; row < task->rows; row++)
            draw(t, row, first + (uint64_t)row, end);
    }
    ORR_TRY(orr_engine_step_score(t->step, t->inputs, task->before, err));
    ORR_TRY(orr_train_swap_weights(t, &task->frozen, err));
    ORR_TRY(orr_engine_step_score(t->step, t->inputs, task->reference, err));
    return orr_train_swap_weights(t, &task->frozen, err);
}

/* The text of an answer, without its end token. */
static orr_status text_of(const orr_trainer *t, int64_t row, orr_arena *arena, const char **ret,
                          size_t *ret_len, orr_error *err)
{
    const reward_task *task = t->task;
    const answer *a = &task->answers[row];
    const size_t n = (size_t)(a->n - a->ended);
    int32_t *tokens = orr_arena_array(arena, int32_t, n);
    char *bytes = orr_arena_array(arena, char, n);
    if (tokens == NULL || bytes == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < n; i++) {
        tokens[i] = (int32_t)row_targets(t, row)[a->first - 1 + (int64_t)i];
        bytes[i] = tokens[i] < 256 ? (char)tokens[i] : '\0';
    }
    *ret = bytes;
    *ret_len = n;
    return t->training->tokenizer == NULL
               ? ORR_OK
               : orr_detokenize(t->training->tokenizer, tokens, n, arena, ret, ret_len, err);
}

static orr_status reward_answers(orr_trainer *t, orr_error *err)
{
    reward_task *task = t->task;
    orr_arena *arena = orr_arena_new(0, 0);
    orr_status status = arena != NULL ? ORR_OK : orr_fail_memory(err);
    for (int64_t row = 0; row < task->rows && status == ORR_OK; row++) {
        answer *a = &task->answers[row];
        const char *text;
        size_t len;
        status = text_of(t, row, arena, &text, &len, err);
        if (status != ORR_OK)
            break;
        a->reward = orr_reward_of(&task->reward, text, len, a->n - a->ended, task->most);
        for (int64_t i = a->first - 1; i < a->first - 1 + a->n; i++)
            a->kl += task->reference[row * tokens_of(t) + i] - task->before[row * tokens_of(t) + i];
    }
    orr_arena_free(arena);
    return status;
}

/* Mean and standard deviation over all answers of the batch, summed in rank order. */
static orr_status mean_and_deviation(orr_trainer *t, const double *mine, double *ret_mean,
                                     double *ret_deviation, orr_error *err)
{
    const reward_task *task = t->task;
    const uint32_t n = t->training->plan.batch;
    double sum = 0, squares = 0;
    if (t->transport->ranks == 1)
        memcpy(task->all, mine, (size_t)task->rows * sizeof *mine);
    else
        ORR_TRY(orr_all_gather(orr_engine_step_world(t->step), mine, task->all, task->rows,
                               ORR_DTYPE_FP64, err));
    for (uint32_t i = 0; i < n; i++)
        sum += task->all[i];
    for (uint32_t i = 0; i < n; i++)
        squares += (task->all[i] - sum / n) * (task->all[i] - sum / n);
    *ret_mean = sum / n;
    *ret_deviation = sqrt(squares / n);
    return ORR_OK;
}

enum { REWARD, KL, TOTAL, LENGTH_OF };
static orr_status mean_and_deviation_of(orr_trainer *t, int what, double *ret_mean,
                                        double *ret_deviation, orr_error *err)
{
    const reward_task *task = t->task;
    double *mine = orr_malloc((size_t)task->rows * sizeof *mine);
    if (mine == NULL)
        return orr_fail_memory(err);
    for (int64_t i = 0; i < task->rows; i++) {
        const answer *a = &task->answers[i];
        const double values[] = {a->reward, a->kl, a->total, (double)a->n};
        mine[i] = values[what];
    }
    const orr_status status = mean_and_deviation(t, mine, ret_mean, ret_deviation, err);
    orr_free(mine);
    return status;
}

static orr_status set_advantages(orr_trainer *t, orr_error *err)
{
    enum { LEAST = -9 }; /* rewards with less deviation count as equal */
    const orr_train_options *o = t->training->options;
    reward_task *task = t->task;
    const double kl = o->kl > 0 ? o->kl : 0.01;
    double mean, deviation;
    ORR_TRY(mean_and_deviation_of(t, REWARD, &mean, &deviation, err));
    for (int64_t i = 0; i < task->rows; i++) {
        answer *a = &task->answers[i];
        a->total = (a->reward - mean) / (deviation + pow(10, LEAST)) - kl * a->kl;
    }
    ORR_TRY(mean_and_deviation_of(t, TOTAL, &mean, &deviation, err));
    for (int64_t i = 0; i < task->rows; i++)
        task->answers[i].advantage = task->answers[i].total - mean;
    ORR_TRY(mean_and_deviation_of(t, LENGTH_OF, &mean, &deviation, err));
    task->tokens = mean * t->training->plan.batch;
    return ORR_OK;
}

static orr_status feed(orr_trainer *t, uint64_t slot, orr_error *err)
{
    reward_task *task = t->task;
    const uint64_t first = put_prompts(t, slot);
    task->loss = 0;
    task->asked = 0;
    ORR_TRY(answer_all(t, first, err));
    ORR_TRY(reward_answers(t, err));
    return set_advantages(t, err);
}

static orr_status objective(void *ctx, uint32_t micro_batch, const float *loss, int64_t n,
                            float *ret_seed, orr_error *err)
{
    const orr_trainer *t = ctx;
    reward_task *task = t->task;
    const orr_train_options *o = t->training->options;
    const double clip = o->ppo_clip > 0 ? o->ppo_clip : 0.2;
    const bool first = task->asked++ < t->training->plan.micro_batches;
    (void)err;
    for (int64_t i = 0; i < n; i++) {
        const int64_t row = micro_batch * (n / tokens_of(t)) + i / tokens_of(t);
        double by = 0, part = 0;
        if (row_weights(t, row)[i % tokens_of(t)] != 0)
            part =
                orr_ppo_clipped_loss(loss[i], task->before[row * tokens_of(t) + i % tokens_of(t)],
                                     task->answers[row].advantage, clip, &by);
        ret_seed[i] = (float)(by / task->tokens);
        task->loss += first ? part / task->tokens : 0;
    }
    return ORR_OK;
}

static orr_status evaluate(orr_trainer *t, const orr_step_result *r, orr_train_step *told,
                           orr_error *err)
{
    const reward_task *task = t->task;
    double deviation, loss = task->loss;
    (void)r;
    if (t->transport->ranks > 1)
        ORR_TRY(
            orr_all_reduce(orr_engine_step_world(t->step), &loss, &loss, 1, ORR_DTYPE_FP64, err));
    told->loss = loss;
    ORR_TRY(mean_and_deviation_of(t, KL, &told->kl, &deviation, err));
    return mean_and_deviation_of(t, REWARD, &told->reward, &deviation, err);
}

const orr_train_task orr_train_task_ppo = {
    .updates = UPDATES, .objective = objective, .open = open, .feed = feed, .evaluate = evaluate};
