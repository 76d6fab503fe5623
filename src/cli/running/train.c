/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/running/train.h"

#include <string.h>
#include <unistd.h>

#include "cli/arguments/factor.h"
#include "cli/arguments/job.h"
#include "cli/arguments/machine_file.h"
#include "cli/arguments/sharding.h"
#include "cli/arguments/checkpoint.h"
#include "cli/running/child_report.h"
#include "cli/command/interrupt.h"
#include "engine/ranks/launch.h"

/* On a machine of few cores: what a step has where nothing is said. */
enum { STEPS_DEFAULT = 100, SEQ_DEFAULT = 256, RECORDED_DEFAULT = 3 };
#define RATE_DEFAULT       3e-4
#define LEAST_RATE_DEFAULT 0.1

static uint8_t choice(const char *name, const char *const *names, uint8_t n)
{
    for (uint8_t i = 0; name != NULL && i < n; i++)
        if (strcmp(names[i], name) == 0)
            return i;
    return 0;
}

static uint8_t task_of(const char *name)
{
    for (int i = 0; name != NULL && i < ORR_TASKS; i++)
        if (strcmp(orr_task_name((orr_task)i), name) == 0)
            return (uint8_t)i;
    return ORR_TASK_PRETRAIN;
}

static orr_status number(orr_training *t, const char *option, const char *text, double *ret)
{
    return text == NULL ? ORR_OK
                        : orr_parse_factor(option, text, strlen(text), ret, &t->session.err);
}

static orr_status read_plan(orr_training *t)
{
    const orr_settings *s = t->session.settings;
    orr_error *err = &t->session.err;
    const char *words;
    if (s->plan != NULL) {
        ORR_TRY(orr_sharding_split(s->plan, t->session.arena, &words, &t->tables, err));
        ORR_TRY(orr_plan_parse(words, &t->plan, err));
    }
    if (s->ranks > 0 && t->plan.dp > 0)
        return orr_fail(err, ORR_INVALID, "--ranks says dp, and so does --plan");
    if (s->ranks > UINT16_MAX)
        return orr_fail(err, ORR_INVALID, "--ranks: %lld is too many", (long long)s->ranks);
    if (s->ranks > 0)
        t->plan.dp = (uint32_t)s->ranks;
    if (t->plan.seq == 0 && t->model->kind == ORR_MODEL_TRANSFORMER)
        t->plan.seq = t->model->context > 0 && t->model->context < SEQ_DEFAULT ? t->model->context
                                                                               : SEQ_DEFAULT;
    if (t->plan.precision == 0 && t->model->kind == ORR_MODEL_DLRM)
        t->plan.precision = ORR_PRECISION_FP32; /* tables are trained in no other */
    t->workload.task = task_of(s->task);
    t->workload.generated = (uint32_t)s->generated;
    return ORR_OK;
}

static orr_status read_placement(orr_training *t)
{
    const orr_settings *s = t->session.settings;
    orr_expert_placement *placement = orr_arena_one(t->session.arena, orr_expert_placement);
    if (s->placement == NULL)
        return ORR_OK;
    if (placement == NULL)
        return orr_fail_memory(&t->session.err);
    t->workload.placement = placement;
    orr_error *err = &t->session.err;
    const orr_status status =
        orr_expert_placement_read(s->placement, t->plan.ep, 0, t->session.arena, placement, err);
    if (status == ORR_INVALID || status == ORR_UNSUPPORTED) /* the file is wrong, not its use */
        return err->status = ORR_PARSE;
    return status;
}

static orr_status read_numbers(orr_training *t)
{
    static const char *const schedules[] = {
#define NAME_(name, text) text,
        ORR_LEARNING_RATE_SCHEDULE_MAP(NAME_)
#undef NAME_
    };
    static const char *const transports[] = {"auto", "shm", "tcp", "mpi"};
    const orr_settings *s = t->session.settings;
    orr_train_options *o = &t->options;
    o->steps = s->steps > 0 ? s->steps : STEPS_DEFAULT;
    o->warmup = s->warmup > 0 ? s->warmup : o->steps / 10;
    o->save_every = s->save_every;
    o->rate = RATE_DEFAULT;
    o->least_rate = LEAST_RATE_DEFAULT;
    o->rate_schedule = choice(s->rate_schedule, schedules, 3);
    o->ranks_kind = choice(s->transport, transports, 4);
    o->threads = (int)s->threads;
    ORR_TRY(number(t, "learning-rate", s->rate, &o->rate));
    ORR_TRY(number(t, "min-learning-rate-ratio", s->least_rate, &o->least_rate));
    ORR_TRY(number(t, "decay", s->decay, &o->decay));
    ORR_TRY(number(t, "clip", s->clip, &o->clip));
    ORR_TRY(number(t, "dpo-beta", s->dpo_beta, &o->dpo_beta));
    ORR_TRY(number(t, "ppo-clip", s->ppo_clip, &o->ppo_clip));
    ORR_TRY(number(t, "kl-coefficient", s->kl, &o->kl));
    o->least_rate *= o->rate;
    if (s->clip != NULL && o->clip <= 0)
        o->clip = -1;
    if (s->decay != NULL && o->decay <= 0)
        o->decay = -1;
    o->record_steps = s->record_steps > 0               ? s->record_steps
                      : s->record != NULL || s->predict ? RECORDED_DEFAULT
                                                        : 0;
    return s->seed != NULL ? orr_parse_seed(s->seed, &o->seed, &t->session.err) : ORR_OK;
}

static orr_status read_options(orr_training *t)
{
    const orr_settings *s = t->session.settings;
    ORR_TRY(orr_model_load(s->args[0], t->session.arena, &t->model, &t->session.err));
    ORR_TRY(read_plan(t));
    ORR_TRY(read_placement(t));
    t->options = (orr_train_options){.model = t->model,
                                     .plan = &t->plan,
                                     .workload = &t->workload,
                                     .data = s->data,
                                     .tokenizer = s->tokenizer,
                                     .init = s->init,
                                     .reference = s->reference,
                                     .reward = s->reward,
                                     .save = s->save,
                                     .resume = s->resume,
                                     .export_to = s->export_to,
                                     .record = s->record,
                                     .expert_trace = s->expert_trace,
                                     .check = s->check,
                                     .told = orr_training_print_step,
                                     .stopped = orr_interrupt_requested,
                                     .ctx = t};
    if (s->resume && s->save == NULL)
        return orr_fail(&t->session.err, ORR_INVALID, "--resume: from where? Add --save FOLDER");
    ORR_TRY(read_numbers(t));
    ORR_TRY(orr_training_store(t));
    return orr_training_team(t);
}

/* tables=... of --plan: a file, or the planner's answer for this machine. */
static orr_status read_tables(orr_training *t, const orr_model *model, const orr_plan *plan)
{
    orr_table_costs costs;
    orr_sharding_question q = {.model = model,
                               .costs = &costs,
                               .ranks = (uint32_t)orr_plan_ranks(plan),
                               .batch = plan->batch};
    if (t->tables == NULL)
        return ORR_OK;
    ORR_TRY(orr_sharding_check_model(model, &t->session.err));
    if (strcmp(t->tables, "auto") == 0)
        ORR_TRY(orr_machine_table_costs(&t->session, q.ranks, &costs));
    ORR_TRY(orr_sharding_load(t->tables, &q, t->session.arena, &t->table_plan, &t->session.err));
    t->options.tables = &t->table_plan;
    return ORR_OK;
}

/* Before anything runs: a plan that cannot be. The model is as the plan changes it. */
static orr_status check_plan(orr_training *t, const orr_model **ret_model, orr_plan *ret_plan)
{
    orr_error *err = &t->session.err;
    *ret_plan = orr_train_plan(t->model, &t->plan);
    ORR_TRY(orr_model_override(t->model, &t->plan, t->session.arena, ret_model, err));
    ORR_TRY(orr_plan_check(ret_plan, err));
    return read_tables(t, *ret_model, ret_plan);
}

/* A place that nobody has named is a matter of usage, memory that is too small one of the plan. */
static int place_tables(orr_training *t, const orr_model *model, const orr_plan *plan)
{
    const orr_status status = orr_training_place_tables(t, model, plan);
    if (status != ORR_OK)
        return status == ORR_INVALID ? EXIT_USAGE : orr_job_exit_code_of_plan(status);
    return orr_training_choose_writes(t, (uint32_t)orr_plan_ranks(plan)) == ORR_OK ? EXIT_DONE
                                                                                   : EXIT_INPUT;
}

static orr_status check_folder(orr_training *t, const char *replica)
{
    const char *folder = orr_training_checkpoint_folder(t, replica);
    const char *latest =
        folder == NULL ? NULL : orr_arena_printf(t->session.arena, "%s/latest", folder);
    if (latest == NULL)
        return orr_fail_memory(&t->session.err);
    return access(latest, F_OK) != 0
               ? ORR_OK
               : orr_fail(
                     &t->session.err, ORR_INVALID,
                     "--save: %s holds checkpoints of an earlier run; --resume goes on from them",
                     folder);
}

/* Before anything runs: places that nothing can be written to, and checkpoints that would be lost.
 */
static orr_status check_outputs(orr_training *t)
{
    const orr_settings *s = t->session.settings;
    orr_arena *arena = t->session.arena;
    orr_error *err = &t->session.err;
    ORR_TRY(orr_check_output("save", s->save, true, arena, err));
    ORR_TRY(orr_check_output("export", s->export_to, true, arena, err));
    ORR_TRY(orr_check_output("record", s->record, true, arena, err));
    ORR_TRY(orr_check_output("expert-trace", s->expert_trace, false, arena, err));
    ORR_TRY(orr_check_output("html", s->html, false, arena, err));
    ORR_TRY(orr_check_output("store", s->store, true, arena, err));
    ORR_TRY(orr_check_output("byte-store", t->store.byte_folder, true, arena, err));
    if (s->save == NULL || s->resume)
        return ORR_OK;
    if (t->options.team != NULL)
        return check_folder(t, s->replica);
    for (uint32_t i = 0; t->in_team && i < t->team.replicas; i++)
        ORR_TRY(check_folder(t, orr_training_replica_name(arena, i)));
    return check_folder(t, NULL);
}

/* What this machine does, measured now if that was never done. */
static orr_status expect(orr_training *t)
{
    orr_session *session = &t->session;
    const char *path;
    ORR_TRY(orr_machine_file_path(session->settings->machine, true, session->arena, &path,
                                  &session->err));
    if (session->settings->machine == NULL && access(path, F_OK) != 0)
        ORR_TRY(orr_machine_measure(session, true, path, &t->measured));
    else
        ORR_TRY(orr_measured_load(path, session->arena, &t->measured, &session->err));
    ORR_TRY(orr_measure_step(&t->options, session->arena, &t->measured, &session->err));
    return orr_predict_step(&t->measured, &t->options, session->arena, &t->expected, &session->err);
}

/* What cannot be run here is told apart from what cannot be read. */
static int code_of(orr_status status)
{
    return status == ORR_UNSUPPORTED || status == ORR_LIMIT ? EXIT_INFEASIBLE : EXIT_INPUT;
}

static int finish(orr_training *t, int code)
{
    if (code != EXIT_DONE && t->session.err.status != ORR_OK)
        orr_session_fail(&t->session);
    orr_graph_free(t->result.graph);
    orr_session_done(&t->session);
    return code;
}

/* Where mpirun started all ranks, the first speaks for them. */
static bool is_told_by_another(const orr_settings *s)
{
    uint32_t rank, n;
    const bool may_meet = s->transport == NULL || strcmp(s->transport, "auto") == 0 ||
                          strcmp(s->transport, "mpi") == 0;
    return may_meet && orr_launcher_ranks(&rank, &n) && rank > 0;
}

static orr_status write_page(orr_training *t)
{
    const char *path = t->session.settings->html;
    if (path == NULL)
        return ORR_OK;
    ORR_TRY(orr_training_html(path, t->model->title, &t->result, &t->session.err));
    orr_session_remark(&t->session, "report written to %s", path);
    return ORR_OK;
}

int orr_command_train(const orr_settings *asked)
{
    orr_training t = {.reports = orr_child_report_open()};
    orr_settings said = *asked;
    const orr_settings *settings = &said;
    const orr_model *model;
    orr_plan plan;
    if (is_told_by_another(asked)) {
        said.output = "/dev/null";
        said.quiet = true;
    }
    if (orr_session_init(&t.session, settings) != ORR_OK || read_options(&t) != ORR_OK)
        return finish(&t, t.session.err.status == ORR_INVALID ? EXIT_USAGE : EXIT_INPUT);
    if (check_plan(&t, &model, &plan) != ORR_OK)
        return finish(&t, orr_job_exit_code_of_plan(t.session.err.status));
    const int placed = place_tables(&t, model, &plan);
    if (placed != EXIT_DONE)
        return finish(&t, placed);
    if (check_outputs(&t) != ORR_OK || orr_session_output(&t.session, &t.style) != ORR_OK)
        return finish(&t, EXIT_INPUT);
    if (settings->predict && expect(&t) != ORR_OK)
        return finish(&t, code_of(t.session.err.status));
    orr_training_print_setup(&t);
    if (t.in_team && t.options.team == NULL)
        return finish(&t, orr_training_replicas(&t));
    orr_interrupt_watch();
    if (orr_train(&t.options, t.session.arena, &t.result, &t.session.err) != ORR_OK)
        return finish(&t, code_of(t.session.err.status));
    if (t.reports >= 0)
        orr_child_report_send_result(t.reports, &t.result);
    if (orr_training_print_result(&t) != ORR_OK || write_page(&t) != ORR_OK)
        return finish(&t, EXIT_INPUT);
    finish(&t, EXIT_DONE);
    return orr_interrupt_signal() != 0 ? 128 + orr_interrupt_signal() : EXIT_DONE;
}
