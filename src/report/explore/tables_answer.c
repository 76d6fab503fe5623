/* SPDX-License-Identifier: Apache-2.0 */
/* What the answer means: plans that cannot be told apart, and what was published of the job. */
#include <math.h>
#include <stdlib.h>

#include "report/analyses/registry.h"
#include "report/explore/tables.h"
#include "report/explore/describe.h"

/* --- the set --------------------------------------------------------------------------------- */

typedef struct decision_row {
    uint32_t place;
    bool recommended;
    int64_t step_ns;
    double over_best_frac, odds_frac, best_frac, mean_regret_frac, p95_regret_frac;
    const char *published, *plan;
} decision_row;

#define C(field, type)        ORR_COL_(decision_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(decision_row, field, type, name)
static const orr_column decision_columns[] = {
    C(place, U32),
    C(step_ns, NS),
    AS(over_best_frac, FRAC, "excess_frac"),
    AS(odds_frac, FRAC, "odds_of_better_frac"),
    AS(best_frac, FRAC, "draws_best_frac"),
    C(mean_regret_frac, FRAC),
    C(p95_regret_frac, FRAC),
    C(recommended, BOOL),
    C(published, TEXT),
    C(plan, TEXT),
};
#undef C
#undef AS

/* The published plan that a plan of the answer is, or "". */
static const char *published_name(const orr_explore_answer *a, const orr_explored *plan)
{
    for (uint32_t i = 0; i < a->n_published; i++)
        if (orr_explore_same_plan(&a->published[i].explored.plan, &plan->plan))
            return a->published[i].published->name;
    return "";
}

static int by_place(const void *a, const void *b)
{
    const decision_row *x = a, *y = b;
    return (x->place > y->place) - (x->place < y->place);
}

orr_status orr_explore_table_decision(const orr_explore_report *r, orr_arena *arena, orr_table *ret,
                                      orr_error *err)
{
    static const char *const title =
        "plans that cannot be told from the best, and what they lose over draws of the calibration";
    const orr_explore_answer *a = r->answer;
    const uint32_t n = a != NULL ? a->decision.n : 0;
    decision_row *rows = orr_arena_array(arena, decision_row, n);
    uint32_t at = 0;
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        const orr_decision_plan *d = &a->decision.plans[i];
        const double value = a->plans[i].value[r->options->objective];
        if (!d->in_set)
            continue;
        rows[at] = (decision_row){
            .recommended = i == a->decision.recommended,
            .place = orr_explore_answer_place(r, i),
            .step_ns = a->plans[i].step_ns,
            .over_best_frac = value / a->plans[a->decision.best].value[r->options->objective] - 1,
            .odds_frac = d->odds_frac,
            .best_frac = d->best_frac,
            .mean_regret_frac = d->mean_regret_frac,
            .p95_regret_frac = d->p95_regret_frac,
            .published = published_name(a, &a->plans[i]),
            .plan = orr_plan_short_text(&a->plans[i].plan, arena),
        };
        if (rows[at++].plan == NULL)
            return orr_fail_memory(err);
    }
    if (at > 1)
        qsort(rows, at, sizeof *rows, by_place);
    *ret = ORR_TABLE_("orrery.explore_decision/1", title, decision_columns, rows, at);
    return ORR_OK;
}

/* --- what was published ---------------------------------------------------------------------- */

typedef struct published_row {
    const char *name, *plan, *source, *notes, *why_not;
    double step_ns, over_best_frac, measured_ns;
    uint32_t place;
    bool fits, in_set;
    int64_t peak_bytes, usable_bytes;
} published_row;

#define C(field, type)        ORR_COL_(published_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(published_row, field, type, name)
static const orr_column published_columns[] = {
    C(name, TEXT),
    C(step_ns, NS_MEAN),
    AS(over_best_frac, FRAC, "excess_frac"),
    C(place, U32),
    C(in_set, BOOL),
    C(fits, BOOL),
    C(peak_bytes, BYTES),
    C(usable_bytes, BYTES),
    AS(measured_ns, NS_MEAN, "measured_step_ns"),
    C(plan, TEXT),
    C(source, TEXT),
    C(notes, TEXT),
    AS(why_not, TEXT, "infeasible_reason"),
};
#undef C
#undef AS

orr_status orr_explore_table_published(const orr_explore_report *r, orr_arena *arena,
                                       orr_table *ret, orr_error *err)
{
    const orr_explore_answer *a = r->answer;
    const uint8_t objective = r->options->objective;
    const uint32_t n = a != NULL ? a->n_published : 0;
    published_row *rows = orr_arena_array(arena, published_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < n; i++) {
        const orr_published_result *p = &a->published[i];
        const bool done = p->why_not == NULL;
        rows[i] = (published_row){
            .name = p->published->name,
            .plan = orr_plan_short_text(&p->explored.plan, arena),
            .source = p->published->source,
            .notes = p->published->notes,
            .why_not = p->why_not,
            .step_ns = done ? (double)p->explored.step_ns : NAN,
            .over_best_frac =
                done ? p->explored.value[objective] / orr_explore_best_value(r) - 1 : NAN,
            .measured_ns = p->measured_step_ns,
            .place = done ? orr_explore_published_place(r, p) : 0,
            .fits = p->fits,
            .in_set = done && orr_explore_published_in_set(r, p),
            .peak_bytes = done ? p->explored.peak_bytes : -1,
            .usable_bytes = done ? p->explored.usable_bytes : -1,
        };
        if (rows[i].plan == NULL)
            return orr_fail_memory(err);
    }
    *ret = ORR_TABLE_("orrery.explore_published/1",
                      "plans that were published of this job, simulated as they stand",
                      published_columns, rows, n);
    return ORR_OK;
}
