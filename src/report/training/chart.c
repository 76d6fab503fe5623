/* SPDX-License-Identifier: Apache-2.0 */
#include "report/training/chart.h"

#include <math.h>

#include "report/page/svg.h"

enum {
    WIDTH = ORR_SVG_WIDTH,
    LEFT = 90,
    RIGHT = 30,
    TOP = 14,
    HEIGHT = 300,
    FOOT = 44,
    TICKS = 4,
    POINTS = 640 /* of a curve, at most */
};

static double x_of(const orr_step_chart *c, double step)
{
    return LEFT + (c->steps > 1 ? step / (double)(c->steps - 1) : 0.5) * (WIDTH - LEFT - RIGHT);
}

static double y_of(const orr_step_chart *c, double value)
{
    const double span = c->most - c->least;
    return TOP + HEIGHT * (1 - (span > 0 ? (value - c->least) / span : 0.5));
}

static void put_axes(orr_output *out, const orr_step_chart *c)
{
    char text[64];
    for (int k = 0; k <= TICKS; k++) {
        const double value = c->least + (c->most - c->least) * k / TICKS;
        const int64_t step = (c->steps - 1) * k / TICKS;
        const double y = y_of(c, value), x = x_of(c, (double)step);
        orr_svg_line(out, "grid", LEFT, y, WIDTH - RIGHT, y);
        orr_svg_text(out, "tick", ORR_SVG_END, LEFT - 8, y + 4, "%s", c->format(text, value));
        if (k == 0 || step > (c->steps - 1) * (k - 1) / TICKS)
            orr_svg_text(out, "tick", ORR_SVG_MIDDLE, x, TOP + HEIGHT + 18, "%lld",
                         (long long)(c->first_step + step));
    }
    orr_svg_text(out, "tick", ORR_SVG_END, WIDTH - RIGHT, TOP + HEIGHT + 36, "step");
}

static void put_curve(orr_output *out, const orr_step_chart *c, const orr_step_curve *curve)
{
    const int64_t each = (c->steps + POINTS - 1) / POINTS;
    bool begun = false;
    orr_output_printf(out,
                      "<path class=\"%s\" style=\"fill:none;stroke:var(--c);stroke-width:2\" d=\"",
                      curve->class);
    for (int64_t first = 0; first < c->steps; first += each) {
        double sum = 0, at = 0, n = 0;
        for (int64_t i = first; i < first + each && i < c->steps; i++)
            if (isfinite(curve->value[i])) {
                sum += curve->value[i];
                at += (double)i;
                n++;
            }
        if (n == 0)
            continue;
        orr_output_printf(out, "%c%.1f %.1f", begun ? 'L' : 'M', x_of(c, at / n),
                          y_of(c, fmin(fmax(sum / n, c->least), c->most)));
        begun = true;
    }
    orr_output_text(out, "\"/>\n");
}

void orr_step_chart_put(orr_output *out, const orr_step_chart *c)
{
    orr_html_figure_open(out, c->title, c->note);
    if (c->n > 1) {
        orr_html_legend_open(out);
        for (uint32_t i = 0; i < c->n; i++)
            orr_html_legend(out, c->curves[i].class, "%s", c->curves[i].name);
        orr_html_legend_close(out);
    }
    orr_svg_open(out, c->title, TOP + HEIGHT + FOOT);
    put_axes(out, c);
    for (uint32_t i = 0; i < c->n; i++)
        put_curve(out, c, &c->curves[i]);
    orr_svg_close(out);
    orr_html_figure_close(out);
}
