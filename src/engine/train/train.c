/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/train/trainer.h"

/* Training: validates options, completes the plan, opens the data, then starts the ranks. */

#define DEADLINE_NS INT64_C(600000000000)

static double or_else(double value, double otherwise)
{
    return value == 0 ? otherwise : value < 0 ? 0 : value;
}

static orr_status check_team(const orr_train_options *o, orr_error *err)
{
    const orr_train_team *team = o->team;
    const uint8_t task = o->workload->task;
    if (team->coordinator == NULL || team->name == NULL || team->name[0] == '\0' ||
        strchr(team->name, '/') != NULL || team->name[0] == '.')
        return orr_fail(err, ORR_INVALID,
                        "a replica of a team has a coordinator (host:port) and a name without '/'");
    if (team->replicas < 1)
        return orr_fail(err, ORR_INVALID, "for how many replicas is the job planned?");
    if (o->model->kind != ORR_MODEL_TRANSFORMER)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "tables of embeddings are not trained in a team: "
                        "gradients of their rows are not summed");
    if (o->expert_trace != NULL)
        return orr_fail(err, ORR_UNSUPPORTED, "routes are not recorded in a team");
    if (task == ORR_TASK_RL)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "rl makes several updates of a batch, and answers of "
                        "its own: it is not trained in a team");
    return ORR_OK;
}

static orr_status check(const orr_train_options *o, orr_error *err)
{
    if (o->steps < 1)
        return orr_fail(err, ORR_INVALID, "training of %lld steps", (long long)o->steps);
    if (o->warmup < 0 || o->warmup > o->steps)
        return orr_fail(err, ORR_INVALID, "%lld steps of warm-up of %lld in all",
                        (long long)o->warmup, (long long)o->steps);
    if (o->rate <= 0 || o->least_rate < 0)
        return orr_fail(err, ORR_INVALID, "a learning rate of %g, at least %g", o->rate,
                        o->least_rate);
    if (o->resume && o->save == NULL)
        return orr_fail(err, ORR_INVALID, "to go on from a checkpoint, say where it is saved");
    const uint8_t task = o->workload->task;
    if (task != ORR_TASK_PRETRAIN && task != ORR_TASK_SFT && task != ORR_TASK_DPO &&
        task != ORR_TASK_RL)
        return orr_fail(err, ORR_UNSUPPORTED, "%s is not run here",
                        orr_task_name((orr_task)o->workload->task));
    if (task != ORR_TASK_PRETRAIN && o->data == NULL)
        return orr_fail(err, ORR_INVALID, "%s learns from a file of JSON lines",
                        orr_task_name((orr_task)task));
    if (o->model->kind != ORR_MODEL_TRANSFORMER && o->model->kind != ORR_MODEL_DLRM)
        return orr_fail(err, ORR_UNSUPPORTED, "training runs transformers and recommendation");
    if (o->model->kind == ORR_MODEL_DLRM && o->workload->task != ORR_TASK_PRETRAIN)
        return orr_fail(err, ORR_UNSUPPORTED, "a recommendation model is only trained from clicks");
    if (o->expert_trace != NULL && o->model->moe.experts == 0)
        return orr_fail(err, ORR_UNSUPPORTED, "%s has no experts to be recorded", o->model->name);
    if (o->team != NULL)
        ORR_TRY(check_team(o, err));
    return ORR_OK;
}

/* A sample of the plan is a preference pair: two rows. */
static orr_status complete_pairs(orr_plan *plan, orr_error *err)
{
    if (plan->cp > 1)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "answers that are cut into slices (cp) are not compared here");
    plan->micro_batch *= 2;
    plan->batch *= 2;
    return ORR_OK;
}

/* Where experts stand; what the plan says of it is for simulation. */
static orr_status place_experts(orr_train_job *t, orr_error *err)
{
    const orr_expert_placement *asked = t->options->workload->placement;
    if (t->plan.expert_slots > 0 || t->plan.expert_policy > 0)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "expert_slots and expert_policy are simulated: in training experts stand "
                        "by a placement (`orrery experts`) or are neighbours");
    if (asked == NULL)
        return ORR_OK;
    orr_expert_placement *placement = orr_arena_one(t->arena, orr_expert_placement);
    if (placement == NULL)
        return orr_fail_memory(err);
    t->workload.placement = placement;
    return orr_engine_step_place_experts(t->model, &t->plan, asked, t->arena, placement, err);
}

static orr_status complete_plan(orr_train_job *t, orr_error *err)
{
    static const orr_plan one = {.dp = 1};
    const orr_plan *asked = t->options->plan != NULL ? t->options->plan : &one;
    orr_arena *arena = t->arena;
    ORR_TRY(orr_model_override(t->options->model, asked, arena, &t->model, err));
    t->plan = orr_train_plan(t->model, asked);
    t->workload = *t->options->workload;
    if (t->workload.seq > 0)
        t->plan.seq = t->workload.seq;
    if (t->plan.seq == 0 && t->model->kind == ORR_MODEL_TRANSFORMER)
        t->plan.seq = t->model->context > 0 && t->model->context < 8192 ? t->model->context : 8192;
    t->workload.seq = t->plan.seq;
    ORR_TRY(orr_plan_check(&t->plan, err));
    if (t->plan.local_steps > 1)
        return orr_fail(err, ORR_UNSUPPORTED,
                        "local_steps=%u: steps that parts of a job take alone are simulated, not "
                        "trained",
                        t->plan.local_steps);
    ORR_TRY(place_experts(t, err));
    if (t->workload.task == ORR_TASK_DPO)
        ORR_TRY(complete_pairs(&t->plan, err));
    if (t->workload.task == ORR_TASK_RL && orr_plan_ranks(&t->plan) != t->plan.dp)
        return orr_fail(err, ORR_UNSUPPORTED, "rl is run on replicas (dp, zero) alone");
    t->plan_text = orr_plan_text(&t->plan, arena);
    return t->plan_text == NULL ? orr_fail_memory(err) : ORR_OK;
}

static void set_learning_rate(orr_train_job *t)
{
    const orr_train_options *o = t->options;
    t->rate = (orr_learning_rate){.most = o->rate,
                                  .least = o->least_rate,
                                  .warmup = o->warmup,
                                  .steps = o->steps,
                                  .schedule = o->rate_schedule};
    /* Row-wise Adagrad scales its own steps, so gradients are not clipped by default. */
    t->clip = or_else(o->clip, t->model->kind == ORR_MODEL_DLRM ? -1 : 1);
    t->update = (orr_update){.beta1 = or_else(o->beta1, 0.9),
                             .beta2 = or_else(o->beta2, 0.95),
                             .epsilon = or_else(o->epsilon, 1e-8),
                             .decay = or_else(o->decay, 0.1),
                             .gradient_scale = 1};
}

/* Each replica gets a folder of its own, since replicas may share a file system. No other run may
 * write to it. */
static orr_status open_folder(orr_train_job *t, orr_error *err)
{
    const orr_train_options *o = t->options;
    uint32_t rank = 0, ranks = 1;
    t->save = o->save;
    if (o->save == NULL)
        return ORR_OK;
    if (o->team != NULL)
        t->save = orr_arena_printf(t->arena, "%s/%s", o->save, o->team->name);
    if (t->save == NULL)
        return orr_fail_memory(err);
    if (o->team != NULL && mkdir(o->save, 0777) != 0 && errno != EEXIST)
        return orr_fail(err, ORR_IO, "%s: %s", o->save, strerror(errno));
    return orr_launcher_ranks(&rank, &ranks) && rank > 0
               ? ORR_OK
               : orr_checkpoint_lock(t->save, &t->lock, err);
}

static orr_status open_data(orr_train_job *t, orr_error *err)
{
    const orr_train_options *o = t->options;
    if (t->model->kind == ORR_MODEL_DLRM) {
        t->task = &orr_train_task_clicks;
        return orr_click_data_open(o->data, &t->model->dlrm, o->seed, &t->clicks, err);
    }
    t->task = &orr_train_task_text;
    if (o->tokenizer != NULL)
        ORR_TRY(orr_tokenizer_open(o->tokenizer, &t->tokenizer, err));
    const orr_dataset_options options = {.path = o->data,
                                         .tokenizer = t->tokenizer,
                                         .tokens = t->plan.seq,
                                         .vocab = t->model->vocab,
                                         .seed = o->seed};
    if (o->workload->task == ORR_TASK_DPO) {
        t->task = &orr_train_task_dpo;
        return orr_dataset_preferences(&options, &t->batches, err);
    }
    if (o->workload->task == ORR_TASK_RL) {
        t->task = &orr_train_task_ppo;
        return orr_dataset_prompts(&options, &t->batches, err);
    }
    if (o->data == NULL)
        return orr_dataset_synthetic(&options, &t->batches, err);
    if (o->workload->task == ORR_TASK_SFT)
        return orr_dataset_conversations(&options, &t->batches, err);
    return orr_dataset_text(&options, &t->batches, err);
}

static orr_status prepare(const orr_train_options *options, orr_arena *arena, orr_train_job *ret,
                          orr_error *err)
{
    *ret = (orr_train_job){.options = options, .arena = arena, .lock = -1};
    ORR_TRY(check(options, err));
    ORR_TRY(complete_plan(ret, err));
    set_learning_rate(ret);
    ORR_TRY(open_folder(ret, err));
    ret->history = orr_arena_array(arena, orr_train_step, (size_t)options->steps);
    if (options->store != NULL)
        ret->rows = orr_arena_array(arena, orr_train_rows, (size_t)options->steps * ORR_TIERS);
    if (ret->history == NULL || (options->store != NULL && ret->rows == NULL))
        return orr_fail_memory(err);
    return open_data(ret, err);
}

static void done(orr_train_job *t)
{
    orr_checkpoint_unlock(t->save, t->lock);
    orr_dataset_free(t->batches);
    orr_click_data_free(t->clicks);
    if (t->tokenizer != NULL)
        orr_tokenizer_close(t->tokenizer);
}

/* While rank 0 waits for a team, the other ranks wait for rank 0, however long. */
static int64_t deadline_ns(const orr_train_options *o)
{
    return o->team != NULL && o->team->give_up_ns > 0 ? DEADLINE_NS + o->team->give_up_ns
           : o->team != NULL                          ? 2 * DEADLINE_NS
                                                      : DEADLINE_NS;
}

orr_status orr_train(const orr_train_options *options, orr_arena *arena, orr_train_result *ret,
                     orr_error *err)
{
    orr_train_job t;
    orr_status status = prepare(options, arena, &t, err);
    if (status == ORR_OK)
        status =
            orr_ranks_run((uint32_t)orr_plan_ranks(&t.plan), (orr_ranks_kind)options->ranks_kind,
                          deadline_ns(options), orr_train_rank, &t, err);
    done(&t);
    if (status == ORR_OK)
        *ret = t.result;
    return status;
}

/* Makes a rank's step without allocation or communication, to see what it would hold. */
static orr_status measure_rank(const orr_train_job *t, uint32_t rank, int64_t *ret, orr_error *err)
{
    orr_transport silent = *orr_transport_self();
    const orr_step_replica_reducer other = {
        0}; /* stands for a team, whose reductions need buffers */
    orr_step_source source = {.model = t->model,
                              .plan = &t->plan,
                              .workload = &t->workload,
                              .transport = &silent,
                              .tables = t->options->tables,
                              .team = t->options->team != NULL ? &other : NULL};
    orr_step_memory memory;
    silent.rank = rank;
    silent.ranks = (uint32_t)orr_plan_ranks(&t->plan);
    ORR_TRY(orr_backend_cpu(&source.backend, err));
    ORR_TRY(orr_engine_step_measure(&source, &memory, err));
    *ret = memory.total > *ret ? memory.total : *ret;
    return ORR_OK;
}

/* Stages differ; the first and last ranks of a stage hardly do, so those are measured. */
orr_status orr_train_measure(const orr_train_options *options, int64_t *ret_bytes, orr_error *err)
{
    orr_train_job t = {.options = options, .arena = orr_arena_new(0, 0)};
    orr_status status = t.arena != NULL ? check(options, err) : orr_fail_memory(err);
    int64_t most = 0;
    if (status == ORR_OK)
        status = complete_plan(&t, err);
    for (uint32_t stage = 0; status == ORR_OK && stage < t.plan.pp; stage++) {
        orr_coordinates at = {0};
        at.at[ORR_AXIS_PP] = stage;
        status = measure_rank(&t, orr_plan_rank_at(&t.plan, &at), &most, err);
    }
    if (status == ORR_OK)
        *ret_bytes = most;
    orr_arena_free(t.arena);
    return status;
}
