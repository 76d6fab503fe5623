/* SPDX-License-Identifier: Apache-2.0 */
/* What failures cost a job, by policy. */
#include <math.h>
#include <stdio.h>

#include "report/analyses/registry.h"
#include "report/fleet/parts.h"
#include "report/table/cell.h"

#define DAY_NS 86400e9

const char *orr_fleet_policy_text(const orr_fleet_policy *policy, orr_arena *arena)
{
    const char *way = orr_fleet_recovery_name((orr_fleet_recovery)policy->recovery);
    if (policy->recovery == ORR_FLEET_FT)
        return orr_arena_printf(arena, "%s%u", way, policy->replicas);
    if (policy->recovery == ORR_FLEET_SPARES)
        return orr_arena_printf(arena, "%s%u", way, policy->spares);
    return way;
}

/* --- a row a policy --------------------------------------------------------------------------- */

typedef struct policy_row {
    const char *policy, *way;
    uint32_t replicas, spare_nodes;
    double effective_frac, low_frac, high_frac, with_spares_frac;
    double mtbf_min, restarts_per_day, epochs_per_day, halts_per_day, spares_short_per_day;
    double days, days_low, days_high;
    uint32_t repetitions, budgets_met;
} policy_row;

#define C(field, type)        ORR_COL_(policy_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(policy_row, field, type, name)
static const orr_column policy_columns[] = {
    C(policy, TEXT),
    AS(way, TEXT, "policy_kind"),
    C(replicas, U32),
    C(spare_nodes, U32),
    C(effective_frac, FRAC),
    AS(low_frac, FRAC, "p5_frac"),
    AS(high_frac, FRAC, "p95_frac"),
    AS(with_spares_frac, FRAC, "effective_incl_spares_frac"),
    C(mtbf_min, NUMBER),
    C(restarts_per_day, NUMBER),
    AS(epochs_per_day, NUMBER, "reconfigurations_per_day"),
    C(halts_per_day, NUMBER),
    AS(spares_short_per_day, NUMBER, "spare_shortages_per_day"),
    C(days, NUMBER),
    AS(days_low, NUMBER, "p5_days"),
    AS(days_high, NUMBER, "p95_days"),
    C(repetitions, U32),
    C(budgets_met, U32),
};
#undef C
#undef AS

static policy_row row_of(const orr_fleet *fleet, const orr_fleet_outcome *o, const char *name)
{
    const double days = o->wall_ns.mean / DAY_NS;
    const bool spares = o->policy.recovery == ORR_FLEET_SPARES, budget = fleet->options.tokens > 0;
    return (policy_row){
        .policy = name,
        .way = orr_fleet_recovery_name((orr_fleet_recovery)o->policy.recovery),
        .replicas = o->policy.replicas,
        .spare_nodes = spares ? o->policy.spares : ORR_NONE,
        .effective_frac = o->effective.mean,
        .low_frac = o->effective.low,
        .high_frac = o->effective.high,
        .with_spares_frac = spares ? o->effective_of_all : NAN,
        .mtbf_min = o->mtbf_ns.mean / 60e9,
        .restarts_per_day = o->restarts / days,
        .epochs_per_day = o->policy.recovery == ORR_FLEET_FT ? o->epochs / days : NAN,
        .halts_per_day = o->halts > 0 ? o->halts / days : NAN,
        .spares_short_per_day = spares ? o->spares_short / days : NAN,
        .days = days,
        .days_low = budget ? o->wall_ns.low / DAY_NS : NAN,
        .days_high = budget ? o->wall_ns.high / DAY_NS : NAN,
        .repetitions = fleet->options.repetitions,
        .budgets_met = budget ? o->budgets_met : ORR_NONE,
    };
}

static orr_status policy_table(const orr_fleet *fleet, const char *const *names, orr_arena *arena,
                               orr_table *ret, orr_error *err)
{
    policy_row *rows = orr_arena_array(arena, policy_row, fleet->n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < fleet->n; i++)
        rows[i] = row_of(fleet, &fleet->outcomes[i], names[i]);
    *ret = ORR_TABLE_("orrery.fleet_policies/1", "effective training time, 5 to 95 % of lives",
                      policy_columns, rows, fleet->n);
    return ORR_OK;
}

/* --- a column a policy ------------------------------------------------------------------------ */

typedef struct wide_row {
    const char *what;
    double share[ORR_COLUMNS_MAX];
} wide_row;

/* "what", and the share of each policy for which `wanted`. */
static orr_status wide_columns(const orr_fleet *fleet, const char *const *names, const char *what,
                               bool only_ft, orr_arena *arena, orr_table *ret, orr_error *err)
{
    orr_column *columns = orr_arena_array(arena, orr_column, ORR_COLUMNS_MAX);
    size_t n = 1;
    if (columns == NULL)
        return orr_fail_memory(err);
    columns[0] = (orr_column){what, ORR_COLUMN_TEXT, offsetof(wide_row, what)};
    for (uint32_t i = 0; i < fleet->n && n < ORR_COLUMNS_MAX; i++) {
        if (only_ft && fleet->outcomes[i].policy.recovery != ORR_FLEET_FT)
            continue;
        const char *name = orr_arena_printf(arena, "%s_frac", names[i]);
        if (name == NULL)
            return orr_fail_memory(err);
        columns[n++] =
            (orr_column){name, ORR_COLUMN_FRAC, offsetof(wide_row, share) + i * sizeof(double)};
    }
    ret->columns = columns;
    ret->n_columns = n;
    return ORR_OK;
}

static orr_status loss_table(const orr_fleet *fleet, const char *const *names, orr_arena *arena,
                             orr_table *ret, orr_error *err)
{
    wide_row *rows = orr_arena_array(arena, wide_row, ORR_FLEET_LOSSES + 1);
    uint32_t n = 1;
    if (rows == NULL)
        return orr_fail_memory(err);
    *ret = (orr_table){.schema = "orrery.fleet_losses/1",
                       .title = "where the time goes",
                       .rows = rows,
                       .row_bytes = sizeof *rows};
    ORR_TRY(wide_columns(fleet, names, "loss", false, arena, ret, err));
    rows[0].what = "steps that stand";
    for (uint32_t i = 0; i < fleet->n && i < ORR_COLUMNS_MAX; i++)
        rows[0].share[i] = fleet->outcomes[i].effective.mean;
    for (int loss = 0; loss < ORR_FLEET_LOSSES; loss++) {
        double most = 0;
        rows[n].what = orr_fleet_loss_name((orr_fleet_loss)loss);
        for (uint32_t i = 0; i < fleet->n && i < ORR_COLUMNS_MAX; i++) {
            rows[n].share[i] = fleet->outcomes[i].lost[loss].mean;
            most = fmax(most, rows[n].share[i]);
        }
        n += most > 0;
    }
    ret->n_rows = n;
    return ORR_OK;
}

static orr_status down_table(const orr_fleet *fleet, const char *const *names, orr_arena *arena,
                             orr_table *ret, orr_error *err)
{
    wide_row *rows = orr_arena_array(arena, wide_row, ORR_FLEET_REPLICAS + 1);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    *ret = (orr_table){.schema = "orrery.fleet_concurrency/1",
                       .title = "replicas that contribute nothing, by share of time",
                       .rows = rows,
                       .row_bytes = sizeof *rows};
    ORR_TRY(wide_columns(fleet, names, "replicas_down", true, arena, ret, err));
    for (uint32_t k = 0; k <= ORR_FLEET_REPLICAS && ret->n_columns > 1; k++) {
        double most = 0;
        rows[n].what = orr_arena_printf(arena, "%u", k);
        if (rows[n].what == NULL)
            return orr_fail_memory(err);
        for (uint32_t i = 0; i < fleet->n && i < ORR_COLUMNS_MAX; i++) {
            const orr_fleet_outcome *o = &fleet->outcomes[i];
            rows[n].share[i] = k <= o->policy.replicas ? o->down[k] : NAN;
            if (o->policy.recovery == ORR_FLEET_FT && k <= o->policy.replicas)
                most = fmax(most, o->down[k]);
        }
        n += most > 0;
    }
    ret->n_rows = n;
    return ORR_OK;
}

/* --- failures that came ----------------------------------------------------------------------- */

typedef struct category_row {
    const char *category, *layer, *kind;
    bool replaced;
    double per_day, share_frac, published_frac;
} category_row;

#define C(field, type)        ORR_COL_(category_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(category_row, field, type, name)
static const orr_column category_columns[] = {
    C(category, TEXT),  C(layer, TEXT),      C(kind, TEXT),           C(replaced, BOOL),
    C(per_day, NUMBER), C(share_frac, FRAC), C(published_frac, FRAC),
};
#undef C
#undef AS

static category_row category_of(const orr_failures *f, uint32_t i, double published)
{
    static const char *const others[] = {"a whole rack", "a whole building", "planned"};
    if (i < f->n_categories)
        return (category_row){.category = f->categories[i].name,
                              .layer = f->categories[i].layer,
                              .kind =
                                  orr_failure_kind_name((orr_failure_kind)f->categories[i].kind),
                              .replaced = f->categories[i].replace,
                              .published_frac = f->categories[i].count.value / published};
    const uint32_t beyond = f->n_categories > 0 ? f->n_categories : 1;
    const char *name = i < beyond ? "failures, not told apart" : others[i - beyond];
    return (category_row){
        .category = name,
        .kind = orr_failure_kind_name(i == beyond + 2 ? ORR_FAILURE_PLANNED : ORR_FAILURE_EXPLICIT),
        .replaced = true,
        .published_frac = NAN};
}

/* The failures are those of all policies. */
static orr_status category_table(const orr_fleet *fleet, orr_arena *arena, orr_table *ret,
                                 orr_error *err)
{
    category_row *rows = orr_arena_array(arena, category_row, ORR_FLEET_CATEGORIES + 3);
    const orr_failures *f = fleet->options.failures;
    const orr_fleet_outcome *o = &fleet->outcomes[0];
    const uint32_t known = (f->n_categories > 0 ? f->n_categories : 1) + 3;
    double sum = 0, published = 0;
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < known; i++)
        sum += o->categories[i];
    for (uint32_t i = 0; i < f->n_categories; i++)
        published += f->categories[i].count.value;
    for (uint32_t i = 0; i < known; i++) {
        if (o->categories[i] <= 0)
            continue;
        rows[n] = category_of(f, i, published);
        rows[n].per_day = o->categories[i] / (o->wall_ns.mean / DAY_NS);
        rows[n++].share_frac = o->categories[i] / sum;
    }
    *ret = ORR_TABLE_("orrery.fleet_categories/1", "failures that came, a day", category_columns,
                      rows, n);
    return ORR_OK;
}

/* --- sensitivity ------------------------------------------------------------------------------ */

typedef struct effect_row {
    const char *policy, *setting, *value;
    double halved_frac, doubled_frac;
} effect_row;

#define C(field, type)        ORR_COL_(effect_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(effect_row, field, type, name)
static const orr_column effect_columns[] = {C(policy, TEXT), C(setting, TEXT), C(value, TEXT),
                                            C(halved_frac, FRAC), C(doubled_frac, FRAC)};
#undef C
#undef AS

static orr_status effect_table(const orr_fleet *fleet, const char *const *names, orr_arena *arena,
                               orr_table *ret, orr_error *err)
{
    effect_row *rows = orr_arena_array(arena, effect_row, fleet->n_effects);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < fleet->n_effects; i++) {
        const orr_fleet_effect *e = &fleet->effects[i];
        rows[i] = (effect_row){names[e->policy], e->word, e->value, e->half, e->twice};
    }
    *ret = ORR_TABLE_("orrery.fleet_sensitivity/1",
                      "what each setting moves, halved and doubled: change of the effective time",
                      effect_columns, rows, fleet->n_effects);
    return ORR_OK;
}

orr_status orr_fleet_tables(const orr_fleet *fleet, const orr_failure_catalog *catalog,
                            orr_arena *arena, orr_named_table ret[ORR_FLEET_TABLES], orr_error *err)
{
    const char **names = orr_arena_array(arena, const char *, fleet->n);
    if (names == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < fleet->n; i++)
        if ((names[i] = orr_fleet_policy_text(&fleet->outcomes[i].policy, arena)) == NULL)
            return orr_fail_memory(err);
    static const char *const words[ORR_FLEET_TABLES] = {
        "policies", "losses", "concurrency", "sensitivity", "categories", "rates", "settings"};
    for (int i = 0; i < ORR_FLEET_TABLES; i++)
        ret[i].name = words[i];
    ORR_TRY(policy_table(fleet, names, arena, &ret[0].table, err));
    ORR_TRY(loss_table(fleet, names, arena, &ret[1].table, err));
    ORR_TRY(down_table(fleet, names, arena, &ret[2].table, err));
    ORR_TRY(effect_table(fleet, names, arena, &ret[3].table, err));
    ORR_TRY(category_table(fleet, arena, &ret[4].table, err));
    ORR_TRY(orr_fleet_rate_table(fleet, catalog, arena, &ret[5].table, err));
    return orr_fleet_setting_table(fleet, arena, &ret[6].table, err);
}
