/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "report/fleet/svg.h"
#include "report/humanize/human.h"
#include "report/page/page.h"
#include "report/page/svg.h"

enum { WIDTH = ORR_SVG_WIDTH, LABEL = 110, PLOT = WIDTH - LABEL, VALUE = 70 };

/* Classes by orr_fleet_loss; the last is what stands. Told apart with any colour vision by their
 * order and by lightness where they touch. */
static const char *const CLASSES[ORR_FLEET_LOSSES + 1] = {
    [ORR_FLEET_LOSS_DETECTION] = "detection", [ORR_FLEET_LOSS_REGROUPING] = "regrouping",
    [ORR_FLEET_LOSS_RETRY] = "retry",         [ORR_FLEET_LOSS_RECOMPUTE] = "redone",
    [ORR_FLEET_LOSS_SAVING] = "saving",       [ORR_FLEET_LOSS_SCHEDULING] = "scheduling",
    [ORR_FLEET_LOSS_STARTING] = "starting",   [ORR_FLEET_LOSS_LOADING] = "loading",
    [ORR_FLEET_LOSS_CATCH_UP] = "catch-up",   [ORR_FLEET_LOSS_DEGRADED] = "degraded",
    [ORR_FLEET_LOSS_SLOWED] = "slowed",       [ORR_FLEET_LOSS_HALTED] = "halted",
    [ORR_FLEET_LOSSES] = "compute",
};

static const char *words_of(int loss)
{
    return loss == ORR_FLEET_LOSSES ? "steps that stand"
                                    : orr_fleet_loss_name((orr_fleet_loss)loss);
}

/* --- losses ----------------------------------------------------------------------------------- */

static double share_of(const orr_fleet_outcome *o, int loss)
{
    return loss == ORR_FLEET_LOSSES ? o->effective.mean : o->lost[loss].mean;
}

/* What is 0.05 % of any bar. */
static void put_legend(orr_output *out, const orr_fleet *fleet)
{
    orr_html_legend_open(out);
    for (int k = ORR_FLEET_LOSSES; k >= 0; k--) {
        double most = 0;
        for (uint32_t i = 0; i < fleet->n; i++)
            most = fmax(most, share_of(&fleet->outcomes[i], k));
        if (most >= 0.0005)
            orr_html_legend(out, CLASSES[k], "%s", words_of(k));
    }
    orr_html_legend_close(out);
}

static void put_bar(orr_output *out, const orr_fleet_outcome *o, const char *name, int y)
{
    enum { BAR = 22 };
    double x = LABEL;
    orr_svg_text(out, "", ORR_SVG_END, LABEL - 10, y + 15, "%s", name);
    for (int k = ORR_FLEET_LOSSES; k >= 0; k--) {
        const double w = share_of(o, k) * PLOT;
        char share[ORR_HUMAN_MAX], words[160];
        if (w <= 0)
            continue;
        orr_human_frac(share, share_of(o, k));
        snprintf(words, sizeof words, "%s, %s: %s", name, words_of(k), share);
        orr_svg_rect(out, CLASSES[k], x, y, w, BAR, words);
        if (k == ORR_FLEET_LOSSES && w > 60)
            orr_svg_text(out, "in compute", ORR_SVG_START, x + 8, y + 15, "%s", share);
        x += w;
    }
}

void orr_svg_fleet_losses(orr_output *out, const orr_fleet *fleet, const char *const *names)
{
    enum { STEP = 30 };
    put_legend(out, fleet);
    orr_svg_open(out, "Where the time goes, by policy", (int)fleet->n * STEP);
    for (uint32_t i = 0; i < fleet->n; i++)
        put_bar(out, &fleet->outcomes[i], names[i], (int)i * STEP + 4);
    orr_svg_close(out);
}

/* --- effective time against replicas ---------------------------------------------------------- */

enum { HEIGHT = 300, FOOT = 30 };

static double y_of(double share)
{
    return HEIGHT - share * (HEIGHT - 12);
}

static void put_grid(orr_output *out)
{
    for (int percent = 0; percent <= 100; percent += 20) {
        const double y = y_of(percent / 100.0);
        orr_svg_line(out, "grid", LABEL, y, WIDTH, y);
        orr_svg_text(out, "", ORR_SVG_END, LABEL - 10, y + 4, "%d %%", percent);
    }
}

/* A line right across, its words by number beside one another. */
static void put_level(orr_output *out, const orr_fleet_outcome *o, int number)
{
    const char *name = orr_fleet_recovery_name((orr_fleet_recovery)o->policy.recovery);
    const double y = y_of(o->effective.mean);
    char share[ORR_HUMAN_MAX];
    orr_svg_line(out, "level", LABEL, y, WIDTH, y);
    orr_svg_text(out, "", ORR_SVG_END, WIDTH - 6 - number * 110, y + (number == 0 ? 14 : -5),
                 "%s %s", name, orr_human_frac(share, o->effective.mean));
}

static void put_point(orr_output *out, const orr_fleet_outcome *o, double x)
{
    const double low = y_of(o->effective.low), high = y_of(o->effective.high);
    char share[ORR_HUMAN_MAX];
    orr_svg_line(out, "spread", x, low, x, high);
    orr_output_printf(out, "<circle class=\"compute\" cx=\"%.1f\" cy=\"%.1f\" r=\"5\"/>\n", x,
                      y_of(o->effective.mean));
    orr_svg_text(out, "", ORR_SVG_MIDDLE, x, high - 9, "%s",
                 orr_human_frac(share, o->effective.mean));
    orr_svg_text(out, "", ORR_SVG_MIDDLE, x, HEIGHT + 20, "%u", o->policy.replicas);
}

void orr_svg_fleet_replicas(orr_output *out, const orr_fleet *fleet)
{
    uint32_t most = 1;
    int levels = 0;
    double before_x = 0, before_y = 0;
    for (uint32_t i = 0; i < fleet->n; i++)
        if (fleet->outcomes[i].policy.replicas > most)
            most = fleet->outcomes[i].policy.replicas;
    orr_svg_open(out, "Effective time against the number of replicas", HEIGHT + FOOT);
    put_grid(out);
    for (uint32_t i = 0; i < fleet->n; i++) {
        const orr_fleet_outcome *o = &fleet->outcomes[i];
        const double x = LABEL + 40 + (double)o->policy.replicas / most * (PLOT - 220);
        const double y = y_of(o->effective.mean);
        if (o->policy.recovery != ORR_FLEET_FT) {
            put_level(out, o, levels++);
            continue;
        }
        if (before_x > 0)
            orr_svg_line(out, "joined", before_x, before_y, x, y);
        put_point(out, o, x);
        before_x = x;
        before_y = y;
    }
    orr_svg_close(out);
}

/* --- a day ------------------------------------------------------------------------------------ */

static void put_piece(orr_output *out, const orr_fleet_outcome *o, const orr_fleet_piece *p,
                      double x, double w, double y, double height)
{
    const double up = height * p->contributing / o->policy.replicas;
    char time[ORR_HUMAN_MAX], words[200];
    orr_human_ns(time, (double)(p->end_ns - p->begin_ns));
    snprintf(words, sizeof words, "%s, %s, %u of %u", words_of(p->loss), time, p->contributing,
             o->policy.replicas);
    if (p->loss != ORR_FLEET_LOSSES) {
        orr_svg_rect(out, CLASSES[p->loss], x, y, w, height, words);
        return;
    }
    orr_svg_rect(out, CLASSES[ORR_FLEET_LOSSES], x, y + height - up, w, up, words);
    if (up < height)
        orr_svg_rect(out, CLASSES[ORR_FLEET_LOSS_DEGRADED], x, y, w, height - up, words);
}

void orr_svg_fleet_day(orr_output *out, const orr_fleet *fleet, const char *const *names)
{
    enum { ROW = 44, GAP = 12 };
    const int bottom = (int)fleet->n * (ROW + GAP);
    orr_svg_open(out, "A day of the job", bottom + 24);
    for (uint32_t i = 0; i < fleet->n; i++) {
        const orr_fleet_outcome *o = &fleet->outcomes[i];
        const orr_fleet_timeline *day = &o->day;
        const double scale = (double)PLOT / (double)(day->end_ns - day->begin_ns);
        const double y = (double)i * (ROW + GAP);
        orr_svg_text(out, "", ORR_SVG_END, LABEL - 10, y + ROW / 2.0 + 4, "%s", names[i]);
        for (uint32_t k = 0; k < day->n; k++) {
            const orr_fleet_piece *p = &day->pieces[k];
            put_piece(out, o, p, LABEL + (double)(p->begin_ns - day->begin_ns) * scale,
                      (double)(p->end_ns - p->begin_ns) * scale, y, ROW);
        }
    }
    for (int hour = 0; hour <= 24; hour += 3)
        orr_svg_text(out, "",
                     hour == 0    ? ORR_SVG_START
                     : hour == 24 ? ORR_SVG_END
                                  : ORR_SVG_MIDDLE,
                     LABEL + PLOT * hour / 24.0, bottom + 14, "%d h", hour);
    orr_svg_close(out);
}

/* --- sensitivity ------------------------------------------------------------------------------ */

static void put_change(orr_output *out, double change, double most, double y, const char *class,
                       const char *words)
{
    const double middle = LABEL + 90 + (PLOT - 90) / 2.0, half = (PLOT - 90) / 2.0 - VALUE;
    const double w = fabs(change) / most * half, x = change < 0 ? middle - w : middle;
    char text[ORR_HUMAN_MAX];
    orr_svg_rect(out, class, x, y, w, 10, words);
    orr_svg_text(out, "", change < 0 ? ORR_SVG_END : ORR_SVG_START,
                 change < 0 ? x - 5 : middle + w + 5, y + 10, "%s", orr_human_frac(text, change));
}

void orr_svg_fleet_sensitivity(orr_output *out, const orr_fleet *fleet, uint32_t policy)
{
    enum { ROW = 30 };
    int n = 0;
    double most = 1e-6;
    for (uint32_t i = 0; i < fleet->n_effects; i++) {
        const orr_fleet_effect *e = &fleet->effects[i];
        if (e->policy != policy)
            continue;
        most = fmax(most, fmax(fabs(e->half), fabs(e->twice)));
        n++;
    }
    orr_svg_open(out, "What each setting moves", n * ROW + 4);
    n = 0;
    for (uint32_t i = 0; i < fleet->n_effects; i++) {
        const orr_fleet_effect *e = &fleet->effects[i];
        const double y = n * ROW;
        if (e->policy != policy)
            continue;
        n++;
        orr_svg_text(out, "", ORR_SVG_END, LABEL + 80, y + 17, "%s %s", e->word, e->value);
        put_change(out, e->half, most, y + 1, "compute", "halved");
        put_change(out, e->twice, most, y + 13, "comm", "doubled");
    }
    orr_svg_close(out);
}
