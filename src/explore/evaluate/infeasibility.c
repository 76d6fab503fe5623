/* SPDX-License-Identifier: Apache-2.0 */
#include "explore/evaluate/infeasibility.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/array.h"
#include "model/plan/plan.h"
#include "explore/evaluate/evaluator.h"

enum { TEXT = 512, SEARCH_S = 3 };

typedef struct relaxation_search {
    const orr_model *model;
    const orr_cluster *cluster;
    const orr_explore_options *options;
    const orr_binding_constraint *binding;
    orr_arena *arena;
    orr_error *err;
    orr_array(orr_relaxation) found;
} relaxation_search;

static orr_status add_relaxation(relaxation_search *r, const char *what, const orr_plan *plan,
                                 double step_ns)
{
    const orr_relaxation relaxation = {orr_arena_strndup(r->arena, what, strlen(what)), *plan,
                                       step_ns};
    if (relaxation.what == NULL || !orr_array_push(&r->found, relaxation))
        return orr_fail_memory(r->err);
    return ORR_OK;
}

/* Searches again with changed options until the first feasible plan. Options that are invalid are
 * no relaxation. */
static orr_status try_options(relaxation_search *r, orr_explore_options changed, const char *what)
{
    orr_exploration made;
    changed.keep = 1;
    changed.exact = false;
    changed.gap_frac = 1;
    changed.second = ORR_OBJECTIVES;
    changed.limit_ns = INT64_C(1000000000) * SEARCH_S;
    changed.store = NULL;
    changed.progress = NULL;
    changed.relaxed = true;
    const orr_status status = orr_explore(r->model, r->cluster, &changed, r->arena, &made, NULL);
    if (status == ORR_NO_MEMORY)
        return orr_fail_memory(r->err);
    if (status != ORR_OK || made.n == 0)
        return ORR_OK;
    return add_relaxation(r, what, &made.best[0].plan, (double)made.best[0].step_ns);
}

/* --- words of a list ------------------------------------------------------------------------- */

/* Copies the list without its i-th word. False: it has none. */
static bool remove_word(const char *list, uint32_t i, char *ret, char *ret_word)
{
    size_t n = 0;
    bool found = false;
    for (const char *at = list; *at != '\0';) {
        const size_t len = strcspn(at, ",");
        if (i-- == 0) {
            snprintf(ret_word, TEXT, "%.*s", (int)len, at);
            found = true;
        } else if (n + len + 1 < TEXT) {
            n += (size_t)snprintf(ret + n, TEXT - n, "%s%.*s", n > 0 ? "," : "", (int)len, at);
        }
        at += len + (at[len] == ',');
    }
    ret[n] = '\0';
    return found;
}

static bool is_question(const char *word)
{
    return strncmp(word, "batch=", 6) == 0 || strncmp(word, "seq=", 4) == 0;
}

static orr_status relax_list(relaxation_search *r, const char *list, const char **field,
                             orr_explore_options *changed, const char *what)
{
    char rest[TEXT], word[TEXT], text[TEXT + 64];
    if (list == NULL || strlen(list) >= TEXT)
        return ORR_OK;
    for (uint32_t i = 0; remove_word(list, i, rest, word); i++) {
        if (is_question(word))
            continue;
        *field = rest;
        snprintf(text, sizeof text, what, word);
        ORR_TRY(try_options(r, *changed, text));
    }
    *field = list;
    return ORR_OK;
}

static orr_status relax_lists(relaxation_search *r)
{
    orr_explore_options changed = *r->options;
    ORR_TRY(relax_list(r, r->options->limit, &changed.limit, &changed, "without the bound %s"));
    ORR_TRY(relax_list(r, r->options->exclude, &changed.exclude, &changed, "with %s"));
    return relax_list(r, r->options->fix, &changed.fix, &changed, "with %s not fixed");
}

/* --- numbers -------------------------------------------------------------------------------- */

static orr_status try_batch(relaxation_search *r, const orr_plan *fixed, uint32_t batch)
{
    orr_plan plan = *fixed;
    orr_explore_options changed = *r->options;
    char what[128];
    plan.batch = batch;
    changed.fix = orr_plan_text(&plan, r->arena);
    if (changed.fix == NULL)
        return orr_fail_memory(r->err);
    snprintf(what, sizeof what, "batch=%u instead of %u", batch, fixed->batch);
    return try_options(r, changed, what);
}

/* Tries the next batches that powers of two divide, up to one sample for each device. */
static orr_status relax_batch(relaxation_search *r)
{
    orr_plan fixed = {0};
    const size_t before = r->found.n;
    uint32_t last = 0;
    if (r->options->fix == NULL || orr_plan_parse(r->options->fix, &fixed, NULL) != ORR_OK ||
        fixed.batch == 0)
        return ORR_OK;
    for (uint64_t by = 2; by <= r->cluster->n_devices && r->found.n == before; by *= 2) {
        const uint64_t batch = (fixed.batch + by - 1) / by * by;
        if (batch == fixed.batch || batch == last || batch > INT32_MAX)
            continue;
        last = (uint32_t)batch;
        ORR_TRY(try_batch(r, &fixed, last));
    }
    return ORR_OK;
}

static orr_status relax_devices(relaxation_search *r)
{
    orr_explore_options changed = *r->options;
    const size_t before = r->found.n;
    char what[128];
    if (changed.max_sites > 0) {
        changed.max_sites = 0;
        snprintf(what, sizeof what, "with all %u sites", r->cluster->n_sites);
        ORR_TRY(try_options(r, changed, what));
        changed.max_sites = r->options->max_sites;
    }
    const uint32_t most = r->options->max_devices;
    for (uint64_t n = 2 * (uint64_t)most; most > 0 && r->found.n == before; n *= 2) {
        changed.max_devices = n < r->cluster->n_devices ? (uint32_t)n : 0;
        snprintf(what, sizeof what, "on %u devices",
                 changed.max_devices > 0 ? changed.max_devices : r->cluster->n_devices);
        ORR_TRY(try_options(r, changed, what));
        if (changed.max_devices == 0)
            break;
    }
    return ORR_OK;
}

static double gib(int64_t bytes)
{
    return (double)bytes / (1024.0 * 1024 * 1024);
}

/* The memory test may have run with fewer micro-batches: evaluates the plan with the whole batch.
 */
static orr_status estimate_whole_batch(const relaxation_search *r, orr_plan *plan,
                                       double *ret_step_ns)
{
    orr_plan fixed = {0};
    orr_explored estimated;
    orr_evaluator *evaluator;
    *ret_step_ns = NAN;
    if (r->options->fix == NULL || orr_plan_parse(r->options->fix, &fixed, NULL) != ORR_OK ||
        fixed.batch == 0)
        return ORR_OK;
    plan->batch = fixed.batch;
    plan->micro_batches = plan->group = 0;
    ORR_TRY(orr_evaluator_new(r->model, r->cluster, r->options, &evaluator, r->err));
    if (orr_evaluator_estimate(evaluator, plan, &estimated, NULL) == ORR_OK)
        *ret_step_ns = (double)estimated.estimate_ns;
    orr_evaluator_free(evaluator);
    return ORR_OK;
}

static orr_status relax_memory(relaxation_search *r)
{
    const orr_explored *nearest = &r->binding->least;
    orr_plan plan = nearest->plan;
    double step_ns;
    char what[128];
    if (!r->binding->has_least)
        return ORR_OK;
    ORR_TRY(estimate_whole_batch(r, &plan, &step_ns));
    snprintf(what, sizeof what, "with %.1f GiB of device memory to use instead of %.1f GiB",
             gib(nearest->peak_bytes), gib(nearest->usable_bytes));
    return add_relaxation(r, what, &plan, step_ns);
}

/* --- report ---------------------------------------------------------------------------------- */

const char *orr_explore_describe_binding(const orr_binding_constraint *t, uint32_t n_devices,
                                         orr_arena *arena)
{
    char text[256];
    if (t->has_least) {
        snprintf(text, sizeof text,
                 "memory: what comes nearest needs %.1f GiB of the %.1f GiB that a job can use",
                 gib(t->least.peak_bytes), gib(t->least.usable_bytes));
    } else if (t->pruned[ORR_PRUNE_EXCLUDED] > 0) {
        snprintf(text, sizeof text,
                 "what is fixed, bounded and left out leaves nothing of %.3g plans",
                 t->pruned[ORR_PRUNE_EXCLUDED] + t->pruned[ORR_PRUNE_INVALID]);
    } else {
        snprintf(text, sizeof text,
                 "no degrees divide: model, batch and %u devices do not go together", n_devices);
    }
    return orr_arena_strndup(arena, text, strlen(text));
}

orr_status orr_explore_infeasibility(const orr_model *model, const orr_cluster *cluster,
                                     const orr_explore_options *options,
                                     const orr_binding_constraint *binding, orr_arena *arena,
                                     orr_exploration *ret, orr_error *err)
{
    relaxation_search r = {.model = model,
                           .cluster = cluster,
                           .options = options,
                           .binding = binding,
                           .arena = arena,
                           .err = err};
    orr_status status = ORR_OK;
    ORR_TRY_OUT(status, relax_lists(&r));
    ORR_TRY_OUT(status, relax_batch(&r));
    ORR_TRY_OUT(status, relax_devices(&r));
    ORR_TRY_OUT(status, relax_memory(&r));
    ret->infeasible = orr_explore_describe_binding(
        binding, options->max_devices > 0 ? options->max_devices : cluster->n_devices, arena);
    if (ret->infeasible == NULL)
        ORR_TRY_OUT(status, orr_fail_memory(err));
    orr_relaxation *kept = orr_arena_array(arena, orr_relaxation, r.found.n);
    if (kept == NULL) {
        status = orr_fail_memory(err);
        goto out;
    }
    for (size_t i = 0; i < r.found.n; i++)
        kept[i] = r.found.at[i];
    ret->relaxations = kept;
    ret->n_relaxations = (uint32_t)r.found.n;
out:
    orr_array_done(&r.found);
    return status;
}
