/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/command/simulation_meter.h"
#include "cli/arguments/job.h"

#include <stdlib.h>
#include <string.h>

#include "cli/arguments/factor.h"
#include "cli/arguments/sharding.h"
#include "experts/routes/windows.h"

orr_status orr_job_spec_parse(const char *text, const orr_job_spec *otherwise, orr_arena *arena,
                              orr_job_spec *ret, orr_error *err)
{
    const char *at = strchr(text, '@'), *colon = strchr(at ? at : text, ':');
    const char *plan = colon ? colon + 1 : at ? NULL : strchr(text, '=') ? text : NULL;
    const size_t model_len = at      ? (size_t)(at - text)
                             : colon ? (size_t)(colon - text)
                             : plan  ? 0
                                     : strlen(text);
    const bool names_cluster = at && at[1] != '\0' && at[1] != ':';
    *ret = *otherwise;
    if (plan)
        ret->plan = plan;
    if (model_len > 0)
        ret->model = orr_arena_strndup(arena, text, model_len);
    if (names_cluster)
        ret->cluster =
            orr_arena_strndup(arena, at + 1, colon ? (size_t)(colon - at - 1) : strlen(at + 1));
    if ((model_len > 0 && ret->model == NULL) || (names_cluster && ret->cluster == NULL))
        return orr_fail_memory(err);
    return ret->model == NULL || ret->cluster == NULL
               ? orr_fail(
                     err, ORR_INVALID,
                     "'%s' names no %s; write MODEL@CLUSTER:PLAN, or give --model and --cluster",
                     text, ret->model == NULL ? "model" : "cluster")
               : ORR_OK;
}

static uint8_t index_of(const char *text, uint8_t n, const char *(*name)(int))
{
    for (uint8_t i = 0; text && i < n; i++)
        if (strcmp(name(i), text) == 0)
            return i;
    return 0;
}
static const char *task_name(int i)
{
    return orr_task_name((orr_task)i);
}
static const char *algorithm_name(int i)
{
    return orr_algorithm_name((orr_algorithm)i);
}
static const char *framework_name(int i)
{
    return orr_framework_name((orr_framework)i);
}
static const char *popularity_name(int i)
{
    return orr_popularity_name((orr_popularity_kind)i);
}
static const char *detail_name(int i)
{
    static const char *const names[] = {
#define NAME_(name, text) text,
        ORR_DETAIL_MAP(NAME_)
#undef NAME_
    };
    return names[i];
}

/* A whole number of 32 bits from an option of numbers. */
static orr_status count_of(const char *option, int64_t value, uint32_t *ret, orr_error *err)
{
    if (value > UINT32_MAX / 2)
        return orr_fail(err, ORR_INVALID, "--%s: %lld is too many", option, (long long)value);
    *ret = (uint32_t)value;
    return ORR_OK;
}

/* A file that breaks its rules is no mistake of who typed its name. */
static orr_status of_file(orr_status status, orr_error *err)
{
    if (status == ORR_INVALID || status == ORR_UNSUPPORTED)
        err->status = status = ORR_PARSE;
    return status;
}

/* An option that the task does not look at would be a wrong answer to another question. */
static orr_status check_task_options(const orr_workload *w, orr_error *err)
{
    const bool serves = w->task == ORR_TASK_PREFILL || w->task == ORR_TASK_DECODE,
               prompts = serves || w->task == ORR_TASK_RL;
    if ((w->prompt > 0 || w->generated > 0) && !prompts)
        return orr_fail(err, ORR_INVALID, "--%s goes with --task prefill, decode or rl, not %s",
                        w->prompt > 0 ? "prompt" : "generated", orr_task_name((orr_task)w->task));
    if (w->lora_rank > 0 && w->task != ORR_TASK_LORA)
        return orr_fail(err, ORR_INVALID, "--lora-rank goes with --task lora, not %s",
                        orr_task_name((orr_task)w->task));
    return ORR_OK;
}

/* Routes, or loads alone as servers keep them. */
static orr_status read_expert_load(orr_job_request *r, const char *path)
{
    orr_workload *w = &r->options.workload;
    orr_arena *arena = r->session->arena;
    orr_error *err = &r->session->err;
    orr_routes_options options;
    bool loads;
    ORR_TRY(of_file(orr_windows_look_at(path, &loads, err), err));
    if (loads) {
        w->windows = &r->windows;
        return of_file(orr_expert_windows_read(path, arena, &r->windows, err), err);
    }
    orr_routes_options_init(&options);
    options.experts = r->model->moe.experts;
    return of_file(orr_routes_read(path, &options, arena, &w->routes, err), err);
}

/* --expert-load and --placement. */
static orr_status read_experts(orr_job_request *r)
{
    const orr_settings *s = r->session->settings;
    orr_workload *w = &r->options.workload;
    orr_arena *arena = r->session->arena;
    orr_error *err = &r->session->err;
    if (s->placement != NULL) {
        ORR_TRY(of_file(
            orr_expert_placement_read(s->placement, r->plan.ep, 0, arena, &r->placement, err),
            err));
        w->placement = &r->placement;
    }
    if (s->expert_load == NULL)
        return ORR_OK;
    ORR_TRY(read_expert_load(r, s->expert_load));
    return orr_expert_arrangements_open(&w->arrangements, err);
}

static orr_status read_workload(orr_job_request *r)
{
    const orr_settings *settings = r->session->settings;
    orr_workload *w = &r->options.workload;
    orr_error *err = &r->session->err;
    w->task = index_of(settings->task, ORR_TASKS, task_name);
    w->popularity = index_of(settings->popularity, ORR_POPULARITIES, popularity_name);
    w->padded = settings->padded_bags;
    ORR_TRY(count_of("prompt", settings->prompt, &w->prompt, err));
    ORR_TRY(count_of("generated", settings->generated, &w->generated, err));
    ORR_TRY(count_of("lora-rank", settings->lora_rank, &w->lora_rank, err));
    ORR_TRY(count_of("images", settings->images, &w->images, err));
    ORR_TRY(check_task_options(w, err));
    if (settings->documents != NULL) {
        ORR_TRY(orr_documents_read(settings->documents, r->session->arena, &r->documents, err));
        w->documents = &r->documents;
    }
    return read_experts(r);
}

/* "0-1023:a100_sxm_80g" */
static orr_status read_mixed(orr_job_request *r, const char *item, size_t len,
                             orr_heterogeneous_ranks *ret)
{
    orr_error *err = &r->session->err;
    char *dash, *colon = NULL;
    const unsigned long first = strtoul(item, &dash, 10);
    const unsigned long last = *dash == '-' ? strtoul(dash + 1, &colon, 10) : 0;
    if (colon == NULL || *colon != ':' || last < first || last >= ORR_NONE ||
        (size_t)(colon - item) >= len)
        return orr_fail(err, ORR_INVALID,
                        "--mixed-devices: '%.*s' is not FIRST-LAST:DEVICE, as 0-1023:a100_sxm_80g",
                        (int)(len < 60 ? len : 60), item);
    const char *name =
        orr_arena_strndup(r->session->arena, colon + 1, len - (size_t)(colon + 1 - item));
    if (name == NULL)
        return orr_fail_memory(err);
    *ret = (orr_heterogeneous_ranks){
        .first = (uint32_t)first, .count = (uint32_t)(last - first + 1), .slowdown = 1};
    return of_file(orr_device_load(r->catalog, name, r->session->arena, &ret->device, err), err);
}

/* --straggler and --mixed-devices, in one list. */
static orr_status read_heterogeneous(orr_job_request *r)
{
    const orr_settings *settings = r->session->settings;
    orr_arena *arena = r->session->arena;
    const orr_rank_factor *slow;
    uint32_t n = 0;
    ORR_TRY(orr_parse_stragglers(settings->straggler, arena, &slow, &n, &r->session->err));
    orr_heterogeneous_ranks *heterogeneous =
        orr_arena_array(arena, orr_heterogeneous_ranks, n + orr_count_items(settings->mixed));
    if (heterogeneous == NULL)
        return orr_fail_memory(&r->session->err);
    for (uint32_t i = 0; i < n; i++)
        heterogeneous[i] = (orr_heterogeneous_ranks){
            .first = slow[i].rank, .count = 1, .slowdown = slow[i].factor};
    for (const char *at = settings->mixed; at && *at;) {
        const size_t len = strcspn(at, ",");
        ORR_TRY(read_mixed(r, at, len, &heterogeneous[n++]));
        at += len + (at[len] == ',');
    }
    r->options.heterogeneous = heterogeneous;
    r->options.n_heterogeneous = n;
    return ORR_OK;
}

/* "building:0:0.5" */
static orr_status read_slow_link(orr_job_request *r, const char *item, size_t len,
                                 orr_slow_link *ret)
{
    orr_error *err = &r->session->err;
    const size_t name_len = strcspn(item, ":,");
    char *colon = NULL;
    const unsigned long unit = item[name_len] == ':' ? strtoul(item + name_len + 1, &colon, 10) : 0;
    if (colon == NULL || colon == item + name_len + 1 || *colon != ':' || unit >= ORR_NONE)
        return orr_fail(err, ORR_INVALID,
                        "--slow-link: '%.*s' is not LEVEL:UNIT:SHARE, as building:0:0.5",
                        (int)(len < 60 ? len : 60), item);
    ret->unit = (uint32_t)unit;
    ORR_TRY(orr_parse_factor("slow-link", colon + 1, len - (size_t)(colon + 1 - item),
                             &ret->bandwidth_frac, err));
    for (ret->level = 0; ret->level < r->cluster->n_levels; ret->level++) {
        const char *name = r->cluster->levels[ret->level].name;
        if (strlen(name) == name_len && memcmp(name, item, name_len) == 0)
            return ORR_OK;
    }
    return orr_fail(err, ORR_INVALID,
                    "--slow-link: %s has no level '%.*s'; `orrery hw %s` lists them",
                    r->cluster->name, (int)name_len, item, r->cluster->name);
}

static orr_status read_slow(orr_job_request *r)
{
    const char *list = r->session->settings->slow_link;
    orr_slow_link *slow = orr_arena_array(r->session->arena, orr_slow_link, orr_count_items(list));
    if (slow == NULL)
        return orr_fail_memory(&r->session->err);
    r->options.slow = slow;
    for (const char *at = list; at && *at;) {
        const size_t len = strcspn(at, ",");
        ORR_TRY(read_slow_link(r, at, len, &slow[r->options.n_slow++]));
        at += len + (at[len] == ',');
    }
    return ORR_OK;
}

/* --framework and --emit. Frameworks here train. */
static orr_status read_framework(orr_job_request *r)
{
    const orr_settings *settings = r->session->settings;
    const uint8_t task = r->options.workload.task;
    r->framework = (orr_framework)index_of(settings->framework, ORR_FRAMEWORKS, framework_name);
    if (r->framework == ORR_FRAMEWORK_NONE)
        return settings->emit ? orr_fail(&r->session->err, ORR_INVALID,
                                         "--emit: for which framework? as --framework megatron")
                              : ORR_OK;
    return task == ORR_TASK_PRETRAIN || task == ORR_TASK_SFT
               ? ORR_OK
               : orr_fail(&r->session->err, ORR_INVALID,
                          "--framework %s goes with --task pretrain or sft", settings->framework);
}

/* The model with the shape that the plan says, which is what a framework's rules are about. */
static orr_status apply_framework(orr_job_request *r)
{
    const orr_model *model;
    orr_error *err = &r->session->err;
    ORR_TRY(orr_model_override(r->model, &r->plan, r->session->arena, &model, err));
    r->plan = orr_framework_defaults(r->framework, model, &r->plan);
    return orr_framework_check(r->framework, model, &r->plan, err);
}

orr_status orr_job_request_emit(const orr_job_request *r, const orr_plan *plan)
{
    orr_session *session = r->session;
    orr_table_style style;
    const orr_model *model;
    const char *text;
    ORR_TRY(orr_model_override(r->model, plan, session->arena, &model, &session->err));
    ORR_TRY(orr_framework_emit(r->framework, model, r->cluster, plan, session->arena, &text,
                               &session->err));
    ORR_TRY(orr_session_output(session, &style));
    orr_output_text(session->out, text);
    return orr_output_finish(session->out, &session->err);
}

orr_status orr_job_request_read(orr_session *session, const orr_job_spec *words,
                                orr_job_request *ret)
{
    const orr_settings *settings = session->settings;
    orr_error *err = &session->err;
    const char *plan;
    *ret = (orr_job_request){.session = session};
    if (words->cluster == NULL)
        return orr_fail(err, ORR_INVALID,
                        "--cluster is needed, as h100_24k; `orrery hw --kind clusters` lists them");
    if (words->plan == NULL)
        return orr_fail(err, ORR_INVALID,
                        "--plan is needed, as tp=8,pp=16,dp=128,micro_batches=16");
    orr_job_options_init(&ret->options);
    ret->options.algorithm = index_of(settings->algorithm, ORR_ALGORITHMS, algorithm_name);
    ret->options.fold = !settings->unfolded;
    ret->options.software_year = (double)settings->software;
    if (settings->detail)
        ret->options.detail = index_of(settings->detail, 3, detail_name);
    if (settings->contention)
        ret->options.network = ORR_NETWORK_FLOWS;
    if (settings->threads > 0)
        ret->options.threads = (uint32_t)settings->threads;
    ORR_TRY(orr_catalog_open(session->arena, &ret->catalog, err));
    ORR_TRY(of_file(orr_model_load(words->model, session->arena, &ret->model, err), err));
    ORR_TRY(of_file(
        orr_cluster_load(ret->catalog, words->cluster, session->arena, &ret->cluster, err), err));
    ORR_TRY(orr_sharding_split(words->plan, session->arena, &plan, &ret->tables, err));
    ORR_TRY(orr_plan_parse(plan, &ret->plan, err));
    if (settings->calibration)
        ORR_TRY(of_file(orr_calibration_load(settings->calibration, ret->options.software_year,
                                             session->arena, &ret->options.calibration, err),
                        err));
    ORR_TRY(read_workload(ret));
    ORR_TRY(read_framework(ret));
    ORR_TRY(read_heterogeneous(ret));
    return read_slow(ret);
}

/* Tables are spread over all ranks of the plan. */
static orr_status read_tables(orr_job_request *r)
{
    const orr_plan plan = orr_plan_with_defaults(&r->plan);
    orr_sharding_question q = {.cluster = r->cluster,
                               .ranks = (uint32_t)orr_plan_ranks(&plan),
                               .batch = plan.batch,
                               .software_year = r->options.software_year,
                               .popularity = r->options.workload.popularity};
    orr_session *session = r->session;
    if (r->tables == NULL)
        return ORR_OK;
    ORR_TRY(orr_model_override(r->model, &r->plan, session->arena, &q.model, &session->err));
    ORR_TRY(orr_sharding_load(r->tables, &q, session->arena, &r->table_plan, &session->err));
    r->options.workload.tables = &r->table_plan;
    return ORR_OK;
}

orr_status orr_job_request_run(orr_job_request *r)
{
    if (r->framework != ORR_FRAMEWORK_NONE)
        ORR_TRY(apply_framework(r));
    ORR_TRY(read_tables(r));
    orr_simulation_meter meter;
    orr_simulation_meter_begin(&meter, r->session);
    r->options.progress = orr_simulation_meter_update;
    r->options.progress_ctx = &meter;
    const orr_status status = orr_outcome_of(r->model, &r->plan, r->cluster, &r->options,
                                             r->session->arena, &r->outcome, &r->session->err);
    orr_simulation_meter_done(&meter);
    r->options.progress = NULL;
    return status;
}

void orr_job_request_done(orr_job_request *request)
{
    orr_outcome_free(&request->outcome);
    orr_expert_arrangements_close(request->options.workload.arrangements);
}
