/* SPDX-License-Identifier: Apache-2.0 */
#include "report/page/html.h"
#include "report/humanize/human.h"
#include "report/plan/svg.h"

enum { BAR = 18, STEP = 26, LABEL = ORR_PLAN_LABEL + 30, WORDS = 420 };

static void draw_use(orr_output *out, const orr_outcome *o, const orr_axis_use *use, int y)
{
    const double full = ORR_PLAN_WIDTH - LABEL - WORDS;
    const double w = use->utilisation_frac < 1 ? use->utilisation_frac * full : full;
    const char *level =
        use->level < o->cluster->n_levels ? o->cluster->levels[use->level].name : "";
    char share[ORR_HUMAN_MAX], bytes[ORR_HUMAN_MAX], exposed[ORR_HUMAN_MAX];
    orr_output_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", LABEL - 10, y + 13);
    orr_html_printf(out, "%s, in a %s", orr_axis_name((orr_axis)use->axis), level);
    orr_output_printf(out,
                      "</text><rect class=\"comm\" x=\"%d\" y=\"%d\" width=\"%.2f\" height=\"%d\"/>"
                      "<text x=\"%.2f\" y=\"%d\">%s of the bandwidth; %s sent; %s exposed</text>\n",
                      LABEL, y, w > 1 ? w : 1, BAR, LABEL + 8 + (w > 1 ? w : 1), y + 13,
                      orr_human_frac(share, use->utilisation_frac),
                      orr_human_bytes(bytes, use->bytes),
                      orr_human_ns(exposed, (double)use->exposed_ns));
}

void orr_svg_links(orr_output *out, const orr_outcome *outcome)
{
    orr_output_printf(out,
                      "<svg class=\"breakdown\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" "
                      "aria-label=\"Use of the links\" viewBox=\"0 0 %d %d\" font-size=\"12\">\n",
                      ORR_PLAN_WIDTH, (int)outcome->n_axes * STEP);
    for (uint32_t i = 0; i < outcome->n_axes; i++)
        draw_use(out, outcome, &outcome->axes[i], (int)i * STEP + (STEP - BAR) / 2);
    orr_output_text(out, "</svg>\n");
}
