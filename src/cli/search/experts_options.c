/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/progress.h"
#include "base/units.h"
#include "cli/arguments/checkpoint.h"
#include "cli/arguments/factor.h"
#include "cli/command/interrupt.h"
#include "cli/search/experts.h"
#include "experts/routes/read.h"
#include "experts/routes/windows.h"

/* Ranks where neither --ranks nor a cluster says how many. */
enum { USUAL_RANKS = 8 };
/* Tokens of a rank in a step where --tokens does not say it: a decode batch, assumed. */
enum { USUAL_TOKENS = 128 };

/* A file that breaks its rules is no mistake of who typed its name. */
static orr_status of_file(orr_status status, orr_error *err)
{
    if (status == ORR_INVALID || status == ORR_UNSUPPORTED)
        err->status = status = ORR_PARSE;
    return status;
}

static const orr_settings *settings_of(const orr_experts_request *r)
{
    return r->session.settings;
}

/* --- routes ----------------------------------------------------------------------------------- */

static bool show_progress(void *ctx, uint64_t bytes, uint64_t total)
{
    orr_progress_update(ctx, bytes, total);
    return !orr_interrupt_requested(NULL);
}

static int phase_of(const char *name)
{
    return name == NULL || strcmp(name, "all") == 0 ? -1
           : strcmp(name, "prefill") == 0           ? ORR_ROUTE_PREFILL
                                                    : ORR_ROUTE_DECODE;
}

static orr_status read_routes(orr_experts_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    orr_routes_options options;
    orr_progress progress;
    orr_routes_options_init(&options);
    options.experts = r->model != NULL ? r->model->moe.experts : 0;
    options.keep_warm_up = s->keep_warm_up;
    options.phase = phase_of(s->phase);
    options.progress = show_progress;
    options.ctx = &progress;
    orr_progress_init(&progress, "reading", true, STDERR_FILENO, s->quiet, NULL);
    const orr_status status =
        orr_routes_read(s->args[0], &options, r->session.arena, &r->routes, err);
    orr_progress_done(&progress);
    return of_file(status, err);
}

/* Loads alone have no tokens: neither phases, nor windows of their own number. */
static orr_status read_windows(orr_experts_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    if (s->phase != NULL || s->windows > 0)
        return orr_fail(err, ORR_INVALID, "--%s is for routes, and %s has loads alone",
                        s->phase != NULL ? "phase" : "windows", s->args[0]);
    r->has_windows = true;
    return of_file(orr_expert_windows_read(s->args[0], r->session.arena, &r->windows, err), err);
}

static orr_status read_input(orr_experts_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    bool loads;
    if (s->model != NULL)
        ORR_TRY(of_file(orr_model_load(s->model, r->session.arena, &r->model, err), err));
    ORR_TRY(of_file(orr_windows_look_at(s->args[0], &loads, err), err));
    ORR_TRY(loads ? read_windows(r, err) : read_routes(r, err));
    if (!loads && s->windows > 1) {
        r->has_windows = true;
        ORR_TRY(orr_expert_windows_of_routes(r->routes, (uint32_t)s->windows, r->session.arena,
                                             &r->windows, err));
    }
    return orr_experts_request_model(r);
}

/* --- where they are placed -------------------------------------------------------------------- */

static uint32_t experts_of(const orr_experts_request *r)
{
    return r->routes != NULL ? r->routes->experts : r->windows.experts;
}

static orr_status read_ranks(orr_experts_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    const uint32_t experts = experts_of(r);
    const uint32_t usual = r->cluster != NULL ? r->cluster->n_devices : USUAL_RANKS;
    r->ranks = s->ranks > 0 ? (uint32_t)s->ranks : usual < experts ? usual : experts;
    if (r->cluster == NULL)
        return ORR_OK;
    if (r->ranks > r->cluster->n_devices)
        return orr_fail(err, ORR_INVALID, "--ranks: %s has %u devices", r->cluster->name,
                        r->cluster->n_devices);
    r->spare = (uint32_t)s->slots;
    if (experts + (uint64_t)r->spare * r->ranks > UINT16_MAX)
        return orr_fail(err, ORR_INVALID, "--slots: %u of each of %u ranks are too many", r->spare,
                        r->ranks);
    return ORR_OK;
}

static orr_status read_costs(orr_experts_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    const orr_calibration *calibration;
    uint64_t tokens = (uint64_t)USUAL_TOKENS * r->ranks;
    if (s->tokens != NULL && (orr_parse_count(s->tokens, &tokens, NULL) != ORR_OK || tokens == 0))
        return orr_fail(err, ORR_INVALID, "--tokens: '%.60s' is no number of tokens, as 4096",
                        s->tokens);
    ORR_TRY(orr_calibration_of(r->cluster->device, (double)s->software, r->session.arena,
                               &calibration, err));
    ORR_TRY(orr_expert_costs_of_cluster(r->cluster, calibration, r->model, r->ranks, (double)tokens,
                                        r->session.arena, &r->costs, &r->options.host_ranks, err));
    r->options.costs = &r->costs;
    return ORR_OK;
}

static orr_status read_policy(orr_experts_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    orr_expert_policy policy = ORR_EXPERT_POLICY_BEST;
    orr_placement_format format = ORR_PLACEMENT_FORMAT_YAML;
    r->every_policy = s->policy != NULL && strcmp(s->policy, "all") == 0;
    if (s->policy != NULL && !r->every_policy && !orr_expert_policy_parse(s->policy, &policy))
        return orr_fail(err, ORR_INVALID, "--policy: no '%.60s'", s->policy);
    if (s->placement_format != NULL && !orr_placement_format_parse(s->placement_format, &format))
        return orr_fail(err, ORR_INVALID, "--placement-format: no '%.60s'", s->placement_format);
    r->options.policy = (uint8_t)policy;
    r->format = format;
    /* Servers have as many slots in every layer. */
    r->options.even_layers = s->even_layers || format != ORR_PLACEMENT_FORMAT_YAML;
    return ORR_OK;
}

static orr_status read_dead(orr_experts_request *r, orr_error *err)
{
    const char *list = settings_of(r)->dead;
    bool *dead = orr_arena_array(r->session.arena, bool, r->ranks);
    uint32_t n = 0;
    if (list == NULL)
        return ORR_OK;
    if (dead == NULL)
        return orr_fail_memory(err);
    for (const char *at = list; *at != '\0';) {
        char *end;
        const unsigned long rank = strtoul(at, &end, 10);
        if (end == at || (*end != ',' && *end != '\0') || *at == '-')
            return orr_fail(err, ORR_INVALID, "--dead: '%.60s' are no ranks, as 3,7", list);
        if (rank >= r->ranks)
            return orr_fail(err, ORR_INVALID, "--dead: rank %lu of %u", rank, r->ranks);
        n += !dead[rank];
        dead[rank] = true;
        at = end + (*end == ',');
    }
    if (n == r->ranks)
        return orr_fail(err, ORR_INVALID, "--dead: all %u ranks", n);
    r->options.dead = dead;
    return ORR_OK;
}

static orr_status read_running(orr_experts_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    orr_expert_placement read;
    const uint32_t *number = r->routes != NULL ? r->routes->number : r->windows.number;
    const uint32_t layers = r->routes != NULL ? r->routes->layers : r->windows.layers;
    uint64_t bytes = 0, horizon = 0;
    if (s->running == NULL)
        return s->horizon != NULL || s->step_bytes != NULL
                   ? orr_fail(err, ORR_INVALID, "--%s is for moves from what runs: --running FILE",
                              s->horizon != NULL ? "horizon" : "step-bytes")
                   : ORR_OK;
    if (s->horizon != NULL && orr_parse_count(s->horizon, &horizon, NULL) != ORR_OK)
        return orr_fail(err, ORR_INVALID, "--horizon: '%.60s' is no number of steps, as 10k",
                        s->horizon);
    if (s->step_bytes != NULL &&
        (orr_parse_bytes(s->step_bytes, &bytes, NULL) != ORR_OK || bytes == 0))
        return orr_fail(err, ORR_INVALID, "--step-bytes: '%.60s' is no size, as 256MiB",
                        s->step_bytes);
    ORR_TRY(of_file(orr_expert_placement_read(s->running, r->ranks, r->options.host_ranks,
                                              r->session.arena, &read, err),
                    err));
    ORR_TRY(of_file(
        orr_expert_placement_layers(&read, number, layers, r->session.arena, &r->running, err),
        err));
    if (r->running.ranks != r->ranks)
        return orr_fail(err, ORR_PARSE, "%s: a placement over %u ranks, and there are %u",
                        s->running, r->running.ranks, r->ranks);
    r->has_running = true;
    r->options.running = &r->running;
    r->options.horizon_steps = (double)horizon;
    r->step_bytes = (double)bytes;
    return ORR_OK;
}

static orr_status read_placing(orr_experts_request *r, orr_error *err)
{
    const orr_settings *s = settings_of(r);
    orr_expert_options_init(&r->options);
    if (s->seed != NULL)
        ORR_TRY(orr_parse_seed(s->seed, &r->options.seed, err));
    ORR_TRY(read_costs(r, err));
    r->options.ranks = r->ranks;
    r->options.slots = experts_of(r) + r->spare * r->ranks;
    r->options.expert_groups = (uint32_t)s->expert_groups;
    r->options.most_choices = s->exact ? 0 : ORR_EXPERT_USUAL_CHOICES;
    ORR_TRY(read_policy(r, err));
    ORR_TRY(read_dead(r, err));
    ORR_TRY(orr_experts_request_groups(r));
    r->options.routes = r->placed_by;
    r->options.windows = r->routes == NULL ? &r->windows : NULL;
    return read_running(r, err);
}

/* Options that ask for a placement, which needs a cluster. */
static orr_status refuse_without_cluster(const orr_settings *s, orr_error *err)
{
    const struct {
        const char *name;
        bool given;
    } options[] = {
        {"output", s->output != NULL},
        {"policy", s->policy != NULL},
        {"slots", s->slots > 0},
        {"groups", s->groups > 0},
        {"running", s->running != NULL},
        {"dead", s->dead != NULL},
        {"objective", s->objective != NULL},
        {"horizon", s->horizon != NULL},
        {"hold-out", s->hold_out != NULL},
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (options[i].given)
            return orr_fail(err, ORR_INVALID,
                            "--%s is for placements: --cluster says where, as h100_superpod "
                            "(`orrery hw --kind clusters`)",
                            options[i].name);
    return ORR_OK;
}

orr_status orr_experts_request_read(orr_experts_request *r)
{
    const orr_settings *s = settings_of(r);
    const orr_catalog *catalog;
    orr_error *err = &r->session.err;
    if (s->cluster == NULL) {
        ORR_TRY(refuse_without_cluster(s, err));
    } else {
        ORR_TRY(orr_catalog_open(r->session.arena, &catalog, err));
        ORR_TRY(of_file(orr_cluster_load(catalog, s->cluster, r->session.arena, &r->cluster, err),
                        err));
    }
    ORR_TRY(orr_check_output("output", s->output, false, r->session.arena, err));
    ORR_TRY(orr_check_output("html", s->html, false, r->session.arena, err));
    ORR_TRY(read_input(r, err));
    ORR_TRY(read_ranks(r, err));
    return r->cluster != NULL ? read_placing(r, err) : ORR_OK;
}
