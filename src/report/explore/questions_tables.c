/* SPDX-License-Identifier: Apache-2.0 */
/* Answers, and the probes from which they are: a row for each. */
#include <math.h>

#include "report/analyses/registry.h"
#include "report/explore/questions.h"
#include "report/explore/tables.h"

typedef struct answer_row {
    const char *question, *title, *text, *unit, *objective;
    double at, beyond;
    bool beyond_proven;
    double limit, value;
    const char *plan;
    uint32_t devices, probes, contradictions;
} answer_row;

#define C(field, type) ORR_COL_(answer_row, field, type)
static const orr_column answer_columns[] = {
    C(question, TEXT),  C(title, TEXT),         ORR_COL_AS_(answer_row, text, TEXT, "answer"),
    C(at, NUMBER),      C(beyond, NUMBER),      C(beyond_proven, BOOL),
    C(unit, TEXT),      C(limit, NUMBER),       C(value, NUMBER),
    C(objective, TEXT), C(devices, U32),        C(plan, TEXT),
    C(probes, U32),     C(contradictions, U32),
};
#undef C

typedef struct probe_row {
    const char *question, *what, *unit, *verdict, *plan, *note;
    bool answers, changes_plan;
    double at, value, ratio, kept_ratio, bound, gap_frac;
    int64_t step_ns;
    uint32_t devices;
    double budget_days, cost_usd;
} probe_row;

#define C(field, type)        ORR_COL_(probe_row, field, type)
#define AS(field, type, name) ORR_COL_AS_(probe_row, field, type, name)
static const orr_column probe_columns[] = {
    C(question, TEXT),
    AS(what, TEXT, "probe"),
    C(verdict, TEXT),
    AS(answers, BOOL, "is_answer"),
    C(step_ns, NS),
    C(devices, U32),
    C(budget_days, NUMBER),
    C(cost_usd, NUMBER),
    AS(ratio, NUMBER, "ratio_to_reference"),
    AS(kept_ratio, NUMBER, "ratio_with_reference_plan"),
    C(gap_frac, FRAC),
    C(changes_plan, BOOL),
    C(plan, TEXT),
    C(note, TEXT),
    C(at, NUMBER),
    C(unit, TEXT),
    C(value, NUMBER),
    C(bound, NUMBER),
};
#undef C
#undef AS

static const char *plan_text(const orr_probe *p, orr_arena *arena)
{
    return p != NULL && p->found ? orr_plan_short_text(&p->best.plan, arena) : "";
}

static const orr_probe *probe_at(const orr_answer *answer, uint32_t i)
{
    return i < answer->n ? &answer->probes[i] : NULL;
}

static orr_status fill_answer(const orr_answer *a, orr_arena *arena, answer_row *ret,
                              orr_error *err)
{
    const orr_probe *best = probe_at(a, a->answer), *beyond = probe_at(a, a->beyond);
    *ret = (answer_row){
        .question = orr_question_name((orr_question)a->question),
        .title = a->title,
        .text = orr_answer_text(a, arena),
        .unit = a->unit,
        .objective = orr_objective_name((orr_objective)a->objective),
        .at = best != NULL ? best->at : NAN,
        .beyond = beyond != NULL ? beyond->at : NAN,
        .beyond_proven = beyond != NULL && beyond->verdict == ORR_VERDICT_FAILS,
        .limit = isinf(a->limit) ? NAN : a->limit,
        .value = best != NULL ? best->value : NAN,
        .plan = plan_text(best, arena),
        .devices = best != NULL ? best->best.n_devices : 0,
        .probes = a->n,
        .contradictions = a->contradictions,
    };
    return ret->text != NULL && ret->plan != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_explore_table_answers(const orr_explore_report *r, orr_arena *arena, orr_table *ret,
                                     orr_error *err)
{
    answer_row *rows = orr_arena_array(arena, answer_row, r->n_answers);
    if (rows == NULL)
        return orr_fail_memory(err);
    for (uint32_t i = 0; i < r->n_answers; i++)
        ORR_TRY(fill_answer(&r->answers[i], arena, &rows[i], err));
    *ret = ORR_TABLE_("orrery.explore_answers/1", "questions that took searches of their own",
                      answer_columns, rows, r->n_answers);
    return ORR_OK;
}

static orr_status fill_probe(const orr_answer *a, uint32_t i, orr_arena *arena, probe_row *ret,
                             orr_error *err)
{
    const orr_probe *p = &a->probes[i], *reference = probe_at(a, a->reference);
    *ret = (probe_row){
        .question = a->title,
        .what = p->what,
        .unit = a->unit,
        .verdict = orr_verdict_name((orr_verdict)p->verdict),
        .plan = plan_text(p, arena),
        .note = p->note,
        .answers = i == a->answer,
        .changes_plan = orr_probe_changes_plan(a, p),
        .at = p->at,
        .value = p->value,
        .ratio = orr_probe_ratio(a, p),
        .kept_ratio = reference != NULL ? p->kept_value / reference->value : NAN,
        .bound = p->bound,
        .gap_frac = p->gap_frac,
        .step_ns = p->found ? p->best.step_ns : 0,
        .devices = p->found ? p->best.n_devices : 0,
        .budget_days = p->found ? p->best.value[ORR_OBJECTIVE_BUDGET] / 86400e9 : NAN,
        .cost_usd = p->found ? p->best.value[ORR_OBJECTIVE_COST] : NAN,
    };
    return ret->plan != NULL ? ORR_OK : orr_fail_memory(err);
}

orr_status orr_explore_table_probes(const orr_explore_report *r, orr_arena *arena, orr_table *ret,
                                    orr_error *err)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < r->n_answers; i++)
        n += r->answers[i].n;
    probe_row *rows = orr_arena_array(arena, probe_row, n);
    if (rows == NULL)
        return orr_fail_memory(err);
    n = 0;
    for (uint32_t i = 0; i < r->n_answers; i++)
        for (uint32_t k = 0; k < r->answers[i].n; k++)
            ORR_TRY(fill_probe(&r->answers[i], k, arena, &rows[n++], err));
    *ret = ORR_TABLE_("orrery.explore_probes/1", "what was tried for each question", probe_columns,
                      rows, n);
    return ORR_OK;
}
