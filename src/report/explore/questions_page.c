/* SPDX-License-Identifier: Apache-2.0 */
/* The page's section on questions: an answer each, with a picture of its probes. */
#include <math.h>
#include <stdio.h>

#include "report/explore/questions.h"
#include "report/page/svg.h"

enum { LABEL = 330, BAR = 18, STEP = 26, FULL = ORR_SVG_WIDTH - LABEL - 260 };

static const char *class_of(const orr_answer *answer, uint32_t i)
{
    return i == answer->answer                              ? "good"
           : answer->probes[i].verdict == ORR_VERDICT_FAILS ? "more"
           : answer->probes[i].verdict == ORR_VERDICT_OPEN  ? "bubble"
                                                            : "other";
}

/* The probes in the order of their numbers; those of a comparison as they were made. */
static void sort_probes(const orr_answer *answer, uint32_t *order)
{
    for (uint32_t i = 0; i < answer->n; i++) {
        uint32_t at = i;
        while (at > 0 && answer->probes[order[at - 1]].at > answer->probes[i].at) {
            order[at] = order[at - 1];
            at--;
        }
        order[at] = i;
    }
}

static void put_probe(orr_output *out, const orr_answer *answer, uint32_t i, double most, double y)
{
    const orr_probe *p = &answer->probes[i];
    char label[100], human[ORR_HUMAN_MAX];
    const double ratio = orr_probe_ratio(answer, p);
    orr_text_elide(p->what, 44, label, sizeof label);
    orr_svg_text(out, "", ORR_SVG_END, LABEL - 10, y + 14, "%s", label);
    if (!p->found) {
        orr_text_elide(p->note, 90, label, sizeof label);
        orr_svg_text(out, "", ORR_SVG_START, LABEL, y + 14, "%s", label);
        return;
    }
    const double w = most > 0 ? FULL * p->value / most : 0;
    orr_svg_rect(out, class_of(answer, i), LABEL, y, w, BAR,
                 orr_verdict_name((orr_verdict)p->verdict));
    orr_svg_text(out, "strong", ORR_SVG_START, LABEL + w + 8, y + 14, "%s",
                 orr_objective_human((orr_objective)answer->objective, p->value, human));
    if (!isnan(ratio))
        orr_svg_text(out, "", ORR_SVG_START, LABEL + w + 110, y + 14, "%+.1f %%%s",
                     100 * (ratio - 1), orr_probe_changes_plan(answer, p) ? ", another plan" : "");
}

/* A bar for each probe, with the limit as a line. */
static void put_probes(orr_output *out, const orr_answer *answer, const uint32_t *order)
{
    const int height = (int)answer->n * STEP + 6;
    const bool limited = isfinite(answer->limit) && answer->question != ORR_QUESTION_COST;
    double most = limited ? answer->limit : 0;
    for (uint32_t i = 0; i < answer->n; i++)
        if (answer->probes[i].found)
            most = fmax(most, answer->probes[i].value);
    orr_svg_open(out, answer->title, height);
    for (uint32_t i = 0; i < answer->n; i++)
        put_probe(out, answer, order[i], most, i * STEP + 3.0);
    if (limited) {
        const double x = LABEL + FULL * answer->limit / most;
        orr_svg_line(out, "mark", x, 0, x, height);
    }
    orr_svg_close(out);
}

static orr_status put_answer(const orr_html_page *p, const orr_answer *answer)
{
    const char *text = orr_answer_text(answer, p->arena);
    uint32_t *order = orr_arena_array(p->arena, uint32_t, answer->n);
    const orr_probe *best = answer->answer < answer->n ? &answer->probes[answer->answer] : NULL;
    const char *plan = best != NULL ? orr_plan_short_text(&best->best.plan, p->arena) : "";
    if (text == NULL || order == NULL || plan == NULL)
        return orr_fail_memory(p->err);
    sort_probes(answer, order);
    orr_html_figure_open(p->out, answer->title,
                         isnan(answer->limit)
                             ? "a bar for each search"
                             : "a bar for each search; the line: what is asked for");
    orr_output_text(p->out, "<p class=\"lead\">");
    orr_html_text(p->out, text);
    orr_output_text(p->out, ".</p>\n");
    if (answer->n > 0)
        put_probes(p->out, answer, order);
    orr_html_figure_close(p->out);
    if (best != NULL)
        orr_html_plan(p->out, plan);
    return ORR_OK;
}

orr_status orr_explore_put_questions(const orr_html_page *p, const orr_explore_report *report)
{
    if (report->n_answers == 0)
        return ORR_OK;
    orr_html_section_open(p->out, "questions", "Questions");
    for (uint32_t i = 0; i < report->n_answers; i++)
        ORR_TRY(put_answer(p, &report->answers[i]));
    orr_html_section_close(p->out);
    return ORR_OK;
}
