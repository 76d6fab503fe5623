/* SPDX-License-Identifier: Apache-2.0 */
#include "report/humanize/human.h"
#include "report/page/svg.h"
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
    case ORR_WATERFALL_TIERS:
        return "memory";
    case ORR_WATERFALL_OVERHEAD:
        return "overhead";
    default:
        return "comm";
    }
}

static void put_row(orr_output *out, const char *words, const char *class, int64_t from_ns,
                    int64_t ns, const orr_outcome *o, int64_t whole_ns, int y)
{
    const double scale = (double)(ORR_SVG_WIDTH - ORR_PLAN_LABEL - 60 - VALUE) / (double)whole_ns;
    const double x = ORR_PLAN_LABEL + 60 + (double)from_ns * scale, w = (double)ns * scale;
    char time[ORR_HUMAN_MAX], share[ORR_HUMAN_MAX];
    orr_human_ns(time, (double)ns);
    orr_human_frac(share, (double)ns / (double)o->step_ns);
    orr_svg_text(out, "", ORR_SVG_END, ORR_PLAN_LABEL + 50, y + 14, "%s", words);
    orr_svg_rect(out, class, x, y, w > 1 ? w : 1, BAR, NULL);
    orr_svg_text(out, "", ORR_SVG_START, x + (w > 1 ? w : 1) + 8, y + 14, "%s, %s", time, share);
}

void orr_svg_waterfall(orr_output *out, const orr_outcome *outcome, int64_t whole_ns)
{
    int rows = 1;
    int64_t at_ns = 0;
    for (int i = 0; i < ORR_WATERFALLS; i++)
        rows += outcome->waterfall_ns[i] > 0;
    orr_svg_open(out, "From ideal time to step time", rows * STEP);
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
    orr_svg_close(out);
}
