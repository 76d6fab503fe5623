/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "machine/cluster/price.h"
#include "model/plan/plan.h"
#include "outcome/outcome.h"
#include "explore/search/search.h"

/* orr_explore(): one search from its options to its result. The phases are bounds of all families,
 * results of earlier runs, a scan for a first incumbent, branch and bound, alternatives, local
 * search and, where nothing is feasible, infeasibility analysis. */

void orr_explore_options_init(orr_explore_options *options)
{
    *options = (orr_explore_options){.struct_bytes = sizeof *options,
                                     .objective = ORR_OBJECTIVE_STEP,
                                     .second = ORR_OBJECTIVES,
                                     .gap_frac = 0.02,
                                     .keep = 4};
}

/* The objective cost needs a price for every device. */
static orr_status check_price(const orr_cluster *cluster, const orr_explore_options *o,
                              orr_error *err)
{
    bool known = true;
    for (uint32_t s = 0; s == 0 || s < cluster->n_sites; s++)
        known &= !isnan(orr_price_per_hour(cluster, s, o->price_per_hour));
    return known
               ? ORR_OK
               : orr_fail(err, ORR_INVALID,
                          "what a device of '%s' costs is not known: give a price, as 2.5 (USD an "
                          "hour)",
                          cluster->name);
}

static orr_status check(const orr_cluster *cluster, const orr_explore_options *o, orr_error *err)
{
    const bool cost = o->objective == ORR_OBJECTIVE_COST || o->second == ORR_OBJECTIVE_COST;
    if (o->objective >= ORR_OBJECTIVES || o->second > ORR_OBJECTIVES)
        return orr_fail(err, ORR_INVALID, "no such objective");
    if (o->second == o->objective)
        return orr_fail(err, ORR_INVALID, "a front needs two objectives: '%s' twice is one",
                        orr_objective_name((orr_objective)o->objective));
    const bool budget = o->objective == ORR_OBJECTIVE_BUDGET || o->second == ORR_OBJECTIVE_BUDGET;
    if (budget && !(o->tokens > 0))
        return orr_fail(err, ORR_INVALID, "time to a budget needs the budget: tokens=15e12");
    if (!(o->gap_frac >= 0 && o->gap_frac <= 1))
        return orr_fail(err, ORR_INVALID, "a gap is a share, 0 to 1");
    return cost ? check_price(cluster, o, err) : ORR_OK;
}

/* --- opening and closing --------------------------------------------------------------------- */

/* The part of every step that more devices do not reduce. */
static orr_status find_constant(orr_search *s, orr_error *err)
{
    const orr_calibration *calibration;
    ORR_TRY(orr_outcome_calibration(orr_outcome_kind(s->model, s->options->workload.task),
                                    s->options->calibration, s->cluster->device,
                                    s->options->software_year, s->arena, &calibration, err));
    s->space.constant_ns = calibration->step_ns;
    return ORR_OK;
}

/* MPI can be opened once in a process: the first search gets the processes that were started
 * together. Later searches, and those of relaxations, run in each process alone. */
static orr_status open_processes(orr_search *s, orr_error *err)
{
    static atomic_bool taken;
    if (s->options->relaxed || atomic_exchange(&taken, true))
        return orr_processes_over_transport(orr_transport_self(), &s->processes, err);
    return orr_processes_open(&s->processes, err);
}

static orr_status open_search(orr_search *s, orr_error *err)
{
    s->began_ns = orr_clock_now_ns(&orr_clock_monotonic);
    s->deadline_ns = s->options->limit_ns > 0 ? s->began_ns + s->options->limit_ns : 0;
    s->left_bound = s->climbed = INFINITY;
    s->left_out = true; /* until families have bounds */
    s->incumbent = (orr_incumbent){.objective = s->options->objective,
                                   .second = s->options->second,
                                   .best = INFINITY,
                                   .gap = s->options->exact ? 0 : s->options->gap_frac};
    ORR_TRY(orr_space_make(s->model, s->cluster, s->options, s->arena, &s->space, err));
    if (s->cluster->n_sites == 0 && orr_plan_has_sites(&s->space.constraints.fixed))
        return orr_fail(err, ORR_INVALID, "sites are fixed: cluster '%s' has none",
                        s->cluster->name);
    ORR_TRY(find_constant(s, err));
    ORR_TRY(open_processes(s, err));
    ORR_TRY(orr_workers_new((int)s->options->threads, &s->workers, err));
    s->n_evaluators = (uint32_t)orr_workers_count(s->workers);
    s->evaluators = orr_calloc(s->n_evaluators, sizeof *s->evaluators);
    s->ideal =
        s->space.chooses_transport ? orr_calloc(s->n_evaluators, sizeof *s->ideal) : s->evaluators;
    s->flat = s->cluster->n_sites > 1 ? orr_calloc(s->n_evaluators, sizeof *s->flat) : s->ideal;
    s->counts = orr_calloc(s->n_evaluators, sizeof *s->counts);
    s->arenas = orr_calloc(s->n_evaluators, sizeof *s->arenas);
    if (s->evaluators == NULL || s->ideal == NULL || s->flat == NULL || s->counts == NULL ||
        s->arenas == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < s->n_evaluators; i++)
        if ((s->arenas[i] = orr_arena_new(0, 0)) == NULL)
            return orr_fail_memory(err);
    for (uint32_t i = 0; i < s->n_evaluators; i++) {
        ORR_TRY(orr_evaluator_new(s->model, s->cluster, s->options, &s->evaluators[i], err));
        if (s->ideal != s->evaluators)
            ORR_TRY(orr_evaluator_new(s->model, &s->space.ideal_network, s->options, &s->ideal[i],
                                      err));
        if (s->flat != s->ideal)
            ORR_TRY(orr_evaluator_new(s->model, &s->space.flat, s->options, &s->flat[i], err));
        if (s->ideal != s->evaluators)
            orr_evaluator_any_reductions(s->ideal[i], true);
        orr_evaluator_share_failures(s->evaluators[i], s->evaluators[0]);
        orr_evaluator_share_failures(s->ideal[i], s->evaluators[0]);
        orr_evaluator_share_failures(s->flat[i], s->evaluators[0]);
    }
    return ORR_OK;
}

static void free_evaluators(orr_evaluator **evaluators, uint32_t n)
{
    for (uint32_t i = 0; i < n && evaluators != NULL; i++)
        orr_evaluator_free(evaluators[i]);
    orr_free(evaluators);
}

static void close_search(orr_search *s)
{
    orr_processes_close(s->processes);
    for (uint32_t i = 0; i < s->n_evaluators; i++) {
        if (s->counts != NULL)
            orr_memo_done(&s->counts[i]);
        if (s->arenas != NULL)
            orr_arena_free(s->arenas[i]);
    }
    orr_free(s->counts);
    orr_free(s->arenas);
    if (s->flat != s->ideal)
        free_evaluators(s->flat, s->n_evaluators);
    if (s->ideal != s->evaluators)
        free_evaluators(s->ideal, s->n_evaluators);
    free_evaluators(s->evaluators, s->n_evaluators);
    orr_array_done(&s->open);
    orr_workers_free(s->workers);
    orr_array_done(&s->incumbent.front);
    orr_array_done(&s->candidates);
    orr_array_done(&s->promising);
    orr_array_done(&s->done);
    orr_array_done(&s->seen);
    orr_array_done(&s->remarks);
    orr_memo_done(&s->known_plans);
}

/* --- the result ------------------------------------------------------------------------------ */

static void count_pruned(const orr_search *s, orr_exploration *ret)
{
    const double searched = s->space_plans / s->space.dominated;
    double rest = searched;
    for (int i = 0; i < ORR_PRUNES; i++) {
        ret->pruned[i] = s->pruned[i];
        rest -= s->pruned[i];
    }
    rest -= (double)(s->simulated + s->resumed);
    ret->pruned[ORR_PRUNE_BOUND] +=
        rest > 0 ? rest : 0; /* includes families and candidates that were never reached */
    ret->pruned[ORR_PRUNE_DOMINATED] += s->space_plans - searched;
}

/* What a search that was cut short looked at. */
static orr_status tell_looked_at(const orr_search *s, const char **ret, orr_error *err)
{
    static const uint8_t FIELDS[] = {ORR_AT_tp,          ORR_AT_cp,        ORR_AT_ep,
                                     ORR_AT_micro_batch, ORR_AT_precision, ORR_AT_recompute,
                                     ORR_AT_overlap_tp,  ORR_AT_overlap_ep};
    uint32_t bounded = 0;
    const char *fields = "";
    for (uint32_t i = 0; i < s->families.n; i++)
        bounded += s->families.at[i].floor_ns > 0;
    for (size_t i = 0; i < sizeof FIELDS && fields != NULL; i++)
        if (s->space.list[FIELDS[i]].n > 1)
            fields = orr_arena_printf(s->arena, "%s%s%s", fields, fields[0] != '\0' ? ", " : "",
                                      orr_space_field_name(FIELDS[i]));
    *ret = fields == NULL
               ? NULL
               : orr_arena_printf(s->arena,
                                  "of %u sets of modules (%s) %llu were searched, %u "
                                  "sampled, %u given a lower bound",
                                  s->families.n, fields,
                                  (unsigned long long)(s->families_built + s->families_resumed),
                                  s->sampled, bounded);
    return *ret != NULL ? ORR_OK : orr_fail_memory(err);
}

static orr_status fill_result(orr_search *s, bool stopped, orr_exploration *ret, orr_error *err)
{
    ORR_TRY(orr_search_report_best(s, ret, err));
    ORR_TRY(orr_search_report_front(s, ret, err));
    const double best = ret->n > 0 ? ret->best[0].value[s->incumbent.objective] : NAN;
    ret->bound = fmin(ret->bound, best);
    ret->gap_frac = best > 0 ? (best - ret->bound) / best : 0;
    ret->complete = !stopped && (ret->n == 0 || ret->gap_frac <= s->incumbent.gap + 1e-12);
    ret->space = s->space_plans;
    ret->families = s->families.n;
    ret->families_built = s->families_built;
    ret->families_resumed = s->families_resumed;
    ret->plans = s->plans;
    ret->bounded = s->bounded;
    ret->estimated = s->estimated;
    ret->simulated = s->simulated;
    ret->resumed = s->resumed;
    count_pruned(s, ret);
    const char **remarks = orr_arena_array(s->arena, const char *, s->remarks.n);
    if (remarks == NULL)
        return orr_fail_memory(err);
    for (size_t i = 0; i < s->remarks.n; i++)
        remarks[i] = s->remarks.at[i];
    if (stopped)
        ORR_TRY(tell_looked_at(s, &ret->looked_at, err));
    ret->remarks = remarks;
    ret->n_remarks = (uint32_t)s->remarks.n;
    return ORR_OK;
}

/* Floors first of all kinds of families; after each part of them the promising are sampled. */
static orr_status bound_and_sample(orr_search *s, orr_error *err)
{
    s->phase = "bounding";
    while (!s->stopped && orr_search_price_bases(s))
        if (s->families_resumed == 0) {
            ORR_TRY(orr_search_scan(s, err));
            ORR_TRY(orr_search_climb_from_best(s, err));
        }
    return ORR_OK;
}

static orr_status search(orr_search *s, orr_exploration *ret, orr_error *err)
{
    ORR_TRY(open_search(s, err));
    const bool begins = !(s->options->exact && s->options->relaxed);
    if (begins && s->options->store == NULL)
        ORR_TRY(orr_search_begin(s, err));
    ORR_TRY(orr_search_list_families(s, err));
    ORR_TRY(orr_search_open_store(s, err));
    ORR_TRY(orr_search_resume(s, err));
    if (begins && s->options->store != NULL && s->families_resumed == 0)
        ORR_TRY(orr_search_begin(s, err));
    ORR_TRY(bound_and_sample(s, err));
    ORR_TRY(orr_search_branch_and_bound(s, err));
    const bool stopped = s->stopped;
    if (!stopped)
        ORR_TRY(orr_search_alternatives(s, err));
    ret->bound = orr_search_bound(s);
    if (!stopped && !s->options->relaxed)
        ORR_TRY(orr_search_local_search_best(s, err));
    s->space_plans = orr_space_count(&s->space, &s->families);
    ORR_TRY(fill_result(s, stopped, ret, err));
    if (ret->n > 0 || s->options->relaxed)
        return ORR_OK;
    memcpy(s->binding.pruned, ret->pruned, sizeof ret->pruned);
    if (stopped) {
        ret->infeasible =
            orr_explore_describe_binding(&s->binding, s->space.most_devices, s->arena);
        return ret->infeasible != NULL ? ORR_OK : orr_fail_memory(err);
    }
    return orr_explore_infeasibility(s->model, s->cluster, s->options, &s->binding, s->arena, ret,
                                     err);
}

orr_status orr_explore(const orr_model *model, const orr_cluster *cluster,
                       const orr_explore_options *options, orr_arena *arena, orr_exploration *ret,
                       orr_error *err)
{
    orr_explore_options o;
    orr_exploration made = {0};
    orr_explore_options_init(&o);
    memcpy(&o, options, options->struct_bytes < sizeof o ? options->struct_bytes : sizeof o);
    ORR_TRY(check(cluster, &o, err));
    orr_search s = {.model = model, .cluster = cluster, .options = &o, .arena = arena};
    orr_status status = search(&s, &made, err);
    if (s.processes != NULL && (status == ORR_NO_MEMORY || status == ORR_IO))
        orr_processes_abort(s.processes); /* or the other processes would wait forever */
    const orr_status closed = orr_results_close(s.results, status == ORR_OK ? err : NULL);
    status = status == ORR_OK ? closed : status;
    made.wall_ns = orr_clock_now_ns(&orr_clock_monotonic) - s.began_ns;
    close_search(&s);
    if (status == ORR_OK)
        *ret = made;
    return status;
}
