/* SPDX-License-Identifier: Apache-2.0 */
#include "report/explore/questions.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

char *orr_probe_number_human(const orr_answer *answer, const orr_probe *probe,
                             char buf[ORR_HUMAN_MAX])
{
    const char *unit = answer->unit;
    buf[0] = '\0';
    if (isnan(probe->at))
        return buf;
    if (strcmp(unit, "bytes/s") == 0)
        (void)snprintf(buf, ORR_HUMAN_MAX, "%.4g Gbit/s", probe->at * 8e-9);
    else if (strcmp(unit, "bytes") == 0)
        (void)snprintf(buf, ORR_HUMAN_MAX, "%.4g GiB", probe->at / 0x1p30);
    else if (strcmp(unit, "km") == 0)
        (void)snprintf(buf, ORR_HUMAN_MAX, "%.4g km", probe->at);
    else
        (void)snprintf(buf, ORR_HUMAN_MAX, "%.0f %s", probe->at, unit);
    return buf;
}

static const orr_probe *probe_at(const orr_answer *answer, uint32_t i)
{
    return i < answer->n ? &answer->probes[i] : NULL;
}

double orr_probe_ratio(const orr_answer *answer, const orr_probe *probe)
{
    const orr_probe *reference = probe_at(answer, answer->reference);
    return reference != NULL && reference->found && probe->found ? probe->value / reference->value
                                                                 : NAN;
}

bool orr_probe_changes_plan(const orr_answer *answer, const orr_probe *probe)
{
    const orr_probe *reference = probe_at(answer, answer->reference);
    return reference != NULL && reference->found && probe->found &&
           !orr_plan_equal(&probe->best.plan, &reference->best.plan);
}

/* --- sentences ------------------------------------------------------------------------------- */

static char *value_human(const orr_answer *answer, double value, char buf[ORR_HUMAN_MAX])
{
    return orr_objective_human((orr_objective)answer->objective, value, buf);
}

static const char *bracket_text(const orr_answer *answer, orr_arena *arena)
{
    char at[ORR_HUMAN_MAX], beyond[ORR_HUMAN_MAX], value[ORR_HUMAN_MAX], limit[ORR_HUMAN_MAX];
    const orr_probe *good = probe_at(answer, answer->answer),
                    *bad = probe_at(answer, answer->beyond), *first = probe_at(answer, 0);
    value_human(answer, answer->limit, limit);
    if (good == NULL && (first == NULL || !first->found))
        return orr_arena_printf(arena, "none%s%s", first != NULL ? ": " : "",
                                first != NULL ? first->note : "");
    if (good == NULL)
        return orr_arena_printf(arena,
                                "none: %s is the best that was found, at most %s is asked "
                                "for, and %s",
                                value_human(answer, first->value, value), limit,
                                first->verdict == ORR_VERDICT_FAILS
                                    ? "no plan has it"
                                    : "that there is no such plan is not shown");
    orr_probe_number_human(answer, good, at);
    value_human(answer, good->value, value);
    const char *within =
        isinf(answer->limit)
            ? ""
            : orr_arena_printf(arena, " (%s; at most %s is asked for)", value, limit);
    if (within == NULL)
        return NULL;
    if (bad == NULL)
        return orr_arena_printf(arena, "%s%s; no harder number was tried that is not enough", at,
                                within);
    return orr_arena_printf(
        arena, "%s%s; %s %s", at, within, orr_probe_number_human(answer, bad, beyond),
        bad->verdict == ORR_VERDICT_FAILS ? "cannot be enough"
                                          : "was not found to be enough, nor shown not to be");
}

static const char *cost_text(const orr_answer *answer, orr_arena *arena)
{
    char at[ORR_HUMAN_MAX], value[ORR_HUMAN_MAX], time[ORR_HUMAN_MAX], bound[ORR_HUMAN_MAX];
    const orr_probe *best = probe_at(answer, answer->answer);
    if (best == NULL)
        return "none in time";
    const char *proof = isnan(best->bound)
                            ? ""
                            : orr_arena_printf(arena, "; nothing in time costs less than %s",
                                               value_human(answer, best->bound, bound));
    return proof == NULL
               ? NULL
               : orr_arena_printf(arena, "%s on %s, in %s%s",
                                  value_human(answer, best->value, value),
                                  orr_probe_number_human(answer, best, at),
                                  orr_objective_human(ORR_OBJECTIVE_BUDGET,
                                                      best->best.value[ORR_OBJECTIVE_BUDGET], time),
                                  proof);
}

static const char *against_text(const orr_answer *answer, orr_arena *arena)
{
    char own[ORR_HUMAN_MAX], others[ORR_HUMAN_MAX];
    if (answer->n < 2)
        return "not searched";
    const orr_probe *a = &answer->probes[0], *b = &answer->probes[1];
    if (!a->found || !b->found)
        return orr_arena_printf(arena, "no plan on %s: %s", a->found ? b->what : a->what,
                                a->found ? b->note : a->note);
    const char *head =
        orr_arena_printf(arena, "%s: %s beside %s on %s: a ratio of %.4g", b->what,
                         value_human(answer, b->value, others), value_human(answer, a->value, own),
                         a->what, a->value / b->value);
    return head == NULL || isnan(a->bound) || isnan(b->bound)
               ? head
               : orr_arena_printf(arena, "%s, between %.4g and %.4g by the bounds", head,
                                  a->bound / b->value, a->value / b->bound);
}

static const char *changes_text(const orr_answer *answer, orr_arena *arena)
{
    const orr_probe *most = NULL;
    double largest = 0;
    uint32_t other = 0, n = 0;
    char share[ORR_HUMAN_MAX];
    for (uint32_t i = 1; i < answer->n; i++) {
        const orr_probe *p = &answer->probes[i];
        const double ratio = orr_probe_ratio(answer, p);
        n += p->found;
        other += orr_probe_changes_plan(answer, p);
        if (fabs(log(ratio)) > largest) {
            largest = fabs(log(ratio));
            most = p;
        }
    }
    const char *head = orr_arena_printf(
        arena, "%u changes, %u without a plan; another plan is best with %u of them", answer->n - 1,
        answer->n - 1 - n, other);
    if (head == NULL || most == NULL)
        return head;
    return orr_arena_printf(arena, "%s; most: %s, %s%s", head, most->what,
                            most->value < answer->probes[0].value ? "less by " : "more by ",
                            orr_human_frac(share, fabs(orr_probe_ratio(answer, most) - 1)));
}

static const char *clusters_text(const orr_answer *answer, orr_arena *arena)
{
    char value[ORR_HUMAN_MAX], devices[ORR_HUMAN_MAX];
    const orr_probe *best = probe_at(answer, answer->answer);
    return best == NULL
               ? "no cluster has a feasible plan"
               : orr_arena_printf(arena, "%s has the least %s: %s on %s devices", best->what,
                                  orr_objective_name((orr_objective)answer->objective),
                                  value_human(answer, best->value, value),
                                  orr_human_count(devices, best->best.n_devices));
}

const char *orr_answer_text(const orr_answer *answer, orr_arena *arena)
{
    const char *text = answer->question == ORR_QUESTION_COST       ? cost_text(answer, arena)
                       : answer->question == ORR_QUESTION_AGAINST  ? against_text(answer, arena)
                       : answer->question == ORR_QUESTION_WHAT_IF  ? changes_text(answer, arena)
                       : answer->question == ORR_QUESTION_CLUSTERS ? clusters_text(answer, arena)
                                                                   : bracket_text(answer, arena);
    if (text != NULL && answer->contradictions > 0)
        text = orr_arena_printf(arena,
                                "%s; %u pairs of probes contradict that a better machine is never "
                                "worse",
                                text, answer->contradictions);
    if (text != NULL && answer->interrupted)
        text = orr_arena_printf(arena, "%s (interrupted)", text);
    return text;
}

orr_status orr_explore_tell_answers(const orr_explore_report *report, orr_arena *arena,
                                    orr_output *out, orr_error *err)
{
    char title[200], line[1200];
    for (uint32_t i = 0; i < report->n_answers; i++) {
        const char *text = orr_answer_text(&report->answers[i], arena);
        if (text == NULL)
            return orr_fail_memory(err);
        orr_text_elide(report->answers[i].title, 200, title, sizeof title);
        orr_text_elide(text, sizeof line, line, sizeof line);
        orr_output_printf(out, "%s: %s\n", title, line);
    }
    return ORR_OK;
}
