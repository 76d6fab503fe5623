/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdio.h>

#include "report/explore/describe.h"
#include "report/explore/svg.h"
#include "report/page/html.h"
#include "report/page/svg.h"

enum {
    WIDTH = ORR_SVG_WIDTH,
    LEFT = 110,
    RIGHT = 30,
    TOP = 14,
    HEIGHT = 440,
    FOOT = 48,
    TICKS = 6
};

/* One objective along one side. Logarithmic where it spans much. */
typedef struct side {
    orr_objective objective;
    double low, high; /* values at the ends */
    double from, to;  /* places of the ends */
    bool log;
} side;
typedef struct plot {
    orr_output *out;
    const orr_explore_report *r;
    side x, y;
} plot;

static double place(const side *s, double value)
{
    const double t = s->log ? log(value / s->low) / log(s->high / s->low)
                            : (value - s->low) / (s->high - s->low);
    return s->from + (t < 0 ? 0 : t > 1 ? 1 : t) * (s->to - s->from);
}

static void include(side *s, double value)
{
    if (!isfinite(value) || value <= 0)
        return;
    s->low = fmin(s->low, value);
    s->high = fmax(s->high, value);
}

/* Everything that is drawn, with some room around it. */
static side side_of(const orr_explore_report *r, uint8_t objective, double from, double to)
{
    const orr_exploration *x = r->exploration;
    side s = {(orr_objective)objective, INFINITY, 0, from, to, false};
    for (uint32_t i = 0; i < x->n_front; i++)
        include(&s, x->front[i].value[objective]);
    for (uint32_t i = 0; i < x->n; i++)
        include(&s, x->best[i].value[objective]);
    for (uint32_t i = 0; i < r->n_baseline_plans; i++)
        if (r->baseline_plans[i].why_not == NULL)
            include(&s, r->baseline_plans[i].explored.value[objective]);
    if (objective == r->options->objective)
        include(&s, x->bound);
    s.log = s.high > 5 * s.low;
    if (s.log) {
        const double room = pow(s.high / s.low, 0.07);
        s.low /= room;
        s.high *= room;
    } else {
        const double room = s.high > s.low ? 0.08 * (s.high - s.low) : 0.1 * s.high;
        s.low -= room;
        s.high += room;
    }
    return s;
}

/* 1, 2 and 5 of every decade; of a short side that is not logarithmic the step that gives some four
 * of them. */
static double next_tick(const side *s, double after)
{
    static const double steps[] = {1, 2, 5, 10};
    const double span = s->log ? after : (s->high - s->low) / TICKS;
    const double decade = pow(10, floor(log10(span) + 1e-9));
    for (int i = 0; i < 4 && s->log; i++)
        if (steps[i] * decade > after * (1 + 1e-9))
            return steps[i] * decade;
    double step = 10 * decade;
    for (int i = 3; i >= 0; i--)
        if (steps[i] * decade >= span)
            step = steps[i] * decade;
    return (floor(after / step + 1e-9) + 1) * step;
}

static void put_tick(const plot *p, const side *s, double value)
{
    const double at = place(s, value);
    char human[ORR_HUMAN_MAX];
    orr_objective_human(s->objective, value, human);
    if (s == &p->x) {
        orr_svg_line(p->out, "grid", at, TOP, at, TOP + HEIGHT);
        orr_svg_text(p->out, "", ORR_SVG_MIDDLE, at, TOP + HEIGHT + 18, "%s", human);
    } else {
        orr_svg_line(p->out, "grid", LEFT, at, WIDTH - RIGHT, at);
        orr_svg_text(p->out, "", ORR_SVG_END, LEFT - 8, at + 4, "%s", human);
    }
}

static void put_ticks(const plot *p)
{
    const side *const sides[2] = {&p->x, &p->y};
    for (int k = 0; k < 2; k++)
        for (double v = next_tick(sides[k], sides[k]->low * (1 - 1e-9)); v <= sides[k]->high;
             v = next_tick(sides[k], v))
            put_tick(p, sides[k], v);
    orr_svg_text(p->out, "strong", ORR_SVG_MIDDLE, (LEFT + WIDTH - RIGHT) / 2.0, TOP + HEIGHT + 40,
                 "%s", orr_objective_name(p->x.objective));
    orr_output_printf(p->out,
                      "<text class=\"strong\" text-anchor=\"middle\" "
                      "transform=\"translate(16 %d) rotate(-90)\">%s</text>\n",
                      TOP + HEIGHT / 2, orr_objective_name(p->y.objective));
}

/* --- regions --------------------------------------------------------------------------------- */

/* What a plan of the front is better than in both: to the right of it and above. */
static void put_worse(const plot *p)
{
    const orr_exploration *x = p->r->exploration;
    const double right = WIDTH - RIGHT;
    orr_output_printf(p->out, "<path class=\"worse\" d=\"M%.1f %d",
                      place(&p->x, x->front[0].value[p->x.objective]), TOP);
    for (uint32_t i = 0; i < x->n_front; i++) {
        const double at = place(&p->x, x->front[i].value[p->x.objective]);
        orr_output_printf(p->out, "H%.1fV%.1f", at,
                          place(&p->y, x->front[i].value[p->y.objective]));
    }
    orr_output_printf(p->out, "H%.1fV%dz\"/>\n", right, TOP);
    orr_svg_text(p->out, "halo", ORR_SVG_END, right - 12,
                 place(&p->y, x->front[x->n_front - 1].value[p->y.objective]) - 10, "%s",
                 "worse in both than a plan of the front");
}

static void put_bound(const plot *p)
{
    const double at = place(&p->x, p->r->exploration->bound);
    char words[120], human[ORR_HUMAN_MAX];
    if (!isfinite(p->r->exploration->bound) || at - LEFT < 1)
        return;
    snprintf(words, sizeof words, "proven: nothing below %s",
             orr_objective_human(p->x.objective, p->r->exploration->bound, human));
    orr_svg_rect(p->out, "hatch", LEFT, TOP, at - LEFT, HEIGHT, words);
    orr_output_printf(p->out,
                      "<text class=\"halo\" text-anchor=\"start\" transform=\"translate(%.1f %d) "
                      "rotate(-90)\">%s</text>\n",
                      at - 6, TOP + HEIGHT - 12, words);
}

/* Fewer devices than any plan of the front takes, more than there are. */
static void put_devices(const plot *p)
{
    const orr_exploration *x = p->r->exploration;
    double least = INFINITY;
    if (p->y.objective != ORR_OBJECTIVE_DEVICES)
        return;
    for (uint32_t i = 0; i < x->n_front; i++)
        least = fmin(least, x->front[i].value[ORR_OBJECTIVE_DEVICES]);
    const double at = place(&p->y, least) + 8, bottom = TOP + HEIGHT;
    if (bottom - at > 14) {
        orr_svg_rect(p->out, "hatch", LEFT, at, WIDTH - RIGHT - LEFT, bottom - at,
                     "no plan was found with fewer devices");
        orr_svg_text(p->out, "halo", ORR_SVG_END, WIDTH - RIGHT - 12, bottom - 8, "%s",
                     "no plan was found with fewer devices");
    }
    const double all = place(&p->y, p->r->cluster->n_devices);
    if (p->r->cluster->n_devices < p->y.high && all - TOP > 1)
        orr_svg_rect(p->out, "hatch", LEFT, TOP, WIDTH - RIGHT - LEFT, all - TOP,
                     "more devices than there are");
}

/* --- points ---------------------------------------------------------------------------------- */

static void put_point(const plot *p, const orr_explored *e, const char *shape, const char *class,
                      const char *words)
{
    const double x = place(&p->x, e->value[p->x.objective]);
    const double y = place(&p->y, e->value[p->y.objective]);
    char a[ORR_HUMAN_MAX], b[ORR_HUMAN_MAX];
    if (!isfinite(e->value[p->x.objective]) || !isfinite(e->value[p->y.objective]))
        return;
    if (*shape == 'o')
        orr_output_printf(p->out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"6\">", class, x,
                          y);
    else
        orr_output_printf(p->out, "<path class=\"%s\" d=\"M%.1f %.1fl7 7l-7 7l-7 -7z\">", class, x,
                          y - 7);
    orr_output_text(p->out, "<title>");
    orr_html_printf(p->out, "%s: %s, %s", words,
                    orr_objective_human(p->x.objective, e->value[p->x.objective], a),
                    orr_objective_human(p->y.objective, e->value[p->y.objective], b));
    orr_output_printf(p->out, "</title></%s>\n", *shape == 'o' ? "circle" : "path");
}

/* Names of other searchers, each moved down until it meets none before it. */
static void put_names(const plot *p)
{
    double xs[ORR_BASELINES], ys[ORR_BASELINES];
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->r->n_baseline_plans && n < ORR_BASELINES; i++) {
        const orr_explore_baseline_plan *baseline_plan = &p->r->baseline_plans[i];
        const double *value = baseline_plan->explored.value;
        if (baseline_plan->why_not != NULL || !isfinite(value[p->x.objective]) ||
            !isfinite(value[p->y.objective]))
            continue;
        const double x = place(&p->x, value[p->x.objective]) + 11;
        double y = place(&p->y, value[p->y.objective]) + 4;
        for (uint32_t k = 0; k < n; k++)
            if (fabs(xs[k] - x) < 72 && fabs(ys[k] - y) < 13) {
                y = ys[k] + 14;
                k = ORR_NONE; /* from the start */
            }
        orr_svg_text(p->out, "halo", ORR_SVG_START, x, y, "%s",
                     orr_baseline_name((orr_baseline)baseline_plan->baseline));
        xs[n] = x;
        ys[n++] = y;
    }
}

static void put_points(const plot *p)
{
    const orr_exploration *x = p->r->exploration;
    char words[40];
    for (uint32_t i = 0; i < p->r->n_baseline_plans; i++)
        if (p->r->baseline_plans[i].why_not == NULL)
            put_point(p, &p->r->baseline_plans[i].explored, "diamond", "other stroke",
                      orr_baseline_name((orr_baseline)p->r->baseline_plans[i].baseline));
    put_names(p);
    for (uint32_t i = 1; i < x->n; i++) {
        snprintf(words, sizeof words, "plan %u", i + 1);
        put_point(p, &x->best[i], "o", "kernels stroke", words);
    }
    for (uint32_t i = 0; i < x->n_front; i++)
        put_point(p, &x->front[i], "o", "good stroke", "front");
}

static void put_line(const plot *p)
{
    const orr_exploration *x = p->r->exploration;
    orr_output_text(p->out, "<path class=\"front\" d=\"");
    for (uint32_t i = 0; i < x->n_front; i++) {
        const double at = place(&p->x, x->front[i].value[p->x.objective]);
        const double y = place(&p->y, x->front[i].value[p->y.objective]);
        if (i == 0)
            orr_output_printf(p->out, "M%.1f %.1f", at, y);
        else
            orr_output_printf(p->out, "H%.1fV%.1f", at, y);
    }
    orr_output_text(p->out, "\"/>\n");
}

void orr_svg_explore_front(orr_output *out, const orr_explore_report *r)
{
    const plot p = {out, r, side_of(r, r->options->objective, LEFT, WIDTH - RIGHT),
                    side_of(r, r->options->second, TOP + HEIGHT, TOP)};
    orr_svg_open(out, "The front of two objectives", TOP + HEIGHT + FOOT);
    put_worse(&p);
    put_ticks(&p);
    put_bound(&p);
    put_devices(&p);
    put_line(&p);
    put_points(&p);
    orr_svg_close(out);
}
