/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "report/explore/describe.h"
#include "report/explore/svg.h"
#include "report/page/page.h"
#include "report/page/svg.h"

enum { WIDTH = ORR_SVG_WIDTH, LABEL = ORR_EXPLORE_LABEL, BAR = 22, STEP = 32, VALUE = 210 };

static void put_label(orr_output *out, const char *text, double y)
{
    orr_svg_text(out, "", ORR_SVG_END, LABEL - 10, y, "%s", text);
}

/* --- waterfalls ------------------------------------------------------------------------------ */

static const char *const PARTS[ORR_WATERFALLS] = {
    [ORR_WATERFALL_IDEAL] = "ideal",
    [ORR_WATERFALL_KERNELS] = "kernels",
    [ORR_WATERFALL_RECOMPUTE] = "recompute",
    [ORR_WATERFALL_TP] = "tp",
    [ORR_WATERFALL_CP] = "cp",
    [ORR_WATERFALL_EP] = "ep",
    [ORR_WATERFALL_PP] = "pp",
    [ORR_WATERFALL_DP] = "dp",
    [ORR_WATERFALL_BUBBLE] = "bubble",
    [ORR_WATERFALL_OPTIMIZER] = "optimizer",
    [ORR_WATERFALL_OVERHEAD] = "host-overhead",
    [ORR_WATERFALL_TIERS] = "memory",
};

static void put_legend(orr_output *out, const orr_explore_report *r)
{
    orr_html_legend_open(out);
    for (int w = 0; w < ORR_WATERFALLS; w++) {
        bool any = false;
        for (uint32_t i = 0; i < r->n_outcomes; i++)
            any |= r->outcomes[i].waterfall_ns[w] > r->outcomes[i].step_ns / 1000;
        if (any)
            orr_html_legend(out, PARTS[w], "%s", orr_waterfall_name((orr_waterfall)w));
    }
    orr_html_legend_close(out);
}

static void put_parts(orr_output *out, const orr_outcome *o, double scale, double y)
{
    double x = LABEL;
    for (int w = 0; w < ORR_WATERFALLS; w++) {
        const double width = (double)o->waterfall_ns[w] * scale;
        char words[160], time[ORR_HUMAN_MAX], share[ORR_HUMAN_MAX];
        if (o->waterfall_ns[w] <= 0)
            continue;
        snprintf(words, sizeof words, "%s: %s, %s", orr_waterfall_name((orr_waterfall)w),
                 orr_human_ns(time, (double)o->waterfall_ns[w]),
                 orr_human_frac(share, (double)o->waterfall_ns[w] / (double)o->step_ns));
        orr_svg_rect(out, PARTS[w], x, y, width, BAR, words);
        x += width;
    }
}

void orr_svg_explore_waterfalls(orr_output *out, const orr_explore_report *r)
{
    int64_t longest_ns = 1;
    for (uint32_t i = 0; i < r->n_outcomes; i++)
        if (r->outcomes[i].step_ns > longest_ns)
            longest_ns = r->outcomes[i].step_ns;
    const double scale = (double)(WIDTH - LABEL - VALUE) / (double)longest_ns;
    put_legend(out, r);
    orr_svg_open(out, "Where the step goes, plan by plan", (int)r->n_outcomes * STEP);
    for (uint32_t i = 0; i < r->n_outcomes; i++) {
        const orr_outcome *o = &r->outcomes[i];
        const double y = i * STEP + (STEP - BAR) / 2.0;
        char label[40], time[ORR_HUMAN_MAX], more[ORR_HUMAN_MAX];
        snprintf(label, sizeof label, i == 0 ? "the winner" : "plan %u", i + 1);
        put_label(out, label, y + 15);
        put_parts(out, o, scale, y);
        const double at = LABEL + (double)o->step_ns * scale;
        orr_svg_text(out, "strong", ORR_SVG_START, at + 10, y + 15, "%s",
                     orr_human_ns(time, (double)o->step_ns));
        if (i > 0)
            orr_svg_text(out, "", ORR_SVG_START, at + 80, y + 15, "%+.1f %%, %s",
                         100 * ((double)o->step_ns / (double)r->outcomes[0].step_ns - 1),
                         orr_human_ns(more, (double)(o->step_ns - r->outcomes[0].step_ns)));
    }
    orr_svg_close(out);
}

/* --- other searchers ------------------------------------------------------------------------- */

enum { FAR = 6 }; /* times the best: longer bars are broken off */

/* A bar, broken where it would leave the others too short to be told apart; returns where its words
 * begin. */
static double put_value_bar(orr_output *out, const char *class, const char *words, double value,
                            double most, double y)
{
    const double full = WIDTH - LABEL - VALUE, w = value < most ? value / most * full : full;
    orr_svg_rect(out, class, LABEL, y, w, BAR, words);
    if (value > most)
        orr_output_printf(out, "<path class=\"break\" d=\"M%.1f %.1fl8 0l-8 %dl-8 0z\"/>\n",
                          LABEL + full - 26, y - 1, BAR + 2);
    return LABEL + w + 10;
}

static void put_baseline(orr_output *out, const orr_explore_report *r,
                         const orr_explore_baseline_plan *baseline_plan, double best, double most,
                         double y)
{
    const orr_objective objective = (orr_objective)r->options->objective;
    const double value = baseline_plan->explored.value[objective];
    char human[ORR_HUMAN_MAX], fit[512];
    put_label(out, orr_baseline_name((orr_baseline)baseline_plan->baseline), y + 15);
    if (baseline_plan->why_not != NULL) {
        orr_text_elide(baseline_plan->why_not, 150, fit, sizeof fit);
        orr_svg_text(out, "", ORR_SVG_START, LABEL, y + 15, "finds none: %s", fit);
        return;
    }
    const double at = put_value_bar(
        out, "other", orr_baseline_about((orr_baseline)baseline_plan->baseline), value, most, y);
    orr_svg_text(out, "strong", ORR_SVG_START, at, y + 15, "%s",
                 orr_objective_human(objective, value, human));
    orr_svg_text(out, "", ORR_SVG_START, at + 100, y + 15, "%+.1f %%", 100 * (value / best - 1));
}

void orr_svg_explore_baselines(orr_output *out, const orr_explore_report *r)
{
    const orr_objective objective = (orr_objective)r->options->objective;
    const double best = r->exploration->best[0].value[objective];
    double most = best;
    char human[ORR_HUMAN_MAX];
    for (uint32_t i = 0; i < r->n_baseline_plans; i++)
        if (r->baseline_plans[i].why_not == NULL)
            most = fmax(most, r->baseline_plans[i].explored.value[objective]);
    most = fmin(most, FAR * best);
    orr_svg_open(out, "Other searchers", (int)(r->n_baseline_plans + 1) * STEP);
    put_label(out, "explore", 5 + 15);
    const double at = put_value_bar(out, "good", "this search", best, most, 5);
    orr_svg_text(out, "strong", ORR_SVG_START, at, 20, "%s",
                 orr_objective_human(objective, best, human));
    for (uint32_t i = 0; i < r->n_baseline_plans; i++)
        put_baseline(out, r, &r->baseline_plans[i], best, most, (i + 1) * STEP + 5.0);
    orr_svg_close(out);
}

/* --- the space ------------------------------------------------------------------------------- */

void orr_svg_explore_space(orr_output *out, const orr_explore_report *r)
{
    static const char *const classes[ORR_PRUNES] = {
        [ORR_PRUNE_INVALID] = "bubble", [ORR_PRUNE_EXCLUDED] = "host-overhead",
        [ORR_PRUNE_MEMORY] = "ep",      [ORR_PRUNE_BOUND] = "kernels",
        [ORR_PRUNE_DOMINATED] = "cp",
    };
    const orr_exploration *x = r->exploration;
    double pruned = 0, at = 0;
    for (int i = 0; i < ORR_PRUNES; i++)
        pruned += x->pruned[i];
    const double whole = fmax(x->space, pruned), scale = whole > 0 ? WIDTH / whole : 0;
    char share[ORR_HUMAN_MAX], many[ORR_HUMAN_MAX], words[160];
    orr_html_legend_open(out);
    for (int i = 0; i < ORR_PRUNES; i++)
        if (x->pruned[i] > 0)
            orr_html_legend(out, classes[i], "%s: %s, %s", orr_prune_name((orr_prune)i),
                            orr_human_si(many, x->pruned[i]),
                            orr_human_frac(share, x->pruned[i] / whole));
    orr_html_legend(out, "optimizer", "followed or left open: %s",
                    orr_human_si(many, whole - pruned));
    orr_html_legend_close(out);
    orr_svg_open(out, "What became of the plans of the space", 26);
    for (int i = 0; i < ORR_PRUNES; i++) {
        if (x->pruned[i] <= 0)
            continue;
        snprintf(words, sizeof words, "%s: %s", orr_prune_name((orr_prune)i),
                 orr_human_si(many, x->pruned[i]));
        orr_svg_rect(out, classes[i], at, 2, x->pruned[i] * scale, BAR, words);
        at += x->pruned[i] * scale;
    }
    if (at < WIDTH)
        orr_svg_rect(out, "optimizer", at, 2, WIDTH - at, BAR, "followed or left open");
    orr_svg_close(out);
}
