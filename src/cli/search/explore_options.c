/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/closest.h"
#include "base/units.h"
#include "cli/arguments/factor.h"
#include "cli/search/explore.h"

/* What a step of pretraining has when nobody says: Llama 3 405B's after its first 252 million
 * tokens (arXiv 2407.21783, section 3.4.1, has 8M and then 16M). */
enum { USUAL_TOKENS = 16777216, USUAL_SEQ = 8192 };

static orr_settings const *settings_of(const orr_explore_request *r)
{
    return r->session.settings;
}

static orr_status amount_of(const char *option, const char *text, double *ret, orr_error *err)
{
    uint64_t value;
    if (orr_parse_count(text, &value, NULL) != ORR_OK || value == 0)
        return orr_fail(err, ORR_INVALID, "--%s: '%.60s' is not a number, as 16M or 15.6T", option,
                        text);
    *ret = (double)value;
    return ORR_OK;
}

/* --- the batch ------------------------------------------------------------------------------- */

static orr_status read_seq(orr_explore_request *r, orr_plan *fix, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    const uint32_t context = r->job.model->context;
    uint32_t seq = 0;
    if (s->seq != NULL)
        ORR_TRY(orr_parse_power_count("seq", s->seq, &seq, err));
    if (seq > 0 && fix->seq > 0 && seq != fix->seq)
        return orr_fail(err, ORR_INVALID, "--seq says %u tokens, --fix %u", seq, fix->seq);
    if (seq > 0)
        fix->seq = seq;
    r->options.workload.seq = fix->seq > 0                         ? fix->seq
                              : context > 0 && context < USUAL_SEQ ? context
                                                                   : USUAL_SEQ;
    return ORR_OK;
}

/* Samples of a step: as said, of as many tokens as said, or of the usual number of them. */
static orr_status read_batch(orr_explore_request *r, orr_plan *fix, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    uint32_t tokens = USUAL_TOKENS;
    ORR_TRY(read_seq(r, fix, err));
    const uint32_t seq = r->options.workload.seq;
    if ((s->batch != NULL) + (s->tokens_per_step != NULL) + (fix->batch > 0) > 1)
        return orr_fail(err, ORR_INVALID,
                        "one of --batch, --tokens-per-step and batch= in --fix is enough");
    if (fix->batch > 0)
        return ORR_OK;
    if (s->batch != NULL)
        return orr_parse_power_count("batch", s->batch, &fix->batch, err);
    if (s->tokens_per_step != NULL)
        ORR_TRY(orr_parse_power_count("tokens-per-step", s->tokens_per_step, &tokens, err));
    if (tokens < seq)
        return orr_fail(err, ORR_INVALID, "--tokens-per-step: %u tokens are no sample of %u",
                        tokens, seq);
    fix->batch = (tokens + seq / 2) / seq;
    r->batch_assumed = s->tokens_per_step == NULL;
    return ORR_OK;
}

static orr_status read_fixed(orr_explore_request *r)
{
    orr_error *err = &r->session.err;
    orr_plan fix = r->job.plan;
    ORR_TRY(read_batch(r, &fix, err));
    r->options.fix = orr_plan_text(&fix, r->session.arena);
    return r->options.fix != NULL ? ORR_OK : orr_fail_memory(err);
}

/* --- what is wanted -------------------------------------------------------------------------- */

static uint8_t objective_named(const char *name, uint8_t otherwise)
{
    for (uint8_t i = 0; name != NULL && i < ORR_OBJECTIVES; i++)
        if (strcmp(orr_objective_name((orr_objective)i), name) == 0)
            return i;
    return otherwise;
}

static orr_status read_objectives(orr_explore_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    orr_explore_options *o = &r->options;
    o->objective = objective_named(s->objective,
                                   s->deadline != NULL ? ORR_OBJECTIVE_BUDGET : ORR_OBJECTIVE_STEP);
    o->second = objective_named(s->front, ORR_OBJECTIVES);
    if (o->second == o->objective)
        return orr_fail(err, ORR_INVALID, "--pareto: %s is already what --objective makes small",
                        s->front);
    if (s->tokens != NULL)
        ORR_TRY(amount_of("tokens", s->tokens, &o->tokens, err));
    if (o->tokens == 0 &&
        (o->objective == ORR_OBJECTIVE_BUDGET || o->second == ORR_OBJECTIVE_BUDGET))
        return orr_fail(err, ORR_INVALID, "--tokens is needed for a budget, as 15.6T");
    return ORR_OK;
}

/* Failures matter to a budget of tokens, and to who names them. */
static orr_status read_failures(orr_explore_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    const bool none = s->failures != NULL && strcmp(s->failures, "none") == 0;
    const bool asked = s->failures != NULL || s->timing != NULL || s->set != NULL;
    if (none || (!asked && r->options.tokens == 0))
        return ORR_OK;
    ORR_TRY(orr_failure_choice_read(&r->session, &r->failures));
    orr_fleet_options_init(&r->fleet, r->failures.failures, r->failures.timing);
    if (s->set != NULL)
        ORR_TRY(orr_fleet_set(&r->fleet, s->set, r->session.arena, err));
    r->options.fleet = &r->fleet;
    return ORR_OK;
}

static orr_status read_starts(orr_explore_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    uint32_t n = 0;
    while (s->starts[n] != NULL)
        n++;
    orr_plan *starts = orr_arena_array(r->session.arena, orr_plan, n);
    if (starts == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        if (orr_plan_parse(s->starts[i], &starts[i], err) != ORR_OK) {
            orr_error_prefix(err, "--start");
            return err->status;
        }
    r->options.starts = starts;
    r->options.n_starts = n;
    return ORR_OK;
}

static orr_status read_effort(orr_explore_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    orr_explore_options *o = &r->options;
    o->exact = s->exact;
    if (s->gap != NULL)
        ORR_TRY(orr_parse_share("gap", s->gap, &o->gap_frac, err));
    if (s->time_limit != NULL)
        ORR_TRY(orr_parse_duration(s->time_limit, &o->limit_ns, err));
    if (s->keep > 64)
        return orr_fail(err, ORR_INVALID, "--keep: at most 64");
    if (s->keep > 0)
        o->keep = (uint32_t)s->keep;
    o->threads = (uint32_t)s->threads;
    o->store = s->store;
    o->resume = s->resume;
    return s->resume && s->store == NULL
               ? orr_fail(err, ORR_INVALID, "--resume: --store has to name what to go on with")
               : ORR_OK;
}

static orr_status read_bounds(orr_explore_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    orr_explore_options *o = &r->options;
    o->limit = s->limit;
    o->exclude = s->no;
    o->allow = s->allow;
    o->dimensions = s->dimensions;
    if (s->gpus != NULL)
        ORR_TRY(orr_parse_power_count("gpus", s->gpus, &o->max_devices, err));
    if (s->min_gpus != NULL)
        ORR_TRY(orr_parse_power_count("min-gpus", s->min_gpus, &o->min_devices, err));
    if (o->max_devices > 0 && o->min_devices > o->max_devices)
        return orr_fail(err, ORR_INVALID, "--min-gpus %u is more than --gpus %u", o->min_devices,
                        o->max_devices);
    if (s->max_buildings > ORR_SITES_MAX)
        return orr_fail(err, ORR_INVALID, "--max-sites: at most %d", ORR_SITES_MAX);
    o->max_sites = (uint32_t)s->max_buildings;
    return s->price != NULL ? orr_explore_prices_read(r, s->price) : ORR_OK;
}

/* --- other searchers ------------------------------------------------------------------------- */

static orr_status add_baseline(orr_explore_request *r, const char *item, size_t len, orr_error *err)
{
    const char *names[ORR_BASELINES];
    char word[40] = "";
    for (uint8_t i = 0; i < ORR_BASELINES; i++) {
        names[i] = orr_baseline_name((orr_baseline)i);
        if (strlen(names[i]) == len && memcmp(names[i], item, len) == 0) {
            bool there = false;
            for (uint32_t k = 0; k < r->n_baselines; k++)
                there |= r->baselines[k] == i;
            if (!there)
                r->baselines[r->n_baselines++] = i;
            return ORR_OK;
        }
    }
    memcpy(word, item, len < sizeof word ? len : sizeof word - 1);
    const char *close = orr_closest_match(word, names, ORR_BASELINES);
    return close
               ? orr_fail(err, ORR_INVALID, "--baselines: no '%s'; did you mean %s?", word, close)
               : orr_fail(err, ORR_INVALID, "--baselines: no '%s'; all, or any of %s, %s, %s, ...",
                          word, names[0], names[1], names[2]);
}

static orr_status read_baselines(orr_explore_request *r, orr_error *err)
{
    const char *list = settings_of(r)->baselines;
    if (list == NULL)
        return ORR_OK;
    if (strcmp(list, "all") == 0) {
        for (uint8_t i = 0; i < ORR_BASELINES; i++)
            r->baselines[r->n_baselines++] = i;
        return ORR_OK;
    }
    for (const char *at = list; *at != '\0';) {
        const size_t len = strcspn(at, ",");
        ORR_TRY(add_baseline(r, at, len, err));
        at += len + (at[len] == ',');
    }
    return ORR_OK;
}

/* --- all of it ------------------------------------------------------------------------------- */

orr_status orr_explore_request_read(orr_explore_request *r)
{
    const orr_settings *s = settings_of(r);
    orr_error *err = &r->session.err;
    orr_plan fix = {0};
    if (s->n_args == 0)
        return orr_fail(
            err, ORR_INVALID,
            "which model? `orrery models` lists them; as orrery explore llama3.1-405b -c h100_24k");
    if (s->fix != NULL && orr_plan_parse(s->fix, &fix, err) != ORR_OK) {
        orr_error_prefix(err, "--fix");
        return err->status;
    }
    /* What is fixed is a plan that leaves much open; of none, its sequence is the model's. */
    orr_job_spec words = {s->args[0], NULL, s->fix != NULL ? s->fix : "micro_batch=1"};
    ORR_TRY(orr_explore_first_cluster(r, &words.cluster, err));
    ORR_TRY(orr_job_request_read(&r->session, &words, &r->job));
    r->job.plan = fix;
    orr_explore_options_init(&r->options);
    r->options.software_year = (double)r->session.settings->software;
    r->options.workload = r->job.options.workload;
    r->options.calibration = r->job.options.calibration;
    r->options.framework = (uint8_t)r->job.framework;
    ORR_TRY(read_objectives(r, err));
    ORR_TRY(read_fixed(r));
    ORR_TRY(read_bounds(r, err));
    ORR_TRY(read_effort(r, err));
    ORR_TRY(read_starts(r, err));
    ORR_TRY(read_baselines(r, err));
    ORR_TRY(orr_explore_network_read(r));
    ORR_TRY(read_failures(r, err));
    return orr_explore_questions_read(r);
}
