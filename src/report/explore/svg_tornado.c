/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "report/explore/describe.h"
#include "report/explore/svg.h"
#include "report/page/html.h"
#include "report/page/svg.h"

enum {
    WIDTH = ORR_SVG_WIDTH,
    LABEL = ORR_EXPLORE_LABEL,
    ROW = 50,
    BAR = 17,
    TOP = 24,
    BRIEF = 140,
    LONG = 410
}; /* room for words beside a bar; where another plan wins */

typedef struct axis {
    orr_output *out;
    double usual, zero, scale; /* value of the winner; where no change is; of a share */
} axis;

static double change_of(const axis *a, double value)
{
    return value / a->usual - 1;
}

/* Words stand on the side to which a bar goes. */
static void put_words(const axis *a, double change, double y, const char *class, const char *words)
{
    const double at = a->zero + change * a->scale;
    orr_svg_text(a->out, class, change < 0 ? ORR_SVG_END : ORR_SVG_START,
                 change < 0 ? at - 8 : at + 8, y, "%s", words);
}

static void put_change(const axis *a, const orr_explore_change *c, double y)
{
    const double change = change_of(a, c->value[0]);
    const double winner = change_of(a, c->value[c->winner]);
    const double far = change < 0 ? fmin(change, winner) : fmax(change, winner);
    char words[200], flip[80] = "";
    if (!isfinite(change)) {
        put_words(a, 0, y + 13, "", "the winner cannot be there");
        return;
    }
    snprintf(words, sizeof words, "%s x %.3g", orr_factor_name((orr_factor)c->factor), c->by);
    orr_svg_rect(a->out, c->by < 1 ? "less" : "more",
                 change < 0 ? a->zero + change * a->scale : a->zero, y, fabs(change) * a->scale,
                 BAR, words);
    if (c->winner != 0) {
        orr_output_printf(
            a->out, "<path class=\"flip\" d=\"M%.1f %.1fl7 %.1fl-7 %.1fl-7 %.1fz\"/>\n",
            a->zero + winner * a->scale, y - 1, (BAR + 2) / 2.0, (BAR + 2) / 2.0, -(BAR + 2) / 2.0);
        if (isfinite(c->flips_at))
            snprintf(flip, sizeof flip, "; from x %.3g on plan %u wins: %+.1f %%", c->flips_at,
                     c->winner + 1, 100 * winner);
        else
            snprintf(flip, sizeof flip, "; plan %u wins, %+.1f %%", c->winner + 1, 100 * winner);
    }
    snprintf(words, sizeof words, "x %.3g: %+.1f %%%s", c->by, 100 * change, flip);
    put_words(a, far + (c->winner != 0 ? (far < 0 ? -8 : 8) / a->scale : 0), y + 13,
              c->winner != 0 ? "strong" : "", words);
}

/* The furthest to either side that anything goes, and the room that words need there. */
typedef struct reach {
    double least, most;
    int left, right;
} reach;

static reach find_reach(const orr_sensitivity *s, double usual)
{
    reach r = {-0.02, 0.02, BRIEF, BRIEF};
    for (uint32_t i = 0; i < s->n_changes; i++) {
        const orr_explore_change *c = &s->changes[i];
        const double both[2] = {c->value[0] / usual - 1, c->value[c->winner] / usual - 1};
        for (int k = 0; k < 2; k++)
            if (isfinite(both[k])) {
                r.least = fmin(r.least, both[k]);
                r.most = fmax(r.most, both[k]);
            }
        if (c->winner != 0 && both[0] < 0)
            r.left = LONG;
        else if (c->winner != 0)
            r.right = LONG;
    }
    return r;
}

void orr_svg_explore_tornado(orr_output *out, const orr_explore_report *r)
{
    const orr_sensitivity *s = r->sensitivity;
    const double usual = r->exploration->best[0].value[r->options->objective];
    const reach far = find_reach(s, usual);
    const double scale = (WIDTH - LABEL - far.left - far.right) / (far.most - far.least);
    const axis a = {out, usual, LABEL + far.left - far.least * scale, scale};
    const int height = TOP + ORR_FACTORS * ROW;
    char human[ORR_HUMAN_MAX];
    orr_svg_open(out, "What other numbers of the machine do", height);
    orr_svg_line(out, "axis", a.zero, TOP - 6, a.zero, height);
    orr_svg_text(out, "", ORR_SVG_MIDDLE, a.zero, 12, "as it is: %s",
                 orr_objective_human((orr_objective)r->options->objective, usual, human));
    for (int f = 0; f < ORR_FACTORS; f++) {
        int n = 0;
        orr_svg_text(out, "strong", ORR_SVG_END, LABEL - 10, TOP + f * ROW + 24, "%s",
                     orr_factor_name((orr_factor)f));
        for (uint32_t i = 0; i < s->n_changes; i++)
            if (s->changes[i].factor == f && n < 2)
                put_change(&a, &s->changes[i], TOP + f * ROW + 4.0 + n++ * (BAR + 3));
    }
    orr_svg_close(out);
}
