/* SPDX-License-Identifier: Apache-2.0 */
#include "report/humanize/human.h"
#include "report/plan/svg.h"

enum { BAR = 20, STEP = 28, VALUE = 190 };

/* Colour of a part: what is worth it, what computes, what travels, what waits. */
static const char *class_of(orr_waterfall part)
{
    switch (part) {
    case ORR_WATERFALL_IDEAL:
        return "compute";
    case ORR_WATERFALL_KERNELS:
    case ORR_WATERFALL_RECOMPUTE:
    case ORR_WATERFALL_OPTIMIZER:
        return "host";
    case ORR_WATERFALL_BUBBLE:
        return "idle";
    case ORR_WATERFALL_OVERHEAD:
        return "overhead";
    default:
        return "comm";
    }
}

static void put_row(orr_output *out, const char *words, const char *class, int64_t from_ns,
                    int64_t ns, const orr_outcome *o, int64_t whole_ns, int y)
{
    const double scale = (double)(ORR_PLAN_WIDTH - ORR_PLAN_LABEL - 60 - VALUE) / (double)whole_ns;
    const double x = ORR_PLAN_LABEL + 60 + (double)from_ns * scale, w = (double)ns * scale;
    char time[ORR_HUMAN_MAX], share[ORR_HUMAN_MAX];
    orr_human_ns(time, (double)ns);
    orr_human_frac(share, (double)ns / (double)o->step_ns);
    orr_output_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n",
                      ORR_PLAN_LABEL + 50, y + 14, words);
    orr_output_printf(out,
                      "<rect class=\"%s\" x=\"%.2f\" y=\"%d\" width=\"%.2f\" height=\"%d\"/>"
                      "<text x=\"%.2f\" y=\"%d\">%s, %s</text>\n",
                      class, x, y, w > 1 ? w : 1, BAR, x + (w > 1 ? w : 1) + 8, y + 14, time,
                      share);
}

void orr_svg_waterfall(orr_output *out, const orr_outcome *outcome, int64_t whole_ns)
{
    int rows = 1;
    int64_t at_ns = 0;
    for (int i = 0; i < ORR_WATERFALLS; i++)
        rows += outcome->waterfall_ns[i] > 0;
    orr_output_printf(out,
                      "<svg class=\"breakdown\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
                      "aria-label=\"From ideal time to step time\" viewBox=\"0 0 %d %d\" "
                      "font-size=\"12\">\n",
                      ORR_PLAN_WIDTH, rows * STEP);
    int y = (STEP - BAR) / 2;
    for (int i = 0; i < ORR_WATERFALLS; i++) {
        const int64_t ns = outcome->waterfall_ns[i];
        if (ns <= 0)
            continue;
        put_row(out, orr_waterfall_name((orr_waterfall)i), class_of((orr_waterfall)i), at_ns, ns,
                outcome, whole_ns, y);
        at_ns += ns;
        y += STEP;
    }
    put_row(out, "step", "sync", 0, outcome->step_ns, outcome, whole_ns, y);
    orr_output_text(out, "</svg>\n");
}
