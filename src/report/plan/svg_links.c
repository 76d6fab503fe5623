/* SPDX-License-Identifier: Apache-2.0 */
#include "report/humanize/human.h"
#include "report/page/svg.h"
#include "report/plan/svg.h"

enum { BAR = 18, STEP = 26, LABEL = ORR_PLAN_LABEL + 30, WORDS = 420 };

static void draw_use(orr_output *out, const orr_outcome *o, const orr_axis_use *use, int y)
{
    const double full = ORR_SVG_WIDTH - LABEL - WORDS;
    const double share_w = use->utilisation_frac < 1 ? use->utilisation_frac * full : full;
    const double w = share_w > 1 ? share_w : 1;
    const char *level =
        use->level < o->cluster->n_levels ? o->cluster->levels[use->level].name : "";
    char share[ORR_HUMAN_MAX], bytes[ORR_HUMAN_MAX], exposed[ORR_HUMAN_MAX];
    orr_svg_text(out, "", ORR_SVG_END, LABEL - 10, y + 13, "%s, in a %s",
                 orr_axis_name((orr_axis)use->axis), level);
    orr_svg_rect(out, "comm", LABEL, y, w, BAR, NULL);
    orr_svg_text(out, "", ORR_SVG_START, LABEL + 8 + w, y + 13,
                 "%s of the bandwidth; %s sent; %s exposed",
                 orr_human_frac(share, use->utilisation_frac), orr_human_bytes(bytes, use->bytes),
                 orr_human_ns(exposed, (double)use->exposed_ns));
}

void orr_svg_links(orr_output *out, const orr_outcome *outcome)
{
    orr_svg_open(out, "Use of the links", (int)outcome->n_axes * STEP);
    for (uint32_t i = 0; i < outcome->n_axes; i++)
        draw_use(out, outcome, &outcome->axes[i], (int)i * STEP + (STEP - BAR) / 2);
    orr_svg_close(out);
}
