/* SPDX-License-Identifier: Apache-2.0 */
/* What a search found: its plans, its front, what it looked at, and who else was asked. */
#include <math.h>
#include <string.h>

#include "report/analyses/registry.h"
#include "report/explore/tables.h"
#include "report/explore/describe.h"

static double slower(double value, double best)
{
    return best > 0 ? value / best - 1 : NAN;
}

/* --- plans ----------------------------------------------------------------------------------- */

typedef struct plan_row {
    uint32_t rank;
    double over_best_frac;
    int64_t step_ns, bound_ns;
    uint32_t devices;
    double tokens_per_s, mfu_frac;
    int64_t peak_bytes, usable_bytes;
    double effective_frac, budget_days, cost_usd, energy_kwh;
    bool other_numerics, above_records;
    double record_mfu_frac;
    const char *plan;
} plan_row;

#define C(field, type)        ORR_COL_(plan_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(plan_row, field, type, name)
static const orr_column plan_columns[] = {
    AS(rank, U32, "place"),
    AS(over_best_frac, FRAC, "excess_frac"),
    C(step_ns, NS),
    AS(bound_ns, NS, "plan_bound_ns"),
    C(devices, U32),
    C(tokens_per_s, NUMBER),
    C(mfu_frac, FRAC),
    C(peak_bytes, BYTES),
    C(usable_bytes, BYTES),
    AS(effective_frac, FRAC, "effective_time_frac"),
    C(budget_days, NUMBER),
    C(cost_usd, NUMBER),
    C(energy_kwh, NUMBER),
    AS(other_numerics, BOOL, "changes_numerics"),
    C(record_mfu_frac, FRAC),
    C(above_records, BOOL),
    C(plan, TEXT),
};
#undef C
#undef AS

static orr_status fill_plan(const orr_explore_report *r, const orr_explored *e, uint32_t rank,
                            orr_arena *arena, plan_row *ret, orr_error *err)
{
    const uint8_t objective = r->options->objective;
    const double best = r->exploration->n > 0 ? r->exploration->best[0].value[objective] : NAN;
    *ret = (plan_row){
        .rank = rank,
        .devices = e->n_devices,
        .step_ns = e->step_ns > 0 ? e->step_ns : e->estimate_ns,
        .over_best_frac = slower(e->value[objective], best),
        .bound_ns = e->bound_ns,
        .tokens_per_s = e->tokens_per_s,
        .mfu_frac = e->mfu_frac,
        .peak_bytes = e->peak_bytes,
        .usable_bytes = e->usable_bytes,
        .effective_frac = e->effective_frac,
        .budget_days = e->value[ORR_OBJECTIVE_BUDGET] / 86400e9,
        .cost_usd = e->value[ORR_OBJECTIVE_COST],
        .energy_kwh = e->value[ORR_OBJECTIVE_ENERGY] / 3.6e6,
        .other_numerics = e->other_numerics,
        .record_mfu_frac = orr_explore_record_of(r, &e->plan),
        .plan = orr_plan_short_text(&e->plan, arena),
    };
    ret->above_records = ret->mfu_frac > ret->record_mfu_frac;
    return ret->plan != NULL ? ORR_OK : orr_fail_memory(err);
}

static orr_status fill_plans(const orr_explore_report *r, const orr_explored *plans, uint32_t n,
                             const char *schema, const char *title, orr_arena *arena,
                             orr_table *ret, orr_error *err)
{
    plan_row *rows = orr_arena_array(arena, plan_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(fill_plan(r, &plans[i], i + 1, arena, &rows[i], err));
    *ret = ORR_TABLE_(schema, title, plan_columns, rows, n);
    return ORR_OK;
}

orr_status orr_explore_table_plans(const orr_explore_report *r, orr_arena *arena, orr_table *ret,
                                   orr_error *err)
{
    const orr_exploration *x = r->exploration;
    const orr_objective objective = (orr_objective)r->options->objective;
    char bound[ORR_HUMAN_MAX];
    const char *title =
        x->bound > 0
            ? orr_arena_printf(arena,
                               "the best plans that are unlike one another; no plan of the "
                               "search is below %s",
                               orr_objective_human(objective, x->bound, bound))
            : "the best plans that are unlike one another";
    return title != NULL
               ? fill_plans(r, x->best, x->n, "orrery.explore_plans/1", title, arena, ret, err)
               : orr_fail_memory(err);
}

orr_status orr_explore_table_front(const orr_explore_report *r, orr_arena *arena, orr_table *ret,
                                   orr_error *err)
{
    const bool both = r->options->second < ORR_OBJECTIVES;
    const char *title =
        both ? orr_arena_printf(arena, "the front of %s and %s",
                                orr_objective_name((orr_objective)r->options->objective),
                                orr_objective_name((orr_objective)r->options->second))
             : "the front";
    if (title == NULL)
        return orr_fail_memory(err);
    return fill_plans(r, r->exploration->front, r->exploration->n_front, "orrery.explore_front/1",
                      title, arena, ret, err);
}

/* --- the search ------------------------------------------------------------------------------ */

typedef struct count_row {
    const char *what;
    double plans, of_space_frac;
} count_row;

static const orr_column count_columns[] = {
    ORR_COL_AS_(count_row, what, TEXT, "stage"),
    ORR_COL_(count_row, plans, NUMBER),
    ORR_COL_AS_(count_row, of_space_frac, FRAC, "space_frac"),
};

orr_status orr_explore_table_search(const orr_explore_report *r, orr_arena *arena, orr_table *ret,
                                    orr_error *err)
{
    const orr_exploration *x = r->exploration;
    enum { FIXED = 8 };
    const count_row counts[FIXED] = {
        {"plans of the space", x->space, NAN},
        {"sets of modules", (double)x->families, NAN},
        {"sets built", (double)x->families_built, NAN},
        {"sets of an earlier run", (double)x->families_resumed, NAN},
        {"looked at", (double)x->plans, (double)x->plans / x->space},
        {"given a lower bound", (double)x->bounded, (double)x->bounded / x->space},
        {"estimated", (double)x->estimated, (double)x->estimated / x->space},
        {"simulated", (double)x->simulated, (double)x->simulated / x->space},
    };
    count_row *rows = orr_arena_array(arena, count_row, FIXED + 1 + ORR_PRUNES);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (int i = 0; i < FIXED; i++)
        if (counts[i].plans > 0)
            rows[n++] = counts[i];
    if (x->resumed > 0)
        rows[n++] = (count_row){"simulated by an earlier run", (double)x->resumed,
                                (double)x->resumed / x->space};
    for (int i = 0; i < ORR_PRUNES; i++) {
        if (x->pruned[i] <= 0)
            continue;
        rows[n] =
            (count_row){orr_arena_printf(arena, "not followed: %s", orr_prune_name((orr_prune)i)),
                        x->pruned[i], x->pruned[i] / x->space};
        if (rows[n++].what == NULL)
            return orr_fail_memory(err);
    }
    *ret = ORR_TABLE_("orrery.explore_search/1", "what was looked at, and why not the rest",
                      count_columns, rows, n);
    return ORR_OK;
}

/* --- other searchers ------------------------------------------------------------------------- */

typedef struct baseline_row {
    const char *baseline, *plan;
    double step_ns, over_best_frac, mfu_frac;
    int64_t peak_bytes;
    const char *about, *why_not;
} baseline_row;

#define C(field, type)        ORR_COL_(baseline_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(baseline_row, field, type, name)
static const orr_column baseline_columns[] = {
    C(baseline, TEXT),
    C(step_ns, NS_MEAN),
    AS(over_best_frac, FRAC, "excess_frac"),
    C(mfu_frac, FRAC),
    C(peak_bytes, BYTES),
    C(plan, TEXT),
    C(about, TEXT),
    AS(why_not, TEXT, "infeasible_reason"),
};
#undef C
#undef AS

orr_status orr_explore_table_baselines(const orr_explore_report *r, orr_arena *arena,
                                       orr_table *ret, orr_error *err)
{
    const uint8_t objective = r->options->objective;
    const double best = r->exploration->n > 0 ? r->exploration->best[0].value[objective] : NAN;
    baseline_row *rows = orr_arena_array(arena, baseline_row, r->n_baseline_plans);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < r->n_baseline_plans; i++) {
        const orr_explore_baseline_plan *baseline_plan = &r->baseline_plans[i];
        const orr_explored *e = &baseline_plan->explored;
        const bool found = baseline_plan->why_not == NULL;
        rows[i] = (baseline_row){
            .baseline = orr_baseline_name((orr_baseline)baseline_plan->baseline),
            .plan = found ? orr_plan_short_text(&e->plan, arena) : "",
            .step_ns = found ? (double)e->step_ns : NAN,
            .over_best_frac = found ? slower(e->value[objective], best) : NAN,
            .mfu_frac = found ? e->mfu_frac : NAN,
            .peak_bytes = found ? e->peak_bytes : -1,
            .about = orr_baseline_about((orr_baseline)baseline_plan->baseline),
            .why_not = baseline_plan->why_not,
        };
        if (rows[i].plan == NULL)
            return orr_fail_memory(err);
    }
    *ret = ORR_TABLE_("orrery.explore_baselines/1",
                      "other searchers on the same problem, judged by the same simulator",
                      baseline_columns, rows, r->n_baseline_plans);
    return ORR_OK;
}

/* --- all of them ----------------------------------------------------------------------------- */

/* Of the winner's own tables those that tell why. */
static orr_status take_outcome(const orr_explore_report *r, orr_arena *arena, orr_named_table *axes,
                               orr_named_table *memory, orr_named_table *basis, orr_error *err)
{
    orr_named_table all[ORR_OUTCOME_TABLES];
    struct {
        const char *name;
        orr_named_table *to;
    } wanted[] = {{"axes", axes}, {"memory", memory}, {"basis", basis}};
    if (r->n_outcomes > 0)
        ORR_TRY(orr_outcome_tables(&r->outcomes[0], arena, all, err));
    for (size_t w = 0; w < sizeof wanted / sizeof *wanted; w++) {
        wanted[w].to->name = wanted[w].name;
        wanted[w].to->table = (orr_table){.schema = "orrery.nothing/1", .title = ""};
        for (int i = 0; r->n_outcomes > 0 && i < ORR_OUTCOME_TABLES; i++)
            if (strcmp(all[i].name, wanted[w].name) == 0)
                *wanted[w].to = all[i];
    }
    return ORR_OK;
}

orr_status orr_explore_tables(const orr_explore_report *report, orr_arena *arena,
                              orr_named_table ret[ORR_EXPLORE_TABLES], orr_error *err)
{
    enum { AXES = 5, MEMORY = 13, BASIS = 14 };
    static const struct {
        const char *name;
        orr_status (*make)(const orr_explore_report *, orr_arena *, orr_table *, orr_error *);
    } tables[ORR_EXPLORE_TABLES] = {
        {"plans", orr_explore_table_plans},
        {"decision", orr_explore_table_decision},
        {"published", orr_explore_table_published},
        {"bottlenecks", orr_explore_table_bottlenecks},
        {"cuts", orr_explore_table_cuts},
        [AXES] = {"axes", NULL},
        {"alternatives", orr_explore_table_alternatives},
        {"waterfalls", orr_explore_table_waterfalls},
        {"break_even", orr_explore_table_break_even},
        {"pareto_front", orr_explore_table_front},
        {"sensitivity", orr_explore_table_sensitivity},
        {"baselines", orr_explore_table_baselines},
        {"search", orr_explore_table_search},
        [MEMORY] = {"memory", NULL},
        [BASIS] = {"basis", NULL},
        {"relaxations", orr_explore_table_relaxations},
        {"answers", orr_explore_table_answers},
        {"probes", orr_explore_table_probes},
        {"network", orr_explore_table_network},
    };
    ORR_TRY(take_outcome(report, arena, &ret[AXES], &ret[MEMORY], &ret[BASIS], err));
    for (int i = 0; i < ORR_EXPLORE_TABLES; i++) {
        ret[i].name = tables[i].name;
        if (tables[i].make != NULL)
            ORR_TRY(tables[i].make(report, arena, &ret[i].table, err));
    }
    return ORR_OK;
}
