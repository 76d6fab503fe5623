/* SPDX-License-Identifier: Apache-2.0 */
/* Why a plan won: what limits it, what crosses the cuts, and what the next ones pay for. */
#include <math.h>

#include "report/analyses/registry.h"
#include "report/explore/tables.h"
#include "report/explore/describe.h"

enum { PLANS = 8 }; /* side by side */

static uint32_t shown(const orr_explore_report *r)
{
    return r->n_outcomes < PLANS ? r->n_outcomes : PLANS;
}

static orr_table empty(const char *schema, const char *title)
{
    return (orr_table){.schema = schema, .title = title};
}

/* --- limits ---------------------------------------------------------------------------------- */

typedef struct limit_row {
    const char *limit, *where;
    double exposed_ns, used_frac;
} limit_row;

static const orr_column limit_columns[] = {
    ORR_COL_AS_(limit_row, limit, TEXT, "bottleneck"),
    ORR_COL_(limit_row, where, TEXT),
    ORR_COL_(limit_row, exposed_ns, NS_MEAN),
    ORR_COL_(limit_row, used_frac, FRAC),
};

orr_status orr_explore_table_bottlenecks(const orr_explore_report *r, orr_arena *arena,
                                         orr_table *ret, orr_error *err)
{
    orr_explore_bottleneck limits[ORR_EXPLORE_BOTTLENECKS];
    limit_row *rows = orr_arena_array(arena, limit_row, ORR_EXPLORE_BOTTLENECKS);
    const uint32_t n =
        r->n_outcomes > 0 ? orr_explore_bottlenecks(&r->outcomes[0], arena, limits) : 0;
    if (rows == NULL || (r->n_outcomes > 0 && n == 0))
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = (limit_row){limits[i].limit, limits[i].where,
                              limits[i].ns > 0 ? (double)limits[i].ns : NAN, limits[i].share_frac};
    *ret = ORR_TABLE_("orrery.explore_limits/1", "what limits it now, of the step and of a device",
                      limit_columns, rows, n);
    return ORR_OK;
}

/* --- cuts ------------------------------------------------------------------------------------ */

typedef struct cut_row {
    const char *from, *to, *axis;
    int64_t bytes, bytes_exposed, busy_ns, exposed_ns;
    double utilisation_frac, km, latency_us, oversubscription;
} cut_row;

#define C(field, type)        ORR_COL_(cut_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(cut_row, field, type, name)
static const orr_column cut_columns[] = {
    C(from, TEXT),
    C(to, TEXT),
    C(axis, TEXT),
    C(bytes, BYTES),
    C(bytes_exposed, BYTES),
    C(busy_ns, NS),
    C(exposed_ns, NS),
    C(utilisation_frac, FRAC),
    C(km, NUMBER),
    C(latency_us, NUMBER),
    C(oversubscription, NUMBER),
};
#undef C
#undef AS

/* Bytes for which nothing was computed meanwhile: as much of them as of their time. */
static int64_t exposed_of(const orr_site_link_use *use)
{
    if (use->busy_ns <= 0)
        return 0;
    const double share = (double)use->exposed_ns / (double)use->busy_ns;
    return (int64_t)(use->bytes * (share < 1 ? share : 1));
}

static cut_row row_of_cut(const orr_cluster *c, const orr_site_link_use *use)
{
    cut_row row = {.from = c->sites[use->a].name,
                   .to = c->sites[use->b].name,
                   .axis = orr_axis_name((orr_axis)use->axis),
                   .bytes = (int64_t)use->bytes,
                   .bytes_exposed = exposed_of(use),
                   .busy_ns = use->busy_ns,
                   .exposed_ns = use->exposed_ns,
                   .utilisation_frac = use->utilisation_frac,
                   .km = NAN,
                   .latency_us = NAN,
                   .oversubscription = NAN};
    for (uint32_t i = 0; i < c->n_cuts; i++) {
        const orr_site_link *cut = &c->cuts[i];
        if (cut->a != use->a || cut->b != use->b)
            continue;
        row.km = orr_fact_or(&cut->km, NAN);
        row.latency_us = orr_fact_or(&cut->latency_ns, NAN) / 1e3;
        row.oversubscription = orr_fact_or(&cut->oversubscription, NAN);
    }
    return row;
}

orr_status orr_explore_table_cuts(const orr_explore_report *r, orr_arena *arena, orr_table *ret,
                                  orr_error *err)
{
    const orr_outcome *o = r->n_outcomes > 0 ? &r->outcomes[0] : NULL;
    const uint32_t n = o != NULL ? o->n_cuts : 0;
    cut_row *rows = orr_arena_array(arena, cut_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        rows[i] = row_of_cut(o->cluster, &o->cuts[i]);
    *ret = ORR_TABLE_("orrery.explore_cuts/1", "what crosses between sites in a step", cut_columns,
                      rows, n);
    return ORR_OK;
}

/* --- alternatives ---------------------------------------------------------------------------- */

typedef struct alternative_row {
    uint32_t rank;
    double over_best_frac;
    int64_t slower_ns;
    const char *pays_for;
    int64_t pays_ns;
    const char *differs, *wins_with;
} alternative_row;

#define C(field, type)        ORR_COL_(alternative_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(alternative_row, field, type, name)
static const orr_column alternative_columns[] = {
    AS(rank, U32, "place"),
    AS(over_best_frac, FRAC, "excess_frac"),
    AS(slower_ns, NS, "step_change_ns"),
    AS(pays_for, TEXT, "largest_penalty"),
    AS(pays_ns, NS, "penalty_ns"),
    AS(differs, TEXT, "differences"),
    AS(wins_with, TEXT, "break_even"),
};
#undef C
#undef AS

static orr_status fill_alternative(const orr_explore_report *r, uint32_t i, orr_arena *arena,
                                   alternative_row *ret, orr_error *err)
{
    const orr_exploration *x = r->exploration;
    const uint8_t objective = r->options->objective;
    *ret = (alternative_row){
        .rank = i + 1,
        .over_best_frac = x->best[i].value[objective] / x->best[0].value[objective] - 1,
        .slower_ns = x->best[i].step_ns - x->best[0].step_ns,
        .differs = orr_plan_differences(&x->best[0].plan, &x->best[i].plan, arena),
        .wins_with = r->sensitivity ? orr_explore_break_even_text(r->sensitivity, i, arena) : "",
    };
    if (i < r->n_outcomes) {
        const char *payer =
            orr_explore_largest_penalty(&r->outcomes[0], &r->outcomes[i], &ret->pays_ns);
        ret->pays_for = payer != NULL ? payer : "nothing";
    }
    if (ret->wins_with != NULL && r->sensitivity != NULL && *ret->wins_with == '\0')
        ret->wins_with = "no factor alone, up to 16 either way";
    return ret->differs != NULL && ret->wins_with != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_explore_table_alternatives(const orr_explore_report *r, orr_arena *arena,
                                          orr_table *ret, orr_error *err)
{
    const uint32_t n = r->exploration->n > 1 ? r->exploration->n - 1 : 0;
    alternative_row *rows = orr_arena_array(arena, alternative_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++)
        ORR_TRY(fill_alternative(r, i + 1, arena, &rows[i], err));
    *ret = ORR_TABLE_("orrery.explore_alternatives/1",
                      "the next ones: what differs from the first, and what they pay for",
                      alternative_columns, rows, n);
    return ORR_OK;
}

/* --- a column a plan ------------------------------------------------------------------------- */

typedef struct wide_row {
    const char *what;
    double value[PLANS];
    const char *words;
} wide_row;

/* "what", "plan1_ns", ... and, where it has a name, a column of words behind. */
static orr_status wide_columns(const char *what, const char *suffix, orr_column_type type,
                               const char *words, uint32_t n, orr_arena *arena, orr_table *ret,
                               orr_error *err)
{
    orr_column *columns = orr_arena_array(arena, orr_column, PLANS + 2);
    size_t at = 1;
    if (columns == NULL)
        return orr_fail_memory(err);
    columns[0] = (orr_column){what, ORR_COLUMN_TEXT, offsetof(wide_row, what)};
    for (uint32_t i = 0; i < n; i++) {
        const char *name = orr_arena_printf(arena, "plan%u%s", i + 1, suffix);
        if (name == NULL)
            return orr_fail_memory(err);
        columns[at++] = (orr_column){name, type, offsetof(wide_row, value) + i * sizeof(double)};
    }
    if (words != NULL)
        columns[at++] = (orr_column){words, ORR_COLUMN_TEXT, offsetof(wide_row, words)};
    ret->columns = columns;
    ret->n_columns = at;
    ret->row_bytes = sizeof(wide_row);
    return ORR_OK;
}

orr_status orr_explore_table_waterfalls(const orr_explore_report *r, orr_arena *arena,
                                        orr_table *ret, orr_error *err)
{
    const uint32_t n = shown(r);
    wide_row *rows = orr_arena_array(arena, wide_row, ORR_WATERFALLS + 1);
    uint32_t n_rows = 0;
    *ret = empty("orrery.explore_waterfalls/1", "where the step goes, plan by plan");
    if (rows == NULL)
        return orr_fail_memory(err);
    if (n == 0)
        return ORR_OK;
    ORR_TRY(wide_columns("part", "_ns", ORR_COLUMN_NS_MEAN, NULL, n, arena, ret, err));
    for (int w = 0; w < ORR_WATERFALLS; w++) {
        bool any = false;
        rows[n_rows] = (wide_row){.what = orr_waterfall_name((orr_waterfall)w)};
        for (uint32_t i = 0; i < n; i++) {
            rows[n_rows].value[i] = (double)r->outcomes[i].waterfall_ns[w];
            any |= r->outcomes[i].waterfall_ns[w] != 0;
        }
        n_rows += any;
    }
    rows[n_rows].what = "step";
    for (uint32_t i = 0; i < n; i++)
        rows[n_rows].value[i] = (double)r->outcomes[i].step_ns;
    ret->rows = rows;
    ret->n_rows = n_rows + 1;
    return ORR_OK;
}

/* Changes of the objective, as shares of what the first plan has on the machine as it is. */
static orr_status fill_change(const orr_explore_report *r, const orr_explore_change *c,
                              orr_arena *arena, wide_row *ret, orr_error *err)
{
    const double usual = r->exploration->best[0].value[r->options->objective];
    ret->what = orr_arena_printf(arena, "%s x %.3g", orr_factor_name((orr_factor)c->factor), c->by);
    for (uint32_t i = 0; i < PLANS; i++)
        ret->value[i] = i < r->exploration->n ? c->value[i] / usual - 1 : NAN;
    if (c->winner == 0)
        ret->words = "plan 1 stays";
    else if (isfinite(c->flips_at))
        ret->words = orr_arena_printf(arena, "plan %u, from x %.3g on", c->winner + 1, c->flips_at);
    else
        ret->words = orr_arena_printf(arena, "plan %u", c->winner + 1);
    return ret->what != NULL && ret->words != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_explore_table_sensitivity(const orr_explore_report *r, orr_arena *arena,
                                         orr_table *ret, orr_error *err)
{
    const orr_sensitivity *s = r->sensitivity;
    const uint32_t n = r->exploration->n < PLANS ? r->exploration->n : PLANS;
    *ret = empty("orrery.explore_sensitivity/1",
                 "on a machine with one number changed: change from the first plan as it is");
    if (s == NULL || s->n_changes == 0 || n == 0)
        return ORR_OK;
    wide_row *rows = orr_arena_array(arena, wide_row, s->n_changes);
    if (rows == NULL)
        return orr_fail_memory(err);
    ORR_TRY(wide_columns("change", "_frac", ORR_COLUMN_FRAC, "wins", n, arena, ret, err));
    for (uint32_t i = 0; i < s->n_changes; i++)
        ORR_TRY(fill_change(r, &s->changes[i], arena, &rows[i], err));
    ret->rows = rows;
    ret->n_rows = s->n_changes;
    return ORR_OK;
}

/* --- needs ----------------------------------------------------------------------------------- */

typedef struct need_row {
    uint32_t rank;
    const char *factor;
    double at;
} need_row;

static const orr_column need_columns[] = {
    ORR_COL_AS_(need_row, rank, U32, "place"),
    ORR_COL_(need_row, factor, TEXT),
    ORR_COL_AS_(need_row, at, NUMBER, "factor_value"),
};

orr_status orr_explore_table_break_even(const orr_explore_report *r, orr_arena *arena,
                                        orr_table *ret, orr_error *err)
{
    const orr_sensitivity *s = r->sensitivity;
    need_row *rows = orr_arena_array(arena, need_row, s ? s->n_needs : 0);
    uint32_t n = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; s != NULL && i < s->n_needs; i++)
        if (isfinite(s->needs[i].at))
            rows[n++] = (need_row){s->needs[i].plan + 1,
                                   orr_factor_name((orr_factor)s->needs[i].factor), s->needs[i].at};
    *ret = ORR_TABLE_("orrery.explore_needs/1",
                      "what would have to be for another to win, each factor alone", need_columns,
                      rows, n);
    return ORR_OK;
}

/* --- nothing feasible ------------------------------------------------------------------------ */

typedef struct relaxation_row {
    const char *change, *plan;
    double step_ns;
} relaxation_row;

static const orr_column relaxation_columns[] = {
    ORR_COL_(relaxation_row, change, TEXT),
    ORR_COL_(relaxation_row, step_ns, NS_MEAN),
    ORR_COL_(relaxation_row, plan, TEXT),
};

orr_status orr_explore_table_relaxations(const orr_explore_report *r, orr_arena *arena,
                                         orr_table *ret, orr_error *err)
{
    const orr_exploration *x = r->exploration;
    const uint32_t n =
        x->complete ? x->n_relaxations : 0; /* else nobody knows whether one is needed */
    relaxation_row *rows = orr_arena_array(arena, relaxation_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        rows[i] = (relaxation_row){x->relaxations[i].what,
                                   orr_plan_short_text(&x->relaxations[i].plan, arena),
                                   x->relaxations[i].step_ns};
        if (rows[i].plan == NULL)
            return orr_fail_memory(err);
    }
    *ret = ORR_TABLE_("orrery.explore_relaxations/1", "what would make one, smallest change first",
                      relaxation_columns, rows, n);
    return ORR_OK;
}
