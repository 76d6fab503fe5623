/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "report/fleet/parts.h"
#include "report/page/html.h"
#include "report/humanize/human.h"

enum { WIDTH = ORR_FLEET_WIDTH, LABEL = ORR_FLEET_LABEL, PLOT = WIDTH - LABEL, VALUE = 70 };

/* By orr_fleet_loss; the last is what stands. Told apart with any colour vision by their order and
 * by lightness where they touch. */
static const char *const FILLS[ORR_FLEET_LOSSES + 1] = {
    [ORR_FLEET_LOSS_DETECTION] = "#e08a1e", [ORR_FLEET_LOSS_REGROUPING] = "#a8422b",
    [ORR_FLEET_LOSS_RETRY] = "#ecc22b",     [ORR_FLEET_LOSS_RECOMPUTE] = "#7a4a1f",
    [ORR_FLEET_LOSS_SAVING] = "#c9b1d8",    [ORR_FLEET_LOSS_SCHEDULING] = "#1f7a66",
    [ORR_FLEET_LOSS_STARTING] = "#8fd1bf",  [ORR_FLEET_LOSS_LOADING] = "#55702f",
    [ORR_FLEET_LOSS_CATCH_UP] = "#d76fa3",  [ORR_FLEET_LOSS_DEGRADED] = "#b9d0e8",
    [ORR_FLEET_LOSS_SLOWED] = "#dccb7c",    [ORR_FLEET_LOSS_HALTED] = "#3b4350",
    [ORR_FLEET_LOSSES] = "#3b76c4",
};

static const char *words_of(int loss)
{
    return loss == ORR_FLEET_LOSSES ? "steps that stand"
                                    : orr_fleet_loss_name((orr_fleet_loss)loss);
}

static void open_picture(orr_output *out, const char *about, int height)
{
    orr_output_printf(out,
                      "<svg class=\"fleet\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
                      "aria-label=\"%s\" viewBox=\"0 0 %d %d\" width=\"100%%\" "
                      "font-size=\"12\" fill=\"currentColor\">\n",
                      about, WIDTH, height);
}

static void put_rect(orr_output *out, double x, double y, double w, double h, const char *fill,
                     const char *words)
{
    orr_output_printf(out,
                      "<rect fill=\"%s\" x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\">"
                      "<title>%s</title></rect>\n",
                      fill, x, y, w, h, words);
}

static void put_label(orr_output *out, const char *name, double y)
{
    orr_output_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LABEL - 10,
                      y, name);
}

/* --- losses ----------------------------------------------------------------------------------- */

static double share_of(const orr_fleet_outcome *o, int loss)
{
    return loss == ORR_FLEET_LOSSES ? o->effective.mean : o->lost[loss].mean;
}

/* What is 0.05 % of any bar, in columns. Returns where the bars begin. */
static int put_legend(orr_output *out, const orr_fleet *fleet, bool draw)
{
    enum { COLUMN = 258, LINE = 20 };
    int n = 0;
    for (int k = ORR_FLEET_LOSSES; k >= 0; k--) {
        double most = 0;
        for (uint32_t i = 0; i < fleet->n; i++)
            most = fmax(most, share_of(&fleet->outcomes[i], k));
        if (most < 0.0005)
            continue;
        const int x = LABEL + n % 5 * COLUMN, y = n / 5 * LINE;
        if (draw)
            orr_output_printf(out,
                              "<rect fill=\"%s\" x=\"%d\" y=\"%d\" width=\"11\" height=\"11\"/>"
                              "<text x=\"%d\" y=\"%d\">%s</text>\n",
                              FILLS[k], x, y + 2, x + 17, y + 12, words_of(k));
        n++;
    }
    return (n + 4) / 5 * LINE + 8;
}

static void put_bar(orr_output *out, const orr_fleet_outcome *o, const char *name, int y)
{
    enum { BAR = 22 };
    double x = LABEL;
    put_label(out, name, y + 15);
    for (int k = ORR_FLEET_LOSSES; k >= 0; k--) {
        const double w = share_of(o, k) * PLOT;
        char share[ORR_HUMAN_MAX], words[160];
        if (w <= 0)
            continue;
        orr_human_frac(share, share_of(o, k));
        snprintf(words, sizeof words, "%s, %s: %s", name, words_of(k), share);
        put_rect(out, x, y, w, BAR, FILLS[k], words);
        if (k == ORR_FLEET_LOSSES && w > 60)
            orr_output_printf(out, "<text x=\"%.1f\" y=\"%d\" fill=\"#fff\">%s</text>\n", x + 8,
                              y + 15, share);
        x += w;
    }
}

void orr_svg_fleet_losses(orr_output *out, const orr_fleet *fleet, const char *const *names)
{
    enum { STEP = 30 };
    const int top = put_legend(out, fleet, false);
    open_picture(out, "Where the time goes, by policy", top + (int)fleet->n * STEP);
    put_legend(out, fleet, true);
    for (uint32_t i = 0; i < fleet->n; i++)
        put_bar(out, &fleet->outcomes[i], names[i], top + (int)i * STEP);
    orr_output_text(out, "</svg>\n");
}

/* --- effective time against replicas ---------------------------------------------------------- */

enum { HEIGHT = 300, FOOT = 30 };

static double y_of(double share)
{
    return HEIGHT - share * (HEIGHT - 12);
}

static void put_grid(orr_output *out)
{
    for (int percent = 0; percent <= 100; percent += 20)
        orr_output_printf(out,
                          "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#e1e5eb\"/>"
                          "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%d %%</text>\n",
                          LABEL, WIDTH, y_of(percent / 100.0), y_of(percent / 100.0), LABEL - 10,
                          y_of(percent / 100.0) + 4, percent);
}

/* A line right across, its words by number beside one another. */
static void put_level(orr_output *out, const orr_fleet_outcome *o, int number)
{
    const char *name = orr_fleet_recovery_name((orr_fleet_recovery)o->policy.recovery);
    const double y = y_of(o->effective.mean);
    char share[ORR_HUMAN_MAX];
    orr_output_printf(
        out,
        "<line x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#a8422b\" "
        "stroke-dasharray=\"6 4\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s %s"
        "</text>\n",
        LABEL, WIDTH, y, y, WIDTH - 6 - number * 110, y + (number == 0 ? 14 : -5), name,
        orr_human_frac(share, o->effective.mean));
}

static void put_point(orr_output *out, const orr_fleet_outcome *o, double x)
{
    char share[ORR_HUMAN_MAX];
    orr_human_frac(share, o->effective.mean);
    orr_output_printf(
        out,
        "<line x1=\"%.1f\" x2=\"%.1f\" y1=\"%.1f\" y2=\"%.1f\" stroke=\"#3b76c4\" "
        "stroke-width=\"6\" stroke-opacity=\"0.35\"/><circle cx=\"%.1f\" cy=\"%.1f\" "
        "r=\"5\" fill=\"#3b76c4\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s"
        "</text><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%u</text>\n",
        x, x, y_of(o->effective.low), y_of(o->effective.high), x, y_of(o->effective.mean), x,
        y_of(o->effective.high) - 9, share, x, HEIGHT + 20, o->policy.replicas);
}

void orr_svg_fleet_replicas(orr_output *out, const orr_fleet *fleet)
{
    uint32_t most = 1;
    int levels = 0;
    double before_x = 0, before_y = 0;
    for (uint32_t i = 0; i < fleet->n; i++)
        if (fleet->outcomes[i].policy.replicas > most)
            most = fleet->outcomes[i].policy.replicas;
    open_picture(out, "Effective time against the number of replicas", HEIGHT + FOOT);
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
            orr_output_printf(out,
                              "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                              "stroke=\"#3b76c4\" stroke-width=\"2\"/>\n",
                              before_x, before_y, x, y);
        put_point(out, o, x);
        before_x = x;
        before_y = y;
    }
    orr_output_text(out, "</svg>\n");
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
        put_rect(out, x, y, w, height, FILLS[p->loss], words);
        return;
    }
    put_rect(out, x, y + height - up, w, up, FILLS[ORR_FLEET_LOSSES], words);
    if (up < height)
        put_rect(out, x, y, w, height - up, FILLS[ORR_FLEET_LOSS_DEGRADED], words);
}

void orr_svg_fleet_day(orr_output *out, const orr_fleet *fleet, const char *const *names)
{
    enum { ROW = 44, GAP = 12 };
    const int bottom = (int)fleet->n * (ROW + GAP);
    open_picture(out, "A day of the job", bottom + 24);
    for (uint32_t i = 0; i < fleet->n; i++) {
        const orr_fleet_outcome *o = &fleet->outcomes[i];
        const orr_fleet_timeline *day = &o->day;
        const double scale = (double)PLOT / (double)(day->end_ns - day->begin_ns);
        const double y = (double)i * (ROW + GAP);
        put_label(out, names[i], y + ROW / 2.0 + 4);
        for (uint32_t k = 0; k < day->n; k++) {
            const orr_fleet_piece *p = &day->pieces[k];
            put_piece(out, o, p, LABEL + (double)(p->begin_ns - day->begin_ns) * scale,
                      (double)(p->end_ns - p->begin_ns) * scale, y, ROW);
        }
    }
    for (int hour = 0; hour <= 24; hour += 3)
        orr_output_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%d h</text>\n",
                          LABEL + PLOT * hour / 24.0, bottom + 14,
                          hour == 0    ? "start"
                          : hour == 24 ? "end"
                                       : "middle",
                          hour);
    orr_output_text(out, "</svg>\n");
}

/* --- sensitivity ------------------------------------------------------------------------------ */

static void put_change(orr_output *out, double change, double most, double y, const char *fill,
                       const char *words)
{
    const double middle = LABEL + 90 + (PLOT - 90) / 2.0, half = (PLOT - 90) / 2.0 - VALUE;
    const double w = fabs(change) / most * half;
    char text[ORR_HUMAN_MAX];
    put_rect(out, change < 0 ? middle - w : middle, y, w > 0.5 ? w : 0.5, 8, fill, words);
    orr_output_printf(out,
                      "<text x=\"%.1f\" y=\"%.1f\" font-size=\"10\" text-anchor=\"%s\">%s</text>\n",
                      change < 0 ? middle - w - 5 : middle + w + 5, y + 8,
                      change < 0 ? "end" : "start", orr_human_frac(text, change));
}

void orr_svg_fleet_sensitivity(orr_output *out, const orr_fleet *fleet, uint32_t policy)
{
    enum { ROW = 26 };
    int n = 0;
    double most = 1e-6;
    for (uint32_t i = 0; i < fleet->n_effects; i++) {
        const orr_fleet_effect *e = &fleet->effects[i];
        if (e->policy != policy)
            continue;
        most = fmax(most, fmax(fabs(e->half), fabs(e->twice)));
        n++;
    }
    open_picture(out, "What each setting moves", n * ROW + 4);
    n = 0;
    for (uint32_t i = 0; i < fleet->n_effects; i++) {
        const orr_fleet_effect *e = &fleet->effects[i];
        const double y = n * ROW;
        if (e->policy != policy)
            continue;
        n++;
        orr_output_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LABEL + 80,
                          y + 14);
        orr_html_printf(out, "%s %s", e->word, e->value);
        orr_output_text(out, "</text>\n");
        put_change(out, e->half, most, y + 1, "#3b76c4", "halved");
        put_change(out, e->twice, most, y + 11, "#e08a1e", "doubled");
    }
    orr_output_text(out, "</svg>\n");
}
